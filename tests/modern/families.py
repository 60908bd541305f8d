"""The model families of transformers that people train, each as tiny as its config allows.

    for name, model in families.models(): ...     # random weights, nothing fetched

A family is a config class's model type, what is set in it beyond TINY, and the class that is built.
"""

import torch
import transformers

D, HEADS, KV, R, LAYERS, EXPERTS, TOP_K, VOCABULARY = 32, 4, 2, 8, 2, 8, 2, 64

# Set wherever the config knows the name.
TINY = dict(
    hidden_size=D, intermediate_size=48, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
    num_key_value_heads=KV, head_dim=R, vocab_size=VOCABULARY, max_position_embeddings=64,
    num_local_experts=EXPERTS, num_experts=EXPERTS, n_routed_experts=EXPERTS,
    num_experts_per_tok=TOP_K, moe_intermediate_size=16, shared_expert_intermediate_size=16,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=0,
    first_k_dense_replace=1, n_shared_experts=1, n_group=2, topk_group=1, kv_lora_rank=12,
    q_lora_rank=20, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6,
)  # fmt: skip
VISION = dict(hidden_size=D, intermediate_size=48, num_hidden_layers=LAYERS,
              num_attention_heads=HEADS, image_size=16, patch_size=8)  # fmt: skip
LINEAR_ATTENTION = dict(linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=8,
                        linear_value_head_dim=8)  # fmt: skip

LATENT = dict(num_key_value_heads=HEADS, head_dim=4)  # of the rotary part

# name in the table -> (model type, more of the config, class or None: AutoModelForCausalLM)
FAMILIES = {
    "Llama": ("llama", {}, None),
    "Mistral": ("mistral", {}, None),
    "Qwen2": ("qwen2", {}, None),
    "Qwen3": ("qwen3", {}, None),
    "Qwen3-MoE": ("qwen3_moe", {}, None),
    "Qwen3-Next": ("qwen3_next", {**LINEAR_ATTENTION, "num_hidden_layers": 4}, None),
    "Qwen2-MoE": ("qwen2_moe", {}, None),
    "Mixtral": ("mixtral", {}, None),
    "DeepSeek-V2": ("deepseek_v2", {**LATENT, "topk_method": "group_limited_greedy"}, None),
    "DeepSeek-V3": ("deepseek_v3", LATENT, None),
    "GLM-4": ("glm4", {}, None),
    "GLM-4.5-MoE": ("glm4_moe", {}, None),
    "OLMo-2": ("olmo2", {}, None),
    "OLMoE": ("olmoe", {}, None),
    "GPT-OSS": ("gpt_oss", {}, None),
    "Llama-4": ("llama4_text", {"intermediate_size_mlp": 48, "interleave_moe_layer_step": 1}, None),
    "Granite": ("granite", {}, None),
    "Granite-MoE": ("granitemoe", {}, None),
    "Phi-3": ("phi3", {}, None),
    "Phi-3.5-MoE": ("phimoe", {}, None),
    "MiniMax": ("minimax", {"layer_types": ["full_attention", "linear_attention"]}, None),
    "MiniMax-M2": ("minimax_m2", {}, None),
    "Gemma 2": ("gemma2", {}, None),
    "Gemma 3": ("gemma3_text", {}, None),
    "Jamba":
        ("jamba", {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
         "expert_layer_offset": 1, "use_mamba_kernels": False, "mamba_d_state": 4,
         "mamba_dt_rank": 4}, None),
    "GPT-2": ("gpt2", {"n_embd": D, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 64}, None),
    "GPT-NeoX": ("gpt_neox", {}, None),
    "GPT-J":
        ("gptj", {"n_embd": D, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 64,
         "rotary_dim": 4}, None),
    "BLOOM": ("bloom", {"n_layer": LAYERS, "n_head": HEADS}, None),
    "Falcon": ("falcon", {"new_decoder_architecture": False, "multi_query": True}, None),
    "MPT": ("mpt", {"d_model": D, "n_heads": HEADS, "n_layers": LAYERS}, None),
    "OPT": ("opt", {"ffn_dim": 48, "word_embed_proj_dim": D}, None),
    "DBRX":
        ("dbrx", {"d_model": D, "n_heads": HEADS, "n_layers": LAYERS, "attn_config":
         {"kv_n_heads": KV, "rope_theta": 1e4, "clip_qkv": 8.0}, "ffn_config":
         {"moe_num_experts": EXPERTS, "moe_top_k": TOP_K, "ffn_hidden_size": 16, "hidden_size":
         D}}, None),
    "StarCoder":
        ("gpt_bigcode", {"n_embd": D, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 64,
         "multi_query": True}, None),
    "StarCoder2": ("starcoder2", {}, None),
    "InternLM3": ("internlm3", {}, None),
    "Qwen3.5-MoE": ("qwen3_5_moe_text", {**LINEAR_ATTENTION, "num_hidden_layers": 4}, None),
    "Gemma 4":
        ("gemma4_text", {"enable_moe_block": True, "top_k_experts": TOP_K, "global_head_dim":
         16}, None),
    "ERNIE 4.5 MoE":
        ("ernie4_5_moe", {"moe_k": TOP_K, "moe_num_experts": EXPERTS, "moe_layer_start_index":
         0}, None),
    "HunYuan MoE": ("hunyuan_v1_moe", {"moe_topk": TOP_K}, None),
    "LFM2-MoE":
        ("lfm2_moe", {"layer_types": ["conv", "full_attention"], "num_dense_layers": 0}, None),
    "dots1": ("dots1", {}, None),
    "Nemotron-H": ("nemotron_h", {}, None),
    "JetMoE": ("jetmoe", {"kv_channels": R}, None),
    "Cohere 2": ("cohere2", {}, None),
    "GPT-Neo":
        ("gpt_neo", {"num_layers": LAYERS, "num_heads": HEADS, "attention_types": [[["global",
         "local"], 1]]}, None),
    "Phi": ("phi", {}, None),
    "DeepSeek-V4": ("deepseek_v4", {"num_hidden_layers": 4}, None),
    "LongCat": ("longcat_flash", {**LATENT, "num_layers": LAYERS}, None),
    "Kimi-Linear":
        ("kimi_linear", {**LATENT, "layer_types": ["linear_attention", "full_attention"],
         "mlp_layer_types": ["dense", "sparse"]}, None),
    "SmolLM3": ("smollm3", {}, None),
    "CodeGen":
        ("codegen", {"n_embd": D, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 64,
         "rotary_dim": 4}, None),
    "Whisper":
        ("whisper", {"d_model": D, "encoder_layers": LAYERS, "decoder_layers": LAYERS,
         "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "encoder_ffn_dim":
         48, "decoder_ffn_dim": 48, "num_mel_bins": 8}, "WhisperForConditionalGeneration"),
    "GLM-4.7-Flash": ("glm4_moe_lite", LATENT, None),
    "MiMo-V2": ("mimo_v2_flash", {}, None),
    "DINOv3": ("dinov3_vit", VISION, "DINOv3ViTModel"),
    "T5":
        ("t5", {"d_model": D, "d_kv": R, "d_ff": 48, "num_layers": LAYERS, "num_decoder_layers":
         LAYERS, "num_heads": HEADS}, "T5ForConditionalGeneration"),
    "Switch":
        ("switch_transformers", {"d_model": D, "d_kv": R, "d_ff": 48, "num_layers": LAYERS,
         "num_decoder_layers": LAYERS, "num_heads": HEADS, "num_sparse_encoder_layers": 1,
         "num_sparse_decoder_layers": 1, "expert_capacity": 64},
         "SwitchTransformersForConditionalGeneration"),
    "BART":
        ("bart", {"d_model": D, "encoder_layers": LAYERS, "decoder_layers": LAYERS,
         "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "encoder_ffn_dim":
         48, "decoder_ffn_dim": 48}, "BartForConditionalGeneration"),
    "BERT": ("bert", {}, "BertForMaskedLM"),
    "RoBERTa": ("roberta", {}, "RobertaForMaskedLM"),
    "DistilBERT":
        ("distilbert", {"dim": D, "hidden_dim": 48, "n_layers": LAYERS, "n_heads": HEADS},
         "DistilBertForMaskedLM"),
    "ModernBERT": ("modernbert", {}, "ModernBertForMaskedLM"),
    "ViT": ("vit", VISION, "ViTForImageClassification"),
    "CLIP":
        ("clip", {"text_config": {"hidden_size": D, "intermediate_size": 48,
         "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "vocab_size": VOCABULARY,
         "max_position_embeddings": 64}, "vision_config": VISION, "projection_dim": 16},
         "CLIPModel"),
}  # fmt: skip


def config_of(name):
    kind, more, _ = FAMILIES[name]
    config_class = transformers.CONFIG_MAPPING[kind]
    known = config_class().to_dict()
    known.update({name: known.get(other) for name, other in config_class.attribute_map.items()})
    tiny = {key: value for key, value in TINY.items()
            if key in known and not isinstance(getattr(config_class, key, None), property)}
    return config_class(**{**tiny, **more})


def build(name):
    """The family's model with random weights, in training mode."""
    torch.manual_seed(0)
    config = config_of(name)
    class_name = FAMILIES[name][2]
    if class_name is None:
        return transformers.AutoModelForCausalLM.from_config(config).train()
    return getattr(transformers, class_name)(config).train()
