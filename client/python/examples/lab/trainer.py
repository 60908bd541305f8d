"""One optimizer step of the decoder under the knobs of a fault; train.py is the loop around it."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import torch
from torch.nn import functional

from lab.data import Batches
from lab.faults import Knobs
from lab.model import Decoder, Shape
from lab.parallel import Grid


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How the decoder is trained."""

    sequences: int = 8  # per step, over all data ranks
    learning_rate: float = 2e-3
    warmup_steps: int = 100
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    balance: float = 0.01  # weight of the balance loss


@dataclasses.dataclass(frozen=True)
class Step:
    """What a trainer would log of a step. Norms are before clipping; losses in nats per token."""

    loss: float  # mean over the data ranks that counted
    rank_loss: float  # of this process's own sequences
    grad_norm: float
    grad_norm_q: float
    grad_norm_k: float
    grad_norm_router: float
    lr: float  # as scheduled
    aux_loss: float
    tokens: int  # of all data ranks
    own_tokens: int


class Trainer:
    """The decoder, AdamW with linear warm-up, and global-norm clipping."""

    def __init__(
        self, shape: Shape, recipe: Recipe, seed: int, batches: Batches, grid: Grid,
        model: Decoder | None = None,
    ) -> None:
        self.recipe = recipe
        self.seed = seed
        self.batches = batches
        self.grid = grid
        self.model = model or Decoder(shape, seed, grid)
        named = list(self.model.named_parameters())
        sharded = self.model.sharded_parameters()
        self._parameters = [parameter for _, parameter in named]
        self._is_sharded = torch.tensor([name in sharded for name, _ in named])
        self._is_q = torch.tensor(["q_proj" in name for name, _ in named])
        self._is_k = torch.tensor(["k_proj" in name for name, _ in named])
        self._is_router = torch.tensor(["mlp.gate" in name for name, _ in named])
        groups: dict[str, list[Any]] = {"qk": [], "router": [], "other": []}
        for name, parameter in named:
            kind = "qk" if "q_proj" in name or "k_proj" in name else "other"
            groups["router" if "mlp.gate" in name else kind].append(parameter)
        self.optimizer = torch.optim.AdamW(
            [{"params": parameters, "name": name} for name, parameters in groups.items()],
            lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=recipe.weight_decay,
            foreach=True,
        )

    def step(self, step: int, knobs: Knobs) -> Step:
        """Runs optimizer step `step`, >= 0."""
        torch.manual_seed((self.seed * 1_000_003 + step) * 64 + self.grid.data)
        self._set(knobs)
        make = self.batches.noise_at if knobs.noise_batch else self.batches.at
        tokens, targets = make(step, self.grid.data)
        loss = functional.cross_entropy(self.model(tokens).flatten(0, 1), targets.flatten())
        aux = torch.stack([layer.mlp.balance_loss for layer in self.model.layers]).mean()
        if knobs.nan_shard and self.grid.data == self.grid.data_size - 1:
            loss = loss * math.nan
        self.optimizer.zero_grad(set_to_none=True)
        (loss + knobs.balance * self.recipe.balance * aux).backward()
        mean_loss = self._average(loss.detach(), knobs.nan_guard)
        norms = self._norms()
        total = float(norms.norm())
        factor = self.recipe.clip_norm / (total + 1e-6)
        if not factor >= 1.0:  # also where the norm is NaN
            torch._foreach_mul_([p.grad for p in self._parameters], factor)
        lr = self._schedule(step, knobs)
        self.optimizer.step()
        return Step(
            loss=mean_loss,
            rank_loss=float(loss),
            grad_norm=total,
            grad_norm_q=float(norms[self._is_q].norm()),
            grad_norm_k=float(norms[self._is_k].norm()),
            grad_norm_router=float(norms[self._is_router].norm()),
            lr=lr,
            aux_loss=float(aux),
            tokens=tokens.numel() * self.grid.data_size,
            own_tokens=tokens.numel(),
        )

    def checkpoint(self) -> dict[str, Any]:
        """A copy of the weights and of the optimizer's state."""
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        return copy.deepcopy(state)

    def restore(self, checkpoint: dict[str, Any], forget_layers: int = 0) -> None:
        """Back to `checkpoint`; the experts of the last `forget_layers` layers start anew."""
        state = copy.deepcopy(checkpoint)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if forget_layers:
            fresh = Decoder(self.model.shape, self.seed + 1, self.grid)
            for layer, new in list(zip(self.model.layers, fresh.layers))[-forget_layers:]:
                layer.mlp.experts.load_state_dict(new.mlp.experts.state_dict())

    def _set(self, knobs: Knobs) -> None:
        for layer in self.model.layers:
            layer.self_attn.rounding = knobs.rounding
            layer.mlp.noise = knobs.router_noise
            layer.mlp.gate.e_score_correction_bias[: knobs.closed_experts] = -1.0

    def _schedule(self, step: int, knobs: Knobs) -> float:
        recipe = self.recipe
        lr = recipe.learning_rate * min(1.0, (step + 1) / recipe.warmup_steps) * knobs.lr
        factors = {"qk": knobs.qk_lr, "router": knobs.router_lr, "other": 1.0}
        for group in self.optimizer.param_groups:
            group["lr"] = lr * knobs.hidden_lr * factors[group["name"]]
            decays = knobs.qk_weight_decay or group["name"] != "qk"
            group["weight_decay"] = recipe.weight_decay if decays else 0.0
        return lr

    def _average(self, loss: torch.Tensor, guard: bool) -> float:
        """Means of the gradients and of the loss over the data ranks; returns the loss.

        With `guard` a rank whose gradient is not finite counts for nothing.
        """
        if self.grid.data_size == 1:
            return float(loss)
        gradients = [p.grad for p in self._parameters]
        flat = torch.cat([g.flatten() for g in gradients] + [loss.view(1), torch.ones(1)])
        if guard and not bool(torch.isfinite(flat).all()):
            flat.zero_()
        self.grid.sum_over_data(flat)
        flat[:-1] /= flat[-1]
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients] + [1, 1])):
            gradient.copy_(part.view_as(gradient))
        return float(flat[-2])

    def _norms(self) -> torch.Tensor:
        """Gradient norm of every parameter of the whole model, [parameters]."""
        norms = torch.stack([p.grad.norm() for p in self._parameters])
        if self.grid.tensor_size > 1:
            squares = norms.square()
            parts = self.grid.sum_over_tensor(torch.where(self._is_sharded, squares, 0.0))
            norms = torch.where(self._is_sharded, parts, squares).sqrt()
        return norms
