"""The pretraining loop: trainer, fault, monitor and progress bar; a resume is a second attempt."""

from __future__ import annotations

import dataclasses
from typing import Callable
from torch import nn

from lab.faults import FAULTS, RESUME_AFTER_STEPS, knobs_at
from lab.parallel import Grid
from lab.progress import Progress
from lab.settings import Setting
from lab.trainer import Step, Trainer, is_moe
from lab.watching import Sink


@dataclasses.dataclass(frozen=True)
class Plan:
    """One run of the lab."""

    fault: str
    strength: float
    inject_step: int
    steps: int
    seed: int
    setting: Setting
    sink: Sink
    layer: int | None = None  # to which the fault is limited; None: all
    head: int | None = None

    def attempts(self) -> list[range]:
        """The steps of each attempt; a second one goes back to the injection's checkpoint."""
        if not FAULTS[self.fault].lost:
            return [range(self.steps)]
        lost = self.inject_step + RESUME_AFTER_STEPS
        return [range(lost), range(self.inject_step, self.steps)]


def train(
    plan: Plan, grid: Grid, model: nn.Module | None = None,
    look: Callable[[int, Step], None] = lambda step, result: None,
) -> dict[int, float]:
    """Runs `plan` on this process of `grid` with `model` (default: a new one) and leaves it trained;
    returns the mean loss by step, of the last attempt that reached the step. `look` is shown every
    step."""
    setting, fault = plan.setting, FAULTS[plan.fault]
    sequences = setting.recipe.sequences // grid.data_size
    batches, other = (setting.source(plan.seed, sequences, dialect) for dialect in (0, 1))

    def build(seed: int) -> nn.Module:
        return model if model is not None and seed == plan.seed else setting.build(seed, grid)

    trainer = Trainer(build, setting.recipe, plan.seed, batches, grid, other)
    _check(plan, trainer.model)
    losses: dict[int, float] = {}
    attempts = plan.attempts()
    progress = Progress(plan.fault, sum(len(steps) for steps in attempts), grid.rank == 0)
    done = 0
    checkpoint = None
    for number, steps in enumerate(attempts, start=1):
        if checkpoint is not None:
            trainer.restore(checkpoint, fault.lost, int(plan.strength), plan.layer)
        monitor = plan.sink.watch(
            trainer.model, trainer.optimizer, grid, number, steps.start if number > 1 else None,
            setting.dense_sampling,
        )
        for step in steps:
            if fault.declares and step == plan.inject_step and monitor is not None:
                monitor.event(fault.declares, step)
            if fault.lost and step == plan.inject_step:
                if checkpoint is None and monitor is not None:
                    monitor.event("checkpoint_saved", max(0, step - 1), f"before step {step}")
                checkpoint = checkpoint or trainer.checkpoint()
            knobs = knobs_at(plan.fault, step, plan.inject_step, plan.strength, plan.layer,
                             plan.head)  # fmt: skip
            result = trainer.step(step, knobs)
            losses[step] = result.loss
            look(step, result)
            if monitor is not None:
                monitor.step(
                    step,
                    loss=result.rank_loss,
                    grad_norm=result.grad_norm,
                    tokens=result.own_tokens,
                    skipped=result.skipped,
                    loss_scale=result.loss_scale,
                    **(result.extras() if setting.dense_sampling else {}),
                )
            done += 1
            progress.at(done, f"step {step}  loss {result.loss:.3f}")
        if monitor is not None:
            monitor.close("finished" if number == len(attempts) else "failed", timeout=60.0)
    return losses


def _check(plan: Plan, model: nn.Module) -> None:
    """Raises ValueError where the model has not what the fault breaks."""
    layers, needs = model.layers, FAULTS[plan.fault].needs
    if plan.layer is not None and not 0 <= plan.layer < len(layers):
        raise ValueError(f"layer {plan.layer}: the model has the layers 0..{len(layers) - 1}")
    if needs == "experts" and not any(is_moe(layer) for layer in layers):
        raise ValueError(f"{plan.fault}: the model has no experts; some settings of the zoo do")
    if needs == "rounding" and not hasattr(layers[0].self_attn, "rounding"):
        raise ValueError(f"{plan.fault}: no fault reaches into PyTorch's own attention")
