#!/usr/bin/python3
"""Trains a small mixture-of-experts decoder, breaks it on purpose, and lets Foreshock watch.

    fault_lab.py --fault learning-rate --server 127.0.0.1:7317 --plot run.svg
    fault_lab.py --fault nan-rank --world 2 --capture run.fscap
    fault_lab.py --mode rl --fault rollout-precision --server 127.0.0.1:7317

docs/fault_lab.md says what each fault does and what to expect.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import sys
import uuid
from typing import Any

# Small matrices on one core: more threads only wait for each other. And Debian's OpenBLAS takes a
# processor that is newer than itself for one of 2004 and runs four times slower than it could.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
CPU_FLAGS = pathlib.Path("/proc/cpuinfo").read_text().split() if sys.platform == "linux" else []
for flag, kernels in (("avx512f", "SkylakeX"), ("avx2", "Haswell")):
    if flag in CPU_FLAGS:
        os.environ.setdefault("OPENBLAS_CORETYPE", kernels)

from lab import faults, plot, rl_faults, verdict  # noqa: E402
from lab.processes import settle_torch, train_all  # noqa: E402
from lab.rl import RlPlan, train_rl  # noqa: E402
from lab.settings import SETTINGS, decoder  # noqa: E402
from lab.train import Plan  # noqa: E402
from lab.watching import Sink  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
STEPS = {"pretrain": 1500, "rl": 400}
INJECT_STEPS = {"pretrain": 400, "rl": 200}
INDICATORS = {"pretrain": "attn.delta2.entropy_ratio_l1", "rl": "rl.k3"}  # drawn above
CURVES = {"pretrain": "loss, nats per token", "rl": "reward"}  # drawn below


def fault_lines(table: dict[str, Any]) -> str:
    lines = []
    for name, fault in table.items():
        strength = f" [STRENGTH {fault.strength:g}: {fault.unit}]" if fault.unit else ""
        lines.append(f"  {name:<25} {fault.help}{strength}")
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"faults:\n{fault_lines(faults.FAULTS)}\n\nfaults of --mode rl:\n"
        f"{fault_lines(rl_faults.FAULTS)}",
    )
    parser.add_argument("--mode", choices=("pretrain", "rl"), default="pretrain")
    parser.add_argument("--setting", choices=("decoder", *SETTINGS), default="decoder",
                        help="what is trained, with --mode pretrain; default: decoder")
    parser.add_argument("--layer", type=int, help="the only one with the fault; default: all")
    parser.add_argument("--fault", default="none", metavar="NAME", help="see below")
    parser.add_argument("--strength", type=float, help="of the fault; default: see below")
    parser.add_argument("--inject-step", type=int, help="default 400, with --mode rl 200")
    parser.add_argument("--steps", type=int, help="default 1500, with --mode rl 400")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--world", type=int, choices=(1, 2, 4),
                        help="processes; default 1, 2 for nan-rank")
    parser.add_argument("--tensor", type=int, choices=(1, 2),
                        help="tensor-parallel processes among them; default 2 of 4, else 1")
    parser.add_argument("--run", help="the run's name; default FAULT-SEED")
    parser.add_argument("--server", default="", metavar="ADDR", help="push to this foreshockd")
    parser.add_argument("--capture", default="", metavar="PATH",
                        help="write captures, .fscap or .jsonl; one per rank and attempt")
    parser.add_argument("--plot", default="", metavar="FILE", help="draw the run, .svg or .png")
    parser.add_argument("--curve", default="", metavar="FILE",
                        help="write the loss of every step, with --mode rl the reward")
    parser.add_argument("--text", type=pathlib.Path, default=ROOT, metavar="FOLDER",
                        help="with docs, proto and daemon in it; default: this repository")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    given = parser.parse_args()
    table = faults.FAULTS if given.mode == "pretrain" else rl_faults.FAULTS
    if given.fault not in table:
        parser.error(f"--fault {given.fault}: with --mode {given.mode} allowed: {', '.join(table)}")
    fault = table[given.fault]
    if given.mode == "rl" and (given.world or 1) > 1:
        parser.error(f"--world {given.world}: with --mode rl allowed: 1")
    if given.world is None:
        given.world = 1 if given.mode == "rl" else fault.processes
    if given.tensor is None and given.setting != "decoder":
        given.tensor = 1
    if given.tensor is None:
        given.tensor = 2 if given.world == 4 else 1
    if given.world % given.tensor:
        parser.error(f"--tensor {given.tensor}: {given.world} processes do not divide by it")
    if given.mode == "pretrain" and given.world // given.tensor < fault.processes:
        parser.error(f"--fault {given.fault} needs {fault.processes} data-parallel processes: "
                     "give --world 2, or 4")
    given.strength = fault.strength if given.strength is None else given.strength
    low, high = fault.limits
    if not low <= given.strength <= high:
        parser.error(f"--strength {given.strength:g}: with {given.fault} allowed: "
                     f"{low:g}..{high:g}")
    given.steps = STEPS[given.mode] if given.steps is None else given.steps
    given.inject_step = INJECT_STEPS[given.mode] if given.inject_step is None else given.inject_step
    if given.steps < 1 or given.inject_step < 0:
        parser.error(f"--steps {given.steps}, --inject-step {given.inject_step}: allowed: at least "
                     "1 step, and an injection at 0 or later")
    given.run = given.run or f"{given.fault}-{given.seed}"
    return given


def run_pretraining(given: argparse.Namespace, sink: Sink) -> dict[int, float]:
    setting = decoder(given.text) if given.setting == "decoder" else SETTINGS[given.setting]
    plan = Plan(fault=given.fault, strength=given.strength, inject_step=given.inject_step,
                steps=given.steps, seed=given.seed, setting=setting, sink=sink, layer=given.layer)
    return train_all(plan, given.world, given.tensor)


def draw(given: argparse.Namespace, curve: dict[int, float], found: dict[str, Any]) -> None:
    marks = [] if given.fault == "none" else [(given.inject_step, "fault", "tab:orange")]
    if found["first_warning"]:
        marks.append((found["first_warning"]["step"], "warning", "tab:red"))
    if found["loss_break_step"] is not None:
        marks.append((found["loss_break_step"], "loss break", "black"))
    indicator = INDICATORS[given.mode]
    points = verdict.layer_means(given.server, given.run, indicator) if given.server else {}
    title = f"{given.run}: {given.fault}, strength {given.strength:g}"
    plot.draw(given.plot, title, CURVES[given.mode], curve, indicator, points, marks)


def main() -> int:
    given = arguments()
    settle_torch()
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%S")
    sink = Sink(given.run, given.server, given.capture, f"lab-{stamp}-{uuid.uuid4().hex[:8]}")
    if given.mode == "rl":
        curve = train_rl(RlPlan(fault=given.fault, strength=given.strength, steps=given.steps,
                                inject_step=given.inject_step, seed=given.seed, sink=sink))
    else:
        try:
            curve = run_pretraining(given, sink)
        except ValueError as error:
            sys.exit(f"fault_lab.py: {error}")
    warnings = verdict.warnings_of(given.server, given.run) if given.server else None
    found = {"run": given.run, "mode": given.mode, "fault": given.fault,
             "strength": given.strength, "seed": given.seed, "inject_step": given.inject_step,
             **verdict.summary(curve if given.mode == "pretrain" else {}, warnings)}
    if given.curve:
        rows = "".join(f"{step}\t{value!r}\n" for step, value in sorted(curve.items()))
        pathlib.Path(given.curve).write_text(rows)
    if given.plot:
        draw(given, curve, found)
    print(json.dumps(found) if given.output == "json" else verdict.in_words(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
