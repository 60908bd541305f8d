#!/usr/bin/env python3
"""foreshock.Client: what it sends, keeps, drops and survives, against a daemon of its own."""

import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc
import numpy as np

import foreshock
from foreshock import credentials, lifetime
from foreshock.reports import Names, build, split
from foreshock.v1 import ingest_pb2 as ingest
from foreshock.v1 import types_pb2 as types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fake_daemon import FakeDaemon, ack, faithful, hello_ack  # noqa: E402

NOWHERE = "127.0.0.1:1"  # nothing listens on port 1


class Case(unittest.TestCase):
    def daemon(self, behave=faithful):
        daemon = FakeDaemon(behave)
        self.addCleanup(daemon.stop)
        return daemon

    def client(self, server, **options):
        client = foreshock.Client("r", server, **options)
        self.addCleanup(client.close, timeout=0.1)
        return client


class Sending(Case):
    def test_reports_arrive_in_order_and_are_committed(self):
        daemon = self.daemon()
        client = self.client(daemon.address, model={"layers": 2, "attention": "gqa"})
        for step in range(20):
            self.assertTrue(client.report(step, {"loss": 2.0 - step}, tokens=7))
        self.assertTrue(client.flush(10))
        self.assertTrue(client.close("finished", 10))
        self.assertEqual([r.seq for r in daemon.reports], list(range(1, 21)))
        self.assertEqual([r.step for r in daemon.reports], list(range(20)))
        self.assertEqual(daemon.reports[3].summaries[0].scalars.values[0], -1.0)
        self.assertEqual(daemon.hellos[0].model.attention, types.ATTENTION_KIND_GQA)
        self.assertEqual(daemon.goodbyes[0].outcome, ingest.OUTCOME_FINISHED)
        stats = client.stats()
        self.assertEqual((stats.pushed, stats.committed, stats.dropped), (20, 20, 0))

    def test_a_name_is_declared_once_on_a_stream(self):
        daemon = self.daemon()
        client = self.client(daemon.address)
        client.report(0, {"loss": 1.0, "own": foreshock.Scalar(2.0, "s", "max", "rank", 3.0)})
        client.report(1, {"loss": 1.0})
        self.assertTrue(client.flush(10))
        first, second = (r.summaries[0].scalars for r in daemon.reports)
        declared = [(d.name, d.unit) for d in first.declare]
        self.assertEqual(declared, [("loss", "nats"), ("own", "s")])
        self.assertEqual(first.declare[1].scope, types.SCOPE_RANK)
        self.assertEqual(list(first.weights), [1.0, 3.0])
        self.assertEqual(len(second.declare), 0)

    def test_a_new_stream_sends_what_was_not_acknowledged_and_declares_again(self):
        def breaks_once(daemon, number, requests, context):
            for request in requests:
                if request.HasField("hello"):
                    yield hello_ack(0 if number == 1 else 2)
                elif number == 1 and request.report.seq == 4:
                    context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
                elif number == 2:
                    yield ack(request.report.seq)

        daemon = self.daemon(breaks_once)
        client = self.client(daemon.address)
        for step in range(4):
            client.report(step, {"loss": 1.0})
        self.assertTrue(client.flush(20))
        again = [r for r in daemon.reports if r.seq == 3]
        self.assertEqual(len(again), 2)
        self.assertEqual(len(again[1].summaries[0].scalars.declare), 1)
        stats = client.stats()
        self.assertEqual((stats.committed, stats.streams, stats.dropped), (4, 2, 0))
        self.assertEqual(stats.resent, 2)

    def test_large_reports_are_split_between_summaries(self):
        daemon = self.daemon()
        client = self.client(daemon.address, message_bytes_max=3000)
        summaries = [foreshock.payloads.router_weights(i, np.ones((4, 64), np.float32))
                     for i in range(5)]  # fmt: skip
        client.report(0, {"loss": 1.0}, summaries, tokens=9)
        self.assertTrue(client.flush(10))
        self.assertEqual([len(r.summaries) for r in daemon.reports], [3, 2, 1])
        self.assertEqual([r.last_of_step for r in daemon.reports], [False, False, True])
        self.assertEqual([r.tokens for r in daemon.reports], [9, 0, 0])

    def test_split_keeps_every_summary_and_the_limit(self):
        names = Names()
        summaries = [foreshock.payloads.router_load(i, np.arange(50)) for i in range(40)]
        report = build(names, 1, {"x": 1.0}, summaries, 5, "train", False, False, True, None)
        for limit in range(600, 6000, 700):
            parts = split(report, limit)
            self.assertLessEqual(max(p.ByteSize() for p in parts), limit)
            self.assertEqual(sum(len(p.summaries) for p in parts), 41)
            self.assertEqual([p.last_of_step for p in parts], [False] * (len(parts) - 1) + [True])


class Dropping(Case):
    def test_without_a_daemon_the_queue_fills_and_the_newest_are_dropped(self):
        client = self.client(NOWHERE, queue_reports_max=5)
        taken = [client.report(step, {"loss": 1.0}) for step in range(9)]
        self.assertEqual(taken, [True] * 5 + [False] * 4)
        stats = client.stats()
        self.assertEqual((stats.drops, stats.queue_reports), ({"queue_full": 4}, 5))
        self.assertFalse(client.close(timeout=0.2))
        self.assertEqual(client.stats().drops, {"queue_full": 4, "closed": 5})

    def test_the_queue_is_bounded_in_bytes(self):
        client = self.client(NOWHERE, queue_bytes_max=10_000)
        load = [foreshock.payloads.router_load(0, np.zeros(256, np.int64))]
        taken = sum(client.report(step, summaries=load) for step in range(100))
        self.assertEqual(taken, 4)
        self.assertLessEqual(client.stats().queue_bytes, 10_000)

    def test_a_refused_client_says_why_and_drops_everything(self):
        def refuses(daemon, number, requests, context):
            next(requests)
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "hello.run: found 'r'")
            yield

        daemon = self.daemon(refuses)
        client = self.client(daemon.address)
        client.report(0, {"loss": 1.0})
        self.assertTrue(client.flush(10))
        stats = client.stats()
        self.assertTrue(stats.refused)
        self.assertIn("hello.run: found 'r'", stats.last_error)
        self.assertFalse(client.report(1, {"loss": 1.0}))
        self.assertEqual(client.stats().drops, {"refused": 2})
        self.assertEqual(daemon.streams, 1)
        self.assertFalse(client.close(timeout=1))

    def test_a_report_rejected_for_now_goes_again_under_a_new_seq(self):
        def later(daemon, number, requests, context):
            for request in requests:
                if request.HasField("hello"):
                    yield hello_ack()
                elif request.report.seq == 1:
                    rejection = ingest.Rejection(seq=1, code=8, reason="store is full")
                    rejection.retry_delay.nanos = 1_000_000
                    yield ack(1, rejections=[rejection])
                else:
                    yield ack(request.report.seq)

        daemon = self.daemon(later)
        client = self.client(daemon.address)
        client.report(0, {"loss": 1.0})
        self.assertTrue(client.flush(10))
        self.assertEqual([r.seq for r in daemon.reports], [1, 2])
        stats = client.stats()
        self.assertEqual((stats.rejected_reports, stats.committed), (1, 1))
        self.assertEqual(stats.rejections, ["store is full"])

    def test_rejected_for_good_is_dropped_and_the_reason_kept(self):
        def never(daemon, number, requests, context):
            for request in requests:
                if request.HasField("hello"):
                    yield hello_ack()
                else:
                    yield ack(request.report.seq, rejections=[
                        ingest.Rejection(seq=request.report.seq, code=3, reason="phase: found 9")])

        client = self.client(self.daemon(never).address)
        client.report(0, {"loss": 1.0})
        self.assertTrue(client.flush(10))
        self.assertEqual(client.stats().drops, {"rejected": 1})
        self.assertEqual(client.stats().rejections, ["phase: found 9"])

    def test_what_is_said_once_is_not_said_again_for_every_step(self):
        def never(daemon, number, requests, context):
            for request in requests:
                if request.HasField("hello"):
                    yield hello_ack()
                else:
                    report = request.report
                    yield ack(report.seq, rejections=[ingest.Rejection(
                        seq=report.seq, code=3,
                        reason=f"step: found {report.step}, {0.5 * report.step:g} after the newest, "
                               f"{-1e-5 * (1 + report.step):g}")])

        client = self.client(self.daemon(never).address)
        with self.assertLogs("foreshock", "WARNING") as log:
            for step in range(5):
                client.report(step, {"loss": 1.0})
            self.assertTrue(client.flush(10))
        said = [line for line in log.output if "did not take step" in line]
        self.assertEqual(len(said), 1, log.output)
        self.assertIn("found 0, 0 after the newest, -1e-05 (said once)", said[0])
        self.assertEqual(len(client.stats().rejections), 5)

    def test_a_message_over_a_limit_on_the_way_is_given_up(self):
        def too_large(daemon, number, requests, context):
            for request in requests:
                if request.HasField("hello"):
                    yield hello_ack()
                elif len(request.report.summaries) > 1:
                    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max")
                else:
                    yield ack(request.report.seq)

        client = self.client(self.daemon(too_large).address)
        load = [foreshock.payloads.router_load(0, np.ones(8))] * 2
        client.report(0, {"loss": 1.0}, load)
        client.report(1, {"loss": 1.0})
        self.assertTrue(client.flush(20))
        stats = client.stats()
        self.assertEqual((stats.drops, stats.committed), ({"too_large": 1}, 1))


class LyingAndStalling(Case):
    def lie(self, answer):
        def lies(daemon, number, requests, context):
            if number > 1:
                yield from faithful(daemon, number, requests, context)
                return
            next(requests)
            yield from answer
            for _ in requests:
                pass

        daemon = self.daemon(lies)
        client = self.client(daemon.address)
        client.report(0, {"loss": 1.0})
        self.assertTrue(client.flush(20))
        self.assertEqual(client.stats().committed, 1)
        return client.stats().last_error

    def test_an_ack_of_what_was_never_sent_ends_the_stream(self):
        self.assertIn("an Ack of seq 99", self.lie([hello_ack(), ack(99)]))

    def test_a_hello_ack_from_the_future_ends_the_stream(self):
        self.assertIn("last_committed_seq is 7", self.lie([hello_ack(7)]))

    def test_an_ack_before_the_hello_ack_ends_the_stream(self):
        self.assertIn("before the HelloAck", self.lie([ack(1)]))

    def test_an_empty_response_ends_the_stream(self):
        self.assertIn("without a message", self.lie([hello_ack(), ingest.PushResponse()]))

    def test_close_ends_in_time_when_the_daemon_never_answers(self):
        released = threading.Event()

        def stalls(daemon, number, requests, context):
            next(requests)
            yield hello_ack()
            released.wait(60)

        daemon = self.daemon(stalls)
        self.addCleanup(released.set)
        client = self.client(daemon.address)
        for step in range(100):
            client.report(step, {"loss": 1.0})
        self.assertFalse(client.flush(0.1))
        self.assertFalse(client.close(timeout=0.3))
        self.assertEqual(client.stats().drops, {"closed": 100})


class Process(Case):
    def run_script(self, text, server):
        return subprocess.run([sys.executable, "-c", text, server], capture_output=True, text=True,
                              timeout=60, env=dict(os.environ), check=False)

    def test_a_forked_child_is_silent_and_the_parent_goes_on(self):
        daemon = self.daemon()
        done = self.run_script(
            "import os, sys, foreshock\n"
            "client = foreshock.Client('r', sys.argv[1])\n"
            "client.report(0, {'loss': 1.0}); client.flush(10)\n"
            "pid = os.fork()\n"
            "if pid == 0:\n"
            "    said = client.report(5, {'loss': 1.0})\n"
            "    ok = not said and client.stats().drops == {'forked': 2} and not client.close()\n"
            "    os._exit(0 if ok else 1)\n"
            "assert os.waitpid(pid, 0)[1] == 0\n"
            "client.report(1, {'loss': 1.0}); assert client.close(timeout=10)\n", daemon.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([r.step for r in daemon.reports], [0, 1])

    def test_interpreter_exit_delivers_and_says_finished(self):
        daemon = self.daemon()
        done = self.run_script("import sys, foreshock\n"
                               "client = foreshock.Client('r', sys.argv[1])\n"
                               "client.report(0, {'loss': 1.0})\n", daemon.address)
        self.assertEqual((done.returncode, done.stderr), (0, f"foreshock: {daemon.address}: "
                         "connected to foreshockd fake, run r, attempt 1\n"))
        self.assertEqual(len(daemon.reports), 1)
        self.assertEqual(daemon.goodbyes[0].outcome, ingest.OUTCOME_FINISHED)

    def test_an_exception_that_ends_the_program_says_failed(self):
        daemon = self.daemon()
        done = self.run_script("import sys, foreshock\n"
                               "client = foreshock.Client('r', sys.argv[1])\n"
                               "client.report(0, {'loss': 1.0})\n"
                               "raise RuntimeError('of the training')\n", daemon.address)
        self.assertEqual(done.returncode, 1)
        self.assertIn("of the training", done.stderr)
        self.assertEqual(daemon.goodbyes[0].outcome, ingest.OUTCOME_FAILED)

    def test_sigterm_says_preempted_and_ends_as_it_would_without_us(self):
        daemon = self.daemon()
        done = self.run_script("import os, signal, sys, foreshock, time\n"
                               "client = foreshock.Client('r', sys.argv[1])\n"
                               "client.report(0, {'loss': 1.0})\n"
                               "os.kill(os.getpid(), signal.SIGTERM)\n"
                               "time.sleep(60)\n", daemon.address)
        self.assertEqual(done.returncode, -15, done.stderr)
        self.assertEqual(daemon.goodbyes[0].outcome, ingest.OUTCOME_PREEMPTED)

    def test_at_exit_a_feeder_is_closed_before_what_it_feeds_and_each_once(self):
        closed = []

        class Thing:
            def __init__(self, name, feeds=None):
                self.name, self.feeds = name, feeds
                self.owner = lifetime.Owner(self)

            def close(self, outcome, timeout):
                closed.append(self.name)
                self.owner.release()
                if self.feeds is not None:
                    self.feeds.close(outcome, timeout)

        for pair in range(8):
            sink = Thing(f"sink {pair}")
            setattr(self, f"pair{pair}", Thing(f"feeder {pair}", sink))
        lifetime.close_all("finished", 1.0)
        self.assertEqual(closed, [f"{what} {pair}" for pair in range(7, -1, -1)
                                  for what in ("feeder", "sink")])

    def test_a_handler_of_the_program_is_left_alone(self):
        done = self.run_script("import signal, sys, foreshock\n"
                               "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                               "client = foreshock.Client('r', sys.argv[1])\n"
                               "assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN\n"
                               "client.close(timeout=0.1)\n", NOWHERE)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_client_does_not_travel_to_another_process(self):
        client = self.client(NOWHERE)
        with self.assertRaisesRegex(TypeError, "make one in each"):
            pickle.dumps(client)


class BadInput(Case):
    def refused(self, message, **options):
        arguments = {"run": "r", "server": NOWHERE, **options}
        with self.assertRaisesRegex(ValueError, message):
            foreshock.Client(**arguments)

    def test_arguments_are_refused_with_what_is_allowed(self):
        self.refused("run is ''; allowed: 1 to 256 bytes", run="")
        self.refused("server is 'monitor'; allowed: host:port", server="monitor")
        self.refused("server is ':80'; allowed: host:port", server=":80")
        self.refused("server is 'h:99999'; allowed", server="h:99999")
        self.refused("rank is 3; allowed: 0..1", rank=3, world_size=2)
        self.refused("coordinates has \\['tp'\\]; allowed: data, tensor", coordinates={"tp": 1})
        self.refused("model.attention is 'x'; allowed", model={"attention": "x"})
        self.refused("allowed: layers, heads", model={"depth": 3})
        self.refused("queue_bytes_max is 0", queue_bytes_max=0)
        self.refused("launch_id is not given", rank=0, world_size=2)

    def test_reports_are_refused_with_what_is_allowed(self):
        client = self.client(NOWHERE)
        for message, step, scalars in [
            ("step is -1; allowed: 0", -1, {}),
            ("scalar is named 'Loss'; allowed", 0, {"Loss": 1.0}),
            ("scalar 'loss' is a str", 0, {"loss": "high"}),
            ("reduction of scalar 'x' is 'avg'; allowed: last", 0,
             {"x": foreshock.Scalar(1.0, reduction="avg")}),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                client.report(step, scalars)
        client.report(0, {"x": 1.0})
        with self.assertRaisesRegex(ValueError, "it was declared in 1"):
            client.report(1, {"x": foreshock.Scalar(1.0, "s")})

    def test_arrays_are_refused_with_what_is_allowed(self):
        for message, array in [("array of bool", np.ones(3, bool)), ("shape \\(0,\\)", np.ones(0)),
                               ("shape \\(\\)", np.float64(1))]:
            with self.assertRaisesRegex(ValueError, message):
                foreshock.payloads.tensor(array)


class PolicyMismatch(unittest.TestCase):
    def test_masked_pairs_are_taken(self):
        trainer = np.log(np.array([[0.5, 0.25], [0.1, 0.9]], np.float32))
        mask = np.array([[1, 0], [1, 1]])
        got = foreshock.policy_mismatch(trainer, trainer - 1, mask, routes=(8, 2)).policy_mismatch
        self.assertEqual(list(got.trainer_logprobs.shape), [3])
        self.assertEqual(np.frombuffer(got.trainer_logprobs.data, "<f4").tolist(),
                         trainer.reshape(-1)[[0, 2, 3]].tolist())
        self.assertEqual((got.routes_compared, got.routes_mismatched), (8, 2))

    def test_long_batches_are_thinned_evenly(self):
        values = -np.arange(10_000, dtype=np.float64)
        got = foreshock.policy_mismatch(values, values).policy_mismatch
        taken = np.frombuffer(got.trainer_logprobs.data, "<f8")
        self.assertEqual((len(taken), taken[0], taken[-1]), (4096, 0.0, -9999.0))

    def test_wrong_shapes_are_refused(self):
        for message, arguments in [("4 trainer and 3", (np.zeros(4), np.zeros(3))),
                                   ("a mask of 3", (np.zeros(4), np.zeros(4), np.ones(3))),
                                   ("no token", (np.zeros(4), np.zeros(4), np.zeros(4)))]:
            with self.assertRaisesRegex(ValueError, message):
                foreshock.policy_mismatch(*arguments)


class Credentials(Case):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_python_")
        self.addCleanup(temporary.cleanup)
        self.token = pathlib.Path(temporary.name) / "token"

    def test_the_token_is_read_again_for_every_stream(self):
        def behave(daemon, number, requests, context):
            if daemon.authorizations[number - 1] != "Bearer new":
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "revoked")
            yield from faithful(daemon, number, requests, context)

        self.token.write_text("old\n")
        daemon = self.daemon(behave)
        client = self.client(daemon.address, token_file=str(self.token))
        client.report(0, {"loss": 1.0})
        self.assertTrue(daemon.wait(lambda d: d.streams >= 2))
        self.assertIn("revoked", client.stats().last_error)
        self.assertFalse(client.stats().refused)
        self.token.write_text("new\n")
        self.assertTrue(client.close(timeout=20))
        self.assertEqual(set(daemon.authorizations), {"Bearer old", "Bearer new"})

    def test_a_missing_file_is_waited_for_and_named(self):
        daemon = self.daemon()
        client = self.client(daemon.address, token_file=str(self.token))
        client.report(0, {"loss": 1.0})
        while not client.stats().last_error:
            time.sleep(0.01)
        self.assertIn(f"token file {self.token}: No such file", client.stats().last_error)
        self.assertEqual(daemon.streams, 0)
        self.token.write_text("late")
        self.assertTrue(client.close(timeout=20))
        self.assertEqual(daemon.authorizations, ["Bearer late"])

    def test_without_credentials_nothing_is_shown(self):
        daemon = self.daemon()
        client = self.client(daemon.address)
        client.report(0, {"loss": 1.0})
        self.assertTrue(client.close(timeout=20))
        self.assertEqual(daemon.authorizations, [""])

    def test_what_can_never_work_is_refused(self):
        for wrong in ({"cert_file": "b"}, {"key_file": "c"}, {"cert_file": "b", "key_file": "c"}):
            with self.assertRaisesRegex(ValueError, "cert_file"):
                foreshock.Client("r", NOWHERE, **wrong)

    def test_secrets_are_not_in_what_is_printed(self):
        self.token.write_text("topsecret")
        read = credentials.Credentials.of(token_file=str(self.token)).read()
        self.assertEqual(read.token, "topsecret")
        self.assertNotIn("topsecret", repr(read))


if __name__ == "__main__":
    unittest.main(verbosity=2)
