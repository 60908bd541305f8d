"""Keeps one stream to the daemon open from a background thread and sends what is queued.

The wire's rules are those of docs/compatibility.md: a report stays in the queue until its Ack, a
new stream begins after HelloAck.last_committed_seq, a refusal ends everything. Threads: any thread
may call the public methods; the sender's own thread reads answers; gRPC's thread pulls what to
write.
"""

from __future__ import annotations

import logging
import random
import re
import threading
import time
from typing import Iterator

import grpc

from foreshock.credentials import Credentials, Secrets, Unreadable
from foreshock.log import Once, logger
from foreshock.reports import Names, declare_for
from foreshock.send_queue import Queued, SendQueue
from foreshock.stats import REJECTIONS_MAX, ClientStats
from foreshock.v1 import errors_pb2 as errors
from foreshock.v1 import ingest_pb2 as ingest
from foreshock.v1 import ingest_pb2_grpc as ingest_grpc

BACKOFF_MIN_S = 0.2  # doubled after each lost stream
BACKOFF_MAX_S = 15.0
HELLO_TIMEOUT_S = 10.0  # for the daemon's first answer
_DETAILS_KEY = "grpc-status-details-bin"
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")
_MEANS = {  # what a stream's end tells the user, by status
    grpc.StatusCode.UNAVAILABLE: "foreshockd cannot be reached",
    grpc.StatusCode.UNIMPLEMENTED: "what answers knows no foreshock.v1.IngestService: an older "
    "foreshockd, or another server",
    grpc.StatusCode.UNAUTHENTICATED: "foreshockd wants a token that it knows (token_file, "
    "FORESHOCK_TOKEN_FILE)",
    grpc.StatusCode.PERMISSION_DENIED: "foreshockd does not let this token push to this run",
}


def _channel_options() -> list[tuple[str, int | str]]:
    return [
        ("grpc.max_send_message_length", -1),  # the daemon's limit is what counts
        ("grpc.keepalive_time_ms", 30_000),  # the daemon's minimum
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),  # a step may take minutes
        # The waits are ours; the channel must not add its own.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 5_000),  # the time one connect may take
        ("grpc.use_local_subchannel_pool", 1),
    ]


class _Distrust(Exception):
    """The daemon broke the contract."""


class Sender:
    def __init__(
        self,
        target: str,
        credentials: Credentials,
        hello: ingest.Hello,
        names: Names,
        queue_bytes_max: int,
        queue_reports_max: int,
        message_bytes_max: int,
    ) -> None:
        self._target = target
        self._credentials = credentials
        self._hello = hello
        self._names = names
        self._message_bytes_max = message_bytes_max
        self._changed = threading.Condition()  # guards everything below
        self._queue = SendQueue(queue_bytes_max, queue_reports_max)
        self._stats = ClientStats()
        self._once = Once(logging.WARNING)
        self._rejections = Once(logging.WARNING, kinds_max=REJECTIONS_MAX)
        self._notes: list[tuple[Once, str, str]] = []  # kind and text; said without the lock
        self._last_seq = 0
        self._resume_at = 0.0  # monotonic; the daemon asked to wait
        self._goodbye: ingest.Goodbye | None = None
        self._stop = False
        self._done = False  # nothing more to do for the thread
        self._call: grpc.Call | None = None
        self._stream = 0  # number of the present stream
        self._ended = True  # the present stream is over
        self._greeted = False
        self._progressed = False
        self._goodbye_written = False
        self._committed_before = 0
        self._distrust = ""
        self._backoff_s = BACKOFF_MIN_S
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="foreshock-sender", daemon=True)
        self._thread.start()

    # For any thread.

    def push(self, report: ingest.Report) -> str:
        """Queues it, never waits for the network. Empty, or why it was dropped."""
        size = report.ByteSize()
        with self._changed:
            self._last_seq += 1
            reason = self._why_not(size)
            if reason:
                self._stats.drop(reason)
                self._note_drop(reason, report.step)
            else:
                report.seq = self._last_seq
                self._queue.push(Queued(self._last_seq, size, report))
                self._stats.pushed += 1
                self._changed.notify_all()
        self._say_notes()
        return reason

    def _why_not(self, size: int) -> str:
        if self._stats.refused:
            return "refused"
        if self._goodbye is not None or self._stop:
            return "closed"
        if size > min(self._message_bytes_max, self._queue.bytes_max):
            return "too_large"
        return "" if self._queue.has_room(size) else "queue_full"

    def flush(self, timeout: float) -> bool:
        """Waits until everything is committed or was given up; False when the time ran out."""
        with self._changed:
            return self._changed.wait_for(
                lambda: len(self._queue) == 0 or self._done or self._stop, timeout
            )

    def close(self, goodbye: ingest.Goodbye, timeout: float) -> bool:
        """Flushes, says goodbye, ends the thread; False if reports or the goodbye are lost."""
        with self._changed:
            if self._goodbye is None:
                self._goodbye = goodbye
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._done, timeout)
            finished = self._done and not self._stats.refused
            lost = self._queue.clear()
            self._stats.drop("closed", lost)
            self._stop = True
            self._cancel()
        self._say_notes()
        if lost:
            logger.warning("%s: %d reports could not be delivered before the end", self._target, lost)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(1.0)  # it ends by itself; gRPC's teardown must not hold up the exit
        return finished

    def stats(self) -> ClientStats:
        with self._changed:
            stats = self._stats.copy()
            stats.queue_reports = len(self._queue)
            stats.queue_bytes = self._queue.bytes
            return stats

    def _note(self, kind: str, text: str, once: Once | None = None) -> None:
        """Something to warn of; the lock is held."""
        self._notes.append((once or self._once, kind, f"{self._target}: {text}"))

    def _note_drop(self, reason: str, step: int) -> None:
        text = f"a report of step {step} is dropped ({reason}); stats() counts these"
        self._note(f"drop {reason}", text)

    def _say_notes(self) -> None:
        """Without the lock: a log that blocks must hold up nobody."""
        with self._changed:
            notes, self._notes = self._notes, []
        for once, kind, text in notes:
            once.say(kind, text)

    def _cancel(self) -> None:
        self._ended = True
        if self._call is not None:
            self._call.cancel()
        self._changed.notify_all()

    # The sender's thread.

    def _run(self) -> None:
        secrets: Secrets | None = None
        channel: grpc.Channel | None = None
        try:
            while True:
                try:
                    fresh = self._credentials.read()
                    if channel is None or fresh != secrets:
                        if channel is not None:
                            channel.close()
                        channel = fresh.channel(self._target, _channel_options())
                        secrets = fresh
                    wait = self._after(self._run_stream(channel, fresh))
                except Unreadable as unreadable:
                    wait = self._after_unreadable(str(unreadable))
                self._say_notes()
                with self._changed:
                    self._changed.wait_for(lambda: self._stop or self._done, wait)
                    if self._stop or self._done:
                        self._changed.notify_all()
                        return
        finally:
            if channel is not None:
                channel.close()

    def _after_unreadable(self, reason: str) -> float:
        """How long to wait before the credentials are read again."""
        with self._changed:
            self._stats.last_error = reason
            self._note("credentials", f"{reason}; the training goes on, reports wait")
            return self._next_wait()

    def _next_wait(self) -> float:
        wait = self._backoff_s * random.uniform(0.5, 1.0)
        self._backoff_s = min(2 * self._backoff_s, BACKOFF_MAX_S)
        return wait

    def _run_stream(self, channel: grpc.Channel, secrets: Secrets) -> grpc.RpcError | None:
        """From Hello to the end of one stream; its error, None for a status of OK."""
        stub = ingest_grpc.IngestServiceStub(channel)
        with self._changed:
            self._stream += 1
            self._ended = self._stop
            self._greeted = self._progressed = self._goodbye_written = False
            self._distrust = ""
            self._call = stub.Push(
                self._requests(self._stream), metadata=secrets.metadata()
            )
        try:
            for response in self._call:
                with self._changed:
                    try:
                        self._on_response(response)
                    except _Distrust as broken:
                        self._distrust = str(broken)
                        self._cancel()
                    self._changed.notify_all()
                if response.HasField("hello_ack"):
                    self._say_connected(response.hello_ack)
                self._say_notes()
        except grpc.RpcError as error:
            return error
        finally:
            with self._changed:
                self._ended = True
                self._stats.connected = False
                self._changed.notify_all()
        return None

    def _after(self, error: grpc.RpcError | None) -> float:
        """Draws the lesson of a stream's end; how long to wait before the next one."""
        code = grpc.StatusCode.OK if error is None else error.code()
        retry_delay = None if error is None else _retry_delay(error)
        with self._changed:
            if code is grpc.StatusCode.OK and self._goodbye_written:
                self._done = True
                return 0.0
            if self._stop:
                return 0.0
            if self._distrust:
                self._stats.last_error = f"the daemon broke the contract: {self._distrust}"
            elif error is None:
                self._stats.last_error = "the daemon ended the stream"
            else:
                self._stats.last_error = f"{code.name}: {error.details()}"
            if code is grpc.StatusCode.INVALID_ARGUMENT:
                self._stats.refused = self._done = True
                self._stats.drop("refused", self._queue.clear())
                self._note("refused", f"foreshockd refuses run {self._hello.run!r}: "
                           f"{error.details()}; nothing is sent any more")  # fmt: skip
                return 0.0
            means = _MEANS.get(code, "the stream is lost")
            self._note(f"lost {code}", f"{means} ({self._stats.last_error}); the training goes on, "
                       "reports wait and are sent later")  # fmt: skip
            # Without a delay the reason is a message over some limit on the way: it would end every
            # stream.
            if code is grpc.StatusCode.RESOURCE_EXHAUSTED and retry_delay is None:
                largest = self._queue.remove_largest_sent()
                if largest is not None:
                    self._stats.drop("too_large")
                    self._note_drop("too_large", largest.report.step)
                    self._stats.keep_rejection(f"{largest.size} bytes: {error.details()}")
            if self._progressed:
                self._backoff_s = BACKOFF_MIN_S
            return max(self._next_wait(), retry_delay or 0.0)

    # gRPC's thread, while the stream lives.

    def _requests(self, stream: int) -> Iterator[ingest.PushRequest]:
        yield ingest.PushRequest(hello=self._hello)
        with self._changed:
            self._changed.wait_for(lambda: self._greeted or self._over(stream), HELLO_TIMEOUT_S)
            if not self._greeted and not self._over(stream):
                self._distrust = f"no HelloAck within {HELLO_TIMEOUT_S:g} s"
                self._cancel()
        declared: set[int] = set()
        while True:
            with self._changed:
                self._wait_for_work(stream)
                if self._over(stream):
                    return
                queued = self._queue.next_unsent()
                if queued is None:  # a goodbye waits for the last ack: a report may go again
                    if self._goodbye is not None and len(self._queue) == 0:
                        self._goodbye_written = True
                        request = ingest.PushRequest(goodbye=self._goodbye)
                        break
                    continue
                self._stats.resent += queued.written > 1
                queued.report.seq = queued.seq
                declare_for(queued.report, self._names, declared)
                request = ingest.PushRequest(report=queued.report)
            yield request
        yield request

    def _wait_for_work(self, stream: int) -> None:
        while not self._over(stream):
            pause = self._resume_at - time.monotonic()
            if self._queue.has_unsent() and pause <= 0:
                return
            if self._goodbye is not None and len(self._queue) == 0:
                return
            self._changed.wait(pause if self._queue.has_unsent() else None)

    def _over(self, stream: int) -> bool:
        return self._ended or self._stream != stream

    # Answers; the lock is held.

    def _on_response(self, response: ingest.PushResponse) -> None:
        kind = response.WhichOneof("message")
        if kind == "hello_ack":
            self._on_hello_ack(response.hello_ack)
        elif kind == "ack":
            self._on_ack(response.ack)
        elif response.ByteSize() == 0:  # else: a kind of answer that a newer daemon has
            raise _Distrust("a response without a message")

    def _say_connected(self, ack: ingest.HelloAck) -> None:
        level = logging.DEBUG if self._hello.rank else logging.INFO  # one line per run
        if self._stats.streams == 1:
            logger.log(level, "%s: connected to foreshockd %s, run %s, attempt %d", self._target,
                       ack.server_version or "of unknown version", self._hello.run, ack.attempt)
        elif self._stats.streams == 2:
            logger.log(level, "%s: connected again (said once)", self._target)

    def _on_hello_ack(self, ack: ingest.HelloAck) -> None:
        if self._greeted:
            raise _Distrust("a second HelloAck on one stream")
        if ack.last_committed_seq > self._last_seq:
            raise _Distrust(
                f"last_committed_seq is {ack.last_committed_seq}, sent was up to "
                f"{self._queue.last_sent_seq}"
            )
        self._greeted = self._stats.connected = True
        self._committed_before = ack.last_committed_seq
        self._stats.streams += 1
        self._stats.attempt = ack.attempt
        self._stats.server_version = ack.server_version
        self._stats.committed += self._queue.acknowledge(ack.last_committed_seq)
        self._queue.rewind()
        if ack.limits.message_bytes_max:
            self._message_bytes_max = min(self._message_bytes_max, ack.limits.message_bytes_max)
            for queued in self._queue.remove_larger_than(self._message_bytes_max):
                self._stats.drop("too_large")
                self._note_drop("too_large", queued.report.step)
                self._stats.keep_rejection(
                    f"step {queued.report.step}: {queued.size} bytes, the daemon allows "
                    f"{self._message_bytes_max}"
                )

    def _on_ack(self, ack: ingest.Ack) -> None:
        if not self._greeted:
            raise _Distrust("an Ack before the HelloAck")
        seq_max = max(self._queue.last_sent_seq, self._committed_before)
        if ack.seq > seq_max:
            raise _Distrust(f"an Ack of seq {ack.seq}, sent was up to {seq_max}")
        self._progressed = True
        for rejection in ack.rejections:
            self._on_rejection(rejection)
        self._stats.committed += self._queue.acknowledge(ack.seq)
        self._stats.duplicates += ack.duplicates

    def _on_rejection(self, rejection: ingest.Rejection) -> None:
        self._stats.keep_rejection(rejection.reason)
        text = f"foreshockd did not take {rejection.reason}"
        # The same trouble at another step, with another value, is of the same kind.
        kind = _NUMBER.sub("#", rejection.reason)
        self._note(kind, text, self._rejections)
        if rejection.HasField("summary_index"):
            self._stats.rejected_summaries += 1
            return
        self._stats.rejected_reports += 1
        queued = self._queue.remove(rejection.seq)
        if queued is None:
            return
        if not rejection.HasField("retry_delay"):
            self._stats.drop("rejected")
            return
        # Its seq is behind the daemon's mark now, so it goes again under a new one.
        self._last_seq += 1
        queued.seq = self._last_seq
        self._queue.push(queued)
        delay = rejection.retry_delay.ToTimedelta().total_seconds()
        self._resume_at = max(self._resume_at, time.monotonic() + delay)


def _retry_delay(error: grpc.RpcError) -> float | None:
    """Seconds of the RetryInfo in the trailing metadata; None without one."""
    for key, value in error.trailing_metadata() or ():
        if key != _DETAILS_KEY:
            continue
        for detail in errors.ErrorStatus.FromString(value).details:
            if detail.type_url.endswith("/google.rpc.RetryInfo"):
                info = errors.RetryInfo.FromString(detail.value)
                return info.retry_delay.ToTimedelta().total_seconds()
    return None
