"""Pushes what one rank has to say to foreshockd; needs numpy, no torch.

    client = foreshock.Client(run="exp-42", model={"layers": 2, "experts": 8, "top_k": 2})
    for step in range(steps):
        client.report(step, scalars={"loss": loss, "lr": lr},
                      summaries=[foreshock.payloads.router_load(0, counts)])
    client.close()

The daemon may be down, slow or restarting at any time: `report` never waits and never raises for
that. Reports wait in a queue bounded in bytes, are sent by a background thread, are kept until the
daemon has committed them and are sent again after a reconnect. What does not fit is dropped, newest
first, and counted by reason in `stats()`. Thread-safe. In a forked child a client drops everything
(reason "forked"): make one there.
"""

from __future__ import annotations

import threading
from typing import Any, Iterable, Mapping, Sequence, Union

from foreshock import lifetime
from foreshock.credentials import Credentials
from foreshock.identity import make_hello, server_address
from foreshock.reports import Names, Scalar, build, split
from foreshock.sender import Sender
from foreshock.stats import ClientStats
from foreshock.v1 import ingest_pb2 as ingest
from foreshock.v1 import types_pb2 as types

OUTCOMES = {
    "finished": ingest.OUTCOME_FINISHED,
    "failed": ingest.OUTCOME_FAILED,
    "preempted": ingest.OUTCOME_PREEMPTED,
}


class Client:
    def __init__(
        self,
        run: str,
        server: str | None = None,
        *,
        launch_id: str | None = None,
        client_instance: str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        coordinates: Mapping[str, int] | None = None,
        model: Mapping[str, Any] | types.ModelShape | None = None,
        plan: Sequence[ingest.PlanEntry] = (),
        labels: Mapping[str, str] | None = None,
        resume_step: int | None = None,
        parent_attempt: int | None = None,
        queue_bytes_max: int = 64 << 20,
        queue_reports_max: int = 16384,
        message_bytes_max: int = 16 << 20,
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        server_name: str | None = None,
        token_file: str | None = None,
    ) -> None:
        """Starts the background thread; does not wait for the daemon.

        Args:
            run: the job's name.
            server: host:port; absent: FORESHOCK_SERVER, else 127.0.0.1:7317.
            launch_id, rank, world_size, coordinates: see foreshock.identity; absent: found out.
            client_instance: only to repeat what a process sent before; absent: random.
            model: ModelShape, or its fields with attention "mha", "gqa", "mqa" or "mla" and router
                "softmax" or "sigmoid".
            plan: what will be sent and how often, so that silence can be judged.
            resume_step: the first step this launch will run.
            queue_bytes_max: reports that are not yet committed, serialised.
            message_bytes_max: a larger report is split between its summaries.
            ca_file, cert_file, key_file, server_name, token_file: TLS and the token, see
                foreshock.credentials; absent: from the environment, else none.

        Raises:
            ValueError: naming the argument that is wrong and what is allowed.
        """
        for name, value in (
            ("queue_bytes_max", queue_bytes_max),
            ("queue_reports_max", queue_reports_max),
            ("message_bytes_max", message_bytes_max),
        ):
            if value < 1:
                raise ValueError(f"{name} is {value}; allowed: at least 1")
        self.server = server_address(server)
        credentials = Credentials.of(ca_file, cert_file, key_file, server_name, token_file)
        self.hello = make_hello(
            run,
            launch_id=launch_id,
            client_instance=client_instance,
            rank=rank,
            world_size=world_size,
            coordinates=coordinates,
            model=model,
            plan=plan,
            labels=labels,
            resume_step=resume_step,
            parent_attempt=parent_attempt,
        )
        self._message_bytes_max = message_bytes_max
        self._lock = threading.Lock()
        self._names = Names()
        self._sender = Sender(
            self.server,
            credentials,
            self.hello,
            self._names,
            queue_bytes_max,
            queue_reports_max,
            message_bytes_max,
        )
        self._alive = lifetime.Owner(self)
        self._sender.start()

    def report(
        self,
        step: int,
        scalars: Mapping[str, Union[float, Scalar]] | None = None,
        summaries: Iterable[ingest.Summary] = (),
        *,
        tokens: int = 0,
        phase: str = "train",
        skipped: bool = False,
        recomputed: bool = False,
        last_of_step: bool = True,
        time_unix_ns: int | None = None,
    ) -> bool:
        """Queues what this rank has to say about `step`; False if it was dropped (see `stats()`).

        Args:
            step: optimizer step, >= 0.
            scalars: numbers by name; foreshock.Scalar says unit, reduction and scope.
            summaries: of foreshock.payloads.
            tokens: of this rank's data shard in this step; 0: not said.
            phase: "train" or "eval".
            skipped: the optimizer step was skipped.
            last_of_step: False if another report of this step follows.

        Raises:
            ValueError: a step, name, phase or unit that the contract does not allow.
        """
        if not self._alive.here():
            return False
        with self._lock:
            report = build(
                self._names, step, scalars, summaries, tokens, phase, skipped, recomputed,
                last_of_step, time_unix_ns,
            )  # fmt: skip
        dropped = [self._sender.push(part) for part in split(report, self._message_bytes_max)]
        return not any(dropped)

    def flush(self, timeout: float = 10.0) -> bool:
        """Waits until everything is committed or was given up; False when the time ran out."""
        return self._alive.here() and self._sender.flush(timeout)

    def close(self, outcome: str = "finished", timeout: float = 10.0, detail: str = "") -> bool:
        """Flushes, says goodbye and ends the thread; later reports are dropped.

        `outcome`: finished, failed or preempted. False if something could not be delivered within
        `timeout` seconds; it is lost then.
        """
        if outcome not in OUTCOMES:
            raise ValueError(f"outcome is {outcome!r}; allowed: {', '.join(OUTCOMES)}")
        if not self._alive.here():
            return False
        self._alive.release()
        return self._sender.close(
            ingest.Goodbye(outcome=OUTCOMES[outcome], detail=detail[:4096]), timeout
        )

    def stats(self) -> ClientStats:
        if not self._alive.here():
            return ClientStats(drops={"forked": self._alive.refused})
        return self._sender.stats()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.close("failed", detail=repr(error))

    def __reduce__(self) -> Any:
        raise TypeError("a foreshock.Client belongs to its process; make one in each")
