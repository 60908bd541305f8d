"""A sampled block of pre-softmax attention logits and the maximum over it, per layer and step."""

from __future__ import annotations

import math
from typing import Mapping

import torch

from foreshock import payloads
from foreshock.packer import Part


class LogitSamples:
    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._blocks: dict[int, torch.Tensor] = {}  # layer -> [heads, rows, columns]

    def add(self, layer: int, query: torch.Tensor, key: torch.Tensor, causal: bool) -> None:
        """`query` [batch, heads, tokens, r], `key` [batch, key heads, tokens, r]."""
        if layer in self._blocks or query.shape[0] == 0:
            return
        with torch.no_grad(), torch.autocast(query.device.type, enabled=False):
            q, k = query[0].detach().float(), key[0].detach().float()
            heads, tokens, r = q.shape
            at = torch.linspace(0, tokens - 1, min(self._rows, tokens), device=q.device).long()
            k = k.repeat_interleave(heads // k.shape[0], dim=0)
            block = q[:, at] @ k.transpose(1, 2) / math.sqrt(r)
            if causal:
                columns = torch.arange(k.shape[1], device=q.device)
                block.masked_fill_(columns > at[:, None] + (k.shape[1] - tokens), -math.inf)
        self._blocks[layer] = block

    def empty(self) -> bool:
        return not self._blocks

    def take(self, first_heads: Mapping[int, int]) -> list[Part]:
        """Empties it. `first_heads`: by layer, the number of this rank's head 0 in the model."""
        blocks, self._blocks = self._blocks, {}
        return [_part(layer, first_heads.get(layer, 0), b) for layer, b in blocks.items()]


def _part(layer: int, first: int, block: torch.Tensor) -> Part:
    heads = [first + head for head in range(block.shape[0])]
    return Part([block], lambda arrays: payloads.attention_logits(layer, heads, arrays[0]))
