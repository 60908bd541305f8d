"""When did the daemon warn, and when did the loss break?"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Mapping

import grpc

from foreshock.v1 import query_pb2 as query
from foreshock.v1 import query_pb2_grpc as query_grpc

CALL_TIMEOUT_S = 30.0
GRAVE = ("warning", "critical")


def loss_break(losses: Mapping[int, float]) -> int | None:
    """The step at which someone who watches the loss alone would know, or None.

    The first step at which the exponential average (0.96) of the loss exceeds 1.2 x the best slower
    average (0.98) so far and never falls back below 1.1 x best; or the first non-finite loss if
    most of what follows is non-finite. `losses` are positive where they are finite.
    """
    steps = sorted(losses)
    fast = slow = 0.0
    best = math.inf
    since = None
    for step in steps:
        loss = losses[step]
        if not math.isfinite(loss):
            continue
        if math.isinf(best):
            fast = slow = loss
        fast, slow = 0.96 * fast + 0.04 * loss, 0.98 * slow + 0.02 * loss
        best = min(best, slow)
        if since is None and fast > 1.2 * best:
            since = step
        elif since is not None and fast < 1.1 * best:
            since = None
    bad, first_bad = 0, None
    for seen, step in enumerate(reversed(steps), start=1):
        if not math.isfinite(losses[step]):
            bad += 1
            if 2 * bad > seen:
                first_bad = step
    found = [step for step in (since, first_bad) if step is not None]
    return min(found) if found else None


@dataclasses.dataclass(frozen=True)
class Warning:
    """An alert of severity warning or critical."""

    step: int
    fault: str
    severity: str
    where: str
    rule: str


def warnings_of(server: str, run: str) -> list[Warning]:
    """All grave alerts of `run`, earliest first. Raises grpc.RpcError."""
    with grpc.insecure_channel(server) as channel:
        answer = query_grpc.QueryServiceStub(channel).ListAlerts(
            query.ListAlertsRequest(run=run), timeout=CALL_TIMEOUT_S
        )
    found = [
        Warning(alert.firing_step, alert.fault, alert.severity, _where(alert), alert.rule)
        for alert in answer.alerts
        if alert.severity in GRAVE and alert.HasField("firing_step")
    ]
    return sorted(found, key=lambda warning: warning.step)


def layer_means(server: str, run: str, indicator: str) -> dict[int, dict[int, float]]:
    """Mean over heads by layer and step. Raises grpc.RpcError."""
    sums: dict[int, dict[int, list[float]]] = {}
    with grpc.insecure_channel(server) as channel:
        request = query.QueryPointsRequest(
            selector=query.SeriesSelector(run=run, indicator=indicator)
        )
        answers = query_grpc.QueryServiceStub(channel).QueryPoints(request, timeout=CALL_TIMEOUT_S)
        for answer in answers:
            by_step = sums.setdefault(answer.series.layer, {})
            for point in answer.points:
                by_step.setdefault(point.step, []).append(point.value)
    return {
        layer: {step: sum(v) / len(v) for step, v in sorted(by_step.items())}
        for layer, by_step in sorted(sums.items())
    }


def summary(losses: Mapping[int, float], warnings: list[Warning] | None) -> dict[str, Any]:
    """What is printed and written as JSON; `warnings` None: there was no daemon to ask.

    `losses` empty: a run that has no loss to break (reinforcement learning).
    """
    broke = loss_break(losses)
    first = warnings[0] if warnings else None
    lead = broke - first.step if first is not None and broke is not None else None
    return {
        "loss_break_step": broke,
        "first_warning": dataclasses.asdict(first) if first else None,
        "lead_steps": lead,
        "warnings": None if warnings is None else [dataclasses.asdict(w) for w in warnings],
    }


def in_words(found: Mapping[str, Any]) -> str:
    """Two lines for people."""
    broke, first = found["loss_break_step"], found["first_warning"]
    loss = f"loss break: step {broke}" if broke is not None else "loss break: none"
    if found["warnings"] is None:
        return f"first warning: no daemon was asked\n{loss}"
    if first is None:
        return f"first warning: none\n{loss}"
    lead = found["lead_steps"]
    if lead is not None:
        loss += f", {lead} steps after the warning" if lead >= 0 else f", {-lead} steps before it"
    return (
        f"first warning: step {first['step']}: {first['fault'] or first['rule']}, "
        f"{first['where']} ({first['severity']})\n{loss}"
    )


def _where(alert: query.Alert) -> str:
    if alert.HasField("rank"):
        return f"rank {alert.rank}"
    if alert.all_layers:
        return "all layers"
    if alert.layers:
        return f"layer{'s' if len(alert.layers) > 1 else ''} {', '.join(map(str, alert.layers))}"
    return "run"
