"""What belongs to one process: closed at interpreter exit and on SIGTERM, silent in a forked child.

An Owner stands for something with `close(outcome, timeout)`. At exit all that are left are closed,
the newest first, since it may feed an older one (a monitor its client): "failed" if an exception
ended the interpreter, else "finished". SIGTERM is taken over only where
Python's default is in force (which would end the process without a word): everything is closed as
"preempted" and the default is let go on, so the exit code stays the same.
"""

from __future__ import annotations

import atexit
import itertools
import os
import signal
import sys
import threading
from typing import Any
import weakref

EXIT_TIMEOUT_S = 5.0
SIGTERM_TIMEOUT_S = 2.0

_open: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by age
_numbers = itertools.count()
_prepared = False


class Owner:
    def __init__(self, thing: Any) -> None:
        self._pid = os.getpid()
        self._number = next(_numbers)
        self.refused = 0  # calls in another process
        _prepare()
        _open[self._number] = thing

    def here(self) -> bool:
        """Is this the process that made it? A child's calls are counted in `refused`."""
        if os.getpid() == self._pid:
            return True
        self.refused += 1
        return False

    def release(self) -> None:
        _open.pop(self._number, None)


def close_all(outcome: str, timeout: float) -> None:
    for number in sorted(_open.keys(), reverse=True):
        thing = _open.get(number)  # None: closed by one that it belongs to
        try:
            if thing is not None:
                thing.close(outcome, timeout)
        except Exception as error:  # an exit must go on
            print(f"foreshock: closing at exit: {error}", file=sys.stderr)


def _at_exit() -> None:
    failed = getattr(sys, "last_type", None) is not None
    close_all("failed" if failed else "finished", EXIT_TIMEOUT_S)


def _on_sigterm(number: int, frame: Any) -> None:
    close_all("preempted", SIGTERM_TIMEOUT_S)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _in_child() -> None:
    _open.clear()


def _prepare() -> None:
    global _prepared
    if not _prepared:
        _prepared = True
        atexit.register(_at_exit)
        os.register_at_fork(after_in_child=_in_child)
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)
