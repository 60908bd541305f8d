"""What trainers log, as scalars of Foreshock.

    scalars({"loss": 2.1, "learning_rate": 1e-4, "rewards/margins": 0.2, "epoch": 0.5})
    # {"loss": 2.1, "lr": 1e-4, "rewards_margins": 0.2}

What the rules look at gets the name that they know; every other number keeps its own, with "_" for
what a name cannot have. The clock's numbers are left out.
"""

from __future__ import annotations

import numbers
import re
from typing import Any, Mapping

# What the logged name begins with that says nothing.
_PREFIXES = ("train/", "train_", "objective/", "policy/")
_USUAL = {
    "learning_rate": "lr",
    "reward": "reward_mean",
    "scores": "reward_mean",  # TRL's PPO
    "completions/mean_length": "completion_length",
    "clip_ratio": "clip_fraction",
    "clip_ratio/region_mean": "clip_fraction",
    "clipfrac_avg": "clip_fraction",
    "entropy_avg": "policy_entropy",
}
_CLOCK = re.compile(r"epoch$|global_step$|step$|runtime$|_per_second|total_flos$|num_tokens$|num_input_tokens_seen$")
_NAME_MAX = 128


def scalars(logged: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and tensors of one element, by the names that they are sent by."""
    found: dict[str, Any] = {}
    for name, value in logged.items():
        if _CLOCK.search(name) or not _is_number(value):
            continue
        short = next((name[len(p):] for p in _PREFIXES if name.startswith(p)), name)
        own = re.sub(r"[^a-z0-9_]", "_", short.lower()).lstrip("_0123456789")[:_NAME_MAX]
        if own:
            found[_USUAL.get(short, own)] = value
    if "reward_mean" in found and "entropy" in found:  # else that of a language model on its text
        found["policy_entropy"] = found.pop("entropy")
    return found


def _is_number(value: Any) -> bool:
    if isinstance(value, numbers.Real):
        return not isinstance(value, bool)
    return getattr(value, "ndim", None) == 0 and hasattr(value, "dtype")
