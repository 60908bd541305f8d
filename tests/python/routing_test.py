#!/usr/bin/env python3
"""How a router scores is read off its own forward, whatever it is called and puts out."""

import pathlib
import sys
import unittest

import torch
import torch.nn.functional as F
from torch import nn

from foreshock.discovery import discover
from foreshock.patterns import Router
from foreshock.routing import Unreadable, read

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import standins as s  # noqa: E402

D, EXPERTS, K = 16, 8, 2


class Gate(nn.Module):
    """Scores with `function` and puts out what `form` makes of logits, scores and the choice."""

    def __init__(self, function, form, bias=None, k=K):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, D))
        if bias is not None:
            self.register_buffer("e_score_correction_bias", bias)
        self.function, self.form, self.k = function, form, k

    def forward(self, x):
        logits = F.linear(x.reshape(-1, D), self.weight)
        scores = self.function(logits)
        bias = getattr(self, "e_score_correction_bias", 0)
        chosen = (scores + bias).topk(self.k).indices
        weights = scores.gather(1, chosen)
        return self.form(logits, scores, chosen, weights)


class Nested(nn.Module):
    """Switch's, JetMoE's, HunYuan's: the matrix is a child's."""

    def __init__(self, name, before=lambda x: x):
        super().__init__()
        setattr(self, name, nn.Linear(D, EXPERTS, bias=False))
        self.name, self.before = name, before

    def forward(self, x):
        logits = getattr(self, self.name)(self.before(x))
        weights, chosen = logits.softmax(-1).topk(K)
        return chosen, weights


class BlockRouted(nn.Module):
    """transformers 4's GLM-4.5: the gate puts out logits and holds a bias, its block chooses."""

    def __init__(self, told):
        super().__init__()
        self.gate = Gate(torch.sigmoid, lambda logits, *rest: logits, bias=torch.zeros(EXPERTS))
        self.experts = nn.ModuleList([nn.Linear(D, D) for _ in range(EXPERTS)])
        self.top_k = K
        if told:
            self.route_tokens_to_experts = self.route

    def route(self, logits):
        scores = logits.sigmoid()
        chosen = (scores + self.gate.e_score_correction_bias).topk(K).indices
        weights = scores.gather(1, chosen)
        return chosen, weights / weights.sum(-1, keepdim=True)


def softmax(x):
    return x.softmax(-1)


def reading_of(gate, weight="weight", **around):
    block = s.tree(gate=gate, **around)
    return read(gate, weight, block, EXPERTS, D)


def sparse(logits, chosen, values):
    return torch.zeros_like(logits).scatter(1, chosen, values)


class Read(unittest.TestCase):
    def test_what_is_put_out_and_how_it_was_scored(self):
        forms = {
            "choice and weights": (lambda l, s, c, w: (c, w), (None, 0, None)),
            "weights and choice": (lambda l, s, c, w: (w, c), (None, 1, None)),
            "normalised": (lambda l, s, c, w: (l, 2.5 * w / w.sum(-1, True), c), (0, 2, None)),
            "an extra loss": (lambda l, s, c, w: (c, w, l.square().mean()), (None, 0, None)),
            "nested": (lambda l, s, c, w: ((l, None), [w, c]), (0, 3, None)),
            "sparse weights": (lambda l, s, c, w: (sparse(l, c, w), l), (1, None, 0)),
            "weights and map": (lambda l, s, c, w: (sparse(l, c, w), sparse(l, c, torch.ones_like(w))
                                                    .bool()), (None, None, 0)),
        }  # fmt: skip
        for score, function in (("softmax", softmax), ("sigmoid", torch.sigmoid)):
            for name, (form, places) in forms.items():
                with self.subTest(score, form=name):
                    got = reading_of(Gate(function, form))
                    self.assertEqual((got.score, got.top_k), (score, K))
                    self.assertEqual((got.logits, got.chosen, got.picked), places)

    def test_softmax_over_the_chosen_alone_and_scores_of_all(self):
        got = reading_of(Gate(lambda x: x, lambda l, s, c, w: (l, softmax(w), c)))
        self.assertEqual((got.score, got.logits, got.chosen), ("softmax", 0, 2))
        got = reading_of(Gate(torch.sigmoid, lambda l, s, c, w: s))
        self.assertEqual((got.score, got.scores, got.top_k), ("sigmoid", 0, 0))

    def test_what_does_not_show_is_left_open(self):
        for form in (lambda l, s, c, w: l, lambda l, s, c, w: (l, c),
                     lambda l, s, c, w: (c, torch.ones_like(w)), lambda l, s, c, w: (l.square(), c)):
            self.assertEqual(reading_of(Gate(softmax, form)).score, "")
        other = Gate(lambda x: F.softplus(x).sqrt(), lambda l, s, c, w: (l, w, c))
        self.assertEqual((reading_of(other).score, reading_of(other).chosen), ("", 2))

    def test_one_expert_for_each_token(self):
        got = reading_of(Gate(torch.sigmoid, lambda l, s, c, w: (c, w), k=1))
        self.assertEqual((got.score, got.top_k), ("sigmoid", 1))
        got = reading_of(Gate(softmax, lambda l, s, c, w: (sparse(l, c, w / w).long(), w, l), k=1))
        self.assertEqual((got.score, got.top_k, got.picked, got.logits), ("softmax", 1, 0, 2))
        got = reading_of(Gate(torch.sigmoid, lambda l, s, c, w: (c, w / w), k=1))
        self.assertEqual((got.score, got.top_k), ("", 1))

    def test_a_matrix_of_a_child(self):
        for name in ("classifier", "wg", "layer", "gate", "proj", "linear"):
            got = reading_of(Nested(name), f"{name}.weight")
            self.assertEqual((got.score, got.chosen, got.plain), ("softmax", 0, True))
        got = reading_of(Nested("proj", lambda x: F.normalize(x, dim=-1)), "proj.weight")
        self.assertEqual((got.score, got.plain), ("softmax", False))

    def test_arguments_that_the_block_gives(self):
        class Takes(Gate):
            def forward(self, x, expert_bias, scale=1.0):
                scores = F.linear(x, self.weight).sigmoid()
                chosen = (scores + expert_bias).topk(K).indices
                return chosen, scores.gather(1, chosen) * scale

        got = reading_of(Takes(None, None), expert_bias=torch.zeros(EXPERTS))
        self.assertEqual((got.score, got.chosen), ("sigmoid", 0))
        with self.assertRaisesRegex(Unreadable, "its forward wants expert_bias, which is not known"):
            reading_of(Takes(None, None))

    def test_nothing_of_the_model_is_touched(self):
        gate = Gate(softmax, lambda l, s, c, w: (c, w), bias=torch.zeros(EXPERTS))
        calls = []
        gate.register_forward_hook(lambda *given: calls.append(given))
        kept = {name: value.clone() for name, value in gate.state_dict().items()}
        state = torch.get_rng_state()
        reading_of(gate)
        self.assertEqual(calls, [])
        self.assertTrue(torch.equal(torch.get_rng_state(), state))
        self.assertTrue(gate.training)
        for name, value in gate.state_dict().items():
            self.assertTrue(torch.equal(value, kept[name]))

    def test_a_forward_that_fails_or_was_replaced_is_a_reason(self):
        def boom(*unused):
            raise RuntimeError("no such kernel\nand more")

        with self.assertRaisesRegex(Unreadable, "^RuntimeError: no such kernel$"):
            reading_of(Gate(softmax, boom))
        gate = Gate(softmax, lambda l, s, c, w: l)
        gate.forward = lambda x: x
        with self.assertRaisesRegex(Unreadable, "its forward was replaced"):
            reading_of(gate)


class Found(unittest.TestCase):
    def routers(self, block, *patterns):
        return discover(s.tree(mlp=block), patterns)

    def block(self, gate, name="gate", **more):
        return s.tree(**{name: gate}, experts=nn.ModuleList([nn.Linear(D, D)] * EXPERTS), **more)

    def test_the_forward_decides_before_the_config(self):
        block = self.block(Gate(torch.sigmoid, lambda l, s, c, w: (c, w)), scoring_func="softmax",
                           top_k=5)
        router, = self.routers(block).routers
        self.assertEqual((router.score, router.score_from, router.top_k),
                         ("sigmoid", "by its forward", K))

    def test_a_block_that_chooses_for_its_gate(self):
        router, = self.routers(BlockRouted(told=True)).routers
        self.assertEqual((router.score, router.score_from), ("sigmoid", "by its forward"))

    def test_a_bias_and_nothing_that_says_how_it_scores(self):
        found = self.routers(BlockRouted(told=False))
        self.assertEqual(found.routers, [])
        self.assertIn("mlp: not watched: mlp.gate: no scores: softmax or sigmoid, neither its "
                      "forward nor its config says it; and no load", found.lines[0])
        router, = self.routers(BlockRouted(told=False),
                               Router("mine", "gate", "experts", score="sigmoid")).routers
        self.assertEqual((router.score, router.score_from), ("sigmoid", "from the pattern"))

    def test_an_assumption_is_said(self):
        router, = self.routers(self.block(nn.Linear(D, EXPERTS), top_k=K)).routers
        self.assertEqual(router.score, "softmax")
        self.assertIn("softmax (assumed: neither its forward nor its config says it)", router.line())

    def test_another_score_function_gives_load_alone(self):
        gate = Gate(lambda x: F.softplus(x).sqrt(), lambda l, s, c, w: (l, w, c))
        gate.scoring_func = "sqrtsoftplus"
        router, = self.routers(self.block(gate)).routers
        self.assertEqual((router.score, router.top_k, router.tells_choice), ("", K, True))
        self.assertIn("no scores: 'sqrtsoftplus' is neither softmax nor sigmoid", router.line())

    def test_a_matrix_of_a_child_beside_experts(self):
        for name, child in (("router", "classifier"), ("gate", "wg"), ("router", "layer"),
                            ("router", "gate")):
            router, = self.routers(self.block(Nested(child), name)).routers
            self.assertEqual((router.path, router.weight), (f"mlp.{name}", f"{child}.weight"))

    def test_routers_of_several_sizes(self):
        small = self.block(nn.Linear(D, EXPERTS), top_k=K)
        large = s.tree(gate=nn.Linear(D, 2 * EXPERTS), top_k=K,
                       experts=nn.ModuleList([nn.Linear(D, D)] * 2 * EXPERTS))
        found = discover(s.tree(layers=nn.ModuleList([small, large])))
        self.assertEqual([r.experts for r in found.routers], [EXPERTS, 2 * EXPERTS])
        self.assertEqual((found.shape.experts, found.shape.top_k), (0, K))


if __name__ == "__main__":
    unittest.main(verbosity=2)
