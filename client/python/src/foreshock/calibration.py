"""What `foreshock-proxy` must know of a model to choose experts: sums over one pass of text.

    report = foreshock.calibrate(model, batches, "calib.safetensors")
    print("\\n".join(report.lines))

Batches are what the model's forward takes: a mapping (its attention_mask says what is padding and is
not counted), a tuple, or one tensor. Take the job's own prompts with their answers, not what the
proxy is judged on. Ranks and passes write a file each; `foreshock-proxy --calibration A B` adds them.
proxy/calibration.h lists the tensors.
"""

from __future__ import annotations

import dataclasses
import json
import os
import struct
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np
import torch

from foreshock import choices
from foreshock.discovery import RouterLayer, discover
from foreshock.patterns import Attention, Router

SEEN_LEAST = 32  # tokens below which an expert is unseen, as `foreshock-proxy select` has it
UNSEEN_SHARE = 0.05  # of the experts; with more the text was too short
MARGIN_BINS = 64
ALWAYS_RENORMALISED = ("mixtral", "gpt_oss")


@dataclasses.dataclass
class CalibrationReport:
    path: str
    tokens: int  # counted, without padding
    unseen: dict[int, int]  # experts with fewer than SEEN_LEAST tokens, by layer
    lines: list[str]  # for people


class RouterSums:
    """One layer's, as hooks on its gate and experts collect them."""

    def __init__(
        self, layer: RouterLayer, experts: Any, renormalised: bool, norms: bool
    ) -> None:
        self.layer = layer
        self._renormalised = renormalised
        self._experts = experts if norms else None
        self._margins = layer.groups <= 1 and 0 < layer.top_k < layer.experts
        self.values: dict[str, torch.Tensor] = {}
        self.chosen = torch.empty(0, layer.top_k, dtype=torch.long)  # of the last batch [T, k]

    def add(self, gate: Any, inputs: Any, output: Any, mask: torch.Tensor | None) -> None:
        layer = self.layer
        tokens = inputs[0].detach().reshape(-1, layer.hidden)
        if mask is not None and len(mask) != len(tokens):
            raise ValueError(
                f"{layer.path} got {len(tokens)} tokens, the mask has {len(mask)}: give whole "
                "batches, or mask= that fits what the routers see"
            )
        scores, probabilities = self._scores(tokens)
        chosen, gates = self._choice(output, probabilities)
        if mask is not None:
            rows = mask.to(tokens.device)
            tokens, scores, probabilities = tokens[rows], scores[rows], probabilities[rows]
            chosen, gates = chosen[rows], gates[rows]
        self.chosen = chosen
        if len(tokens) == 0:
            return
        hits = torch.zeros_like(probabilities, dtype=torch.float64).scatter_(1, chosen, 1.0)
        wide = tokens.double()
        context = torch.zeros(layer.experts, layer.hidden, dtype=torch.float64, device=wide.device)
        for slot in range(layer.top_k):
            context.index_add_(0, chosen[:, slot], wide)
        pairs = torch.zeros(layer.experts, dtype=torch.float64, device=wide.device)
        spread = probabilities.double()
        self._put("tokens", torch.tensor(len(tokens)))
        self._put("frequency", hits.sum(0).round().long())
        self._put("coactivation", (hits.T @ hits).round().long())
        self._put("input_sum", wide.sum(0))
        self._put("expert_input_sum", context)
        self._put("gate_sum", pairs.index_add(0, chosen.flatten(), gates.double().flatten()))
        self._put("probability_sum", spread.sum(0))
        self._put("entropy_sum", -(spread * spread.clamp(min=1e-300).log()).sum())
        if self._margins:
            self._put("margin_histogram", self._histogram(scores, chosen))
        if self._experts is not None:
            self._add_norms(tokens, chosen, gates)

    def _put(self, name: str, value: torch.Tensor) -> None:
        self.values[name] = self.values[name] + value if name in self.values else value

    def _scores(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(by what experts are chosen, probabilities), both [T, E]."""
        with torch.autocast(tokens.device.type, enabled=False):
            logits = self.layer.made_logits(tokens).double()
        sigmoid = self.layer.score == "sigmoid"
        scores = logits.sigmoid() if sigmoid else logits.softmax(-1)
        probabilities = scores / scores.sum(-1, keepdim=True) if sigmoid else scores
        correction = self.layer.correction_bias()
        return (scores if correction is None else scores + correction.double()), probabilities

    def _choice(
        self, output: Any, probabilities: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(chosen experts, their gates), both [T, k]: what the gate put out, where it says so."""
        layer = self.layer
        chosen, _ = choices.told(layer, output, len(probabilities))
        wrong = int((chosen < 0).any(-1).sum())
        if wrong:
            raise ValueError(
                f"{layer.path} does not choose {layer.top_k} of its {layer.experts} experts for "
                f"{wrong} of {len(chosen)} tokens; allowed: {layer.top_k} experts for each token, "
                "without a limit on the tokens of an expert"
            )
        outputs = output if isinstance(output, (tuple, list)) else ()
        floats = [t.detach() for t in outputs if isinstance(t, torch.Tensor) and t.is_floating_point()]
        for weights in floats:
            if weights.shape[-1] == layer.top_k and weights.numel() == chosen.numel():
                return chosen, weights.reshape(-1, layer.top_k)
        for weights in floats:
            if weights.shape[-1] == layer.experts and weights.numel() == probabilities.numel():
                return chosen, weights.reshape(-1, layer.experts).gather(1, chosen)
        return chosen, self._normalised(probabilities.gather(1, chosen))

    def _normalised(self, gates: torch.Tensor) -> torch.Tensor:
        return gates / gates.sum(-1, keepdim=True) if self._renormalised else gates

    def _histogram(self, scores: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        taken = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, chosen, True)
        lowest = scores.masked_fill(~taken, float("inf")).amin(-1)
        highest = scores.masked_fill(taken, float("-inf")).amax(-1)
        margin = (lowest - highest).clamp(min=1e-300)
        bins = (2 * margin.log2()).floor().long() + MARGIN_BINS - 2
        return torch.bincount(bins.clamp(0, MARGIN_BINS - 1), minlength=MARGIN_BINS)

    def _add_norms(
        self, tokens: torch.Tensor, chosen: torch.Tensor, gates: torch.Tensor
    ) -> None:
        """Runs each expert once more on its tokens: how a model sends tokens to experts, and in
        which order, is its own affair."""
        sums = torch.zeros(2, self.layer.experts, dtype=torch.float64, device=tokens.device)
        for expert, module in enumerate(self._experts):
            rows, slots = (chosen == expert).nonzero(as_tuple=True)
            if len(rows) == 0:
                continue
            norms = module(tokens[rows]).double().norm(dim=-1)
            sums[0, expert] = norms.sum()
            sums[1, expert] = (norms * gates[rows, slots].double()).sum()
        self._put("expert_norm_sum", sums[0])
        self._put("gated_norm_sum", sums[1])


def calibrate(
    model: torch.nn.Module,
    batches: Iterable[Any],
    path: str | os.PathLike[str],
    *,
    model_type: str = "",
    norm_topk_prob: bool | None = None,
    norms: bool = True,
    experts: Callable[[str], Sequence[Callable[[torch.Tensor], torch.Tensor]] | None] | None = None,
    mask: Callable[[Any], torch.Tensor] | None = None,
    patterns: Sequence[Attention | Router] = (),
) -> CalibrationReport:
    """Runs `model` over `batches` without gradients and writes the sums to `path`.

    `model_type` and `norm_topk_prob` (whether the top-k gates are divided by their sum) are read
    from the model's config where it has them. `norms=False` leaves out the experts' output norms,
    which cost every routed expert once more and need experts that can be run one by one: a list of
    modules beside the gate, or what `experts` gives for the gate's path, callables from [n, d] to
    [n, d] in the order of their numbers (or None). `mask` gives a bool
    tensor, True for tokens that count, where a batch has no attention_mask. `patterns` are those of
    `foreshock.watch`.

    Raises ValueError where no router is found, or what a router puts out is not understood.
    """
    model_type = model_type or str(getattr(getattr(model, "config", None), "model_type", "") or "")
    if not model_type:
        raise ValueError("the model has no config.model_type; give model_type=")
    routers, norm_topk_prob = routers_of(model, model_type, norm_topk_prob, patterns)
    current: list[torch.Tensor | None] = [None]
    sums, lines, handles = [], [], []
    for layer in routers:
        run = (experts(layer.path) if experts else None) or _experts_beside(model, layer)
        if norms and run is None:
            lines.append(
                f"layer {layer.layer}: the experts are no modules of their own, so no output norms"
            )
        one = RouterSums(layer, run, norm_topk_prob, norms)
        sums.append(one)
        handles.append(layer.gate.register_forward_hook(
            lambda gate, inputs, output, one=one: one.add(gate, inputs, output, current[0])))
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            for batch in batches:
                current[0] = mask_of(batch, mask)
                run_batch(model, batch)
    finally:
        model.train(training)
        for handle in handles:
            handle.remove()
    _check_counted(sums)
    return _write(os.fspath(path), model_type, sums, lines)


def routers_of(
    model: torch.nn.Module,
    model_type: str,
    norm_topk_prob: bool | None,
    patterns: Sequence[Attention | Router],
) -> tuple[list[RouterLayer], bool]:
    """The routers of a model, and whether its top-k gates are divided by their sum."""
    found = discover(model, patterns)
    if not found.routers:
        raise ValueError("no router found:\n" + "\n".join(found.lines))
    for layer in found.routers:
        if not layer.score or not layer.reading.plain:
            raise ValueError(f"{layer.path}: allowed: softmax or sigmoid of weight . input; found:\n"
                             f"{layer.line()}")  # fmt: skip
        if layer.top_k == 0:
            raise ValueError(f"{layer.path}: top-k is not to be found; give patterns= with top_k=")
    if norm_topk_prob is None:
        config = getattr(model, "config", None)
        norm_topk_prob = model_type in ALWAYS_RENORMALISED or bool(
            getattr(config, "norm_topk_prob", model_type == "deepseek_v3")
        )
    return list(found.routers), norm_topk_prob


def run_batch(model: torch.nn.Module, batch: Any) -> Any:
    """What the model's forward gives for a mapping, a tuple, or one tensor."""
    if isinstance(batch, Mapping):
        return model(**batch)
    if isinstance(batch, (tuple, list)):
        return model(*batch)
    return model(batch)


def mask_of(batch: Any, mask: Callable[[Any], torch.Tensor] | None) -> torch.Tensor | None:
    if mask is not None:
        return mask(batch).reshape(-1).bool()
    if isinstance(batch, Mapping) and isinstance(batch.get("attention_mask"), torch.Tensor):
        given = batch["attention_mask"]
        if given.dim() == 2:
            return given.reshape(-1).bool()
    return None


def _experts_beside(model: torch.nn.Module, layer: RouterLayer) -> Any:
    """The list of expert modules next to a gate, or None."""
    path = layer.path
    while path:
        path = path.rpartition(".")[0]
        experts = getattr(model.get_submodule(path), "experts", None)
        if experts is not None:
            listed = isinstance(experts, torch.nn.ModuleList) and len(experts) == layer.experts
            whole = listed and all(isinstance(e, torch.nn.Module) for e in experts)
            return experts if whole else None
    return None


def _check_counted(sums: Sequence[RouterSums]) -> None:
    silent = [one.layer.path for one in sums if "tokens" not in one.values]
    if silent:
        raise ValueError(f"no token reached {', '.join(silent)}")


def _write(
    path: str, model_type: str, sums: Sequence[RouterSums], lines: list[str]
) -> CalibrationReport:
    header: dict[str, Any] = {"__metadata__": {
        "format": "foreshock.calibration.v1", "model_type": model_type,
        "experts": str(sums[0].layer.experts), "top_k": str(sums[0].layer.top_k)}}  # fmt: skip
    parts: list[bytes] = []
    unseen, at = {}, 0
    for one in sums:
        number = one.layer.layer
        for name, value in one.values.items():
            array = np.asarray(value.cpu().numpy())
            data = array.astype("<f8" if array.dtype.kind == "f" else "<i8").tobytes()
            header[f"layers.{number}.{name}"] = {
                "dtype": "F64" if array.dtype.kind == "f" else "I64",
                "shape": list(array.shape), "data_offsets": [at, at + len(data)]}  # fmt: skip
            parts.append(data)
            at += len(data)
        frequency = one.values["frequency"]
        unseen[number] = int((frequency < SEEN_LEAST).sum())
        line = (
            f"layer {number}: {int(one.values['tokens'])} tokens, the rarest expert got "
            f"{int(frequency.min())}, {unseen[number]} of {one.layer.experts} are unseen"
        )
        if unseen[number] > UNSEEN_SHARE * one.layer.experts:
            line += ": give more text"
        lines.append(line)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise
    return CalibrationReport(path, int(sums[0].values["tokens"]), unseen, lines)
