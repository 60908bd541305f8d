#!/usr/bin/env python3
"""The two ways to tell people, the daemon's notifier and rules in Prometheus, through Debian's Prometheus
and Alertmanager: one identity, no page for a restart, a warning where both are in use; and what /metrics
shows after a restart.

    tests/e2e/planes_test.py FORESHOCKD FORESHOCK
"""

import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

from alertmanager_process import Alertmanager  # noqa: E402
from daemon_process import Daemon, cli, wait_until  # noqa: E402
from prometheus_process import Prometheus  # noqa: E402
from receiver import Receiver  # noqa: E402
from trainer import Trainer  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORESHOCKD, FORESHOCK = "", ""
SECONDS = 60
RULES = """\
groups:
  - name: g
    rules:
      - alert: LossHigh
        indicator: train.loss
        threshold: {above: 10}
        warm_up: judge
        labels: {severity: critical, fault: exploded, team: llm}
      - alert: LossOdd
        indicator: train.loss
        threshold: {above: 5}
        warm_up: judge
        labels: {severity: info}
"""


class PlanesCase(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_planes_")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.rules = self.directory / "rules.yaml"
        self.rules.write_text(RULES)
        self.config = self.directory / "foreshockd.yaml"
        self.pages = Receiver()
        self.addCleanup(self.pages.close)

    def alertmanager(self):
        alertmanager = Alertmanager(self.directory, self.pages).start()
        self.addCleanup(alertmanager.stop)
        return alertmanager

    def daemon(self, notifiers="[]", rules=None):
        self.config.write_text(f"notifiers: {notifiers}\n")
        daemon = Daemon(FORESHOCKD, self.directory, rules=rules or [self.rules],
                        extra=["--config", str(self.config)])
        self.addCleanup(daemon.__exit__)
        daemon.start()
        daemon.listen_grpc, daemon.listen_http = daemon.grpc, daemon.http  # over restarts
        return daemon

    def prometheus(self, daemon, alertmanager):
        exported = self.directory / "alerts.yaml"
        done = subprocess.run([FORESHOCK, "rules", "export", self.rules, "-w", exported,
                               "--keep-firing-seconds", "30"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.enterContext(Prometheus(daemon.http, [exported], alertmanager.address))

    def told(self):
        return [taken.parsed["status"] for taken in self.pages.taken]


class Planes(PlanesCase):

    def test_both_ways_give_an_alert_the_same_labels_and_both_at_once_is_warned_of(self):
        alertmanager = self.alertmanager()
        daemon = self.daemon()
        trainer = Trainer("exp-1")
        prometheus = self.prometheus(daemon, alertmanager)
        trainer.push(daemon, 1, 20, 20)
        by_prometheus = wait_until(alertmanager.alerts, SECONDS, "Prometheus tells")
        self.assertEqual([alert["labels"] for alert in by_prometheus], [
            {"alertname": "LossHigh", "run": "exp-1", "severity": "critical", "fault": "exploded",
             "team": "llm", "evaluation": "daemon"}])
        # The daemon tells too: still one alert, one page, and a warning.
        self.config.write_text(
            f"notifiers: [{{type: alertmanager, urls: ['{alertmanager.url}'], resend: 1s}}]\n")
        daemon.signal(signal.SIGHUP)
        trouble = 'foreshock_notifications_trouble{notifier="alertmanager",trouble="told_twice"}'
        wait_until(lambda: daemon.metric(trouble) == 1, SECONDS, "the daemon sees it")
        self.assertEqual([alert["labels"] for alert in alertmanager.alerts()],
                         [alert["labels"] for alert in by_prometheus])
        self.assertEqual(self.told(), ["firing"])
        doctor = json.loads(cli(FORESHOCK, "doctor", "-o", "json", server=daemon.grpc,
                                http=daemon.http, check=0).stdout)
        self.assertTrue([check for check in doctor["checks"] if check["result"] == "warning" and
                         "exported rules" in check["detail"]], doctor)
        # Without Prometheus' rules the warning goes.
        prometheus.process.terminate()
        wait_until(lambda: not daemon.metric(trouble), SECONDS, "the warning goes")
        self.assertEqual(daemon.stop(), 0, daemon.log_text())

    def test_a_restart_of_the_daemon_is_no_news_in_prometheus(self):
        alertmanager = self.alertmanager()
        daemon = self.daemon()
        self.prometheus(daemon, alertmanager)
        Trainer("exp-1").push(daemon, 1, 20, 20)
        wait_until(self.told, SECONDS, "the page")
        daemon.kill()
        time.sleep(12)  # longer than Prometheus and Alertmanager wait for anything here
        daemon.start()
        wait_until(lambda: daemon.metric(
            'foreshock_alert_firing{run="exp-1",rule="LossHigh",severity="critical",'
            'fault="exploded"}') == 1, SECONDS, "it is shown again without another step")
        time.sleep(5)
        self.assertEqual(self.told(), ["firing"])
        self.assertEqual(daemon.stop(), 0, daemon.log_text())


if __name__ == "__main__":
    FORESHOCKD, FORESHOCK = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
