"""What can be broken, how, and from which step: data, not code in the loops.

A fault turns the step into `Knobs`; the training loop reads nothing else. Before the injection, and
for `none`, the knobs are at rest.
"""

from __future__ import annotations

import dataclasses
from typing import Callable

from lab.attention import Rounding

RAMP_STEPS = 600  # a learning-rate ramp reaches its factor after so many steps, and goes on
NAN_EVERY_STEPS = 7
NAN_GUARD_STEPS = 140  # so long the trainer drops a non-finite shard; then the guard fails
RESUME_AFTER_STEPS = 100  # steps lost when the run goes back to its checkpoint


@dataclasses.dataclass
class Knobs:
    """The settings of one step."""

    rounding: Rounding = Rounding()
    lr: float = 1.0  # factor on the schedule, seen in `lr`
    hidden_lr: float = 1.0  # factor that the optimizer applies and nobody reports
    qk_lr: float = 1.0  # factor for W_Q and W_K, not reported either
    qk_weight_decay: bool = True
    router_lr: float = 1.0
    router_noise: float = 0.0
    balance: float = 1.0  # factor on the balance loss
    closed_experts: int = 0
    noise_batch: bool = False
    nan_shard: bool = False  # the last data rank computes NaN in this step
    nan_guard: bool = True  # a shard with non-finite gradients is left out of the mean


@dataclasses.dataclass(frozen=True)
class Fault:
    """One entry of the table.

    Attributes:
        named: the fault id a warning should carry; "" if no warning is wanted.
        strength: the default, its unit in words, and the least and greatest that make sense.
        apply: (knobs, steps since the injection, >= 0; strength); changes the knobs.
        processes: least number of data-parallel processes it makes sense with.
    """

    named: str
    strength: float
    unit: str
    limits: tuple[float, float]
    help: str
    apply: Callable[[Knobs, int, float], None] = lambda knobs, since, strength: None
    processes: int = 1


def _bf16_attention(knobs: Knobs, since: int, strength: float) -> None:
    knobs.rounding = Rounding("toward-zero", int(strength))


def _zero_mean(knobs: Knobs, since: int, strength: float) -> None:
    knobs.rounding = Rounding("zero-mean", int(strength))


def _learning_rate(knobs: Knobs, since: int, strength: float) -> None:
    knobs.lr = strength ** (since / RAMP_STEPS)


def _combined(knobs: Knobs, since: int, strength: float) -> None:
    knobs.lr = 3.0
    knobs.rounding = Rounding("toward-zero", int(strength))


def _router_collapse(knobs: Knobs, since: int, strength: float) -> None:
    knobs.balance = 0.0
    knobs.router_lr = strength
    knobs.router_noise = 1.0


def _logit_growth(knobs: Knobs, since: int, strength: float) -> None:
    knobs.qk_lr = strength
    knobs.qk_weight_decay = False


def _nan_rank(knobs: Knobs, since: int, strength: float) -> None:
    knobs.nan_shard = since % NAN_EVERY_STEPS == 0
    knobs.nan_guard = since < NAN_GUARD_STEPS


def _dead_experts(knobs: Knobs, since: int, strength: float) -> None:
    knobs.closed_experts = int(strength)


def _data_batch(knobs: Knobs, since: int, strength: float) -> None:
    knobs.noise_batch = since < int(strength)


def _optimizer(knobs: Knobs, since: int, strength: float) -> None:
    knobs.hidden_lr = strength


FAULTS = {
    "none": Fault("", 0, "", (0, 0), "a healthy run"),
    "bf16-attention": Fault(
        "low_precision_attention", 7, "mantissa bits dropped, 0..7", (0, 7),
        "the attention output is cut toward zero to BF16 and STRENGTH bits less; without the extra "
        "bits nothing happens in a model this small, so the bias is amplified 2^STRENGTH-fold",
        _bf16_attention),
    "bf16-attention-zero-mean": Fault(
        "", 7, "mantissa bits dropped, 0..7", (0, 7),
        "negative control: as coarse as bf16-attention, but rounded without a bias", _zero_mean),
    "learning-rate": Fault(
        "learning_rate_too_high", 20, f"factor per {RAMP_STEPS} steps", (1, 1e6),
        "the learning rate ramps up geometrically", _learning_rate),
    "combined": Fault(
        "combined", 7, "mantissa bits dropped, 0..7", (0, 7),
        "bf16-attention, and the learning rate x 3 at once", _combined),
    "router-collapse": Fault(
        "router_collapse", 30, "factor on the router's learning rate", (1, 1e4),
        "no balance loss, a noisy router that learns too fast", _router_collapse),
    "logit-growth": Fault(
        "logit_growth", 20, "factor on the learning rate of W_Q and W_K", (1, 1e4),
        "W_Q and W_K learn too fast, without weight decay", _logit_growth),
    "nan-rank": Fault(
        "nonfinite_rank", 0, "", (0, 0),
        f"the last data rank computes NaN every {NAN_EVERY_STEPS}th step and is left out of the "
        f"mean; from {NAN_GUARD_STEPS} steps on it is not, and the NaN reaches the weights",
        _nan_rank, processes=2),
    "dead-experts": Fault(
        "dead_experts", 2, "experts closed, 1..6", (1, 6),
        "the first STRENGTH experts of every layer are never chosen", _dead_experts),
    "data-batch": Fault(
        "data_batch", 1, "batches", (1, 1000), "STRENGTH batches of random bytes", _data_batch),
    "optimizer": Fault(
        "optimizer_fault", 4, "factor on every update", (1, 1e4),
        "the optimizer applies STRENGTH times the learning rate that is scheduled and reported",
        _optimizer),
    "resume": Fault(
        "resume_fault", 1, "layers, 1..3", (1, 3),
        f"{RESUME_AFTER_STEPS} steps after a checkpoint the run goes back to it, and the experts "
        "of the last STRENGTH layers are not restored but start anew"),
}


def knobs_at(fault: str, step: int, inject_step: int, strength: float) -> Knobs:
    """The settings of `step`; pure."""
    knobs = Knobs()
    if step >= inject_step:
        FAULTS[fault].apply(knobs, step - inject_step, strength)
    return knobs
