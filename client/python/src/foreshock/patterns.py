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
    having: str = ""  # attribute that the module must have; absent: none
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0


@dataclasses.dataclass(frozen=True)
class Router:
    """A gate: the module whose forward turns tokens into scores or choices. Its weight [experts, d]
    is its own or that of a child (GATE_WEIGHTS below)."""

    name: str
    gate: str  # child of the block, or "" for the module that matches `path`
    experts: str = ""  # sibling that holds the experts; absent: the gate must say their number
    score: str = ""  # softmax or sigmoid; absent: the gate's forward says it, else SCORE_NAMES
    top_k: int = 0  # 0: the gate's forward says it, else SIZES
    path: str = ""


@dataclasses.dataclass(frozen=True)
class LeftAlone:
    """A module that looks like attention, or stands where attention could stand, and is not
    watched."""

    why: str
    having: tuple[str, ...] = ()  # attributes that the module must have, all of them
    of_class: str = ""  # name of its class


LEFT_ALONE = (
    # Mamba, gated delta nets, Kimi's delta attention
    LeftAlone("a state-space or linear-attention layer, which has no logits q.k", ("A_log",)),
    LeftAlone("linear attention, which has no logits q.k", ("q_proj", "forget_gate")),
    LeftAlone("lightning attention, which has no logits q.k", ("qkv_proj", "output_gate")),
    LeftAlone("its rows are those of 4 model-parallel shards", of_class="CodeGenAttention"),
)

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
    # Hugging Face Llama, Mixtral, Qwen, OLMoE, Gemma, OPT, ...
    Attention("split q_proj, k_proj", q="q_proj", k="k_proj"),
    Attention("split wq, wk", q="wq", k="wk"),
    Attention("split query, key", q="query", k="key"),
    Attention("split to_q, to_k", q="to_q", k="to_k"),
    Attention("split c_q, c_k", q="c_q", k="c_k"),  # nanoGPT's descendants
    Attention("split q_lin, k_lin", q="q_lin", k="k_lin"),  # DistilBERT, XLM
    Attention("split q, k", q="q", k="k"),  # T5
    Attention("megatron linear_qkv", fused="linear_qkv", layout="grouped"),
    Attention("ChatGLM query_key_value", fused="query_key_value",
              having="num_multi_query_groups_per_partition"),
    Attention("query_key_value", fused="query_key_value", layout="grouped"),  # NeoX, BLOOM, Falcon
    Attention("phi qkv_proj", fused="qkv_proj"),
    Attention("StarCoder c_attn", fused="c_attn", layout="grouped", having="multi_query"),
    Attention("GPT-2 c_attn", fused="c_attn"),
    Attention("InternLM2 wqkv", fused="wqkv", layout="grouped", having="num_key_value_groups"),
    Attention("gpt-fast wqkv", fused="wqkv", having="n_local_heads"),
    Attention("Wqkv", fused="Wqkv"),
    Attention("att_proj", fused="att_proj"),  # OLMo
    Attention("to_qkv", fused="to_qkv"),
    Attention("fused qkv", fused="qkv"),
    Attention("torch MultiheadAttention", fused="in_proj_weight"),
    Attention("torch MultiheadAttention, split", q="q_proj_weight", k="k_proj_weight"),
)  # fmt: skip

ROUTERS = (
    # Mixtral's, Qwen-MoE's, OLMoE's and DeepSeek's mlp.gate; DeepSpeed's gate.wg.
    Router("gate beside experts", gate="gate", experts="experts"),
    # Megatron, gpt-oss, Llama-4, Granite, Switch, torchtitan
    Router("router beside experts", gate="router", experts="experts"),
    Router("router beside input_linear", gate="router", experts="input_linear"),  # JetMoE
)

# Where a gate's matrix [experts, d] is, from the gate on; the first that is there counts.
GATE_WEIGHTS = ("weight", "classifier.weight", "wg.weight", "layer.weight", "gate.weight",
                "proj.weight", "linear.weight")  # fmt: skip
# Attributes that give sizes, of the module, else of its `config`; the first that is there counts.
SIZES = {
    "heads": ("num_attention_heads", "num_heads", "n_heads", "n_head", "n_local_heads",
              "num_attention_heads_per_partition"),
    "kv_heads": ("kv_heads", "num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_kv_head",
                 "num_query_groups", "num_multi_query_groups_per_partition"),
    "head_dim": ("head_dim", "d_head", "hidden_size_per_attention_head", "attention_head_size",
                 "key_value_proj_dim", "kv_channels"),
    "nope_dim": ("qk_nope_head_dim", "qk_head_dim"),
    "rope_dim": ("qk_rope_head_dim", "qk_pos_emb_head_dim"),
    "layers": ("num_hidden_layers", "num_layers", "n_layers", "n_layer"),
    "top_k": ("top_k", "topk", "num_experts_per_tok", "moe_router_topk", "moe_top_k", "k"),
    "experts": ("n_routed_experts", "num_experts", "num_local_experts", "num_moe_experts",
                "moe_num_experts"),
    "groups": ("n_group", "num_group", "moe_router_num_groups"),
    "groups_taken": ("topk_group", "moe_router_group_topk"),
    "shared_experts": ("n_shared_experts",),
}  # fmt: skip
SCORE_NAMES = ("scoring_func", "score_func", "score_function", "moe_router_score_function")
CORRECTION_BIAS_NAMES = ("e_score_correction_bias", "expert_bias", "correction_bias",
                         "moe_statics.e_score_correction_bias")  # fmt: skip
# An fp32 master of a low-precision parameter, if the optimizer leaves one of its shape there.
MASTER_ATTRIBUTES = ("main_param",)  # Megatron
MASTER_STATE_KEYS = ("master_param", "fp32_param")  # in optimizer.state[parameter]
