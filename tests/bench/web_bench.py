#!/usr/bin/env python3
"""How fast the page is in Chromium, on loopback: first views with many runs and series stored, a plot
of a very long run, and what it weighs.

    tests/bench/web_bench.py FORESHOCKD [--steps 1000000]
"""

import argparse
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

import grpc  # noqa: E402

import contract  # noqa: E402
from browser import Browser  # noqa: E402
from daemon_process import Daemon  # noqa: E402
from push_once import push  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS, SERIES, STEPS = 10, 1000, 20
TIMES = 5
V1 = contract.load()

# Milliseconds from the navigation, or from a click, until the page has what it asked for.
FIRST_VIEW = """
const done = arguments[arguments.length - 1];
const look = () => document.querySelector("main:not([aria-busy])") ? done(performance.now())
  : requestAnimationFrame(look);
look();
"""
ZOOM = """
const done = arguments[arguments.length - 1];
const readout = () => document.querySelector(".plots .readout").textContent;
const before = readout();
const start = performance.now();
[...document.querySelectorAll("button")].find((one) => one.textContent === arguments[0]).click();
const look = () => readout() !== before ? done(performance.now() - start) : requestAnimationFrame(look);
look();
"""


def row(what, target, values, unit="ms"):
    print(f"{what:64} target {target:>9}   reached {statistics.median(values):8.1f} {unit} "
          f"(worst of {len(values)}: {max(values):.1f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("foreshockd")
    parser.add_argument("--steps", type=int, default=1_000_000, help="of the long run")
    arguments = parser.parse_args()
    rules = sorted((ROOT / "rules").glob("*.yaml"))
    with tempfile.TemporaryDirectory(prefix="foreshock_web_bench_") as folder, \
            Daemon(arguments.foreshockd, folder, rules=rules) as daemon, \
            Browser(f"http://{daemon.http}/") as browser:
        with grpc.insecure_channel(daemon.grpc) as channel:
            stub = V1.ingest_grpc.IngestServiceStub(channel)
            for run in range(RUNS - 1):
                push(stub, f"run-{run}", ["loss"] + [f"s{i}" for i in range(SERIES - 1)], STEPS,
                     lambda i, step: i + 1 / (step + 1))
            push(stub, "long", ["loss"], arguments.steps, lambda _, step: 2 + (step * 7919 % 1000) / 1000)
        browser.driver.set_script_timeout(60)

        def first_view(path):
            browser.open(path)
            return browser.driver.execute_async_script(FIRST_VIEW)

        row(f"first view of the runs, {RUNS} runs, {RUNS * SERIES} series", "1000 ms",
            [first_view("runs") for _ in range(TIMES)])
        row(f"first view of a run with {SERIES} series", "1000 ms",
            [first_view("run?run=run-3") for _ in range(TIMES)])
        row(f"first view of a run with {arguments.steps} steps", "1000 ms",
            [first_view("run?run=long&plot=train.loss") for _ in range(TIMES)])
        zooms = []
        for _ in range(TIMES):
            zooms.append(browser.driver.execute_async_script(ZOOM, "Zoom in"))
            zooms.append(browser.driver.execute_async_script(ZOOM, "Everything"))
        row(f"a plot of {arguments.steps} steps anew, click to drawn", "200 ms", zooms)
        weight = browser.run("return performance.getEntriesByType('resource').filter((one) => "
                             "one.name.includes('/web/')).map((one) => one.encodedBodySize)")
        row("page weight, as sent", "500 kB", [sum(weight) / 1000], "kB")


if __name__ == "__main__":
    main()
