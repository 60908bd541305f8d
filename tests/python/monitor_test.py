#!/usr/bin/env python3
"""foreshock.watch and Monitor: what is sampled when, and that nothing of it disturbs a training."""

import copy
import io
import json
import math
import os
import pathlib
import pickle
import sys
import tempfile
import unittest

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

import foreshock
from foreshock import choices
from foreshock.discovery import discover
from foreshock.sampling import Sampling, load
from foreshock.v1 import capture_pb2 as capture
from google.protobuf import json_format

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import standins  # noqa: E402
from standins import Decoder, batch, train_step  # noqa: E402

# Of three tokens and four experts.
LOGITS = torch.tensor([[2.0, -1.0, 1.0, 0.0], [-1.0, 2.0, 0.0, 1.0], [1.0, 0.0, 2.0, -1.0]])


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_python_")
        self.addCleanup(temporary.cleanup)
        self.path = os.path.join(temporary.name, "run.jsonl")

    def watch(self, model, optimizer=None, **options):
        options = {"run": "r", "strict": True, "recorder": foreshock.Recorder(self.path), **options}
        self.monitor = foreshock.watch(model, optimizer, **options)
        self.addCleanup(self.monitor.close)
        return self.monitor

    def records(self):
        self.monitor.close()
        with open(self.path) as file:
            return [json_format.ParseDict(json.loads(line), capture.CaptureRecord()).message
                    for line in file]

    def reports(self):
        return [m.report for m in self.records() if m.HasField("report")]

    def summaries(self, kind):
        """(step, summary) of one kind."""
        return [(r.step, getattr(s, kind)) for r in self.reports() for s in r.summaries
                if s.HasField(kind)]

    def train(self, steps, model=None, first=0, **options):
        model = model or Decoder()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        monitor = self.watch(model, optimizer, **options)
        for step in range(first, first + steps):
            loss, norm = train_step(model, optimizer, step)
            monitor.step(step, loss=loss, grad_norm=norm, tokens=48)
        return model

    def scalars(self):
        """{name: {step: value}}"""
        names, found = {}, {}
        for report in self.reports():
            for summary in report.summaries:
                batch_ = summary.scalars
                names.update({d.id: d.name for d in batch_.declare})
                for i, value in zip(batch_.ids, batch_.values):
                    found.setdefault(names[i], {})[report.step] = value
        return found


class Sampled(Case):
    def test_each_tier_at_its_own_steps(self):
        self.train(41, sampling={"spectra": {"every": 10, "groups": 2, "heads": 2},
                                 "router": {"every": 4, "weights_every": 20},
                                 "gradients": {"every": 8}, "phase": 1})
        grams = [(step, g.layer, g.base_step, list(g.heads))
                 for step, g in self.summaries("qk_gram")]
        self.assertEqual(grams, [(11, 0, 1, [1, 3]), (16, 1, 6, [1, 3]), (21, 0, 11, [1, 3]),
                                 (26, 1, 16, [1, 3]), (31, 0, 21, [1, 3]), (36, 1, 26, [1, 3])])
        gates = sorted({step for step, _ in self.summaries("router_gates")})
        self.assertEqual(gates, list(range(1, 41, 4)))
        self.assertEqual(sorted({s for s, _ in self.summaries("router_weights")}), [1, 21])
        scalars = self.scalars()
        self.assertEqual(sorted(scalars["loss"]), list(range(41)))
        self.assertEqual(sorted(scalars["grad_norm_q"]), list(range(1, 41, 8)))
        self.assertEqual(scalars["lr"][3], 1e-2)
        self.assertEqual(scalars["tokens"][3], 48)

    def test_by_default_a_young_run_samples_weights_five_times_as_often_as_announced(self):
        self.train(35)
        grams = [(step, g.layer, g.base_step) for step, g in self.summaries("qk_gram")]
        self.assertEqual(grams, [(10, 0, 0), (12, 1, 2), (20, 0, 10), (22, 1, 12), (30, 0, 20),
                                 (32, 1, 22)])
        self.assertEqual(sorted({s for s, _ in self.summaries("router_weights")}), [0, 10, 20, 30])
        self.assertEqual({p.every_steps for p in self.records()[0].hello.plan}, {5, 50})

    def test_without_a_budget_the_table_holds(self):
        self.train(64, sampling={"budget": 0})
        self.assertEqual([step for step, _ in self.summaries("qk_gram")], [50, 62])

    def test_a_single_rank_with_coordinates_has_a_budget(self):
        self.train(24, coordinates={"data": 0, "tensor": 0}, rank=0, world_size=1)
        self.assertEqual([step for step, _ in self.summaries("qk_gram")], [10, 12, 20, 22])

    def test_ranks_that_may_share_layers_keep_to_the_table(self):
        self.train(64, coordinates={"tensor": 0}, rank=0, world_size=2, launch_id="l")
        self.assertEqual([step for step, _ in self.summaries("qk_gram")], [50, 62])

    def test_the_plan_says_what_is_sent(self):
        self.train(1, sampling={"spectra": {"every": 10, "groups": 2}})
        hello = self.records()[0].hello
        plan = [(p.kind, list(p.layers), p.every_steps, p.phase_step) for p in hello.plan]
        self.assertEqual(plan, [(4, [0], 10, 0), (4, [1], 10, 5), (5, [0, 1], 5, 0),
                                (7, [0, 1], 50, 0)])
        shape = hello.model
        self.assertEqual((shape.layers, shape.heads, shape.kv_heads, shape.head_dim,
                          shape.hidden_size, shape.experts, shape.top_k), (2, 4, 2, 8, 32, 4, 2))

    def test_a_resume_keeps_the_phase(self):
        self.train(25, first=1003, sampling={"spectra": {"every": 10, "groups": 1}},
                   resume_step=1003)
        self.assertEqual([s for s, g in self.summaries("qk_gram") if g.layer == 0], [1020])
        self.assertEqual(self.records()[0].hello.resume_step, 1003)
        self.assertEqual(min(s for s, _ in self.summaries("router_gates")), 1005)

    def test_scores_and_load_of_all_forwards_of_a_step(self):
        model = Decoder(depth=1)
        monitor = self.watch(model, sampling={"router": {"every": 2, "tokens": 64}})
        logits = []
        model.layers[0].mlp.gate.register_forward_hook(
            lambda module, inputs, output: logits.append(output.detach().reshape(-1, 4)))
        for step in range(3):
            logits.clear()
            for micro in range(2):  # gradient accumulation
                model(batch(10 * step + micro)[0])
            monitor.step(step)
        scores = self.summaries("router_gates")
        self.assertEqual([step for step, _ in scores], [0, 2])
        step, load_ = self.summaries("router_load")[-1]
        everything = torch.cat(logits)
        expected = torch.bincount(everything.topk(2).indices.flatten(), minlength=4)
        self.assertEqual(np.frombuffer(load_.counts.data, "<i8").tolist(), expected.tolist())
        got = np.frombuffer(scores[-1][1].scores.data, "<f4").reshape(-1, 4)
        self.assertEqual(len(got), 64)  # all 48 of the first, every third of the second
        np.testing.assert_allclose(got[:48], logits[0].numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(got[48:], logits[1].numpy()[::3], rtol=1e-5, atol=1e-6)

    def test_pairs_of_all_forwards_of_the_steps_that_are_due(self):
        model = Decoder(depth=2, count=6)
        for name in ("router", "pairs"):
            with self.subTest(name):
                sampling = {"router": {"every": 0, "coactivation_every": 3}}
                if name == "router":
                    sampling["router"]["every"] = 2
                monitor = self.watch(model, sampling=sampling)
                chosen = []
                hook = model.layers[1].mlp.gate.register_forward_hook(
                    lambda module, inputs, output: chosen.append(output.detach().topk(2).indices))
                expected = {}
                for step in range(7):
                    chosen.clear()
                    for micro in range(2):
                        model(batch(10 * step + micro)[0])
                    with monitor.eval():
                        model(batch(0)[0])
                    hits = torch.zeros(96, 6).scatter(1, torch.cat(chosen[:2]).reshape(-1, 2), 1.0)
                    expected[step] = (hits.T @ hits).long()
                    monitor.step(step)
                hook.remove()
                got = [(s, p) for s, p in self.summaries("router_coactivation") if p.layer == 1]
                self.assertEqual([(s, p.experts, p.tokens) for s, p in got],
                                 [(0, 6, 96), (3, 6, 96), (6, 6, 96)])
                for step, payload in got:
                    self.assertEqual(np.frombuffer(payload.pair_counts.data, "<i8").tolist(),
                                     expected[step][np.tril_indices(6, -1)].tolist())
                plan = {p.kind: (list(p.layers), p.every_steps)
                        for p in self.records()[0].hello.plan}
                self.assertEqual(plan[8], ([0, 1], 3))
                self.assertEqual(sorted({s for s, _ in self.summaries("router_load")}),
                                 [0, 2, 4, 6] if name == "router" else [])
                os.remove(self.path)

    def routed(self, form, prepare=lambda mlp: None):
        """(pairs and tokens of co-activation, expert load) of three tokens whose logits `form` makes
        the gate's output. Pairs (1,0), (2,0), (2,1), (3,0), (3,1), (3,2)."""
        model = Decoder(depth=1)
        mlp = model.layers[0].mlp
        prepare(mlp)
        mlp.gate.forward = lambda x: form(LOGITS)
        monitor = self.watch(model, sampling={"router": {"every": 1, "coactivation_every": 1}})
        mlp.gate(torch.randn(3, 32))
        monitor.step(0)
        read = lambda tensor: np.frombuffer(tensor.data, "<i8").tolist()
        got = ([(read(p.pair_counts), p.tokens) for _, p in self.summaries("router_coactivation")],
               [read(p.counts) for _, p in self.summaries("router_load")])
        os.remove(self.path)
        return got

    def test_what_was_chosen_is_read_off_whatever_a_gate_puts_out(self):
        chosen = torch.tensor([[2, 0], [1, 3], [0, 2]])
        routing = torch.zeros(3, 4, dtype=torch.bool).scatter(1, chosen, True)
        mask = torch.ones(3, 4, 4, dtype=torch.bool)  # token, expert, place among 4
        for name, form in {"logits": lambda logits: logits,
                           "indices": lambda logits: (chosen.int(), torch.ones(3, 2)),
                           "indices beside logits": lambda logits: (-logits, chosen),
                           "map": lambda logits: (-logits, routing),
                           "map and dispatch mask": lambda logits: (mask, routing),
                           "indices and a mask": lambda logits: (mask, chosen),
                           "indices twice": lambda logits: (chosen, chosen),
                           "indices and others": lambda logits: (torch.ones(5, 2).int(), chosen),
                           "probabilities": lambda logits: logits.softmax(-1)}.items():
            with self.subTest(name):
                self.assertEqual(self.routed(form), ([([0, 2, 0, 0, 1, 0], 3)], [[2, 1, 2, 1]]))

    def test_a_dropped_choice_counts_nowhere(self):
        routing = torch.tensor([[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0]], dtype=torch.bool)
        self.assertEqual(self.routed(lambda logits: (logits, routing)),
                         ([([0, 2, 0, 0, 0, 0], 2)], [[2, 1, 2, 0]]))

    def test_a_row_with_more_experts_than_k_counts_in_the_load_alone(self):
        routing = torch.tensor([[1, 0, 1, 0], [1, 1, 0, 1], [1, 0, 1, 0]], dtype=torch.bool)
        self.assertEqual(self.routed(lambda logits: (logits, routing)),
                         ([([0, 2, 0, 0, 0, 0], 2)], [[3, 1, 2, 1]]))

    def test_an_index_that_is_no_experts_number_counts_nowhere(self):
        for wrong in (4, -1, -9, 2**40):
            with self.subTest(wrong):
                chosen = torch.tensor([[2, 0], [1, wrong], [0, 2]])
                self.assertEqual(self.routed(lambda logits, chosen=chosen: chosen),
                                 ([([0, 2, 0, 0, 0, 0], 2)], [[2, 1, 2, 0]]))

    def test_what_was_chosen_is_read_off_without_waiting_for_a_device(self):
        layer = discover(Decoder(depth=1)).routers[0]
        layer.gate.register_buffer("correction", torch.empty(4, device="meta"))
        layer.bias_at, layer.groups, layer.groups_taken = (layer.gate, "correction"), 2, 1
        for dtype, columns in ((torch.bool, 4), (torch.int32, 2), (torch.float32, 4)):
            with self.subTest(dtype):  # reading a meta tensor would raise
                output = torch.empty(3, columns, dtype=dtype, device="meta")
                index, load = choices.told(layer, output, 3)
                self.assertEqual((index.shape, index.dtype), ((3, 2), torch.int64))
                self.assertEqual((load.shape, load.dtype), ((4,), torch.int64))

    def test_a_correction_bias_chooses_with_the_scores_wherever_it_is_kept(self):
        # Sigmoid of the logits: [.88 .27 .73 .5], [.27 .88 .5 .73], [.73 .5 .88 .27]; with the bias
        # expert 1 takes a place in each. Softmax of the first: [.64 .03 .24 .09].
        bias = torch.tensor([0.0, 0.5, 0.0, 0.0])
        for holder in ("gate", "block"):
            for score, strength in (("sigmoid", 1), ("softmax", 1), ("sigmoid", 0)):
                def prepare(mlp, holder=holder, score=score, strength=strength):
                    kept = mlp.gate if holder == "gate" else mlp
                    kept.register_buffer("expert_bias" if holder == "block" else
                                         "e_score_correction_bias", strength * bias)
                    mlp.gate.scoring_func = score
                with self.subTest(holder=holder, score=score, strength=strength):
                    corrected = ([([1, 0, 1, 0, 1, 0], 3)], [[1, 3, 1, 1]])
                    plain = ([([0, 2, 0, 0, 1, 0], 3)], [[2, 1, 2, 1]])
                    expected = corrected if strength else plain
                    self.assertEqual(self.routed(lambda logits: logits, prepare), expected)

    def test_a_correction_bias_is_added_to_probabilities_as_they_are(self):
        # Sigmoids as above; softmax [.64 .03 .24 .09], [.03 .64 .09 .24], [.24 .09 .64 .03]. The
        # score function once more brings a row within .17, and expert 1 would win by its bias.
        for score, strength in (("sigmoid", 0.2), ("softmax", 0.12)):
            def prepare(mlp, score=score, strength=strength):
                mlp.gate.register_buffer("e_score_correction_bias",
                                         torch.tensor([0.0, strength, 0.0, 0.0]))
                mlp.gate.scoring_func = score
            apply = torch.sigmoid if score == "sigmoid" else lambda logits: logits.softmax(-1)
            for form in (lambda logits: logits, apply):
                with self.subTest(score=score, applied=form is apply):
                    self.assertEqual(self.routed(form, prepare),
                                     ([([0, 2, 0, 0, 1, 0], 3)], [[2, 1, 2, 1]]))

    def test_groups_limit_the_choice_as_in_the_published_models(self):
        # Groups {0, 1} and {2, 3}, a token takes one. Sigmoids: [.88 .27 .73 .5], [.27 .88 .5 .73],
        # [.73 .5 .88 .27]: by their best expert the tokens take groups 0, 0, 1; by the sums of both,
        # [1.15 1.23], [1.15 1.23], [1.23 1.15], groups 1, 1, 0.
        for bias, pairs, load in ((None, [2, 0, 0, 0, 0, 1], [2, 2, 1, 1]),
                                  (torch.zeros(4), [1, 0, 0, 0, 0, 2], [1, 1, 2, 2])):
            def prepare(mlp, bias=bias):
                mlp.n_group, mlp.topk_group, mlp.gate.scoring_func = 2, 1, "sigmoid"
                if bias is not None:
                    mlp.gate.register_buffer("e_score_correction_bias", bias)
            with self.subTest(bias is not None):
                self.assertEqual(self.routed(lambda logits: logits, prepare), ([(pairs, 3)], [load]))

    def test_a_choice_that_cannot_be_known_is_not_sent_and_said_once(self):
        def in_groups(mlp):
            mlp.n_group = 2
        for form, prepare, why in (
                (lambda logits: logits, in_groups, "of its 2 groups of experts it is not known"),
                (lambda logits: logits[:, :3], lambda mlp: None, "nor a routing map"),
                (lambda logits: logits.repeat(2, 1), lambda mlp: None, "neither scores"),
                (lambda logits: logits.int(), lambda mlp: None, "neither scores"),
                (lambda logits: torch.ones(3, 4, 4).bool(), lambda mlp: None, "nor a routing map"),
                (lambda logits: torch.ones(5, 2).int(), lambda mlp: None, "nor chosen experts"),
                (lambda logits: (torch.ones(3, 2).int(), torch.ones(3, 2).long()),
                 lambda mlp: None, "puts out 2 tensors [tokens, 2]"),
                (lambda logits: (logits > 0, logits > 1), lambda mlp: None,
                 "puts out 2 tensors [tokens, 4]")):
            with self.subTest(why), self.assertLogs("foreshock", "WARNING") as log:
                self.assertEqual(self.routed(form, prepare), ([], []))
                self.assertEqual(len([line for line in log.output if why in line]), 1)

    def test_pairs_where_one_expert_is_chosen(self):
        model = Decoder(depth=1)
        model.layers[0].mlp.top_k = 1
        with self.assertLogs("foreshock", "WARNING") as log:
            monitor = self.watch(model, sampling={"router": {"coactivation_every": 1}})
        self.assertIn("no router is known to choose two experts", log.output[0])
        model(batch(0)[0])
        monitor.step(0)
        self.assertEqual(self.summaries("router_coactivation"), [])
        self.assertEqual(len(self.summaries("router_load")), 1)

    def test_gradient_shares_are_those_before_clipping(self):
        model = Decoder()
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        monitor = self.watch(model, optimizer, sampling={"gradients": {"every": 1}})
        inputs, targets = batch(0)
        loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        parts = torch.cat([l.self_attn.q_proj.weight.grad.flatten() for l in model.layers])
        expected = float(parts.norm())
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), float(parts.norm()) / 10)
        monitor.step(0, loss=loss, grad_norm=norm)
        self.assertAlmostEqual(self.scalars()["grad_norm_q"][0] / expected, 1, places=5)

    def test_gradients_taken_before_they_are_cleared(self):
        model = Decoder()
        monitor = self.watch(model, sampling={"gradients": {"every": 1}})
        for clear_early in (False, True):
            model(batch(0)[0]).sum().backward()
            if clear_early:
                monitor.gradients()
                model.zero_grad(set_to_none=True)
            monitor.step(int(clear_early))
            model.zero_grad(set_to_none=True)
        norms = self.scalars()
        for name in ("grad_norm", "grad_norm_k", "grad_norm_router"):
            self.assertEqual(norms[name][0], norms[name][1], name)

    def test_gradient_norms_go_on_when_a_weight_is_replaced(self):
        model = Decoder(depth=1)
        monitor = self.watch(model, sampling={"gradients": {"every": 1}})
        monitor.step(0)  # no gradients yet: nothing is said of them
        attention = model.layers[0].self_attn
        attention.q_proj.weight = torch.nn.Parameter(2 * attention.q_proj.weight.detach())
        model(batch(0)[0]).sum().backward()
        monitor.step(1)
        grads = [p.grad for p in model.parameters()]
        expected = {"grad_norm": torch.cat([g.flatten() for g in grads]).norm(),
                    "grad_norm_q": attention.q_proj.weight.grad.norm(),
                    "grad_norm_router": model.layers[0].mlp.gate.weight.grad.norm()}
        for name, value in expected.items():
            self.assertEqual(list(self.scalars()[name]), [1])
            self.assertAlmostEqual(self.scalars()[name][1] / float(value), 1, places=5)

    def test_how_far_a_step_moves_the_parameters(self):
        model = Decoder()
        monitor = self.watch(model, sampling={"gradients": {"every": 4}})
        flat = lambda: torch.cat([p.detach().reshape(-1) for p in model.parameters()]).double()
        expected = {}
        for step in range(12):
            before = flat()
            with torch.no_grad():
                for p in model.parameters():
                    p.add_(torch.randn_like(p), alpha=0.01 * (step + 1))
            expected[step] = [float(x.square().mean().sqrt()) for x in (flat() - before, before)]
            monitor.step(step, skipped=step == 8)
        got = self.scalars()
        for name, place in (("update_rms", 0), ("param_rms", 1)):
            self.assertEqual(list(got[name]), [4])  # of 0 and 8 there is nothing to compare
            self.assertAlmostEqual(got[name][4] / expected[4][place], 1, places=6)

    def test_a_sample_of_many_parameters_stands_for_all(self):
        model = torch.nn.Sequential(*(torch.nn.Linear(n, 400) for n in (300, 700, 1200)))
        scale = {id(p): 0.01 * (1 + i) for i, p in enumerate(model.parameters())}
        monitor = self.watch(model, sampling={"gradients": {"every": 1}})
        squares = count = 0.0
        for step in range(2):
            for p in model.parameters():
                with torch.no_grad():
                    change = torch.randn_like(p) * scale[id(p)]
                    p.add_(change)
                if step == 1:
                    squares, count = squares + float(change.square().sum()), count + p.numel()
            monitor.step(step)
        self.assertAlmostEqual(self.scalars()["update_rms"][1] / math.sqrt(squares / count), 1,
                               delta=4 / math.sqrt(2 * 65536))  # 4 sigma of a sample's rms

    def test_the_optimizer_is_named_in_a_label(self):
        model = Decoder()
        for optimizer, expected in (
                (torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
                 "SGD(momentum=0.9, dampening=0, weight_decay=0)"),
                (torch.optim.AdamW(model.parameters(), 0.1, betas=(0.9, 0.95), amsgrad=True),
                 "AdamW(betas=(0.9, 0.95), eps=1e-08, weight_decay=0.01, amsgrad=True)")):
            self.watch(model, optimizer, labels={"team": "x"})
            labels = dict(self.records()[0].hello.labels)
            os.remove(self.path)
            self.assertEqual(labels["team"], "x")
            name, _, settings = labels["optimizer"].partition("(")
            wanted, _, rest = expected.partition("(")
            self.assertEqual(name, wanted)
            for setting in rest.rstrip(")").split(", "):
                self.assertIn(setting, settings)
        self.watch(model, optimizer, labels={"optimizer": "mine"})
        self.assertEqual(dict(self.records()[0].hello.labels), {"optimizer": "mine"})

    def test_forwards_without_gradients_beside_those_of_the_training(self):
        """A rollout, old or reference log-probabilities of the policy itself."""
        model = Decoder()
        monitor = self.watch(model, sampling={"router": {"every": 1}})
        with torch.no_grad():
            model(batch(0)[0])
        model(batch(1)[0])
        monitor.step(0)
        with torch.no_grad():
            model(batch(2)[0])  # there is no other: reentrant checkpointing has only such
        monitor.step(1)
        sums = [np.frombuffer(load_.counts.data, "<i8").sum()
                for _, load_ in self.summaries("router_load")]
        self.assertEqual(sums, [4 * 12 * 2] * 4)

    def test_logits_that_the_model_hands_over(self):
        model = Decoder()
        monitor = self.watch(model, sampling={"logits": {"every": 2, "rows": 4}})
        for number, layer in enumerate(model.layers):
            layer.self_attn.tap = lambda q, k, n=number: monitor.attention(n, q, k)
        for step in range(3):
            model(batch(step)[0])
            monitor.step(step)
        got = self.summaries("attention_logits")
        self.assertEqual([(s, l.layer) for s, l in got], [(0, 0), (0, 1), (2, 0), (2, 1)])
        block = np.frombuffer(got[0][1].logits.data, "<f4").reshape(4, 4, 12)
        self.assertEqual(list(got[0][1].heads), [0, 1, 2, 3])
        self.assertTrue(np.isfinite(block[0, -1]).all())
        self.assertEqual(np.isinf(block[0, 0]).tolist(), [False] + [True] * 11)

    def test_scalars_that_live_on_a_device_are_not_read_in_the_step(self):
        from foreshock.packer import Job

        job = Job(0)
        value = torch.empty((), device="meta")
        job.add_scalar("loss", value, foreshock.Scalar(0.0))  # reading a meta tensor would raise
        self.assertEqual(len(job._device_values), 1)

    def test_fp32_masters_are_read_where_the_optimizer_keeps_them(self):
        model = Decoder(depth=1).to(torch.bfloat16)
        for p in model.parameters():
            p.main_param = p.detach().float().clone()
        monitor = self.watch(model, sampling={"spectra": {"every": 1}})
        for step in range(2):
            monitor.step(step)
            for p in model.parameters():
                p.main_param += 1e-6  # far below the grid of bfloat16
        gram = self.summaries("qk_gram")[0][1]
        self.assertTrue(gram.fp32_master)
        self.assertEqual(gram.weight_dtype, 2)
        self.assertGreater(np.frombuffer(gram.gram_a.data, "<f8")[0], 0)


class Undisturbed(Case):
    def losses(self, watched, checkpointed=None):
        torch.manual_seed(3)
        model = Decoder(checkpoint=checkpointed)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        monitor = self.watch(model, optimizer) if watched else None
        losses = []
        for step in range(30):
            loss, norm = train_step(model, optimizer, step)
            losses.append(loss.item())
            if monitor is not None:
                monitor.step(step, loss=loss, grad_norm=norm)
        return losses

    def test_losses_are_the_same_bit_for_bit(self):
        self.assertEqual(self.losses(False), self.losses(True))

    def test_a_step_without_samples_costs_the_same_whatever_the_model(self):
        counts = [self.calls_of_a_step(Decoder(depth=depth)) for depth in (4, 12)]  # of 4 groups
        self.assertEqual(counts[0], counts[1])
        self.assertGreater(counts[0], 0)

    def calls_of_a_step(self, model):
        monitor = self.watch(model)
        for step in range(3):
            monitor.step(step, loss=1.0)
        calls = 0

        def count(frame, event, argument):
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        monitor.step(3, loss=1.0)
        sys.setprofile(None)
        monitor.close()
        os.remove(self.path)
        return calls

    def test_recomputed_forwards_are_not_counted_twice(self):
        for reentrant in (False, True):
            def recompute(layer, x, reentrant=reentrant):
                x.requires_grad_(True) if not x.requires_grad else None
                return checkpoint(layer, x, use_reentrant=reentrant)

            with self.subTest(reentrant=reentrant):
                self.train(3, model=Decoder(checkpoint=recompute),
                           sampling={"router": {"every": 1}})
                self.assertEqual(self.monitor.stats().recomputed, 6)  # 2 layers, 3 steps
                for _, load_ in self.summaries("router_load"):
                    self.assertEqual(np.frombuffer(load_.counts.data, "<i8").sum(), 4 * 12 * 2)
                os.remove(self.path)

    def test_a_copied_or_saved_model_takes_no_hook_with_it(self):
        model = Decoder()
        monitor = self.watch(model, sampling={"router": {"every": 1}})
        twin = copy.deepcopy(model)
        buffer = io.BytesIO()
        torch.save(model, buffer)
        buffer.seek(0)
        again = torch.load(buffer, weights_only=False)
        for other in (twin, again):
            other(batch(0)[0])
        monitor.step(0)
        self.assertEqual(self.summaries("router_gates"), [])

    def test_close_takes_the_hooks_away(self):
        model = Decoder()
        before = [len(m._forward_hooks) for m in model.modules()]
        self.watch(model)
        self.assertNotEqual(before, [len(m._forward_hooks) for m in model.modules()])
        self.monitor.close()
        self.assertEqual(before, [len(m._forward_hooks) for m in model.modules()])

    def test_evaluation_is_marked_and_not_sampled(self):
        model = Decoder()
        monitor = self.watch(model, sampling={"router": {"every": 1}})
        model(batch(0)[0])
        monitor.step(0, loss=1.0)
        with monitor.eval():
            model(batch(1)[0])
            monitor.step(0, loss=9.0)
        model.eval()
        model(batch(2)[0])  # outside, but the module says that it evaluates
        model.train()
        model(batch(3)[0])
        monitor.step(1, loss=2.0)
        reports = self.reports()
        self.assertEqual([(r.step, r.phase) for r in reports], [(0, 1), (0, 2), (1, 1)])
        self.assertEqual([len([s for s in r.summaries if s.HasField("router_load")])
                          for r in reports], [2, 0, 2])
        for _, load_ in self.summaries("router_load"):
            self.assertEqual(np.frombuffer(load_.counts.data, "<i8").sum(), 4 * 12 * 2)

    def test_events_travel_with_the_next_step(self):
        monitor = self.watch(Decoder())
        monitor.step(4)
        monitor.event("checkpoint_saved", name="ckpt-4")
        monitor.event("warmup_end", 5)
        monitor.step(5)
        self.assertEqual([(s, e.step, e.name) for s, e in self.summaries("event")],
                         [(5, 4, "ckpt-4"), (5, 5, "")])


class BadInput(Case):
    """Nothing of it raises out of the monitor, unless strict."""

    def test_steps_that_do_not_grow_are_ignored(self):
        monitor = self.watch(Decoder(), strict=False)
        for step in (5, 5, 4, -1, 2**60, "6", True, 6.5, None, np.int64(6)):
            monitor.step(step, loss=1.0)
        self.assertEqual([r.step for r in self.reports()], [5, 6])
        self.assertEqual(monitor.stats().steps_ignored, 8)

    def test_strict_raises(self):
        monitor = self.watch(Decoder())
        monitor.step(5)
        with self.assertRaisesRegex(ValueError, "the last one was 5; allowed: growing steps"):
            monitor.step(5)

    def test_values_that_are_no_numbers_are_counted_and_said(self):
        monitor = self.watch(Decoder(), strict=False)
        monitor.step(0, loss="high")
        monitor.step(1, loss=torch.ones(3))
        monitor.step(2, **{"Loss": 1.0})
        monitor.step(3, loss=1.0, grad_norm=math.nan, own=None)
        self.monitor.close()
        stats = monitor.stats()
        self.assertEqual(stats.errors, 3)
        self.assertEqual(stats.last_error, "step: ValueError: scalar is named 'Loss'; allowed: "
                         "[a-z][a-z0-9_]*, 128 at most")
        self.assertEqual([r.step for r in self.reports()], [0, 1, 2, 3])
        self.assertEqual(self.scalars()["loss"], {3: 1.0})

    def test_nothing_to_watch(self):
        with self.assertLogs("foreshock", "WARNING") as log:
            monitor = self.watch(torch.nn.Linear(2, 2))
        self.assertIn("found neither attention nor routers in Linear", log.output[0])
        monitor.step(0, loss=1.0)
        self.assertEqual(self.scalars()["loss"], {0: 1.0})

    def test_a_model_without_parameters(self):
        self.watch(torch.nn.Identity()).step(0, loss=1.0)
        self.assertEqual(len(self.reports()), 1)

    def test_empty_batches(self):
        model = Decoder()
        monitor = self.watch(model, sampling={"router": {"every": 1}})
        model(torch.zeros(0, 12, dtype=torch.long))
        monitor.step(0)
        self.assertEqual(self.summaries("router_gates"), [])

    def test_weights_that_change_their_shape_or_vanish(self):
        model = Decoder()
        monitor = self.watch(model, strict=False, sampling={"spectra": {"every": 1, "groups": 1}})
        monitor.step(0)
        attention = model.layers[0].self_attn
        attention.q_proj.weight = torch.nn.Parameter(torch.randn(32, 16))
        monitor.step(1, loss=1.0)
        del attention.k_proj
        monitor.step(2, loss=2.0)
        monitor.step(3, loss=3.0)
        self.assertEqual(sorted(self.scalars()["loss"]), [1, 2, 3])
        self.assertGreaterEqual(monitor.stats().errors, 1)

    def test_weights_that_are_not_finite_are_sent_as_they_are(self):
        model = Decoder(depth=1)
        monitor = self.watch(model, sampling={"spectra": {"every": 1}})
        monitor.step(0)
        with torch.no_grad():
            model.layers[0].self_attn.q_proj.weight[9, 0] = math.nan
        monitor.step(1, loss=math.inf)
        gram = self.summaries("qk_gram")[0][1]
        self.assertTrue(np.isnan(np.frombuffer(gram.gram_a.data, "<f8")).any())

    def test_two_watchers_of_one_model(self):
        model = Decoder(depth=1)
        first = self.watch(model, sampling={"router": {"every": 1}})
        second_path = self.path + ".2.jsonl"
        second = foreshock.watch(model, run="r2", recorder=foreshock.Recorder(second_path),
                                 strict=True)
        model(batch(0)[0])
        for monitor in (first, second):
            monitor.step(0, loss=1.0)
        second.close()
        self.assertEqual(len(self.summaries("router_load")), 1)
        self.assertIn("routerLoad", pathlib.Path(second_path).read_text())

    def test_after_close_nothing_happens(self):
        monitor = self.watch(Decoder())
        monitor.step(0)
        self.assertTrue(monitor.close())
        monitor.step(1)
        monitor.event("note", 1)
        monitor.gradients()
        self.assertFalse(monitor.close())
        self.assertEqual(len(self.reports()), 1)

    def test_a_hook_that_fails_does_not_break_the_forward(self):
        model = Decoder(depth=1)
        monitor = self.watch(model, strict=False, sampling={"router": {"every": 1}})
        gate = model.layers[0].mlp.gate
        weight = gate.weight
        gate.forward = lambda x: x @ weight.t()
        del gate.weight
        monitor.found.routers[0].hidden = 7  # which the tokens are not
        model(batch(0)[0])
        monitor.step(0, loss=1.0)
        self.assertEqual(monitor.stats().errors, 3)  # the hook, gradients, router weights
        self.assertEqual(self.scalars()["loss"], {0: 1.0})

    def test_a_forward_that_raised_leaves_no_trace(self):
        model = Decoder()
        monitor = self.watch(model, sampling={"router": {"every": 1}})
        with self.assertRaises(IndexError):
            model(torch.full((1, 12), 99))
        monitor.step(0)
        model(batch(1)[0])
        monitor.step(1)
        self.assertEqual(len(self.summaries("router_load")), 2)

    def test_a_monitor_does_not_travel(self):
        with self.assertRaisesRegex(TypeError, "call watch\\(\\) in each"):
            pickle.dumps(self.watch(Decoder()))

    def test_sampling_is_checked(self):
        for given, message in [
            ({"spectrum": {}}, "sampling has the key 'spectrum'; allowed: scalars, gradients"),
            ({"spectra": {"every": -1}}, "sampling.spectra.every is -1; allowed: a whole numb"),
            ({"spectra": 5}, "sampling.spectra is 5; allowed: a mapping with every"),
            ({"router": {"tokens": 0}}, "sampling.router.tokens is 0; allowed: a whole number, 1"),
            ({"phase": True}, "sampling.phase is True"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                load(given)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("spectra: {every: 20}\nphase: 3\n")
            file.flush()
            got = load(file.name)
        self.assertEqual((got.spectra.every, got.spectra.heads, got.phase), (20, 4, 3))
        self.assertEqual([s for s in range(70) if got.due(20, s, 5)], [8, 28, 48, 68])
        self.assertEqual(load(None), Sampling())

    def test_wrong_arguments_of_watch_are_refused_at_once(self):
        for options in ({"server": "nowhere"}, {"run": ""}, {"coordinates": {"tp": 0}}):
            with self.assertRaises(ValueError):
                foreshock.watch(Decoder(), **{"run": "r", "recorder": None, **options})
        for model, found in ((None, "NoneType"), ("llama", "str"), ([], "an empty list")):
            with self.assertRaisesRegex(ValueError, f"model is {found}; allowed: a torch.nn.Mod"):
                foreshock.watch(model, run="r")


class Shards(Case):
    def test_a_tensor_parallel_rank_sends_its_own_heads(self):
        model = standins.megatron(shards=2)
        monitor = self.watch(model, sampling={"spectra": {"every": 1, "groups": 1, "heads": 0}},
                             rank=1, world_size=2, coordinates={"tensor": 1}, launch_id="l")
        for step in range(2):
            monitor.step(step, loss=1.0)
        gram = self.summaries("qk_gram")[0][1]
        self.assertEqual(list(gram.heads), [3, 4, 5])
        self.assertEqual(self.summaries("router_weights"), [])  # tensor rank 0 has the same
        loss = [d for s in self.reports()[0].summaries for d in s.scalars.declare
                if d.name == "loss"]
        self.assertEqual(sorted(d.scope for d in loss), [1, 2])

    def test_data_ranks_send_tokens_of_their_own_and_rank_0_the_weights(self):
        model = Decoder(depth=1)
        monitor = self.watch(model, rank=1, world_size=2, launch_id="l",
                             sampling={"spectra": {"every": 1}, "router": {"every": 1}})
        for step in range(2):
            model(batch(step)[0])
            monitor.step(step, loss=1.0, tokens=48)
        kinds = {s.WhichOneof("payload") for r in self.reports() for s in r.summaries}
        self.assertEqual(kinds, {"scalars", "router_gates", "router_load"})
        self.assertEqual([p.kind for p in self.records()[0].hello.plan], [5])

    def test_token_shards_of_sequence_parallel_ranks(self):
        model = Decoder(depth=1)
        monitor = self.watch(model, rank=1, world_size=2, coordinates={"tensor": 1}, token_shard=7,
                             launch_id="l", sampling={"router": {"every": 1}})
        model(batch(0)[0])
        monitor.step(0)
        for kind in ("router_gates", "router_load"):
            self.assertEqual([x.token_shard for _, x in self.summaries(kind)], [7])


if __name__ == "__main__":
    unittest.main(verbosity=2)
