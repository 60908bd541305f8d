"""Low-rank adapters (LoRA) on the query and value projections of a decoder that is frozen."""

from __future__ import annotations

import torch
from torch import nn

RANK = 4
ALPHA = 8.0


class LoraLinear(nn.Module):
    """As PEFT lays it out: base_layer, lora_A, lora_B; B begins at 0."""

    def __init__(self, base: nn.Linear, random: torch.Generator) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.Linear(base.in_features, RANK, bias=False)
        self.lora_B = nn.Linear(RANK, base.out_features, bias=False)
        with torch.no_grad():
            size = self.lora_A.weight.shape
            self.lora_A.weight.copy_(torch.randn(size, generator=random) * size[1] ** -0.5)
            self.lora_B.weight.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base_layer(x) + self.lora_B(self.lora_A(x)) * (ALPHA / RANK)


def adapt(model: nn.Module, seed: int) -> nn.Module:
    """`model`, frozen but for new adapters in every layer."""
    model.requires_grad_(False)
    random = torch.Generator().manual_seed(seed)
    for layer in model.layers:
        attention = layer.self_attn
        attention.q_proj = LoraLinear(attention.q_proj, random)
        attention.v_proj = LoraLinear(attention.v_proj, random)
    return model
