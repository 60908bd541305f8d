#!/usr/bin/env python3
"""How foreshockd starts, reloads, refuses and stops."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

import grpc  # noqa: E402

import contract  # noqa: E402
from daemon_process import Daemon, cli, wait_until  # noqa: E402
from push_once import push  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "tests/data/captures/h_const_101.fscap"
FORESHOCKD, FORESHOCK = "", ""
V1 = contract.load()
RULES = """\
groups:
  - name: g
    rules:
      - alert: {name}
        indicator: train.loss
        threshold: {{above: 1000}}
        labels: {{severity: warning}}
"""
ANCHORED = """\
groups:
  - name: g
    rules:
      - alert: high
        indicator: train.loss
        warm_up: judge
        relative_rise: {above: 1.5}
        baseline: {kind: anchored, samples: 6}
        labels: {severity: warning}
"""
LEVEL = """\
groups:
  - name: g
    rules:
      - alert: high
        indicator: train.loss
        scope: run
        level: {rise: 0.1}
        labels: {severity: warning}
"""
RELOADED = "foreshock_config_last_reload_successful"


class Lifecycle(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_e2e_")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.rules = self.directory / "rules.yaml"
        self.rules.write_text(RULES.format(name="First"))

    def daemon(self, **options):
        daemon = Daemon(FORESHOCKD, self.directory, rules=[self.rules], **options)
        self.addCleanup(daemon.__exit__)
        return daemon

    def run_daemon(self, *arguments, seconds=30):
        return subprocess.run([FORESHOCKD, *map(str, arguments)], capture_output=True, text=True,
                              timeout=seconds, check=False)

    def committed(self, daemon):
        return int(json.loads(daemon.get("/api/v1/status")[1])["reports_committed"])

    def rule_names(self, daemon):
        return daemon.get("/api/v1/rules")[1]

    def test_starts_on_free_ports_and_says_which(self):
        daemon = self.daemon().start()
        self.assertNotIn(":0", f"{daemon.grpc} {daemon.http}".replace(":0.", ""))
        self.assertEqual(daemon.get("/-/healthy")[0], 200)
        self.assertEqual(daemon.get("/-/ready")[0], 200)
        self.assertIn(daemon.grpc, daemon.log_text())
        self.assertEqual(daemon.stop(), 0)

    def test_sigterm_under_load_drains_and_keeps_what_was_acknowledged(self):
        daemon = self.daemon().start()
        replay = threading.Thread(target=lambda: cli(FORESHOCK, "replay", CAPTURE, "--run", "load",
                                                     server=daemon.grpc))
        replay.start()
        wait_until(lambda: self.committed(daemon) > 500, 60, "500 reports are committed")
        started = time.monotonic()
        self.assertEqual(daemon.stop(seconds=60), 0)
        self.assertLess(time.monotonic() - started, 15, "the deadline is 10 s")
        replay.join()
        daemon.start()
        done = cli(FORESHOCK, "replay", CAPTURE, "--run", "load", "-o", "json", server=daemon.grpc,
                   check=0)
        totals = json.loads(done.stdout)
        self.assertGreaterEqual(totals["skipped"], 500)
        self.assertEqual(totals["skipped"] + totals["reports"], 8 * 1500)
        points = cli(FORESHOCK, "query", "load", "train.loss", server=daemon.grpc, check=0).stdout
        self.assertIn("1500 points", points.replace("1 500", "1500"))

    def test_peers_that_do_not_let_go_do_not_spoil_the_stop(self):
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
        for port, sent in (("grpc", b""), ("grpc", preface), ("http", b"GET / HT")):
            with self.subTest(port=port, sent=sent):
                daemon = self.daemon().start()
                address = getattr(daemon, port)
                host, number = address.rsplit(":", 1)
                with socket.create_connection((host, int(number))) as peer:
                    peer.sendall(sent)
                    # Answered on a later connection: the peer's has been accepted by then.
                    self.committed(daemon)
                    cli(FORESHOCK, "status", server=daemon.grpc, check=0)
                    self.assertEqual(daemon.stop(), 0, daemon.log_text())

    def test_a_killed_daemon_shows_its_rules_only_what_they_do_not_remember(self):
        self.rules.write_text(ANCHORED)
        daemon = self.daemon().start()
        values = {step: 1.0 if step < 20 else 1.3 for step in range(5000)}
        with grpc.insecure_channel(daemon.grpc) as channel:
            push(V1.ingest_grpc.IngestServiceStub(channel), "long", ["loss"], 5000,
                 lambda _, step: values[step])
        daemon.kill()
        daemon.start()
        shown = re.search(r"rules go on from what they remembered of a run run=long steps_shown=(\d+)",
                          daemon.log_text())
        self.assertLess(int(shown.group(1)), 2049)
        self.assertEqual(json.loads(daemon.get("/api/v1/alerts?run=long")[1])["alerts"], [])
        # 1.6 is far from the first steps, which were not shown, and not from the newest.
        with grpc.insecure_channel(daemon.grpc) as channel:
            push(V1.ingest_grpc.IngestServiceStub(channel), "long", ["loss"], 5010,
                 lambda _, step: 1.6, first=5000)
        alerts = json.loads(daemon.get("/api/v1/alerts?run=long")[1])["alerts"]
        self.assertEqual([(a["rule"], a["baseline"]) for a in alerts], [("high", 1.0)])
        self.rules.write_text(ANCHORED.replace("1.5", "1.55"))  # another rule remembers nothing
        daemon.kill()
        daemon.start()
        self.assertRegex(daemon.log_text(), r"shown a run from its first stored step run=long "
                                            r"steps_shown=5010")

    def test_a_kill_between_a_reload_and_the_next_step_shows_a_changed_rule_no_step_before(self):
        other = ANCHORED[ANCHORED.index("      - alert"):].replace("high", "other")
        self.rules.write_text(ANCHORED + other)
        daemon = self.daemon().start()
        channel = self.enterContext(grpc.insecure_channel(daemon.grpc))
        ingest = V1.ingest_grpc.IngestServiceStub(channel)
        push(ingest, "run", ["loss"], 50, lambda _, step: 1.0 if step < 10 else 1.3)
        self.rules.write_text(ANCHORED.replace("1.5", "1.45") + other)
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: "reloaded" in daemon.log_text(), 20, "the changed rule is in force")
        daemon.kill()
        daemon.start()
        # 1.6 is far from the first steps alone, which the unchanged rule has seen.
        channel = self.enterContext(grpc.insecure_channel(daemon.grpc))
        push(V1.ingest_grpc.IngestServiceStub(channel), "run", ["loss"], 70,
             lambda _, step: 1.3 if step < 60 else 1.6, first=50)
        alerts = json.loads(daemon.get("/api/v1/alerts?run=run")[1])["alerts"]
        self.assertEqual([(a["rule"], a["baseline"]) for a in alerts], [("other", 1.0)])

    def test_an_accepted_level_is_the_new_normal_over_a_kill_as_well(self):
        self.rules.write_text(LEVEL)
        daemon = self.daemon().start()
        stub = V1.ingest_grpc.IngestServiceStub(
            self.enterContext(grpc.insecure_channel(daemon.grpc)))
        push(stub, "run", ["loss"], 60,
             lambda _, step: (1.0 if step < 50 else 1.5) + 0.01 * (step % 3))
        alert = json.loads(daemon.get("/api/v1/alerts?run=run&state=firing")[1])["alerts"][0]
        said = cli(FORESHOCK, "alerts", "accept", alert["id"][:6], "--by", "ada",
                   "--why", "harder data", server=daemon.grpc)
        self.assertIn("What high of run run shows since step", said.stdout)
        daemon.kill()
        daemon.start()
        stub = V1.ingest_grpc.IngestServiceStub(
            self.enterContext(grpc.insecure_channel(daemon.grpc)))
        push(stub, "run", ["loss"], 100, lambda _, step: 1.5 + 0.01 * (step % 3), first=60)
        alerts = json.loads(daemon.get("/api/v1/alerts?run=run")[1])["alerts"]
        self.assertEqual([(a["id"], a["state"], a["resolved_step"]) for a in alerts],
                         [(alert["id"], "ALERT_STATE_RESOLVED", "60")])
        events = cli(FORESHOCK, "events", "run", server=daemon.grpc).stdout
        self.assertRegex(events, r"level_accepted +high +by ada: harder data")
        # It is judged against the new level.
        push(stub, "run", ["loss"], 110, lambda _, step: 2.0 + 0.01 * (step % 3), first=100)
        alerts = json.loads(daemon.get("/api/v1/alerts?run=run&state=firing")[1])["alerts"]
        self.assertEqual([a["rule"] for a in alerts], ["high"])
        over = cli(FORESHOCK, "alerts", "accept", alert["id"], "--by", "ada", server=daemon.grpc,
                   check=1)
        self.assertIn("is over", over.stderr)

    def test_check_warns_of_scalars_that_neither_the_usual_names_nor_a_run_has(self):
        daemon = self.daemon().start()
        with grpc.insecure_channel(daemon.grpc) as channel:
            push(V1.ingest_grpc.IngestServiceStub(channel), "run", ["own"], 5, lambda _, step: 1.0)
        rules = self.directory / "mine.yaml"
        rules.write_text(RULES.format(name="Typo").replace("train.loss", "train.los") +
                         RULES[RULES.index("      - alert"):].format(name="Own").replace(
                             "train.loss", "train.own"))
        check = ["rules", "check", rules, "-o", "json"]

        def warned(*more):
            answer = json.loads(cli(FORESHOCK, *check, *more, check=0).stdout)
            return [re.search("the rule (.*) looks", text).group(1) for text in answer["warnings"]]

        self.assertEqual(warned(), ["Typo", "Own"])
        self.assertEqual(warned("--data", daemon.data), ["Typo"])

    def test_sighup_with_good_rules_takes_them(self):
        daemon = self.daemon().start()
        self.assertIn("First", self.rule_names(daemon))
        self.rules.write_text(RULES.format(name="Second"))
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: "Second" in self.rule_names(daemon), 20, "the new rules are in force")
        self.assertEqual(daemon.metric(RELOADED), 1)

    def test_sighup_with_bad_rules_keeps_the_old_ones_and_says_so(self):
        daemon = self.daemon().start()
        self.rules.write_text("groups: [{name: g, rules: [{alert: Bad, nonsense: 1}]}]\n")
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: daemon.metric(RELOADED) == 0, 20, "the metric shows the failed reload")
        self.assertIn("First", self.rule_names(daemon))
        self.assertEqual(daemon.get("/-/ready")[0], 200)
        self.rules.write_text(RULES.format(name="Third"))
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: daemon.metric(RELOADED) == 1, 20, "the metric shows the good reload")
        self.assertIn("Third", self.rule_names(daemon))

    def test_second_daemon_on_the_same_data_refuses(self):
        daemon = self.daemon().start()
        done = self.run_daemon("--data-dir", daemon.data, "--listen-grpc", "127.0.0.1:0",
                               "--listen-http", "127.0.0.1:0")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(str(daemon.data), done.stderr)
        self.assertEqual(daemon.get("/-/ready")[0], 200)

    def test_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            for flag, other in (("--listen-grpc", "--listen-http"),
                                ("--listen-http", "--listen-grpc")):
                with self.subTest(flag=flag):
                    done = self.run_daemon("--data-dir", self.directory / "data", flag, address,
                                           other, "127.0.0.1:0", "--rules", self.rules)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn(f"cannot listen on {address}: Address already in use (another "
                                  "process, perhaps another foreshockd, listens there)",
                                  done.stderr)
                    self.assertNotIn("stopped", done.stderr)

    def test_foreign_or_unwritable_data_directory_is_refused_and_left_alone(self):
        foreign = self.directory / "foreign"
        foreign.mkdir()
        (foreign / "thesis.tex").write_text("dear")
        done = self.run_daemon("--data-dir", foreign, "--listen-grpc", "127.0.0.1:0",
                               "--listen-http", "127.0.0.1:0", "--rules", self.rules)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(str(foreign), done.stderr)
        self.assertEqual(os.listdir(foreign), ["thesis.tex"])
        done = self.run_daemon("--data-dir", self.directory / "no/such/parent", "--rules",
                               self.rules)
        self.assertIn(done.returncode, (1, 2))
        self.assertIn("no/such/parent", done.stderr)

    def test_bad_usage_and_bad_configuration_exit_2(self):
        config = self.directory / "foreshockd.yaml"
        config.write_text("data_directory: /tmp/x\nnonsense: 1\n")
        for arguments in (["--frobnicate"], [], ["--config", config, "--check-config"],
                          ["--config", self.directory / "none.yaml", "--check-config"]):
            with self.subTest(arguments=arguments):
                done = self.run_daemon(*arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
        done = self.run_daemon("--config", config, "--check-config")
        self.assertIn(f"{config}:2:1: ", done.stderr)

    def test_check_config_prints_what_is_in_force(self):
        done = self.run_daemon("--data-dir", self.directory / "data", "--rules", self.rules,
                               "--check-config")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("data_directory", done.stdout)
        self.assertFalse((self.directory / "data").exists())
        self.assertEqual(done.stderr, "")

    def test_takes_several_rule_files_in_both_ways(self):
        pack = [ROOT / "rules/default.yaml", ROOT / "rules/signatures.yaml"]
        for rules in (["--rules", *pack], ["--rules", pack[0], "--rules", pack[1]]):
            with self.subTest(rules=rules):
                done = self.run_daemon("--data-dir", self.directory / "data", *rules,
                                       "--check-config")
                self.assertEqual(done.returncode, 0, done.stderr)
                for path in pack:
                    self.assertIn(str(path), done.stdout)

    def test_check_config_refuses_addresses_that_cannot_be_read(self):
        for flag in ("--listen-grpc", "--listen-http"):
            for address in ("x", "127.0.0.1:99999"):
                with self.subTest(flag=flag, address=address):
                    done = self.run_daemon("--data-dir", self.directory / "data", "--rules",
                                           self.rules, flag, address, "--check-config")
                    self.assertEqual(done.returncode, 2, done.stdout)
                    self.assertIn(f"'{address}'", done.stderr)

    def test_check_config_warns_when_there_are_no_rules(self):
        empty = self.directory / "empty.yaml"
        empty.write_text("groups: []\n")
        done = self.run_daemon("--data-dir", self.directory / "data", "--rules", empty,
                               "--check-config")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("all good", done.stdout)
        self.assertIn("nothing will ever warn", done.stderr)


if __name__ == "__main__":
    FORESHOCKD, FORESHOCK = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
