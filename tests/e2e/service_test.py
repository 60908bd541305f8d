#!/usr/bin/env python3
"""foreshockd as the unit of deploy/systemd starts it, with the test in the place of systemd.

    tests/e2e/service_test.py FORESHOCKD
"""

import collections
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy/systemd/foreshockd.service"
CONFIG = ROOT / "deploy/foreshock.yaml"
FORESHOCKD = ""


def unit():
    """{section: {key: [value, ...]}}; a key may be there more than once."""
    sections = {}
    for line in UNIT.read_text().splitlines():
        if re.match(r"\[\w+\]$", line):
            section = sections.setdefault(line[1:-1], collections.defaultdict(list))
        elif line and not line.startswith("#"):
            key, value = line.split("=", 1)
            section[key].append(value)
    return sections


def seconds(value):
    number, suffix = re.fullmatch(r"(\d+)(min|s|)", value).groups()
    return int(number) * (60 if suffix == "min" else 1)


class Notified(unittest.TestCase):
    """READY, WATCHDOG, RELOADING, STOPPING and STATUS, as sd_notify(3) has them."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_service_")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.config = self.directory / "foreshock.yaml"
        self.write_config(CONFIG.read_text())
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)
        self.socket.bind(str(self.directory / "notify"))
        self.socket.settimeout(30)

    def write_config(self, text):
        text = re.sub(r"127\.0\.0\.1:73\d\d", "127.0.0.1:0", text)
        rules = "".join(f"  - {ROOT}/rules/{name}\n" for name in ("default.yaml", "signatures.yaml"))
        self.config.write_text(text.replace("/var/lib/foreshock", str(self.directory / "data"))
                               + f"rules:\n{rules}")

    def start(self, **environment):
        """The unit's own ExecStart, with the paths of this test."""
        command = shlex.split(unit()["Service"]["ExecStart"][0])
        places = {"/usr/sbin/foreshockd": FORESHOCKD,
                  "/etc/foreshock/foreshock.yaml": str(self.config)}
        self.assertEqual(set(places) & set(command), set(places))
        log = open(self.directory / "log", "wb")
        self.addCleanup(log.close)
        process = subprocess.Popen(
            [places.get(word, word) for word in command], stdout=log, stderr=log,
            env={**os.environ, "NOTIFY_SOCKET": str(self.directory / "notify"), **environment})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def until(self, key):
        """Reads messages up to the first with `key`; that one, as a dictionary."""
        while True:
            message = dict(line.split("=", 1) for line in
                           self.socket.recv(4096).decode().splitlines())
            if key in message:
                return message

    def test_ready_comes_when_it_serves_and_says_how_it_is(self):
        process = self.start()
        message = self.until("READY")
        self.assertEqual(message["READY"], "1")
        self.assertEqual(message["STATUS"], "serving 0 runs, 0 streams, 0 alerts fire")
        http = re.search(r"http://(\S+)/metrics", (self.directory / "log").read_text()).group(1)
        host, port = http.rsplit(":", 1)
        socket.create_connection((host, int(port)), timeout=10).close()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.until("STOPPING")["STOPPING"], "1")
        self.assertEqual(process.wait(timeout=30), 0)

    def test_watchdog_is_answered_again_and_again(self):
        self.start(WATCHDOG_USEC="200000")
        self.until("READY")
        for _ in range(3):
            message = self.until("WATCHDOG")
            self.assertEqual(message["WATCHDOG"], "1")
            self.assertIn("serving", message["STATUS"])

    def test_reload_is_told_with_its_time_and_ends_in_ready(self):
        process = self.start()
        self.until("READY")
        process.send_signal(signal.SIGHUP)
        message = self.until("RELOADING")
        self.assertEqual(message["RELOADING"], "1")
        self.assertGreater(int(message["MONOTONIC_USEC"]), 0)
        self.assertNotIn("failed", self.until("READY")["STATUS"])
        self.config.write_text("no_such_key: 1\n")
        process.send_signal(signal.SIGHUP)
        self.until("RELOADING")
        self.assertIn("the last reload failed", self.until("READY")["STATUS"])

    def test_a_configuration_that_is_wrong_is_never_ready_and_not_tried_again(self):
        self.config.write_text("no_such_key: 1\n")
        code = self.start().wait(timeout=30)
        self.assertEqual([str(code)], unit()["Service"]["RestartPreventExitStatus"])
        self.socket.setblocking(False)
        self.assertRaises(BlockingIOError, self.socket.recv, 4096)


class Unit(unittest.TestCase):

    def test_times_and_places_agree_with_the_configuration(self):
        service = unit()["Service"]
        config = yaml.safe_load(CONFIG.read_text())
        self.assertGreater(seconds(service["TimeoutStopSec"][0]),
                           seconds(config["shutdown_deadline"]))
        self.assertEqual(config["data_directory"], f"/var/lib/{service['StateDirectory'][0]}")
        self.assertEqual(service["ExecReload"], ["/bin/kill -HUP $MAINPID"])
        self.assertEqual(service["Type"], ["notify"])

    def test_shipped_configuration_is_good_and_loopback_only(self):
        with tempfile.TemporaryDirectory() as directory:
            done = subprocess.run([FORESHOCKD, "--config", CONFIG, "--data-dir", directory,
                                   "--check-config"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = yaml.safe_load(done.stdout)
        for part in ("grpc", "http"):
            self.assertTrue(shown[part]["listen"].startswith("127.0.0.1:"), shown[part])

    def analyze(self, *arguments):
        tool = shutil.which("systemd-analyze")
        if tool is None:
            self.skipTest("systemd-analyze is not installed")
        with tempfile.TemporaryDirectory() as directory:
            copy = pathlib.Path(directory, UNIT.name)
            copy.write_text(UNIT.read_text().replace("/usr/sbin/foreshockd", FORESHOCKD))
            return subprocess.run([tool, *arguments, copy], capture_output=True, text=True,
                                  check=False)

    def test_systemd_finds_nothing_wrong(self):
        done = self.analyze("verify", "--man=no")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_exposure_is_low(self):
        """systemd's own score, 0 to 10 (here 1.5); above 2 its sandbox has been opened."""
        done = self.analyze("security", "--offline=yes", "--threshold=20")
        if "Unknown option" in done.stderr or "unrecognized option" in done.stderr:
            self.skipTest("this systemd-analyze cannot judge a file")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    FORESHOCKD = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
