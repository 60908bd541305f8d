#!/usr/bin/env python3
"""kill -9 at random moments under load: nothing acknowledged is lost or doubled, no second page.

Ranks push to a real foreshockd over gRPC and keep what is not acknowledged, as a client must. The
daemon is killed and started again, many times. In the end the stored series are compared, value by
value, with what was sent:

* every acknowledged value is there, once, as sent;
* a sum over ranks has each rank's share once, so a report that was applied twice shows;
* each alert that the values call for was notified once: at most once across all restarts.

    tests/fault/daemon_crash_test.py --foreshockd build/release/bin/foreshockd --kills 50 --seed 7
"""

import argparse
import collections
import os
import pathlib
import queue
import random
import re
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

import grpc  # noqa: E402

import contract  # noqa: E402
from daemon_process import Daemon, wait_until  # noqa: E402

V1 = contract.load()
# A killed daemon's port may be given to the daemon of another run of this test: its ranks must not
# be taken for ours.
RUN = f"crash-{os.getpid()}"
RANKS = 4
WAVE_STEPS = 400       # train.wave is high in the second half of each period: one alert a period
UNACKED_MAX = 64
SKEW_STEPS = 8         # no rank is further ahead of another: collectives keep real ranks together
SCALARS = ((1, "shared", "REDUCTION_SUM", "SCOPE_GLOBAL"),
           (2, "own", "REDUCTION_LAST", "SCOPE_RANK"),
           (3, "wave", "REDUCTION_LAST", "SCOPE_GLOBAL"))
RULES = """\
groups:
  - name: crash
    rules:
      - alert: WaveHigh
        indicator: train.wave
        threshold: {above: 0.5}
        warm_up: judge
        labels: {severity: warning}
"""


def own_value(step, rank):
    return float(step * RANKS + rank)


def wave_value(step):
    return 1.0 if step % WAVE_STEPS >= WAVE_STEPS // 2 else 0.0


class Rank(threading.Thread):
    """Pushes step after step; after a broken stream it goes on with what was not acknowledged."""

    def __init__(self, rank, address, stop, everyone):
        super().__init__(name=f"rank-{rank}", daemon=True)
        self.rank = rank
        self.everyone = everyone    # all ranks, this one too
        self.seq = 0                # of the report that is being sent
        self.address = address      # () -> HOST:PORT of the daemon that runs now
        self.stop_event = stop
        self.sent = 0               # seq of the newest report made; its step is seq - 1
        self.acked = 0              # cumulative
        self.sessions = 0
        self.rejections = []
        self.failure = None
        self.refused = collections.Counter()

    def report(self, seq, declare):
        step = seq - 1
        report = V1.ingest.Report(seq=seq, step=step, time_unix_ns=1_700_000_000_000_000_000 + step,
                                  tokens=1, phase="PHASE_TRAIN", last_of_step=True)
        batch = report.summaries.add().scalars
        if declare:
            for number, name, reduction, scope in SCALARS:
                batch.declare.add(id=number, name=name, unit="1", reduction=reduction, scope=scope)
        batch.ids.extend([1, 2])
        batch.values.extend([own_value(step, self.rank), own_value(step, self.rank)])
        if self.rank == 0:
            batch.ids.append(3)
            batch.values.append(wave_value(step))
        return report

    def requests(self, answers):
        """Hello, then from the first report that is not committed; ends with the session."""
        yield V1.ingest.PushRequest(hello=V1.ingest.Hello(
            run=RUN, launch_id="one-launch", client_instance=f"process-{self.rank}",
            rank=self.rank, coordinates=V1.types.Coordinates(data=self.rank), world_size=RANKS))
        committed = answers.get()
        if committed is None:
            return
        seq = committed + 1
        declare = True
        while not self.stop_event.is_set() or seq <= self.sent:
            if seq - self.acked > UNACKED_MAX:
                if answers.get() is None:  # an ack arrived, or the stream is over
                    return
                continue
            while seq - min(rank.seq for rank in self.everyone) > SKEW_STEPS:
                if not answers.empty() and answers.queue[-1] is None:  # the stream is over
                    return
                time.sleep(0.001)
            self.seq = seq
            self.sent = max(self.sent, seq)
            yield V1.ingest.PushRequest(report=self.report(seq, declare))
            declare = False
            seq += 1

    def session(self):
        answers = queue.Queue()
        with grpc.insecure_channel(self.address()) as channel:
            stub = V1.ingest_grpc.IngestServiceStub(channel)
            self.sessions += 1
            try:
                for response in stub.Push(self.requests(answers)):
                    if response.HasField("hello_ack"):
                        committed = response.hello_ack.last_committed_seq
                        if committed < self.acked:
                            raise AssertionError(
                                f"rank {self.rank}: the daemon knows reports up to {committed}, "
                                f"but had acknowledged {self.acked}")
                        self.acked = committed
                        answers.put(committed)
                    else:
                        self.acked = max(self.acked, response.ack.seq)
                        self.rejections += list(response.ack.rejections)
                        answers.put(0)
            finally:
                answers.put(None)

    def run(self):
        try:
            while not (self.stop_event.is_set() and self.acked >= self.sent):
                try:
                    self.session()
                except grpc.RpcError as error:
                    self.refused[error.code().name] += 1
                    if error.code().name not in ("UNAVAILABLE", "CANCELLED", "UNKNOWN",
                                                 "RESOURCE_EXHAUSTED", "INTERNAL",
                                                 "FAILED_PRECONDITION", "ALREADY_EXISTS"):
                        raise
                    time.sleep(0.02)  # the daemon is being started again
        except BaseException as error:  # pylint: disable=broad-except
            self.failure = error


def read_points(address, indicator):
    """{unit_id: [(step, value)]} of all series of an indicator, as stored."""
    with grpc.insecure_channel(address) as channel:
        stub = V1.query_grpc.QueryServiceStub(channel)
        series = collections.defaultdict(list)
        request = V1.query.QueryPointsRequest(
            selector=V1.query.SeriesSelector(run=RUN, indicator=indicator), limit=10_000_000)
        for answer in stub.QueryPoints(request):
            if answer.truncated:
                raise AssertionError(f"{indicator}: the answer was cut")
            series[answer.series.unit_id] += [(p.step, p.value) for p in answer.points]
        return series


def compare(indicator, expected, points, problems):
    """Every expected (step -> value) is there, once, and nothing is doubled."""
    steps = [step for step, _ in points]
    doubled = [step for step, count in collections.Counter(steps).items() if count > 1]
    if doubled:
        problems.append(f"{indicator}: {len(doubled)} steps are there twice, first {doubled[0]}")
    stored = dict(points)
    missing = [step for step in expected if step not in stored]
    if missing:
        problems.append(f"{indicator}: {len(missing)} of {len(expected)} acknowledged points are "
                        f"missing, first step {missing[0]}")
    wrong = [step for step, value in expected.items() if stored.get(step, value) != value]
    if wrong:
        step = wrong[0]
        problems.append(f"{indicator}: {len(wrong)} points are wrong, first at step {step}: "
                        f"{stored[step]} instead of {expected[step]}")
    return len(expected)


def notifications(log):
    """{(FIRING or RESOLVED, alert id): count} of what the log notifier told."""
    told = collections.Counter()
    for line in log.splitlines():
        found = re.search(r"\b(FIRING|RESOLVED)\b.*\bid=(\"[^\"]*\"|\S+)", line)
        if found:
            told[found.groups()] += 1
    return told


def check(daemon, ranks, problems):
    """Compares what is stored with what was acknowledged; returns the number of points compared."""
    # Steps that every rank had acknowledged; the newest may still be open and is left out.
    closed = min(rank.acked for rank in ranks) - 1
    compared = 0
    own = read_points(daemon.grpc, "train.own")
    for rank in ranks:
        expected = {step: own_value(step, rank.rank) for step in range(closed)}
        compared += compare(f"train.own of rank {rank.rank}", expected, own[rank.rank], problems)
    shared = {step: sum(own_value(step, rank) for rank in range(RANKS)) for step in range(closed)}
    compared += compare("train.shared", shared, read_points(daemon.grpc, "train.shared")[0],
                        problems)
    wave = {step: wave_value(step) for step in range(closed)}
    compared += compare("train.wave", wave, read_points(daemon.grpc, "train.wave")[0], problems)
    check_alerts(daemon, closed, problems)
    return compared


def check_alerts(daemon, closed, problems):
    with grpc.insecure_channel(daemon.grpc) as channel:
        alerts = V1.query_grpc.QueryServiceStub(channel).ListAlerts(
            V1.query.ListAlertsRequest(run=RUN, limit=100_000)).alerts
    fired = sorted(alert.firing_step for alert in alerts
                   if alert.rule == "WaveHigh" and alert.HasField("firing_step"))
    # The newest step is not compared, so neither is an alert that it would raise.
    called_for = [step for step in range(closed)
                  if wave_value(step) > 0.5 and step % WAVE_STEPS == WAVE_STEPS // 2]
    if [step for step in fired if step < closed] != called_for:
        problems.append(f"alerts fired at {fired}, the values call for {called_for}")
    told = notifications(daemon.log_text())
    for (kind, alert_id), count in told.items():
        if count > 1:
            problems.append(f"{kind} of {alert_id} was told {count} times")
    firing_told = {alert_id.strip('"') for kind, alert_id in told if kind == "FIRING"}
    untold = [alert.id for alert in alerts
              if alert.rule == "WaveHigh" and alert.HasField("firing_step")
              and alert.id not in firing_told]
    if not firing_told:
        problems.append("no notification was seen in the log at all")
    print(f"{len(fired)} alerts fired, {len(firing_told)} were told once, "
          f"{len(untold)} were cut off by a kill before they were told")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--foreshockd", required=True)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed} (--seed {seed} kills after the same delays)", flush=True)
    delays = random.Random(seed)

    problems = []
    with tempfile.TemporaryDirectory(prefix="foreshock_crash_") as directory:
        rules = pathlib.Path(directory, "rules.yaml")
        rules.write_text(RULES)
        daemon = Daemon(arguments.foreshockd, directory, rules=[rules])
        stop = threading.Event()
        ranks = []
        ranks += [Rank(rank, lambda: daemon.grpc, stop, ranks) for rank in range(RANKS)]
        under_load = 0
        reopen_seconds = []
        with daemon:
            for rank in ranks:
                rank.start()
            for _ in range(arguments.kills):
                before = min(rank.acked for rank in ranks)
                # Half of the kills fall into start-up and reconnection, half into steady load.
                if delays.random() < 0.5:
                    wait_until(lambda b=before: min(r.acked for r in ranks) > b or
                               any(r.failure for r in ranks), 60, "acks after a restart")
                    under_load += 1
                time.sleep(delays.uniform(0, 0.4))
                if any(rank.failure for rank in ranks):
                    break
                daemon.kill()
                started = time.monotonic()
                daemon.start()
                reopen_seconds.append(time.monotonic() - started)
            stop.set()
            for rank in ranks:
                rank.join(timeout=120)
                if rank.failure:
                    problems.append(f"rank {rank.rank}: {rank.failure!r}")
                elif rank.is_alive():
                    problems.append(f"rank {rank.rank}: {rank.sent - rank.acked} reports were "
                                    "never acknowledged")
                if rank.rejections:
                    problems.append(f"rank {rank.rank}: rejected: {rank.rejections[0].reason}")
            compared = check(daemon, ranks, problems)
            if problems:  # what the daemon says of it
                print("\n".join(line for line in daemon.get("/metrics")[1].splitlines()
                                if re.match(r"foreshock_(open_|silent_|reports_|run_|last_)", line)))
                print("\n".join(f"rank {r.rank}: sent {r.sent}, acked {r.acked}, rejections "
                                f"{len(r.rejections)}, refused {dict(r.refused)}" for r in ranks))
                print(daemon.log_text()[-3000:])
            if daemon.stop() != 0:
                problems.append("foreshockd did not stop cleanly in the end")
    sessions = sum(rank.sessions for rank in ranks)
    print(f"{arguments.kills} kills ({under_load} known to be under load), {sessions} sessions, "
          f"{sum(rank.acked for rank in ranks)} reports acknowledged, {compared} points compared, "
          f"restart {max(reopen_seconds, default=0):.2f} s at most")
    if compared < arguments.kills * RANKS:
        problems.append(f"only {compared} points were compared: there was no load to speak of")
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
