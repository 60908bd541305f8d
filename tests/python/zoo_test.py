#!/usr/bin/env python3
"""The zoo of the fault lab: what is trained is what it is called, and a fault does what it says."""

import contextlib
import dataclasses
import io
import json
import logging
import math
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client/python/examples"))
import fault_lab  # noqa: E402, F401; first: it settles how torch multiplies
import numpy as np  # noqa: E402
import torch  # noqa: E402
from foreshock.discovery import discover  # noqa: E402
from foreshock.recorder import Recorder  # noqa: E402
from lab import captures, optimizers, schedules, zoo  # noqa: E402
from lab.attention import OneHead, Rounding  # noqa: E402
from lab.faults import FAULTS, Knobs, knobs_at  # noqa: E402
from lab.images import Pictures  # noqa: E402
from lab.language import COPIED, VOCABULARY, read_language  # noqa: E402
from lab.parallel import Grid  # noqa: E402
from lab.settings import SETTINGS  # noqa: E402
from lab.trainer import Trainer  # noqa: E402

# By setting: how the package finds its attention, the layers of it, its routers.
FOUND = {
    "gqa": ("split q_proj, k_proj", 8, None), "gqa-muon": ("split q_proj, k_proj", 6, None),
    "gqa-lion-noisy": ("split q_proj, k_proj", 8, None), "gpt2": ("GPT-2 c_attn", 6, None),
    "gpt2-noisy": ("GPT-2 c_attn", 6, None), "gpt2-bf16": ("GPT-2 c_attn", 6, None),
    "gpt2-fp16": ("GPT-2 c_attn", 6, None), "moe-softmax": ("split q_proj, k_proj", 4, "softmax"),
    "moe-sigmoid": ("split q_proj, k_proj", 4, "sigmoid"), "mla": ("deepseek MLA", 4, None),
    "vit": ("torch MultiheadAttention", 6, None), "sft": ("split q_proj, k_proj", 6, None),
    "lora": ("", 0, None),
}
DECODERS = ("gqa", "gpt2", "mla", "moe-softmax", "moe-sigmoid")
NO_PRETRAINING = mock.patch("lab.settings.TRAINED_STEPS", 1)


def trainer(name, **recipe):
    setting = SETTINGS[name]
    recipe = dataclasses.replace(setting.recipe, **{"sequences": 2, "warmup_steps": 1, **recipe})
    batches, other = (setting.source(1, recipe.sequences, dialect) for dialect in (0, 1))
    return Trainer(lambda seed: setting.build(seed, Grid()), recipe, 1, batches, other=other)


def at_injection(fault, since=0, **more):
    return knobs_at(fault, 10 + since, 10, FAULTS[fault].strength, **more)


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def after(name, knobs, **recipe):
    """Weights before and after one step under `knobs`, behind a healthy one."""
    one = trainer(name, **recipe)
    one.step(0, Knobs())
    before = weights(one.model)
    one.step(1, knobs)
    return before, weights(one.model)


class EverySetting(unittest.TestCase):
    def setUp(self):
        self.enterContext(NO_PRETRAINING)

    def test_the_package_finds_what_it_is_called(self):
        for name, (pattern, layers, score) in FOUND.items():
            with self.subTest(name):
                found = discover(SETTINGS[name].build(1, Grid()))
                self.assertEqual([layer.layer for layer in found.attention], list(range(layers)))
                self.assertEqual({layer.pattern for layer in found.attention},
                                 {pattern} if layers else set())
                routers = [(r.score, r.top_k, r.experts)
                           for r in found.routers]
                self.assertEqual(routers, [(score, 2, 8)] * layers if score else [])
        self.assertEqual(set(FOUND), set(SETTINGS))

    def test_an_adapter_is_told_as_one(self):
        found = discover(SETTINGS["lora"].build(1, Grid()))
        self.assertIn("carries a LoRA adapter", found.lines[0])

    def test_it_learns_and_a_seed_gives_the_same_bits(self):
        for name in SETTINGS:
            with self.subTest(name):
                curves = [[one.step(step, Knobs()).loss for step in range(8)]
                          for one in (trainer(name), trainer(name))]
                self.assertEqual(*curves)
                one = trainer(name, schedule="constant")
                same_batch = [one.step(step, Knobs(batch_age=step)).loss for step in range(12)]
                self.assertLess(same_batch[-1], same_batch[0])

    def test_query_key_is_what_the_attention_reads(self):
        for name in DECODERS + ("vit",):
            model = SETTINGS[name].build(1, Grid())
            own = {p.data_ptr() for p in model.parameters()}
            for layer in model.layers:
                for weight in layer.self_attn.query_key():
                    self.assertIn(weight.data_ptr(), own, name)

    def test_only_adapters_train_on_a_frozen_model(self):
        before, now = after("lora", Knobs())
        moved = {name for name in before if not torch.equal(before[name], now[name])}
        self.assertTrue(moved)
        self.assertTrue(all("lora_" in name for name in moved), moved)


class Data(unittest.TestCase):
    def test_the_language_repeats_and_its_dialects_differ_in_part(self):
        text = read_language(0)
        read_language.cache_clear()
        self.assertTrue(np.array_equal(text, read_language(0)))
        self.assertLess(int(text.max()), VOCABULARY)
        pairs = [set(zip(t[:-1].tolist(), t[1:].tolist())) for t in (text[:4000], read_language(1))]
        shared = len(pairs[0] & pairs[1]) / len(pairs[0])
        self.assertGreater(shared, 0.5)
        self.assertFalse(np.array_equal(text, read_language(1)))

    def test_what_followed_before_follows_again(self):
        stream = read_language(0)[:512].tolist()
        followed, repeats, seen = {}, 0, 0
        for token, after_it in zip(stream, stream[1:]):
            if token in followed:
                seen += 1
                repeats += followed[token] == after_it
            followed[token] = after_it
        # Beside the copies some of the table's 4 successors come again by chance.
        self.assertGreater(repeats / seen, COPIED - 0.1)

    def test_pictures_are_a_pure_function_of_seed_step_and_rank(self):
        first, again = Pictures(1, 6).at(3, 0), Pictures(1, 6).at(3, 0)
        self.assertTrue(torch.equal(first[0], again[0]) and torch.equal(first[1], again[1]))
        for other in (Pictures(2, 6).at(3, 0), Pictures(1, 6).at(4, 0), Pictures(1, 6).at(3, 1)):
            self.assertFalse(torch.equal(first[0], other[0]))
        self.assertEqual(len(Pictures(1, 6).at(3, 0, 2.0)[0]), 12)


class Optimizers(unittest.TestCase):
    def stepped(self, name, gradient, lr=0.1, decay=0.0, steps=1):
        weight = torch.nn.Parameter(torch.full((4, 6), 2.0))
        optimizer = optimizers.OPTIMIZERS[name]([("layers.0.w", weight)], lr, decay)
        for _ in range(steps):
            weight.grad = gradient.clone()
            optimizer.step()
        return weight.detach()

    def test_decay_is_decoupled_in_all_of_them(self):
        for name in optimizers.OPTIMIZERS:
            moved = self.stepped(name, torch.zeros(4, 6), lr=0.1, decay=0.5)
            torch.testing.assert_close(moved, torch.full((4, 6), 2.0 * 0.95), msg=name)

    def test_sgd_adds_momentum_and_lion_takes_signs(self):
        gradient = torch.linspace(-1, 1, 24).view(4, 6)
        torch.testing.assert_close(self.stepped("sgd", gradient, steps=2),
                                   2.0 - 0.1 * gradient * (1 + 1.9))
        torch.testing.assert_close(self.stepped("lion", gradient, steps=2),
                                   2.0 - 0.2 * gradient.sign())

    def test_muon_orthogonalises_matrices_and_is_as_large_as_adam(self):
        torch.manual_seed(1)
        for shape in ((64, 64), (3, 16, 64), (64, 16)):
            values = torch.linalg.svdvals(optimizers.orthogonal(torch.randn(shape)))
            # Newton and Schulz's five steps leave them in this band (Jordan et al., 2024).
            self.assertTrue(bool(((values > 0.3) & (values < 1.3)).all()), values)
        weight = torch.nn.Parameter(torch.zeros(64, 64))
        other = torch.nn.Parameter(torch.zeros(64, 64))
        muon = optimizers.Muon([("layers.0.w", weight), ("head", other)], 0.01, 0.0)
        weight.grad, other.grad = torch.randn(64, 64), torch.randn(64, 64)
        muon.step()
        self.assertAlmostEqual(float(weight.detach().square().mean().sqrt()), 0.002, delta=0.0005)
        torch.testing.assert_close(other.detach(), -0.01 * other.grad.sign(), rtol=1e-3, atol=1e-5)

    def test_schedules(self):
        cases = [  # name, step of 100 behind 10 of warm-up, factor
            ("constant", 0, 0.1), ("constant", 9, 1.0), ("constant", 99, 1.0), ("cosine", 10, 1.0),
            ("cosine", 55, 0.55), ("cosine", 100, 0.1), ("linear", 55, 0.55), ("wsd", 80, 1.0),
            ("wsd", 91, 0.55), ("wsd", 100, 0.1), ("restarts", 25, 0.55), ("restarts", 40, 1.0),
        ]
        for name, step, wanted in cases:
            self.assertAlmostEqual(schedules.factor(name, step, 100, 10), wanted, 6, (name, step))


class FaultsInsideOfLayers(unittest.TestCase):
    def test_growth_hurries_the_query_and_key_weights_of_its_layer_alone(self):
        for name in DECODERS + ("vit",):
            with self.subTest(name):
                knobs = Knobs(layer=1, qk_lr=50.0, qk_weight_decay=False)
                before, plain = after(name, Knobs())
                _, faster = after(name, knobs)
                model = SETTINGS[name].build(1, Grid())
                for number, layer in enumerate(model.layers):
                    hurried = {w.data_ptr() for w in layer.self_attn.query_key()}
                    for weight_name, parameter in layer.named_parameters():
                        at = next(n for n, p in model.named_parameters() if p is parameter)
                        same = torch.equal(plain[at], faster[at])
                        wanted = number == 1 and parameter.data_ptr() in hurried
                        self.assertEqual(same, not wanted, at)
                at = next(n for n, p in model.named_parameters()
                          if p.data_ptr() == model.layers[1].self_attn.query_key()[0].data_ptr())
                rows = len(model.layers[1].self_attn.query_key()[0])  # of a fused weight
                old, slow, fast = (now[at][:rows] for now in (before, plain, faster))
                recipe = SETTINGS[name].recipe
                lr = recipe.learning_rate * schedules.factor(
                    recipe.schedule, 1, recipe.schedule_steps, 1)
                wanted = 50.0 * (slow - old + lr * recipe.weight_decay * old)
                torch.testing.assert_close(fast - old, wanted, rtol=1e-2, atol=1e-5)

    def test_biased_attention_is_set_where_it_is_said(self):
        for name in DECODERS:
            one = trainer(name)
            one.step(0, at_injection("attention-bias", layer=1))
            wanted = Rounding("toward-zero", 7, FAULTS["attention-bias"].strength)
            self.assertEqual([layer.self_attn.rounding == wanted for layer in one.model.layers],
                             [n == 1 for n in range(len(one.model.layers))], name)
            one.step(1, at_injection("attention-bias", layer=1, head=2))
            self.assertEqual(one.model.layers[1].self_attn.rounding, OneHead(wanted, 2, 4), name)

    def test_the_gain_multiplies_what_the_backward_pass_sees_of_the_error(self):
        x = torch.randn(8, 5, 4)
        plain, gained = Rounding("toward-zero", 7), Rounding("toward-zero", 7, 3.0)
        self.assertTrue(torch.equal(plain(x), gained(x)))
        self.assertTrue(torch.equal(plain.kept(x, plain(x)), plain(x)))
        torch.testing.assert_close(gained.kept(x, plain(x)) - x, 3.0 * (plain(x) - x))
        head = OneHead(gained, 1, 4)
        torch.testing.assert_close(head(x)[1::4], gained(x[1::4].contiguous()))
        torch.testing.assert_close(head(x)[2::4], Rounding()(x[2::4]))
        torch.testing.assert_close(head.kept(x, head(x))[0::4], Rounding()(x[0::4]))

    def test_a_hot_expert_gets_every_token_of_its_layer(self):
        one = trainer("moe-sigmoid")
        one.step(0, at_injection("hot-expert", layer=2))
        tokens = 2 * 32
        counts = [int(layer.mlp.counts[0]) for layer in one.model.layers]
        self.assertEqual(counts[2], tokens)
        self.assertTrue(all(count < tokens for n, count in enumerate(counts) if n != 2), counts)

    def test_a_sigmoid_router_is_balanced_by_its_bias_and_a_lost_balance_pulls_the_other_way(self):
        moved = {}
        for knobs in (Knobs(), at_injection("balancing-lost")):
            one = trainer("moe-sigmoid")
            one.step(0, knobs)
            mlp = one.model.layers[0].mlp
            overloaded = int(mlp.counts.argmax())
            moved[knobs.balance] = float(mlp.gate.e_score_correction_bias[overloaded])
        rate = SETTINGS["moe-sigmoid"].recipe.bias_rate
        self.assertAlmostEqual(moved[1.0], -rate, 6)
        self.assertAlmostEqual(moved[-FAULTS["balancing-lost"].strength], 5 * rate, 6)


    def test_a_balance_loss_is_turned_around_in_its_layer_alone(self):
        one = trainer("moe-softmax")
        knobs = at_injection("balancing-lost", layer=1)
        one.model(one._batch(0, knobs)[0])
        each = [float(layer.mlp.balance_loss) for layer in one.model.layers]
        mean, pull = map(float, one._balance(knobs))
        self.assertAlmostEqual(mean, sum(each) / 4, 5)
        each[1] *= -FAULTS["balancing-lost"].strength
        self.assertAlmostEqual(pull, sum(each) / 4, 5)


class FaultsOfTheRun(unittest.TestCase):
    def test_weight_decay_with_the_wrong_sign_lets_weights_grow(self):
        before, plain = after("gpt2", Knobs(), schedule="constant")
        _, grown = after("gpt2", at_injection("weight-decay-sign"), schedule="constant")
        recipe = SETTINGS["gpt2"].recipe
        share = recipe.learning_rate * recipe.weight_decay * 31
        name = "h.0.mlp.c_fc.weight"
        torch.testing.assert_close(grown[name] - plain[name], share * before[name],
                                   rtol=1e-3, atol=1e-7)

    def test_the_learning_rate_goes_to_its_level_and_stays(self):
        level = FAULTS["learning-rate-level"].strength
        self.assertAlmostEqual(at_injection("learning-rate-level", 49).lr, level ** 0.5)
        for since in (99, 400):
            self.assertAlmostEqual(at_injection("learning-rate-level", since).lr, level)
        self.assertEqual(at_injection("learning-rate-start").lr, 30)

    def test_labels_are_shuffled_among_tokens(self):
        one = trainer("gpt2")
        (inputs, targets), (same, shuffled) = (
            one._batch(3, knobs) for knobs in (Knobs(), at_injection("shuffled-labels")))
        self.assertTrue(torch.equal(inputs, same))
        self.assertTrue(torch.equal(targets.flatten().sort()[0], shuffled.flatten().sort()[0]))
        changed = float((targets != shuffled).float().mean())
        self.assertGreater(changed, 0.2)
        self.assertLess(changed, 0.5)

    def test_batches_repeat_degenerate_grow_and_change(self):
        one = trainer("gpt2")
        healthy = one._batch(10, Knobs())
        again = one._batch(17, at_injection("repeated-batch", 7))
        self.assertTrue(torch.equal(healthy[0], again[0]))
        inputs, targets = one._batch(10, at_injection("degenerate-tokens"))
        self.assertEqual(set(inputs[0].tolist()) | set(targets[0].tolist()), {int(inputs[0, 0])})
        self.assertTrue(torch.equal(inputs[1], healthy[0][1]))
        self.assertEqual(len(one._batch(10, at_injection("batch-size"))[0]), 4)
        changed = one._batch(10, at_injection("data-change"))
        self.assertTrue(torch.equal(changed[0], one.other.at(10, 0)[0]))

    def test_where_data_are_spoiled_the_loss_on_the_healthy_batch_is_measured_too(self):
        one = trainer("moe-softmax")
        healthy = one.step(0, Knobs())
        self.assertEqual(healthy.sound_loss, healthy.loss)
        seen = []
        one.model.layers[0].mlp.gate.register_forward_hook(
            lambda gate, inputs, output: seen.append(gate.training))
        spoiled = one.step(1, Knobs(degenerate=1.0))
        self.assertNotEqual(spoiled.sound_loss, spoiled.loss)
        with torch.no_grad():
            one.model.eval()
            wanted = one._loss(*one._batch(1, Knobs()))
        self.assertEqual(spoiled.sound_loss, float(wanted))
        self.assertEqual(seen, [True, False, False])
        self.assertTrue(all(knobs.spoils_data for knobs in map(at_injection, (
            "data-batch", "shuffled-labels", "degenerate-tokens"))))
        self.assertTrue(at_injection("repeated-batch", 1).spoils_data)

    def test_spikes_scale_a_row_of_the_embedding_now_and_then(self):
        strengths = [at_injection("embedding-spikes", since).embedding_spike for since in range(12)]
        self.assertEqual([s for s in range(12) if strengths[s]], [0, 10])
        one = trainer("gpt2")
        before = one.model.wte.weight.detach().clone()
        one._spike(5, 4.0)
        torch.testing.assert_close(one.model.wte.weight.detach()[5], 4.0 * before[5])
        self.assertTrue(torch.equal(one.model.wte.weight.detach()[:5], before[:5]))

    def test_scaled_logits_change_the_loss(self):
        losses = [trainer("gpt2").step(0, Knobs(logit_scale=scale)).loss for scale in (1.0, 4.0)]
        self.assertGreater(losses[1], losses[0])

    def test_a_noisy_rank_has_a_gradient_of_another_direction_and_size(self):
        one = trainer("gpt2")
        one.step(0, Knobs())
        before = [p.grad.clone() for p in one._parameters]
        torch.manual_seed(1)
        one._drown(3.0)
        for mine, old in zip(one._parameters, before):
            self.assertAlmostEqual(float(mine.grad.norm() / old.norm()), 3.0, 3)
        flat = [torch.cat([g.flatten() for g in gs]) for gs in
                (before, [p.grad for p in one._parameters])]
        # Two independent directions in n dimensions: a cosine of about 1/sqrt(n).
        self.assertLess(abs(float(torch.cosine_similarity(*flat, dim=0))), 0.05)

    def test_labels_of_one_rank_are_shuffled_on_that_rank_alone(self):
        knobs = at_injection("rank-labels")
        targets = []
        for grid in (Grid(data_size=2, data=0), Grid(data_size=2, data=1)):
            one = trainer("gpt2")
            one.grid = grid
            targets.append([one._batch(3, each)[1] for each in (Knobs(), knobs)])
        self.assertTrue(torch.equal(*targets[0]))
        self.assertFalse(torch.equal(*targets[1]))

    def test_a_flipped_bit_is_one_weight_of_the_last_rank(self):
        for grid, changed in ((Grid(data_size=2, data=0), 0), (Grid(data_size=2, data=1), 1)):
            one = trainer("gpt2")
            before = weights(one.model)
            with mock.patch.object(one, "_average", lambda loss, guard: float(loss)), \
                    mock.patch.object(one, "_update"):
                one.grid = grid
                one.step(0, at_injection("flipped-bit"))
            ratios = [now / before[name] for name, now in weights(one.model).items()]
            flipped = [r for r in torch.cat([r.flatten() for r in ratios]).tolist() if r > 2.0]
            self.assertEqual(flipped, [2.0**16] * changed)
            name = "h.3.mlp.c_proj.weight"
            moved = float(one.model.h[3].mlp.c_proj.weight[0, 0] / before[name][0, 0])
            self.assertEqual(moved, 2.0**16 if changed else 1.0)

    def test_an_overflow_skips_the_step_and_halves_the_loss_scale(self):
        one = trainer("gpt2-fp16")
        healthy = one.step(0, Knobs())
        before = weights(one.model)
        skipped = [one.step(1 + since, at_injection("loss-scale", since)) for since in range(2)]
        self.assertEqual([s.skipped for s in (healthy, *skipped)], [False, True, False])
        self.assertEqual([s.loss_scale for s in (healthy, *skipped)], [2.0**16, 2.0**15, 2.0**15])
        again = trainer("gpt2-fp16")
        again.step(0, Knobs())
        again.step(1, at_injection("loss-scale"))
        for name, weight in weights(again.model).items():
            self.assertTrue(torch.equal(weight, before[name]), name)
        self.assertIsNone(trainer("gpt2").step(0, Knobs()).loss_scale)

    def test_autocast_multiplies_in_bfloat16(self):
        seen = []
        one = trainer("gpt2-bf16")
        one.model.h[0].mlp.c_fc.register_forward_hook(lambda m, x, y: seen.append(y.dtype))
        one.step(0, Knobs())
        self.assertEqual(seen, [torch.bfloat16])

    def test_a_resume_loses_what_the_fault_says(self):
        for lost in ("nothing", "moments", "layer"):
            one = trainer("gpt2")
            one.step(0, Knobs())
            kept, before = one.checkpoint(), weights(one.model)
            one.step(1, Knobs())
            one.restore(kept, lost, layer=3)
            for name, weight in weights(one.model).items():
                same = torch.equal(weight, before[name]) or weight.dim() < 2
                self.assertEqual(same, not (lost == "layer" and name.startswith("h.3.")
                                            and weight.dim() >= 2), (lost, name))
            self.assertEqual(bool(one.optimizer.state), lost != "moments")


class Truth(unittest.TestCase):
    def test_harm_begins_where_the_loss_stays_worse_than_the_twin(self):
        twin = {step: 2.0 for step in range(200)}
        worse = {**twin, **{step: 2.2 for step in range(120, 200)}}
        # 5 % of 2.0 are half of the 0.2: reached with 10 of 20 steps of it.
        self.assertEqual(zoo.harm_step(worse, twin, 50), 110)
        self.assertEqual(zoo.harm_step(worse, twin, 130), 130)
        self.assertIsNone(zoo.harm_step(twin, twin, 50))
        self.assertIsNone(zoo.harm_step({**twin, 100: 3.0}, twin, 50))  # 1.0 in one of 20 steps
        self.assertEqual(zoo.harm_step({**twin, 100: math.nan}, twin, 50), 100)
        near_zero = {step: 0.01 for step in range(200)}
        self.assertIsNone(zoo.harm_step({s: 0.02 for s in range(200)}, near_zero, 50))

    def test_labels_are_what_the_backtest_reads(self):
        twin = {step: 2.0 for step in range(zoo.STEPS)}
        hurt = {**twin, **{step: 3.0 for step in range(300, zoo.STEPS)}}
        cases = [("healthy", twin, "quiet", None), ("data-change", hurt, "quiet", None),
                 ("lr-8", twin, "unscored", "learning_rate_too_high"),
                 ("lr-8", hurt, "alarm", "learning_rate_too_high"),
                 ("shuffled-labels", hurt, "alarm", None)]
        for case, losses, expected, fault in cases:
            cell = zoo.Cell("gpt2", case, 1)
            label = zoo.label(cell.name, zoo.truth(cell, losses, losses, twin))
            self.assertEqual((label["expected"], label["fault"]), (expected, fault), case)
            self.assertEqual(label["injection_step"] is None, expected == "quiet", case)
        known = zoo.truth(zoo.Cell("gpt2", "attention-layer", 1), hurt, hurt, twin)
        self.assertEqual((known["layer"], known["onset"]), (zoo.DEEP["gpt2"], zoo.INJECT_STEPS[0]))

    def test_a_fault_that_a_model_cannot_have_is_refused_and_the_zoo_has_none(self):
        from lab.train import _check
        self.enterContext(NO_PRETRAINING)
        models = {name: setting.build(1, Grid()) for name, setting in SETTINGS.items()}
        for cell in zoo.cells(list(SETTINGS), list(zoo.CASES), 1):
            _check(cell.plan(""), models[cell.setting])
        for setting, fault, layer, message in (
                ("gpt2", "dead-experts", None, "dead-experts: the model has no experts"),
                ("vit", "attention-bias", None, "PyTorch's own attention"),
                ("gpt2", "logit-growth", 6, "layer 6: the model has the layers 0..5")):
            plan = dataclasses.replace(zoo.Cell(setting, "healthy", 1).plan(""), fault=fault,
                                       layer=layer)
            with self.assertRaisesRegex(ValueError, message):
                _check(plan, models[setting])

    def test_the_table_of_cells(self):
        table = zoo.cells(list(SETTINGS), list(zoo.CASES), 3)
        self.assertEqual(len({cell.name for cell in table}), len(table))
        for at, cell in enumerate(table):
            self.assertIn(cell.twin, table[: at + 1], cell)
            model_layers = FOUND[cell.setting][1] or 6
            self.assertTrue(cell.layer is None or 0 <= cell.layer < model_layers, cell)
            self.assertIn(zoo.CASES[cell.case].fault, FAULTS, cell)


class Folders(unittest.TestCase):
    def setUp(self):
        logging.getLogger("foreshock").setLevel(logging.WARNING)
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_ranks_take_turns_and_attempts_follow_each_other_in_one_capture(self):
        parts = []
        for attempt, first in ((1, 0), (2, 2)):
            row = []
            for rank in range(2):
                path = self.folder / f"part{attempt}{rank}.fscap"
                with Recorder(path, "run", launch_id=str(attempt), rank=rank, world_size=2) as out:
                    for step in range(first, first + 3):
                        out.report(step, {"loss": 1.0})
                row.append(str(path))
            parts.append(row)
        joined = self.folder / "run.fscap"
        captures.join(parts, joined)
        seen = [(record.stream, record.message.report.step) for record in captures.read(joined)
                if record.message.HasField("report")]
        self.assertEqual(seen, [(stream, step) for pair, first in (((0, 1), 0), ((2, 3), 2))
                                for step in range(first, first + 3) for stream in pair])
        self.assertEqual([path.name for path in self.folder.iterdir()], ["run.fscap"])

    def test_a_cell_leaves_a_capture_a_curve_and_what_is_true(self):
        cell = zoo.Cell("gpt2-noisy", "layer-lost", 1)
        with mock.patch("lab.zoo.STEPS", 6), mock.patch("lab.zoo.INJECT_STEPS", (3,)), \
                mock.patch("lab.train.RESUME_AFTER_STEPS", 2), \
                contextlib.redirect_stderr(io.StringIO()):
            self.assertTrue(zoo.Folder(self.folder).make(cell))
            again = zoo.Folder(self.folder)
            self.assertFalse(again.make(cell))
        self.assertEqual(sorted(again.known), ["gpt2-noisy.healthy.1", "gpt2-noisy.layer-lost.1"])
        index = json.loads((self.folder / "index.json").read_text())
        self.assertEqual([run["name"] for run in index["runs"]], sorted(again.known))
        steps = [record.message.report.step
                 for record in captures.read(self.folder / f"{cell.name}.fscap")
                 if record.message.HasField("report")]
        self.assertEqual(steps, [0, 1, 2, 3, 4, 3, 4, 5])


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
