"""Finds what can be watched in a tree of modules, by the table in foreshock.patterns.

    found = discover(model)
    for line in found.lines: ...          # one per layer: what is watched, or why not

Nothing is guessed: where names fit but sizes do not add up, the layer is left alone and says why.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Iterable, Sequence, Union

import torch

from foreshock import patterns
from foreshock.patterns import Attention, Router
from foreshock.projections import Dense, LatentProduct, Projection
from foreshock.v1 import types_pb2 as types


class Skip(Exception):
    """Why a layer is not watched."""


@dataclasses.dataclass
class AttentionLayer:
    """One attention module of this rank. Head numbers are local: 0..heads-1."""

    path: str
    layer: int
    pattern: str
    heads: int
    kv_heads: int
    head_dim: int  # r of the projections; without the rotary part for latent attention
    hidden: int
    latent: bool
    q: Projection  # reads query heads' rows
    k: Projection  # reads key heads' rows
    total_heads: int  # of the whole model, over tensor-parallel ranks

    def first_head(self, tensor_rank: int) -> int:
        """Number in the whole model of this rank's head 0: tensor rank t holds the t-th share."""
        return tensor_rank * self.heads if self.total_heads > self.heads else 0

    def key_head(self, head: int) -> int:
        return head * self.kv_heads // self.heads

    def line(self) -> str:
        kind = "MLA" if self.latent else "MHA" if self.heads == self.kv_heads else "GQA"
        return (
            f"layer {self.layer}: {self.path}: {kind}, {self.heads} heads of {self.head_dim}, "
            f"{self.kv_heads} key heads, hidden size {self.hidden} ({self.pattern})"
        )


@dataclasses.dataclass
class RouterLayer:
    path: str
    layer: int
    pattern: str
    gate: torch.nn.Module
    experts: int
    hidden: int
    top_k: int  # 0: not known
    sigmoid: bool
    groups: int
    shared_experts: int
    groups_taken: int = 0  # by a token; 0: not known
    bias_at: tuple[torch.nn.Module, str] | None = None  # where the correction bias is kept

    def correction_bias(self) -> torch.Tensor | None:
        """float32 [experts], as it is now; what is added to the scores for the choice alone."""
        if self.bias_at is None:
            return None
        bias: torch.Tensor = getattr(*self.bias_at)
        return bias.detach().float()

    def line(self) -> str:
        score = "sigmoid" if self.sigmoid else "softmax"
        chosen = f"top {self.top_k}" if self.top_k else "top-k not known, so no load"
        return (
            f"layer {self.layer}: {self.path}: router of {self.experts} experts, {score}, {chosen} "
            f"({self.pattern})"
        )


@dataclasses.dataclass
class Found:
    attention: list[AttentionLayer]
    routers: list[RouterLayer]
    lines: list[str]
    shape: types.ModelShape


def discover(
    model: torch.nn.Module, extra: Sequence[Union[Attention, Router]] = ()
) -> Found:
    """Walks the modules in their order. `extra` entries are tried before the table's."""
    attention_table = [p for p in extra if isinstance(p, Attention)] + list(patterns.ATTENTION)
    router_table = [p for p in extra if isinstance(p, Router)] + list(patterns.ROUTERS)
    lines: list[str] = []
    attention: list[AttentionLayer] = []
    routers: list[RouterLayer] = []
    seen: dict[int, str] = {}  # weights already watched
    for path, module in model.named_modules():
        try:
            found = _attention_at(path, module, attention_table, model, seen)
            if found is not None:
                _same_shape(found, attention)
                attention.append(found)
            router = _router_at(path, module, router_table, model)
            if router is not None:
                _same_router(router, routers)
                routers.append(router)
        except Skip as skip:
            lines.append(f"{path or 'the model'}: not watched: {skip}")
    _number(attention)
    _number(routers)
    lines = [layer.line() for layer in (*attention, *routers)] + lines
    return Found(attention, routers, lines, _shape(model, attention, routers))


def _attention_at(
    path: str,
    module: torch.nn.Module,
    table: Iterable[Attention],
    model: torch.nn.Module,
    seen: dict[int, str],
) -> AttentionLayer | None:
    for pattern in table:
        if pattern.path and not re.search(pattern.path, path):
            continue
        named = (pattern.q, pattern.k, pattern.fused, pattern.q_down, pattern.k_down)
        names = [name for name in named if name]
        parts = [_child(module, name) for name in names]
        if not parts or any(part is None for part in parts):
            continue
        weights = [_weight_of(part, name) for part, name in zip(parts, names)]
        if not any(weight.requires_grad for weight in weights):
            raise Skip("its Q and K weights are frozen (requires_grad is False)")
        for weight in weights:
            if id(weight) in seen:
                raise Skip(f"shares its weights with {seen[id(weight)]}, which is watched")
        layer = _build(path, module, pattern, model)
        seen.update({id(weight): path for weight in weights})
        return layer
    return None


def _child(module: Any, name: str) -> Any:
    """A module or parameter by its dotted name below `module`; None if there is none."""
    for part in name.split("."):
        module = getattr(module, part, None)
    return module if isinstance(module, (torch.nn.Module, torch.Tensor)) else None


def _weight_of(part: Any, name: str) -> torch.Tensor:
    """The parameter of a projection. Raises Skip where it is no plain matrix of floats."""
    if isinstance(part, torch.nn.Module):
        if hasattr(part, "base_layer") or hasattr(part, "lora_A"):
            raise Skip(f"{name} carries a LoRA adapter; its base weight does not train")
        part = getattr(part, "weight", None)
    if not isinstance(part, torch.Tensor):
        raise Skip(f"{name} has no weight tensor (quantised or wrapped)")
    if part.device.type == "meta":
        raise Skip(f"{name} is on the meta device; call watch() when the weights are there")
    if hasattr(part, "to_local"):
        raise Skip(f"{name} is a sharded DTensor, which holds no whole heads between steps")
    if not part.is_floating_point() or "bit" in type(part).__name__.lower():
        raise Skip(f"{name} is quantised ({type(part).__name__} of {_dtype_name(part)})")
    if part.dim() != 2:
        raise Skip(f"{name} has shape {tuple(part.shape)}; a matrix is needed (flattened by FSDP?)")
    return part


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _size(kind: str, *holders: Any) -> int:
    """The first attribute of SIZES[kind] on a holder or its config that is a positive integer."""
    for holder in holders:
        for source in (holder, getattr(holder, "config", None)):
            for name in patterns.SIZES[kind]:
                value = getattr(source, name, None)
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    return value
    return 0


def _build(
    path: str, module: torch.nn.Module, pattern: Attention, model: Any
) -> AttentionLayer:
    if pattern.k_down:
        return _build_latent(path, module, pattern, model)
    total = pattern.heads or _size("heads", module, model)
    total_kv = pattern.kv_heads or _size("kv_heads", module, model) or total
    head_dim = pattern.head_dim or _size("head_dim", module)

    def dense(name: str, rows: torch.Tensor) -> Dense:
        return Dense(module, name, rows, head_dim, pattern.transposed or _is_conv1d(module, name))

    if pattern.fused:
        rows, hidden = _extent(module, pattern.fused, pattern)
        head_dim = head_dim or (hidden // total if total else 0)
        _need(head_dim, "the size of a head", "head_dim")
        _need(total, "the number of heads", "heads")
        per_rank = (total + 2 * total_kv) * head_dim
        if per_rank % rows:
            raise Skip(
                f"{pattern.fused} has {rows} rows, not a share of ({total} + 2 * {total_kv}) heads "
                f"* {head_dim}; give heads=, kv_heads=, head_dim= in patterns="
            )
        shards = per_rank // rows
        if total % shards or total_kv % shards:
            raise Skip(f"{total} and {total_kv} heads do not divide into {shards} shards")
        heads, kv_heads = total // shards, total_kv // shards
        q_rows, k_rows = _fused_rows(pattern.layout, heads, kv_heads, head_dim)
        q, k = dense(pattern.fused, q_rows), dense(pattern.fused, k_rows)
    else:
        rows, hidden = _extent(module, pattern.q, pattern)
        k_rows_count, _ = _extent(module, pattern.k, pattern)
        head_dim = head_dim or (hidden // total if total and hidden % total == 0 else 0)
        _need(head_dim, "the size of a head", "head_dim")
        if rows % head_dim or k_rows_count % head_dim:
            raise Skip(f"{rows} and {k_rows_count} rows are no whole heads of {head_dim}")
        heads, kv_heads = rows // head_dim, k_rows_count // head_dim
        if heads % kv_heads:
            raise Skip(f"{heads} query heads do not divide among {kv_heads} key heads")
        total = max(total, heads)
        q = dense(pattern.q, torch.arange(rows))
        k = dense(pattern.k, torch.arange(k_rows_count))
    return AttentionLayer(
        path, _layer_of(path, module), pattern.name, heads, kv_heads, head_dim, hidden, False, q, k,
        total,
    )  # fmt: skip


def _build_latent(
    path: str, module: torch.nn.Module, pattern: Attention, model: Any
) -> AttentionLayer:
    total = pattern.heads or _size("heads", module, model)
    nope = _size("nope_dim", module, model)
    rope = _size("rope_dim", module, model)
    _need(total, "the number of heads", "heads")
    _need(nope, "the part of a head without rotary dimensions", "qk_nope_head_dim")
    q_rows, q_columns = _extent(module, pattern.q, pattern)
    k_rows, latent = _extent(module, pattern.k, pattern)
    if q_rows % (nope + rope):
        raise Skip(f"{pattern.q} has {q_rows} rows, no whole heads of {nope} + {rope}")
    heads = q_rows // (nope + rope)
    if k_rows % heads or k_rows // heads < nope:
        raise Skip(
            f"{pattern.k} has {k_rows} rows, which {heads} heads of at least {nope} do not fill"
        )
    down_rows, hidden = _extent(module, pattern.k_down, pattern)
    if down_rows < latent:
        raise Skip(f"{pattern.k_down} has {down_rows} rows, {pattern.k} takes {latent}")
    if pattern.q_down:
        q: Projection = LatentProduct(
            module, pattern.q, pattern.q_norm, pattern.q_down, q_columns, nope, nope + rope
        )
    else:
        head_rows = torch.arange(q_rows).reshape(heads, nope + rope)[:, :nope].reshape(-1)
        q = Dense(module, pattern.q, head_rows, nope, False)
    k = LatentProduct(
        module, pattern.k, pattern.k_norm, pattern.k_down, latent, nope, k_rows // heads
    )
    return AttentionLayer(
        path, _layer_of(path, module), pattern.name, heads, heads, nope, hidden, True, q, k,
        max(total, heads),
    )  # fmt: skip


def _need(value: int, what: str, argument: str) -> None:
    if not value:
        raise Skip(
            f"{what} is not to be found on the module or its config; give {argument}= in patterns="
        )


def _is_conv1d(module: Any, name: str) -> bool:
    return type(_child(module, name)).__name__ == "Conv1D"  # Hugging Face GPT-2: weight [in, out]


def _extent(module: Any, name: str, pattern: Attention) -> tuple[int, int]:
    """(rows, columns) of a projection's weight as [out, in]."""
    part = _child(module, name)
    weight = part.weight if isinstance(part, torch.nn.Module) else part
    rows, columns = weight.shape
    return (columns, rows) if pattern.transposed or _is_conv1d(module, name) else (rows, columns)


def _fused_rows(layout: str, heads: int, kv_heads: int, r: int) -> tuple[Any, Any]:
    if layout == "concat":
        return torch.arange(heads * r), torch.arange(heads * r, (heads + kv_heads) * r)
    if layout != "grouped":
        raise Skip(f"layout is {layout!r}; allowed: concat, grouped")
    group = heads // kv_heads
    rows = torch.arange((heads + 2 * kv_heads) * r).reshape(kv_heads, group + 2, r)
    return rows[:, :group].reshape(-1), rows[:, group].reshape(-1)


def _layer_of(path: str, module: Any) -> int:
    number = getattr(module, "layer_number", None)  # Megatron: from 1, over all pipeline stages
    if isinstance(number, int) and number > 0:
        return number - 1
    numbers = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", path)
    return int(numbers[0]) if numbers else -1


def _number(layers: Sequence[Union[AttentionLayer, RouterLayer]]) -> None:
    """Layers without a number in their path, or with one twice, are counted in module order."""
    numbers = [layer.layer for layer in layers]
    if -1 in numbers or len(set(numbers)) != len(numbers):
        for index, layer in enumerate(layers):
            layer.layer = index


def _same_shape(layer: AttentionLayer, others: Sequence[AttentionLayer]) -> None:
    if not others:
        return
    first = others[0]
    for what in ("latent", "head_dim", "hidden"):
        if getattr(layer, what) != getattr(first, what):
            raise Skip(
                f"{what} is {getattr(layer, what)}, that of {first.path} is "
                f"{getattr(first, what)}; a run has one shape"
            )


def _router_at(
    path: str,
    module: torch.nn.Module,
    table: Iterable[Router],
    model: Any,
) -> RouterLayer | None:
    for pattern in table:
        if pattern.path and not re.search(pattern.path, path):
            continue
        gate = _child(module, pattern.gate) if pattern.gate else module
        if not isinstance(gate, torch.nn.Module):
            continue
        beside = getattr(module, pattern.experts, None) if pattern.experts else None
        if pattern.experts and not isinstance(beside, torch.nn.Module):
            continue
        gate_path = f"{path}.{pattern.gate}".strip(".")
        experts, hidden = _weight_of(gate, gate_path).shape
        declared = _size("experts", gate, module)
        if not declared and pattern.experts:
            declared = len(beside) if isinstance(beside, torch.nn.ModuleList) else 0
            declared = declared or _size("experts", beside, model)
        if declared and declared != experts:
            raise Skip(f"{gate_path} has {experts} rows for {declared} experts")
        if experts < 2:
            raise Skip(f"{gate_path} has {experts} row; a router has 2 or more")
        scores = [_text(holder, name) for holder in (gate, module, model)
                  for name in patterns.SCORE_NAMES]  # fmt: skip
        score = pattern.score or next((s for s in scores if s), "softmax")
        if score not in ("softmax", "sigmoid"):
            raise Skip(f"{gate_path} scores with {score!r}; known: softmax, sigmoid")
        return RouterLayer(
            gate_path,
            _layer_of(path, module),
            pattern.name,
            gate,
            experts,
            hidden,
            min(pattern.top_k or _size("top_k", gate, module, model), experts),
            score == "sigmoid",
            _size("groups", gate, module, model),
            _size("shared_experts", module, model),
            _size("groups_taken", gate, module, model),
            _correction_bias(experts, gate, module),
        )
    return None


def _correction_bias(
    experts: int, *holders: torch.nn.Module
) -> tuple[torch.nn.Module, str] | None:
    for holder in holders:
        for name in patterns.CORRECTION_BIAS_NAMES:
            value = getattr(holder, name, None)
            if isinstance(value, torch.Tensor) and value.shape == (experts,):
                return holder, name
    return None


def _text(holder: Any, name: str) -> str:
    for source in (holder, getattr(holder, "config", None)):
        value = getattr(source, name, None)
        if isinstance(value, str):
            return value
    return ""


def _same_router(router: RouterLayer, others: Sequence[RouterLayer]) -> None:
    if others and router.experts != others[0].experts:
        raise Skip(
            f"{router.path} has {router.experts} experts, {others[0].path} {others[0].experts}; "
            "a run has one number"
        )


def _shape(
    model: Any, attention: Sequence[AttentionLayer], routers: Sequence[RouterLayer]
) -> types.ModelShape:
    """Of the whole model; 0 is not known."""
    shape = types.ModelShape()
    highest = max((layer.layer for layer in (*attention, *routers)), default=-1)
    shape.layers = max(_size("layers", model), highest + 1)
    if attention:
        first = max(attention, key=lambda layer: layer.total_heads)
        shape.heads = first.total_heads
        shape.kv_heads = max(1, first.total_heads * first.kv_heads // first.heads)
        shape.head_dim, shape.hidden_size = first.head_dim, first.hidden
        shape.attention = (
            types.ATTENTION_KIND_MLA if first.latent
            else types.ATTENTION_KIND_MHA if first.heads == first.kv_heads
            else types.ATTENTION_KIND_MQA if shape.kv_heads == 1
            else types.ATTENTION_KIND_GQA
        )  # fmt: skip
    if routers:
        router = routers[0]
        shape.experts, shape.top_k = router.experts, router.top_k
        shape.router = types.ROUTER_KIND_SIGMOID if router.sigmoid else types.ROUTER_KIND_SOFTMAX
        shape.shared_experts = router.shared_experts
        shape.router_groups = router.groups
        shape.hidden_size = shape.hidden_size or router.hidden
    return shape
