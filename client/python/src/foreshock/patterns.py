"""The names by which attention and routers are recognised: one table, first match wins.

An entry says which children of a module (dotted names relative to it) hold the weights and how
their rows belong to heads. `foreshock.watch(..., patterns=[...])` puts entries of your own before
these:

    Attention("mine", q="proj_q", k="proj_k", path=r"blocks\\.\\d+\\.mix", heads=8)

Layouts of a fused weight [out, in], for n query and m key heads of size r:
    concat     n*r rows of Q, then m*r of K, then V     GPT-2, Phi-3, timm, nn.MultiheadAttention
    grouped    per key head: its n/m query heads, K, V  Megatron linear_qkv, GPT-NeoX (n = m)
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Attention:
    """Where W_Q and W_K are. Sizes that are 0 are read from the module (SIZES below)."""

    name: str
    q: str = ""  # child with `weight`, or a parameter; split projections
    k: str = ""
    fused: str = ""  # child with `weight`, or a parameter, that holds Q, K and V
    layout: str = "concat"  # of `fused`
    transposed: bool = False  # weight is [in, out] (Conv1D)
    q_down: str = ""  # latent attention: W_Q = q . norm gain . q_down; absent: q is whole
    q_norm: str = ""
    k_down: str = ""  # its first rows, as many as k has columns, are the latent; the rest is rotary
    k_norm: str = ""
    path: str = ""  # regular expression that the module's path must contain; absent: any
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0


@dataclasses.dataclass(frozen=True)
class Router:
    """A gate: a module with a weight [experts, d] whose input is the tokens."""

    name: str
    gate: str  # child of the block, or "" for the module that matches `path`
    experts: str = ""  # sibling that holds the experts; absent: the gate must say their number
    score: str = ""  # softmax or sigmoid; absent: read from the modules (SCORE_NAMES), else softmax
    top_k: int = 0  # 0: read from the modules
    path: str = ""


ATTENTION = (
    # DeepSeek V2, V3 and kin; the longest lists of names first, so that no shorter one takes them.
    Attention("deepseek MLA", q_down="q_a_proj", q_norm="q_a_layernorm", q="q_b_proj",
              k_down="kv_a_proj_with_mqa", k_norm="kv_a_layernorm", k="kv_b_proj"),
    Attention("deepseek MLA, whole Q", q="q_proj", k_down="kv_a_proj_with_mqa",
              k_norm="kv_a_layernorm", k="kv_b_proj"),
    Attention("deepseek reference MLA", q_down="wq_a", q_norm="q_norm", q="wq_b",
              k_down="wkv_a", k_norm="kv_norm", k="wkv_b"),
    Attention("megatron MLA", q_down="linear_q_down_proj", q_norm="q_layernorm",
              q="linear_q_up_proj", k_down="linear_kv_down_proj", k_norm="kv_layernorm",
              k="linear_kv_up_proj"),
    # Hugging Face Llama, Mistral, Mixtral, Qwen, OLMoE, Gemma, OPT, ...
    Attention("split q_proj, k_proj", q="q_proj", k="k_proj"),
    Attention("split wq, wk", q="wq", k="wk"),
    Attention("split query, key", q="query", k="key"),
    Attention("split to_q, to_k", q="to_q", k="to_k"),
    Attention("megatron linear_qkv", fused="linear_qkv", layout="grouped"),
    Attention("query_key_value", fused="query_key_value", layout="grouped"),  # GPT-NeoX, Megatron
    Attention("phi qkv_proj", fused="qkv_proj"),
    Attention("GPT-2 c_attn", fused="c_attn"),
    Attention("Wqkv", fused="Wqkv"),
    Attention("fused qkv", fused="qkv"),
    Attention("torch MultiheadAttention", fused="in_proj_weight"),
    Attention("torch MultiheadAttention, split", q="q_proj_weight", k="k_proj_weight"),
)  # fmt: skip

ROUTERS = (
    # Mixtral's block_sparse_moe.gate, Qwen-MoE's, OLMoE's and DeepSeek's mlp.gate.
    Router("gate beside experts", gate="gate", experts="experts"),
    Router("router beside experts", gate="router", experts="experts"),  # Megatron, gpt-oss
    Router("router.classifier", gate="router.classifier", experts="experts"),  # Switch
    Router("gate beside experts, wg", gate="gate.wg", experts="experts"),  # DeepSpeed, Tutel
)

# Attributes that give sizes, of the module, else of its `config`; the first that is there counts.
SIZES = {
    "heads": ("num_attention_heads", "num_heads", "n_heads", "n_head"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_kv_head",
                 "num_query_groups"),
    "head_dim": ("head_dim", "d_head", "hidden_size_per_attention_head", "attention_head_size",
                 "kv_channels"),
    "nope_dim": ("qk_nope_head_dim", "qk_head_dim"),
    "rope_dim": ("qk_rope_head_dim", "qk_pos_emb_head_dim"),
    "layers": ("num_hidden_layers", "num_layers", "n_layers", "n_layer"),
    "top_k": ("top_k", "topk", "num_experts_per_tok", "moe_router_topk", "k"),
    "experts": ("n_routed_experts", "num_experts", "num_local_experts", "num_moe_experts"),
    "groups": ("n_group", "moe_router_num_groups"),
    "groups_taken": ("topk_group", "moe_router_group_topk"),
    "shared_experts": ("n_shared_experts",),
}  # fmt: skip
SCORE_NAMES = ("scoring_func", "score_function", "moe_router_score_function")
CORRECTION_BIAS_NAMES = ("e_score_correction_bias", "expert_bias", "correction_bias")
# An fp32 master of a low-precision parameter, if the optimizer leaves one of its shape there.
MASTER_ATTRIBUTES = ("main_param",)  # Megatron
MASTER_STATE_KEYS = ("master_param", "fp32_param")  # in optimizer.state[parameter]
