"""Builds one Report of one step; scalars travel by ids that are handed out here.

A name is a scalar's identity together with its scope: the same name may be a value of the run and
one of each rank.
"""

from __future__ import annotations

import re
import time
from typing import Any, Iterable, Mapping, NamedTuple, Union

from foreshock.payloads import one_of
from foreshock.v1 import ingest_pb2 as ingest
from foreshock.v1 import types_pb2 as types

REDUCTIONS = {
    "last": types.REDUCTION_LAST,
    "sum": types.REDUCTION_SUM,
    "mean": types.REDUCTION_MEAN,
    "max": types.REDUCTION_MAX,
    "min": types.REDUCTION_MIN,
}
SCOPES = {"global": types.SCOPE_GLOBAL, "rank": types.SCOPE_RANK}
PHASES = {"train": types.PHASE_TRAIN, "eval": types.PHASE_EVAL}
STEP_MAX = 1 << 53
# Units of the names the rules know; every other name is a plain number.
UNITS = {"loss": "nats", "tokens": "tokens", "policy_entropy": "nats", "log_z": "nats"}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,127}\Z")


class Scalar(NamedTuple):
    """A value with what it is; a plain number stands for Scalar(number)."""

    value: float
    unit: str | None = None  # absent: by name (UNITS), else "1"
    reduction: str = "last"  # of the values of several ranks: last, sum, mean, max, min
    scope: str = "global"  # global: one series per run; rank: one per rank
    weight: float = 1.0  # >= 0, of this rank's value in a mean


def check_name(name: str) -> None:
    if not _NAME.match(name):
        raise ValueError(f"scalar is named {name!r}; allowed: [a-z][a-z0-9_]*, 128 at most")


class Names:
    """Scalar names and their ids; a name whose meaning changes is refused."""

    def __init__(self) -> None:
        # (name, scope) -> id, unit, reduction
        self._known: dict[tuple[str, str], tuple[int, str, str]] = {}
        self.by_id: dict[int, ingest.ScalarDeclaration] = {}

    def id_of(self, name: str, scalar: Scalar) -> int:
        known = self._known.get((name, scalar.scope))
        unit = scalar.unit or UNITS.get(name, "1")
        if known is not None:
            if (known[1], known[2]) != (unit, scalar.reduction):
                raise ValueError(
                    f"scalar {name!r} is now in {unit} with reduction {scalar.reduction}; it was "
                    f"declared in {known[1]} with reduction {known[2]}"
                )
            return known[0]
        check_name(name)
        declaration = ingest.ScalarDeclaration(
            id=len(self.by_id) + 1,
            name=name,
            unit=unit,
            reduction=one_of(f"reduction of scalar {name!r}", scalar.reduction, REDUCTIONS),
            scope=one_of(f"scope of scalar {name!r}", scalar.scope, SCOPES),
        )
        self._known[name, scalar.scope] = (declaration.id, unit, scalar.reduction)
        self.by_id[declaration.id] = declaration
        return declaration.id


def build(
    names: Names,
    step: int,
    scalars: Mapping[str, Union[float, Scalar]] | Iterable[tuple[str, Any]] | None,
    summaries: Iterable[ingest.Summary],
    tokens: int,
    phase: str,
    skipped: bool,
    recomputed: bool,
    last_of_step: bool,
    time_unix_ns: int | None,
) -> ingest.Report:
    """A Report without seq and declarations. Raises ValueError naming what is wrong."""
    if not 0 <= step <= STEP_MAX:
        raise ValueError(f"step is {step}; allowed: 0..2^53")
    report = ingest.Report(
        step=step,
        time_unix_ns=time.time_ns() if time_unix_ns is None else time_unix_ns,
        tokens=tokens,
        phase=one_of("phase", phase, PHASES),
        skipped=skipped,
        recomputed=recomputed,
        last_of_step=last_of_step,
    )
    pairs = list(scalars.items() if isinstance(scalars, Mapping) else scalars or ())
    if pairs:
        full = [(name, _scalar(name, value)) for name, value in pairs]
        batch = report.summaries.add().scalars
        batch.ids.extend([names.id_of(name, scalar) for name, scalar in full])
        batch.values.extend([scalar.value for _, scalar in full])
        if any(scalar.weight != 1.0 for _, scalar in full):
            batch.weights.extend([scalar.weight for _, scalar in full])
    report.summaries.extend(summaries)
    return report


def _scalar(name: str, value: Any) -> Scalar:
    if isinstance(value, Scalar):
        return value if type(value.value) is float else value._replace(value=float(value.value))
    try:
        return Scalar(float(value))
    except (TypeError, ValueError):
        raise ValueError(
            f"scalar {name!r} is a {type(value).__name__}; allowed: a number or a 0-d array"
        ) from None


def declare_for(report: ingest.Report, names: Names, declared: set[int]) -> None:
    """Adds the declarations that the stream, which knows `declared`, has not heard yet."""
    for summary in report.summaries:
        if not summary.HasField("scalars"):
            continue
        del summary.scalars.declare[:]
        for scalar_id in summary.scalars.ids:
            if scalar_id not in declared:
                declared.add(scalar_id)
                summary.scalars.declare.append(names.by_id[scalar_id])


def split(report: ingest.Report, bytes_max: int) -> list[ingest.Report]:
    """Parts of at most `bytes_max`, cut between summaries; one summary alone may be over it."""
    if report.ByteSize() <= bytes_max:
        return [report]
    head = ingest.Report()
    head.CopyFrom(report)
    del head.summaries[:]
    head.last_of_step = False
    parts = [head]
    overhead = 12  # tag, length and what last_of_step adds
    size = head_size = head.ByteSize()
    for summary in report.summaries:
        more = summary.ByteSize() + overhead
        if parts[-1].summaries and size + more > bytes_max:
            part = ingest.Report()
            part.CopyFrom(head)
            del part.summaries[:]
            part.tokens = 0
            parts.append(part)
            size = head_size
        parts[-1].summaries.add().CopyFrom(summary)
        size += more
    parts[-1].last_of_step = report.last_of_step
    return parts
