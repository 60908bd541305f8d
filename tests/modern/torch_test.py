#!/usr/bin/env python3
"""torch 2: what is compiled is heard as what is not, with no more graphs and no break in one."""

import os
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

import foreshock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parent / "support/python")]
import capture_reader  # noqa: E402
import standins  # noqa: E402
from standins import Decoder, batch, train_step  # noqa: E402

SAMPLING = {"router": {"every": 2, "weights_every": 2, "coactivation_every": 4},
            "spectra": {"every": 2, "groups": 1, "heads": 0}, "gradients": {"every": 2},
            "logits": {"every": 2}}  # fmt: skip
STEPS = 6


def without_reentry(layer, x):
    return checkpoint(layer, x, use_reentrant=False)


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_modern_")
        self.addCleanup(temporary.cleanup)
        self.path = os.path.join(temporary.name, "run.jsonl")
        torch._dynamo.reset()

    def watch(self, model, optimizer=None, **options):
        options = {"sampling": SAMPLING, **options}
        return foreshock.watch(model, optimizer, run="r", strict=True,
                               recorder=foreshock.Recorder(self.path), **options)

    def sent(self):
        """{(kind, step, layer): array} of what was sent, scalars aside."""
        found = {}
        for report in capture_reader.reports(self.path):
            for summary in report.summaries:
                kind = summary.WhichOneof("payload")
                tensor = {"router_gates": "scores", "router_load": "counts", "qk_gram": "gram_a",
                          "router_weights": "weights", "router_coactivation": "pair_counts",
                          "attention_logits": "logits"}.get(kind)
                if tensor is None:
                    continue
                payload = getattr(summary, kind)
                value = getattr(payload, tensor)
                dtype = {1: "<f8", 2: "<f4", 5: "<i4", 6: "<i8"}.get(value.dtype, "<i8")
                found[kind, report.step, payload.layer] = np.frombuffer(value.data, dtype)
        os.remove(self.path)
        return found


class Compiled(Case):
    def train(self, how, backend, checkpointed, watched):
        """(losses, graphs, breaks) of a training that is compiled as a whole, by layers or not."""
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        torch.manual_seed(3)
        model = Decoder(checkpoint=without_reentry if checkpointed else None)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        run = model
        if how == "whole":
            run = torch.compile(model, backend=backend)
        elif how == "layers":
            for layer in model.layers:
                layer.compile(backend=backend)
        monitor = self.watch(run, optimizer) if watched else None
        if monitor is not None:
            for number, layer in enumerate(model.layers):
                number = torch.tensor(number) if how == "layers" else number
                layer.self_attn.tap = lambda q, k, n=number: monitor.attention(n, q, k)
        losses = []
        for step in range(STEPS):
            loss, norm = train_step(run, optimizer, step)
            losses.append(loss.item())
            if monitor is not None:
                monitor.step(step, loss=loss, grad_norm=norm)
        counters = torch._dynamo.utils.counters
        if monitor is not None:
            monitor.close()
            self.assertEqual(monitor.stats().errors, 0, monitor.stats())
        return (losses, counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()))

    def eager(self, checkpointed):
        alone, *_ = self.train("eager", "", checkpointed, False)
        watched, *_ = self.train("eager", "", checkpointed, True)
        self.assertEqual(alone, watched)
        sent = self.sent()
        self.assertEqual(sorted({kind for kind, *_ in sent}),
                         ["attention_logits", "qk_gram", "router_coactivation", "router_gates",
                          "router_load", "router_weights"])
        return sent

    def test_as_a_whole_and_by_layers_with_and_without_checkpointing(self):
        """aot_eager computes as eager mode does, so everything that is sent is the same."""
        for checkpointed in (False, True):
            expected = self.eager(checkpointed)
            for how in ("whole", "layers"):
                with self.subTest(how, checkpointed=checkpointed):
                    alone = self.train(how, "aot_eager", checkpointed, False)
                    watched = self.train(how, "aot_eager", checkpointed, True)
                    self.assertEqual(alone, watched)  # losses bit by bit, graphs, breaks
                    self.assertGreater(alone[1], 0)
                    self.assertEqual(watched[2], 0)
                    sent = self.sent()
                    self.assertEqual(sorted(sent), sorted(expected))
                    for key, values in sent.items():
                        np.testing.assert_array_equal(values, expected[key], str(key))

    def test_compiled_for_good(self):
        expected = self.eager(False)
        _, graphs, breaks = self.train("whole", "inductor", False, True)
        self.assertEqual((graphs, breaks), (1, 0))
        sent = self.sent()
        self.assertEqual(sorted(sent), sorted(expected))
        for key, values in sent.items():
            if values.dtype.kind == "i":  # a choice may tip over
                self.assertEqual(values.sum(), expected[key].sum(), key)
            elif key[0] != "qk_gram":  # differences of weights that nearly agree
                np.testing.assert_allclose(values, expected[key], rtol=1e-3, atol=1e-4,
                                           err_msg=str(key))

    def test_a_model_that_ran_before_it_is_watched_is_said_to_be_silent(self):
        model = Decoder()
        run = torch.compile(model, backend="aot_eager")
        run(batch(0)[0])
        monitor = self.watch(run, sampling={"router": {"every": 1}})
        with self.assertLogs("foreshock", "WARNING") as log:
            for step in range(4):
                run(batch(step)[0])
                monitor.step(step)
        monitor.close()
        self.assertEqual(len(log.output), 1, log.output)
        self.assertIn("call watch() before the first forward of a compiled model", log.output[0])


class Training(Case):
    def weights(self, model):
        return [layer.self_attn.q_proj.weight.detach().double().numpy().copy()
                for layer in model.layers]

    def loads(self, sent):
        return {key: int(counts.sum()) for key, counts in sent.items() if key[0] == "router_load"}

    def test_optimizers_fused_and_foreach(self):
        for options in ({"fused": True}, {"foreach": True}, {"foreach": False}):
            with self.subTest(**options):
                torch.manual_seed(3)
                model = Decoder()
                optimizer = torch.optim.AdamW(model.parameters(), 1e-2, **options)
                monitor = self.watch(model, optimizer)
                for step in range(3):
                    loss, norm = train_step(model, optimizer, step)
                    if step == 0:
                        before = self.weights(model)
                    monitor.step(step, loss=loss, grad_norm=norm)
                monitor.close()
                sent = self.sent()
                for number, now in enumerate(self.weights(model)):
                    change = now - before[number]
                    gram = sent["qk_gram", 2, number].reshape(4, -1)[0]
                    diagonal = gram[[i * (i + 3) // 2 for i in range(8)]]
                    squares = (change[:8] ** 2).sum(1)
                    np.testing.assert_allclose(diagonal / diagonal.sum(), squares / squares.sum(),
                                               rtol=1e-9)

    def test_autocast_and_gradient_accumulation(self):
        torch.manual_seed(3)
        model = Decoder()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        monitor = self.watch(model, optimizer)
        for step in range(3):
            for micro in range(2):
                with torch.autocast("cpu", torch.bfloat16):
                    loss = model(batch(2 * step + micro)[0]).float().square().mean() / 2
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(step, loss=loss)
        monitor.close()
        self.assertEqual(monitor.stats().errors, 0)
        sent = self.sent()
        self.assertEqual(set(self.loads(sent).values()), {2 * 4 * 12 * 2})
        self.assertEqual(sent["router_gates", 2, 0].dtype, np.float32)

    def test_a_model_in_bfloat16(self):
        model = Decoder().to(torch.bfloat16)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        monitor = self.watch(model, optimizer)
        for step in range(3):
            loss, norm = train_step(model, optimizer, step)
            monitor.step(step, loss=loss, grad_norm=norm)
        monitor.close()
        self.assertEqual(monitor.stats().errors, 0)
        self.assertIn(("qk_gram", 2, 0), self.sent())


if __name__ == "__main__":
    unittest.main(verbosity=2)
