"""Writes what a rank would push into a capture file, for `foreshock replay` and `rules backtest`.

    with foreshock.Recorder("run.fscap", run="exp-42") as recorder:
        recorder.report(step, scalars={"loss": loss})

The ending says the form (docs/formats/capture.md): .fscap needs the zstandard package, .jsonl
nothing. The file appears under its name when it is complete, at `close`. One stream per recorder.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any, BinaryIO, Iterable, Mapping, Union

from google.protobuf import json_format

from foreshock import lifetime
from foreshock.client import OUTCOMES
from foreshock.identity import make_hello
from foreshock.reports import Names, Scalar, build, declare_for
from foreshock.v1 import capture_pb2 as capture
from foreshock.v1 import ingest_pb2 as ingest

FRAME_CONTENT_BYTES = 4 << 20
_HEADER = b"FSCAP\r\n\x01"
_END_MARK = b"\0"


class Recorder:
    def __init__(
        self, path: str | os.PathLike[str], run: str = "recorded", **identity: Any
    ) -> None:
        """`identity`: what Client takes (launch_id, rank, world_size, coordinates, model, ...).

        Raises ValueError for another ending, OSError if the folder cannot be written, ImportError
        without zstandard for .fscap.
        """
        self.path = os.fspath(path)
        self.hello = make_hello(run, **identity)
        if not self.path.endswith((".fscap", ".jsonl")):
            raise ValueError(
                f"capture is {self.path!r}; allowed: a name ending in .fscap or .jsonl"
            )
        self._temporary = f"{self.path}.{os.getpid()}.tmp"
        file = open(self._temporary, "wb")
        self._out = FscapWriter(file) if self.path.endswith(".fscap") else _Jsonl(file)
        self._file = file
        self._lock = threading.RLock()
        self._names = Names()
        self._declared: set[int] = set()
        self._seq = 0
        self._closed = False
        self._alive = lifetime.Owner(self)

    def introduce(self, hello: ingest.Hello) -> None:
        """Takes another Hello, before the first report: what `watch` found out about the model."""
        with self._lock:
            if self._seq:
                raise ValueError(f"{self.path}: the recorder has begun with another Hello")
            self.hello = hello

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
        """As Client.report; False after `close` and in a forked child."""
        if not self._alive.here():
            return False
        with self._lock:
            if self._closed:
                return False
            report = build(
                self._names, step, scalars, summaries, tokens, phase, skipped, recomputed,
                last_of_step, time_unix_ns,
            )  # fmt: skip
            self._introduce()
            self._seq += 1
            report.seq = self._seq
            declare_for(report, self._names, self._declared)
            self._write(ingest.PushRequest(report=report))
        return True

    def close(self, outcome: str = "finished", timeout: float = 0.0, detail: str = "") -> bool:
        """Writes the goodbye and the end, and gives the file its name. `timeout` is not needed."""
        if outcome not in OUTCOMES:
            raise ValueError(f"outcome is {outcome!r}; allowed: {', '.join(OUTCOMES)}")
        if not self._alive.here():
            return False
        with self._lock:
            if self._closed:
                return True
            self._closed = True
            self._introduce()
            goodbye = ingest.Goodbye(outcome=OUTCOMES[outcome], detail=detail[:4096])
            self._write(ingest.PushRequest(goodbye=goodbye))
            self._out.finish()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._temporary, self.path)
        self._alive.release()
        return True

    def _introduce(self) -> None:
        if self._seq == 0:
            self._write(ingest.PushRequest(hello=self.hello))

    def _write(self, message: ingest.PushRequest) -> None:
        self._out.write(capture.CaptureRecord(stream=self.hello.rank, message=message))

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.close("failed", detail=repr(error))

    def __reduce__(self) -> Any:
        raise TypeError("a foreshock.Recorder belongs to its process; make one in each")


class _Jsonl:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, record: capture.CaptureRecord) -> None:
        text = json.dumps(json_format.MessageToDict(record), separators=(",", ":"))
        self._file.write(text.encode() + b"\n")

    def finish(self) -> None:
        pass


class FscapWriter:
    def __init__(self, file: BinaryIO) -> None:
        try:
            import zstandard
        except ImportError:
            raise ImportError(
                "writing .fscap needs the zstandard package (Debian: python3-zstandard); "
                ".jsonl needs nothing"
            ) from None
        self._compress = zstandard.ZstdCompressor(level=9, write_checksum=True).compress
        self._file = file
        self._content = bytearray()
        file.write(_HEADER)

    def write(self, record: capture.CaptureRecord) -> None:
        data = record.SerializeToString()
        self._content += _varint(len(data)) + data
        if len(self._content) >= FRAME_CONTENT_BYTES:
            self._flush()

    def finish(self) -> None:
        self._content += _END_MARK
        self._flush()

    def _flush(self) -> None:
        self._file.write(self._compress(bytes(self._content)))
        self._content.clear()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
