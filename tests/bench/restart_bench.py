#!/usr/bin/env python3
"""How long a daemon that was killed takes to be ready again, with one unfinished run of many steps in
its store: with what its rules remembered, and where a changed rule makes all of them judge it anew.

    tests/bench/restart_bench.py FORESHOCKD [--steps 300000]
"""

import argparse
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

import grpc  # noqa: E402

import contract  # noqa: E402
import daemon_process  # noqa: E402
from push_once import push  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
V1 = contract.load()
OWN_RULE = """groups:
  - name: own
    rules:
      - {{alert: far, indicator: train.loss, threshold: {{above: {limit}}}, labels: {{severity: info}}}}
"""


def start(daemon):
    """(wall seconds until it is ready, CPU seconds until then)."""
    before = time.monotonic()
    daemon.start()
    daemon_process.wait_until(lambda: daemon.get("/-/ready")[0] == 200, 600, "ready")
    wall = time.monotonic() - before
    return wall, daemon.metric("process_cpu_seconds_total")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("foreshockd")
    parser.add_argument("--steps", type=int, default=300_000)
    given = parser.parse_args()
    daemon_process.READY_SECONDS = 600.0
    with tempfile.TemporaryDirectory(prefix="foreshock_restart_bench_") as folder:
        own = pathlib.Path(folder) / "own.yaml"
        own.write_text(OWN_RULE.format(limit=9))
        rules = [*sorted((ROOT / "rules").glob("*.yaml")), own]
        with daemon_process.Daemon(given.foreshockd, folder, rules=rules) as daemon:
            with grpc.insecure_channel(daemon.grpc) as channel:
                push(V1.ingest_grpc.IngestServiceStub(channel), "long", ["loss"], given.steps,
                     lambda _, step: 2 + (step * 7919 % 1000) / 1000)
            for what, limit in (("from what its rules remembered", 9),
                                ("the same again", 9),
                                ("with a changed rule, all judged anew", 8)):
                daemon.kill()
                own.write_text(OWN_RULE.format(limit=limit))
                wall, cpu = start(daemon)
                print(f"ready after a kill, a run of {given.steps} steps, {what:40} "
                      f"{wall:7.2f} s, {cpu:7.2f} s of CPU")


if __name__ == "__main__":
    main()
