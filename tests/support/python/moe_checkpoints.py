"""Checkpoints of every MoE family with the real names and small shapes, and their forward pass.

    config, tensors = make("olmoe", idle={1, 5})
    safetensors_file.write_checkpoint(directory, config, tensors, shards=2)
    model = Model(config, safetensors_file.read_checkpoint(directory))
    logits = model.forward(tokens)            # [T, vocab]; model.routing[layer] is what was routed

Everything is float64 and goes expert by expert, so that a number does not depend on how many other
experts there are: two models that route alike have the same logits, bit for bit.

`idle` experts are never chosen: component 0 of every hidden state is positive (embeddings set it,
nothing else writes to it) and their router rows have a large negative weight there. With `twins`
expert e + E/2 (of the same group) is a copy of e but for a little noise in its router row.
"""

import dataclasses
import math

import numpy
import torch

import safetensors_file

D, INNER, HEADS, VOCAB, LAYERS = 32, 8, 2, 40, 2
FAMILIES = ("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "deepseek_v2", "deepseek_v3", "gpt_oss",
            "qwen3_fused")
FP4 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6],
                   dtype=torch.float64)


class Maker:
    def __init__(self, kind, experts, top_k, idle, twins, norm_topk_prob, seed):
        self.kind, self.experts, self.idle, self.twins = kind, experts, set(idle), twins
        self.random = numpy.random.default_rng(seed)
        self.type = "qwen3_moe" if kind == "qwen3_fused" else kind
        self.tensors = {}
        self.config = {
            "model_type": self.type, "hidden_size": D, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "num_experts_per_tok": top_k, "vocab_size": VOCAB,
            "rms_norm_eps": 1e-6, "norm_topk_prob": norm_topk_prob}
        key = {"mixtral": "num_local_experts", "gpt_oss": "num_local_experts",
               "deepseek_v2": "n_routed_experts", "deepseek_v3": "n_routed_experts"}
        self.config[key.get(self.type, "num_experts")] = experts
        if kind == "deepseek_v2":
            self.config.update(topk_method="greedy", routed_scaling_factor=1.5)
        if kind == "deepseek_v3":
            self.config.update(
                topk_method="noaux_tc", scoring_func="sigmoid", routed_scaling_factor=2.5,
                n_group=4, topk_group=2, num_hidden_layers=LAYERS + 1, first_k_dense_replace=1)
        self.groups = self.config.get("n_group", 1)

    def normal(self, *shape):
        return self.random.standard_normal(shape)

    def add(self, name, values, dtype="BF16"):
        self.tensors[name] = safetensors_file.encode(dtype, values)

    def linear(self, name, rows, columns, writes=False):
        """A weight [rows, columns]; what writes to the hidden state leaves component 0 alone."""
        values = self.normal(rows, columns) / math.sqrt(columns)
        if writes:
            values[0] = 0
        self.add(name + ".weight", values)

    def linear_f8(self, name, rows, columns, writes=False):
        values = self.random.integers(0, 0x40, (rows, columns))  # up to 2
        values |= self.random.integers(0, 2, (rows, columns)) << 7
        if writes:
            values[0] = 0
        self.add(name + ".weight", values, "F8_E4M3")
        self.add(name + ".weight_scale_inv", self.random.uniform(.1, .3, (1, 1)), "F32")

    def mlp(self, prefix, names, linear, inner=INNER):
        gate, up, down = names
        linear(prefix + gate, inner, D)
        linear(prefix + up, inner, D)
        linear(prefix + down, D, inner, writes=True)

    def twin_of(self, expert):
        """The expert of which this one is a copy, or itself."""
        each = self.experts // self.groups
        group, place = divmod(expert, each)
        return group * each + place % (each // 2) if self.twins else expert

    def copy_twins(self, prefix):
        for name in [n for n in self.tensors if n.startswith(prefix)]:
            expert, _, rest = name[len(prefix):].partition(".")
            self.tensors[name] = self.tensors[f"{prefix}{self.twin_of(int(expert))}.{rest}"]

    def router(self, name):
        rows = self.normal(self.experts, D)
        for expert in range(self.experts):
            if self.twin_of(expert) != expert:
                rows[expert] = rows[self.twin_of(expert)] + 1e-3 * self.normal(D)
            if expert in self.idle:
                rows[expert, 0] = -500
        self.add(name, rows, "F32")

    def attention(self, at):
        if self.type.startswith("deepseek"):
            self.linear(at + "self_attn.q_proj", D, D)
            self.linear(at + "self_attn.kv_a_proj_with_mqa", 8, D)
            self.linear(at + "self_attn.kv_b_proj", 2 * D, 8)
        else:
            for name in ("q_proj", "k_proj", "v_proj"):
                self.linear(f"{at}self_attn.{name}", D, D)
        self.linear(at + "self_attn.o_proj", D, D, writes=True)
        for name, size in (("q_norm", D // HEADS), ("k_norm", D // HEADS)):
            if self.type in ("qwen3_moe", "olmoe"):
                size = D if self.type == "olmoe" else size
                self.add(f"{at}self_attn.{name}.weight", self.random.uniform(.5, 1.5, size))

    def mxfp4(self, name, rows, columns, writes):
        shape = (self.experts, rows, columns // 32)
        blocks = self.random.integers(0, 256, shape + (16,))
        scales = self.random.integers(122, 125, shape)
        bias = self.normal(self.experts, rows) / 8
        if writes:
            blocks[:, 0], bias[:, 0] = 0, 0
        self.add(name + "_blocks", blocks, "U8")
        self.add(name + "_scales", scales, "U8")
        self.add(name + "_bias", bias)

    def moe(self, at):
        mlp = at + ("block_sparse_moe." if self.type == "mixtral" else "mlp.")
        self.router(mlp + ("router.weight" if self.type == "gpt_oss" else "gate.weight"))
        if self.type == "gpt_oss":
            self.add(mlp + "router.bias", self.normal(self.experts) / 4)
            self.mxfp4(mlp + "experts.gate_up_proj", 2 * D, D, writes=False)
            self.mxfp4(mlp + "experts.down_proj", D, D, writes=True)
            return
        if self.kind == "qwen3_fused":
            down = self.normal(self.experts, INNER, D) / 3
            down[:, :, 0] = 0
            self.add(mlp + "experts.gate_up_proj", self.normal(self.experts, D, 2 * INNER) / 6)
            self.add(mlp + "experts.down_proj", down)
            return
        names = (("w1", "w3", "w2") if self.type == "mixtral"
                 else ("gate_proj", "up_proj", "down_proj"))
        linear = self.linear_f8 if self.kind == "deepseek_v3" else self.linear
        for expert in range(self.experts):
            self.mlp(f"{mlp}experts.{expert}.", names, linear)
        if self.twins:
            self.copy_twins(mlp + "experts.")
        if self.kind == "deepseek_v3":
            bias = self.normal(self.experts) / 20
            bias[list(self.idle)] = -1  # nor do they count in their group's score
            self.add(mlp + "gate.e_score_correction_bias", bias, "F32")
        if self.type == "qwen2_moe":
            self.mlp(mlp + "shared_expert.", names, self.linear)
            self.linear(mlp + "shared_expert_gate", 1, D)
        if self.type.startswith("deepseek"):
            self.mlp(mlp + "shared_experts.", names, self.linear)

    def make(self):
        embeddings = self.normal(VOCAB, D)
        embeddings[:, 0] = 3
        self.add("model.embed_tokens.weight", embeddings)
        for layer in range(self.config["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            self.attention(at)
            for name in ("input_layernorm", "post_attention_layernorm"):
                self.add(f"{at}{name}.weight", self.random.uniform(.5, 1.5, D))
            if layer < self.config.get("first_k_dense_replace", 0):
                self.mlp(at + "mlp.", ("gate_proj", "up_proj", "down_proj"), self.linear, 2 * INNER)
            else:
                self.moe(at)
        self.add("model.norm.weight", self.random.uniform(.5, 1.5, D))
        self.linear("lm_head", VOCAB, D)
        return self.config, self.tensors


def make(kind, experts=16, top_k=2, idle=(), twins=False, norm_topk_prob=True, seed=0):
    """(config, {name: safetensors_file.Tensor}) of one of FAMILIES."""
    return Maker(kind, experts, top_k, idle, twins, norm_topk_prob, seed).make()


@dataclasses.dataclass
class Routing:
    """One layer's, of T tokens."""

    inputs: torch.Tensor         # [T, d]
    scores: torch.Tensor         # [T, E] by which experts were chosen
    probabilities: torch.Tensor  # [T, E]
    chosen: torch.Tensor         # [T, k]
    gates: torch.Tensor          # [T, E]; 0 where not chosen
    norms: torch.Tensor          # [T, E] of every expert's output


class Model:
    """Decodes a checkpoint; `scale_gates` applies config's foreshock_gate_scale, the patch that
    docs/proxy.md describes."""

    def __init__(self, config, tensors, scale_gates=False):
        self.config, self.tensors, self.scale_gates = config, tensors, scale_gates
        self.type, self.top_k = config["model_type"], config["num_experts_per_tok"]
        self.experts = next(config[key] for key in
                            ("num_local_experts", "n_routed_experts", "num_experts")
                            if key in config)
        self.routing = {}
        self.decoded = {}

    def forward(self, tokens):
        hidden = self.weight("model.embed_tokens.weight")[tokens]
        for layer in range(self.config["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            hidden = hidden + self.attention(at, self.norm(at + "input_layernorm", hidden))
            inputs = self.norm(at + "post_attention_layernorm", hidden)
            if layer < self.config.get("first_k_dense_replace", 0):
                hidden = hidden + self.mlp(at + "mlp.", inputs)
            else:
                hidden = hidden + self.moe(layer, at, inputs)
        return self.norm("model.norm", hidden) @ self.weight("lm_head.weight").T

    def weight(self, name):
        if name not in self.decoded:
            scale = self.tensors.get(name + "_scale_inv")
            values = self.tensors[name].decode()
            self.decoded[name] = values if scale is None else values * scale.decode()
        return self.decoded[name]

    def norm(self, name, values):
        weight = self.weight(name + ".weight")
        return values / (values.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight

    def attention(self, at, x):
        at += "self_attn."
        q = x @ self.weight(at + "q_proj.weight").T
        if at + "k_proj.weight" in self.tensors:
            k, v = (x @ self.weight(f"{at}{name}_proj.weight").T for name in "kv")
        else:
            latent = x @ self.weight(at + "kv_a_proj_with_mqa.weight").T
            k, v = (latent @ self.weight(at + "kv_b_proj.weight").T).split(D, dim=-1)
        whole = self.type == "olmoe"  # its norms go over all heads
        if at + "q_norm.weight" in self.tensors and whole:
            q, k = self.norm(at + "q_norm", q), self.norm(at + "k_norm", k)
        q, k, v = (t.reshape(-1, HEADS, D // HEADS).transpose(0, 1) for t in (q, k, v))
        if at + "q_norm.weight" in self.tensors and not whole:
            q, k = self.norm(at + "q_norm", q), self.norm(at + "k_norm", k)
        scores = q @ k.transpose(1, 2) / math.sqrt(D // HEADS)
        future = torch.ones_like(scores, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        return mixed.transpose(0, 1).reshape(-1, D) @ self.weight(at + "o_proj.weight").T

    def mlp(self, prefix, x, names=("gate_proj", "up_proj", "down_proj")):
        gate, up, down = (self.weight(f"{prefix}{name}.weight") for name in names)
        return (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T

    def expert(self, prefix, e, x):
        if self.type == "mixtral":
            return self.mlp(f"{prefix}experts.{e}.", x, ("w1", "w3", "w2"))
        if self.type == "gpt_oss":
            both = x @ self.mxfp4(prefix + "experts.gate_up_proj", e).T
            both = both + self.weight(prefix + "experts.gate_up_proj_bias")[e]
            gate, up = both[:, ::2].clamp(max=7), both[:, 1::2].clamp(-7, 7)
            mixed = (up + 1) * gate * torch.sigmoid(1.702 * gate)
            return (mixed @ self.mxfp4(prefix + "experts.down_proj", e).T
                    + self.weight(prefix + "experts.down_proj_bias")[e])
        if prefix + "experts.gate_up_proj" in self.tensors:
            gate, up = (x @ self.weight(prefix + "experts.gate_up_proj")[e]).chunk(2, dim=-1)
            return (torch.nn.functional.silu(gate) * up) @ self.weight(
                prefix + "experts.down_proj")[e]
        return self.mlp(f"{prefix}experts.{e}.", x)

    def mxfp4(self, name, e):
        blocks = self.weight(name + "_blocks")[e].long()
        scales = self.weight(name + "_scales")[e]
        values = torch.stack((FP4[blocks & 15], FP4[blocks >> 4]), dim=-1).flatten(-2)
        return (values * (2.0 ** (scales - 127)).unsqueeze(-1)).flatten(1)

    def moe(self, layer, at, x):
        prefix = at + ("block_sparse_moe." if self.type == "mixtral" else "mlp.")
        name = prefix + ("router" if self.type == "gpt_oss" else "gate")
        weight = self.weight(name + ".weight")
        assert weight.shape[0] == self.experts
        logits = torch.stack([torch.mv(x, row) for row in weight], dim=1)
        if name + ".bias" in self.tensors:
            logits = logits + self.weight(name + ".bias")
        routing = self.route(layer, name, logits)
        outputs = torch.stack([self.expert(prefix, e, x) for e in range(self.experts)], dim=1)
        self.routing[layer] = Routing(x, *routing, outputs.norm(dim=-1))
        gates = routing[-1]
        mixed = torch.zeros_like(x)
        for e in range(self.experts):
            mixed = mixed + gates[:, e, None] * outputs[:, e]
        mixed = mixed * self.config.get("routed_scaling_factor", 1.0)
        if prefix + "shared_expert_gate.weight" in self.tensors:
            share = torch.sigmoid(x @ self.weight(prefix + "shared_expert_gate.weight").T)
            mixed = mixed + share * self.mlp(prefix + "shared_expert.", x)
        if prefix + "shared_experts.up_proj.weight" in self.tensors:
            mixed = mixed + self.mlp(prefix + "shared_experts.", x)
        return mixed

    def route(self, layer, name, logits):
        """scores, probabilities, chosen, gates."""
        if self.config.get("scoring_func") == "sigmoid":
            affinity = torch.sigmoid(logits)
            scores = affinity + self.weight(name + ".e_score_correction_bias")
            groups = scores.reshape(len(scores), self.config["n_group"], -1)
            best = groups.topk(2, dim=-1).values.sum(-1).topk(self.config["topk_group"]).indices
            allowed = torch.zeros(groups.shape[:2], dtype=torch.bool).scatter(1, best, True)
            scores = groups.masked_fill(~allowed.unsqueeze(-1), -math.inf).flatten(1)
            probabilities = affinity / affinity.sum(-1, keepdim=True)
            chosen = scores.topk(self.top_k).indices
            picked = affinity.gather(1, chosen)
            picked = picked / picked.sum(-1, keepdim=True)
            return scores, probabilities, chosen, torch.zeros_like(logits).scatter(1, chosen, picked)
        powers = (logits - logits.max(-1, keepdim=True).values).exp()
        total = torch.zeros(len(logits), dtype=torch.float64)
        for e in range(self.experts):  # one by one: what idle experts add vanishes exactly
            total = total + powers[:, e]
        probabilities = powers / total.unsqueeze(-1)
        best = logits.topk(self.top_k)
        if self.type in ("mixtral", "gpt_oss") or self.config["norm_topk_prob"]:
            # softmax over the chosen: the same as softmax over all, divided by its top-k sum
            picked = best.values.softmax(-1)
        else:
            picked = probabilities.gather(1, best.indices)
        if self.scale_gates:
            picked = picked * self.config["foreshock_gate_scale"][str(layer)]
        gates = torch.zeros_like(logits).scatter(1, best.indices, picked)
        return logits, probabilities, best.indices, gates


def calibration(model):
    """{name: Tensor} and metadata of a calibration file over the model's last forward pass."""
    tensors = {}
    for layer, routing in model.routing.items():
        hits = torch.zeros_like(routing.gates).scatter(1, routing.chosen, 1.0)
        p = routing.probabilities
        entropy = -(p * p.clamp(min=1e-300).log()).sum()
        for name, dtype, values in (
                ("tokens", "I64", torch.tensor(float(len(hits)))),
                ("frequency", "I64", hits.sum(0)),
                ("coactivation", "I64", hits.T @ hits),
                ("input_sum", "F64", routing.inputs.sum(0)),
                ("expert_input_sum", "F64", hits.T @ routing.inputs),
                ("gate_sum", "F64", routing.gates.sum(0)),
                ("expert_norm_sum", "F64", (hits * routing.norms).sum(0)),
                ("gated_norm_sum", "F64", (routing.gates * routing.norms).sum(0)),
                ("probability_sum", "F64", p.sum(0)),
                ("entropy_sum", "F64", entropy)):
            array = numpy.asarray(values.numpy())
            tensors[f"layers.{layer}.{name}"] = safetensors_file.Tensor(
                dtype, array.shape, array.astype(safetensors_file.NUMPY[dtype]).tobytes())
    return tensors, {"format": "foreshock.calibration.v1", "model_type": model.type,
                     "experts": str(model.experts), "top_k": str(model.top_k)}
