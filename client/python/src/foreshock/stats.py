"""What a client or a monitor did, and what it dropped and why: plain copies of its counters."""

from __future__ import annotations

import dataclasses

REJECTIONS_MAX = 8


@dataclasses.dataclass
class ClientStats:
    """Reports are counted in the parts a large one was split into."""

    pushed: int = 0  # taken into the queue
    committed: int = 0  # acknowledged by the daemon
    duplicates: int = 0  # of them it had before
    resent: int = 0  # written to a second or later stream
    rejected_reports: int = 0
    rejected_summaries: int = 0  # refused out of a report that stands
    streams: int = 0  # on which the daemon said HelloAck
    queue_reports: int = 0  # not yet committed
    queue_bytes: int = 0
    attempt: int = 0  # that the daemon gave; 0: none yet
    server_version: str = ""
    connected: bool = False
    refused: bool = False  # the daemon said INVALID_ARGUMENT: nothing is sent any more
    last_error: str = ""  # why the last stream ended; empty: none has
    # Reports not taken, or given up: queue_full, too_large, refused, rejected, closed, forked.
    drops: dict[str, int] = dataclasses.field(default_factory=dict)
    rejections: list[str] = dataclasses.field(default_factory=list)  # newest reasons

    @property
    def dropped(self) -> int:
        return sum(self.drops.values())

    def drop(self, reason: str, count: int = 1) -> None:
        if count:
            self.drops[reason] = self.drops.get(reason, 0) + count

    def keep_rejection(self, reason: str) -> None:
        self.rejections = [*self.rejections[1 - REJECTIONS_MAX :], reason]

    def copy(self) -> ClientStats:
        return dataclasses.replace(
            self, drops=dict(self.drops), rejections=list(self.rejections)
        )
