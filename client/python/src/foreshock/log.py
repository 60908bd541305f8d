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
    """Says each kind of message once, and no more than `kinds_max` kinds."""

    def __init__(self, level: int, kinds_max: int = 32) -> None:
        self._level = level
        self._kinds_max = kinds_max
        self._said: set[str] = set()

    def say(self, kind: str, message: str) -> None:
        if kind not in self._said and len(self._said) < self._kinds_max:
            self._said.add(kind)
            logger.log(self._level, "%s (said once)", message)
