#!/usr/bin/env python3
"""What a machine may do to a running foreshockd: refused loudly, nothing acknowledged lost, mended
without a restart where that can be.

    FORESHOCKD=build/release/bin/foreshockd tests/fault/daemon_bad_days_test.py
"""

import ctypes
import os
import pathlib
import resource
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

import grpc  # noqa: E402

import contract  # noqa: E402
from daemon_process import Daemon, wait_until  # noqa: E402

V1 = contract.load()
SCALARS = 1000
STEPS = 10          # of one call
CALLS_MAX = 200     # many times what the write buffer holds
REFUSALS = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE,
            grpc.StatusCode.DEADLINE_EXCEEDED)  # the last: taken, but not in the store
MS_RDONLY, MS_REMOUNT, MS_BIND, MNT_DETACH = 1, 32, 4096, 2
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source, target, flags):
    """As mount(2); the reason where it cannot be done."""
    if LIBC.mount(source.encode(), str(target).encode(), None, flags, None) == 0:
        return None
    return os.strerror(ctypes.get_errno())


class Run:
    """One rank of a run that reports and keeps count of what was acknowledged."""

    def __init__(self, daemon, name):
        self.daemon = daemon
        self.name = name
        self.acknowledged = 0
        self.open_channel = None

    def channel(self):
        """One connection to the daemon that runs now."""
        if self.open_channel is None or self.open_channel[0] != self.daemon.grpc:
            self.close()
            self.open_channel = (self.daemon.grpc, grpc.insecure_channel(self.daemon.grpc))
        return self.open_channel[1]

    def close(self):
        if self.open_channel is not None:
            self.open_channel[1].close()
            self.open_channel = None

    def status(self):
        return V1.query_grpc.QueryServiceStub(self.channel()).GetStatus(
            V1.query.GetStatusRequest(), timeout=30)

    def push(self):
        """STEPS more steps; raises RpcError where they are not taken."""
        reports = []
        for step in range(self.acknowledged, self.acknowledged + STEPS):
            report = V1.ingest.Report(seq=step + 1, step=step, phase="PHASE_TRAIN", tokens=1,
                                      time_unix_ns=1_700_000_000_000_000_000 + step,
                                      last_of_step=True)
            scalars = report.summaries.add().scalars
            for i in range(SCALARS):
                if step == self.acknowledged:
                    scalars.declare.add(id=i + 1, name=f"s{i}", unit="1",
                                        reduction="REDUCTION_MEAN", scope="SCOPE_GLOBAL")
                scalars.ids.append(i + 1)
                scalars.values.append(self.value(i, step))
            reports.append(report)
        hello = V1.ingest.Hello(run=self.name, launch_id="one", client_instance=self.name,
                                world_size=1)
        answer = V1.ingest_grpc.IngestServiceStub(self.channel()).PushOnce(
            V1.ingest.PushOnceRequest(hello=hello, reports=reports), timeout=30)
        self.acknowledged = answer.ack.seq

    @staticmethod
    def value(scalar, step):
        return float((scalar * 7919 + step * 104_729) % 65_521)

    def push_until_refused(self):
        for _ in range(CALLS_MAX):
            try:
                self.push()
            except grpc.RpcError as error:
                return error
        raise AssertionError(f"{CALLS_MAX} calls were taken")

    def points(self, scalar):
        answers = V1.query_grpc.QueryServiceStub(self.channel()).QueryPoints(
            V1.query.QueryPointsRequest(selector=V1.query.SeriesSelector(
                run=self.name, indicator=f"train.s{scalar}")), timeout=30)
        return [(p.step, p.value) for answer in answers for p in answer.points]

    def check(self, test):
        """Every acknowledged point is there; more may be, of calls that were not answered."""
        for scalar in (0, SCALARS - 1):
            expected = [(step, self.value(scalar, step)) for step in range(self.acknowledged)]
            test.assertEqual(self.points(scalar)[:self.acknowledged], expected)


class BadDaysTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="foreshock_bad_days_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / "config.yaml"
        self.config.write_text("store: {write_buffer: 1MiB}\n")
        self.daemon = Daemon(os.environ["FORESHOCKD"], self.folder,
                             extra=["--config", str(self.config)])
        self.addCleanup(self.daemon.__exit__)

    def run_named(self, name):
        run = Run(self.daemon, name)
        self.addCleanup(run.close)
        return run

    def refused_and_back(self, run, words, mend):
        """The daemon says that it cannot write, goes on answering, and is mended by mend()."""
        error = run.push_until_refused()
        self.assertIn(error.code(), REFUSALS)
        wait_until(lambda: words in self.daemon.log_text(), 20, f"'{words}' in the log")

        def not_ready():
            status, body = self.daemon.get("/-/ready")
            return status == 503 and "cannot be written" in body
        wait_until(not_ready, 20, "not ready, and why")
        self.assertEqual(self.daemon.metric("foreshock_store_writable"), 0)
        self.assertGreater(self.daemon.metric("foreshock_commit_failures_total"), 0)
        self.assertEqual(self.daemon.get("/-/healthy")[0], 200)
        run.check(self)
        mend()
        wait_until(lambda: self.daemon.get("/-/ready")[0] == 200, 30, "ready again")
        self.assertEqual(self.daemon.metric("foreshock_store_writable"), 1)
        self.push_again(run)

    def push_again(self, run):
        """What was refused is sent once more; what had been taken after all is not taken twice."""
        run.push()
        run.push()
        run.check(self)
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.start()
        run.check(self)

    def test_a_data_directory_that_turns_read_only(self):
        # The kernel makes no file system read-only on which files are open for writing. A read-only
        # mount over the directory leaves the open log alone; no new file can be made.
        self.daemon.start()
        run = self.run_named("a")
        run.push()
        data = self.daemon.data
        reason = mount(str(data), data, MS_BIND)
        if reason:
            self.skipTest(f"cannot mount here ({reason}); needs root with CAP_SYS_ADMIN")
        self.addCleanup(LIBC.umount2, str(data).encode(), MNT_DETACH)
        self.assertIsNone(mount("none", data, MS_BIND | MS_REMOUNT | MS_RDONLY))
        self.refused_and_back(run, "Read-only file system",
                              lambda: LIBC.umount2(str(data).encode(), MNT_DETACH))

    @unittest.skipIf({"UBSAN_OPTIONS", "TSAN_OPTIONS"} & os.environ.keys(),
                     "a sanitizer opens files itself, to look at memory among others")
    def test_the_limit_of_open_files_is_reached(self):
        self.daemon.start()
        run = self.run_named("a")
        run.push()
        pid = self.daemon.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = max(int(name) for name in os.listdir(f"/proc/{pid}/fd")) + 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, before[1]))
        error = run.push_until_refused()  # over the connection that there is: no other gets in
        self.assertIn(error.code(), REFUSALS)
        wait_until(lambda: "Too many open files" in self.daemon.log_text(), 20, "words in the log")
        self.assertFalse(run.status().store_writable)
        run.check(self)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        wait_until(lambda: run.status().store_writable, 30, "writable again")
        self.push_again(run)

    def flip(self, path, offset):
        with open(path, "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0] ^ 0x20
            file.seek(offset)
            file.write(bytes([byte]))

    def test_a_flipped_byte_in_a_table_is_said_and_harms_one_run(self):
        self.daemon.start()
        runs = [self.run_named("a"), self.run_named("b")]
        for run in runs:
            for _ in range(10):
                run.push()
        self.assertEqual(self.daemon.stop(), 0)
        tables = sorted(self.daemon.data.glob("*.sst"))
        self.assertTrue(tables)
        harmed = None
        for table in tables:
            whole = table.read_bytes()
            self.flip(table, 20)
            try:
                self.daemon.start()
            except AssertionError:  # a table of rows that every start needs: it says so and ends
                self.assertIn(table.name, self.daemon.log_text())
            else:
                harmed = self.read_harmed(runs, table)
                self.assertEqual(self.daemon.stop(), 0)
            table.write_bytes(whole)
            if harmed:
                break
        self.assertTrue(harmed, "no table held points of one run alone")

    def read_harmed(self, runs, table):
        """Whether one run cannot be read and the other can; what the daemon says then is checked."""
        harmed = []
        for run in runs:
            try:
                run.check(self)
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.DATA_LOSS)
                self.assertIn(table.name, error.details())
                harmed.append(run)
        if len(harmed) != 1:
            return False
        self.assertEqual(self.daemon.get("/-/healthy")[0], 200)
        self.assertEqual(self.daemon.get("/-/ready")[0], 200)
        self.assertGreater(self.daemon.metric("foreshock_store_damage_total"), 0)
        self.assertIn("the medium has damaged the store", self.daemon.log_text())
        other = self.run_named("c")
        other.push()
        other.check(self)
        return True

    def test_a_flipped_byte_in_the_log_is_said_and_what_lies_before_it_is_kept(self):
        self.config.write_text("store: {write_buffer: 64MiB}\n")  # all stays in the log
        self.daemon.start()
        run = self.run_named("a")
        run.push()
        log = max(self.daemon.data.glob("*.log"), key=lambda path: path.stat().st_size)
        kept = run.acknowledged
        place = log.stat().st_size
        run.push()
        self.daemon.kill()
        self.flip(log, (place + log.stat().st_size) // 2)
        self.daemon.start()
        self.assertIn("the write-ahead log in", self.daemon.log_text())
        self.assertGreater(self.daemon.metric("foreshock_store_damage_total"), 0)
        self.assertTrue((self.daemon.data / "damaged_logs" / log.name).exists())
        run.acknowledged = kept
        run.check(self)
        self.push_again(run)


if __name__ == "__main__":
    unittest.main()
