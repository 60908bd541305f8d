"""A real Alertmanager of a test's own, on a free loopback port.

    with Receiver() as hook:
        alertmanager = Alertmanager(directory, hook).start()
        ... alertmanager.url ...
        alertmanager.stop()
"""

import json
import shutil
import subprocess
import urllib.request

from daemon_process import free_address, wait_until

SECONDS = 30


class Alertmanager:
    """Debian's, with a webhook behind it that is told of each group of `group_by`."""

    def __init__(self, directory, hook, group_by="run"):
        self.address = free_address()
        self.url = f"http://{self.address}"
        self.directory = directory
        self.process = None
        (directory / "alertmanager.yml").write_text(f"""\
route:
  receiver: hook
  group_by: [{group_by}]
  group_wait: 1s
  group_interval: 1s
  repeat_interval: 24h
receivers:
  - name: hook
    webhook_configs:
      - url: {hook.url}
        send_resolved: true
""")

    def start(self):
        with open(self.directory / "alertmanager.log", "ab") as log:
            self.process = subprocess.Popen(
                [shutil.which("prometheus-alertmanager"),
                 f"--config.file={self.directory / 'alertmanager.yml'}",
                 f"--storage.path={self.directory / 'alertmanager'}",
                 f"--web.listen-address={self.address}", "--cluster.listen-address="],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(self.ready, SECONDS, "Alertmanager is ready")
        return self

    def ready(self):
        try:
            return self.get("/-/ready") is not None
        except OSError:
            return False

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return answer.read().decode()

    def alerts(self):
        return json.loads(self.get("/api/v2/alerts?active=true&silenced=false&inhibited=false"))

    def silences(self):
        """Those in force."""
        return [silence for silence in json.loads(self.get("/api/v2/silences"))
                if silence["status"]["state"] == "active"]

    def stop(self):
        """SIGTERM, so that it writes down whom it has told."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=SECONDS)
