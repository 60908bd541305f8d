"""One optimizer step of a model under the knobs of a fault; train.py is the loop around it."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional

from lab import schedules
from lab.attention import OneHead
from lab.faults import Knobs
from lab.model import MoE
from lab.optimizers import OPTIMIZERS
from lab.parallel import Grid


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a model is trained."""

    sequences: int = 8  # per step, over all data ranks
    learning_rate: float = 2e-3  # at its peak
    optimizer: str = "adamw"
    schedule: str = "constant"
    schedule_steps: int = 1500  # the length of the run that the schedule is made for
    warmup_steps: int = 100
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    balance: float = 0.01  # weight of the balance loss
    bias_rate: float = 0.005  # a step of the bias that balances a sigmoid router
    autocast: bool = False  # matrix products in BF16
    loss_scale: float = 0.0  # at the start, as FP16 training has it; 0: none


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
    skipped: bool
    loss_scale: float | None
    sound_loss: float  # as `loss`; where a fault spoils the data, on the batch that was to come

    def extras(self) -> dict[str, float]:
        """What a trainer may report beside loss and gradient norm."""
        names = ("grad_norm_q", "grad_norm_k", "grad_norm_router", "lr", "aux_loss")
        return {name: getattr(self, name) for name in names}


class Trainer:
    """A model, its optimizer with a schedule, and global-norm clipping.

    Args:
        build: (seed) -> the model; `layers` of it have `self_attn` with `query_key()`.
        batches: has `at` and `noise_at` of data.Batches.
        other: the same for Knobs.other_data; None: there is none.
    """

    def __init__(
        self, build: Callable[[int], nn.Module], recipe: Recipe, seed: int, batches: Any,
        grid: Grid = Grid(), other: Any = None,
    ) -> None:
        self.recipe = recipe
        self.seed = seed
        self.batches = batches
        self.other = other
        self.grid = grid
        self.model = build(seed)
        self.loss_scale = recipe.loss_scale
        self._build = build
        named = [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]
        sharded = getattr(self.model, "sharded_parameters", set)()
        self._named = named
        self._parameters = [parameter for _, parameter in named]
        self._is_sharded = torch.tensor([name in sharded for name, _ in named])
        self._is_q = torch.tensor(["q_proj" in name for name, _ in named])
        self._is_k = torch.tensor(["k_proj" in name for name, _ in named])
        self._is_router = torch.tensor(["mlp.gate." in name for name, _ in named])
        self.optimizer = self._new_optimizer()

    def step(self, step: int, knobs: Knobs) -> Step:
        """Runs optimizer step `step`, >= 0."""
        torch.manual_seed((self.seed * 1_000_003 + step) * 64 + self.grid.data)
        self._set(knobs)
        inputs, targets = self._batch(step, knobs)
        if knobs.embedding_spike:
            self._spike(int(inputs[0, 0]), knobs.embedding_spike)
        if knobs.flipped_bit and self._on_last_rank():
            self._flip()
        loss = self._loss(inputs, targets, knobs.logit_scale)
        aux, pull = self._balance(knobs)
        if knobs.nan_shard and self._on_last_rank():
            loss = loss * math.nan
        self.optimizer.zero_grad(set_to_none=True)
        (loss + self.recipe.balance * pull).backward()
        if knobs.noisy_rank and self._on_last_rank():
            self._drown(knobs.noisy_rank)
        mean_loss = self._average(loss.detach(), knobs.nan_guard)
        norms = self._norms()
        total = float(norms.norm())
        factor = self.recipe.clip_norm / (total + 1e-6)
        if not factor >= 1.0:  # also where the norm is NaN
            torch._foreach_mul_([p.grad for p in self._parameters], factor)
        lr = self._schedule(step, knobs)
        if knobs.overflow:
            self.loss_scale /= 2.0
        else:
            self._update(lr, knobs)
        return Step(
            loss=mean_loss,
            rank_loss=float(loss),
            grad_norm=total,
            grad_norm_q=float(norms[self._is_q].norm()),
            grad_norm_k=float(norms[self._is_k].norm()),
            grad_norm_router=float(norms[self._is_router].norm()),
            lr=lr,
            aux_loss=float(aux),
            tokens=targets.numel() * self.grid.data_size,
            own_tokens=targets.numel(),
            skipped=knobs.overflow,
            loss_scale=self.loss_scale or None,
            sound_loss=self._probe(step) if knobs.spoils_data else mean_loss,
        )

    def checkpoint(self) -> dict[str, Any]:
        """A copy of the weights and of the optimizer's state."""
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        return copy.deepcopy(state)

    def restore(self, checkpoint: dict[str, Any], lost: str = "nothing", layers: int = 1,
                layer: int | None = None) -> None:
        """Back to `checkpoint`, but for what Fault.lost says: the experts of the last `layers`
        layers, or layer number `layer` (default: the last), start from new random weights."""
        state = copy.deepcopy(checkpoint)
        self.model.load_state_dict(state["model"])
        if lost == "moments":
            self.optimizer = self._new_optimizer()
        else:
            self.optimizer.load_state_dict(state["optimizer"])
        if lost in ("experts", "layer"):
            fresh = self._build(self.seed + 1)
            pairs = list(zip(self.model.layers, fresh.layers))
            if lost == "layer":
                mine, new = pairs[-1 if layer is None else layer]
                mine.load_state_dict(new.state_dict())
            else:
                for mine, new in pairs[-layers:]:
                    mine.mlp.experts.load_state_dict(new.mlp.experts.state_dict())

    def _new_optimizer(self) -> torch.optim.Optimizer:
        recipe = self.recipe
        make = OPTIMIZERS[recipe.optimizer]
        return make(self._named, recipe.learning_rate, recipe.weight_decay)

    def _on_last_rank(self) -> bool:
        return self.grid.data == self.grid.data_size - 1

    def _batch(self, step: int, knobs: Knobs) -> tuple[torch.Tensor, torch.Tensor]:
        if knobs.last_rank and not self._on_last_rank():
            knobs = Knobs()
        source = self.other if knobs.other_data else self.batches
        if knobs.noise_batch:
            return source.noise_at(step, self.grid.data)
        inputs, targets = source.at(step - knobs.batch_age, self.grid.data, knobs.batch_scale)
        if knobs.shuffled:
            flat = targets.flatten()
            taken = torch.rand(flat.shape) < knobs.shuffled
            flat[taken] = flat[taken][torch.randperm(int(taken.sum()))]
            targets = flat.view_as(targets)
        if knobs.degenerate:
            count = round(knobs.degenerate * len(inputs))
            inputs, targets = inputs.clone(), targets.clone()
            inputs[:count] = targets[:count] = inputs[:count, :1]
        return inputs, targets

    def _loss(
        self, inputs: torch.Tensor, targets: torch.Tensor, logit_scale: float = 1.0
    ) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.recipe.autocast):
            logits = self.model(inputs).float() * logit_scale
        return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())

    def _balance(self, knobs: Knobs) -> tuple[torch.Tensor, torch.Tensor]:
        """The mean balance loss of the layers, and the same with the factors that knobs give it."""
        losses, factors = [], []
        for number, layer in enumerate(self.model.layers):
            if is_moe(layer):
                losses.append(layer.mlp.balance_loss)
                factors.append(knobs.balance if knobs.layer in (None, number) else 1.0)
        if not losses:
            return torch.zeros(()), torch.zeros(())
        each = torch.stack(losses)
        return each.mean(), (each * torch.tensor(factors)).mean()

    @torch.no_grad()
    def _probe(self, step: int) -> float:
        """The loss on this rank's healthy batch of `step`; a watcher takes it for an evaluation."""
        self.model.eval()
        loss = self._loss(*self._batch(step, Knobs()))
        self.model.train()
        return float(loss)

    @torch.no_grad()
    def _set(self, knobs: Knobs) -> None:
        for number, layer in enumerate(self.model.layers):
            here = knobs if knobs.layer in (None, number) else Knobs()
            attention = layer.self_attn
            attention.rounding = here.rounding
            if here.head is not None:
                attention.rounding = OneHead(here.rounding, here.head, attention.num_heads)
            if is_moe(layer):
                layer.mlp.noise = here.router_noise
                bias = layer.mlp.gate.e_score_correction_bias
                bias[: here.closed_experts] = -1.0
                if here.hot_expert:
                    bias[0] = 1.0

    @torch.no_grad()
    def _spike(self, token: int, factor: float) -> None:
        embedding = next(m for m in self.model.modules() if isinstance(m, nn.Embedding))
        embedding.weight[token] *= factor

    def _schedule(self, step: int, knobs: Knobs) -> float:
        recipe = self.recipe
        factor = schedules.factor(recipe.schedule, step, recipe.schedule_steps, recipe.warmup_steps)
        lr = recipe.learning_rate * factor * knobs.lr
        for group in self.optimizer.param_groups:
            group["lr"] = lr
            group["weight_decay"] = recipe.weight_decay * knobs.weight_decay
        return lr

    @torch.no_grad()
    def _update(self, lr: float, knobs: Knobs) -> None:
        """The optimizer's step, and after it more of the same where a knob hurries weights."""
        hurried = self._hurried(knobs)
        before = [weight.clone() for weight, _, _ in hurried]
        self.optimizer.step()
        decay = lr * self.recipe.weight_decay * knobs.weight_decay
        for (weight, factor, decays), old in zip(hurried, before):
            update = weight - old
            if not decays:
                update += decay * old
            weight.copy_(old + factor * update)
        rate = self.recipe.bias_rate
        for number, layer in enumerate(self.model.layers):
            if is_moe(layer) and layer.mlp.scoring_func == "sigmoid":
                here = knobs.balance if knobs.layer in (None, number) else 1.0
                layer.mlp.balance(rate * here)

    def _hurried(self, knobs: Knobs) -> list[tuple[torch.Tensor, float, bool]]:
        """(weights, factor on their update, whether they decay)."""
        hurried = []
        if knobs.hidden_lr != 1.0:
            hurried += [(p.data, knobs.hidden_lr, True) for p in self._parameters]
        for number, layer in enumerate(self.model.layers):
            if knobs.layer not in (None, number):
                continue
            if knobs.qk_lr != 1.0 or not knobs.qk_weight_decay:
                hurried += [(weight.data, knobs.qk_lr, knobs.qk_weight_decay)
                            for weight in layer.self_attn.query_key()]
            if knobs.router_lr != 1.0 and is_moe(layer):
                hurried.append((layer.mlp.gate.weight.data, knobs.router_lr, True))
        return hurried

    @torch.no_grad()
    def _flip(self) -> None:
        """The bit of 2^16 in the exponent of one weight that writes into the residual stream, in the
        layer in the middle."""
        layer = self.model.layers[len(self.model.layers) // 2]
        matrices = [p for p in layer.parameters() if p.dim() >= 2]
        matrices[-1].data.view(-1)[0] *= 2.0**16

    def _drown(self, strength: float) -> None:
        """Noise of `strength` times the gradient's norm takes its place."""
        for parameter in self._parameters:
            noise = torch.randn_like(parameter.grad)
            noise *= strength * parameter.grad.norm() / noise.norm()
            parameter.grad.copy_(noise)

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


def is_moe(layer: nn.Module) -> bool:
    return isinstance(getattr(layer, "mlp", None), MoE)
