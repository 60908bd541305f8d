"""What can go wrong between a trainer and its rollout engine: the table of `--mode rl`."""

from __future__ import annotations

import dataclasses
from typing import Callable

from lab.attention import Rounding

OVERFLOW_EVERY_STEPS = 3


@dataclasses.dataclass
class RlKnobs:
    """The settings of one step."""

    rollout_weights: Rounding = Rounding()  # a rollout engine serves BF16; the trainer keeps FP32
    rollout_router_noise: float = 0.0  # standard deviation, on the rollout's router logits alone
    update: bool = True  # the optimizer step is made
    advantage_scale: float = 1.0


@dataclasses.dataclass(frozen=True)
class RlFault:
    """As faults.Fault: `named` is the fault id a warning should carry, `limits` of the strength."""

    named: str
    strength: float
    unit: str
    limits: tuple[float, float]
    help: str
    apply: Callable[[RlKnobs, int, float], None] = lambda knobs, since, strength: None


def _rollout_precision(knobs: RlKnobs, since: int, strength: float) -> None:
    knobs.rollout_weights = Rounding("toward-zero", int(strength))


def _skipped_update(knobs: RlKnobs, since: int, strength: float) -> None:
    knobs.update = False


def _route_mismatch(knobs: RlKnobs, since: int, strength: float) -> None:
    knobs.rollout_router_noise = strength


def _grad_overflow(knobs: RlKnobs, since: int, strength: float) -> None:
    if since % OVERFLOW_EVERY_STEPS == 0:
        knobs.advantage_scale = strength


FAULTS = {
    "none": RlFault("", 0, "", (0, 0), "a healthy run"),
    "rollout-precision": RlFault(
        "train_infer_mismatch", 5, "mantissa bits dropped", (0, 7),
        "the rollout's BF16 weights are cut toward zero and lose STRENGTH bits more",
        _rollout_precision),
    "skipped-update": RlFault(
        "actor_update_omitted", 0, "", (0, 0),
        "gradients are computed, but the optimizer step is never made", _skipped_update),
    "route-mismatch": RlFault(
        "train_infer_mismatch", 2, "standard deviation on the router's logits", (0, 100),
        "the rollout's routers are noisy, so that it takes other experts than the trainer",
        _route_mismatch),
    "grad-overflow": RlFault(
        "unknown", 1e6, "factor on the advantages", (1, 1e12),
        f"every {OVERFLOW_EVERY_STEPS}rd step the advantages are badly normalised, the scaled "
        "gradient leaves FP16's range, the step is skipped and the loss scale halved",
        _grad_overflow),
}  # fmt: skip


def knobs_at(fault: str, step: int, inject_step: int, strength: float) -> RlKnobs:
    """The settings of `step`; pure."""
    knobs = RlKnobs()
    if step >= inject_step:
        FAULTS[fault].apply(knobs, step - inject_step, strength)
    return knobs
