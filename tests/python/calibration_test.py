#!/usr/bin/env python3
"""foreshock.calibrate against sums made token by token, and its files through foreshock-proxy.

    tests/python/calibration_test.py FORESHOCK_PROXY FORESHOCKD
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

import numpy as np
import torch
from torch import nn

import foreshock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support/python"))
import safetensors_file  # noqa: E402
from daemon_process import Daemon  # noqa: E402

PROXY, FORESHOCKD = None, None
D, E, K, VOCAB = 12, 8, 2, 30


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(D, 5, bias=False), nn.Linear(D, 5, bias=False)
        self.down_proj = nn.Linear(5, D, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class SigmoidGate(nn.Module):
    """DeepSeek-V3's: chosen experts and their gates."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(E, D))
        self.e_score_correction_bias = nn.Parameter(torch.randn(E) / 4)
        self.top_k, self.n_routed_experts, self.scoring_func, self.n_group = K, E, "sigmoid", 2

    def forward(self, x):
        affinity = torch.sigmoid(x.reshape(-1, D) @ self.weight.t())
        scores = (affinity + self.e_score_correction_bias).reshape(-1, 2, E // 2)
        best = scores.topk(2, -1).values.sum(-1).argmax(-1, keepdim=True)
        allowed = torch.zeros(scores.shape[:2], dtype=torch.bool).scatter(1, best, True)
        chosen = scores.masked_fill(~allowed.unsqueeze(-1), -math.inf).flatten(1).topk(K).indices
        gates = affinity.gather(1, chosen)
        return chosen, 2.5 * gates / gates.sum(-1, keepdim=True)


class Block(nn.Module):
    def __init__(self, sigmoid, renormalised):
        super().__init__()
        self.gate = SigmoidGate() if sigmoid else nn.Linear(D, E, bias=False)
        self.experts = nn.ModuleList([Expert() for _ in range(E)])
        self.num_experts, self.top_k, self.renormalised = E, K, renormalised
        self.last = None  # inputs [T, d], chosen, gates and probabilities

    def forward(self, hidden):
        x = hidden.reshape(-1, D)
        output = self.gate(hidden)
        if isinstance(output, tuple):
            chosen, gates = output
            affinity = torch.sigmoid(x @ self.gate.weight.t())
            p = affinity / affinity.sum(-1, keepdim=True)
        else:
            p = output.reshape(-1, E).softmax(-1)
            gates, chosen = p.topk(K)
            if self.renormalised:
                gates = gates / gates.sum(-1, keepdim=True)
        self.last = (x, chosen, gates, p)
        out = torch.zeros_like(x)
        for t in range(len(x)):
            for g, e in zip(gates[t], chosen[t]):
                out[t] += g * self.experts[e](x[t])
        return out.reshape(hidden.shape)


class Fused(nn.Module):
    """Experts of which torch sees no list."""

    def __init__(self, experts):
        super().__init__()
        self.one = lambda e: experts[e]

    def __getitem__(self, e):
        return self.one(e)


class Layer(nn.Module):
    def __init__(self, sigmoid, renormalised):
        super().__init__()
        self.mlp = Block(sigmoid, renormalised)

    def forward(self, hidden):
        return hidden + self.mlp(hidden)


class Model(nn.Module):
    def __init__(self, model_type="olmoe", sigmoid=False, renormalised=False):
        super().__init__()
        self.config = types.SimpleNamespace(
            model_type=model_type, norm_topk_prob=renormalised, num_experts_per_tok=K)
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(VOCAB, D)
        self.model.layers = nn.ModuleList()
        for _ in range(2):
            self.model.layers.append(Layer(sigmoid, renormalised))

    def forward(self, input_ids, attention_mask=None):
        hidden = self.model.embed_tokens(input_ids)
        for layer in self.model.layers:
            hidden = layer(hidden)
        return hidden


def slow_sums(block):
    """Token by token, of a block's last forward."""
    sums = {"tokens": 0, "frequency": np.zeros(E), "coactivation": np.zeros((E, E)),
            "input_sum": np.zeros(D), "expert_input_sum": np.zeros((E, D)),
            "gate_sum": np.zeros(E), "expert_norm_sum": np.zeros(E),
            "gated_norm_sum": np.zeros(E), "probability_sum": np.zeros(E), "entropy_sum": 0.0}
    for x, chosen, gates, p in zip(*(t.detach() for t in block.last)):
        sums["tokens"] += 1
        sums["input_sum"] += x.numpy()
        sums["probability_sum"] += p.numpy()
        sums["entropy_sum"] -= float((p * p.log()).sum())
        for e, g in zip(chosen.tolist(), gates.tolist()):
            norm = float(block.experts[e](x).norm())
            sums["frequency"][e] += 1
            sums["expert_input_sum"][e] += x.numpy()
            sums["gate_sum"][e] += g
            sums["expert_norm_sum"][e] += norm
            sums["gated_norm_sum"][e] += g * norm
            for other in chosen.tolist():
                sums["coactivation"][e, other] += 1
    return sums


class CalibrateTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_calibration_")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.path = self.directory / "calib.safetensors"

    def read(self, path=None):
        return {name: tensor.decode().numpy()
                for name, tensor in safetensors_file.read(path or self.path).items()}

    def test_sums_are_those_of_single_tokens(self):
        for kind in (dict(), dict(renormalised=True), dict(model_type="mixtral", renormalised=True),
                     dict(model_type="deepseek_v3", sigmoid=True, renormalised=True)):
            with self.subTest(kind):
                model = Model(**kind)
                report = foreshock.calibrate(model, [torch.randint(VOCAB, (3, 20))], self.path)
                self.assertEqual(report.tokens, 60)
                self.assertTrue(model.training)
                got = self.read()
                for number, layer in enumerate(model.model.layers):
                    for name, expected in slow_sums(layer.mlp).items():
                        # Sums of 60 float32 results, each off by some units of 2^-24.
                        np.testing.assert_allclose(got[f"layers.{number}.{name}"], expected,
                                                   rtol=1e-4, atol=1e-4, err_msg=name)
                    self.assertEqual(got[f"layers.{number}.frequency"].sum(), K * 60)
                    margins = got.get(f"layers.{number}.margin_histogram")
                    if kind.get("sigmoid"):
                        self.assertIsNone(margins)  # within groups the margin means nothing
                    else:
                        self.assertEqual(margins.sum(), 60)

    def test_fused_experts_are_run_one_by_one_if_the_caller_says_how(self):
        model = Model()
        ids = torch.randint(VOCAB, (2, 20))
        foreshock.calibrate(model, [ids], self.path)
        expected = self.read()
        parts = {}
        for number, layer in enumerate(model.model.layers):
            parts[f"model.layers.{number}.mlp.gate"] = list(layer.mlp.experts)
            layer.mlp.experts = Fused(layer.mlp.experts)
        foreshock.calibrate(model, [ids], self.path, experts=parts.get)
        got = self.read()
        for name, values in expected.items():
            np.testing.assert_array_equal(got[name], values, err_msg=name)
        foreshock.calibrate(model, [ids], self.path)
        self.assertNotIn("layers.0.gated_norm_sum", self.read())

    def test_a_margin_lies_in_its_bin(self):
        model = Model()
        foreshock.calibrate(model, [torch.randint(VOCAB, (1, 1))], self.path)
        p = model.model.layers[0].mlp.last[3].detach()[0].sort(descending=True).values
        margin = float(p[K - 1] - p[K])
        bin_, = np.flatnonzero(self.read()["layers.0.margin_histogram"])
        self.assertLessEqual(2 ** ((bin_ - 62) / 2), margin * (1 + 1e-5))
        self.assertLess(margin, 2 ** ((bin_ - 61) / 2) * (1 + 1e-5))

    def test_padding_does_not_count_and_files_add(self):
        model = Model()
        ids = torch.randint(VOCAB, (2, 9))
        mask = torch.ones(2, 9, dtype=torch.long)
        mask[0, 6:] = 0
        foreshock.calibrate(model, [{"input_ids": ids, "attention_mask": mask}], self.path)
        whole = self.read()
        self.assertEqual(whole["layers.0.tokens"], 15)
        parts = []
        for index, batch in enumerate((ids[:1, :6], ids[1:])):
            path = self.directory / f"{index}.safetensors"
            foreshock.calibrate(model, [(batch,)], path)
            parts.append(self.read(path))
        for name, values in whole.items():
            np.testing.assert_allclose(parts[0][name] + parts[1][name], values, rtol=1e-5,
                                       atol=1e-5, err_msg=name)
        foreshock.calibrate(model, [ids], self.path, mask=lambda batch: mask)
        for name, values in self.read().items():
            np.testing.assert_array_equal(values, whole[name], err_msg=name)

    def test_what_cannot_be_counted_is_an_error_and_leaves_no_file(self):
        ids = torch.randint(VOCAB, (1, 4))

        def put_out(form):
            model = Model()
            model.model.layers[1].mlp.gate.forward = lambda x: form(torch.arange(4 * E).view(4, E) % E)
            return lambda: foreshock.calibrate(model, [ids], self.path)

        calls = [
            (lambda: foreshock.calibrate(nn.Linear(2, 2), [ids], self.path, model_type="olmoe"),
             "no router found"),
            (lambda: foreshock.calibrate(nn.Linear(2, 2), [ids], self.path), "give model_type="),
            (lambda: foreshock.calibrate(Model(), [], self.path), "no token reached"),
            (lambda: foreshock.calibrate(Model(), [ids], self.path,
                                         mask=lambda batch: torch.ones(3)),
             "got 4 tokens, the mask has 3"),
            (put_out(lambda e: (e.float(), e < K + 1)),
             r"layers.1.mlp.gate does not choose 2 of its 8 experts for 4 of 4 tokens; allowed: 2 "),
            (put_out(lambda e: (e.float(), (e < K) & (torch.arange(4) != 2).view(4, 1))),
             "does not choose 2 of its 8 experts for 1 of 4 tokens"),
            (put_out(lambda e: (e[:, :K] + E - 1, torch.ones(4, K))),
             "does not choose 2 of its 8 experts for 4 of 4 tokens"),
            (put_out(lambda e: (e[:, :K], e[:, K:2 * K])), "puts out 2 tensors"),
        ]
        for call, words in calls:
            with self.assertRaisesRegex(ValueError, words):
                call()
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_rare_experts_are_reported(self):
        report = foreshock.calibrate(Model(), [torch.randint(VOCAB, (1, 4))], self.path)
        self.assertEqual(report.unseen, {0: E, 1: E})
        self.assertIn("8 of 8 are unseen: give more text", report.lines[0])

    def run_proxy(self, *arguments):
        answer = subprocess.run([PROXY, *map(str, arguments)], capture_output=True, text=True,
                                check=False)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer

    def write_checkpoint(self, model):
        checkpoint = self.directory / "model"
        tensors = {name: safetensors_file.encode("F32", value.numpy())
                   for name, value in model.state_dict().items()}
        safetensors_file.write_checkpoint(checkpoint, {
            "model_type": "olmoe", "num_experts": E, "num_experts_per_tok": K,
            "num_hidden_layers": 2, "norm_topk_prob": False}, tensors, 1)
        return checkpoint

    def test_the_proxy_builder_takes_the_file(self):
        model = Model()
        checkpoint = self.write_checkpoint(model)
        foreshock.calibrate(model, [torch.randint(VOCAB, (4, 30))], self.path)
        for selector in ("cluster", "frequency", "gate-mass", "reap", "activation-norm"):
            plan = self.directory / "plan.json"
            self.run_proxy("select", checkpoint, "--keep=4", f"--selector={selector}",
                           "--calibration", self.path, self.path, "-w", plan)
            for layer in json.loads(plan.read_text())["layers"]:
                self.assertTrue(0 < layer["kept_probability"] < 1)

    def test_what_a_run_recorded_is_a_calibration_too(self):
        checkpoint = self.write_checkpoint(Model())
        captures = []
        for rank in range(2):
            captures.append(self.directory / f"{rank}.jsonl")
            with foreshock.Recorder(captures[-1], run="r", launch_id="l", rank=rank,
                                    world_size=2, coordinates={"data": rank},
                                    model={"experts": E, "top_k": K}) as recorder:
                for step in range(3):
                    recorder.report(step, summaries=[
                        foreshock.payloads.router_load(layer, np.arange(E) + step)
                        for layer in range(2)])
        answer = self.run_proxy("calibrate", checkpoint, "--from-captures", *captures,
                                "--first-step=1", "-w", self.path, "--output=json")
        self.assertEqual(json.loads(answer.stdout)["layers"][0]["tokens"],
                         2 * (sum(range(E)) * 2 + 3 * E) // K)
        np.testing.assert_array_equal(self.read()["layers.1.frequency"], 4 * np.arange(E) + 6)
        plan = self.directory / "plan.json"
        self.run_proxy("select", checkpoint, "--keep=4", "--selector=frequency", "--seen-least=1",
                       "--calibration", self.path, "-w", plan)
        self.assertEqual(json.loads(plan.read_text())["layers"][0]["kept"], [4, 5, 6, 7])

    def test_what_a_daemon_kept_of_a_run_is_a_calibration_too(self):
        checkpoint = self.write_checkpoint(Model())
        chosen = np.array([[t % E, (t + 1 + t // E % 3) % E] for t in range(6 * E)])
        hits = np.zeros((len(chosen), E), int)
        np.put_along_axis(hits, chosen, 1, 1)
        pushed = [foreshock.payloads.router_coactivation(
            layer, hits.T @ hits, len(chosen), gate_mass=0.5 * hits.sum(0)) for layer in range(2)]
        with Daemon(FORESHOCKD, self.directory) as daemon:
            client = foreshock.Client(run="exp", server=daemon.grpc,
                                      model={"layers": 2, "experts": E, "top_k": K})
            for step in range(3):
                client.report(step, summaries=pushed)
            client.close()
            # Beside the daemon, which has the store open.
            self.run_proxy("calibrate", checkpoint, "--from-store", "exp", "--data", daemon.data,
                           "-w", self.path)
        got = self.read()
        np.testing.assert_array_equal(got["layers.1.coactivation"], 3 * hits.T @ hits)
        np.testing.assert_array_equal(got["layers.0.frequency"], 3 * hits.sum(0))
        np.testing.assert_array_equal(got["layers.0.gate_sum"], 1.5 * hits.sum(0))
        plan = self.directory / "plan.json"
        self.run_proxy("select", checkpoint, "--keep=4", "--context-weight=0", "--seen-least=1",
                       "--calibration", self.path, "-w", plan)

    def test_what_a_watched_training_pushed_is_what_a_pass_over_its_text_counts(self):
        model = Model()
        checkpoint = self.write_checkpoint(model)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        with Daemon(FORESHOCKD, self.directory) as daemon:
            monitor = foreshock.watch(
                model, optimizer, run="exp", server=daemon.grpc, strict=True,
                sampling={"router": {"every": 5, "coactivation_every": 2}})
            passes = []
            for step in range(5):
                ids = torch.randint(VOCAB, (2, 15))
                if step % 2 == 0:  # by the router that this step is about to change
                    passes.append(self.directory / f"pass-{step}.safetensors")
                    twin = Model()
                    twin.load_state_dict(model.state_dict())
                    foreshock.calibrate(twin, [ids], passes[-1])
                optimizer.zero_grad()
                model(ids).square().mean().backward()
                optimizer.step()
                monitor.step(step)
            self.assertTrue(monitor.close())
            self.run_proxy("calibrate", checkpoint, "--from-store", "exp", "--data", daemon.data,
                           "-w", self.path)
        sums = [self.read(path) for path in passes]
        got = self.read()
        for layer in range(2):
            for name in ("tokens", "frequency", "coactivation"):
                name = f"layers.{layer}.{name}"
                np.testing.assert_array_equal(got[name], sum(one[name] for one in sums), name)
        # The router moved, or the sums would say little.
        self.assertFalse(np.array_equal(sums[0]["layers.0.frequency"],
                                        sums[-1]["layers.0.frequency"]))


if __name__ == "__main__":
    FORESHOCKD = sys.argv.pop(2)
    PROXY = sys.argv.pop(1)
    unittest.main()
