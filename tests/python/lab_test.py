#!/usr/bin/env python3
"""The fault lab by itself: the attention is right, faults do what they say, runs repeat."""

import contextlib
import io
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "client/python/examples"
sys.path.insert(0, str(EXAMPLES))
import fault_lab  # noqa: E402; first: it settles how torch multiplies
import torch  # noqa: E402
from lab import faults, plot, rl, rl_faults, verdict  # noqa: E402
from lab.attention import Rounding, TiledAttention  # noqa: E402
from lab.data import VOCABULARY, Batches, read_text  # noqa: E402
from lab.faults import FAULTS, Knobs, knobs_at  # noqa: E402
from lab.model import Decoder  # noqa: E402
from lab.model import Shape  # noqa: E402
from lab.parallel import Grid  # noqa: E402
from lab.settings import decoder  # noqa: E402
from lab.train import Plan, train  # noqa: E402
from lab.trainer import Recipe, Trainer  # noqa: E402
from lab.watching import Sink  # noqa: E402

SMALL = Shape(length=32, layers=2, expert_hidden=16)
SETTING = decoder(ROOT, SMALL, Recipe(sequences=4))
NOWHERE = Sink("test", "", "", "launch")
TEXT = read_text(ROOT)


def trainer(seed=1):
    return Trainer(lambda s: Decoder(SMALL, s), SETTING.recipe, seed, SETTING.source(seed, 4, 0))


def plan(fault="none", seed=1, steps=6, inject_step=3, **more):
    given = dict(strength=FAULTS[fault].strength, setting=SETTING, sink=NOWHERE)
    return Plan(fault=fault, seed=seed, steps=steps, inject_step=inject_step, **{**given, **more})


def losses_of(fault, seed=1):
    """Six steps on one process, the fault at step 3; a resume loses one step only."""
    with contextlib.redirect_stderr(io.StringIO()), mock.patch("lab.train.RESUME_AFTER_STEPS", 1):
        return train(plan(fault, seed), Grid())


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def moves(knobs, steps=3):
    """How far each parameter moves in one step under `knobs`, after `steps` healthy ones."""
    one = trainer()
    for step in range(steps):
        one.step(step, Knobs())
    before = weights(one.model)
    one.step(steps, knobs)
    return {name: (p.double() - before[name].double()).norm() for name, p in
            weights(one.model).items()}


class Exact:
    """Rounds nothing."""

    def __call__(self, x):
        return x

    def kept(self, x, rounded):
        return rounded


class AttentionTest(unittest.TestCase):
    def test_tiles_give_what_plain_attention_gives_forward_and_backward(self):
        torch.manual_seed(3)
        for length in (1, 31, 32, 33, 96):
            q, k, v = (torch.randn(2, length, 8, dtype=torch.float64) for _ in range(3))
            upstream = torch.randn(2, length, 8, dtype=torch.float64)
            results = []
            for tiled in (True, False):
                leaves = [x.clone().requires_grad_() for x in (q, k, v)]
                if tiled:
                    out = TiledAttention.apply(*leaves, Exact())
                else:
                    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
                    logits = leaves[0] @ leaves[1].transpose(1, 2) / math.sqrt(8)
                    out = torch.softmax(logits.masked_fill(hidden, -math.inf), -1) @ leaves[2]
                out.backward(upstream)
                results.append([out.detach(), *(leaf.grad for leaf in leaves)])
            for mine, plain in zip(*results):
                torch.testing.assert_close(mine, plain, rtol=1e-10, atol=1e-12)

    def test_a_biased_output_biases_the_gradient_of_the_logits(self):
        torch.manual_seed(4)
        q, k, v = (torch.randn(4, 64, 16, requires_grad=True) for _ in range(3))
        sums = {}
        for rounding in (Rounding(), Rounding("toward-zero", 7)):
            q.grad = None
            out = TiledAttention.apply(q, torch.ones_like(k), v, rounding)
            out.backward(out.detach())
            # With equal keys dQ is the row sum of the logits' gradients: 0, but for what O lost.
            sums[rounding.mode] = float(q.grad.abs().mean())
        self.assertGreater(sums["toward-zero"], 10 * sums["nearest"])


class RoundingTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)
        self.x = torch.randn(100_000)

    def test_nearest_is_bfloat16(self):
        self.assertTrue(torch.equal(Rounding()(self.x), self.x.bfloat16().float()))

    def test_toward_zero_keeps_the_sign_loses_magnitude_and_frees_the_bits(self):
        for dropped in range(8):
            cut = Rounding("toward-zero", dropped)(self.x)
            self.assertTrue(torch.equal(cut.sign(), self.x.sign()))
            self.assertTrue(bool((cut.abs() <= self.x.abs()).all()))
            # One unit of the last bit left is 2^(dropped - 7) of the power of two below.
            limit = 2.0 ** (dropped - 7) * self.x.abs()
            self.assertTrue(bool((self.x.abs() - cut.abs() <= limit).all()))
            self.assertEqual(int((cut.view(torch.int32) & ((1 << (16 + dropped)) - 1)).max()), 0)

    def test_zero_mean_has_the_same_grid_and_no_bias(self):
        rounded = Rounding("zero-mean", 6)(self.x)
        self.assertEqual(int((rounded.view(torch.int32) & 0x3FFFFF).max()), 0)
        relative = ((rounded - self.x) * self.x.sign()).double()
        five_sigma = 5 * float(relative.std()) / math.sqrt(len(relative))
        self.assertLess(abs(float(relative.mean())), five_sigma)
        biased = ((Rounding("toward-zero", 6)(self.x) - self.x) * self.x.sign()).double()
        self.assertLess(float(biased.mean()), -five_sigma)

    def test_wrong_settings_name_what_is_allowed(self):
        with self.assertRaisesRegex(ValueError, "8: 0..7"):
            Rounding("toward-zero", 8)
        with self.assertRaisesRegex(ValueError, "up: nearest, toward-zero or zero-mean"):
            Rounding("up")


class Repeats(unittest.TestCase):
    def test_a_seed_gives_the_same_bits_and_another_seed_others(self):
        for fault in ("none", "bf16-attention-zero-mean", "router-collapse", "resume"):
            with self.subTest(fault):
                self.assertEqual(losses_of(fault), losses_of(fault))
                self.assertNotEqual(losses_of(fault), losses_of(fault, seed=2))

    def test_up_to_the_injection_every_fault_is_the_healthy_run(self):
        healthy = losses_of("none")
        for fault in FAULTS:
            if FAULTS[fault].processes > 1 or fault in ("none", "clean-resume"):
                continue
            with self.subTest(fault):
                broken = losses_of(fault)
                self.assertEqual([healthy[s] for s in range(3)], [broken[s] for s in range(3)])
                self.assertNotEqual([healthy[s] for s in range(3, 6)],
                                    [broken[s] for s in range(3, 6)])


class EveryFault(unittest.TestCase):
    def at_injection(self, fault, since=0):
        return knobs_at(fault, 400 + since, 400, FAULTS[fault].strength)

    def test_knobs_are_at_rest_before_the_injection(self):
        for fault in FAULTS:
            self.assertEqual(knobs_at(fault, 399, 400, FAULTS[fault].strength), Knobs(), fault)

    def test_bf16_attention_rounds_the_output_of_every_layer(self):
        one = trainer()
        one.step(0, self.at_injection("bf16-attention"))
        self.assertEqual({layer.self_attn.rounding for layer in one.model.layers},
                         {Rounding("toward-zero", 7)})

    def test_learning_rate_ramps_what_is_applied_and_reported(self):
        factor = FAULTS["learning-rate"].strength
        self.assertEqual(self.at_injection("learning-rate").lr, 1.0)
        self.assertAlmostEqual(self.at_injection("learning-rate", faults.RAMP_STEPS).lr, factor)
        reported = trainer().step(200, Knobs(lr=3.0)).lr
        self.assertAlmostEqual(reported, 3.0 * Recipe().learning_rate)
        plain, faster = moves(Knobs()), moves(Knobs(lr=3.0))
        for name in plain:
            self.assertAlmostEqual(float(faster[name] / plain[name]), 3.0, delta=0.01, msg=name)

    def test_combined_is_both_at_once(self):
        self.assertEqual(self.at_injection("combined"),
                         Knobs(lr=3.0, rounding=Rounding("toward-zero", 7)))

    def test_optimizer_moves_every_weight_by_its_factor_and_reports_the_schedule(self):
        knobs = self.at_injection("optimizer")
        plain, faster = moves(Knobs()), moves(knobs)
        for name in plain:
            ratio = float(faster[name] / plain[name])
            self.assertAlmostEqual(ratio, FAULTS["optimizer"].strength, delta=0.01, msg=name)
        self.assertEqual(trainer().step(200, knobs).lr, Recipe().learning_rate)

    def test_logit_growth_moves_query_and_key_weights_alone(self):
        plain, faster = moves(Knobs()), moves(Knobs(qk_lr=20.0))
        for name in plain:
            factor = 20.0 if "q_proj" in name or "k_proj" in name else 1.0
            self.assertAlmostEqual(float(faster[name] / plain[name]), factor, delta=0.05, msg=name)
        knobs = self.at_injection("logit-growth")
        self.assertEqual((knobs.qk_lr, knobs.qk_weight_decay), (20, False))

    def test_router_collapse_drops_the_balance_loss_and_hurries_the_noisy_router(self):
        knobs = self.at_injection("router-collapse")
        self.assertEqual((knobs.balance, knobs.router_lr, knobs.router_noise), (0.0, 30, 1.0))
        plain, faster = moves(Knobs()), moves(Knobs(router_lr=30.0))
        for name in plain:
            factor = 30.0 if "mlp.gate" in name else 1.0
            self.assertAlmostEqual(float(faster[name] / plain[name]), factor, delta=0.1, msg=name)

    def test_dead_experts_get_no_token(self):
        one = trainer()
        one.step(0, Knobs())
        self.assertTrue(all(bool((layer.mlp.counts > 0).all()) for layer in one.model.layers))
        one.step(1, self.at_injection("dead-experts"))
        for layer in one.model.layers:
            self.assertEqual(int(layer.mlp.counts[:2].sum()), 0)
            self.assertEqual(int(layer.mlp.counts.sum()), 4 * SMALL.length * SMALL.top_k)

    def test_data_batch_is_one_batch_of_noise(self):
        batches = Batches(TEXT, 1, 4, 32)
        self.assertTrue(self.at_injection("data-batch").noise_batch)
        self.assertFalse(self.at_injection("data-batch", 1).noise_batch)
        noise, text = batches.noise_at(9, 0)[0], batches.at(9, 0)[0]
        self.assertEqual(noise.shape, text.shape)
        spaces = [float((tokens == ord(" ")).float().mean()) for tokens in (noise, text)]
        self.assertLess(spaces[0], 4 / VOCABULARY)  # 1 of 128 is expected
        self.assertGreater(spaces[1], 4 / VOCABULARY)

    def test_nan_rank_computes_nan_every_seventh_step_and_the_guard_ends(self):
        bad = [since for since in range(20) if self.at_injection("nan-rank", since).nan_shard]
        self.assertEqual(bad, [0, 7, 14])
        self.assertTrue(self.at_injection("nan-rank", faults.NAN_GUARD_STEPS - 1).nan_guard)
        self.assertFalse(self.at_injection("nan-rank", faults.NAN_GUARD_STEPS).nan_guard)

    def test_resume_goes_back_and_forgets_the_experts_of_the_last_layer(self):
        self.assertEqual(plan("resume", steps=800, inject_step=400).attempts(),
                         [range(500), range(400, 800)])
        one = trainer()
        one.step(0, Knobs())
        checkpoint, before = one.checkpoint(), weights(one.model)
        one.step(1, Knobs())
        one.restore(checkpoint, "experts", layers=1)
        for name, weight in weights(one.model).items():
            forgotten = name.startswith("layers.1.mlp.experts")
            self.assertNotEqual(torch.equal(weight, before[name]), forgotten, name)


class Processes(unittest.TestCase):
    def curve(self, *options):
        with tempfile.TemporaryDirectory(prefix="foreshock_lab_") as folder:
            path = pathlib.Path(folder) / "curve"
            lab = str(EXAMPLES / "fault_lab.py")
            command = [sys.executable, lab, "--curve", str(path), *options]
            subprocess.run(command, check=True, capture_output=True, timeout=240)
            return [float(line.split()[1]) for line in path.read_text().splitlines()]

    def test_tensor_parallel_shards_compute_the_whole_model(self):
        alone = self.curve("--steps", "12")
        shared = self.curve("--steps", "12", "--world", "2", "--tensor", "2")
        for mine, whole in zip(shared[:4], alone):
            # Sums in another order, FP32, and a BF16 grid that may turn over: 2^-8 of a summand.
            self.assertAlmostEqual(mine, whole, delta=2.0**-8)
        self.assertLess(sum(shared[-3:]), sum(shared[:3]))

    def test_a_rank_with_nan_is_left_out_of_the_mean(self):
        losses = self.curve("--fault", "nan-rank", "--steps", "14", "--inject-step", "3")
        self.assertTrue(all(math.isfinite(loss) for loss in losses), losses)
        self.assertLess(losses[-1], losses[0])  # warmed up enough to tell on any text


class Verdicts(unittest.TestCase):
    def test_the_loss_breaks_where_it_leaves_its_best_for_good(self):
        calm = {step: 2.0 for step in range(300)}
        self.assertIsNone(verdict.loss_break(calm))
        # 2 + 1 - 0.96^n > 2.4 first at n = 13, the fast average after as many steps at 3.
        risen = {step: 2.0 if step < 200 else 3.0 for step in range(300)}
        self.assertEqual(verdict.loss_break(risen), 212)
        healed = {step: 3.0 if 100 <= step < 130 else 2.0 for step in range(400)}
        self.assertIsNone(verdict.loss_break(healed))
        lost = {step: 2.0 if step < 50 else math.nan for step in range(80)}
        self.assertEqual(verdict.loss_break(lost), 50)
        now_and_then = {step: math.nan if step % 7 == 0 else 2.0 for step in range(80)}
        self.assertIsNone(verdict.loss_break(now_and_then))
        self.assertIsNone(verdict.loss_break({}))


class Reinforcement(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(6)
        self.policy = Decoder(rl.SHAPE, seed=1)
        self.optimizer = torch.optim.AdamW(self.policy.parameters())
        self.prompts = torch.randint(0, 10, (rl.PROMPTS, rl.DIGITS)).repeat_interleave(rl.GROUP, 0)

    def rolled(self, fault):
        """A rollout under `fault`, and what the trainer makes of it."""
        torch.manual_seed(7)
        knobs = rl_faults.knobs_at(fault, 0, 0, rl_faults.FAULTS[fault].strength)
        engine = rl.RolloutEngine(self.policy)
        engine.take_over(self.policy, knobs.rollout_weights)
        rollout = engine.sample(self.prompts, knobs.rollout_router_noise)
        return rollout, lambda: rl._learn(self.policy, self.optimizer, rollout, knobs, 50,
                                          rl.FIRST_LOSS_SCALE)

    def gap(self, fault):
        rollout, learn = self.rolled(fault)
        learned = learn()
        return (float((learned.logprobs - rollout.logprobs).abs().mean()),
                float((learned.chosen != rollout.chosen).any(-1).float().mean()))

    def test_the_reward_is_the_share_of_digits_written_backwards(self):
        rollout, _ = self.rolled("none")
        answers = rollout.tokens[:, rl.DIGITS + 1 :]
        for row in range(len(answers)):
            right = sum(int(a) == int(p) for a, p in zip(answers[row], reversed(self.prompts[row])))
            self.assertEqual(float(rollout.rewards[row]), right / rl.DIGITS)

    def test_rollout_precision_and_route_mismatch_pull_trainer_and_rollout_apart(self):
        fresh = weights(self.policy)
        gaps = {}
        for fault in ("none", "rollout-precision", "route-mismatch"):
            self.policy.load_state_dict(fresh, strict=False)
            gaps[fault] = self.gap(fault)
        self.assertGreater(gaps["rollout-precision"][0], 5 * gaps["none"][0])
        self.assertGreater(gaps["route-mismatch"][1], 0.1)
        self.assertLess(gaps["none"][1], 0.1)

    def test_skipped_update_leaves_the_weights_alone(self):
        for fault, still in (("none", False), ("skipped-update", True)):
            before = weights(self.policy)
            learned = self.rolled(fault)[1]()
            same = all(torch.equal(p, before[name]) for name, p in weights(self.policy).items())
            self.assertEqual(same, still, fault)
            self.assertEqual(learned.update_rms == 0.0, still, fault)
            self.assertGreater(learned.grad_norm, 0.0)

    def test_grad_overflow_skips_the_step(self):
        before = weights(self.policy)
        learned = self.rolled("grad-overflow")[1]()
        self.assertFalse(learned.finite)
        self.assertTrue(all(torch.equal(p, before[n]) for n, p in weights(self.policy).items()))


class Plots(unittest.TestCase):
    def test_a_plot_shows_curve_indicator_and_marks(self):
        curve = {step: 3.0 - step / 100 for step in range(100)}
        points = {0: {0: 0.9, 50: 0.8}, 1: {0: 0.9, 50: 0.7}}
        with tempfile.TemporaryDirectory() as folder:
            for name, first_bytes in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG")):
                path = pathlib.Path(folder) / name
                plot.draw(str(path), "title", "loss", curve, "some.indicator", points,
                          [(40, "fault", "tab:orange"), (60, "warning", "tab:red")])
                self.assertTrue(path.read_bytes().startswith(first_bytes))
            text = (pathlib.Path(folder) / "a.svg").read_text()
            for word in ("some.indicator", "layer 1", "fault 40", "warning 60"):
                self.assertIn(f"<!-- {word} -->", text)  # what the letters, which are paths, spell


class CommandLine(unittest.TestCase):
    def test_wrong_options_say_what_is_allowed(self):
        cases = [
            (["--fault", "gremlins"], "--fault gremlins: with --mode pretrain allowed: none, "),
            (["--mode", "rl", "--fault", "resume"], "with --mode rl allowed: none, rollout-"),
            (["--fault", "bf16-attention", "--strength", "9"], "--strength 9: with bf16-attention "
             "allowed: 0..7"),
            (["--fault", "nan-rank", "--world", "1"], "needs 2 data-parallel processes"),
            (["--steps", "0"], "at least 1 step"),
        ]
        for options, message in cases:
            said = io.StringIO()
            with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
                with mock.patch("sys.argv", ["fault_lab.py", *options]):
                    fault_lab.arguments()
            self.assertEqual(end.exception.code, 2, options)
            self.assertIn(message, " ".join(said.getvalue().split()))

    def test_a_folder_without_text_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(ValueError, "at least 100 000 are needed"):
                read_text(pathlib.Path(folder))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
