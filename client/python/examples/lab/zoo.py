"""The zoo: every setting trained healthy and with every fault that it can have, and what is true of
each run, for rules to be judged by. `cells()` is the table; tests/lab/zoo.py runs it.

A faulty run has a healthy twin: the same setting and seed, so the same first weights and the same
batches. Harm is what the twin does not have: the step from which the loss on its batches stays HARM
worse. Where a fault spoils the data, that loss is measured beside the training.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
from typing import Any, Mapping

from lab import captures, processes, verdict
from lab.faults import FAULTS
from lab.settings import SETTINGS
from lab.train import Plan
from lab.watching import Sink

ABOUT = (
    "Runs of the fault lab's zoo (docs/fault_lab.md). split: the setting. harm_step: from here "
    "the loss stays 5 % worse than that of the healthy twin. unscored: a fault without harm."
)

STEPS = 500
HARM = 0.05  # of the twin's loss
HARM_NATS = 0.02  # and at least so much
HARM_STEPS = 20  # mean over so many steps
MOE = ("moe-softmax", "moe-sigmoid")
# QK-norm, norms of latents and sigmoid experts under Muon withstand a lot.
ROBUST = ("gqa", "gqa-muon", "gqa-lion-noisy", "sft", "lora", "mla", "moe-sigmoid")
DECODERS = tuple(name for name in SETTINGS if name not in ("vit",))
DEEP = {  # the layer of faults in one layer
    "gqa": 5, "gqa-muon": 2, "gqa-lion-noisy": 6, "gpt2": 3, "gpt2-noisy": 4, "gpt2-bf16": 1,
    "gpt2-fp16": 5, "moe-softmax": 2, "moe-sigmoid": 1, "mla": 3, "vit": 2, "sft": 4, "lora": 2,
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A row of CASES: a fault at a strength (None: its default), in all layers or in one; in the
    settings of `strengths` at another strength."""

    fault: str
    strength: float | None = None
    strengths: Mapping[str, float] = dataclasses.field(default_factory=dict)
    one_layer: bool = False
    one_head: bool = False
    settings: tuple[str, ...] = tuple(SETTINGS)
    inject_step: int | None = None  # None: INJECT_STEPS
    processes: int = 1


CASES = {
    "healthy": Case("none"),
    "data-change": Case("data-change"),
    "batch-size": Case("batch-size", 2.0),
    "batch-size-half": Case("batch-size", 0.5),
    "clean-resume": Case("clean-resume"),
    "attention": Case("attention-bias", 24, dict.fromkeys(ROBUST, 40), settings=DECODERS),
    "attention-layer": Case("attention-bias", 96, {**dict.fromkeys(ROBUST, 400), "mla": 96},
                            one_layer=True, settings=DECODERS),
    "attention-head": Case("attention-bias", 400, one_layer=True, one_head=True,
                           settings=("gqa", "gpt2", "mla")),
    "attention-zero-mean": Case("bf16-attention-zero-mean",
                                settings=("gqa", "gpt2", "moe-softmax")),
    "lr-3": Case("learning-rate-level", 3.0),
    "lr-8": Case("learning-rate-level", 8.0),
    "lr-30": Case("learning-rate-level", 30.0),
    "lr-start": Case("learning-rate-start", 30.0, settings=("gqa", "gpt2", "moe-softmax", "vit"),
                     inject_step=0),
    "router-collapse-layer": Case("router-collapse", 100, one_layer=True, settings=MOE),
    "router-collapse": Case("router-collapse", 300, settings=MOE),
    "balancing-lost": Case("balancing-lost", 60, settings=MOE),
    "balancing-lost-layer": Case("balancing-lost", 200, one_layer=True, settings=MOE),
    "dead-experts": Case("dead-experts", 6, settings=MOE),
    "hot-expert-layer": Case("hot-expert", one_layer=True, settings=MOE),
    "qk-growth-layer": Case("logit-growth", 200, one_layer=True),
    "qk-growth": Case("logit-growth", 50, settings=("gqa", "gpt2", "mla", "moe-softmax")),
    "weight-decay-sign": Case("weight-decay-sign", strengths={"vit": 120}),
    "update-factor": Case("optimizer", settings=("gqa", "gpt2", "moe-sigmoid")),
    "moments-lost": Case("moments-lost"),
    "layer-lost": Case("layer-lost", one_layer=True),
    "experts-lost": Case("resume", settings=MOE),
    "shuffled-labels": Case("shuffled-labels"),
    "repeated-batch": Case("repeated-batch", settings=("gqa", "gpt2", "moe-softmax", "sft")),
    "degenerate-tokens": Case("degenerate-tokens", settings=("gqa", "gpt2", "mla")),
    "noise-batches": Case("data-batch", 3.0, settings=("gqa", "gpt2", "moe-softmax")),
    "embedding-spikes": Case("embedding-spikes", settings=("gqa", "gpt2", "mla")),
    "logit-scale": Case("logit-scale", settings=("gqa", "gpt2", "moe-softmax", "vit")),
    "rank-healthy": Case("none", settings=("gqa",), processes=4),
    "rank-labels": Case("rank-labels", settings=("gqa",), processes=4),
    "flipped-bit": Case("flipped-bit", settings=("gqa",), processes=4),
    "loss-scale": Case("loss-scale", settings=("gpt2-fp16",)),
    "rank-noise": Case("rank-noise", settings=("gqa",), processes=4),
    "nan-rank": Case("nan-rank", settings=("gqa",), processes=4),
}
INJECT_STEPS = (200, 230, 215)  # by seed


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run."""

    setting: str
    case: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.setting}.{self.case}.{self.seed}"

    @property
    def twin(self) -> "Cell":
        ranks = CASES[self.case].processes > 1
        return dataclasses.replace(self, case="rank-healthy" if ranks else "healthy")

    @property
    def inject_step(self) -> int:
        given = CASES[self.case].inject_step
        return INJECT_STEPS[(self.seed - 1) % len(INJECT_STEPS)] if given is None else given

    @property
    def strength(self) -> float:
        case = CASES[self.case]
        given = case.strengths.get(self.setting, case.strength)
        return FAULTS[case.fault].strength if given is None else given

    @property
    def layer(self) -> int | None:
        return DEEP[self.setting] if CASES[self.case].one_layer else None

    def plan(self, capture: str) -> Plan:
        return Plan(
            fault=CASES[self.case].fault, strength=self.strength, inject_step=self.inject_step,
            steps=STEPS, seed=self.seed, setting=SETTINGS[self.setting], layer=self.layer,
            head=self.head, sink=Sink(self.name, "", capture, f"zoo-{self.name}"),
        )  # fmt: skip

    @property
    def head(self) -> int | None:
        return 1 if CASES[self.case].one_head else None


def cells(settings: list[str], cases: list[str], seeds: int) -> list[Cell]:
    """Of healthy runs `seeds` each, of others one; twins first."""
    found = [
        Cell(setting, case, seed)
        for setting in settings
        for case in cases
        if setting in CASES[case].settings
        for seed in range(1, (seeds if CASES[case].fault == "none" else 1) + 1)
    ]
    return sorted(found, key=lambda cell: (settings.index(cell.setting), cell != cell.twin))


def truth(
    cell: Cell, losses: Mapping[int, float], sound: Mapping[int, float], twin: Mapping[int, float]
) -> dict[str, Any]:
    """What is known of a run before anybody judges it. `sound` are the losses on the twin's
    batches."""
    case, fault = CASES[cell.case], FAULTS[CASES[cell.case].fault]
    onset = None if case.fault == "none" else cell.inject_step
    benign = fault.quiet
    harm = None if onset is None else harm_step(sound, twin, onset)
    last = sorted(set(sound) & set(twin))[-50:]
    return {
        "setting": cell.setting, "case": cell.case, "seed": cell.seed, "benign": benign,
        "fault": case.fault, "strength": cell.strength, "layer": cell.layer, "head": cell.head,
        "onset": onset, "named": fault.named if fault.named != "unknown" else "",
        "harm_step": harm, "loss_break_step": verdict.loss_break(losses),
        "worse_at_end": _mean(sound, last) / _mean(twin, last) - 1.0 if last else None,
    }


def label(name: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """The run's entry of an index.json. A fault without harm is shown and not scored."""
    quiet = known["benign"]
    alarm = not quiet and known["harm_step"] is not None
    return {
        "name": name, "split": known["setting"],
        "expected": "quiet" if quiet else "alarm" if alarm else "unscored",
        "fault": (known["named"] or None) if not quiet else None,
        "injection_step": None if quiet else known["onset"],
        "harm_step": None if quiet else known["harm_step"],
        "layers": None if known["layer"] is None else [known["layer"]],
        "note": f"{known['fault']} x {known['strength']:g} from step {known['onset']}",
    }


def harm_step(
    losses: Mapping[int, float], twin: Mapping[int, float], onset: int
) -> int | None:
    """The first step >= onset from which HARM_STEPS steps are on average worse than the twin's by
    HARM and HARM_NATS, or at which the loss is not finite; None: there is none."""
    steps = [step for step in sorted(losses) if step >= onset and step in twin]
    for at, step in enumerate(steps):
        if not math.isfinite(losses[step]):
            return step
        window = steps[at : at + HARM_STEPS]
        if len(window) < HARM_STEPS:
            return None
        mine, theirs = _mean(losses, window), _mean(twin, window)
        if mine >= theirs + max(HARM * theirs, HARM_NATS):
            return step
    return None


def _mean(losses: Mapping[int, float], steps: list[int]) -> float:
    return sum(losses[step] for step in steps) / len(steps)


class Folder:
    """Captures of cells, curves/NAME.json with the losses, and the two files that say what is true.

    Attributes:
        known: truth by run.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        (path / "curves").mkdir(parents=True, exist_ok=True)
        self._truth = path / "truth.json"
        self.known: dict[str, Any] = {}
        if self._truth.exists():
            self.known = json.loads(self._truth.read_text())

    def make(self, cell: Cell) -> bool:
        """Trains `cell`, its twin before it; False if it is there already."""
        if cell.name in self.known:
            return False
        if cell != cell.twin:
            self.make(cell.twin)
        losses, sound = self._train(cell)
        self._curve(cell).write_text(json.dumps(losses))
        twin = {int(s): v for s, v in json.loads(self._curve(cell.twin).read_text()).items()}
        self.known[cell.name] = truth(cell, losses, sound, twin)
        labels = [label(name, known) for name, known in sorted(self.known.items())]
        _replace(self.path / "index.json", {"about": ABOUT, "runs": labels})
        _replace(self._truth, self.known)
        return True

    def _curve(self, cell: Cell) -> pathlib.Path:
        return self.path / "curves" / f"{cell.name}.json"

    def _train(self, cell: Cell) -> tuple[dict[int, float], dict[int, float]]:
        """Losses by step, as trained and on the twin's batches."""
        case = CASES[cell.case]
        plan = cell.plan(str(self.path / "curves" / f"{cell.name}.fscap"))
        sound: dict[int, float] = {}
        losses = processes.train_all(
            plan, case.processes, look=lambda step, one: sound.update({step: one.sound_loss}))
        attempts = [
            [plan.sink.capture_of(rank, attempt) for rank in range(case.processes)]
            for attempt in range(1, len(plan.attempts()) + 1)
        ]
        captures.join(attempts, self.path / f"{cell.name}.fscap")
        return losses, sound


def _replace(path: pathlib.Path, values: Any) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(json.dumps(values, indent=1) + "\n")
    os.replace(temporary, path)
