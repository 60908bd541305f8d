"""Learning-rate schedules behind a linear warm-up, as factors on the peak; pure functions."""

from __future__ import annotations

import math
from typing import Callable

FLOOR = 0.1  # of the peak, where a schedule ends
DECAY_SHARE = 0.2  # of a run: the last phase of wsd
RESTARTS = 3  # cycles of a run


def _cosine(at: float) -> float:
    return FLOOR + (1.0 - FLOOR) * 0.5 * (1.0 + math.cos(math.pi * at))


def _linear(at: float) -> float:
    return 1.0 - (1.0 - FLOOR) * at


def _wsd(at: float) -> float:
    return _linear(max(0.0, (at - (1.0 - DECAY_SHARE)) / DECAY_SHARE))


SCHEDULES: dict[str, Callable[[float], float]] = {  # of the share of the run behind the warm-up
    "constant": lambda at: 1.0,
    "cosine": _cosine,
    "linear": _linear,
    "wsd": _wsd,
    "restarts": lambda at: _cosine(at * RESTARTS % 1.0),
}


def factor(name: str, step: int, steps: int, warmup_steps: int) -> float:
    """On the peak learning rate, of `step` >= 0 in a run of `steps`."""
    warm = min(1.0, (step + 1) / warmup_steps) if warmup_steps else 1.0
    at = (step - warmup_steps) / max(1, steps - warmup_steps)
    return warm * SCHEDULES[name](min(1.0, max(0.0, at)))
