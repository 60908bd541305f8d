"""How often what is sampled; the phase is that of the global step, so that a resume keeps it.

    foreshock.watch(model, run="r", sampling={"spectra": {"every": 20}})   # or a YAML file's path

    scalars:   {every: 1}
    gradients: {every: 10}                       # norms of W_Q, W_K and router gradients
    router:    {every: 5, tokens: 256, weights_every: 50, coactivation_every: 0}
    spectra:   {every: 50, heads: 4, groups: 4}  # the dear part
    logits:    {every: 10, rows: 16}             # of what Monitor.attention() is given
    phase: 0
    budget: 0.5                                  # percent of the step time, for weights

With a budget, weights are sampled up to five times as often as `spectra.every` and
`router.weights_every` say, as far as it reaches (foreshock.pace). Another `spectra.every` than the
default is kept as it is, and so is everything with `budget: 0`.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Mapping, Union


@dataclasses.dataclass(frozen=True)
class Scalars:
    every: int = 1  # steps; 0: never, here and below


@dataclasses.dataclass(frozen=True)
class Gradients:
    every: int = 10


@dataclasses.dataclass(frozen=True)
class Router:
    every: int = 5  # gates and load
    tokens: int = 256  # at most, of each layer and step
    weights_every: int = 50
    coactivation_every: int = 0  # experts chosen together, of all tokens; for a proxy's calibration


@dataclasses.dataclass(frozen=True)
class Spectra:
    every: int = 50  # and the window: a sample compares with the one before
    heads: int = 4  # of each layer, spread evenly and fixed; 0: all
    groups: int = 4  # layers take turns in so many groups within `every` steps; 1: all at once


@dataclasses.dataclass(frozen=True)
class Logits:
    every: int = 10
    rows: int = 16  # query positions of each head


@dataclasses.dataclass(frozen=True)
class Sampling:
    scalars: Scalars = Scalars()
    gradients: Gradients = Gradients()
    router: Router = Router()
    spectra: Spectra = Spectra()
    logits: Logits = Logits()
    phase: int = 0  # added to every phase below
    budget: float = 0.5  # percent of the step time that samples of weights may take

    @property
    def weights_budget(self) -> float:
        """Percent; 0 where the cadence is given."""
        return self.budget if self.spectra.every == Spectra.every else 0.0

    def due(self, every: int, step: int, offset: int = 0) -> bool:
        return every > 0 and step % every == (self.phase + offset) % every


_AT_LEAST = {"tokens": 1, "groups": 1, "rows": 1}  # everything else: 0


def load(given: Union[None, Sampling, Mapping[str, Any], str, os.PathLike[str]]) -> Sampling:
    """Raises ValueError naming the key, what was found and what is allowed; OSError for a file."""
    if given is None:
        return Sampling()
    if isinstance(given, Sampling):
        return given
    where = "sampling"
    if isinstance(given, (str, os.PathLike)):
        where = os.fspath(given)
        import yaml  # PyYAML, for files only

        with open(given, encoding="utf-8") as file:
            given = yaml.safe_load(file) or {}
    return _read(Sampling, given, where)


def _read(kind: Any, given: Any, where: str) -> Any:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if not isinstance(given, Mapping):
        raise ValueError(f"{where} is {given!r}; allowed: a mapping with {', '.join(fields)}")
    values = {}
    for key, value in given.items():
        if key not in fields:
            raise ValueError(f"{where} has the key {key!r}; allowed: {', '.join(fields)}")
        default = fields[key].default
        at = f"{where}.{key}"
        if dataclasses.is_dataclass(default):
            values[key] = _read(type(default), value, at)
            continue
        if isinstance(default, float):
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 100:
                raise ValueError(f"{at} is {value!r}; allowed: a number of percent, 0 to 100")
            values[key] = float(value)
            continue
        low = _AT_LEAST.get(key, 0)
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise ValueError(f"{at} is {value!r}; allowed: a whole number, {low} or more")
        values[key] = value
    return kind(**values)
