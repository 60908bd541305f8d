#!/usr/bin/env python3
"""foreshock.proxy_report against sums made token by token, and its file through foreshock-proxy.

    tests/python/forward_report_test.py FORESHOCK_PROXY
"""

import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import torch

import foreshock
from calibration_test import D, E, K, VOCAB, Model  # the model of its neighbour

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support/python"))
import safetensors_file  # noqa: E402

PROXY = None
KEPT = [[0, 2, 5, 7], [1, 2, 3, 6]]
CLUSTER = [[0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 1, 2, 2, 3, 3, 3]]


def targets(batch):
    return batch % D  # the test's model has D outputs


class ForwardReportTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_forward_")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.plan = self.directory / "plan.json"
        self.original = Model(renormalised=True)
        self.batches = [torch.randint(VOCAB, (3, 20)), torch.randint(VOCAB, (2, 7))]

    def cut(self, kept, cluster):
        """The proxy with these experts, and its plan."""
        self.plan.write_text(json.dumps({
            "experts": E, "keep": len(kept[0]),
            "layers": [{"layer": n, "kept": k, "cluster": c}
                       for n, (k, c) in enumerate(zip(kept, cluster))]}))
        proxy = Model(renormalised=True)
        proxy.load_state_dict(self.original.state_dict())
        for layer, rows in zip(proxy.model.layers, kept):
            block = layer.mlp
            gate = torch.nn.Linear(D, len(rows), bias=False)
            gate.weight = torch.nn.Parameter(block.gate.weight[rows].clone())
            block.gate = gate
            block.experts = torch.nn.ModuleList([block.experts[e] for e in rows])
            block.num_experts = len(rows)
        # Its forward reshapes by the number of experts.
        for layer in proxy.model.layers:
            layer.mlp.forward = lambda hidden, block=layer.mlp: forward(block, hidden)
        return proxy

    def report(self, proxy, **options):
        return foreshock.proxy_report(self.original, proxy, self.plan, self.batches,
                                      self.directory / "forward.json", targets=targets, **options)

    def test_a_proxy_of_all_experts_is_the_original(self):
        everything = [list(range(E))] * 2
        values = self.report(self.cut(everything, everything)).values
        self.assertEqual(values["tokens"], 74)
        for layer in values["layers"]:
            self.assertEqual(layer["survival"], 1)
            self.assertEqual(layer["cluster_agreement"], 1)
            self.assertEqual(layer["output"]["error_p90"], 0)
            self.assertAlmostEqual(layer["stream"]["cosine_mean"], 1, places=12)
            self.assertAlmostEqual(layer["load"]["rank_correlation"], 1, places=12)
            self.assertEqual(layer["load"]["before"], layer["load"]["after"])
            self.assertEqual(layer["router"]["before"], layer["router"]["after"])
        self.assertEqual(values["output"]["kl"], 0)
        self.assertEqual(values["output"]["cross_entropy_before"],
                         values["output"]["cross_entropy_after"])

    def test_numbers_are_those_of_single_tokens(self):
        proxy = self.cut(KEPT, CLUSTER)
        values = self.report(proxy).values
        survived, agreed, chosen, errors, cosines = [[0, 0] for _ in range(5)]
        before_loss = after_loss = kl = 0.0
        for batch in self.batches:
            with torch.no_grad():
                before, after = self.original(batch), proxy(batch)
            for n in range(2):
                ours, theirs = (m.model.layers[n].mlp for m in (self.original, proxy))
                for a, b in zip(ours.last[1].tolist(), theirs.last[1].tolist()):
                    for e in a:
                        chosen[n] += 1
                        survived[n] += e in KEPT[n]
                        agreed[n] += CLUSTER[n][e] in b
                with torch.no_grad():
                    x, y = ours(ours.last[0]), theirs(theirs.last[0])
                for one, other in zip(x, y):
                    errors[n] += float((other - one).norm() / one.norm())
                    cosines[n] += float(one @ other / one.norm() / other.norm())
            for p, q, t in zip(before.reshape(-1, D), after.reshape(-1, D),
                               targets(batch).reshape(-1)):
                p, q = p.double().log_softmax(-1), q.double().log_softmax(-1)
                before_loss -= float(p[t])
                after_loss -= float(q[t])
                kl += float((p.exp() * (p - q)).sum())
        self.assertLess(survived[0], chosen[0])
        for n, layer in enumerate(values["layers"]):
            self.assertEqual(layer["survival"], survived[n] / chosen[n])
            self.assertEqual(layer["cluster_agreement"], agreed[n] / chosen[n])
            self.assertAlmostEqual(layer["output"]["error_mean"], errors[n] / 74, places=5)
            self.assertAlmostEqual(layer["output"]["cosine_mean"], cosines[n] / 74, places=5)
            self.assertGreaterEqual(layer["output"]["error_p90"], layer["output"]["error_mean"] / 2)
        output = values["output"]
        self.assertEqual(output["positions"], 74)
        self.assertAlmostEqual(output["cross_entropy_before"], before_loss / 74, places=9)
        self.assertAlmostEqual(output["cross_entropy_after"], after_loss / 74, places=9)
        self.assertAlmostEqual(output["kl"], kl / 74, places=9)
        self.assertTrue(self.original.training)

    def test_padding_does_not_count(self):
        proxy = self.cut(KEPT, CLUSTER)
        ids = self.batches[0]
        mask = torch.ones_like(ids)
        mask[0, 6:] = 0
        options = dict(targets=lambda b: targets(b["input_ids"]).masked_fill(mask == 0, -100))
        values = foreshock.proxy_report(self.original, proxy, self.plan,
                                        [{"input_ids": ids, "attention_mask": mask}], **options).values
        self.assertEqual(values["tokens"], 46)
        self.assertEqual(values["output"]["positions"], 46)

    def test_selectors_without_clusters_have_no_agreement(self):
        report = self.report(self.cut(KEPT, [[], []]))
        layer = report.values["layers"][0]
        self.assertIsNone(layer["cluster_agreement"])
        self.assertIsNone(layer["load"]["rank_correlation"])
        self.assertIn("no clusters", layer["load"]["rank_correlation_missing"])
        self.assertIn("clusters agree -", report.lines[0])

    def test_models_that_are_no_pair_are_refused(self):
        proxy = self.cut(KEPT, CLUSTER)
        with self.assertRaisesRegex(ValueError, "layer 0 has 4 experts in the plan, the proxy has 8"):
            self.report(Model(renormalised=True))
        plan = json.loads(self.plan.read_text())
        plan["layers"][1]["layer"] = 7
        self.plan.write_text(json.dumps(plan))
        with self.assertRaisesRegex(ValueError, r"no router of the layers \[7\]"):
            self.report(proxy)

    def run_proxy(self, *arguments, code=0):
        answer = subprocess.run([PROXY, *map(str, arguments)], capture_output=True, text=True,
                                check=False)
        self.assertEqual(answer.returncode, code, answer.stderr)
        return answer

    def test_the_report_of_the_proxy_builder_takes_the_file(self):
        model, out = self.directory / "model", self.directory / "proxy"
        tensors = {name: safetensors_file.encode("F32", value.numpy())
                   for name, value in self.original.state_dict().items()}
        safetensors_file.write_checkpoint(model, {
            "model_type": "olmoe", "num_experts": E, "num_experts_per_tok": K,
            "num_hidden_layers": 2, "norm_topk_prob": True}, tensors, 1)
        calibration = self.directory / "calib.safetensors"
        foreshock.calibrate(self.original, [torch.randint(VOCAB, (4, 30))], calibration)
        self.run_proxy("build", model, out, "--keep=4", "--calibration", calibration,
                       "--coactivation=jensen-shannon")
        self.plan = out / "plan.json"
        plan = json.loads(self.plan.read_text())
        text = self.plan.read_text()
        proxy = self.cut([layer["kept"] for layer in plan["layers"]],
                         [layer["cluster"] for layer in plan["layers"]])
        self.plan.write_text(text)
        values = self.report(proxy).values
        forward, markdown = self.directory / "forward.json", self.directory / "report.md"
        drawn = ["--plot", self.directory / "report.svg"] if shutil.which("gnuplot") else []
        answer = self.run_proxy("report", model, out, "--forward", forward, "--markdown", markdown,
                                "-w", self.directory / "report.json", *drawn)
        self.assertIn("both models on the same 74 tokens", answer.stdout)
        self.assertNotIn("proxy_report in Python", answer.stdout)
        report = json.loads((self.directory / "report.json").read_text())
        self.assertEqual(report["forward"]["layers"], values["layers"])
        said = markdown.read_text()
        self.assertIn(f"| 0 | {values['layers'][0]['survival']:.3f} |", said)
        self.assertIn("A fix proven on it", said)
        if drawn:
            self.assertIn("cluster agreement", (self.directory / "report.svg").read_text())
        # Without it the report says what is missing.
        self.assertIn("proxy_report in Python", self.run_proxy("report", model, out).stdout)
        # Of another plan, or cut short.
        whole = json.loads(forward.read_text())
        forward.write_text(json.dumps({**whole, "plan_sha256": "0"}))
        self.assertIn("was measured with another plan.json",
                      self.run_proxy("report", model, out, "--forward", forward, code=1).stderr)
        del whole["layers"][1]["output"]["error_mean"]
        forward.write_text(json.dumps(whole))
        self.assertIn("/layers/1/output/error_mean: a number or null is missing",
                      self.run_proxy("report", model, out, "--forward", forward, code=1).stderr)


def forward(block, hidden):
    """Block.forward of the neighbour, with as many experts as are left."""
    x = hidden.reshape(-1, D)
    p = block.gate(hidden).reshape(-1, block.num_experts).softmax(-1)
    gates, chosen = p.topk(K)
    gates = gates / gates.sum(-1, keepdim=True)
    block.last = (x, chosen, gates, p)
    out = torch.zeros_like(x)
    for t in range(len(x)):
        for g, e in zip(gates[t], chosen[t]):
            out[t] += g * block.experts[e](x[t])
    assert math.isfinite(float(out.sum()))
    return out.reshape(hidden.shape)


if __name__ == "__main__":
    PROXY = sys.argv.pop(1)
    unittest.main()
