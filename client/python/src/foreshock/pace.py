"""How often weights are sampled: as often as a share of the step time allows.

    pace = Pace(every=50, budget=0.5)      # percent of the step time; 50: the slowest
    for step in ...:
        pace.tick()                        # once a step
        if step % pace.every == 0:
            with pace.cost():
                sample()

It begins fast, measures what samples cost against the time between steps, and slows down one notch
at a time where the share is larger than the budget. A young run may spend twice the budget: it has
few samples yet, and its faults are found by them. On an accelerator the time to launch a sample
counts, its kernels do not.
"""

from __future__ import annotations

import contextlib
import time
from typing import Callable, Iterator

YOUNG_STEPS = 2000
YOUNG_FACTOR = 2.0
NOTCHES = (5, 2, 1)  # so much faster than `every`; the first one that divides it is the beginning
# Between two decisions: enough for the longest interval to be sampled twice.
WINDOW_INTERVALS = 2


class Pace:
    """To be used from one thread."""

    def __init__(
        self, every: int, budget: float, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """`every`: steps, the slowest; 0: never. `budget`: percent; 0: always the slowest."""
        self._clock = clock
        self._budget = budget / 100
        notches = NOTCHES if budget > 0 and every > 0 else (1,)
        self._intervals = [every // n for n in notches if every % n == 0]
        self._notch = 0
        self._window = WINDOW_INTERVALS * max(1, every)
        self._steps = 0  # in all
        self._begun: float | None = None  # of the window; None: before its first step
        self._left = self._window
        self._spent = 0.0  # of the window

    @property
    def every(self) -> int:
        return self._intervals[self._notch]

    @contextlib.contextmanager
    def cost(self) -> Iterator[None]:
        """What is done inside is a sample."""
        before = self._clock()
        try:
            yield
        finally:
            self._spent += self._clock() - before

    def tick(self) -> bool:
        """A step is done. True if `every` has changed."""
        if len(self._intervals) == 1:
            return False
        self._steps += 1
        if self._begun is None:
            # The first samples warm caches and allocators up: no measure of the later ones.
            if self._steps * len(NOTCHES) < self._window:
                return False
            self._begun, self._left, self._spent = self._clock(), self._window, 0.0
            return False
        self._left -= 1
        if self._left > 0:
            return False
        elapsed = self._clock() - self._begun
        share = self._spent / elapsed if elapsed > 0 else 0.0
        self._begun, self._left, self._spent = self._clock(), self._window, 0.0
        slower = share > self._allowed() and self._notch + 1 < len(self._intervals)
        self._notch += 1 if slower else 0
        return slower

    def _allowed(self) -> float:
        return self._budget * (YOUNG_FACTOR if self._steps < YOUNG_STEPS else 1.0)
