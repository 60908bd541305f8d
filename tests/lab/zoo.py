#!/usr/bin/python3
"""Trains the zoo of the fault lab into captures, with what is true of each run.

    tests/lab/zoo.py build/release --captures /tmp/zoo                    # everything: hours
    tests/lab/zoo.py build/release --captures /tmp/zoo --settings gqa,vit --cases healthy,lr-8
    foreshock rules backtest rules/*.yaml --captures /tmp/zoo             # judges it

The folder gets NAME.fscap for each run, index.json (what the backtest reads) and truth.json (all
that is known). A run that is there already is not trained again.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "client/python/examples"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a built preset, build/release")
    parser.add_argument("--captures", type=pathlib.Path, required=True, metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 1..N of every healthy run")
    parser.add_argument("--settings", help="a,b,...; default: all")
    parser.add_argument("--cases", help="a,b,...; default: all")
    given = parser.parse_args()
    sys.path[:0] = [str(given.build.resolve() / "python"), str(EXAMPLES)]
    os.environ["PYTHONPATH"] = str(given.build.resolve() / "python")
    import fault_lab  # first: it settles how torch multiplies
    from lab import zoo

    logging.getLogger("foreshock").setLevel(logging.WARNING)
    fault_lab.settle_torch()
    chosen = []
    for option, known in (("settings", zoo.SETTINGS), ("cases", zoo.CASES)):
        names = (getattr(given, option) or ",".join(known)).split(",")
        if set(names) - set(known):
            parser.error(f"--{option} {','.join(sorted(set(names) - set(known)))}; allowed: "
                         f"{', '.join(known)}")
        chosen.append(names)
    folder = zoo.Folder(given.captures)
    for cell in zoo.cells(*chosen, given.seeds):
        begun = time.process_time()
        if folder.make(cell):
            seconds = time.process_time() - begun
            print(f"{cell.name}  {seconds:.1f} s CPU  {json.dumps(folder.known[cell.name])}",
                  flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
