"""A small decoder with mixture-of-experts layers: about 0.4 M parameters in its default shape.

Modules are named as in Hugging Face's trees (layers.0.self_attn.q_proj, layers.0.mlp.gate), so that
`foreshock.watch` finds them by its own table. With tensor parallelism a process holds its heads of
every attention layer and its slice of every expert's hidden layer; all else is replicated.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Callable

import torch
from torch import nn
from torch.nn import functional

from lab.attention import Rounding, attend
from lab.parallel import Grid


@dataclasses.dataclass(frozen=True)
class Shape:
    """Sizes of the whole model, not of one process."""

    vocabulary: int = 128
    length: int = 64
    layers: int = 3
    hidden: int = 64
    heads: int = 4
    head_dim: int = 16
    experts: int = 8
    top_k: int = 2
    expert_hidden: int = 112
    scoring: str = "softmax"  # of the router, or "sigmoid", which is balanced by a bias
    shared_hidden: int = 0  # width of an expert that every token takes; 0: none


class Attention(nn.Module):
    """Multi-head attention over this process's heads."""

    def __init__(self, shape: Shape, grid: Grid) -> None:
        super().__init__()
        self.num_heads = shape.heads  # of the whole model
        self.own_heads = shape.heads // grid.tensor_size
        self.head_dim = shape.head_dim
        width = self.own_heads * self.head_dim
        self.q_proj = nn.Linear(shape.hidden, width, bias=False)
        self.k_proj = nn.Linear(shape.hidden, width, bias=False)
        self.v_proj = nn.Linear(shape.hidden, width, bias=False)
        self.o_proj = nn.Linear(width, shape.hidden, bias=False)
        self.rounding = Rounding()
        # Is shown Q and K [batch, heads, length, head_dim] of this process; None: nobody looks.
        self.observe: Callable[[torch.Tensor, torch.Tensor], None] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length, hidden] to the same; with tensor parallelism a partial sum of it."""
        batch, length, _ = x.shape

        def heads(y: torch.Tensor) -> torch.Tensor:
            return y.view(batch, length, self.own_heads, self.head_dim).transpose(1, 2)

        q, k, v = heads(self.q_proj(x)), heads(self.k_proj(x)), heads(self.v_proj(x))
        if self.observe is not None:
            self.observe(q, k)
        return self.o_proj(attend(q, k, v, self.rounding))

    def query_key(self) -> list[torch.Tensor]:
        """W_Q and W_K."""
        return [self.q_proj.weight, self.k_proj.weight]


class Experts(nn.Module):
    """Two-layer perceptrons: w_in [experts, hidden, width], w_out [experts, width, hidden]."""

    def __init__(self, shape: Shape, grid: Grid) -> None:
        super().__init__()
        width = shape.expert_hidden // grid.tensor_size
        self.w_in = nn.Parameter(torch.empty(shape.experts, shape.hidden, width))
        self.w_out = nn.Parameter(torch.empty(shape.experts, width, shape.hidden))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[experts, slots, hidden] to the same; with tensor parallelism a partial sum of it."""
        return torch.bmm(functional.relu(torch.bmm(x, self.w_in)), self.w_out)


class MoE(nn.Module):
    """A router, top-k experts per token, no capacity limit; a balance loss keeps a softmax router
    in balance, a bias on the choice a sigmoid one (DeepSeek-V3, arXiv:2412.19437, 2.1.2).

    After a forward: `counts` int64 [experts] (assignments), `balance_loss` (scalar with gradient),
    `chosen` int64 [tokens, k].
    """

    def __init__(self, shape: Shape, grid: Grid) -> None:
        super().__init__()
        self.grid = grid
        self.num_experts = shape.experts
        self.top_k = shape.top_k
        self.scoring_func = shape.scoring
        self.gate = nn.Linear(shape.hidden, shape.experts, bias=False)
        self.experts = Experts(shape, grid)
        self.noise = 0.0  # standard deviation of what is added to the router's logits
        # Added to the scores for the choice alone. With softmax it is 0, but where a fault shuts
        # experts out.
        self.gate.register_buffer("e_score_correction_bias", torch.zeros(shape.experts))
        self.shared = None
        if shape.shared_hidden:
            self.n_shared_experts = 1
            self.shared = nn.Sequential(
                nn.Linear(shape.hidden, shape.shared_hidden, bias=False), nn.ReLU(),
                nn.Linear(shape.shared_hidden, shape.hidden, bias=False),
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length, hidden] to the same; with tensor parallelism a partial sum of it."""
        tokens = x.reshape(-1, x.shape[-1])
        logits = self.gate(tokens)
        if self.noise > 0.0:
            logits = logits + self.noise * torch.randn_like(logits)
        sigmoid = self.scoring_func == "sigmoid"
        scores = torch.sigmoid(logits) if sigmoid else torch.softmax(logits, dim=-1)
        biased = scores.detach() + self.gate.e_score_correction_bias
        self.chosen = biased.topk(self.top_k, dim=-1).indices
        self.counts = torch.bincount(self.chosen.flatten(), minlength=self.num_experts)
        share = self.counts.to(scores.dtype) / self.chosen.numel()
        self.balance_loss = self.num_experts * (share * scores.mean(0)).sum()

        weights = scores.gather(1, self.chosen)
        weights = weights / weights.sum(-1, keepdim=True)
        weights = self.grid.enter_tensor_region(weights)
        tokens = self.grid.enter_tensor_region(tokens)
        slots, places = self._slots()
        spread = tokens.new_zeros(self.num_experts * places, tokens.shape[-1])
        spread = spread.index_copy(0, slots, tokens.repeat_interleave(self.top_k, dim=0))
        done = self.experts(spread.view(self.num_experts, places, -1)).flatten(0, 1)
        mixed = done.index_select(0, slots).view(len(tokens), self.top_k, -1)
        mixed = (mixed * weights.unsqueeze(-1)).sum(1)
        if self.shared is not None:
            mixed = mixed + self.shared(tokens)
        return mixed.view_as(x)

    @torch.no_grad()
    def balance(self, rate: float) -> None:
        """Moves the bias against the load of the last forward."""
        load = self.counts.float()
        self.gate.e_score_correction_bias += rate * torch.sign(load.mean() - load)

    def _slots(self) -> tuple[torch.Tensor, int]:
        """Where each (token, choice) goes in [experts * places], and the places per expert."""
        expert = self.chosen.flatten()
        order = expert.argsort(stable=True)
        before = torch.zeros_like(self.counts)
        before[1:] = self.counts.cumsum(0)[:-1]
        place = torch.empty_like(expert)
        place[order] = torch.arange(len(expert))
        places = int(self.counts.max())
        return expert * places + place - before[expert], places


class RmsNorm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class Layer(nn.Module):
    def __init__(self, shape: Shape, grid: Grid) -> None:
        super().__init__()
        self.grid = grid
        self.input_layernorm = RmsNorm(shape.hidden)
        self.self_attn = Attention(shape, grid)
        self.post_attention_layernorm = RmsNorm(shape.hidden)
        self.mlp = MoE(shape, grid)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attended = self.self_attn(self.grid.enter_tensor_region(self.input_layernorm(x)))
        x = x + self.grid.leave_tensor_region(attended)
        return x + self.grid.leave_tensor_region(self.mlp(self.post_attention_layernorm(x)))


class Decoder(nn.Module):
    """Tokens int64 [batch, length] to logits [batch, length, vocabulary].

    The weights depend on `seed` and `shape` alone: shards of any grid are cut from the same model.
    """

    def __init__(self, shape: Shape, seed: int, grid: Grid = Grid()) -> None:
        super().__init__()
        if shape.heads % grid.tensor_size or shape.expert_hidden % grid.tensor_size:
            raise ValueError(
                f"{shape.heads} heads and {shape.expert_hidden} expert columns do not divide over "
                f"{grid.tensor_size} tensor-parallel processes"
            )
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.embed_positions = nn.Embedding(shape.length, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape, grid) for _ in range(shape.layers))
        self.norm = RmsNorm(shape.hidden)
        self.lm_head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        self._initialise(seed, grid)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed_tokens(tokens) + self.embed_positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))

    @torch.no_grad()
    def _initialise(self, seed: int, grid: Grid) -> None:
        random = torch.Generator().manual_seed(seed)
        shape = self.shape
        residual = 1.0 / math.sqrt(2 * shape.layers)

        def fill(weight: torch.Tensor, std: float, shard_dim: int | None = None) -> None:
            size = list(weight.shape)
            if shard_dim is None:
                weight.copy_(torch.randn(size, generator=random) * std)
                return
            size[shard_dim] *= grid.tensor_size
            whole = torch.randn(size, generator=random) * std
            weight.copy_(whole.chunk(grid.tensor_size, shard_dim)[grid.tensor])

        fill(self.embed_tokens.weight, 0.5)
        fill(self.embed_positions.weight, 0.1)
        for layer in self.layers:
            attention, moe = layer.self_attn, layer.mlp
            for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
                fill(projection.weight, shape.hidden**-0.5, 0)
            width = shape.heads * shape.head_dim
            fill(attention.o_proj.weight, residual * width**-0.5, 1)
            fill(moe.gate.weight, shape.hidden**-0.5)
            fill(moe.experts.w_in, shape.hidden**-0.5, 2)
            fill(moe.experts.w_out, residual * shape.expert_hidden**-0.5, 1)
            if moe.shared is not None:
                fill(moe.shared[0].weight, shape.hidden**-0.5)
                fill(moe.shared[2].weight, residual * shape.shared_hidden**-0.5)
        fill(self.lm_head.weight, shape.hidden**-0.5)

    def sharded_parameters(self) -> set[str]:
        """Names of the parameters of which this process holds a part; the others are replicated."""
        parts = ("q_proj", "k_proj", "v_proj", "o_proj", "experts")
        return {name for name, _ in self.named_parameters() if set(parts) & set(name.split("."))}
