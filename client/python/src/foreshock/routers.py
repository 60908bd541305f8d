"""Recognises a router: its gate, how many experts, how it scores, where its output says the choice.

    layer = router_at(path, module, table, model)    # None: no router; raises Skip with the reason
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Iterable

import torch
import torch.nn.functional as F

from foreshock import patterns
from foreshock.finding import Skip, child, layer_of, size, text, weight_of
from foreshock.patterns import Router
from foreshock.routing import Reading, Unreadable, read
from foreshock.sharding import local

SCORES = ("softmax", "sigmoid")


@dataclasses.dataclass
class RouterLayer:
    path: str
    layer: int
    pattern: str
    gate: torch.nn.Module
    weight: str  # dotted name of the matrix [experts, d], from the gate on
    experts: int
    hidden: int
    top_k: int  # 0: not known
    score: str  # softmax or sigmoid; "": another one, or not known: no scores are sent
    score_from: str  # who says so, or why it is not known
    groups: int
    shared_experts: int
    groups_taken: int = 0  # by a token; 0: not known
    bias_at: tuple[torch.nn.Module, str] | None = None  # where the correction bias is kept
    reading: Reading = Reading()

    def correction_bias(self) -> torch.Tensor | None:
        """float32 [experts], as it is now; what is added to the scores for the choice alone."""
        if self.bias_at is None:
            return None
        bias: torch.Tensor = getattr(*self.bias_at)
        return local(bias).detach().float().reshape(-1)

    def made_logits(self, tokens: torch.Tensor) -> torch.Tensor:
        """float32 [tokens, experts] of float32 tokens [tokens, d]: weight . token, and the bias."""
        matrix = local(child(self.gate, self.weight)).float()
        bias = getattr(self.owner, "bias", None) if self.reading.biased else None
        return F.linear(tokens.float(), matrix, None if bias is None else local(bias).float())

    @property
    def owner(self) -> Any:
        """The module that has the matrix: the gate, or a child of it."""
        return self.gate.get_submodule(self.weight.rpartition(".")[0])

    def scores(
        self, tokens: torch.Tensor, output: list[Any], rows: slice
    ) -> torch.Tensor | None:
        """float32 [rows of the tokens, experts], as the forward had them or made again from its
        input; None where neither is to be had. `score_kind` says what they are."""
        if not self.score:
            return None
        place = self.reading.logits if self.reading.plain else self._place()
        shown = output[place] if place is not None and place < len(output) else None
        if isinstance(shown, torch.Tensor) and shown.numel() == len(tokens) * self.experts:
            return shown.detach().reshape(-1, self.experts)[rows].float()
        return self.made_logits(tokens[rows]) if self.reading.plain else None

    def _place(self) -> int | None:
        return self.reading.scores if self.reading.logits is None else self.reading.logits

    @property
    def score_kind(self) -> str:
        made = self.reading.plain or self.reading.logits is not None
        return f"{self.score}_logits" if made else self.score

    @property
    def tells_choice(self) -> bool:
        """Does the gate put out which experts it chose?"""
        return self.reading.chosen is not None or self.reading.picked is not None

    def line(self) -> str:
        score = f"{self.score} ({self.score_from})" if self.score else self.score_from
        chosen = f"top {self.top_k}" if self.top_k else "top-k not known, so no load"
        return (
            f"layer {self.layer}: {self.path}: router of {self.experts} experts, {score}, {chosen} "
            f"({self.pattern})"
        )


def router_at(
    path: str, module: torch.nn.Module, table: Iterable[Router], model: Any
) -> RouterLayer | None:
    for pattern in table:
        if pattern.path and not re.search(pattern.path, path):
            continue
        gate = child(module, pattern.gate) if pattern.gate else module
        if not isinstance(gate, torch.nn.Module):
            continue
        beside = getattr(module, pattern.experts, None) if pattern.experts else None
        if pattern.experts and not isinstance(beside, torch.nn.Module):
            continue
        gate_path = f"{path}.{pattern.gate}".strip(".")
        return _build(gate_path, gate, beside, pattern, path, module, model)
    return None


def _build(
    gate_path: str, gate: Any, beside: Any, pattern: Router, path: str, module: Any, model: Any
) -> RouterLayer:
    weight = next((name for name in patterns.GATE_WEIGHTS if child(gate, name) is not None), None)
    if weight is None:
        raise Skip(f"{gate_path} has no weight of its own and no child that is known to hold it "
                   f"({', '.join(patterns.GATE_WEIGHTS[1:])})")  # fmt: skip
    experts, hidden = weight_of(child(gate, weight), gate_path).shape
    declared = size("experts", gate, module)
    if not declared and pattern.experts:
        declared = len(beside) if isinstance(beside, torch.nn.ModuleList) else 0
        declared = declared or size("experts", beside, model)
    if declared and declared != experts:
        raise Skip(f"{gate_path} has {experts} rows for {declared} experts")
    if experts < 2:
        raise Skip(f"{gate_path} has {experts} row; a router has 2 or more")
    bias_at = _correction_bias(experts, gate, module)
    try:
        reading, unread = read(gate, weight, module, experts, hidden), ""
    except Unreadable as reason:
        reading, unread = Reading(), str(reason)
    score, score_from = _score(pattern, reading, unread, bias_at, gate, module, model)
    if not score and reading.chosen is None and reading.picked is None:
        unread = unread or "it puts out no choice"
        raise Skip(f"{gate_path}: {score_from}; and no load: {unread}; give score= in patterns=")
    return RouterLayer(
        path=gate_path,
        layer=layer_of(path, module),
        pattern=pattern.name,
        gate=gate,
        weight=weight,
        experts=experts,
        hidden=hidden,
        top_k=min(pattern.top_k or reading.top_k or size("top_k", gate, module, model), experts),
        score=score,
        score_from=score_from,
        groups=size("groups", gate, module, model),
        shared_experts=size("shared_experts", module, model),
        groups_taken=size("groups_taken", gate, module, model),
        bias_at=bias_at,
        reading=reading,
    )


def _score(
    pattern: Router, reading: Reading, unread: str, bias_at: Any, *holders: Any
) -> tuple[str, str]:
    """(softmax, sigmoid or nothing; who says so): the caller, the gate's forward, its config."""
    told = next(filter(None, (text(h, n) for h in holders for n in patterns.SCORE_NAMES)), "")
    for score, source in ((pattern.score, "from the pattern"), (reading.score, "by its forward"),
                          (told, "by its config")):  # fmt: skip
        if score and score not in SCORES:
            return "", f"no scores: {score!r} is neither softmax nor sigmoid"
        if score:
            return score, source
    silent = f"neither its forward{f' ({unread})' if unread else ''} nor its config says it"
    if bias_at is not None:  # those who balance by a bias use both
        return "", f"no scores: softmax or sigmoid, {silent}"
    return "softmax", f"assumed: {silent}"


def _correction_bias(
    experts: int, *holders: torch.nn.Module
) -> tuple[torch.nn.Module, str] | None:
    for holder in holders:
        for name in patterns.CORRECTION_BIAS_NAMES:
            owner, _, last = name.rpartition(".")
            at = child(holder, owner) if owner else holder
            value = getattr(at, last, None)
            if isinstance(value, torch.Tensor) and value.numel() == experts:
                return at, last
    return None
