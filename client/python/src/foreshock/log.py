"""The package's logger. Where the program has not set up logging, INFO goes to stderr."""

from __future__ import annotations

import logging

logger = logging.getLogger("foreshock")

if not logging.getLogger().handlers and not logger.handlers:
    _handler = logging.StreamHandler()
    _handler.setFormatter(logging.Formatter("foreshock: %(message)s"))
    logger.addHandler(_handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


class Once:
    """Says each kind of message once."""

    def __init__(self, level: int) -> None:
        self._level = level
        self._said: set[str] = set()

    def say(self, kind: str, message: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            logger.log(self._level, "%s (said once)", message)
