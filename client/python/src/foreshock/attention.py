"""Recognises attention: where W_Q and W_K are, which of their rows belong to which head.

    layer = attention_at(path, module, table, model, seen)   # None: no attention; raises Skip
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any, Iterable

import torch

from foreshock.finding import Skip, child, layer_of, size, weight_of
from foreshock.patterns import Attention
from foreshock.projections import Dense, LatentProduct, Projection
from foreshock.sharding import Piece, Pieces, Scattered


@dataclasses.dataclass(frozen=True)
class Held:
    """What of a sharded layer can be read where."""

    heads: tuple[int, ...]  # that some rank can read
    mine: frozenset[int]  # of them, this rank
    columns: tuple[int, int]  # of the hidden dimension, that this rank reads
    first: bool  # no rank of the mesh before this one reads the same
    mesh: Any = None  # None: plain weights
    gathered: bool = False  # all ranks of the mesh read together, and this rank sends `mine`


@dataclasses.dataclass
class AttentionLayer:
    """One attention module. Heads are numbered 0..heads-1 as its weights hold them: those of the
    model, or, where tensor-parallel ranks have plain weights of their own, those of this rank."""

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
    note: str = ""  # more about it
    held: Held = Held((), frozenset(), (0, 0), True)

    def first_head(self, tensor_rank: int) -> int:
        """Number in the whole model of this rank's head 0: tensor rank t holds the t-th share."""
        return tensor_rank * self.heads if self.total_heads > self.heads else 0

    def key_head(self, head: int) -> int:
        return head * self.kv_heads // self.heads

    def line(self) -> str:
        kind = (
            "MLA" if self.latent
            else "MHA" if self.heads == self.kv_heads
            else "MQA" if self.kv_heads == 1
            else "GQA"
        )  # fmt: skip
        return (
            f"layer {self.layer}: {self.path}: {kind}, {self.heads} heads of {self.head_dim}, "
            f"{self.kv_heads} key heads, hidden size {self.hidden} ({self.pattern}{self.note})"
        )


def attention_at(
    path: str,
    module: torch.nn.Module,
    table: Iterable[Attention],
    model: torch.nn.Module,
    seen: dict[int, str],
    gather: bool = False,
) -> AttentionLayer | None:
    """`seen`: by id, the weights that are watched already and where; the layer's are added."""
    for pattern in table:
        if pattern.path and not re.search(pattern.path, path):
            continue
        if pattern.having and getattr(module, pattern.having, None) is None:
            continue
        named = (pattern.q, pattern.k, pattern.fused, pattern.q_down, pattern.k_down)
        names = [name for name in named if name]
        parts = [child(module, name) for name in names]
        if not parts or any(part is None for part in parts):
            continue
        weights = [weight_of(part, name) for part, name in zip(parts, names)]
        if not any(weight.requires_grad for weight in weights):
            raise Skip("its Q and K weights are frozen (requires_grad is False)")
        for weight in weights:
            if id(weight) in seen:
                raise Skip(f"shares its weights with {seen[id(weight)]}, which is watched")
        build = _latent if pattern.k_down else _fused if pattern.fused else _split
        layer = build(path, module, pattern, model)
        layer.held = _held(layer, gather)
        seen.update({id(weight): path for weight in weights})
        return layer
    return None


def _held(layer: AttentionLayer, gather: bool) -> Held:
    try:
        q, k = layer.q.pieces(), layer.k.pieces()
    except Scattered as reason:
        raise Skip(str(reason)) from None
    every = range(layer.heads)
    mesh = q.mesh or k.mesh
    if mesh is None:
        return Held(tuple(every), frozenset(every), (0, layer.hidden), True)
    q_spans = tuple(_span(layer.q.rows_of([head])) for head in every)
    k_spans = tuple(_span(layer.k.rows_of([layer.key_head(head)])) for head in every)
    by_rank = _heads_by_rank(q_spans, k_spans, _spread(q, k), _spread(k, q))
    me, heads = max(q.me, k.me), tuple(sorted(set().union(*by_rank)))
    if len(heads) < layer.heads and gather:
        # The ranks take turns in sending, layer by layer.
        mine = frozenset(every if me == max(layer.layer, 0) % len(by_rank) else ())
        return Held(tuple(every), mine, (0, layer.hidden), True, mesh, gathered=True)
    if not heads:
        raise Skip(
            f"its heads are split over the {len(by_rank)} ranks of a mesh; watch(..., gather=True) "
            "lets the ranks read them together"
        )
    columns = _spread(q, k)[me].columns
    return Held(heads, by_rank[me], columns, q.first and k.first, mesh)


def _span(rows: torch.Tensor) -> tuple[int, int]:
    return int(rows.min()), int(rows.max()) + 1


def _spread(pieces: Pieces, like: Pieces) -> tuple[Piece, ...]:
    """A plain weight beside a sharded one is whole on every rank."""
    return pieces.all * (len(like.all) if len(pieces.all) == 1 else 1)


@functools.lru_cache(maxsize=16)  # the layers of a model have a few shapes
def _heads_by_rank(
    q_spans: tuple[tuple[int, int], ...], k_spans: tuple[tuple[int, int], ...],
    q_pieces: tuple[Piece, ...], k_pieces: tuple[Piece, ...],
) -> tuple[frozenset[int], ...]:  # fmt: skip
    """For each rank the heads of which it has all rows of Q and K, and the same columns of both."""
    return tuple(
        frozenset(
            head for head, (q_span, k_span) in enumerate(zip(q_spans, k_spans))
            if q.has(q_span) and k.has(k_span)
        ) if q.columns == k.columns else frozenset()
        for q, k in zip(q_pieces, k_pieces)
    )  # fmt: skip


def _split(path: str, module: Any, pattern: Attention, model: Any) -> AttentionLayer:
    declared = pattern.heads or size("heads", module, model)
    head_dim = pattern.head_dim or size("head_dim", module)
    rows, hidden = _extent(module, pattern.q, pattern)
    k_rows, k_hidden = _extent(module, pattern.k, pattern)
    head_dim = head_dim or (hidden // declared if declared and hidden % declared == 0 else 0)
    _need(head_dim, "the size of a head", "head_dim")
    if rows % head_dim or k_rows % head_dim:
        raise Skip(f"{rows} and {k_rows} rows are no whole heads of {head_dim}")
    if hidden != k_hidden:
        raise Skip(f"{pattern.q} takes {hidden} numbers and {pattern.k} {k_hidden}: no matrix Q Kᵀ")
    gated = bool(declared) and rows == 2 * declared * head_dim
    heads, kv_heads = (declared if gated else rows // head_dim), k_rows // head_dim
    if declared and heads > declared:
        raise Skip(
            f"{pattern.q} has {rows} rows, more than {declared} heads of {head_dim}; give heads=, "
            "head_dim= in patterns="
        )
    if heads % kv_heads:
        raise Skip(f"{heads} query heads do not divide among {kv_heads} key heads")
    q_rows = torch.arange(rows)
    if gated:  # Qwen3-Next: each head's rows, then as many of a gate on its output
        q_rows = q_rows.reshape(heads, 2, head_dim)[:, 0].reshape(-1)
    q, k = (
        Dense(module, name, at, head_dim, _is_transposed(module, name, pattern))
        for name, at in ((pattern.q, q_rows), (pattern.k, torch.arange(k_rows)))
    )
    note = f"; in {pattern.q} a gate follows each head" if gated else ""
    return AttentionLayer(
        path, layer_of(path, module), pattern.name, heads, kv_heads, head_dim, hidden, False, q, k,
        max(declared, heads), note,
    )  # fmt: skip


def _fused(path: str, module: Any, pattern: Attention, model: Any) -> AttentionLayer:
    total = pattern.heads or size("heads", module, model)
    total_kv = pattern.kv_heads or size("kv_heads", module, model) or total
    rows, hidden = _extent(module, pattern.fused, pattern)
    head_dim = pattern.head_dim or size("head_dim", module) or (hidden // total if total else 0)
    _need(head_dim, "the size of a head", "head_dim")
    _need(total, "the number of heads", "heads")
    all_rows = (total + 2 * total_kv) * head_dim
    if all_rows % rows:
        raise Skip(
            f"{pattern.fused} has {rows} rows, not a share of ({total} + 2 * {total_kv}) heads "
            f"* {head_dim}; give heads=, kv_heads=, head_dim= in patterns="
        )
    shards = all_rows // rows
    if total % shards or total_kv % shards:
        raise Skip(f"{total} and {total_kv} heads do not divide into {shards} shards")
    heads, kv_heads = total // shards, total_kv // shards
    transposed = _is_transposed(module, pattern.fused, pattern)
    q, k = (
        Dense(module, pattern.fused, at, head_dim, transposed)
        for at in _fused_rows(pattern.layout, heads, kv_heads, head_dim)
    )
    return AttentionLayer(
        path, layer_of(path, module), pattern.name, heads, kv_heads, head_dim, hidden, False, q, k,
        total,
    )  # fmt: skip


def _fused_rows(layout: str, heads: int, kv_heads: int, r: int) -> tuple[Any, Any]:
    if layout == "concat":
        return torch.arange(heads * r), torch.arange(heads * r, (heads + kv_heads) * r)
    if layout != "grouped":
        raise Skip(f"layout is {layout!r}; allowed: concat, grouped")
    group = heads // kv_heads
    rows = torch.arange((heads + 2 * kv_heads) * r).reshape(kv_heads, group + 2, r)
    return rows[:, :group].reshape(-1), rows[:, group].reshape(-1)


def _latent(path: str, module: Any, pattern: Attention, model: Any) -> AttentionLayer:
    total = pattern.heads or size("heads", module, model)
    nope = size("nope_dim", module, model)
    rope = size("rope_dim", module, model)
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
        path, layer_of(path, module), pattern.name, heads, heads, nope, hidden, True, q, k,
        max(total, heads),
    )  # fmt: skip


def _need(value: int, what: str, argument: str) -> None:
    if not value:
        raise Skip(
            f"{what} is not to be found on the module or its config; give {argument}= in patterns="
        )


def _is_transposed(module: Any, name: str, pattern: Attention) -> bool:
    """Is the weight [in, out], as that of GPT-2's Conv1D?"""
    classes = type(child(module, name)).__mro__  # FSDP2 makes a class of its own from a module's
    return pattern.transposed or any(kind.__name__ == "Conv1D" for kind in classes)


def _extent(module: Any, name: str, pattern: Attention) -> tuple[int, int]:
    """(rows, columns) of a projection's weight as [out, in]."""
    part = child(module, name)
    weight = part.weight if isinstance(part, torch.nn.Module) else part
    rows, columns = weight.shape
    return (columns, rows) if _is_transposed(module, name, pattern) else (rows, columns)
