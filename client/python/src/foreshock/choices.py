"""Which experts a gate chose, read off what its forward put out.

    choices.told(router, output)    # [tokens, k], -1 where a choice was dropped

Gates differ: some put out the chosen indices, some a routing map, a linear one logits only. From
logits the choice is that of the k largest: of the logits, or, where a correction bias is kept beside
them, of softmax or sigmoid plus that bias, which is how those who balance by a bias define it
(DeepSeek-V3, arXiv:2412.19437, 2.1.2). Nobody can tell from outside how groups limit it.
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
    if layer.groups > 1:
        raise Untold(
            f"{layer.path} puts out scores only, and routing within {layer.groups} groups cannot "
            "be told from them"
        )
    scores = output.detach().reshape(-1, experts)
    correction = layer.correction_bias()
    if correction is not None:
        scores = scores.float().sigmoid() if layer.sigmoid else scores.float().softmax(-1)
        scores = scores + correction
    return scores.topk(k, dim=-1).indices
