#!/usr/bin/env python3
"""Daemons older and newer than the package, as docs/compatibility.md has them: training goes on."""

import concurrent.futures
import pathlib
import sys
import unittest

import grpc
import torch

import foreshock
from foreshock.v1 import ingest_pb2 as ingest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fake_daemon import FakeDaemon, ack, hello_ack  # noqa: E402
from standins import Decoder, train_step  # noqa: E402

STEPS = 12
# Fields that this version does not know: number 2000 a number, 2001 a text.
UNKNOWN = b"\x80\x7d\x2a" + b"\x8a\x7d\x05newer"


def newer(message):
    """`message` with unknown fields."""
    return type(message).FromString(message.SerializeToString() + UNKNOWN)


class Case(unittest.TestCase):
    close_seconds = 20.0

    def losses(self, server=None, **options):
        """Of a short training; with a server watched, and then told of in `self.stats`."""
        torch.manual_seed(4)
        model = Decoder(depth=1)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        monitor = server and foreshock.watch(
            model, optimizer, run="skew", server=server,
            sampling={"spectra": {"every": 2}, "router": {"every": 1}}, **options)
        losses = []
        for step in range(STEPS):
            loss, norm = train_step(model, optimizer, step)
            losses.append(loss.item())
            if monitor:
                monitor.step(step, loss=loss, grad_norm=norm)
        if monitor:
            self.closed = monitor.close(timeout=self.close_seconds)
            self.stats = monitor.stats()
        return losses

    def train_beside(self, address, **options):
        """Returns the warnings, after a look at the losses."""
        with self.assertLogs("foreshock", "INFO") as log:
            losses = self.losses(address, **options)
        self.assertEqual(losses, self.losses())
        self.assertEqual((self.stats.errors, self.stats.steps), (0, STEPS))
        return [line for line in log.output if line.startswith("WARNING")]

    def daemon(self, behave):
        daemon = FakeDaemon(behave)
        self.addCleanup(daemon.stop)
        return daemon


class Older(Case):
    def test_a_daemon_that_says_little_and_does_not_know_a_payload(self):
        def older(daemon, number, requests, context):
            for request in requests:
                if request.HasField("hello"):
                    yield ingest.PushResponse(hello_ack=ingest.HelloAck(attempt=1))
                elif request.HasField("report"):
                    yield ack(request.report.seq, rejections=[
                        ingest.Rejection(seq=request.report.seq, summary_index=i, code=12,
                                         reason="summaries[*]: found an unknown payload")
                        for i, s in enumerate(request.report.summaries) if s.HasField("qk_gram")])

        daemon = self.daemon(older)
        warnings = self.train_beside(daemon.address)
        self.assertTrue(self.closed)
        client = self.stats.client
        self.assertEqual((client.committed, client.dropped, client.streams), (STEPS, 0, 1))
        grams = [s for r in daemon.reports for s in r.summaries if s.HasField("qk_gram")]
        self.assertEqual(client.rejected_summaries, len(grams))
        self.assertGreater(len(grams), 1)
        self.assertEqual(len(warnings), 1, warnings)
        self.assertIn("foreshockd did not take summaries[*]: found an unknown payload (said once)",
                      warnings[0])

    def test_what_answers_knows_no_such_rpc(self):
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)
        self.close_seconds = 0.5
        warnings = self.train_beside(f"127.0.0.1:{port}", queue_reports_max=5)
        self.assertFalse(self.closed)
        client = self.stats.client
        self.assertEqual(client.drops, {"queue_full": STEPS - 5, "closed": 5})
        self.assertEqual(self.stats.dropped, STEPS)
        self.assertTrue(client.last_error.startswith("UNIMPLEMENTED"), client.last_error)
        about = [w for w in warnings if "knows no foreshock.v1.IngestService" in w]
        self.assertEqual(len(about), 1, warnings)
        self.assertEqual(len(warnings), 3, warnings)  # this, and one for each kind of drop


class Newer(Case):
    def test_unknown_fields_values_and_answers_are_passed_over(self):
        def newer_daemon(daemon, number, requests, context):
            for request in requests:
                if request.HasField("hello"):
                    said = hello_ack().hello_ack
                    said.hints.add(kind=999, every_steps=3)
                    said.limits.CopyFrom(newer(said.limits))
                    yield newer(ingest.PushResponse(hello_ack=newer(said)))
                    yield newer(ingest.PushResponse())  # a kind of answer of its own
                elif request.HasField("report"):
                    seq = request.report.seq
                    rejected = newer(ingest.Rejection(seq=seq, summary_index=0, code=4711,
                                                      reason="of a newer kind"))
                    said = ingest.Ack(seq=seq, rejections=[rejected] if seq == 3 else [])
                    yield newer(ingest.PushResponse(ack=newer(said)))

        warnings = self.train_beside(self.daemon(newer_daemon).address)
        self.assertTrue(self.closed)
        client = self.stats.client
        self.assertEqual((client.committed, client.dropped, client.streams), (STEPS, 0, 1))
        self.assertEqual((client.rejected_summaries, client.rejections), (1, ["of a newer kind"]))
        self.assertEqual(len(warnings), 1, warnings)

    def test_a_report_rejected_with_an_unknown_code_is_counted(self):
        def refuses_one(daemon, number, requests, context):
            for request in requests:
                if request.HasField("hello"):
                    yield hello_ack()
                elif request.HasField("report"):
                    seq = request.report.seq
                    bad = [ingest.Rejection(seq=seq, code=4711, reason="phase: not any more")]
                    yield ack(seq, rejections=bad if seq == 2 else [])

        self.train_beside(self.daemon(refuses_one).address)
        client = self.stats.client
        self.assertEqual((client.committed, client.drops), (STEPS - 1, {"rejected": 1}))


if __name__ == "__main__":
    unittest.main(verbosity=2)
