#!/usr/bin/env python3
"""The real trainers, a few steps each, against the real daemon: one line watches each of them.

    trainers_test.py FORESHOCKD
"""

import os
import pathlib
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
from trainers import STEPS  # noqa: E402

LAYERS = 2
ATTENTION = "attn.delta2.entropy_ratio_l1"


class Trainers(unittest.TestCase):
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

    def train(self, name):
        """What the trainer wrote on its terminal."""
        folder = self.directory / name
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, HERE / "trainers.py", name, folder, self.daemon.grpc],
            capture_output=True, text=True, check=False, cwd=folder,
            env={**os.environ, "TMPDIR": str(folder)})  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stderr

    def points(self, run, indicator):
        """{(layer, step): value}"""
        selector = query.SeriesSelector(run=run, indicator=indicator)
        return {(answer.series.layer, point.step): point.value
                for answer in self.stub.QueryPoints(query.QueryPointsRequest(selector=selector))
                for point in answer.points}

    def of_steps(self, run, indicator):
        return {step: value for (_, step), value in self.points(run, indicator).items()}

    def check(self, run, routers=True, scalars=()):
        """Every step has its numbers, and both layers what is watched in them."""
        said = self.train(run)
        for layer in range(LAYERS):
            self.assertRegex(said, rf"layer {layer}: \S*layers.{layer}.self_attn: GQA, 4 heads of 8")
        steps = list(range(1, STEPS + 1))
        for name in ("loss", "grad_norm", "lr", "grad_norm_q", *scalars):
            with self.subTest(run, scalar=name):
                self.assertEqual(sorted(self.of_steps(run, f"train.{name}")), steps)
        self.assertEqual(sorted(self.of_steps(run, "train.update_rms")), steps[1:])
        self.assertEqual(sorted(self.points(run, ATTENTION)), [(i, STEPS) for i in range(LAYERS)])
        if routers:
            entropy = self.points(run, "router.token_entropy")
            self.assertEqual(sorted(entropy), [(i, s) for i in range(LAYERS) for s in steps])
        told = self.stub.GetRun(query.GetRunRequest(run=run)).run
        self.assertIn("AdamW(", told.labels["optimizer"])
        self.assertEqual(told.state, query.RUN_STATE_FINISHED)

    def test_hugging_face(self):
        self.check("trainer")
        self.assertEqual(sorted(self.of_steps("trainer", "eval.train.loss")), [2, 4])

    def test_hugging_face_compiled(self):
        self.check("trainer_compiled", routers=False)

    def test_accelerate(self):
        self.check("accelerate")

    def test_lightning(self):
        self.check("lightning", scalars=("accuracy",))
        self.assertEqual(sorted(self.of_steps("lightning", "eval.train.loss")), [2, 4])

    def test_trl_sft(self):
        self.check("sft", scalars=("mean_token_accuracy",))

    def test_trl_dpo(self):
        self.check("dpo", scalars=("rewards_margins",))

    def test_trl_grpo(self):
        self.check("grpo", scalars=("reward_mean", "reward_std", "kl", "policy_entropy",
                                    "clip_fraction", "completion_length",
                                    "frac_reward_zero_std"))


if __name__ == "__main__":
    FORESHOCKD = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
