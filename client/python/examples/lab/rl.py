"""A small GRPO-like loop: a policy learns to write four digits backwards.

Per step: a rollout engine with its own copy of the weights samples GROUP answers to each of PROMPTS
prompts and keeps the log-probability of every token; the reward, which is checked and not learned,
is the share of right digits; the trainer computes its own log-probabilities of the same tokens and
takes one clipped policy-gradient step on the advantages within each group. Trainer and rollout
compute the same thing twice, and what is watched is by how much they differ.
"""

from __future__ import annotations

import dataclasses

import torch

import foreshock
from lab.attention import Rounding
from lab.model import Decoder, Shape
from lab.parallel import Grid
from lab.progress import Progress
from lab.rl_faults import RlKnobs, knobs_at
from lab.watching import Sink

DIGITS = 4
SEPARATOR = 10
SHAPE = Shape(vocabulary=12, length=2 * DIGITS, layers=2, expert_hidden=48)
PROMPTS = 16
GROUP = 8
LEARNING_RATE = 1e-3
WARMUP_STEPS = 20
CLIP = 0.2  # of the probability ratio
CLIP_NORM = 1.0
BALANCE = 0.01
FP16_MAX = 65504.0
FIRST_LOSS_SCALE = 2.0**12
GROW_EVERY_STEPS = 200  # without an overflow the loss scale doubles


@dataclasses.dataclass(frozen=True)
class RlPlan:
    fault: str
    strength: float
    inject_step: int
    steps: int
    seed: int
    sink: Sink
    prompts: int = PROMPTS  # a step


@dataclasses.dataclass(frozen=True)
class Rollout:
    """n = prompts * GROUP answers."""

    tokens: torch.Tensor  # int64 [n, 2 * DIGITS + 1]: prompt, separator, answer
    logprobs: torch.Tensor  # [n, DIGITS], of the answer's tokens, by the rollout's own forward
    chosen: torch.Tensor  # int64 [layers, n, DIGITS, k]: experts, sorted
    rewards: torch.Tensor  # [n]


class RolloutEngine:
    """A policy of its own that takes over the trainer's weights before each batch."""

    def __init__(self, policy: Decoder) -> None:
        self._policy = Decoder(policy.shape, seed=0)  # its weights come with `take_over`

    @torch.no_grad()
    def take_over(self, policy: Decoder, rounding: Rounding) -> None:
        for mine, theirs in zip(self._policy.parameters(), policy.parameters()):
            mine.copy_(rounding(theirs.detach()))

    @torch.no_grad()
    def sample(self, prompts: torch.Tensor, router_noise: float) -> Rollout:
        """Answers to `prompts` int64 [n, DIGITS], one token after the other."""
        for layer in self._policy.layers:
            layer.mlp.noise = router_noise
        separator = torch.full((len(prompts), 1), SEPARATOR)
        tokens = torch.cat([prompts, separator], dim=1)
        logprobs, chosen = [], []
        for _ in range(DIGITS):
            scores = torch.log_softmax(self._policy(tokens)[:, -1], dim=-1)
            token = torch.multinomial(scores.exp(), 1)
            logprobs.append(scores.gather(1, token))
            chosen.append(_routes(self._policy, len(tokens))[:, :, -1:])
            tokens = torch.cat([tokens, token], dim=1)
        right = tokens[:, DIGITS + 1 :] == prompts.flip(1)
        return Rollout(tokens, torch.cat(logprobs, 1), torch.cat(chosen, 2), right.float().mean(1))


def train_rl(plan: RlPlan, policy: Decoder | None = None) -> dict[int, float]:
    """Runs `plan` on `policy` (default: a new one) and leaves it trained; the mean reward by step."""
    policy = policy or Decoder(SHAPE, plan.seed)
    engine = RolloutEngine(policy)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95),
                                  weight_decay=0.01, foreach=True)  # fmt: skip
    monitor = plan.sink.watch(policy, optimizer, Grid(), 1, None)
    progress = Progress(plan.fault, plan.steps)
    scale = FIRST_LOSS_SCALE
    since_overflow = 0
    rewards: dict[int, float] = {}
    for step in range(plan.steps):
        torch.manual_seed(plan.seed * 1_000_003 + step)
        knobs = knobs_at(plan.fault, step, plan.inject_step, plan.strength)
        engine.take_over(policy, knobs.rollout_weights)
        prompts = torch.randint(0, 10, (plan.prompts, DIGITS)).repeat_interleave(GROUP, dim=0)
        rollout = engine.sample(prompts, knobs.rollout_router_noise)
        learned = _learn(policy, optimizer, rollout, knobs, step, scale)
        overflow = not learned.finite
        since_overflow = 0 if overflow else since_overflow + 1
        rewards[step] = float(rollout.rewards.mean())
        if monitor is not None:
            different = (learned.chosen != rollout.chosen).any(-1)  # [layers, n, DIGITS]
            any_layer = different.any(0)
            mismatch = foreshock.policy_mismatch(
                learned.logprobs,
                rollout.logprobs,
                routes=(different.numel(), int(different.sum())),
                tokens_with_route_mismatch=(any_layer.numel(), int(any_layer.sum())),
            )
            monitor.step(
                step,
                grad_norm=learned.grad_norm,
                tokens=rollout.logprobs.numel(),
                skipped=overflow,
                policy_mismatch=mismatch,
                pg_loss=learned.loss,
                aux_loss=learned.aux_loss,
                reward_mean=rewards[step],
                reward_std=float(rollout.rewards.std()),
                policy_entropy=learned.entropy,
                clip_fraction=learned.clip_fraction,
                loss_scale=scale,
                update_rms=learned.update_rms,
                param_rms=learned.param_rms,
                lr=optimizer.param_groups[0]["lr"],
            )
        if overflow:
            scale /= 2.0
        elif since_overflow and since_overflow % GROW_EVERY_STEPS == 0:
            scale *= 2.0
        progress.at(step + 1, f"step {step}  reward {rewards[step]:.3f}")
    if monitor is not None:
        monitor.close(timeout=60.0)
    return rewards


@dataclasses.dataclass(frozen=True)
class Learned:
    logprobs: torch.Tensor  # [n, DIGITS], the trainer's, before its update
    chosen: torch.Tensor  # as Rollout.chosen
    finite: bool  # False: the scaled gradient left FP16's range and the step was skipped
    loss: float
    aux_loss: float
    grad_norm: float  # unscaled, before clipping
    entropy: float
    clip_fraction: float
    update_rms: float
    param_rms: float


def _learn(
    policy: Decoder,
    optimizer: torch.optim.Optimizer,
    rollout: Rollout,
    knobs: RlKnobs,
    step: int,
    scale: float,
) -> Learned:
    groups = rollout.rewards.view(-1, GROUP)
    advantages = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 0.1)
    advantages = knobs.advantage_scale * advantages.view(-1, 1)
    scores = torch.log_softmax(policy(rollout.tokens[:, :-1])[:, DIGITS:], dim=-1)
    chosen = _routes(policy, len(rollout.tokens))[:, :, DIGITS:]
    logprobs = scores.gather(2, rollout.tokens[:, DIGITS + 1 :].unsqueeze(-1)).squeeze(-1)
    ratio = torch.exp(logprobs - rollout.logprobs)
    clipped = ratio.clamp(1.0 - CLIP, 1.0 + CLIP)
    loss = -torch.minimum(ratio * advantages, clipped * advantages).mean()
    aux = torch.stack([layer.mlp.balance_loss for layer in policy.layers]).mean()
    optimizer.zero_grad(set_to_none=True)
    (loss + BALANCE * aux).backward()
    parameters = list(policy.parameters())
    largest = max(float(p.grad.abs().max()) for p in parameters)
    finite = largest * scale <= FP16_MAX
    norm = float(torch.nn.utils.clip_grad_norm_(parameters, CLIP_NORM))
    optimizer.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, (step + 1) / WARMUP_STEPS)
    before = torch.cat([p.detach().flatten() for p in parameters])
    if finite and knobs.update:
        optimizer.step()
    after = torch.cat([p.detach().flatten() for p in parameters])
    return Learned(
        logprobs=logprobs.detach(),
        chosen=chosen,
        finite=finite,
        loss=float(loss),
        aux_loss=float(aux),
        grad_norm=norm,
        entropy=float(-(scores.exp() * scores).sum(-1).mean()),
        clip_fraction=float(((ratio - 1.0).abs() > CLIP).float().mean()),
        update_rms=float((after - before).square().mean().sqrt()),
        param_rms=float(before.square().mean().sqrt()),
    )


def _routes(policy: Decoder, sequences: int) -> torch.Tensor:
    """Experts that the last forward chose, sorted: int64 [layers, sequences, length, k]."""
    chosen = [layer.mlp.chosen.sort(-1).values for layer in policy.layers]
    return torch.stack(chosen).view(len(chosen), sequences, -1, policy.shape.top_k)
