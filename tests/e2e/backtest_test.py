#!/usr/bin/env python3
"""foreshock rules backtest and test, through the built programs: they say what the daemon says.

    tests/e2e/backtest_test.py FORESHOCKD FORESHOCK [FOLDER]

FOLDER (tests/data/captures by default) holds NAME.fscap and index.json, as for verdicts_test.py.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

from daemon_process import Daemon, cli  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = sorted((ROOT / "rules").glob("*.yaml"))
FOLDER = ROOT / "tests/data/captures"
FORESHOCKD, FORESHOCK = "", ""
COMPARED = ("rule", "fault", "firing_step", "resolved_step", "attempt", "layers", "all_layers", "rank")


def told(alert):
    """What is compared of an alert, from the API or from a backtest, as text."""
    values = []
    for key in COMPARED:
        value = alert.get(key)
        if key in ("firing_step", "resolved_step") and value is not None:
            value = int(value)
        if key == "layers":
            value = sorted(value or [])
        values.append(f"{key}={value if value not in (None, False, '', 0) or key == 'rank' else '-'}")
    return " ".join(values)


class Backtest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="foreshock_backtest_")
        cls.index = json.loads((FOLDER / "index.json").read_text())["runs"]
        cls.answer = cls.backtest("--captures", FOLDER)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    @classmethod
    def backtest(cls, *arguments, check=0):
        done = cli(FORESHOCK, "rules", "backtest", *RULES, *arguments, "-o", "json", check=check)
        return json.loads(done.stdout)

    def test_the_daemon_says_the_same_live_and_from_its_store(self):
        names = [run["name"] for run in self.index]
        with Daemon(FORESHOCKD, self.directory.name, rules=RULES) as daemon:
            live = {}
            for name in names:
                cli(FORESHOCK, "replay", FOLDER / f"{name}.fscap", "--run", name,
                    server=daemon.grpc, http=daemon.http, check=0)
                live[name] = json.loads(cli(FORESHOCK, "alerts", "--run", name, "-o", "json",
                                            server=daemon.grpc, http=daemon.http, check=0).stdout)
            stored = self.backtest("--data", daemon.data, "--index", FOLDER / "index.json",
                                   "--runs", *names)
            # The daemon compacts beside it, so that only a store at rest shows that nothing is written.
            daemon.stop()
            before = sorted(os.listdir(daemon.data))
            self.assertEqual(self.backtest("--data", daemon.data, "--runs", names[0])["runs"][0]["name"],
                             names[0])
            self.assertEqual(before, sorted(os.listdir(daemon.data)), "something was written")
        self.assertTrue(any(run["alerts"] for run in self.answer["runs"]))
        for run, again in zip(self.answer["runs"], stored["runs"], strict=True):
            by_daemon = sorted(told(alert) for alert in live[run["name"]]["alerts"])
            self.assertEqual(sorted(map(told, run["alerts"])), by_daemon, run["name"])
            self.assertEqual(sorted(map(told, again["alerts"])), by_daemon, run["name"])
            for key in ("verdict", "steps", "loss_break_step", "computed_loss_break_step",
                        "healthy_steps", "false_alarms"):
                self.assertEqual(run[key], again[key], (run["name"], key))

    def test_labels_and_computed_loss_breaks_agree(self):
        for run, label in zip(self.answer["runs"], self.index, strict=True):
            self.assertEqual(run["name"], label["name"])
            self.assertEqual(run["computed_loss_break_step"], label["divergence_step"], run["name"])
            self.assertEqual(run["split"], label["split"])
            if label["expected"] == "alarm":
                self.assertEqual(run["healthy_steps"], label["injection_step"])

    def test_every_verdict_of_the_captures_holds(self):
        for run in self.answer["runs"]:
            self.assertIn(run["verdict"], ("holds", "shown"), (run["name"], run["reason"]))

    def test_a_missed_verdict_is_exit_code_one(self):
        silent = pathlib.Path(self.directory.name) / "silent.yaml"
        silent.write_text("groups: [{name: g, rules: [{alert: a, indicator: train.loss, "
                          "threshold: {above: 1e9}, labels: {severity: warning}}]}]\n")
        done = cli(FORESHOCK, "rules", "backtest", silent, "--captures",
                   FOLDER / "f_router_231.fscap", "--index", FOLDER / "index.json", check=1)
        self.assertIn("missed: no warning", done.stdout)
        self.assertIn("0 of 1 verdict", done.stdout)
        # Without a label nothing is right or wrong.
        done = cli(FORESHOCK, "rules", "backtest", silent, "--captures",
                   FOLDER / "f_router_231.fscap", check=0)
        self.assertIn("without labels: no verdict", done.stdout)

    def test_wrong_usage_and_bad_input_are_told(self):
        capture = FOLDER / "h_const_101.fscap"
        folder = pathlib.Path(self.directory.name) / "damaged"
        folder.mkdir()
        (folder / "cut.fscap").write_bytes(capture.read_bytes()[:50_000])
        shutil.copy(capture, folder / "whole.fscap")
        cases = [
            ([], 2, "no run to judge"),
            (["--runs", "a"], 2, "--runs RUN... and --data DIR go together"),
            (["--captures", capture, "--plot", "a.pdf"], 2, "must end in .svg or .png"),
            (["--captures", capture, "--healthy", "--fault-from", "3"], 2, "contradict"),
            (["--captures", folder / "nowhere"], 1, "no such file or folder"),
            (["--captures", ROOT / "docs"], 1, "has no .fscap or .jsonl file"),
            (["--captures", capture, capture], 1, "two runs are named h_const_101"),
            (["--captures", folder, "--healthy"], 1, "cut: "),
            (["--captures", capture, "--index", ROOT / "README.md"], 1, "README.md:"),
        ]
        for arguments, code, text in cases:
            done = cli(FORESHOCK, "rules", "backtest", *RULES, *arguments, check=code)
            self.assertIn(text, done.stderr, arguments)
        # The whole capture beside the damaged one was judged.
        answer = self.backtest("--captures", folder, "--healthy", check=1)
        self.assertEqual([run["name"] for run in answer["runs"]], ["whole"])
        self.assertEqual([error["name"] for error in answer["errors"]], ["cut"])

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_pictures_are_drawn(self):
        for ending, first in (("svg", b"<?xml"), ("png", b"\x89PNG")):
            picture = pathlib.Path(self.directory.name) / f"run.{ending}"
            cli(FORESHOCK, "rules", "backtest", *RULES, "--captures",
                FOLDER / "f_router_231.fscap", "--fault-from", "500", "--plot", picture, check=0)
            self.assertTrue(picture.read_bytes().startswith(first), picture)

    def test_the_table_of_a_run_is_as_the_golden_file_has_it(self):
        done = cli(FORESHOCK, "rules", "backtest", ROOT / "tests/data/rules/golden.yaml",
                   "--captures", FOLDER / "f_router_231.fscap", FOLDER / "h_const_101.fscap",
                   "--index", FOLDER / "index.json", check=0)
        golden = (ROOT / "tests/data/golden/cli/backtest.txt").read_text()
        self.assertEqual(done.stdout, golden)


class RuleTests(unittest.TestCase):
    def test_a_failing_test_is_shown_as_the_golden_file_has_it(self):
        with tempfile.TemporaryDirectory(prefix="foreshock_rule_tests_") as directory:
            folder = pathlib.Path(directory)
            shutil.copy(ROOT / "tests/data/rules/golden.yaml", folder / "golden.yaml")
            (folder / "t.yaml").write_text(
                "rule_files: [golden.yaml]\n"
                "tests:\n"
                "  - name: wrong on purpose\n"
                "    model: {layers: 2}\n"
                "    every: 10 steps\n"
                "    input:\n"
                "      - {series: router.token_entropy_ratio, layer: 0, values: 0.8x60}\n"
                "      - {series: router.token_entropy_ratio, layer: 1, values: 0.8x39 0.4x20}\n"
                "    expect:\n"
                "      - {alert: entropy_low, first_step: 410, layers: [0]}\n"
                "      - never_severity: warning\n"
                "  - name: right\n"
                "    input: [{series: train.loss, values: 3x9}]\n"
                "    expect: [never: entropy_low]\n")
            done = cli(FORESHOCK, "rules", "test", folder / "t.yaml", check=1)
            golden = (ROOT / "tests/data/golden/cli/rules_test.txt").read_text()
            self.assertEqual(done.stdout.replace(directory, "DIR"), golden)
            answer = json.loads(cli(FORESHOCK, "rules", "test", folder / "t.yaml", "-o", "json",
                                    check=1).stdout)
            self.assertFalse(answer["passed"])
            self.assertEqual([test["passed"] for test in answer["files"][0]["tests"]],
                             [False, True])
            (folder / "t.yaml").write_text("rule_files: [golden.yaml]\ntests: [{nam: a}]\n")
            done = cli(FORESHOCK, "rules", "test", folder / "t.yaml", check=1)
            self.assertIn("t.yaml:2:10: unknown key `nam`", done.stderr.replace(directory, "DIR"))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    FORESHOCKD, FORESHOCK = sys.argv[1:3]
    if len(sys.argv) == 4:
        FOLDER = pathlib.Path(sys.argv[3])
    unittest.main(argv=sys.argv[:1])
