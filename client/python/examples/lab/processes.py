"""Trains a plan on one process, or on several that join over gloo on this machine."""

from __future__ import annotations

import tempfile
from typing import Callable

import torch

from lab.parallel import Grid, join
from lab.train import Plan, train
from lab.trainer import Step


def settle_torch() -> None:
    torch.set_num_threads(1)  # and so the same seed gives the same bits


def train_all(
    plan: Plan, world: int, tensor: int = 1,
    look: Callable[[int, Step], None] = lambda step, result: None,
) -> dict[int, float]:
    """The mean loss by step. `world` processes, `tensor` of them tensor-parallel; this one is rank
    0, whose steps `look` is shown.

    Raises:
        RuntimeError: another process failed.
    """
    if world == 1:
        return train(plan, Grid(), look=look)
    with tempfile.TemporaryDirectory(prefix="fault_lab_") as folder:
        meeting = f"file://{folder}/meeting"
        context = torch.multiprocessing.get_context("spawn")
        others = [context.Process(target=_other_rank, args=(rank, world, tensor, plan, meeting),
                                  daemon=True)
                  for rank in range(1, world)]  # fmt: skip
        for process in others:
            process.start()
        losses = train(plan, join(0, world, tensor, meeting), look=look)
        for process in others:
            process.join()
        torch.distributed.destroy_process_group()
        failed = [rank for rank, process in enumerate(others, start=1) if process.exitcode != 0]
        if failed:
            raise RuntimeError(f"the processes of ranks {failed} failed; their messages are above")
        return losses


def _other_rank(rank: int, world: int, tensor: int, plan: Plan, meeting: str) -> None:
    """A process of ranks 1 and up."""
    settle_torch()
    train(plan, join(rank, world, tensor, meeting))
