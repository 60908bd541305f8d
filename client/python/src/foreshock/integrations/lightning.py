"""A Callback for Lightning's Trainer.

    from foreshock.integrations.lightning import ForeshockCallback
    Trainer(callbacks=[ForeshockCallback(run="exp-42")])

A step is the trainer's `global_step` after an optimizer step; batches that only accumulate
gradients tell nothing. What the module logs with `self.log` in its training step is sent too
(foreshock.integrations.logged).
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from foreshock.integrations import logged
from foreshock.monitor import Monitor, watch

try:  # the package that the program has imported, of the two that have the same
    if "pytorch_lightning" in sys.modules:
        from pytorch_lightning import Callback
    else:
        from lightning.pytorch import Callback
except ImportError:
    try:
        from pytorch_lightning import Callback
    except ImportError:
        Callback = object


EVALUATION = ("val_", "val/")  # what the names of validation metrics usually begin with


class ForeshockCallback(Callback):
    """`watch_options` are those of foreshock.watch, `run` among them."""

    def __init__(self, **watch_options: Any) -> None:
        self.monitor: Monitor | None = None
        self._options = watch_options
        self._told = 0  # global_step of the last step told
        self._evaluation = contextlib.ExitStack()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        optimizers = list(trainer.optimizers)
        self._told = trainer.global_step
        self.monitor = watch(
            pl_module,
            optimizers[0] if optimizers else None,
            **{"resume_step": trainer.global_step + 1, **self._options},
        )

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        if self.monitor is not None:
            self.monitor.gradients()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.monitor is None or trainer.global_step == self._told:
            return
        self._told = trainer.global_step
        found = _metrics(trainer, evaluation=False)
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        self.monitor.step(trainer.global_step, **{**found, "loss": loss})

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if self.monitor is not None:
            self._evaluation.enter_context(self.monitor.eval())

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        found = _metrics(trainer, evaluation=True)
        if self.monitor is not None and found:
            self.monitor.step(trainer.global_step, **found)
        self._evaluation.close()

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        if self.monitor is not None:
            step = trainer.global_step
            self.monitor.event("checkpoint_saved", step, f"step={step}")

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._close("failed")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._close("finished")

    def _close(self, outcome: str) -> None:
        self._evaluation.close()
        if self.monitor is not None:
            self.monitor.close(outcome)


def _metrics(trainer: Any, evaluation: bool) -> dict[str, Any]:
    """Scalars of what was logged last; Lightning keeps validation's until the next one."""
    return logged.scalars({
        name[len(EVALUATION[0]):] if evaluation else name: value
        for name, value in trainer.callback_metrics.items()
        if name.startswith(EVALUATION) == evaluation
    })  # fmt: skip
