#!/usr/bin/env python3
"""The package against the real daemon: what arrives is right, and its troubles stay its own."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import grpc
import numpy as np
import torch

import foreshock
from foreshock.v1 import query_pb2 as query
from foreshock.v1 import query_pb2_grpc as query_grpc

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support/python")]
import standins  # noqa: E402
from certificates import Authority  # noqa: E402
from daemon_process import Daemon, cli, wait_until  # noqa: E402

ROOT = HERE.parents[1]
FORESHOCKD, FORESHOCK = "", ""
STEPS = 60
STORED = 2.0**-23  # points are kept in float32; gram_test.py holds 1e-9 before that


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_python_")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)

    def daemon(self):
        daemon = Daemon(FORESHOCKD, self.directory, rules=[ROOT / "rules/default.yaml"])
        self.addCleanup(daemon.__exit__)
        return daemon.start()

    def points(self, daemon, run, indicator):
        """{(layer, unit, step): value}; layer is -1 where there is none."""
        selector = query.SeriesSelector(run=run, indicator=indicator)
        with grpc.insecure_channel(daemon.grpc) as channel:
            stub = query_grpc.QueryServiceStub(channel)
            answers = list(stub.QueryPoints(query.QueryPointsRequest(selector=selector)))
        found = {}
        for answer in answers:
            series = answer.series
            layer = series.layer if series.HasField("layer") else -1
            found.update({(layer, series.unit_id, p.step): p.value for p in answer.points})
        return found


class Secured(Case):
    def test_pushes_with_tls_a_certificate_and_a_token(self):
        ca = Authority(self.directory, "ca")
        server, own = ca.issue("server"), ca.issue("client")
        token = self.directory / "token"
        entry = cli(FORESHOCK, "token", "new", "trainer", "--role", "push", "--match", "run=r",
                    "--to", token, check=0).stdout
        (self.directory / "tokens.yaml").write_text("tokens:\n" + entry)
        config = self.directory / "foreshock.yaml"
        config.write_text(f"tls: {{cert_file: {server.cert}, key_file: {server.key}, "
                          f"client_ca_file: {ca.cert}}}\n"
                          f"access: {{tokens_file: {self.directory / 'tokens.yaml'}}}\n")
        daemon = Daemon(FORESHOCKD, self.directory, rules=[ROOT / "rules/default.yaml"],
                        extra=["--config", str(config)])
        self.addCleanup(daemon.__exit__)
        daemon.start()
        files = dict(ca_file=str(ca.cert), cert_file=str(own.cert), key_file=str(own.key),
                     token_file=str(token))
        client = foreshock.Client("r", daemon.grpc, **files)
        client.report(0, {"loss": 1.0})
        self.assertTrue(client.close(timeout=20), client.stats())
        for left_out, said in (("token_file", "UNAUTHENTICATED"), ("ca_file", "UNAVAILABLE")):
            kept = {key: value for key, value in files.items()
                    if key != left_out and (left_out != "ca_file" or key == "token_file")}
            client = foreshock.Client("r", daemon.grpc, **kept)
            client.report(0, {"loss": 1.0})
            wait_until(lambda: said in client.stats().last_error, 20, f"{said} is said")
            self.assertFalse(client.close(timeout=0.1))
        client = foreshock.Client("another", daemon.grpc, **files)
        wait_until(lambda: "may not push to run" in client.stats().last_error, 20, "it is refused")
        client.close(timeout=0.1)


class Arrives(Case):
    def test_spectra_equal_the_singular_values_of_the_weights(self):
        daemon = self.daemon()
        torch.manual_seed(2)
        model = standins.Decoder()
        monitor = foreshock.watch(model, run="spectra", server=daemon.grpc, strict=True,
                                  sampling={"spectra": {"every": 10, "groups": 1, "heads": 0}})
        snapshots = []
        for step in range(11):
            if step % 10 == 0:
                snapshots.append([(l.self_attn.q_proj.weight.detach().double().numpy(),
                                   l.self_attn.k_proj.weight.detach().double().numpy())
                                  for l in model.layers])
            monitor.step(step, loss=1.0)
            with torch.no_grad():
                for p in model.parameters():
                    p.add_(torch.randn_like(p) * 1e-3)
        self.assertTrue(monitor.close())
        self.assertEqual(monitor.stats().client.rejected_summaries, 0, monitor.stats())
        got = self.points(daemon, "spectra", "attn.delta2.effective_rank")
        self.assertEqual(len(got), 2 * 4)
        for layer in range(2):
            (q0, k0), (q1, k1) = snapshots[0][layer], snapshots[1][layer]
            for head in range(4):
                q, k = slice(8 * head, 8 * head + 8), slice(8 * (head // 2), 8 * (head // 2) + 8)
                delta2 = (q1 - q0)[q].T @ k0[k] + q0[q].T @ (k1 - k0)[k]
                squares = np.linalg.svd(delta2, compute_uv=False)[:16] ** 2
                p = squares / squares.sum()
                expected = np.exp(-(p * np.log(p)).sum())
                self.assertLess(abs(got[layer, head, 10] / expected - 1), STORED)

    def test_everything_a_watched_training_sends_is_taken(self):
        daemon = self.daemon()
        torch.manual_seed(2)
        model = standins.Decoder()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        monitor = foreshock.watch(
            model, optimizer, run="all", server=daemon.grpc, strict=True, labels={"team": "x"},
            sampling={"spectra": {"every": 5, "groups": 2}, "router": {"every": 1},
                      "gradients": {"every": 1}, "logits": {"every": 2}})
        for number, layer in enumerate(model.layers):
            layer.self_attn.tap = lambda q, k, n=number: monitor.attention(n, q, k)
        for step in range(12):
            loss, norm = standins.train_step(model, optimizer, step)
            if step == 6:
                monitor.event("checkpoint_saved", name="c6")
            mismatch = foreshock.policy_mismatch(-np.ones(9), -np.ones(9) * 1.1)
            monitor.step(step, loss=loss, grad_norm=norm, tokens=48, policy_mismatch=mismatch,
                         reward_mean=0.5)
        self.assertTrue(monitor.close())
        stats = monitor.stats()
        self.assertEqual((stats.errors, stats.dropped), (0, 0), stats)
        self.assertEqual((stats.client.rejections, stats.client.committed), ([], 12))
        for indicator, count in [("train.loss", 12), ("train.grad_norm_q", 12), ("train.lr", 12),
                                 ("router.token_entropy_ratio", 24), ("load.entropy_ratio", 24),
                                 ("attn.logits.max", 2 * 4 * 6), ("rl.k1", 12)]:
            self.assertEqual(len(self.points(daemon, "all", indicator)), count, indicator)
        runs = cli(FORESHOCK, "runs", "--output=json", server=daemon.grpc, check=0).stdout
        self.assertIn("RUN_STATE_FINISHED", runs)

    def test_a_recorded_run_replays(self):
        daemon = self.daemon()
        path = self.directory / "run.fscap"
        model = standins.Decoder()
        with foreshock.watch(model, run="recorded", recorder=foreshock.Recorder(path)) as monitor:
            for step in range(20):
                monitor.step(step, loss=1.0)
        cli(FORESHOCK, "replay", path, server=daemon.grpc, check=0)
        self.assertEqual(len(self.points(daemon, "recorded", "train.loss")), 20)

    def test_a_resume_with_other_experts_is_a_new_attempt(self):
        daemon = self.daemon()
        for number, experts in enumerate((4, 8)):
            model = standins.Decoder(count=experts)
            with foreshock.watch(model, run="resume", server=daemon.grpc, strict=True,
                                 resume_step=10 * number, sampling={"router": {"every": 1}},
                                 ) as monitor:
                for step in range(10 * number, 10 * number + 10):
                    model(standins.batch(step)[0])
                    monitor.step(step, loss=1.0)
            self.assertEqual(monitor.stats().client.rejections, [])
            self.assertEqual(monitor.stats().client.attempt, number + 1)
        self.assertEqual(len(self.points(daemon, "resume", "load.entropy_ratio")), 2 * 20)

    def test_two_processes_of_one_rank_and_a_run_name_that_is_refused(self):
        daemon = self.daemon()
        client = foreshock.Client("a\nb", daemon.grpc)
        client.report(0, {"loss": 1.0})
        self.assertTrue(client.flush(10))
        self.assertTrue(client.stats().refused)
        self.assertIn("run", client.stats().last_error)
        client.close(timeout=0.1)


class Troubles(Case):
    """Losses are compared bit by bit with those of a training that nobody watches."""

    @classmethod
    def setUpClass(cls):
        cls.alone = cls.finish(cls.start())

    @staticmethod
    def start(*arguments):
        return subprocess.Popen([sys.executable, str(HERE / "train.py"), str(STEPS), *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @staticmethod
    def finish(process, read=""):
        out, error = process.communicate(timeout=120)
        return process.returncode, read + out, error

    def check(self, outcome):
        self.assertEqual(outcome[:2], self.alone[:2], outcome[2])
        self.assertEqual(outcome[0], 0)
        self.assertEqual(outcome[1].count("\n"), STEPS)

    def read_losses(self, process, count):
        return "".join(process.stdout.readline() for _ in range(count))

    def test_a_daemon_that_is_well(self):
        self.check(self.finish(self.start(self.daemon().grpc)))

    def test_no_daemon(self):
        outcome = self.finish(self.start("127.0.0.1:1"))
        self.check(outcome)
        self.assertIn(f"'closed': {STEPS}", outcome[2])

    def test_a_daemon_killed_midway(self):
        daemon = self.daemon()
        process = self.start(daemon.grpc)
        read = self.read_losses(process, STEPS // 2)
        daemon.kill()
        self.check(self.finish(process, read))

    def test_a_daemon_that_stalls(self):
        daemon = self.daemon()
        process = self.start(daemon.grpc)
        read = self.read_losses(process, STEPS // 2)
        daemon.signal(signal.SIGSTOP)
        self.addCleanup(daemon.signal, signal.SIGCONT)
        self.check(self.finish(process, read))

    def test_a_daemon_that_comes_back_has_every_step(self):
        daemon = self.daemon()
        client = foreshock.Client("back", daemon.grpc)
        for step in range(10):
            client.report(step, {"loss": 1.0})
        self.assertTrue(client.flush(10))
        daemon.kill()
        for step in range(10, 30):
            client.report(step, {"loss": 1.0})
        daemon.listen_grpc = daemon.grpc
        daemon.start()
        self.assertTrue(client.close(timeout=30), client.stats())
        stats = client.stats()
        self.assertEqual((stats.committed, stats.dropped), (30, 0))
        self.assertEqual(len(self.points(daemon, "back", "train.loss")), 30)


if __name__ == "__main__":
    FORESHOCKD, FORESHOCK = sys.argv[1:3]
    assert os.environ.get("PYTHONPATH"), "run by ctest, or set PYTHONPATH to build/*/python"
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
