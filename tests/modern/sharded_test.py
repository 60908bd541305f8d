#!/usr/bin/env python3
"""Sharded models: the daemon's points are those of the same training on one rank.

    sharded_test.py FORESHOCKD
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import grpc

from foreshock.v1 import query_pb2 as query
from foreshock.v1 import query_pb2_grpc as query_grpc

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support/python"))
from daemon_process import Daemon  # noqa: E402

WITHIN = 1e-6
# kind -> (key heads, indicators that must be there)
ALL = ("attn.", "router.weight_", "router.token_entropy", "load.")
NO_MATRICES = ("attn.", "router.token_entropy", "load.")  # routers' rows are cut between experts
KINDS = {
    2: {"ddp": (2, ALL), "fsdp2": (2, NO_MATRICES), "gather": (1, ALL), "tp": (2, ALL),
        "rows": (2, ALL), "split": (1, ("router.token_entropy", "load."))},
    4: {"ddp": (2, ALL), "fsdp2": (4, NO_MATRICES), "gather": (1, ALL), "tp": (4, ALL),
        "rows": (2, ALL), "split": (1, ("router.token_entropy", "load.")),
        "hsdp": (2, NO_MATRICES), "fsdp2-tp": (4, NO_MATRICES), "tp-replicated": (2, ALL)},
}  # fmt: skip


class Sharded(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_modern_")
        cls.addClassCleanup(temporary.cleanup)
        cls.directory = pathlib.Path(temporary.name)
        cls.daemon = Daemon(FORESHOCKD, cls.directory).start()
        cls.addClassCleanup(cls.daemon.__exit__)
        channel = grpc.insecure_channel(cls.daemon.grpc)
        cls.addClassCleanup(channel.close)
        cls.stub = query_grpc.QueryServiceStub(channel)

        cls.train(1)

    @classmethod
    def train(cls, ranks):
        done = subprocess.run([sys.executable, str(HERE / "sharded.py"), str(ranks),
                               str(cls.directory), cls.daemon.grpc], capture_output=True,
                              text=True, check=False)  # fmt: skip
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)

    def points(self, run, prefix):
        """{(indicator, layer, unit, step): value}"""
        selector = query.SeriesSelector(run=run, indicator=f"{prefix}*")
        found = {}
        for answer in self.stub.QueryPoints(query.QueryPointsRequest(selector=selector)):
            s = answer.series
            found.update({(s.indicator, s.layer, s.unit, s.unit_id, p.step): p.value
                          for p in answer.points})
        return found

    def check(self, ranks):
        self.train(ranks)
        for kind, (kv_heads, prefixes) in KINDS[ranks].items():
            run = f"{kind}-{ranks}"
            for prefix in prefixes:
                with self.subTest(run, prefix=prefix):
                    expected = self.points(f"whole-{kv_heads}", prefix)
                    got = self.points(run, prefix)
                    self.assertGreater(len(expected), 0)
                    self.assertEqual(sorted(got), sorted(expected))
                    for key, value in expected.items():
                        allowed = WITHIN * max(1, abs(value))
                        self.assertLessEqual(abs(got[key] - value), allowed, key)
            with self.subTest(run):
                self.check_rest(run, kind, prefixes)

    def check_rest(self, run, kind, prefixes):
        missing = [p for p in ALL if p not in prefixes and p != "router.token_entropy"]
        for prefix in missing:
            self.assertEqual(self.points(run, prefix), {}, prefix)
        if kind == "split":
            lines = (self.directory / f"{run}-0.txt").read_text()
            self.assertIn("layers.0.self_attn: not watched: its heads are split over the", lines)
            self.assertIn("watch(..., gather=True) lets the ranks read them together", lines)
        if kind in ("ddp", "gather"):
            expected = self.points("whole-2" if kind == "ddp" else "whole-1", "train.grad_norm_")
            got = self.points(run, "train.grad_norm_")
            self.assertEqual(sorted(got), sorted(expected))
            for key, value in expected.items():
                # Sums over the batch in another order.
                self.assertLessEqual(abs(got[key] / value - 1), 1e-4, key)
        # Nothing that the plan promised is missing, and nothing came that it does not name.
        coverage = [a for a in self.stub.ListAlerts(query.ListAlertsRequest(run=run)).alerts]
        self.assertEqual(coverage, [])

    def test_two_ranks(self):
        self.check(2)

    def test_four_ranks(self):
        self.check(4)


if __name__ == "__main__":
    FORESHOCKD = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
