#!/usr/bin/env python3
"""What foreshock shows on a terminal: top, plots, and names that would do more than be read."""

import json
import pathlib
import re
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

from daemon_process import Daemon, cli, wait_until  # noqa: E402
from pty_program import PtyProgram  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAULTY = ROOT / "tests/data/captures/f_attn_201.fscap"
HEALTHY = ROOT / "tests/data/captures/h_const_101.fscap"
FORESHOCKD, FORESHOCK = "", ""
INDICATOR = "attn.delta2.entropy_ratio_l1"
# All that ingest lets through: it refuses control characters in names, not in an event's detail.
HOSTILE = "evil\u202e\u2066\u200b" + "x" * 200 + "日本"
SHOWN = "evil\\u202e\\u2066\\u200bxxx"
FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
RULES = """\
groups:
  - name: g
    rules:
      - alert: LossAboveOne
        indicator: train.loss
        threshold: {above: 1}
        warm_up: judge
        labels: {severity: warning}
        annotations: {summary: "loss of {{ run }} \\u202e\\u009b2J"}
"""


def hostile_capture(path):
    lines = [{"message": {"hello": {
        "run": HOSTILE, "launchId": HOSTILE, "clientInstance": "c", "worldSize": 1,
        "labels": {HOSTILE[:20]: HOSTILE}}}}]
    for step in range(1, 6):
        summaries = [
            {"scalars": {"declare": [{"id": 1, "name": "loss", "unit": "nats",
                                      "reduction": "REDUCTION_MEAN", "scope": "SCOPE_GLOBAL"}],
                         "ids": [1], "values": [5.0 - step / 10]}},
            {"tensorStats": {"declare": [{"id": 1, "name": "act/" + HOSTILE}],
                             "stats": [{"id": 1, "count": "8", "min": -1, "max": 2, "rms": 1}]}},
            {"event": {"kind": "EVENT_KIND_NOTE", "step": str(step), "name": HOSTILE,
                       "detail": HOSTILE + "\nsecond\tline"}}]
        lines.append({"message": {"report": {"seq": str(step), "step": str(step),
                                             "lastOfStep": True, "summaries": summaries}}})
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n")
    return path


class Terminal(unittest.TestCase):
    """One daemon with a faulty and a healthy run."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="foreshock_terminal_")
        cls.addClassCleanup(cls.directory.cleanup)
        cls.daemon = Daemon(FORESHOCKD, cls.directory.name,
                            rules=sorted((ROOT / "rules").glob("*.yaml")))
        cls.enterClassContext(cls.daemon)
        cls.run_cli("replay", HEALTHY, "--run", "calm", check=0)
        cls.run_cli("replay", FAULTY, "--run", "demo", check=0)

    @classmethod
    def run_cli(cls, *arguments, check=None):
        return cli(FORESHOCK, *arguments, server=cls.daemon.grpc, http=cls.daemon.http, check=check)

    def program(self, *arguments, server=None, **options):
        environment = {"FORESHOCK_SERVER": server or self.daemon.grpc,
                       "FORESHOCK_HTTP": self.daemon.http, **options.pop("environment", {})}
        program = PtyProgram([FORESHOCK, *arguments], environment=environment, **options)
        self.addCleanup(program.__exit__)
        return program

    def test_once_prints_a_whole_frame_as_plain_text(self):
        text = self.run_cli("top", "--once", check=0).stdout
        self.assertNotIn("\x1b", text)
        lines = text.splitlines()
        self.assertLessEqual(max(map(len, lines)), 100)
        self.assertRegex(lines[0], rf"^foreshockd \S+ at {re.escape(self.daemon.grpc)}  ready, up ")
        self.assertRegex(lines[1], r"^in - reports/s, 0 refused, 0 rejected; queue 0, 0 B; store ")
        self.assertRegex(lines[2], r"^notifiers: log: \d+ told, last ")
        self.assertEqual(lines[3:5], ["", "RUNS"])
        self.assertRegex(lines[5], r"^  RUN +STATE +ATT +STEP +STEP/S +FIRING +INFO +LOSS$")
        self.assertRegex(lines[6], r"^  demo +finished +1 +1499 +- +3 +\d+ +\d\.\d+ +[▁▂▃▄▅▆▇█]{20,}$")
        self.assertRegex(lines[7], r"^  calm +finished +1 +\d+ +- +0 +\d+ +\d\.\d+ +[▁▂▃▄▅▆▇█]{20,}$")
        self.assertRegex(lines[9], r"^ALERTS, \d+ FIRING$")
        self.assertRegex(lines[11],
                         r"^  critical firing +675 unknown_loss_level +whole run +demo$")
        self.assertRegex(lines[12],
                         r"^  critical firing +440 low_precision_attention +all layers +demo$")
        alerts = json.loads(self.run_cli("alerts", "-o", "json", check=0).stdout)["alerts"]
        self.assertEqual(len(lines) - 11, len(alerts))

    def test_once_of_a_run_shows_every_layer_and_indicator(self):
        text = self.run_cli("top", "demo", "--once", check=0).stdout
        self.assertRegex(text, r"(?m)^demo  finished, attempt 1, step 1499, - steps/s, 0 of \d+ ranks$")
        self.assertRegex(text, r"(?m)^  LAYER +QK ENTROPY +QK NORM +LOGIT MAX +ROUTER ENTROPY "
                               r"+LOAD ENTROPY$")
        points = json.loads(self.run_cli("query", "demo", INDICATOR, "--layer", 1, "--buckets", 16,
                                         "-o", "json", check=0).stdout)["results"]
        newest = sum(p["buckets"][-1]["last"] for p in points) / len(points)
        baseline = next(a for a in json.loads(
            self.run_cli("alerts", "--run", "demo", "--state", "firing", "-o", "json",
                         check=0).stdout)["alerts"]
            if a["indicator"] == INDICATOR and a["severity"] == "critical")["baseline"]
        change = round((newest / baseline - 1) * 100)
        self.assertRegex(text, rf"(?m)^      1 +{newest:.4f} +{change:+d}% ")
        self.run_cli("top", "nonesuch", "--once", check=1)

    def test_keys_go_into_a_run_an_alert_and_back(self):
        program = self.program("top", "--every", "0.2")
        program.wait_for("▸ demo")
        frame = program.wait_for(lambda text: "0.0 reports/s" in text or "in 0" in text)
        self.assertEqual(len(frame.splitlines()), 24)
        program.press("j")
        program.wait_for("▸ calm")
        program.press("up", "enter")
        program.wait_for("LOGIT MAX")
        program.wait_for(lambda text: re.search(r"(?m)^▸ +1 +0\.\d+ +-\d+%", text))
        program.press("G", "g", "down", "down", "down")
        program.press("esc")
        program.wait_for("▸ demo")
        program.press("j", "j", "j")
        program.wait_for(lambda text: re.search(r"▸ critical +\w+ +440", text))
        program.press("l")
        program.wait_for("CRITICAL  low_precision_attention")
        program.press("?")
        program.wait_for("page up, page down")
        program.press("h", "h")
        program.wait_for("▸ critical")
        program.press("q")
        self.assertEqual(program.wait(), 0)
        self.assertIn(b"\x1b[?1049l", program.raw)  # the terminal has its old screen again

    def test_it_follows_the_size_of_the_terminal(self):
        program = self.program("top", "--every", "0.2")
        program.wait_for("▸ demo")
        program.resize(40, 132)
        program.wait_for(lambda text: "q quit" in text.splitlines()[-1] and
                         len(text.splitlines()) == 40)
        program.resize(10, 40)
        program.wait_for(lambda text: "q quit" in text.splitlines()[-1] and "▸ demo" in text and
                         len(text.splitlines()) == 10)
        program.process.send_signal(signal.SIGTERM)
        self.assertEqual(program.wait(), 0)

    def test_colours_only_where_they_are_wanted(self):
        red = re.compile(rb"\x1b\[[0-9;]*31m|\x1b\[31m")
        program = self.program("top")
        program.wait_for(lambda text: "▸ demo" in text and "q quit" in text.splitlines()[-1])
        self.assertRegex(program.raw, red)
        program = self.program("top", environment={"NO_COLOR": "1"})
        program.wait_for("▸ demo")
        self.assertNotRegex(program.raw, red)
        program = self.program("top", environment={"LC_ALL": "C"})
        program.wait_for("> demo")
        self.assertTrue(program.text().isascii(), program.text())

    def test_where_there_is_no_terminal_it_says_so(self):
        done = self.run_cli("top", check=2)
        self.assertIn("--once", done.stderr)
        program = self.program("top", environment={"TERM": "nonesuch"})
        self.assertEqual(program.wait(), 2)
        self.assertIn("TERM=nonesuch", program.text())

    def test_a_daemon_that_vanishes_is_said_and_found_again(self):
        with tempfile.TemporaryDirectory() as directory:
            daemon = Daemon(FORESHOCKD, directory)
            with daemon:
                cli(FORESHOCK, "replay", HEALTHY, "--run", "calm", server=daemon.grpc, check=0)
                program = self.program("top", "--every", "0.2", "--timeout", "2",
                                       server=daemon.grpc)
                program.wait_for("▸ calm")
                daemon.kill()
                text = program.wait_for(f"no answer from {daemon.grpc}")
                self.assertIn("▸ calm", text)
                daemon.listen_grpc = daemon.grpc
                daemon.start()
                program.wait_for(lambda text: "ready, up" in text and "no answer" not in text)
                daemon.signal(signal.SIGSTOP)
                program.wait_for("no answer")
                program.press("q")
                self.assertEqual(program.wait(), 0)
                daemon.signal(signal.SIGCONT)

    def test_a_plot_has_axes_attempts_and_alerts(self):
        text = self.run_cli("query", "demo", INDICATOR, "--layer", 1, "--plot", check=0).stdout
        self.assertRegex(text, rf"(?m)^{re.escape(INDICATOR)}  layer 1, head 0, steps \d+ to "
                               r"1499, least to greatest of each 8 steps$")
        self.assertEqual(len(re.findall(r"(?m)^ +└[─┬]+$", text)), text.count("layer 1, head"))
        self.assertRegex(text, r"(?m)^ +▲")
        self.assertRegex(text, r"(?m)^▲ critical firing  step 440  low_precision_attention")
        self.assertNotIn("\x1b", text)
        short = self.program("query", "demo", "train.loss", "--unit", "none", "--plot",
                             environment={"LC_ALL": "C"})
        self.assertEqual(short.wait(), 0)
        self.assertTrue(short.text().isascii())
        self.assertIn("*", short.text())
        for arguments in (["--buckets", 9], ["--limit", 9], ["-o", "json"], ["--list"]):
            done = self.run_cli("query", "demo", "train.loss", "--plot", *arguments, check=2)
            self.assertIn("--plot", done.stderr)
        self.run_cli("query", "demo", "train.nonesuch", "--plot", check=1)
        many = self.run_cli("query", "demo", "attn.*", "--plot", check=0).stdout
        self.assertIn("more series match", many)

    def test_status_and_doctor_say_who_is_told(self):
        self.assertRegex(self.run_cli("status", check=0).stdout,
                         r"(?m)^notifiers +log: \d+ told, last .*\nsilences +0 in force$")
        self.assertRegex(self.run_cli("doctor", check=0).stdout,
                         r"(?m)^✓ notifiers +log: \d+ told, last ")
        self.run_cli("alerts", "silence", "run=demo", "--for", "1h", "--by", "ada", check=0)
        self.assertRegex(self.run_cli("status", check=0).stdout, r"(?m)^silences +1 in force$")
        self.assertIn("1 in force", self.run_cli("doctor", check=0).stdout)
        self.assertIn("; 1 silence", self.run_cli("top", "--once", check=0).stdout)
        done = self.run_cli("status", "--http", "127.0.0.1:1", check=0)
        self.assertIn("not known: GET http://127.0.0.1:1/metrics", done.stdout)

    def test_runs_count_what_asks_for_a_person_apart(self):
        alerts = json.loads(self.run_cli("alerts", "--run", "demo", "--state", "firing", "-o",
                                         "json", check=0).stdout)["alerts"]
        infos = sum(alert["severity"] == "info" for alert in alerts)
        self.assertGreater(infos, 0)
        self.assertRegex(self.run_cli("runs", check=0).stdout,
                         rf"(?m)^demo .* {len(alerts) - infos} +{infos}$")

    def test_how_far_a_run_was_judged_is_said_everywhere(self):
        run = json.loads(self.run_cli("runs", "show", "demo", "-o", "json", check=0).stdout)["run"]
        judged = run["attempts"][-1]["judged"]
        self.assertGreater(judged["rules"], judged["rules_judging"])
        self.assertEqual((judged["from_step"], judged["rows"]), ("0", "1500"))
        told = f"{judged['rules_judging']} of {judged['rules']} rules, 1 500 rows from step 0"
        self.assertRegex(self.run_cli("runs", check=0).stdout,
                         rf"(?m)^demo .* {judged['rules_judging']}/{judged['rules']} ")
        self.assertIn(f"judged: {told}", self.run_cli("runs", "show", "demo", check=0).stdout)
        self.assertIn(told, self.run_cli("summary", "demo", check=0).stdout)
        summary = json.loads(self.run_cli("summary", "demo", "-o", "json", check=0).stdout)
        self.assertEqual(summary["judged"], judged)
        why = {rule["rule"]: rule["why_not"] for rule in summary["not_judged"]}
        self.assertIn("no value of train.reward_mean has come", why.values())

    def test_explain_says_what_a_rule_compared_and_what_it_lacks(self):
        explain = ["rules", "explain", "delta2_entropy_low", "demo"]
        early = json.loads(self.run_cli(*explain, "--step", 410, "-o", "json", check=0).stdout)
        self.assertFalse(early["firing"])
        self.assertLessEqual(int(early["step"]), 410)
        for series in early["series"]:
            self.assertGreater(series["value"], series["limit"])  # it falls when it is ill
        late = json.loads(self.run_cli(*explain, "-o", "json", check=0).stdout)
        alert = next(a for a in json.loads(self.run_cli("alerts", "-o", "json", check=0).stdout)[
            "alerts"] if a["rule"] == "delta2_entropy_low" and a["run"] == "demo")
        self.assertEqual(late["firing"], alert["state"] == "ALERT_STATE_FIRING")
        text = self.run_cli(*explain, check=0).stdout
        self.assertRegex(text, r"(?m)^  looks at +attn\.delta2\.entropy_ratio_l1$")
        self.assertRegex(text, r"(?m)^  judged +\d+ rows from step \d+, of \d+ series$")
        self.assertIn("did you mean delta2_entropy_low?",
                      self.run_cli("rules", "explain", "delta2_entropy_lo", "demo", check=1).stderr)
        signature = json.loads(self.run_cli("rules", "explain", "low_precision_attention", "demo",
                                            "-o", "json", check=0).stdout)
        self.assertTrue(any(evidence["supports"] for evidence in signature["evidence"]))


class HostileNames(unittest.TestCase):

    def test_no_verb_prints_what_a_terminal_would_obey(self):
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory)
            rules = folder / "rules.yaml"
            rules.write_text(RULES)
            with Daemon(FORESHOCKD, directory, rules=[rules]) as daemon:
                def run(*arguments, check=0):
                    return cli(FORESHOCK, *arguments, server=daemon.grpc, http=daemon.http,
                               check=check)

                run("replay", hostile_capture(folder / "evil.jsonl"))
                wait_until(lambda: '"firing_step"' in daemon.get("/api/v1/alerts")[1], 30,
                           "the rule fires")
                alert = json.loads(run("alerts", "-o", "json").stdout)["alerts"][0]["id"]
                verbs = [["runs"], ["runs", "show", HOSTILE], ["alerts"], ["alerts", "--brief"],
                         ["events", HOSTILE], ["summary", HOSTILE], ["query", HOSTILE, "--list"],
                         ["query", HOSTILE, "*"], ["query", HOSTILE, "*", "--plot"],
                         ["top", "--once"], ["top", HOSTILE, "--once"], ["store", "stats"],
                         ["alerts", "ack", alert, "--by", HOSTILE[:40], "--why", HOSTILE],
                         ["alerts", "silence", f"run={HOSTILE}", "--for", "1h", "--by", "a",
                          "--why", HOSTILE], ["alerts", "silences"], ["alerts"],
                         ["runs", "list", "--prefix", HOSTILE + "z"], ["runs", "pin", HOSTILE]]
                for verb in verbs:
                    with self.subTest(verb=verb[:2]):
                        done = run(*verb)
                        self.assertIsNone(FORBIDDEN.search(done.stdout + done.stderr), done.stdout)
                        if verb not in (["alerts", "silences"],):
                            self.assertIn("\\u202e", done.stdout)
                for verb in (["runs", "show", HOSTILE + "z"], ["query", HOSTILE, "train.nonesuch"],
                             ["top", HOSTILE + "z", "--once"], ["summary", HOSTILE + "z"]):
                    with self.subTest(verb=verb[:2]):
                        done = run(*verb, check=1)
                        self.assertIsNone(FORBIDDEN.search(done.stderr), done.stderr)
                        self.assertIn("evil\\u202e", done.stderr)
                # Exact for programs.
                self.assertEqual(json.loads(run("runs", "-o", "json").stdout)["runs"][0]["name"],
                                 HOSTILE)
                self.assertIn(HOSTILE, run("export", HOSTILE, "train.loss").stdout)
                # On a terminal the table is no wider than that.
                with PtyProgram([FORESHOCK, "runs"], columns=80,
                                environment={"FORESHOCK_SERVER": daemon.grpc}) as program:
                    self.assertEqual(program.wait(), 0)
                    lines = program.text().splitlines()
                    self.assertTrue(lines[1].startswith(SHOWN), program.text())
                    self.assertRegex(lines[1], r"… +silent +1 +5 ")
                    self.assertEqual([line for line in lines[2:] if line], [])


class Mistakes(unittest.TestCase):

    def test_a_wrong_command_line_names_the_command(self):
        for arguments, said in (
                (["query", "r", "i", "--buckets", 0], "foreshock query: --buckets: '0' is no whole"),
                (["runs", "show"], "foreshock runs show: RUN is required"),
                (["export", "r", "-w", "x.parquet"], "foreshock export: --write x.parquet: "),
                (["alerts", "silence", "a=b", "--for", "0"], "foreshock alerts silence: --for: ")):
            with self.subTest(arguments=arguments):
                done = cli(FORESHOCK, *arguments, server="127.0.0.1:1", check=2)
                self.assertTrue(done.stderr.startswith(said), done.stderr)
                self.assertIn("--help` says what is allowed", done.stderr)

    def test_help_shows_the_range_of_every_number(self):
        for verb, said in ((["query"], "--buckets N:1..10000000"), (["query"], "--limit N:0.."),
                           (["replay"], "STEPS:1..1000000"), (["top"], "SECONDS:0.2..3600"),
                           (["rules", "export"], "SECONDS:0.001..86400")):
            with self.subTest(verb=verb):
                self.assertIn(said, cli(FORESHOCK, *verb, "--help", check=0).stdout)

    def test_export_says_which_endings_it_knows(self):
        done = cli(FORESHOCK, "export", "r", "-w", "x.parquet", server="127.0.0.1:1", check=2)
        self.assertIn("known are .csv and .jsonl", done.stderr)
        self.assertFalse(pathlib.Path("x.parquet").exists())

    def test_a_replay_of_which_nothing_was_taken_is_no_success(self):
        with tempfile.TemporaryDirectory() as directory:
            bad = pathlib.Path(directory, "bad.jsonl")
            reports = "".join(
                '{"message":{"report":{"seq":"%d","step":"%d","phase":9}}}\n' % (seq, seq)
                for seq in range(1, 4))
            bad.write_text('{"message":{"hello":{"run":"x","launchId":"l","clientInstance":"c",'
                           '"worldSize":1}}}\n' + reports)
            with Daemon(FORESHOCKD, directory) as daemon:
                done = cli(FORESHOCK, "replay", bad, server=daemon.grpc, check=1)
                self.assertIn("✗ x: none taken of 3 reports", done.stdout)
                self.assertIn("rejected 3 reports and 0 single summaries", done.stdout)
                self.assertNotIn("✓", done.stdout)


if __name__ == "__main__":
    FORESHOCKD, FORESHOCK = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
