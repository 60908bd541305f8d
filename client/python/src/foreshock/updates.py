"""How large the parameters are and how far an optimizer step moves them: param_rms, update_rms.

Root mean squares over an even sample of all parameters, at most SAMPLE elements of this rank: a
slice of each is copied behind the step before the one that is due, and behind that one. The fp32
masters are read where the optimizer keeps them, since in bfloat16 most updates round to nothing.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Sequence

import numpy as np
import torch

from foreshock.packer import Part
from foreshock.projections import master_of
from foreshock.reports import Scalar
from foreshock.sharding import local

SAMPLE = 1 << 16


class Updates:
    def __init__(self, chunks: Sequence[torch.nn.Module], optimizer: Any) -> None:
        self._chunks = chunks
        self._optimizer = optimizer
        self._before: tuple[int, torch.Tensor] | None = None  # the step behind which it was taken

    def keep(self, step: int) -> None:
        """Behind the step before a due one."""
        sample = self._sample()
        self._before = None if sample is None else (step, sample)

    def take(self, step: int, skipped: bool) -> Part | None:
        """Behind a due step; None where the step before was not kept, or made no update."""
        kept, self._before = self._before, None
        if kept is None or kept[0] != step - 1 or skipped:
            return None
        after = self._sample()
        if after is None or after.shape != kept[1].shape:
            return None
        return Part([kept[1], after], _rms)

    def _sample(self) -> torch.Tensor | None:
        trained = [p for chunk in self._chunks for p in chunk.parameters() if p.requires_grad]
        held = [local(master_of(p, self._optimizer)).detach() for p in trained]
        held = [p for p in held if p.numel() > 0 and p.device.type != "meta"]
        if not held:
            return None
        stride = -(-sum(p.numel() for p in held) // SAMPLE)
        device = held[0].device
        return torch.cat([p.reshape(-1)[::stride].float().to(device) for p in held])


def _rms(arrays: list[np.ndarray]) -> dict[str, Scalar]:
    before, after = (array.astype(np.float64) for array in arrays)
    return {
        # Ranks with other shards have other samples.
        name: Scalar(float(np.sqrt(np.mean(np.square(values)))), reduction="mean")
        for name, values in (("update_rms", after - before), ("param_rms", before))
    }


def innermost(optimizer: Any) -> Any:
    """Without what accelerate, DeepSpeed or Megatron put around it."""
    while hasattr(getattr(optimizer, "optimizer", None), "param_groups"):
        optimizer = optimizer.optimizer
    return optimizer


def before_step(optimizer: Any, method: Callable[[], None]) -> Any:
    """Has `method` of an object called before each step of the optimizer, as long as the object
    lives; returns what has a `remove`, or None where the optimizer knows no such hooks."""
    register = getattr(innermost(optimizer), "register_step_pre_hook", None)  # torch 2.0
    if register is None:
        return None
    weak = weakref.WeakMethod(method)

    def hook(*unused: Any) -> None:
        # A compiled step is left alone: looking at its gradients would break its graph.
        if not (hasattr(torch, "compiler") and torch.compiler.is_compiling()):
            alive = weak()
            if alive is not None:
                alive()

    return register(hook)


def describe(optimizer: Any) -> str:
    """Its name and what it was set to, without the learning rate: "AdamW(betas=(0.9, 0.95), ...)".
    Empty: there is none."""
    groups = getattr(optimizer, "param_groups", None)
    if not groups:
        return ""
    optimizer = innermost(optimizer)
    left_out = ("params", "lr", "initial_lr")
    settings = ", ".join(
        f"{name}={value!r}" for name, value in groups[0].items()
        if name not in left_out and value is not None and isinstance(value, (int, float, str, tuple))
        and value is not False
    )  # fmt: skip
    return f"{type(optimizer).__name__}({settings})"[:512]
