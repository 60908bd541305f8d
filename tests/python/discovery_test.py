#!/usr/bin/env python3
"""What is recognised in trees of modules, which rows belong to which head, what is left alone."""

import pathlib
import sys
import unittest

import torch
from torch import nn

from foreshock.discovery import discover
from foreshock.patterns import Attention, Router
from foreshock.v1 import types_pb2 as types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import standins as s  # noqa: E402
from standins import D, HEADS, KV, R  # noqa: E402


def rows(weight, first, count):
    return weight.detach()[first : first + count]


class Recognised(unittest.TestCase):
    def check(self, model, path, heads, kv_heads, kind):
        found = discover(model)
        self.assertEqual([a.layer for a in found.attention], [0, 1])
        first = found.attention[0]
        self.assertEqual((first.path, first.heads, first.kv_heads), (path, heads, kv_heads))
        self.assertEqual(found.shape.attention, kind)
        self.assertIn(f"layer 0: {path}: ", found.lines[0])
        return found

    def test_llama(self):
        model = s.llama()
        found = self.check(model, "model.layers.0.self_attn", HEADS, KV, types.ATTENTION_KIND_GQA)
        attention = model.model.layers[0].self_attn
        q = found.attention[0].q.read([0, 4], None)
        self.assertTrue(torch.equal(q[1], rows(attention.q_proj.weight, 4 * R, R)))
        k = found.attention[0].k.read([1], None)
        self.assertTrue(torch.equal(k[0], rows(attention.k_proj.weight, R, R)))
        self.assertEqual([found.attention[0].key_head(h) for h in range(6)], [0, 0, 0, 1, 1, 1])
        shape = found.shape
        self.assertEqual((shape.layers, shape.heads, shape.kv_heads, shape.head_dim,
                          shape.hidden_size), (2, HEADS, KV, R, D))

    def test_gpt2_with_transposed_weights(self):
        model = s.gpt2()
        found = self.check(model, "transformer.h.0.attn", HEADS, HEADS, types.ATTENTION_KIND_MHA)
        weight = model.transformer.h[0].attn.c_attn.weight.t()
        self.assertTrue(torch.equal(found.attention[0].k.read([2], None)[0],
                                    rows(weight, D + 2 * R, R)))

    def test_neox_with_interleaved_heads(self):
        model = s.neox()
        found = self.check(model, "layers.0.attention", HEADS, HEADS, types.ATTENTION_KIND_MHA)
        weight = model.layers[0].attention.query_key_value.weight
        self.assertTrue(torch.equal(found.attention[0].q.read([1], None)[0],
                                    rows(weight, 3 * R, R)))
        self.assertTrue(torch.equal(found.attention[0].k.read([1], None)[0],
                                    rows(weight, 4 * R, R)))

    def test_torch_encoder(self):
        model = s.torch_encoder()
        found = self.check(model, "layers.0.self_attn", HEADS, HEADS, types.ATTENTION_KIND_MHA)
        weight = model.layers[0].self_attn.in_proj_weight
        self.assertTrue(torch.equal(found.attention[0].k.read([5], None)[0],
                                    rows(weight, D + 5 * R, R)))

    def test_megatron_groups_layers_and_shards(self):
        for shards in (1, 2):
            model = s.megatron(shards)
            found = discover(model)
            first = found.attention[0]
            self.assertEqual([a.layer for a in found.attention], [2, 3])  # layer_number - 1
            self.assertEqual((first.heads, first.kv_heads, first.total_heads),
                             (HEADS // shards, KV // shards, HEADS))
            weight = model.decoder.layers[0].self_attention.linear_qkv.weight
            k_row = HEADS // KV * R  # behind the query heads of the first group
            self.assertTrue(torch.equal(first.k.read([0], None)[0], rows(weight, k_row, R)))
            self.assertEqual((found.shape.layers, found.shape.heads, found.shape.kv_heads),
                             (4, HEADS, KV))
            self.assertEqual([r.layer for r in found.routers], [2, 3])
            self.assertEqual(found.routers[0].top_k, 2)

    def test_deepseek_latent_attention(self):
        for q_lora in (True, False):
            model = s.deepseek(q_lora)
            found = self.check(model, "model.layers.0.self_attn", HEADS, HEADS,
                               types.ATTENTION_KIND_MLA)
            at = model.model.layers[0].self_attn
            nn.init.uniform_(at.kv_a_layernorm.weight)
            k = found.attention[0].k.read([3], None)[0]
            first = 3 * (s.NOPE + s.V)
            up = at.kv_b_proj.weight[first : first + s.NOPE].double()
            down = at.kv_a_proj_with_mqa.weight[: s.KV_RANK].double()
            expected = up @ torch.diag(at.kv_a_layernorm.weight.double()) @ down
            self.assertTrue(torch.allclose(k, expected, rtol=1e-12, atol=1e-14))
            q = found.attention[0].q.read([3], None)[0]
            first = 3 * (s.NOPE + s.ROPE)
            if q_lora:
                expected = (at.q_b_proj.weight[first : first + s.NOPE].double()
                            @ at.q_a_proj.weight.double())
            else:
                expected = at.q_proj.weight[first : first + s.NOPE]
            self.assertTrue(torch.allclose(q, expected, rtol=1e-12, atol=1e-14))

    def test_routers(self):
        for make, path, top_k, score in [
            (s.mixtral, "model.layers.0.block_sparse_moe.gate", 2, "softmax"),
            (s.qwen_moe, "model.layers.0.mlp.gate", 4, "softmax"),
            (s.olmoe, "model.layers.0.mlp.gate", 3, "softmax"),
            (s.deepseek, "model.layers.1.mlp.gate", 2, "sigmoid"),
            (s.megatron, "decoder.layers.0.mlp.router", 2, "softmax"),
        ]:
            with self.subTest(make.__name__):
                found = discover(make())
                first = found.routers[0]
                self.assertEqual((first.path, first.experts, first.top_k, first.score),
                                 (path, 8, top_k, score))
        self.assertEqual(found.shape.router, types.ROUTER_KIND_SOFTMAX)
        deepseek = discover(s.deepseek()).shape
        self.assertEqual((deepseek.router, deepseek.shared_experts, deepseek.router_groups),
                         (types.ROUTER_KIND_SIGMOID, 1, 4))

    def test_patterns_of_the_caller_come_first(self):
        attention = s.tree(proj_q=s.linear(D, D), proj_k=s.linear(D, D))
        moe = s.tree(switch=s.linear(5, D))
        model = s.tree(blocks=nn.ModuleList([s.tree(mix=attention, moe=moe)]))
        self.assertEqual(discover(model).attention, [])
        found = discover(model, [
            Attention("mine", q="proj_q", k="proj_k", path=r"blocks\.\d+\.mix$", heads=HEADS),
            Router("mine", gate="switch", score="sigmoid", top_k=2)])
        self.assertEqual((found.attention[0].heads, found.attention[0].head_dim), (HEADS, R))
        self.assertEqual((found.routers[0].experts, found.routers[0].score), (5, "sigmoid"))

    def test_layers_without_numbers_are_counted(self):
        model = s.tree(encoder=s.tree(self_attn=s.llama_attention()),
                       decoder=s.tree(self_attn=s.llama_attention()), config=s.LLAMA_CONFIG)
        self.assertEqual([a.layer for a in discover(model).attention], [0, 1])


class OfSeveralShapes(unittest.TestCase):
    def test_every_layer_is_watched_and_the_run_has_no_one_size(self):
        model = s.llama()
        model.model.layers[1].self_attn = s.tree(q_proj=s.linear(D, 24), k_proj=s.linear(D, 24),
                                                 head_dim=2 * R, num_heads=3)
        found = discover(model)
        self.assertEqual([(a.heads, a.head_dim, a.hidden) for a in found.attention],
                         [(HEADS, R, D), (3, 2 * R, 24)])
        self.assertEqual((found.shape.heads, found.shape.head_dim, found.shape.hidden_size),
                         (HEADS, 0, 0))

    def test_heads_that_a_gate_follows(self):
        model = s.llama()
        attention = model.model.layers[1].self_attn
        attention.q_proj = s.linear(2 * HEADS * R, D)
        found = discover(model)
        self.assertIn("in q_proj a gate follows each head", found.lines[1])
        self.assertTrue(torch.equal(found.attention[1].q.read([2], None)[0],
                                    rows(attention.q_proj.weight, 4 * R, R)))

    def test_packed_multi_query_heads(self):
        packed = s.tree(c_attn=s.linear((HEADS + 2) * R, D), multi_query=True, kv_heads=1,
                        num_heads=HEADS, head_dim=R)
        found = discover(s.layers(lambda i: s.tree(attn=packed if i else s.llama_attention()),
                                  config=s.LLAMA_CONFIG))
        layer = found.attention[1]
        self.assertEqual((layer.heads, layer.kv_heads), (HEADS, 1))
        self.assertIn("MQA", layer.line())
        for head in range(HEADS):
            self.assertTrue(torch.equal(layer.q.read([head], None)[0],
                                        rows(packed.c_attn.weight, head * R, R)))
        self.assertTrue(torch.equal(layer.k.read([0], None)[0],
                                    rows(packed.c_attn.weight, HEADS * R, R)))

    def test_names_of_other_libraries(self):
        for q, k in (("c_q", "c_k"), ("q_lin", "k_lin"), ("q", "k"), ("wq", "wk")):
            with self.subTest(q):
                attention = s.tree(**{q: s.linear(D, D), k: s.linear(D, D)}, n_heads=HEADS)
                self.assertEqual(len(discover(s.tree(block=attention)).attention), 1)
        for fused, more, k_row in (("to_qkv", {}, D), ("att_proj", {}, D), ("Wqkv", {}, D),
                                   ("wqkv", {"num_key_value_groups": 1}, R),
                                   ("wqkv", {"n_local_heads": HEADS}, D)):
            with self.subTest(fused, **more):
                attention = s.tree(**{fused: s.linear(3 * D, D)}, n_heads=HEADS, **more)
                layer, = discover(s.tree(block=attention)).attention
                self.assertTrue(torch.equal(layer.k.read([0], None)[0],
                                            rows(getattr(attention, fused).weight, k_row, R)))


class LeftAlone(unittest.TestCase):
    """Each with a line that says why."""

    def check(self, model, *words):
        found = discover(model)
        text = "\n".join(found.lines)
        for word in words:
            self.assertIn(word, text)
        return found

    def test_a_model_without_attention(self):
        found = discover(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
        self.assertEqual((found.attention, found.routers, found.lines), ([], [], []))

    def test_frozen_layers(self):
        model = s.llama()
        for p in model.model.layers[0].parameters():
            p.requires_grad_(False)
        found = self.check(model, "model.layers.0.self_attn: not watched", "frozen")
        self.assertEqual([a.layer for a in found.attention], [1])

    def test_shared_projections(self):
        model = s.llama()
        model.model.layers[1].self_attn.q_proj = model.model.layers[0].self_attn.q_proj
        self.check(model, "shares its weights with model.layers.0.self_attn, which is watched")

    def test_lora_adapters(self):
        model = s.llama()
        attention = model.model.layers[0].self_attn
        attention.q_proj = s.tree(base_layer=attention.q_proj, lora_A=s.linear(2, D))
        self.check(model, "q_proj carries a LoRA adapter")

    def test_quantised_weights(self):
        model = s.llama()
        attention = model.model.layers[0].self_attn
        attention.q_proj.weight = nn.Parameter(
            attention.q_proj.weight.detach().to(torch.uint8), requires_grad=False)
        self.check(model, "q_proj is quantised (Parameter of uint8)")

    def test_meta_tensors(self):
        model = s.llama()
        model.model.layers[0].self_attn.k_proj.weight = nn.Parameter(
            torch.empty(KV * R, D, device="meta"))
        self.check(model, "k_proj is on the meta device; call watch() when the weights are there")

    def test_weights_that_are_flattened(self):
        model = s.llama()
        model.model.layers[0].self_attn.k_proj.weight = nn.Parameter(torch.empty(0))
        self.check(model, "k_proj has shape (0,); a matrix is needed (of FSDP1 or ZeRO 3, which")

    def test_fused_rows_that_do_not_add_up(self):
        model = s.neox()
        model.layers[0].attention.query_key_value = s.linear(3 * D + 8, D)
        self.check(model, "query_key_value has 152 rows, not a share of (6 + 2 * 6) heads * 8")

    def test_heads_that_are_nowhere_said(self):
        model = s.tree(attn=s.tree(q_proj=s.linear(D, D), k_proj=s.linear(D, D)))
        self.check(model, "the size of a head is not to be found", "give head_dim= in patterns=")

    def test_a_q_and_a_k_of_different_inputs(self):
        model = s.llama()
        other = s.tree(q_proj=s.linear(D, D), k_proj=s.linear(D, 24), head_dim=R)
        model.model.layers[1].self_attn = other
        self.check(model, "q_proj takes 48 numbers and k_proj 24: no matrix Q K")

    def test_more_rows_than_the_declared_heads(self):
        model = s.llama()
        model.model.layers[1].self_attn.q_proj = s.linear(9 * R, D)
        self.check(model, "layers.1.self_attn: not watched: q_proj has 72 rows, more than 6 heads")

    def test_linear_attention_and_layers_without_known_names(self):
        model = s.llama()
        class StrangeAttention(nn.Module):
            def __init__(self):
                super().__init__()
                self.theta = s.linear(D, D)
        model.model.layers[0].self_attn = s.tree(q_proj=s.linear(D, D), A_log=torch.zeros(3))
        model.model.layers[1].self_attn = StrangeAttention()
        self.check(model, "layers.0.self_attn: not watched: a state-space or linear-attention layer",
                   "layers.1.self_attn: not watched: no names of Q and K weights that are known, "
                   "among theta")

    def test_experts_without_a_gate(self):
        model = s.mixtral()
        del model.model.layers[1].block_sparse_moe.gate
        self.check(model, "layers.1.block_sparse_moe: not watched: experts, and beside them no gate")

    def test_routers_of_another_size(self):
        model = s.mixtral()
        model.model.layers[1].block_sparse_moe.gate = s.linear(4, D)
        self.check(model, "block_sparse_moe.gate has 4 rows for 8 experts")


if __name__ == "__main__":
    unittest.main(verbosity=2)
