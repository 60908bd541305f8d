"""What is trained, on what and how: a model, its data and a recipe, by name."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pathlib
from typing import Any, Callable

from torch import nn

from lab.adapters import adapt
from lab.data import Batches, read_text
from lab.dense import DenseDecoder, DenseShape, Gpt2, GroupedAttention, LatentAttention
from lab.faults import Knobs
from lab.images import Pictures
from lab.language import VOCABULARY, read_language
from lab.model import Decoder, Shape
from lab.parallel import Grid
from lab.trainer import Recipe, Trainer
from lab.vision import Vit

LENGTH = 32
TRAINED_STEPS = 400  # of what is fine-tuned


@dataclasses.dataclass(frozen=True)
class Setting:
    """One row of the table below.

    Attributes:
        build: (seed, grid) -> the model; only Decoder can be cut over tensor-parallel processes.
        source: (seed, sequences of a rank, dialect) -> batches; dialect 1 is what data changes to.
        dense_sampling: the monitor samples more often than by default (the recorded tables of
            docs/detection.md were made so).
    """

    build: Callable[[int, Grid], nn.Module]
    source: Callable[[int, int, int], Any]
    recipe: Recipe
    dense_sampling: bool = False


def decoder(text: pathlib.Path, shape: Shape = Shape(), recipe: Recipe = Recipe()) -> Setting:
    """The first model of the lab, on the bytes of the repository."""
    return Setting(functools.partial(Decoder, shape), functools.partial(_text, text, shape.length),
                   recipe, dense_sampling=True)  # fmt: skip


def _text(
    text: pathlib.Path, length: int, seed: int, sequences: int, dialect: int
) -> Batches:
    return Batches(read_text(text), seed + 1000 * dialect, sequences, length)


def _language(seed: int, sequences: int, dialect: int) -> Batches:
    return Batches(read_language(dialect), seed, sequences, LENGTH, VOCABULARY)


def _grouped(seed: int, grid: Grid, layers: int = 8) -> nn.Module:
    return DenseDecoder(DenseShape(layers=layers), seed, GroupedAttention)


def _latent(seed: int, grid: Grid) -> nn.Module:
    return DenseDecoder(DenseShape(layers=4), seed, LatentAttention)


def _gpt2(seed: int, grid: Grid) -> nn.Module:
    return Gpt2(DenseShape(layers=6), seed)


def _vit(seed: int, grid: Grid) -> nn.Module:
    return Vit(seed)


def _moe(seed: int, grid: Grid, **more: Any) -> nn.Module:
    shape = Shape(vocabulary=VOCABULARY, length=LENGTH, layers=4, expert_hidden=64, **more)
    return Decoder(shape, seed, grid)


@functools.lru_cache(maxsize=2)
def _trained(seed: int) -> nn.Module:
    recipe = dataclasses.replace(SETTINGS["gqa"].recipe, schedule="linear",
                                 schedule_steps=TRAINED_STEPS)  # fmt: skip
    batches = _language(seed + 500, recipe.sequences, 0)
    trainer = Trainer(lambda s: _grouped(s, Grid(), 6), recipe, seed, batches)
    for step in range(TRAINED_STEPS):
        trainer.step(step, Knobs())
    return trainer.model


def _tuned(seed: int, grid: Grid) -> nn.Module:
    return copy.deepcopy(_trained(seed))


def _adapted(seed: int, grid: Grid) -> nn.Module:
    return adapt(_tuned(seed, grid), seed)


def _fine(seed: int, sequences: int, dialect: int) -> Batches:
    return _language(seed, sequences, dialect + 2)


def _recipe(optimizer: str, lr: float, schedule: str, **more: Any) -> Recipe:
    given = dict(sequences=8, schedule_steps=500, warmup_steps=50)
    return Recipe(optimizer=optimizer, learning_rate=lr, schedule=schedule, **{**given, **more})


SETTINGS = {
    "gqa": Setting(_grouped, _language, _recipe("adamw", 3e-3, "cosine")),
    "gqa-muon": Setting(
        functools.partial(_grouped, layers=6), _language, _recipe("muon", 4e-3, "wsd")),
    "gqa-lion-noisy": Setting(
        _grouped, _language, _recipe("lion", 5e-4, "restarts", sequences=2, weight_decay=0.5)),
    "gpt2": Setting(_gpt2, _language, _recipe("adamw", 2e-3, "linear")),
    "gpt2-noisy": Setting(_gpt2, _language, _recipe("adamw", 2e-3, "constant", sequences=2)),
    "gpt2-bf16": Setting(_gpt2, _language, _recipe("adamw", 2e-3, "wsd", autocast=True)),
    "gpt2-fp16": Setting(_gpt2, _language, _recipe("adamw", 1e-3, "cosine", loss_scale=2.0**16)),
    "moe-softmax": Setting(_moe, _language, _recipe("adamw", 2e-3, "constant")),
    "moe-sigmoid": Setting(
        functools.partial(_moe, scoring="sigmoid", shared_hidden=64), _language,
        _recipe("muon", 3e-3, "wsd", balance=0.0)),
    "mla": Setting(_latent, _language, _recipe("adamw", 3e-3, "cosine")),
    "vit": Setting(
        _vit, Pictures,
        _recipe("sgd", 0.1, "cosine", sequences=32, weight_decay=1e-3)),
    "sft": Setting(
        _tuned, _fine, _recipe("adamw", 3e-4, "linear", sequences=4, warmup_steps=20)),
    "lora": Setting(
        _adapted, _fine, _recipe("adamw", 2e-3, "cosine", sequences=4, weight_decay=0.0)),
}
