"""A TrainerCallback for Hugging Face's Trainer and for what is made from it, TRL's trainers too.

    from foreshock.integrations.huggingface import ForeshockCallback
    Trainer(..., callbacks=[ForeshockCallback(run="exp-42")])

A step is the Trainer's `global_step`. What the Trainer logs for a step comes after its on_step_end,
so the step is told when the next one begins; with logging_steps=1 every step has its loss. All
numbers that are logged are sent, rewards and KL of TRL among them (foreshock.integrations.logged).
"""

from __future__ import annotations

from typing import Any

from foreshock.integrations import logged
from foreshock.monitor import Monitor, watch

try:
    from transformers import TrainerCallback
except ImportError:
    TrainerCallback = object

EVALUATION = "eval_"  # what the names of evaluation metrics begin with
SUMMARY = "train_runtime"  # is logged once, behind the last step, with means over all steps


class ForeshockCallback(TrainerCallback):
    """`watch_options` are those of foreshock.watch, `run` among them."""

    def __init__(self, **watch_options: Any) -> None:
        self.monitor: Monitor | None = None
        self._options = watch_options
        self._pending: int | None = None  # a step that is done and not told yet
        self._logged: dict[str, Any] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.monitor = watch(
            given["model"],
            given.get("optimizer"),
            **{"resume_step": state.global_step + 1, **self._options},
        )

    def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._tell()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if self.monitor is not None:
            self.monitor.gradients()

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._tell()
        self._pending = state.global_step

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Any = None, **given: Any
    ) -> None:
        if not logs or SUMMARY in logs:
            return
        own = {name: value for name, value in logs.items() if not name.startswith(EVALUATION)}
        self._logged.update(logged.scalars(own))

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **given: Any
    ) -> None:
        found = logged.scalars({
            name[len(EVALUATION):]: value for name, value in (metrics or {}).items()
            if name.startswith(EVALUATION)
        })  # fmt: skip
        if self.monitor is not None and found:
            with self.monitor.eval():
                self.monitor.step(state.global_step, **found)

    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if self.monitor is not None:
            name = f"checkpoint-{state.global_step}"
            self.monitor.event("checkpoint_saved", state.global_step, name)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._tell()
        if self.monitor is not None:
            self.monitor.close()

    def _tell(self) -> None:
        if self.monitor is not None and self._pending is not None:
            self.monitor.step(self._pending, **self._logged)
        self._pending, self._logged = None, {}
