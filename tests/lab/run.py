#!/usr/bin/python3
"""Runs the fault lab, every fault with several seeds, before a real daemon with the default rules,
and writes what came out into docs/detection.md.

    tests/lab/run.py build/release --captures /tmp/lab --seeds 3      # what `make lab` does
    tests/lab/run.py build/release --captures /tmp/lab --faults none,learning-rate   # prints only

Every run leaves its capture in the folder. A run whose capture is there already is not trained
again but replayed, so that an interrupted lab goes on where it was, and a changed rule is judged in
minutes. Runs of several processes (nan-rank) write a capture per rank and are always trained again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any, Callable, Iterable

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "client/python/examples"
PAGE = ROOT / "docs/detection.md"
TABLES = {"pretrain": "lab", "rl": "lab-rl"}
sys.path[:0] = [str(EXAMPLES), str(ROOT / "tests/support/python")]

from daemon_process import Daemon, cli  # noqa: E402
from pages import write_table  # noqa: E402

# Steps that let the fault show what it does; the injection is at 400, in --mode rl at 200.
STEPS = {
    "pretrain": {"none": 1000, "bf16-attention": 1000, "bf16-attention-zero-mean": 1000,
                 "learning-rate": 1200, "combined": 900, "router-collapse": 800,
                 "logit-growth": 800, "nan-rank": 700, "dead-experts": 700, "data-batch": 600,
                 "optimizer": 700, "resume": 800},
    "rl": {"none": 300, "rollout-precision": 300, "skipped-update": 300, "route-mismatch": 300,
           "grad-overflow": 300},
}
QUIET = ("", "data_batch")  # fault ids for which a warning would be a false alarm


@dataclasses.dataclass(frozen=True)
class Run:
    """One trained run, judged."""

    fault: str
    seed: int
    inject_step: int
    named: str  # the fault id that an alert should carry
    first: dict[str, Any] | None  # first alert of warning or above at or after the injection
    hit: bool  # an alert (data_batch: of any severity) names the fault
    false_alarms: int
    loss_break: int | None
    moved: dict[str, tuple[float, float]]  # rl: medians before and after the injection


class Lab:
    def __init__(self, given: argparse.Namespace, daemon: Daemon) -> None:
        self.given = given
        self.daemon = daemon
        self.foreshock = given.build / "bin/foreshock"

    def run(self, mode: str, fault: str, seed: int) -> Run:
        name = f"{'rl-' if mode == 'rl' else ''}{fault}-{seed}"
        capture = self.given.captures / f"{name}.fscap"
        parts = sorted(self.given.captures.glob(f"{name}.*fscap"))
        if capture.exists() and not any(".rank" in part.name for part in parts):
            attempts = [capture, *(part for part in parts if part != capture)]
            self._ask("replay", *attempts, "--run", name)
        else:
            self._train(mode, fault, seed, name, capture)
        return self._judge(mode, fault, seed, name)

    def _train(self, mode: str, fault: str, seed: int, name: str, capture: pathlib.Path) -> None:
        command = ["/usr/bin/python3", str(EXAMPLES / "fault_lab.py"), "--mode", mode,
                   "--fault", fault, "--seed", str(seed), "--steps", str(STEPS[mode][fault]),
                   "--run", name, "--capture", str(capture), "--server", self.daemon.grpc]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def _ask(self, *arguments: Any) -> str:
        return cli(self.foreshock, *arguments, server=self.daemon.grpc, http=self.daemon.http,
                   check=0, seconds=600).stdout

    def _judge(self, mode: str, fault: str, seed: int, name: str) -> Run:
        from lab import faults, rl_faults

        named = (faults if mode == "pretrain" else rl_faults).FAULTS[fault].named
        inject_step = 400 if mode == "pretrain" else 200
        alerts = json.loads(self._ask("alerts", "--run", name, "-o", "json"))["alerts"]
        fired = sorted((a for a in alerts if a.get("firing_step") is not None),
                       key=lambda alert: int(alert["firing_step"]))
        grave = [a for a in fired if a["severity"] in ("warning", "critical")]
        after = [a for a in grave if int(a["firing_step"]) >= inject_step]
        wanted = after if named not in QUIET else []
        hits = [a for a in (fired if named == "data_batch" else wanted) if a["fault"] == named]
        summary = json.loads(self._ask("summary", name, "-o", "json"))
        return Run(
            fault=fault,
            seed=seed,
            inject_step=inject_step,
            named=named,
            first=wanted[0] if wanted else None,
            hit=bool(named and hits),
            false_alarms=len(grave) - len(wanted),
            loss_break=summary["loss_break_step"] if mode == "pretrain" else None,
            moved=self._moved(name, inject_step) if mode == "rl" else {},
        )

    def _moved(self, name: str, inject_step: int) -> dict[str, tuple[float, float]]:
        from lab import verdict

        moved = {}
        for indicator in ("rl.k3", "rl.route_mismatch", "train.update_ratio", "train.loss_scale"):
            layers = verdict.layer_means(self.daemon.grpc, name, indicator)
            points = {step: value for series in layers.values() for step, value in series.items()}
            before = [v for s, v in points.items() if inject_step - 100 <= s < inject_step]
            after = [v for s, v in points.items() if s >= inject_step + 10]
            moved[indicator] = tuple(
                statistics.median(values) if values else math.nan for values in (before, after)
            )
        return moved


def table(runs: list[Run]) -> list[str]:
    """A row per fault; cells with several numbers have one per seed."""
    lines = [
        "| fault | seeds | warned | named | false alarms | first warning | called | loss break "
        "| lead |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for fault in dict.fromkeys(run.fault for run in runs):
        group = [run for run in runs if run.fault == fault]
        quiet = group[0].named in QUIET
        warned = "–" if quiet else _share(run.first is not None for run in group)
        named = _share(run.hit for run in group) if group[0].named else "–"
        lines.append("| " + " | ".join([
            fault, ", ".join(str(run.seed) for run in group), warned, named,
            str(sum(run.false_alarms for run in group)),
            _each(group, lambda run: run.first and int(run.first["firing_step"])),
            _once(run.first["fault"] for run in group if run.first),
            _each(group, lambda run: run.loss_break),
            _each(group, _lead),
        ]) + " |")
    return lines


def rl_table(runs: list[Run]) -> list[str]:
    columns = list(runs[0].moved)
    lines = [f"| fault | seeds | warned | false alarms | {' | '.join(columns)} |",
             "|---|---|---|---" + "|---" * len(columns) + "|"]
    for fault in dict.fromkeys(run.fault for run in runs):
        group = [run for run in runs if run.fault == fault]
        cells = [_once(" → ".join(map(_number, run.moved[c])) for run in group) for c in columns]
        warned = _share(run.first is not None for run in group) if group[0].named else "–"
        lines.append("| " + " | ".join([
            fault, ", ".join(str(run.seed) for run in group), warned,
            str(sum(run.false_alarms for run in group)), *cells]) + " |")
    return lines


def _share(found: Iterable[bool]) -> str:
    of = list(found)
    return f"{sum(of)} of {len(of)}"


def _lead(run: Run) -> int | None:
    if run.first is None or run.loss_break is None:
        return None
    return run.loss_break - int(run.first["firing_step"])


def _each(group: list[Run], value: Callable[[Run], Any]) -> str:
    values = [value(run) for run in group]
    return "–" if all(v is None for v in values) else ", ".join(
        "–" if v is None else str(v) for v in values)


def _once(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts)) or "–"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a built preset, build/release")
    parser.add_argument("--captures", type=pathlib.Path, required=True, metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 1..N of every fault")
    parser.add_argument("--faults", help="a,b,...: some of them, and the page is left as it is; "
                        "default: all, of both modes")
    parser.add_argument("--dry-run", action="store_true", help="print the tables only")
    given = parser.parse_args()
    known = {fault for steps in STEPS.values() for fault in steps}
    chosen = set(given.faults.split(",")) if given.faults else known
    if not chosen <= known:
        parser.error(f"--faults {', '.join(sorted(chosen - known))}; allowed: "
                     f"{', '.join(sorted(known))}")
    if given.seeds < 1:
        parser.error(f"--seeds {given.seeds}; allowed: 1 or more")
    given.captures.mkdir(parents=True, exist_ok=True)
    python = given.build.resolve() / "python"
    sys.path.insert(0, str(python))
    os.environ["PYTHONPATH"] = str(python)
    rules = sorted((ROOT / "rules").glob("*.yaml"))
    with tempfile.TemporaryDirectory(prefix="foreshock_lab_") as folder:
        with Daemon(given.build / "bin/foreshockd", folder, rules=rules) as daemon:
            lab = Lab(given, daemon)
            for mode, make in (("pretrain", table), ("rl", rl_table)):
                faults = [fault for fault in STEPS[mode] if fault in chosen]
                runs = []
                for fault in faults:
                    for seed in range(1, given.seeds + 1):
                        print(f"lab: {mode} {fault}, seed {seed}", file=sys.stderr, flush=True)
                        runs.append(lab.run(mode, fault, seed))
                if not runs:
                    continue
                print("\n".join(make(runs)), flush=True)
                if not given.dry_run and chosen == known:
                    write_table(PAGE, TABLES[mode], make(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
