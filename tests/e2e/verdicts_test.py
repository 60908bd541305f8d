#!/usr/bin/env python3
"""Replays recorded runs through the built programs with the default rules and judges the warnings.

    tests/e2e/verdicts_test.py FORESHOCKD FORESHOCK [FOLDER]

FOLDER (tests/data/captures by default) holds NAME.fscap and index.json. Verdicts: `quiet`: no alert of
warning or above. `alarm`: none before the injection, and one after it: before the loss break where
that lies more than 50 steps after the injection, within 200 steps where it lies closer, at any time
where there is none; and where the index names a fault of ours, the first warning must name it.
`unscored` runs are shown as they are. Exit: 0 every verdict holds, 1 one does not.
"""

import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

from daemon_process import Daemon, cli  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLACK_STEPS = 200
CLOSE_STEPS = 50


def warnings_of(daemon, foreshock, capture, run):
    """Alerts of the run that fired at warning or above, earliest first."""
    cli(foreshock, "replay", capture, "--run", run, server=daemon.grpc, http=daemon.http, check=0)
    answer = json.loads(cli(foreshock, "alerts", "--run", run, "-o", "json", server=daemon.grpc,
                            http=daemon.http, check=0).stdout)
    fired = [a for a in answer["alerts"]
             if a["severity"] in ("warning", "critical") and a.get("firing_step") is not None]
    return sorted(fired, key=lambda alert: int(alert["firing_step"]))


def judge(run, warnings):
    """"" if the verdict holds, else what is wrong."""
    if run["expected"] == "quiet":
        return "" if not warnings else "a quiet run was warned about"
    if run["expected"] != "alarm":
        return ""
    if not warnings:
        return "no warning"
    first = int(warnings[0]["firing_step"])
    injected, broke = run["injection_step"], run["divergence_step"]
    if first < injected:
        return "a warning before the injection"
    if broke is not None and broke - injected > CLOSE_STEPS and first >= broke:
        return "the warning came after the loss break"
    if broke is not None and broke - injected <= CLOSE_STEPS and first > injected + SLACK_STEPS:
        return "the warning came too late"
    runbook = ROOT / f"docs/runbooks/{run.get('fault')}.md"
    if runbook.exists() and warnings[0]["fault"] != run["fault"]:
        return f"the first warning names {warnings[0]['fault']}"
    return ""


def place(alert):
    if alert.get("rank") is not None:
        return f"rank {alert['rank']}"
    if alert.get("all_layers"):
        return "all layers"
    return "layers " + ", ".join(map(str, alert.get("layers", []))) if alert.get("layers") else "run"


def line(run, warnings, wrong):
    broke = run["divergence_step"]
    cells = [run["split"], run["name"], str(run["injection_step"] or "–"), str(broke or "–")]
    if warnings:
        first = warnings[0]
        step = int(first["firing_step"])
        cells += [str(step), first["fault"], place(first), first["severity"],
                  str(broke - step) if broke else "–"]
    else:
        cells += ["–"] * 5
    cells.append(wrong or ("shown" if run["expected"] == "unscored" else "holds"))
    return "| " + " | ".join(cells) + " |"


def main(foreshockd, foreshock, folder):
    index = json.loads((folder / "index.json").read_text())["runs"]
    failed = 0
    print("| split | run | injected | loss break | first warning | fault | where | severity now | lead "
          "| verdict |\n|---|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="foreshock_verdicts_") as directory:
        with Daemon(foreshockd, directory, rules=sorted((ROOT / "rules").glob("*.yaml"))) as daemon:
            for run in index:
                warnings = warnings_of(daemon, foreshock, folder / f"{run['name']}.fscap",
                                       run["name"])
                wrong = judge(run, warnings)
                failed += bool(wrong)
                print(line(run, warnings, wrong), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2],
                  pathlib.Path(sys.argv[3] if len(sys.argv) == 4 else ROOT / "tests/data/captures")))
