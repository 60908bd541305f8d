"""The monitor around a training loop: where its reports go, and how often it samples."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any

from torch import nn

import foreshock
from lab.parallel import Grid

# A run of 1 500 steps is short: all layers every 10 steps. The rest is the default, but for the
# gradient norms, which the trainer measures anyway and over all shards.
DENSE = {"spectra": {"every": 10, "groups": 1}, "gradients": {"every": 0}}


@dataclasses.dataclass(frozen=True)
class Sink:
    """Where the reports go: to a daemon, into captures, to both, or (neither given) nowhere.

    Attributes:
        run: the job's name.
        server: host:port; "" for none.
        capture: path of a .fscap or .jsonl file; "" for none. Ranks and attempts after the first
            write beside it, `NAME.rank1.fscap`, `NAME.attempt2.fscap`.
        launch: common to all ranks of one start of the lab.
    """

    run: str
    server: str
    capture: str
    launch: str

    def watch(
        self, model: nn.Module, optimizer: Any, grid: Grid, attempt: int, resume_step: int | None,
        dense: bool = True,
    ) -> "foreshock.Monitor | None":
        """`dense`: with DENSE sampling, and logits; else as three lines in a training loop do."""
        if not self.server and not self.capture:
            return None
        identity: dict[str, Any] = dict(
            launch_id=f"{self.launch}.{attempt}",
            rank=grid.rank,
            world_size=grid.world,
            coordinates={"data": grid.data, "tensor": grid.tensor},
            resume_step=resume_step,
        )
        capture = self.capture_of(grid.rank, attempt)
        monitor = foreshock.watch(
            model,
            optimizer,
            run=self.run,
            server=self.server or None,
            recorder=foreshock.Recorder(capture, self.run, **identity) if capture else None,
            sampling=DENSE if dense else None,
            **identity,
        )
        for number, layer in enumerate(model.layers if dense else ()):
            layer.self_attn.observe = _observer(monitor, number)
        return monitor

    def capture_of(self, rank: int, attempt: int) -> str:
        """The path of the capture of a rank and attempt; "" for none."""
        if not self.capture:
            return ""
        path = pathlib.Path(self.capture)
        middle = (f".attempt{attempt}" if attempt > 1 else "") + (f".rank{rank}" if rank else "")
        return os.fspath(path.with_name(f"{path.stem}{middle}{path.suffix}"))


def _observer(monitor: "foreshock.Monitor", layer: int) -> Any:
    return lambda query, key: monitor.attention(layer, query, key)
