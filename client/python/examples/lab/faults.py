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
SPIKE_EVERY_STEPS = 10
NAN_GUARD_STEPS = 140  # so long the trainer drops a non-finite shard; then the guard fails
RESUME_AFTER_STEPS = 100  # steps lost when the run goes back to its checkpoint
SHORT_RAMP_STEPS = 100  # a learning-rate level is reached in so many steps


@dataclasses.dataclass
class Knobs:
    """The settings of one step."""

    layer: int | None = None  # to which a fault inside of layers is limited; None: all
    head: int | None = None  # to which `rounding` is limited; None: all
    rounding: Rounding = Rounding()
    lr: float = 1.0  # factor on the schedule, seen in `lr`
    hidden_lr: float = 1.0  # factor that the optimizer applies and nobody reports
    qk_lr: float = 1.0  # factor for W_Q and W_K, not reported either
    qk_weight_decay: bool = True
    router_lr: float = 1.0
    weight_decay: float = 1.0  # factor
    router_noise: float = 0.0
    balance: float = 1.0  # factor on the balance loss and on the rate of a balancing bias
    closed_experts: int = 0
    hot_expert: bool = False  # the first expert is chosen by every token
    last_rank: bool = False  # the data below reaches the last data rank alone
    noise_batch: bool = False
    batch_age: int = 0  # the batch of so many steps ago comes again
    shuffled: float = 0.0  # share of targets that are those of other tokens
    degenerate: float = 0.0  # share of sequences that repeat their first token
    other_data: bool = False  # another source, as a declared change brings it
    batch_scale: float = 1.0
    embedding_spike: float = 0.0  # what the embedding of the batch's first token is multiplied by
    logit_scale: float = 1.0  # on the output
    flipped_bit: bool = False  # in this step a weight of the last data rank is 2^16 times as large
    overflow: bool = False  # the scaled gradient of this step leaves FP16's range
    noisy_rank: float = 0.0  # the last data rank's gradient is noise of so many times its norm
    nan_shard: bool = False  # the last data rank computes NaN in this step
    nan_guard: bool = True  # a shard with non-finite gradients is left out of the mean

    @property
    def spoils_data(self) -> bool:
        """The loss of the step says nothing of how good the model is."""
        return bool(self.noise_batch or self.batch_age or self.shuffled or self.degenerate)


@dataclasses.dataclass(frozen=True)
class Fault:
    """One entry of the table.

    Attributes:
        named: the fault id a warning should carry; "" if no warning is wanted.
        strength: the default, its unit in words, and the least and greatest that make sense.
        apply: (knobs, steps since the injection, >= 0; strength); changes the knobs.
        processes: least number of data-parallel processes it makes sense with.
        lost: what is not restored when the run goes back to its checkpoint: "experts" (of the last
            STRENGTH layers), "layer", "moments" (of the optimizer), "nothing"; "": it does not.
        declares: the kind of event by which the trainer announces it.
        needs: of the model, "experts", or "rounding" (attention by lab.attention); "": nothing.
    """

    named: str
    strength: float
    unit: str
    limits: tuple[float, float]
    help: str
    apply: Callable[[Knobs, int, float], None] = lambda knobs, since, strength: None
    processes: int = 1
    lost: str = ""
    declares: str = ""
    needs: str = ""

    @property
    def quiet(self) -> bool:
        """No warning is wanted."""
        return self.named in ("", "data_batch")


def _bf16_attention(knobs: Knobs, since: int, strength: float) -> None:
    knobs.rounding = Rounding("toward-zero", int(strength))


def _attention_bias(knobs: Knobs, since: int, strength: float) -> None:
    knobs.rounding = Rounding("toward-zero", 7, strength)


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


def _learning_rate_level(knobs: Knobs, since: int, strength: float) -> None:
    knobs.lr = strength ** min(1.0, (since + 1) / SHORT_RAMP_STEPS)


def _learning_rate_from_start(knobs: Knobs, since: int, strength: float) -> None:
    knobs.lr = strength


def _balancing_lost(knobs: Knobs, since: int, strength: float) -> None:
    knobs.balance = -strength


def _hot_expert(knobs: Knobs, since: int, strength: float) -> None:
    knobs.hot_expert = True


def _weight_decay(knobs: Knobs, since: int, strength: float) -> None:
    knobs.weight_decay = -strength


def _shuffled(knobs: Knobs, since: int, strength: float) -> None:
    knobs.shuffled = strength


def _repeated(knobs: Knobs, since: int, strength: float) -> None:
    knobs.batch_age = since


def _degenerate(knobs: Knobs, since: int, strength: float) -> None:
    knobs.degenerate = strength


def _embedding_spikes(knobs: Knobs, since: int, strength: float) -> None:
    knobs.embedding_spike = strength if since % SPIKE_EVERY_STEPS == 0 else 0.0


def _logit_scale(knobs: Knobs, since: int, strength: float) -> None:
    knobs.logit_scale = strength ** min(1.0, (since + 1) / SHORT_RAMP_STEPS)


def _rank_noise(knobs: Knobs, since: int, strength: float) -> None:
    knobs.noisy_rank = strength


def _rank_labels(knobs: Knobs, since: int, strength: float) -> None:
    knobs.last_rank = True
    knobs.shuffled = strength


def _flipped_bit(knobs: Knobs, since: int, strength: float) -> None:
    knobs.flipped_bit = since == 0


def _overflow(knobs: Knobs, since: int, strength: float) -> None:
    knobs.overflow = since % int(strength) == 0


def _data_change(knobs: Knobs, since: int, strength: float) -> None:
    knobs.other_data = True


def _batch_size(knobs: Knobs, since: int, strength: float) -> None:
    knobs.batch_scale = strength


FAULTS = {
    "none": Fault("", 0, "", (0, 0), "a healthy run"),
    "bf16-attention": Fault(
        "low_precision_attention", 7, "mantissa bits dropped, 0..7", (0, 7),
        "the attention output is cut toward zero to BF16 and STRENGTH bits less; without the extra "
        "bits nothing happens in a model this small, so the bias is amplified 2^STRENGTH-fold",
        _bf16_attention, needs="rounding"),
    "attention-bias": Fault(
        "low_precision_attention", 16, "times the error", (1, 1e4),
        "bf16-attention with all bits dropped, and the backward pass sees STRENGTH times its "
        "error: harm in hundreds of steps to models that shrug off the plain fault",
        _attention_bias, needs="rounding"),
    "bf16-attention-zero-mean": Fault(
        "", 7, "mantissa bits dropped, 0..7", (0, 7),
        "negative control: as coarse as bf16-attention, but rounded without a bias",
        _zero_mean, needs="rounding"),
    "learning-rate": Fault(
        "learning_rate_too_high", 20, f"factor per {RAMP_STEPS} steps", (1, 1e6),
        "the learning rate ramps up geometrically", _learning_rate),
    "combined": Fault(
        "combined", 7, "mantissa bits dropped, 0..7", (0, 7),
        "bf16-attention, and the learning rate x 3 at once", _combined, needs="rounding"),
    "router-collapse": Fault(
        "router_collapse", 30, "factor on the router's learning rate", (1, 1e4),
        "no balance loss, a noisy router that learns too fast", _router_collapse, needs="experts"),
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
        "the first STRENGTH experts of every layer are never chosen",
        _dead_experts, needs="experts"),
    "data-batch": Fault(
        "data_batch", 1, "batches", (1, 1000), "STRENGTH batches of random bytes", _data_batch),
    "optimizer": Fault(
        "optimizer_fault", 4, "factor on every update", (1, 1e4),
        "the optimizer applies STRENGTH times the learning rate that is scheduled and reported",
        _optimizer),
    "resume": Fault(
        "resume_fault", 1, "layers, 1..3", (1, 3),
        f"{RESUME_AFTER_STEPS} steps after a checkpoint the run goes back to it, and the experts "
        "of the last STRENGTH layers are not restored but start anew",
        lost="experts", needs="experts"),
    "learning-rate-level": Fault(
        "learning_rate_too_high", 8, f"factor, reached in {SHORT_RAMP_STEPS} steps", (1, 1e4),
        "the learning rate goes to a higher level and stays there", _learning_rate_level),
    "learning-rate-start": Fault(
        "learning_rate_too_high", 30, "factor", (1, 1e4),
        "the learning rate is too high; with --inject-step 0 from the start",
        _learning_rate_from_start),
    "balancing-lost": Fault(
        "router_collapse", 5, "times the sign is wrong; 0: balancing stops", (0, 1e4),
        "the balance loss, or the bias that balances, pulls STRENGTH times the wrong way",
        _balancing_lost, needs="experts"),
    "hot-expert": Fault(
        "dead_experts", 0, "", (0, 0), "every token takes the first expert",
        _hot_expert, needs="experts"),
    "weight-decay-sign": Fault(
        "optimizer_fault", 30, "times the weight decay", (1, 1e4),
        "weight decay has the wrong sign and is STRENGTH times as strong; as strong as it was "
        "nothing happens in so few steps", _weight_decay),
    "shuffled-labels": Fault(
        "unknown", 0.5, "share of the targets", (0, 1), "targets belong to other tokens",
        _shuffled),
    "repeated-batch": Fault("unknown", 0, "", (0, 0), "one batch for ever", _repeated),
    "degenerate-tokens": Fault(
        "unknown", 0.5, "share of the sequences", (0, 1), "sequences that repeat one token",
        _degenerate),
    "embedding-spikes": Fault(
        "unknown", 4, "factor", (1, 1e4),
        f"every {SPIKE_EVERY_STEPS} steps a row of the embedding is multiplied",
        _embedding_spikes),
    "logit-scale": Fault(
        "unknown", 4, f"factor, reached in {SHORT_RAMP_STEPS} steps", (1, 1e4),
        "the output logits are scaled up", _logit_scale),
    "rank-labels": Fault(
        "rank_outlier", 0.5, "share of its targets", (0, 1),
        "targets of the last data rank belong to other tokens", _rank_labels, processes=2),
    "flipped-bit": Fault(
        "rank_outlier", 0, "", (0, 0),
        "a bit of an exponent flips in one weight of the last data rank, whose copy stays another",
        _flipped_bit, processes=2),
    "loss-scale": Fault(
        "unknown", 2, "steps", (1, 1000),
        "every STRENGTHth step overflows and is skipped, and the loss scale halves", _overflow),
    "rank-noise": Fault(
        "optimizer_fault", 3, "times the gradient's norm", (0, 1e4),
        "the last data rank's gradient is noise", _rank_noise, processes=2),
    "moments-lost": Fault(
        "resume_fault", 0, "", (0, 0), "a resume whose optimizer begins without its moments",
        lost="moments"),
    "layer-lost": Fault(
        "resume_fault", 0, "", (0, 0), "a resume that does not restore one layer", lost="layer"),
    "clean-resume": Fault(
        "", 0, "", (0, 0), "a resume that restores everything", lost="nothing"),
    "data-change": Fault(
        "", 0, "", (0, 0), "another source of data, announced", _data_change,
        declares="data_change"),
    "batch-size": Fault(
        "", 2, "factor", (0.01, 100), "batches of another size, announced", _batch_size,
        declares="batch_size"),
}


def knobs_at(
    fault: str, step: int, inject_step: int, strength: float, layer: int | None = None,
    head: int | None = None,
) -> Knobs:
    """The settings of `step`; pure."""
    knobs = Knobs()
    if step >= inject_step:
        knobs.layer, knobs.head = layer, head
        FAULTS[fault].apply(knobs, step - inject_step, strength)
    return knobs
