"""The pretraining loop: trainer, fault, monitor and progress bar; a resume is a second attempt."""

from __future__ import annotations

import dataclasses
import pathlib

from lab.data import Batches, read_text
from lab.faults import FAULTS, RESUME_AFTER_STEPS, knobs_at
from lab.model import Decoder, Shape
from lab.parallel import Grid
from lab.progress import Progress
from lab.trainer import Recipe, Trainer
from lab.watching import Sink


@dataclasses.dataclass(frozen=True)
class Plan:
    """One run of the lab."""

    fault: str
    strength: float
    inject_step: int
    steps: int
    seed: int
    text: pathlib.Path
    sink: Sink
    shape: Shape = Shape()
    recipe: Recipe = Recipe()

    def attempts(self) -> list[range]:
        """The steps of each attempt; a second one goes back to the injection's checkpoint."""
        if self.fault != "resume":
            return [range(self.steps)]
        lost = self.inject_step + RESUME_AFTER_STEPS
        return [range(lost), range(self.inject_step, self.steps)]


def train(plan: Plan, grid: Grid, model: Decoder | None = None) -> dict[int, float]:
    """Runs `plan` on this process of `grid` with `model` (default: a new one) and leaves it trained;
    returns the mean loss by step, of the last attempt that reached the step."""
    sequences = plan.recipe.sequences // grid.data_size
    batches = Batches(read_text(plan.text), plan.seed, sequences, plan.shape.length)
    trainer = Trainer(plan.shape, plan.recipe, plan.seed, batches, grid, model)
    losses: dict[int, float] = {}
    attempts = plan.attempts()
    progress = Progress(plan.fault, sum(len(steps) for steps in attempts), grid.rank == 0)
    done = 0
    checkpoint = None
    for number, steps in enumerate(attempts, start=1):
        if checkpoint is not None:
            trainer.restore(checkpoint, forget_layers=int(plan.strength))
        monitor = plan.sink.watch(
            trainer.model, trainer.optimizer, grid, number, steps.start if number > 1 else None
        )
        for step in steps:
            if FAULTS[plan.fault].named == "resume_fault" and step == plan.inject_step:
                if checkpoint is None and monitor is not None:
                    monitor.event("checkpoint_saved", max(0, step - 1), f"before step {step}")
                checkpoint = checkpoint or trainer.checkpoint()
            result = trainer.step(step, knobs_at(plan.fault, step, plan.inject_step, plan.strength))
            losses[step] = result.loss
            if monitor is not None:
                monitor.step(
                    step,
                    loss=result.rank_loss,
                    grad_norm=result.grad_norm,
                    tokens=result.own_tokens,
                    grad_norm_q=result.grad_norm_q,
                    grad_norm_k=result.grad_norm_k,
                    grad_norm_router=result.grad_norm_router,
                    lr=result.lr,
                    aux_loss=result.aux_loss,
                )
            done += 1
            progress.at(done, f"step {step}  loss {result.loss:.3f}")
        if monitor is not None:
            monitor.close("finished" if number == len(attempts) else "failed", timeout=60.0)
    return losses
