"""What a router's forward puts out and how it scores, found by running it once.

    reading = read(gate, "weight", block, experts=64, hidden=4096)
    reading.score      # "softmax", "sigmoid", or "" where the output does not show it

A twin of the gate runs, on the host, with random weights and tokens: its class and its settings,
none of its hooks, and nothing of the model is touched. Its outputs are compared with what the known
score functions make of the logits, so names and versions of libraries do not matter. Whatever goes
wrong in there is a reason, not an error: `Unreadable`.
"""

from __future__ import annotations

import collections
import dataclasses
import inspect
from typing import Any, Iterator

import torch
import torch.nn.functional as F

from foreshock.sharding import local

TOKENS = 32
# Far wider than bfloat16 rounds, far narrower than softmax and sigmoid differ.
CLOSE = dict(rtol=0.03, atol=0.01)


class Unreadable(Exception):
    """Why the twin did not show how the gate scores."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """Places count the leaves of the output, tuples and lists opened; None: there is none."""

    score: str = ""  # softmax, sigmoid; "": the output does not show it
    top_k: int = 0  # experts of a token; 0: the output does not show it
    logits: int | None = None  # [tokens, experts], before the score function
    scores: int | None = None  # [tokens, experts], behind it, of all experts
    chosen: int | None = None  # [tokens, k], the experts' numbers
    picked: int | None = None  # [tokens, experts], 0 or False where an expert was not chosen
    plain: bool = True  # logits are weight . input, so that they can be made again
    biased: bool = False  # the gate's `bias` is added to them


def leaves(output: Any) -> list[Any]:
    """Of a module's output, in order; what is no tensor keeps its place."""
    if isinstance(output, (tuple, list)):
        return [leaf for part in output for leaf in leaves(part)]
    return [output]


def read(gate: torch.nn.Module, weight: str, block: Any, experts: int, hidden: int) -> Reading:
    """`weight`: the dotted name of the matrix below the gate. `block`: the module that holds the
    gate; it gives arguments of the gate's forward by their names. Raises Unreadable."""
    if "forward" in vars(gate):
        raise Unreadable("its forward was replaced")
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad(), torch.autocast(
            "cpu", enabled=False
        ):
            torch.random.default_generator.manual_seed(0)
            return _read(gate, weight, block, experts, hidden)
    except Unreadable:
        raise
    except Exception as error:  # of a forward that is not ours
        raise Unreadable(f"{type(error).__name__}: {str(error).splitlines()[0]}") from None


def _read(gate: Any, weight: str, block: Any, experts: int, hidden: int) -> Reading:
    twin = _twin(gate)
    around = _twin(block, [(name, twin) for name, m in block.named_children() if m is gate])
    heard: list[tuple[torch.Tensor, torch.Tensor]] = []
    linear = twin.get_submodule(weight.rpartition(".")[0])
    if linear is not twin:
        linear.register_forward_hook(lambda _, inputs, output: heard.append((inputs[0], output)))
    tokens = torch.randn(TOKENS, hidden, dtype=torch.float32, device="cpu")
    output = leaves(_call(twin, around, tokens))
    matrix, bias = linear.weight, getattr(linear, "bias", None)
    if heard:
        seen, logits = (part.reshape(TOKENS, -1).float() for part in heard[-1])
        plain = seen.shape == tokens.shape and torch.equal(seen, tokens)
        candidates = [(logits, plain, bias is not None)]
    else:
        candidates = [(F.linear(tokens, matrix), True, False)]
        if isinstance(bias, torch.Tensor) and bias.shape == (experts,):
            candidates.insert(0, (F.linear(tokens, matrix, bias), True, True))
    readings = [_look(output, *candidate) for candidate in candidates]
    if hasattr(around, "route_tokens_to_experts"):  # the gate puts out logits, its block chooses
        logits = candidates[0][0]
        routed = _look(leaves(around.route_tokens_to_experts(logits)), *candidates[0])
        readings = [dataclasses.replace(r, score=routed.score, top_k=routed.top_k)
                    for r in readings]  # fmt: skip
    return max(readings, key=lambda r: (r.logits is not None, bool(r.score)))


def _twin(module: Any, children: Any = None) -> Any:
    """The module with random parameters of its own and without hooks; everything else is shared.
    `children`: (name, module) in the place of its own."""
    twin = object.__new__(type(module))
    vars(twin).update(vars(module))
    own = vars(twin)
    own.update({name: collections.OrderedDict() for name in own if name.endswith("_hooks")
                or "_hooks_" in name})  # fmt: skip
    own["_parameters"] = {
        name: None if value is None else torch.nn.Parameter(_random(name, value))
        for name, value in module._parameters.items()
        if children is None or value is None or value.dim() < 2  # experts may be gigabytes
    }
    own["_buffers"] = {
        name: None if value is None
        else _random(name, value) if "bias" in name
        else local(value).cpu().clone()
        for name, value in module._buffers.items()
    }  # fmt: skip
    if children is None:
        children = [(name, _twin(child)) for name, child in module.named_children()]
    own["_modules"] = dict(children)
    own["training"] = False  # no noise on tokens or scores
    own["_compiled_call_impl"] = None
    return twin


def _random(name: str, like: Any) -> torch.Tensor:
    """float32 of its whole shape: DeepSpeed's ZeRO 3 leaves an empty tensor and its `ds_shape`."""
    shape = tuple(getattr(like, "ds_shape", like.shape))
    numbers = torch.randn(shape, dtype=torch.float32, device="cpu")
    if "bias" in name:
        return 0.1 * numbers
    if len(shape) < 2:
        return 1 + 0.1 * numbers
    return 1.5 * numbers / shape[-1] ** 0.5  # logits of a few units


def _call(twin: Any, around: Any, tokens: torch.Tensor) -> Any:
    given = {}
    for number, (name, parameter) in enumerate(inspect.signature(twin.forward).parameters.items()):
        value = getattr(around, name, None)
        if number > 0 and isinstance(value, torch.Tensor):
            given[name] = value
        elif number > 0 and parameter.default is parameter.empty and parameter.kind in (
            parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY
        ):  # fmt: skip
            raise Unreadable(f"its forward wants {name}, which is not known")
    try:
        return twin(tokens.clone(), **given)
    except Exception:  # some want [batch, length, d]
        return twin(tokens.clone().reshape(2, TOKENS // 2, -1), **given)


def _look(output: list[Any], logits: torch.Tensor, plain: bool, biased: bool) -> Reading:
    """Tells the outputs by what is in them."""
    experts = logits.shape[1]
    by_score = {"softmax": logits.softmax(-1), "sigmoid": logits.sigmoid()}
    reading = Reading(plain=plain, biased=biased)
    for place, shown in enumerate(output):
        wide, narrow = _as_rows(shown, experts), _as_numbers(shown, experts)
        if wide is None and narrow is not None and reading.chosen is None:
            reading = dataclasses.replace(reading, chosen=place, top_k=narrow.shape[1])
        elif wide is not None and reading.logits is None and _same(wide, logits):
            reading = dataclasses.replace(reading, logits=place)
        elif wide is not None:
            score = next((name for name, s in by_score.items() if _same(wide, s)), "")
            if score:
                reading = dataclasses.replace(reading, score=score, scores=place)
            elif reading.top_k < (k := _per_row(wide != 0)) < experts and reading.chosen is None:
                reading = dataclasses.replace(reading, picked=place, top_k=k)
    if not reading.score:
        weights = list(_weights(output, reading, experts))
        fitting = [name for name, s in by_score.items() for index, w in weights
                   if _follows(w, s.gather(1, index))]  # fmt: skip
        if len(set(fitting)) == 1:
            reading = dataclasses.replace(reading, score=fitting[0])
    return reading


def _as_rows(shown: Any, experts: int) -> torch.Tensor | None:
    """[tokens, experts], of any type."""
    fits = isinstance(shown, torch.Tensor) and shown.dim() >= 2 and shown.shape[-1] == experts
    return shown.reshape(TOKENS, -1).float() if fits and shown.numel() == TOKENS * experts else None


def _as_numbers(shown: Any, experts: int) -> torch.Tensor | None:
    """[tokens, k]: whole numbers below `experts`, none twice in a row."""
    if not isinstance(shown, torch.Tensor) or shown.dim() < 2 or shown.dtype not in (
        torch.int32, torch.int64
    ) or shown.numel() != TOKENS * shown.shape[-1]:  # fmt: skip
        return None
    numbers = shown.reshape(TOKENS, -1)
    ordered = numbers.sort(-1).values
    distinct = bool((ordered[:, 1:] != ordered[:, :-1]).all())
    return numbers if distinct and 0 <= int(numbers.min()) <= int(numbers.max()) < experts else None


def _same(shown: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.allclose(shown, expected, **CLOSE)


def _per_row(there: torch.Tensor) -> int:
    """How many there are in every row; 0: rows differ."""
    counts = there.sum(-1)
    return int(counts[0]) if bool((counts == counts[0]).all()) else 0


def _weights(
    output: list[Any], reading: Reading, experts: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """(numbers, weights) [tokens, k] of the chosen experts, wherever the output has both."""
    if reading.chosen is not None:
        index = output[reading.chosen].reshape(TOKENS, -1).long()
    elif reading.picked is not None:
        sparse = _as_rows(output[reading.picked], experts)
        index = sparse.abs().topk(reading.top_k).indices
        yield index, sparse.gather(1, index)
        if reading.top_k > 1:
            return  # in which order the experts' weights would stand is not known
    else:
        return
    for shown in output:
        if isinstance(shown, torch.Tensor) and shown.is_floating_point() and shown.dim() >= 2:
            if shown.shape[-1] == index.shape[1] and shown.numel() == index.numel():
                yield index, shown.reshape(TOKENS, -1).float()


def _follows(weights: torch.Tensor, scores: torch.Tensor) -> bool:
    """Are the weights the scores, up to a factor of each row, or for k = 1 of all rows?"""
    along = -1 if weights.shape[1] > 1 else 0
    if not bool((weights > 0).all()) or _same(weights, weights.mean(along, True)):
        return False  # equal ones say nothing
    ratio = weights / scores
    return _same(ratio / ratio.mean(along, True), torch.ones_like(ratio))
