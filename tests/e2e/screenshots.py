#!/usr/bin/env python3
"""Pictures of every view of the page, from replayed captures, to be looked at (make screenshots).

    tests/e2e/screenshots.py BIN_DIR OUTPUT_DIR
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

from browser import Browser  # noqa: E402
from daemon_process import Daemon, cli  # noqa: E402
from web_rules import OWN_RULES, write_band_rules  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "tests/data/captures"
RUNS = ["f_attn_201", "f_lrramp_211", "f_router_231", "h_const_101"]
WIDE, PHONE = (1200, 800), (390, 800)


def views(alert):
    """(name, address, size, dark)"""
    shown = f"alert?run=f_attn_201&id={alert}"
    return [
        ("runs", "runs", WIDE, False),
        ("run", "run?run=f_attn_201", WIDE, False),
        ("run-zoomed", "run?run=f_attn_201&first=380&last=520&plot=train.grad_norm_q&"
                       "plot=attn.delta2.entropy_ratio_l1@1", WIDE, True),
        ("alerts", "alerts", WIDE, False),
        ("alerts-of-a-run", "alerts?run=f_lrramp_211&info=1", WIDE, False),
        ("alert", shown, WIDE, False),
        ("alert-dark", shown, WIDE, True),
        ("attention", "attention?run=f_attn_201&step=800", WIDE, False),
        ("attention-head", "attention?run=f_attn_201&layer=1&unit=0", WIDE, False),
        ("attention-steps", "attention?run=f_attn_201&over=steps&layer=2", WIDE, True),
        ("router", "router?run=f_router_231", WIDE, False),
        ("router-steps", "router?run=f_router_231&over=steps&layer=1", WIDE, False),
        ("router-dark", "router?run=f_router_231&over=steps", WIDE, True),
        ("compare", "compare?a=f_attn_201&b=h_const_101", WIDE, False),
        ("compare-tokens", "compare?a=f_attn_201&b=f_lrramp_211&by=tokens&"
                           "indicator=attn.delta2.entropy_ratio_l1", WIDE, True),
        ("compare-band", "compare?a=f_attn_201&band=entropy_off_band", WIDE, False),
        ("rules", "rules", WIDE, False),
        ("daemon", "daemon", WIDE, False),
        ("unknown-run", "run?run=gone", WIDE, False),
        ("phone-runs", "runs", PHONE, False),
        ("phone-run", "run?run=f_attn_201", PHONE, True),
        ("phone-alert", shown, PHONE, False),
        ("phone-attention", "attention?run=f_attn_201", PHONE, False),
        ("phone-router", "router?run=f_router_231&over=steps", PHONE, False),
        ("phone-compare", "compare?a=f_attn_201&b=h_const_101", PHONE, False),
    ]


def judge_own_rules(browser):
    """Writes rules into the editor of the view Rules, which is open, and has them judged."""
    browser.run("const [file] = document.querySelectorAll('.backtest select'); file.value = 'own.yaml'; "
                "file.dispatchEvent(new Event('change'))")
    browser.run("const [editor] = document.querySelectorAll('textarea'); editor.value = arguments[0]; "
                "editor.dispatchEvent(new Event('input'))", OWN_RULES)
    browser.click(".backtest input[type=checkbox]")
    browser.click("button", "Judge")
    browser.wait_text(".backtest", "would have fired")


def closed_daemon(binaries, folder):
    """One that wants tokens, not yet started."""
    entry = cli(binaries / "foreshock", "token", "new", "ada", "--role", "read", "--to",
                folder / "ada.token", check=0).stdout
    (folder / "tokens.yaml").write_text(f"tokens:\n{entry}")
    (folder / "closed.yaml").write_text(f"access:\n  tokens_file: {folder / 'tokens.yaml'}\n")
    return Daemon(binaries / "foreshockd", folder / "closed", extra=["--config", str(folder / "closed.yaml")])


def each_view(binaries):
    """Starts a daemon with runs and a browser; (name, browser) of one drawn view after the other."""
    binaries = binaries.resolve()
    with tempfile.TemporaryDirectory(prefix="foreshock_views_") as name:
        folder = pathlib.Path(name)
        # Where a daemon would have them: the page shows paths.
        os.chdir(folder)
        shutil.copytree(ROOT / "rules", "rules", ignore=lambda *_: ["tests", "examples"])
        write_band_rules(pathlib.Path("rules"))
        rules = sorted(pathlib.Path("rules").glob("*.yaml"))
        rules.remove(pathlib.Path("rules/band.yaml"))
        with Daemon(binaries / "foreshockd", folder, rules=rules) as daemon, \
                Browser(f"http://{daemon.http}/") as browser:
            browser.open("runs")
            browser.wait_text("main", "No run has reported yet")
            yield "empty", browser
            for run in RUNS:
                cli(binaries / "foreshock", "replay", CAPTURES / f"{run}.fscap", server=daemon.grpc,
                    check=0)
            alerts = json.loads(daemon.get("/api/v1/alerts?run=f_attn_201&limit=1")[1])["alerts"]
            for name, address, size, dark in views(alerts[0]["id"]):
                browser.size(*size, dark=dark)
                browser.open(address)
                browser.wait_loaded()
                if browser.find("main figure canvas"):
                    browser.wait_drawn()
                yield name, browser
            for name, size, dark in (("rules-edited", WIDE, False), ("phone-rules-edited", PHONE, True)):
                browser.size(*size, dark=dark)
                browser.open("rules?run=f_attn_201&name=off_band")
                browser.wait_text(".backtest", "Rules (YAML)")
                judge_own_rules(browser)
                yield name, browser
            (folder / "closed").mkdir()
            with closed_daemon(binaries, folder) as closed:
                opened, browser.base = browser.base, f"http://{closed.http}/"
                for name, size, dark in (("token", WIDE, False), ("phone-token", PHONE, True)):
                    browser.size(*size, dark=dark)
                    browser.open("runs")
                    browser.wait_text("main.gate", "This daemon wants a token")
                    yield name, browser
                browser.base = opened
            browser.size(*WIDE)
            browser.open("runs")
            browser.wait_text("main", RUNS[0])
            daemon.kill()
            browser.wait_text(".banner.lost", "does not answer")
            yield "away", browser


def main(binaries, output):
    output = output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    for name, browser in each_view(binaries):
        browser.screenshot(output / f"{name}.png")
        print(output / f"{name}.png")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
