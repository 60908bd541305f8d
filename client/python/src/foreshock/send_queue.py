"""Reports that are not yet committed, in the order of their seq. Not thread-safe."""

from __future__ import annotations

import dataclasses
from typing import Callable, Iterator

from foreshock.v1 import ingest_pb2 as ingest


@dataclasses.dataclass
class Queued:
    seq: int
    size: int  # bytes, serialised without declarations
    report: ingest.Report
    written: int = 0  # streams it was written to


class SendQueue:
    def __init__(self, bytes_max: int, reports_max: int) -> None:
        self.bytes_max = bytes_max
        self.reports_max = reports_max
        self.bytes = 0
        self.last_sent_seq = 0
        self._by_seq: dict[int, Queued] = {}  # in insertion order, which is that of seq
        self._unsent: list[int] = []  # reversed: the next one is last
        self._new: list[int] = []  # behind all of _unsent, in order

    def __len__(self) -> int:
        return len(self._by_seq)

    def has_room(self, size: int) -> bool:
        return len(self) < self.reports_max and self.bytes + size <= self.bytes_max

    def push(self, queued: Queued) -> None:
        self._by_seq[queued.seq] = queued
        self._new.append(queued.seq)
        self.bytes += queued.size

    def next_unsent(self) -> Queued | None:
        """Takes the next report to write; it stays in the queue until it is acknowledged."""
        while self._unsent or self._new:
            if not self._unsent:
                self._unsent, self._new = self._new[::-1], []
            queued = self._by_seq.get(self._unsent.pop())
            if queued is not None:
                queued.written += 1
                self.last_sent_seq = max(self.last_sent_seq, queued.seq)
                return queued
        return None

    def has_unsent(self) -> bool:
        return bool(self._unsent or self._new)

    def rewind(self) -> None:
        """All reports are unsent again: a new stream begins."""
        self._unsent = sorted(self._by_seq, reverse=True)
        self._new = []

    def acknowledge(self, seq: int) -> int:
        """Removes everything up to `seq`; how many reports."""
        return len(self._remove_where(lambda queued: queued.seq <= seq, ordered=True))

    def remove(self, seq: int) -> Queued | None:
        queued = self._by_seq.pop(seq, None)
        if queued is not None:
            self.bytes -= queued.size
        return queued

    def remove_larger_than(self, size: int) -> list[Queued]:
        return self._remove_where(lambda queued: queued.size > size)

    def remove_largest_sent(self) -> Queued | None:
        sent = [queued for queued in self._by_seq.values() if queued.written]
        return self.remove(max(sent, key=lambda queued: queued.size).seq) if sent else None

    def clear(self) -> int:
        return len(self._remove_where(lambda queued: True))

    def _remove_where(
        self, condition: Callable[[Queued], bool], ordered: bool = False
    ) -> list[Queued]:
        removed = []
        for queued in self._candidates(condition, ordered):
            removed.append(queued)
        for queued in removed:
            self.remove(queued.seq)
        return removed

    def _candidates(self, condition: Callable[[Queued], bool], ordered: bool) -> Iterator[Queued]:
        for queued in self._by_seq.values():
            if condition(queued):
                yield queued
            elif ordered:  # by seq: no later one can match
                return
