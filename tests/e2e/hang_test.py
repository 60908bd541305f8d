#!/usr/bin/env python3
"""A run that stands still, in real time, through the built daemon: an alert that names the rank that
is behind, and its end with the next step.

    tests/e2e/hang_test.py FORESHOCKD
"""

import json
import pathlib
import queue
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

import grpc  # noqa: E402

import contract  # noqa: E402
from daemon_process import Daemon, wait_until  # noqa: E402

V1 = contract.load()
RUN = "stands-still"
RULES = """\
groups:
  - name: g
    rules:
      - alert: stands
        hang: {intervals: 5, at_least: 1s}
        labels: {severity: warning}
"""


class Rank:
    """One rank's stream; `push` waits for nothing."""

    def __init__(self, address, rank, world_size):
        self.requests = queue.Queue()
        self.acked = 0
        self.seq = 0
        self.channel = grpc.insecure_channel(address)
        self.requests.put(V1.ingest.PushRequest(hello=V1.ingest.Hello(
            run=RUN, launch_id="one", client_instance=f"process-{rank}", rank=rank,
            coordinates=V1.types.Coordinates(data=rank), world_size=world_size)))
        self.responses = V1.ingest_grpc.IngestServiceStub(self.channel).Push(
            iter(self.requests.get, None))
        next(self.responses)  # HelloAck

    def push(self, step):
        self.seq += 1
        report = V1.ingest.Report(seq=self.seq, step=step, time_unix_ns=time.time_ns(),
                                  last_of_step=True)
        self.requests.put(V1.ingest.PushRequest(report=report))
        for response in self.responses:
            if response.HasField("ack") and response.ack.seq >= self.seq:
                return

    def close(self):
        self.requests.put(None)
        self.channel.close()


def alerts(daemon):
    return json.loads(daemon.get(f"/api/v1/alerts?run={RUN}")[1]).get("alerts", [])


def main(foreshockd):
    with tempfile.TemporaryDirectory(prefix="foreshock_hang_") as directory:
        rules = pathlib.Path(directory) / "rules.yaml"
        rules.write_text(RULES)
        with Daemon(foreshockd, directory, rules=[rules]) as daemon:
            ranks = [Rank(daemon.grpc, rank, 2) for rank in range(2)]
            for step in range(5):
                for rank in ranks:
                    rank.push(step)
                time.sleep(0.05)  # a step takes time
            assert not alerts(daemon), alerts(daemon)
            ranks[0].push(5)  # rank 1 does not
            fired = wait_until(lambda: alerts(daemon), 20, "the alert fires")
            assert len(fired) == 1, fired
            alert = fired[0]
            assert alert["state"] == "ALERT_STATE_FIRING", alert
            assert int(alert["firing_step"]) == 4, alert
            assert alert["rank"] == 1, alert
            assert alert["value"] >= 1, alert
            assert "farthest back: rank 1" in alert["summary"], alert
            ranks[1].push(5)
            ended = wait_until(
                lambda: [a for a in alerts(daemon) if a["state"] == "ALERT_STATE_RESOLVED"], 20,
                "the alert ends with the step")
            assert ended[0]["id"] == alert["id"], ended
            for rank in ranks:
                rank.close()
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
