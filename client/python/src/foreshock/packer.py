"""Between the training thread and the sender: a job per step, turned into a report by a thread.

The training thread fills a Job with numbers and tensors, starts the one copy to the host and puts
it into a bounded queue; the packer's thread waits for the copy, builds the summaries and reports
them.
"""

from __future__ import annotations

import collections
import dataclasses
import threading
import time
from typing import Any, Callable, Sequence, Union

import numpy as np
import torch

from foreshock.client import Client
from foreshock.device import Transfer
from foreshock.log import logger
from foreshock.recorder import Recorder
from foreshock.reports import Scalar
from foreshock.v1 import ingest_pb2 as ingest

JOBS_MAX = 1024
BYTES_MAX = 256 << 20  # of sampled tensors that wait for their copy


@dataclasses.dataclass
class Part:
    """Tensors of the caller's own, and what makes a summary of them once they are arrays."""

    tensors: list[torch.Tensor]
    build: Callable[[list[np.ndarray]], Union[ingest.Summary, None]]  # None: nothing to say


class Job:
    def __init__(
        self, step: int, phase: str = "train", tokens: int = 0, skipped: bool = False
    ) -> None:
        self.step = step
        self.phase = phase
        self.tokens = tokens
        self.skipped = skipped
        self.time_unix_ns = time.time_ns()
        self.summaries: list[ingest.Summary] = []
        self.parts: list[Part] = []
        self.bytes = 0
        self._scalars: list[tuple[str, Scalar]] = []
        self._on_device: list[tuple[str, Scalar]] = []
        self._device_values: list[torch.Tensor] = []
        self._transfer: Transfer | None = None

    def add_scalar(self, name: str, value: Any, kind: Scalar) -> None:
        """`value`: a number or a tensor of one element, which is not read if a device holds it."""
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            if value.numel() != 1:
                raise ValueError(f"scalar {name!r} is {tuple(value.shape)}; allowed: one number")
            self._on_device.append((name, kind))
            self._device_values.append(value.detach().reshape(()).double())
            return
        try:
            self._scalars.append((name, kind._replace(value=float(value))))
        except (TypeError, ValueError, RuntimeError):
            shown = tuple(value.shape) if hasattr(value, "shape") else repr(value)
            raise ValueError(f"scalar {name!r} is {shown}; allowed: one number") from None

    def start_transfer(self, device: Any) -> None:
        tensors = [tensor for part in self.parts for tensor in part.tensors]
        if self._device_values:
            tensors.append(torch.stack(self._device_values))
        if tensors:
            self._transfer = device.transfer(tensors)
            self.bytes = self._transfer.bytes

    def report_to(self, sinks: Sequence[Union[Client, Recorder]]) -> None:
        """On the packer's thread. What cannot be built is left out and raised after the report."""
        arrays = self._transfer.arrays() if self._transfer is not None else []
        failure: Exception | None = None
        summaries, at = list(self.summaries), 0
        for part in self.parts:
            mine, at = arrays[at : at + len(part.tensors)], at + len(part.tensors)
            try:
                summary = part.build(mine)
                if summary is not None:
                    summaries.append(summary)
            except Exception as error:
                failure = error
        scalars = list(self._scalars)
        if self._on_device:
            scalars += [
                (name, kind._replace(value=float(value)))
                for (name, kind), value in zip(self._on_device, arrays[-1])
            ]
        for sink in sinks:
            try:
                sink.report(
                    self.step, scalars, summaries, tokens=self.tokens, phase=self.phase,
                    skipped=self.skipped, time_unix_ns=self.time_unix_ns,
                )  # fmt: skip
            except Exception as error:
                failure = error
        if failure is not None:
            raise failure


class Packer:
    def __init__(self, sinks: Sequence[Union[Client, Recorder]], strict: bool) -> None:
        self._sinks = sinks
        self._strict = strict
        self._changed = threading.Condition()
        self._jobs: collections.deque[Job] = collections.deque()
        self._bytes = 0
        self._closing = False
        self._failure: Exception | None = None
        self.dropped = 0
        self.errors = 0
        self.last_error = ""
        self._thread = threading.Thread(target=self._run, name="foreshock-packer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    def put(self, job: Job) -> None:
        """Never waits. Strict: raises what failed in the thread before."""
        with self._changed:
            if len(self._jobs) >= JOBS_MAX or self._bytes + job.bytes > BYTES_MAX:
                self.dropped += 1
            else:
                self._jobs.append(job)
                self._bytes += job.bytes
                self._changed.notify()
            failure, self._failure = self._failure, None
        if failure is not None and self._strict:
            raise failure

    def close(self, timeout: float) -> float:
        """Works off what waits, for at most `timeout` seconds; how many of them are left."""
        until = time.monotonic() + timeout
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout)
        with self._changed:
            self.dropped += len(self._jobs)
            self._jobs.clear()
        return max(0.0, until - time.monotonic())

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._closing)
                if not self._jobs:
                    return
                job = self._jobs.popleft()
                self._bytes -= job.bytes
            try:
                job.report_to(self._sinks)
            except Exception as error:
                self._keep(job, error)

    def _keep(self, job: Job, error: Exception) -> None:
        text = f"step {job.step}: {type(error).__name__}: {error}"
        with self._changed:
            self.errors += 1
            self._failure = error
        if not self.last_error:
            logger.warning("%s (said once)", text)
        self.last_error = text
