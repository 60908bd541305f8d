"""A real Prometheus of a test's own, on a free loopback port; or VictoriaMetrics in its place.

    with Prometheus(daemon.http) as prometheus:
        wait_until(lambda: prometheus.query("up"), 60, "Prometheus has scraped")
    with Prometheus() as receiver:
        ... receiver.write_url ...
"""

import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request


def free_address():
    with socket.socket() as free:  # they cannot be told to take port 0 and say which they got
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


class Prometheus:
    """Scrapes the given target as job `foreshock` and judges the rule files, every second.

    Without a target it takes what is pushed to `write_url`. With an address of Alertmanager it tells
    that one.
    """

    def __init__(self, target=None, rule_files=(), alertmanager=None):
        self.directory = tempfile.TemporaryDirectory(prefix="foreshock_prometheus_")
        config = pathlib.Path(self.directory.name, "prometheus.yml")
        config.write_text("global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
                          f"rule_files: {json.dumps([str(file) for file in rule_files])}\n"
                          "scrape_configs:\n"
                          "  - job_name: foreshock\n"
                          f"    static_configs: [{{targets: {[target] if target else []}}}]\n"
                          "alerting: {alertmanagers: [{static_configs: [{targets: "
                          f"{json.dumps([alertmanager] if alertmanager else [])}}}]}}]}}\n")
        self.address = free_address()
        self.write_url = f"http://{self.address}/api/v1/write"
        self.command = [shutil.which("prometheus") or "prometheus", f"--config.file={config}",
                        f"--storage.tsdb.path={self.directory.name}/tsdb",
                        f"--web.listen-address={self.address}", "--log.level=error",
                        "--rules.alert.resend-delay=1s"]
        if not target:
            self.command.append("--web.enable-remote-write-receiver")

    def get(self, path, **parameters):
        """`data` of the answer of /api/v1/PATH, or None while it is still starting."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return None
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error
        except OSError:
            return None

    def query(self, expression):
        """The series that the expression has now."""
        answer = self.get("query", query=expression)
        return answer and answer["result"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.directory.cleanup()


class VictoriaMetrics(Prometheus):
    """Takes what is pushed to `write_url`, and answers as Prometheus does."""

    def __init__(self):
        super().__init__()
        # Without the delays that a cluster's scrapes need.
        self.command = [shutil.which("victoria-metrics") or "victoria-metrics",
                        f"-storageDataPath={self.directory.name}/data",
                        f"-httpListenAddr={self.address}", "-loggerLevel=ERROR",
                        "-search.latencyOffset=0s", "-search.disableCache"]
