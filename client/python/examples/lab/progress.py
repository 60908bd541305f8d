"""A progress bar on stderr: one line that is redrawn on a terminal, a line per tenth elsewhere."""

from __future__ import annotations

import sys
import time

WIDTH = 24


class Progress:
    def __init__(self, label: str, total: int, shown: bool = True) -> None:
        self._label = label
        self._total = total
        self._shown = shown
        self._redraw = sys.stderr.isatty()
        self._started = time.monotonic()
        self._next = 0.0

    def at(self, done: int, text: str) -> None:
        """`done` of the total, with a few words on how things are."""
        if not self._shown or (done < self._total and done < self._next):
            return
        self._next = done + self._total / (200 if self._redraw else 10)
        filled = WIDTH * done // self._total
        bar = "#" * filled + "." * (WIDTH - filled)
        rate = done / max(1e-9, time.monotonic() - self._started)
        line = f"{self._label} [{bar}] {done}/{self._total}  {rate:.0f} steps/s  {text}"
        end = "\n" if not self._redraw or done == self._total else ""
        print(f"\r{line:<100}" if self._redraw else line, end=end, file=sys.stderr, flush=True)
