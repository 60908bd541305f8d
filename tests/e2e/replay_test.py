#!/usr/bin/env python3
"""A recorded run through the built programs: pushed, computed, stored, judged, exported, asked for."""

import csv
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

from daemon_process import Daemon, cli, wait_until  # noqa: E402
from prometheus_process import Prometheus  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAULTY = ROOT / "tests/data/captures/f_attn_201.fscap"
FORESHOCKD, FORESHOCK = "", ""
INDICATOR = "attn.delta2.entropy_ratio_l1"


class ReplayedRun(unittest.TestCase):
    """One daemon, one replay of the attention fault; the tests look at the outcome."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="foreshock_e2e_")
        cls.daemon = Daemon(FORESHOCKD, cls.directory.name,
                            rules=sorted((ROOT / "rules").glob("*.yaml"))).start()
        cls.replay = cls.run_cli("replay", FAULTY, "--run", "demo", "-o", "json", check=0)
        cls.totals = json.loads(cls.replay.stdout)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__()
        cls.directory.cleanup()

    @classmethod
    def run_cli(cls, *arguments, check=None):
        return cli(FORESHOCK, *arguments, server=cls.daemon.grpc, http=cls.daemon.http, check=check)

    def ask(self, *arguments):
        return json.loads(self.run_cli(*arguments, "-o", "json", check=0).stdout)

    def api(self, path, **parameters):
        status, body = self.daemon.get(f"{path}?{urllib.parse.urlencode(parameters)}")
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def test_every_report_was_acknowledged(self):
        self.assertEqual(self.totals["run"], "demo")
        self.assertEqual(self.totals["streams"], 8)
        self.assertEqual(self.totals["reports"], 8 * 1500)
        self.assertEqual(self.totals["rejected"], 0, self.totals["rejections"])
        self.assertEqual(self.totals["last_step"], 1499)

    def test_run_is_listed_with_its_attempt(self):
        run = self.ask("runs", "show", "demo")["run"]
        self.assertEqual(run["name"], "demo")
        self.assertEqual(run["model"]["layers"], 3)
        self.assertEqual(len(run["attempts"]), 1)
        self.assertIn("demo", self.run_cli("runs", check=0).stdout)
        self.assertIn("demo", self.run_cli("runs", "list", "--prefix", "de", check=0).stdout)
        none = self.run_cli("runs", "list", "--prefix", "zz", check=0).stdout
        self.assertIn("begins with 'zz'", none)
        self.assertNotIn("No runs yet", none)

    def test_loss_has_a_point_a_step_with_its_attempt(self):
        points = self.ask("query", "demo", "train.loss")["results"][0]["points"]
        self.assertEqual([int(point["step"]) for point in points], list(range(1500)))
        self.assertEqual({point["attempt"] for point in points}, {1})

    def test_query_table_shows_step_value_and_attempt(self):
        text = self.run_cli("query", "demo", INDICATOR, "--layer", 1, "--steps", "400:500",
                            check=0).stdout
        self.assertRegex(text, r"STEP +VALUE +ATTEMPT")
        self.assertRegex(text, r"(?m)^ +450 +0\.\d+ +1$")
        self.assertIn("layer 1, head 0", text)

    def test_query_answers_what_the_http_api_answers(self):
        asked = self.ask("query", "demo", INDICATOR, "--layer", 1, "--steps", "100:700")
        answered = self.api("/api/v1/points", run="demo", indicator=INDICATOR, layer=1,
                            first_step=100, last_step=700)
        self.assertGreater(len(asked["results"]), 1)
        self.assertEqual(asked, answered)

    def test_buckets_hold_what_the_points_say(self):
        points = self.ask("query", "demo", "train.loss")["results"][0]["points"]
        asked = self.ask("query", "demo", "train.loss", "--buckets", 10)
        self.assertEqual(asked, self.api("/api/v1/points", run="demo", indicator="train.loss",
                                         buckets_max=10))
        answer = asked["results"][0]
        self.assertEqual((answer["bucket_steps"], answer["points"]), ("256", []))
        for bucket in answer["buckets"]:
            first = int(bucket["first_step"])
            values = [p["value"] for p in points if first <= int(p["step"]) < first + 256]
            self.assertEqual(int(bucket["count"]), len(values))
            self.assertEqual((bucket["min"], bucket["max"], bucket["last"]),
                             (min(values), max(values), values[-1]))
            self.assertAlmostEqual(bucket["mean"], sum(values) / len(values), delta=1e-12)
        table = self.run_cli("query", "demo", "train.loss", "--buckets", 10, check=0).stdout
        self.assertIn("1 500 points in buckets of 256 steps", table)
        for option, value, allowed in (("--buckets", 0, "1 to 10000000"),
                                       ("--limit", -1, "0 to 10000000")):
            done = self.run_cli("query", "demo", "train.loss", option, value, check=2)
            self.assertIn(f"{option}: '{value}' is no whole number from {allowed}", done.stderr)

    def test_matchers_choose_series_and_runs(self):
        one = self.ask("query", "demo", INDICATOR, "--match", 'layer=~"1|2"', "--match",
                       "unit_id=0", "--steps", "450")["results"]
        self.assertEqual([answer["series"]["layer"] for answer in one], [1, 2])
        self.assertEqual(self.api("/api/v1/runs", match='name!="demo"')["runs"], [])
        done = self.run_cli("query", "demo", INDICATOR, "--match", "layer", check=2)
        self.assertIn("LABEL=~REGEX", done.stderr)

    def test_export_writes_every_point_once(self):
        path = pathlib.Path(self.directory.name, "demo.csv")
        told = self.run_cli("export", "demo", "-w", path, check=0).stdout
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertIn(f"{len(rows):,}".replace(",", " ") + " points", told)
        self.assertGreater(len(rows), 50_000)
        keys = ("attempt", "step", "indicator", "layer", "unit", "unit_id", "unit_name")
        self.assertEqual(len({tuple(row[key] for key in keys) for row in rows}), len(rows))
        lines = self.run_cli("export", "demo", "train.loss", "--unit", "none", "--format", "jsonl",
                             check=0).stdout
        points = self.ask("query", "demo", "train.loss")["results"][0]["points"]
        self.assertEqual([json.loads(line)["value"] for line in lines.splitlines()],
                         [point["value"] for point in points])
        loss = [row for row in rows if (row["indicator"], row["unit"]) == ("train.loss", "none")]
        self.assertEqual([float(row["value"]) for row in loss],
                         [point["value"] for point in points])

    def test_export_leaves_no_file_when_it_cannot_be_whole(self):
        folder = pathlib.Path(self.directory.name)
        for arguments in (["nonesuch"], ["demo", "train.nonesuch"]):
            self.run_cli("export", *arguments, "-w", folder / "none.csv", check=1)
        done = self.run_cli("export", "demo", "-w", folder / "nowhere/x.csv", check=1)
        self.assertIn("nowhere/x.csv: No such file", done.stderr)
        self.assertEqual(list(folder.glob("none*")), [])

    def test_unknown_run_is_a_finding_that_names_the_run(self):
        done = self.run_cli("query", "nonesuch", "train.loss", check=1)
        self.assertIn("nonesuch", done.stderr)

    def test_warning_names_fault_and_layer_before_the_loss_breaks(self):
        summary = self.ask("summary", "demo", "--require-lead")
        self.assertEqual(summary["loss_break_step"], 1392)
        warning = summary["first_warning"]
        self.assertGreaterEqual(warning["step"], 400)
        self.assertLess(warning["step"], 1392)
        self.assertEqual(summary["lead_steps"], 1392 - warning["step"])
        alerts = self.ask("alerts", "--run", "demo")["alerts"]
        self.assertIn("low_precision_attention", {alert.get("fault") for alert in alerts})

    def test_alert_block_is_complete(self):
        text = self.run_cli("alerts", "--run", "demo", check=0).stdout
        for label in ("rule", "where", "since", "value", "baseline"):
            self.assertIn(label, text)
        self.run_cli("alerts", "--run", "demo", "--state", "firing", "--exit-code", check=1)

    def test_doctor_finds_everything_in_order(self):
        done = self.run_cli("doctor", "-o", "json", check=0)
        answer = json.loads(done.stdout)
        self.assertTrue(answer["healthy"])
        checks = {check["check"]: check["result"] for check in answer["checks"]}
        for name in ("connection", "health", "services", "version", "store", "rules", "http",
                     "clock", "metrics"):
            self.assertEqual(checks.get(name), "good", done.stdout)

    def test_status_counts_what_was_pushed(self):
        status = self.ask("status")
        self.assertGreaterEqual(int(status["reports_committed"]), 12000)
        self.assertTrue(status["ready"])
        self.assertTrue(status["store_writable"])

    def test_replaying_again_sends_nothing_twice(self):
        before = self.ask("query", "demo", "train.loss")
        again = json.loads(self.run_cli("replay", FAULTY, "--run", "demo", "-o", "json",
                                        check=0).stdout)
        self.assertEqual((again["reports"], again["skipped"]), (0, 12000))
        self.assertEqual(self.ask("query", "demo", "train.loss"), before)

    def test_metrics_pass_promtool(self):
        promtool = shutil.which("promtool")
        self.assertIsNotNone(promtool, "promtool is missing: deploy/install-deps.sh test")
        page = self.daemon.get("/metrics")[1]
        done = subprocess.run([promtool, "check", "metrics"], input=page, text=True, check=False,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertRegex(page, r'(?m)^foreshock_last_step\{run="demo"\} 1499$')

    def test_prometheus_scrapes_and_answers(self):
        with Prometheus(self.daemon.http) as prometheus:
            result = wait_until(lambda: prometheus.query('foreshock_last_step{run="demo"}'), 60,
                                "Prometheus has scraped foreshock_last_step")
            self.assertEqual(result[0]["value"][1], "1499")
            self.assertEqual(result[0]["metric"]["run"], "demo")


class Usage(unittest.TestCase):
    """What needs no daemon: exit codes, help, completion, rule files, damaged captures."""

    def run_cli(self, *arguments, check=None):
        return cli(FORESHOCK, *arguments, server="127.0.0.1:1", check=check)

    def test_wrong_usage_exits_2(self):
        for arguments in ([], ["frobnicate"], ["query", "demo"], ["query"],
                          ["query", "demo", "train.loss", "--steps", "9:3"],
                          ["query", "demo", "train.loss", "--attempt", "zero"],
                          ["replay"], ["replay", "x", "--speed", "fast"],
                          ["status", "--timeout", "nan"], ["status", "--timeout", "0"],
                          ["rules", "export", "x", "--step-seconds", "nan"],
                          ["status", "--output", "xml"], ["completion", "csh"], ["rules"]):
            with self.subTest(arguments=arguments):
                done = self.run_cli(*arguments, check=2)
                self.assertNotEqual(done.stderr + done.stdout, "")

    def test_wrong_usage_says_what_is_right(self):
        for arguments, said in (
                ([], "Subcommands:"), (["rules"], "Subcommands:"),
                (["rules", "bcktest"], "no command 'bcktest'; `foreshock rules --help`"),
                (["--server", "h:1", "runs"], "foreshock COMMAND --server"),
                (["replay", "x", "--watch-every", "0"], "is no whole number from 1 to 1000000"),
                (["rules", "backtest", "x", "--fault-from", "-1"],
                 "is no whole number from 0 to 9007199254740992"),
                (["alerts", "--state", "ill"],
                 "'ill' is none of any, firing, pending, resolved")):
            with self.subTest(arguments=arguments):
                self.assertIn(said, self.run_cli(*arguments, check=2).stderr)

    def test_no_daemon_exits_3_and_says_what_to_do(self):
        for verb in (["status"], ["runs"], ["alerts"], ["events", "demo"], ["summary", "demo"],
                     ["query", "demo", "train.loss"], ["replay", FAULTY]):
            with self.subTest(verb=verb):
                done = self.run_cli(*verb, "--timeout", "2", check=3)
                self.assertIn("127.0.0.1:1", done.stderr)
                self.assertIn("--server", done.stderr)
        done = self.run_cli("doctor", "--timeout", "1", check=3)
        self.assertIn("start foreshockd", done.stdout)

    def test_every_verb_teaches_with_an_example(self):
        for verb in ("replay", "runs", "query", "alerts", "events", "summary", "status", "doctor"):
            with self.subTest(verb=verb):
                text = self.run_cli(verb, "--help", check=0).stdout
                self.assertIn("Example", text)
                self.assertIn(f"foreshock {verb}", text)
                self.assertIn("--output", text)
        self.assertIn("foreshock rules check",
                      self.run_cli("rules", "check", "--help", check=0).stdout)

    def test_version_is_that_of_the_tree(self):
        version = (ROOT / "VERSION").read_text().strip()
        self.assertEqual(self.run_cli("--version", check=0).stdout.strip(), f"foreshock {version}")

    def test_completion_scripts_parse_and_complete(self):
        script = self.run_cli("completion", "bash", check=0).stdout
        probe = (script + "\nCOMP_WORDS=(foreshock runs li); COMP_CWORD=2; _foreshock; "
                 "echo \"${COMPREPLY[@]}\"")
        done = subprocess.run(["bash", "-c", probe], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "list")
        self.assertIn("compdef foreshock", self.run_cli("completion", "zsh", check=0).stdout)
        self.assertRegex(self.run_cli("completion", "fish", check=0).stdout,
                         r"(?m)^complete -c foreshock .* -a replay ")

    def test_rules_check_reports_all_errors_at_once_with_their_places(self):
        with tempfile.TemporaryDirectory() as directory:
            bad = pathlib.Path(directory, "bad.yaml")
            bad.write_text("groups:\n  - name: a\n    rules:\n"
                           "      - alert: A\n        indicator: train.loss\n        frobs: 3\n"
                           "        threshold: {above: high}\n")
            done = self.run_cli("rules", "check", bad, check=1)
            places = re.findall(rf"(?m)^{re.escape(str(bad))}:(\d+):(\d+): ", done.stderr)
            self.assertIn(("6", "9"), places)
            self.assertGreaterEqual(len(places), 2)
            answer = json.loads(self.run_cli("rules", "check", bad, "-o", "json", check=1).stdout)
            self.assertFalse(answer["valid"])
            self.assertEqual(len(answer["errors"]), len(places))

    def test_shipped_rules_are_good(self):
        rules = sorted((ROOT / "rules").glob("*.yaml"))
        self.assertTrue(rules)
        self.run_cli("rules", "check", *rules, check=0)


class DamagedCaptures(unittest.TestCase):

    def test_damage_is_a_finding_and_what_came_before_is_stored(self):
        with tempfile.TemporaryDirectory() as directory:
            whole = FAULTY.read_bytes()
            cut = pathlib.Path(directory, "cut.fscap")
            cut.write_bytes(whole[:len(whole) // 2])
            noise = pathlib.Path(directory, "noise.fscap")
            noise.write_bytes(b"these are no messages\n" * 10)
            with Daemon(FORESHOCKD, directory) as daemon:
                done = cli(FORESHOCK, "replay", cut, server=daemon.grpc, check=1)
                self.assertIn("cut.fscap", done.stderr)
                done = cli(FORESHOCK, "replay", noise, server=daemon.grpc, check=1)
                self.assertIn("noise.fscap", done.stderr)
                done = cli(FORESHOCK, "replay", "nonesuch.fscap", server=daemon.grpc, check=1)
                self.assertIn("nonesuch.fscap", done.stderr)
                twice = pathlib.Path(directory, "twice.jsonl")
                twice.write_text(
                    '{"message":{"hello":{"run":"x","launchId":"l","clientInstance":"c",'
                    '"worldSize":1}}}\n' + '{"message":{"report":{"seq":"1","step":"4"}}}\n' * 2)
                done = cli(FORESHOCK, "replay", twice, server=daemon.grpc, check=1)
                self.assertIn("report.seq: found 1", done.stderr)
                self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    FORESHOCKD, FORESHOCK = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
