"""Small trees of modules with the names and shapes of well-known models; most have no forward."""

import types

import torch
from torch import nn


def linear(rows, columns):
    return nn.Linear(columns, rows, bias=False)


def tree(**children):
    """A module with children, parameters and plain attributes by name."""
    module = nn.Module()
    for name, child in children.items():
        setattr(module, name, child)
    return module


def config(**values):
    return types.SimpleNamespace(**values)


def layers(make, count=2, **attributes):
    """model.layers.0.<...>, model.layers.1.<...>, as Hugging Face names them."""
    inner = tree(layers=nn.ModuleList([make(i) for i in range(count)]))
    return tree(model=inner, **attributes)


D, HEADS, KV, R = 48, 6, 2, 8


def llama_attention():
    return tree(q_proj=linear(HEADS * R, D), k_proj=linear(KV * R, D), v_proj=linear(KV * R, D),
                o_proj=linear(D, HEADS * R), head_dim=R)


LLAMA_CONFIG = config(num_attention_heads=HEADS, num_key_value_heads=KV, num_hidden_layers=2)


def llama():
    return layers(lambda i: tree(self_attn=llama_attention()), config=LLAMA_CONFIG)


def experts(count=8):
    return nn.ModuleList([linear(D, D) for _ in range(count)])


def mixtral():
    return layers(lambda i: tree(
        self_attn=llama_attention(),
        block_sparse_moe=tree(gate=linear(8, D), experts=experts(), top_k=2)), config=LLAMA_CONFIG)


def qwen_moe():
    return layers(lambda i: tree(
        self_attn=llama_attention(),
        mlp=tree(gate=linear(8, D), experts=experts(), top_k=4, num_experts=8,
                 shared_expert_gate=linear(1, D))), config=LLAMA_CONFIG)


def olmoe():
    return layers(lambda i: tree(
        self_attn=llama_attention(),
        mlp=tree(gate=linear(8, D), experts=experts(), num_experts=8, top_k=3)),
        config=config(num_attention_heads=HEADS, num_key_value_heads=KV, num_experts_per_tok=3))


NOPE, ROPE, V, Q_RANK, KV_RANK = 8, 4, 6, 20, 12


def deepseek_attention(q_lora=True):
    children = dict(
        kv_a_proj_with_mqa=linear(KV_RANK + ROPE, D),
        kv_a_layernorm=nn.LayerNorm(KV_RANK),
        kv_b_proj=linear(HEADS * (NOPE + V), KV_RANK),
        num_heads=HEADS, qk_nope_head_dim=NOPE, qk_rope_head_dim=ROPE)
    if q_lora:
        children.update(q_a_proj=linear(Q_RANK, D), q_a_layernorm=nn.LayerNorm(Q_RANK),
                        q_b_proj=linear(HEADS * (NOPE + ROPE), Q_RANK))
    else:
        children.update(q_proj=linear(HEADS * (NOPE + ROPE), D))
    return tree(**children)


class DeepseekGate(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, D))
        self.e_score_correction_bias = nn.Parameter(torch.zeros(8))
        self.top_k, self.n_routed_experts, self.scoring_func = 2, 8, "sigmoid"
        self.n_group = 4

    def forward(self, hidden):
        scores = torch.sigmoid(hidden.reshape(-1, D) @ self.weight.t())
        weights, index = scores.topk(self.top_k)
        return index, weights


def deepseek(q_lora=True):
    def layer(i):
        dense = tree(gate_proj=linear(4, D), up_proj=linear(4, D))
        moe = tree(gate=DeepseekGate(), experts=experts())
        return tree(self_attn=deepseek_attention(q_lora), mlp=dense if i == 0 else moe)

    return layers(layer, config=config(n_shared_experts=1, num_hidden_layers=2))


def megatron(shards=1):
    """decoder.layers.N.self_attention.linear_qkv of one of `shards` tensor-parallel ranks."""
    cfg = config(num_attention_heads=HEADS, num_query_groups=KV, kv_channels=R, num_layers=4,
                 moe_router_topk=2, num_moe_experts=8, moe_router_score_function="softmax")
    rows = (HEADS + 2 * KV) * R // shards

    def layer(i):
        attention = tree(linear_qkv=linear(rows, D), linear_proj=linear(D, D), config=cfg,
                         layer_number=i + 3)  # the second pipeline stage of two
        router = tree(weight=nn.Parameter(torch.randn(8, D)), config=cfg)
        return tree(self_attention=attention,
                    mlp=tree(router=router, experts=tree(), config=cfg, layer_number=i + 3))

    return tree(decoder=tree(layers=nn.ModuleList([layer(0), layer(1)])), config=cfg)


class Conv1D(nn.Module):
    """GPT-2's: a Linear with its weight as [in, out]."""

    def __init__(self, out, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, out))


def gpt2():
    blocks = nn.ModuleList(
        [tree(attn=tree(c_attn=Conv1D(3 * D, D), num_heads=HEADS, head_dim=R)) for _ in range(2)])
    return tree(transformer=tree(h=blocks))


def neox():
    return tree(layers=nn.ModuleList([tree(attention=tree(
        query_key_value=linear(3 * D, D), num_attention_heads=HEADS, head_size=R))
        for _ in range(2)]), config=config(num_attention_heads=HEADS))


def torch_encoder():
    layer = nn.TransformerEncoderLayer(D, HEADS, 4)
    return nn.TransformerEncoder(layer, 2)


# A model that trains: attention with rotary-free grouped heads and a softmax router on top of it.


class Attention(nn.Module):
    def __init__(self, d, heads, kv_heads):
        super().__init__()
        self.num_heads, self.num_key_value_heads, self.head_dim = heads, kv_heads, d // heads
        self.q_proj = linear(d, d)
        self.k_proj = linear(kv_heads * self.head_dim, d)
        self.v_proj = linear(kv_heads * self.head_dim, d)
        self.o_proj = linear(d, d)
        self.tap = None  # called with rotated q and k, as a model that wants logits watched does

    def forward(self, x):
        tokens = x.shape[1]

        def split(y):
            return y.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

        q, k, v = split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x))
        if self.tap is not None:
            self.tap(q, k)
        group = self.num_heads // self.num_key_value_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        mask = torch.full((tokens, tokens), float("-inf"), dtype=x.dtype).triu(1)
        p = (q @ k.transpose(2, 3) / self.head_dim**0.5 + mask).softmax(-1)
        return self.o_proj((p @ v).transpose(1, 2).flatten(2))


class Moe(nn.Module):
    def __init__(self, d, count, top_k):
        super().__init__()
        self.top_k = top_k
        self.gate = linear(count, d)
        self.experts = nn.ModuleList([linear(d, d) for _ in range(count)])

    def forward(self, x):
        logits = self.gate(x)
        weights, index = logits.softmax(-1).topk(self.top_k)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            share = (weights * (index == e)).sum(-1, keepdim=True)
            out = out + share * expert(x)
        return out


class Block(nn.Module):
    def __init__(self, d, heads, kv_heads, count):
        super().__init__()
        self.self_attn = Attention(d, heads, kv_heads)
        self.mlp = Moe(d, count, 2)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        x = x + self.self_attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    """[batch, tokens] -> [batch, tokens, vocabulary]."""

    def __init__(self, d=32, depth=2, heads=4, kv_heads=2, count=4, vocabulary=16, checkpoint=None):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, d)
        self.layers = nn.ModuleList([Block(d, heads, kv_heads, count) for _ in range(depth)])
        self.head = linear(vocabulary, d)
        self.checkpoint = checkpoint  # torch.utils.checkpoint.checkpoint with its options

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x) if self.checkpoint is None else self.checkpoint(layer, x)
        return self.head(x)


def batch(step, vocabulary=16, size=4, length=12):
    """A made-up sequence in which the next token follows from the last."""
    generator = torch.Generator().manual_seed(step)
    start = torch.randint(vocabulary, (size, 1), generator=generator)
    tokens = (start + torch.arange(length + 1) * 3) % vocabulary
    return tokens[:, :-1], tokens[:, 1:]


def train_step(model, optimizer, step, clip=1.0):
    """(loss, gradient norm before clipping) of one optimizer step."""
    inputs, targets = batch(step)
    loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss, norm
