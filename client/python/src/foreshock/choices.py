"""Which experts a gate chose, read off what its forward put out.

    choices.told(router, output)    # [tokens, k], -1 where a choice was dropped

Gates differ: some put out the chosen indices, some a routing map, a linear one logits only. From
logits the choice is that of the k largest: of the logits, or, where a correction bias is kept beside
them, of softmax or sigmoid plus that bias, which is how those who balance by a bias define it
(DeepSeek-V3, arXiv:2412.19437, 2.1.2). Where the experts stand in groups of which a token takes some,
a group counts by its two best experts if there is a bias and by its best one if there is none, as in
the published models (DeepSeek-V3 and V2).
"""

from __future__ import annotations

from typing import Any

import torch

from foreshock.discovery import RouterLayer


class Untold(ValueError):
    """The output does not say what was chosen; the message tells why."""


def told(layer: RouterLayer, output: Any) -> torch.Tensor:
    """int64 [tokens, k], expert numbers, each once in a row; -1 at the end of a row where a routing
    map has fewer than k. Raises Untold."""
    k, experts = layer.top_k, layer.experts
    outputs = output if isinstance(output, (tuple, list)) else (output,)
    tensors = [t.detach() for t in outputs if isinstance(t, torch.Tensor) and t.dim() >= 2]
    for tensor in tensors:
        if tensor.dtype == torch.bool and tensor.shape[-1] == experts:
            routed, index = tensor.reshape(-1, experts).int().topk(k, dim=-1)
            return index.masked_fill(routed == 0, -1)
    for tensor in tensors:
        if tensor.dtype in (torch.int32, torch.int64) and tensor.shape[-1] == k:
            return tensor.reshape(-1, k).long()
    if not isinstance(output, torch.Tensor) or output.shape[-1] != experts:
        raise Untold(
            f"{layer.path} puts out neither logits [tokens, {experts}] nor chosen experts "
            f"[tokens, {k}] nor a routing map"
        )
    scores = output.detach().reshape(-1, experts)
    correction = layer.correction_bias()
    if correction is not None:
        scores = scores.float().sigmoid() if layer.sigmoid else scores.float().softmax(-1)
        scores = scores + correction
    if layer.groups > 1:
        scores = _within_groups(layer, scores, corrected=correction is not None)
    return scores.topk(k, dim=-1).indices


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
