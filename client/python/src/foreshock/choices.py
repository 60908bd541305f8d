"""Which experts a gate chose, read off what its forward put out.

    index, load = choices.told(router, output, tokens)    # [tokens, k], [experts]

Gates differ: some put out the chosen indices, some a routing map, a linear one logits only, some
probabilities, which are told from logits by lying all in 0..1. `foreshock.routing` has found out
which output is which; where it could not, shapes and types tell. From logits or probabilities the
choice is that of the k largest, or, where a correction bias is kept beside them, of the k largest sums of probability and
bias, which is how those who balance by a bias define it (DeepSeek-V3, arXiv:2412.19437, 2.1.2).
Where the experts stand in groups of which a token takes some, a group counts by its two best experts
if there is a bias and by its best one if there is none, as in the published models (DeepSeek-V3 and
V2).
"""

from __future__ import annotations

from typing import Any, Sequence

import torch

from foreshock.routers import RouterLayer
from foreshock.routing import leaves

BOOLS = (torch.bool,)
INTEGERS = (torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Untold(ValueError):
    """The output does not say what was chosen; the message tells why."""


def told(layer: RouterLayer, output: Any, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of a forward of `tokens` tokens: int64 [tokens, k], expert numbers; int64 [experts], how often
    each expert was chosen. Never waits for a device. Raises Untold.

    A row of a routing map with more or fewer than k experts is -1 throughout, but counts in the
    second. An index that is put out and is no expert's number is -1 and counts nowhere; one that is
    put out twice in a row is there twice and counts twice.
    """
    k, experts = layer.top_k, layer.experts
    outputs = leaves(output)
    index = _at(outputs, layer.reading.chosen, tokens, k)
    routing = _at(outputs, layer.reading.picked, tokens, experts) if index is None else None
    if index is None and routing is None:
        routing = _only(layer, outputs, BOOLS, tokens, experts)
    if routing is not None:
        routing = routing != 0
        index = routing.int().topk(k, dim=-1).indices
        return index.masked_fill(routing.sum(-1, keepdim=True) != k, -1), routing.sum(0)
    if index is None:
        index = _only(layer, outputs, INTEGERS, tokens, k)
    index = _best(layer, outputs, tokens) if index is None else index.long()
    missing = (index < 0) | (index >= experts)
    behind = index.masked_fill(missing, experts).reshape(-1)  # counted behind the experts
    load = torch.zeros(experts + 1, dtype=torch.int64, device=index.device)
    load = load.scatter_add_(0, behind, torch.ones_like(behind))[:experts]
    return index.masked_fill(missing, -1), load


def _at(
    outputs: Sequence[Any], place: int | None, tokens: int, columns: int
) -> torch.Tensor | None:
    """The output at a place, as [tokens, columns]; None if it is not there or of another size."""
    shown = outputs[place] if place is not None and place < len(outputs) else None
    if not isinstance(shown, torch.Tensor) or shown.numel() != tokens * columns:
        return None
    return shown.detach().reshape(tokens, columns)


def _only(
    layer: RouterLayer,
    outputs: Sequence[Any],
    dtypes: Sequence[torch.dtype],
    tokens: int,
    columns: int,
) -> torch.Tensor | None:
    """The tensor [..., columns] with a row for each token, as [tokens, columns]; None if there is
    none. Raises Untold where there are several."""
    found = {
        id(t): t.detach().reshape(tokens, columns)
        for t in outputs
        if isinstance(t, torch.Tensor)
        and t.dtype in dtypes
        and t.dim() >= 2
        and t.shape[-1] == columns
        and t.numel() == tokens * columns
    }
    if len(found) > 1:
        raise Untold(
            f"{layer.path} puts out {len(found)} tensors [tokens, {columns}] of whole numbers or "
            "bools, and which of them says what was chosen is not known; allowed: one"
        )
    return next(iter(found.values()), None)


def _best(layer: RouterLayer, outputs: Sequence[Any], tokens: int) -> torch.Tensor:
    """int64 [tokens, k], chosen by the logits or probabilities that the gate put out."""
    scores = _at(outputs, layer.reading.logits, tokens, layer.experts)
    if scores is None and len(outputs) == 1:
        scores = _only(layer, outputs, FLOATS, tokens, layer.experts)
    if scores is None:
        raise Untold(
            f"{layer.path} puts out neither scores [tokens, {layer.experts}] nor chosen experts "
            f"[tokens, {layer.top_k}] nor a routing map [tokens, {layer.experts}] of its input's "
            "tokens"
        )
    correction = layer.correction_bias()
    if correction is not None:
        given = scores.float()
        scores = given.sigmoid() if layer.score == "sigmoid" else given.softmax(-1)
        probabilities = ((given >= 0) & (given <= 1)).all()  # not read here: it is on the device
        scores = torch.where(probabilities, given, scores) + correction
    if layer.groups > 1:
        scores = _within_groups(layer, scores, corrected=correction is not None)
    return scores.topk(layer.top_k, dim=-1).indices


def _within_groups(layer: RouterLayer, scores: torch.Tensor, corrected: bool) -> torch.Tensor:
    """`scores` [tokens, experts], -inf outside of the groups that a token takes."""
    size = layer.experts // layer.groups
    if not 0 < layer.groups_taken <= layer.groups or size * layer.groups != layer.experts:
        raise Untold(
            f"{layer.path} puts out scores only, and of its {layer.groups} groups of experts it is "
            "not known how many a token takes"
        )
    grouped = scores.unflatten(-1, (layer.groups, size))
    best = grouped.topk(min(2, size), dim=-1).values.sum(-1) if corrected else grouped.amax(-1)
    outside = torch.ones_like(best, dtype=torch.bool)
    outside.scatter_(-1, best.topk(layer.groups_taken, dim=-1).indices, False)
    return grouped.masked_fill(outside.unsqueeze(-1), float("-inf")).flatten(-2)
