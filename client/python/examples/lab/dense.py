"""Dense decoders: grouped-query attention with QK-norm and SwiGLU, GPT-2's kind, latent attention.

Modules are named as in Hugging Face's trees. Every layer has `self_attn`, with `rounding` and
`query_key()`, and `mlp`; every model has `layers`: faults reach in through these.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import torch
from torch import nn
from torch.nn import functional

from lab.attention import Rounding, attend
from lab.model import RmsNorm


@dataclasses.dataclass(frozen=True)
class DenseShape:
    vocabulary: int = 64
    length: int = 32
    layers: int = 8
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    inner: int = 128  # of the feed-forward
    latent: int = 32  # of latent attention, for Q and for K and V
    rope_dim: int = 8  # of a head of latent attention, beside head_dim


def rotated(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions on [batch, heads, length, r]."""
    half = x.shape[-1] // 2
    cos, sin = _turns(x.shape[-2], half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@functools.lru_cache(maxsize=8)
def _turns(length: int, half: int) -> tuple[torch.Tensor, torch.Tensor]:
    angles = torch.outer(torch.arange(length), 100.0 ** (-torch.arange(half) / half))
    return angles.cos(), angles.sin()


def in_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """[batch, length, heads * r] to [batch, heads, length, r]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class GroupedAttention(nn.Module):
    """Query heads share key heads; Q and K are normalised head by head."""

    def __init__(self, shape: DenseShape) -> None:
        super().__init__()
        self.num_heads, self.num_key_value_heads = shape.heads, shape.kv_heads
        self.head_dim = shape.head_dim
        q_width, k_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, q_width, bias=False)
        self.k_proj = nn.Linear(shape.hidden, k_width, bias=False)
        self.v_proj = nn.Linear(shape.hidden, k_width, bias=False)
        self.o_proj = nn.Linear(q_width, shape.hidden, bias=False)
        self.q_norm, self.k_norm = RmsNorm(shape.head_dim), RmsNorm(shape.head_dim)
        self.rounding = Rounding()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = rotated(self.q_norm(in_heads(self.q_proj(x), self.num_heads)))
        k = rotated(self.k_norm(in_heads(self.k_proj(x), self.num_key_value_heads)))
        v = in_heads(self.v_proj(x), self.num_key_value_heads)
        return self.o_proj(attend(q, k, v, self.rounding))

    def query_key(self) -> list[torch.Tensor]:
        return [_weight(self.q_proj), _weight(self.k_proj)]


class FusedAttention(nn.Module):
    """GPT-2's: one weight for Q, K and V, with biases."""

    def __init__(self, shape: DenseShape) -> None:
        super().__init__()
        self.n_head = self.num_heads = shape.heads
        self.hidden = shape.hidden
        self.c_attn = nn.Linear(shape.hidden, 3 * shape.hidden)
        self.c_proj = nn.Linear(shape.hidden, shape.hidden)
        self.rounding = Rounding()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (in_heads(y, self.n_head) for y in self.c_attn(x).chunk(3, dim=-1))
        return self.c_proj(attend(q, k, v, self.rounding))

    def query_key(self) -> list[torch.Tensor]:
        return [self.c_attn.weight[: 2 * self.hidden]]


class LatentAttention(nn.Module):
    """DeepSeek's: Q, and K with V, pass through latents; a part of each head is rotary."""

    def __init__(self, shape: DenseShape) -> None:
        super().__init__()
        self.num_heads = shape.heads
        self.qk_nope_head_dim, self.qk_rope_head_dim = shape.head_dim, shape.rope_dim
        self.head_size = shape.head_dim + shape.rope_dim
        width = shape.heads * self.head_size
        self.q_a_proj = nn.Linear(shape.hidden, shape.latent, bias=False)
        self.q_a_layernorm = RmsNorm(shape.latent)
        self.q_b_proj = nn.Linear(shape.latent, width, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(shape.hidden, shape.latent + shape.rope_dim, bias=False)
        self.kv_a_layernorm = RmsNorm(shape.latent)
        kv_width = shape.heads * (shape.head_dim + self.head_size)  # V is as wide as Q
        self.kv_b_proj = nn.Linear(shape.latent, kv_width, bias=False)
        self.o_proj = nn.Linear(width, shape.hidden, bias=False)
        self.rounding = Rounding()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        nope, rope = self.qk_nope_head_dim, self.qk_rope_head_dim
        q = in_heads(self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x))), self.num_heads)
        down = self.kv_a_proj_with_mqa(x)
        latent, k_rope = down[..., :-rope], down[..., -rope:]
        kv = in_heads(self.kv_b_proj(self.kv_a_layernorm(latent)), self.num_heads)
        k_rope = rotated(k_rope.unsqueeze(1)).expand(-1, self.num_heads, -1, -1)
        q = torch.cat([q[..., :nope], rotated(q[..., nope:])], dim=-1)
        k = torch.cat([kv[..., :nope], k_rope], dim=-1)
        return self.o_proj(attend(q, k, kv[..., nope:].contiguous(), self.rounding))

    def query_key(self) -> list[torch.Tensor]:
        return [self.q_a_proj.weight, self.q_b_proj.weight, self.kv_a_proj_with_mqa.weight]


class SwiGlu(nn.Module):
    def __init__(self, shape: DenseShape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class DenseLayer(nn.Module):
    def __init__(self, shape: DenseShape, attention: type[nn.Module]) -> None:
        super().__init__()
        self.input_layernorm = RmsNorm(shape.hidden)
        self.self_attn = attention(shape)
        self.post_attention_layernorm = RmsNorm(shape.hidden)
        self.mlp = SwiGlu(shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class DenseDecoder(nn.Module):
    """Tokens int64 [batch, length] to logits; with GroupedAttention or LatentAttention."""

    def __init__(self, shape: DenseShape, seed: int, attention: type[nn.Module]) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(DenseLayer(shape, attention) for _ in range(shape.layers))
        self.norm = RmsNorm(shape.hidden)
        self.lm_head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        initialise(self, seed, shape.layers)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


class GptMlp(nn.Module):
    def __init__(self, shape: DenseShape) -> None:
        super().__init__()
        self.c_fc = nn.Linear(shape.hidden, 2 * shape.inner)
        self.c_proj = nn.Linear(2 * shape.inner, shape.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c_proj(functional.gelu(self.c_fc(x)))


class GptBlock(nn.Module):
    def __init__(self, shape: DenseShape) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(shape.hidden), nn.LayerNorm(shape.hidden)
        self.attn = FusedAttention(shape)
        self.mlp = GptMlp(shape)

    @property
    def self_attn(self) -> FusedAttention:
        return self.attn

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """Learned positions, nn.LayerNorm, GELU, biases, a head tied to the embedding."""

    def __init__(self, shape: DenseShape, seed: int) -> None:
        super().__init__()
        self.wte = nn.Embedding(shape.vocabulary, shape.hidden)
        self.wpe = nn.Embedding(shape.length, shape.hidden)
        self.h = nn.ModuleList(GptBlock(shape) for _ in range(shape.layers))
        self.ln_f = nn.LayerNorm(shape.hidden)
        initialise(self, seed, shape.layers)

    @property
    def layers(self) -> nn.ModuleList:
        return self.h

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return functional.linear(self.ln_f(x), self.wte.weight)


@torch.no_grad()
def initialise(model: nn.Module, seed: int, layers: int) -> None:
    """Matrices by their width, what writes into the residual stream less; gains 1, biases 0."""
    random = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.dim() < 2:
            weight.fill_(0.0 if name.endswith("bias") else 1.0)
            continue
        std = weight.shape[-1] ** -0.5
        if any(part in name for part in ("o_proj", "c_proj", "down_proj", "out_proj")):
            std /= math.sqrt(2 * layers)
        weight.copy_(torch.randn(weight.shape, generator=random) * std)


def _weight(projection: nn.Module) -> torch.Tensor:
    """Of a projection, or what trains of one with an adapter (adapters.py)."""
    return getattr(projection, "lora_B", projection).weight
