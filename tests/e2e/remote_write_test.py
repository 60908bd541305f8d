#!/usr/bin/env python3
"""Remote write, through the built daemon: to Debian's Prometheus and VictoriaMetrics, and to a
receiver that answers badly.

    tests/e2e/remote_write_test.py FORESHOCKD FORESHOCK
"""

import pathlib
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

import snappy  # noqa: E402

from daemon_process import Daemon, cli, wait_until  # noqa: E402
from prometheus_process import Prometheus, VictoriaMetrics  # noqa: E402
from receiver import Receiver  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "tests/data/captures/f_attn_201.fscap"
FORESHOCKD, FORESHOCK = "", ""
SECONDS = 60


class RemoteWriteCase(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_remote_write_")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.config = self.directory / "foreshockd.yaml"

    def daemon(self, url, *more):
        self.config.write_text("metrics: {ended_runs_for: 3s}\nremote_write:\n"
                               f"  - {{url: '{url}', interval: 1s, timeout: 1s, "
                               f"external_labels: {{cluster: c1, instance: node-7}}{''.join(more)}}}\n")
        daemon = Daemon(FORESHOCKD, self.directory, extra=["--config", str(self.config)])
        self.addCleanup(daemon.__exit__)
        return daemon.start()

    def samples(self, daemon, result):
        name = f'foreshock_remote_write_samples_total{{remote="remote",result="{result}"}}'
        return daemon.metric(name) or 0

    def replay(self, daemon, run):
        cli(FORESHOCK, "replay", CAPTURE, "--run", run, server=daemon.grpc, check=0)


class ToRealReceivers(RemoteWriteCase):

    def check(self, receiver):
        """A run's values arrive as a scrape would name them, and go stale after its end."""
        def value(expression):
            found = receiver.query(expression)
            return float(found[0]["value"][1]) if found else None

        wait_until(lambda: receiver.query("vector(1)"), SECONDS, "the receiver answers")
        daemon = self.daemon(receiver.write_url)
        wait_until(lambda: value('foreshock_ready{job="foreshock",instance="node-7",cluster="c1"}')
                   == 1, SECONDS, "the daemon's own state is there")
        self.replay(daemon, "pushed")
        shown = 'foreshock_last_step{run="pushed",cluster="c1"}'
        wait_until(lambda: value(f"last_over_time({shown}[5m])") == 1499, SECONDS,
                   "the run is there with its last step")
        # The last value would be shown for minutes; a stale marker ends the series at once.
        wait_until(lambda: value(shown) is None, 20, "the run's series ended")
        buckets = receiver.query("foreshock_commit_duration_seconds_bucket")
        self.assertIn("+Inf", {series["metric"]["le"] for series in buckets})
        self.assertEqual(self.samples(daemon, "refused"), 0)
        self.assertEqual(self.samples(daemon, "dropped"), 0)
        self.assertGreater(self.samples(daemon, "sent"), 100)
        self.assertEqual(daemon.stop(), 0)
        wait_until(lambda: value("foreshock_ready") is None, 20,
                   "a daemon that has stopped shows nothing any more")

    def test_prometheus(self):
        with Prometheus() as receiver:
            self.check(receiver)

    def test_victoria_metrics(self):
        with VictoriaMetrics() as receiver:
            self.check(receiver)


class ToBadReceivers(RemoteWriteCase):

    def test_what_is_not_taken_arrives_later_and_once(self):
        script = [500, (429, {"Retry-After": "1"}), "close", "hang"]
        with Receiver(script, parse=snappy.uncompress) as receiver:
            daemon = self.daemon(receiver.url + "/write", ", headers: {X-Scope-OrgID: team-a}")
            wait_until(lambda: len(receiver.taken) >= 4, SECONDS, "the receiver has taken some")
            self.assertEqual(daemon.metric('foreshock_remote_write_retries_total{remote="remote"}'),
                             len(script))
            first = receiver.taken[0]
            self.assertEqual(first.path, "/write")
            self.assertEqual(first.headers["Content-Encoding"], "snappy")
            self.assertEqual(first.headers["Content-Type"], "application/x-protobuf")
            self.assertEqual(first.headers["X-Prometheus-Remote-Write-Version"], "0.1.0")
            self.assertEqual(first.headers["X-Scope-OrgID"], "team-a")
            self.assertIn(b"foreshock_ready", first.parsed)
            bodies = [taken.body for taken in receiver.taken]
            self.assertEqual(len(set(bodies)), len(bodies), "a request was taken twice")
            self.assertEqual(daemon.stop(), 0)

    def test_what_is_refused_is_dropped_and_counted(self):
        with Receiver([400, 403], parse=snappy.uncompress) as receiver:
            daemon = self.daemon(receiver.url)
            wait_until(lambda: len(receiver.taken) >= 2, SECONDS, "the receiver has taken some")
            self.assertGreater(self.samples(daemon, "refused"), 0)
            self.assertEqual(daemon.metric('foreshock_remote_write_retries_total{remote="remote"}'),
                             0)

    def test_a_receiver_that_is_away_costs_bounded_memory_and_holds_up_no_stop(self):
        with Receiver(["hang"] * 1000, parse=snappy.uncompress) as receiver:
            daemon = self.daemon(receiver.url, ", queue_bytes_max: 64KiB")
            self.replay(daemon, "away")
            wait_until(lambda: self.samples(daemon, "dropped") > 0, SECONDS, "the queue is full")
            self.assertLessEqual(
                daemon.metric('foreshock_remote_write_queue_bytes{remote="remote"}'), 64 << 10)
            self.assertEqual(daemon.get("/-/ready")[0], 200)
            self.assertEqual(daemon.stop(), 0)
            self.assertRegex(daemon.log_text(), r"is lost with this process remote=remote "
                                                r"samples=[1-9]")

    def test_a_reload_leaves_it_to_a_restart_and_says_so(self):
        with Receiver([], parse=snappy.uncompress) as receiver, \
                Receiver([], parse=snappy.uncompress) as other:
            daemon = self.daemon(receiver.url)
            self.config.write_text(self.config.read_text().replace(receiver.url, other.url)
                                   + "grpc: {streams_max: 9}\nlog_level: debug\n")
            daemon.signal(signal.SIGHUP)
            wait_until(lambda: "reloaded" in daemon.log_text(), SECONDS, "the daemon reloads")
            self.assertRegex(daemon.log_text(), r'need a restart.* keys="grpc.streams_max, '
                                                r'remote_write"')
            before = len(receiver.taken)
            wait_until(lambda: len(receiver.taken) > before, SECONDS, "the receiver goes on")
            self.assertEqual(daemon.stop(), 0)
            self.assertEqual(other.taken, [])
            self.assertNotIn("is lost", daemon.log_text())

    def test_secrets_are_sent_and_never_shown(self):
        password = self.directory / "password"
        password.write_text("hunter2-and-more\n")
        with Receiver([(400, {}, "bad hunter2-and-more")], parse=snappy.uncompress) as receiver:
            daemon = self.daemon(receiver.url, f", username: u, password_file: '{password}'")
            wait_until(lambda: receiver.taken, SECONDS, "the receiver has taken some")
            self.assertEqual(receiver.taken[0].headers["Authorization"],
                             "Basic dTpodW50ZXIyLWFuZC1tb3Jl")
            self.assertIn("refuses samples", daemon.log_text())
            self.assertNotIn("hunter2", daemon.log_text() + daemon.get("/metrics")[1])
            self.assertNotIn("dTpodW50", daemon.log_text() + daemon.get("/metrics")[1])


if __name__ == "__main__":
    FORESHOCKD, FORESHOCK = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
