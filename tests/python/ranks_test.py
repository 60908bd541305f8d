#!/usr/bin/env python3
"""Processes that train together, each watched, against the real daemon: spawn, DDP, SIGTERM."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import grpc

from foreshock.v1 import query_pb2 as query
from foreshock.v1 import query_pb2_grpc as query_grpc

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support/python")]
from daemon_process import Daemon  # noqa: E402

FORESHOCKD = ""
STEPS = 12


class Ranks(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_python_")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.daemon = Daemon(FORESHOCKD, self.directory).start()
        self.addCleanup(self.daemon.__exit__)
        channel = grpc.insecure_channel(self.daemon.grpc)
        self.addCleanup(channel.close)
        self.stub = query_grpc.QueryServiceStub(channel)

    def start(self, what, *arguments):
        process = subprocess.Popen(
            [sys.executable, str(HERE / "ranks.py"), what, str(self.directory), self.daemon.grpc,
             *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def points(self, run, indicator, unit):
        """{(unit, step): value}"""
        selector = query.SeriesSelector(run=run, indicator=indicator, unit=unit)
        answers = self.stub.QueryPoints(query.QueryPointsRequest(selector=selector))
        return {(a.series.unit_id, p.step): p.value for a in answers for p in a.points}

    def run_of(self, name):
        return self.stub.GetRun(query.GetRunRequest(run=name)).run

    def test_spawned_ranks_report_under_one_run_and_train_as_without_us(self):
        process = self.start("spawn", str(STEPS))
        _, error = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, error)
        told = [json.loads((self.directory / f"rank{rank}.json").read_text()) for rank in (0, 1)]
        for rank, result in enumerate(told):
            self.assertEqual(result["watched"], result["alone"], rank)
            self.assertEqual((result["closed"], result["errors"], result["dropped"]), (True, 0, 0))
            self.assertEqual((result["committed"], result["rejections"]), (STEPS, []))
        self.assertNotEqual(told[0]["alone"], told[1]["alone"])  # they see other data

        run = self.run_of("ranks")
        self.assertEqual([(a.world_size, a.state) for a in run.attempts],
                         [(2, query.RUN_STATE_FINISHED)])
        losses = self.points("ranks", "train.loss", query.UNIT_RANK)
        self.assertEqual(sorted(losses), [(r, s) for r in (0, 1) for s in range(STEPS)])
        for (rank, step), value in losses.items():
            self.assertAlmostEqual(value, told[rank]["alone"][step], places=5)
        means = self.points("ranks", "train.loss", query.UNIT_NONE)
        for (_, step), value in means.items():
            self.assertAlmostEqual(value, (losses[0, step] + losses[1, step]) / 2, places=5)
        self.assertEqual(len(means), STEPS)
        # The parent's own monitor was not disturbed by its children.
        self.assertEqual(len(self.points("parent", "train.loss", query.UNIT_NONE)), 2)
        self.assertEqual(self.run_of("parent").state, query.RUN_STATE_FINISHED)

    def test_sigterm_in_the_middle_is_told_and_ends_the_ranks_as_without_us(self):
        processes = [self.start("forever", str(rank)) for rank in (0, 1)]
        for process in processes:
            for _ in range(5):
                process.stdout.readline()
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            _, error = process.communicate(timeout=60)
            self.assertEqual(process.returncode, -signal.SIGTERM, error)
        run = self.run_of("preempted")
        self.assertEqual(run.state, query.RUN_STATE_PREEMPTED)
        self.assertGreaterEqual(run.last_step, 3)


if __name__ == "__main__":
    FORESHOCKD = sys.argv[1]
    assert os.environ.get("PYTHONPATH"), "run by ctest, or set PYTHONPATH to build/*/python"
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
