#!/usr/bin/env python3
"""Short runs of the fault lab before a real daemon with the default rules: the one whose learning
rate runs away is warned about before its loss breaks, the healthy one stays silent, and the shards
of four processes become one model.

    tests/python/lab_daemon_test.py FORESHOCKD FORESHOCK
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import grpc
from foreshock.v1 import query_pb2 as query
from foreshock.v1 import query_pb2_grpc as query_grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support/python"))
from daemon_process import Daemon, cli  # noqa: E402

FORESHOCKD, FORESHOCK = "", ""
INJECT_STEP = 350  # the pack has its baselines from about step 330 on
# Of all faults this one breaks the loss fastest; the ramp is steep, so that the test is short.
FAULTY = ["--fault", "learning-rate", "--strength", "1e6", "--steps", "640"]
HEALTHY = ["--fault", "none", "--steps", "600"]


class Warns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="foreshock_lab_")
        rules = sorted((ROOT / "rules").glob("*.yaml"))
        cls.daemon = Daemon(FORESHOCKD, cls.temporary.name, rules=rules).start()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__()
        cls.temporary.cleanup()

    def ask(self, method, request):
        with grpc.insecure_channel(self.daemon.grpc) as channel:
            answer = getattr(query_grpc.QueryServiceStub(channel), method)(request, timeout=30)
            return list(answer) if method == "QueryPoints" else answer

    def lab(self, run, options):
        command = [sys.executable, str(ROOT / "client/python/examples/fault_lab.py"), *options,
                   "--inject-step", str(INJECT_STEP), "--run", run, "--server", self.daemon.grpc,
                   "--output", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        found = json.loads(done.stdout)
        # The daemon, which saw the losses on the wire, agrees on both.
        said = json.loads(cli(FORESHOCK, "summary", run, "-o", "json", server=self.daemon.grpc,
                              http=self.daemon.http, check=0).stdout)
        self.assertEqual(found["loss_break_step"], said["loss_break_step"])
        mine, theirs = found["first_warning"], said["first_warning"]
        self.assertEqual(mine and mine["step"], theirs and theirs["step"])
        return found

    def test_a_warning_comes_before_the_loss_breaks_and_names_the_fault(self):
        found = self.lab("faulty", FAULTY)
        self.assertIsNotNone(found["loss_break_step"], "the loss did not break")
        self.assertIsNotNone(found["first_warning"], "no warning came")
        self.assertGreaterEqual(found["first_warning"]["step"], INJECT_STEP)
        self.assertLess(found["first_warning"]["step"], found["loss_break_step"])
        self.assertEqual(found["first_warning"]["fault"], "learning_rate_too_high")

    def test_a_healthy_run_stays_silent(self):
        found = self.lab("healthy", HEALTHY)
        self.assertIsNone(found["loss_break_step"])
        self.assertEqual(found["warnings"], [])

    def test_two_by_two_shards_become_one_model(self):
        self.lab("shards", ["--world", "4", "--steps", "11"])
        run = self.ask("GetRun", query.GetRunRequest(run="shards")).run
        self.assertEqual((run.attempts[0].world_size, run.model.heads), (4, 4))
        spectra = query.SeriesSelector(run="shards", indicator="attn.delta2.entropy_ratio_l1")
        answers = self.ask("QueryPoints", query.QueryPointsRequest(selector=spectra))
        found = {(a.series.layer, a.series.unit_id): [p.step for p in a.points] for a in answers}
        heads = {(layer, head): [10] for layer in range(3) for head in range(4)}
        self.assertEqual(found, heads)  # two of each from a tensor-parallel rank
        steps = self.ask("ListSteps", query.ListStepsRequest(run="shards")).steps
        self.assertEqual({(s.ranks, s.tokens, s.partial) for s in steps}, {(4, 8 * 64, False)})


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    FORESHOCKD, FORESHOCK = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
