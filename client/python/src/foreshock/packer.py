"""Between the training thread and the sender: a job per step, turned into a report by a thread.

The training thread fills a Job with numbers and tensors, starts the one copy to the host and puts
it into a bounded queue; the packer's thread waits for the copy, builds the summaries and reports
them.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from typing import Any, Callable, Mapping, Sequence, Union

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

Made = Union[ingest.Summary, Mapping[str, Union[float, Scalar]], None]


@dataclasses.dataclass
class Part:
    """Tensors of the caller's own, and what is made of them once they are arrays: a summary,
    scalars by name, or None if there is nothing to say."""

    tensors: list[torch.Tensor]
    build: Callable[[list[np.ndarray]], Made]


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
        self._scalars: list[tuple[str, float, Scalar]] = []
        self._on_device: list[tuple[str, Scalar]] = []
        self._device_values: list[torch.Tensor] = []
        self._transfer: Transfer | None = None

    def add_scalar(self, name: str, value: Any, kind: Scalar) -> None:
        """`value`: a number or a tensor of one element, which is not read if a device holds it.
        `kind` says everything but the value."""
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            if value.numel() != 1:
                raise ValueError(f"scalar {name!r} is {tuple(value.shape)}; allowed: one number")
            self._on_device.append((name, kind))
            self._device_values.append(value.detach().reshape(()).double())
            return
        if isinstance(value, torch.Tensor):
            value = value.detach()
        try:
            self._scalars.append((name, float(value), kind))
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
        scalars = [(name, kind._replace(value=value)) for name, value, kind in self._scalars]
        for part in self.parts:
            mine, at = arrays[at : at + len(part.tensors)], at + len(part.tensors)
            try:
                made = part.build(mine)
                if isinstance(made, ingest.Summary):
                    summaries.append(made)
                elif made is not None:
                    scalars.extend(
                        (name, value if isinstance(value, Scalar) else Scalar(value))
                        for name, value in made.items()
                    )
            except Exception as error:
                failure = error
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
    """`put` is for one thread. Each counter has one writer, so the queue is the only lock."""

    def __init__(self, sinks: Sequence[Union[Client, Recorder]], strict: bool) -> None:
        self._sinks = sinks
        self._strict = strict
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()  # None: the end
        self._put = self._put_bytes = 0
        self._done = self._done_bytes = 0
        self._failure: Exception | None = None
        self.dropped = 0
        self.errors = 0
        self.last_error = ""
        self._thread = threading.Thread(target=self._run, name="foreshock-packer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Jobs put and not yet reported, the one in work included."""
        return self._put - self._done

    def put(self, job: Job) -> None:
        """Never waits. Strict: raises what failed in the thread before."""
        if self.waiting >= JOBS_MAX or self._put_bytes - self._done_bytes + job.bytes > BYTES_MAX:
            self.dropped += 1
        else:
            self._put += 1
            self._put_bytes += job.bytes
            self._jobs.put(job)
        if self._strict and self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def close(self, timeout: float) -> float:
        """Works off what waits, for at most `timeout` seconds; how many of those are left."""
        until = time.monotonic() + timeout
        self._jobs.put(None)
        self._thread.join(timeout)
        left = self._take_all()
        self.dropped += left
        self._put -= left
        self._jobs.put(None)  # for a thread that is still at work
        return max(0.0, until - time.monotonic())

    def _take_all(self) -> int:
        taken = 0
        while True:
            try:
                taken += self._jobs.get_nowait() is not None
            except queue.Empty:
                return taken

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            try:
                job.report_to(self._sinks)
            except Exception as error:
                self._keep(job, error)
            self._done_bytes += job.bytes
            self._done += 1

    def _keep(self, job: Job, error: Exception) -> None:
        text = f"step {job.step}: {type(error).__name__}: {error}"
        self.errors += 1
        self._failure = error
        if not self.last_error:
            logger.warning("%s (said once)", text)
        self.last_error = text
