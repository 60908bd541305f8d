"""A foreshockd of a test's own: free ports, a temporary directory, an end that is waited for.

    with Daemon(binary, directory, rules=[path]) as daemon:
        cli(foreshock, "status", server=daemon.grpc)
"""

import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

READY_SECONDS = 30.0


def free_address():
    """On loopback, below the ports that Linux gives away by itself (32768 and up): whoever stops
    listening there finds it free when it comes back."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return f"127.0.0.1:{port}"


class Daemon:
    """foreshockd as a child process; its log is collected in `<directory>/foreshockd.log`.

    Leaving it kills the process, and raises AssertionError where a sanitizer reported something.
    """

    def __init__(self, binary, directory, rules=(), data="data", extra=()):
        self.binary = str(binary)
        self.directory = pathlib.Path(directory)
        self.data = self.directory / data
        self.rules = [str(rule) for rule in rules]
        self.extra = list(extra)
        self.log = self.directory / "foreshockd.log"
        self.address_file = self.directory / "address"
        self.listen_grpc = ""  # empty: free ones; set to a former `grpc` to come back where it was
        self.listen_http = ""  # and this to a former `http`
        self.process = None
        self.grpc = ""
        self.http = ""

    def command(self):
        arguments = [self.binary, "--data-dir", str(self.data),
                     "--listen-grpc", self.listen_grpc or free_address(),
                     "--listen-http", self.listen_http or free_address(),
                     "--address-file", str(self.address_file)]
        for rule in self.rules:
            arguments += ["--rules", rule]
        return arguments + self.extra

    def start(self):
        """Starts it and waits until it has written where it listens."""
        self.address_file.unlink(missing_ok=True)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)
        wait_until(lambda: self.address_file.exists() or self.process.poll() is not None,
                   READY_SECONDS, "foreshockd writes its address file")
        if self.process.poll() is not None:
            raise AssertionError(f"foreshockd ended with {self.process.returncode}:\n"
                                 f"{self.log_text()[-2000:]}")
        addresses = dict(re.findall(r"^(grpc|http)=(.*)$", self.address_file.read_text(), re.M))
        self.grpc = addresses["grpc"]
        self.http = addresses["http"]
        return self

    def kill(self):
        """kill -9, as a machine that dies would."""
        self.process.kill()
        self.process.wait()

    def stop(self, seconds=30.0):
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=seconds)

    def signal(self, number):
        self.process.send_signal(number)

    def get(self, path, seconds=10.0):
        """(status, body) of a GET."""
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=seconds) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name):
        """The value of a metric without labels, or None."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.get("/metrics")[1], re.M)
        return float(found.group(1)) if found else None

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        # ThreadSanitizer goes on after a report, and a killed process has no exit code to show it.
        log = self.log_text()
        report = re.search(r"^.*([A-Z]+: \w+Sanitizer: |: runtime error: )", log, re.M)
        if report:
            raise AssertionError(f"foreshockd: {log[report.start():][:8000]}")


def wait_until(condition, seconds, what):
    """Waits for `condition`; its value, or an AssertionError that says what was waited for."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def cli(binary, *arguments, server=None, http=None, check=None, seconds=120.0):
    """Runs `foreshock`; the completed process with text output. `check`: the exit code expected."""
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("FORESHOCK_")}
    environment["NO_COLOR"] = "1"
    if server:
        environment["FORESHOCK_SERVER"] = server
    if http:
        environment["FORESHOCK_HTTP"] = http
    done = subprocess.run([str(binary), *map(str, arguments)], env=environment, check=False,
                          capture_output=True, text=True, timeout=seconds)
    if check is not None and done.returncode != check:
        raise AssertionError(f"foreshock {' '.join(map(str, arguments))}: exit {done.returncode}, "
                             f"expected {check}\nstdout: {done.stdout}\nstderr: {done.stderr}")
    return done
