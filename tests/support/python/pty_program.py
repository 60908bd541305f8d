"""A program on a terminal of its own, whose screen a test can read.

    with PtyProgram([foreshock, "top"], rows=24, columns=80) as program:
        program.wait_for("exp-42")
        program.press("j")
"""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pyte

KEYS = {"enter": "\r", "esc": "\x1b", "down": "\x1bOB", "up": "\x1bOA"}


class PtyProgram:
    """Leaving it kills the program."""

    def __init__(self, arguments, rows=24, columns=80, environment=None):
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""  # all that was written
        self._terminal, theirs = pty.openpty()
        self._set_size(rows, columns)
        sanitizer = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LC_ALL": "C.UTF-8",
                       **sanitizer, **(environment or {})}
        self.process = subprocess.Popen(
            [str(argument) for argument in arguments], stdin=theirs, stdout=theirs, stderr=theirs,
            env=environment, start_new_session=True, close_fds=True)
        os.close(theirs)

    def _set_size(self, rows, columns):
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        self._set_size(rows, columns)
        self.process.send_signal(signal.SIGWINCH)

    def press(self, *keys):
        for key in keys:
            os.write(self._terminal, KEYS.get(key, key).encode())

    def read(self, seconds):
        """Takes what is written for at most so long; False at the end of the program."""
        ready, _, _ = select.select([self._terminal], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # the program has gone, and with it the other end
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def text(self):
        """The screen's lines without trailing blanks."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait_for(self, what, seconds=30.0):
        """Waits until the screen shows the text, or until `what(text)` holds."""
        holds = what if callable(what) else lambda text: what in text
        deadline = time.monotonic() + seconds
        while not holds(self.text()):
            if time.monotonic() > deadline or not self.read(0.1):
                raise AssertionError(f"{what!r} is not on the screen:\n{self.text()}")
        return self.text()

    def wait(self, seconds=30.0):
        """The exit code of a program that ends by itself."""
        deadline = time.monotonic() + seconds
        while self.read(0.1) and time.monotonic() < deadline:
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._terminal)
