"""A vision transformer on PyTorch's own nn.MultiheadAttention."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from lab.dense import initialise
from lab.images import CLASSES, SIZE

PATCH = 4  # pixels a side


class VitBlock(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.self_attn = Attention(hidden, heads, batch_first=True)
        self.fc1, self.fc2 = nn.Linear(hidden, 2 * hidden), nn.Linear(2 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.ln_1(x)
        x = x + self.self_attn(y, y, y, need_weights=False)[0]
        return x + self.fc2(functional.gelu(self.fc1(self.ln_2(x))))


class Attention(nn.MultiheadAttention):
    """Its kernel is PyTorch's: no fault reaches into its rounding."""

    def query_key(self) -> list[torch.Tensor]:
        return [self.in_proj_weight[: 2 * self.embed_dim]]


class Vit(nn.Module):
    """float32 [batch, SIZE, SIZE] to logits of CLASSES."""

    def __init__(self, seed: int, layers: int = 6, hidden: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.patches = nn.Linear(PATCH * PATCH, hidden)
        self.positions = nn.Parameter(torch.empty((SIZE // PATCH) ** 2, hidden))
        self.layers = nn.ModuleList(VitBlock(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, CLASSES)
        initialise(self, seed, layers)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        cut = pictures.unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH).flatten(3).flatten(1, 2)
        x = self.patches(cut) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x.mean(1)))
