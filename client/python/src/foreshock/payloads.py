"""Builds the contract's summaries from numpy arrays and plain numbers.

    summaries = [payloads.router_load(layer=3, counts=np.array([120, 136])),
                 payloads.router_gates(3, scores, kind="softmax")]
    client.report(step, scalars={"loss": 2.1}, summaries=summaries)

Shapes, units and meanings are those of proto/foreshock/v1/ingest.proto; the daemon checks them.
Arrays are copied. `rows` is (begin, count, total) of the hidden dimension: absent means all.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from foreshock.v1 import ingest_pb2 as ingest
from foreshock.v1 import types_pb2 as types

Rows = Optional[Tuple[int, int, int]]

_DTYPES = {
    "float64": types.DTYPE_F64,
    "float32": types.DTYPE_F32,
    "float16": types.DTYPE_F16,
    "int32": types.DTYPE_I32,
    "int64": types.DTYPE_I64,
}
WEIGHT_DTYPES = {
    "float64": types.DTYPE_F64,
    "float32": types.DTYPE_F32,
    "float16": types.DTYPE_F16,
    "bfloat16": types.DTYPE_BF16,
}
SCORE_KINDS = {
    "softmax_logits": ingest.SCORE_KIND_SOFTMAX_LOGITS,
    "sigmoid_logits": ingest.SCORE_KIND_SIGMOID_LOGITS,
    "softmax": ingest.SCORE_KIND_SOFTMAX,
    "sigmoid": ingest.SCORE_KIND_SIGMOID,
}
EVENT_KINDS = {
    "warmup_end": types.EVENT_KIND_WARMUP_END,
    "lr_phase": types.EVENT_KIND_LR_PHASE,
    "batch_size": types.EVENT_KIND_BATCH_SIZE,
    "data_change": types.EVENT_KIND_DATA_CHANGE,
    "evaluation": types.EVENT_KIND_EVALUATION,
    "checkpoint_saved": types.EVENT_KIND_CHECKPOINT_SAVED,
    "note": types.EVENT_KIND_NOTE,
}


def one_of(what: str, found: str, allowed: dict[str, int]) -> int:
    """The contract's value for a name. Raises ValueError naming what is allowed."""
    if found not in allowed:
        raise ValueError(f"{what} is {found!r}; allowed: {', '.join(allowed)}")
    return allowed[found]


def tensor(values: Any) -> types.Tensor:
    """A contract Tensor of an array of 1 to 4 dimensions; other element types are refused."""
    array = np.asarray(values)
    if array.dtype.name not in _DTYPES:
        raise ValueError(f"an array of {array.dtype.name}; allowed: {', '.join(_DTYPES)}")
    if not 1 <= array.ndim <= 4 or array.size == 0:
        raise ValueError(f"an array of shape {array.shape}; allowed: 1 to 4 dimensions, none 0")
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return types.Tensor(
        dtype=_DTYPES[array.dtype.name], shape=little.shape, data=little.tobytes()
    )


def _row_range(rows: Rows) -> types.RowRange | None:
    return None if rows is None else types.RowRange(begin=rows[0], count=rows[1], total=rows[2])


def attention_logits(
    layer: int,
    heads: Sequence[int],
    logits: Any = None,
    max_logit: Any = None,
    columns_complete: bool = True,
    column_zero_is_first: bool = True,
) -> ingest.Summary:
    """`logits` [heads, rows, columns], scaled, -inf where masked; `max_logit` [heads]."""
    return ingest.Summary(
        attention_logits=ingest.AttentionLogits(
            layer=layer,
            heads=heads,
            logits=None if logits is None else tensor(logits),
            max_logit=None if max_logit is None else tensor(max_logit),
            columns_complete=columns_complete,
            column_zero_is_first=column_zero_is_first,
        )
    )


def qk_factors(
    layer: int,
    heads: Sequence[int],
    q: Any,
    k: Any,
    k_index: Sequence[int] = (),
    fp32_master: bool = False,
) -> ingest.Summary:
    """`q` [heads, r, d] and `k` [key heads, r, d]: the heads' rows of W_Q and W_K."""
    return ingest.Summary(
        qk_factors=ingest.QkFactors(
            layer=layer,
            heads=heads,
            q=ingest.Projection(dense=tensor(q)),
            k=ingest.Projection(dense=tensor(k)),
            k_index=k_index,
            fp32_master=fp32_master,
        )
    )


def qk_gram(
    layer: int,
    heads: Sequence[int],
    gram_a: Any,
    gram_b: Any,
    a: Sequence[float],
    q: Sequence[float],
    *,
    base_step: int,
    window_steps: int,
    head_dim: int,
    rows: Rows = None,
    weight_dtype: str = "float32",
    fp32_master: bool = False,
) -> ingest.Summary:
    """`gram_a`, `gram_b` [heads, r(2r+1)]: packed lower triangles; `a`, `q` powers of two."""
    return ingest.Summary(
        qk_gram=ingest.QkGram(
            layer=layer,
            heads=heads,
            head_dim=head_dim,
            rows=_row_range(rows),
            window_steps=window_steps,
            base_step=base_step,
            a=a,
            q=q,
            gram_a=tensor(gram_a),
            gram_b=tensor(gram_b),
            weight_dtype=one_of("weight_dtype", weight_dtype, WEIGHT_DTYPES),
            fp32_master=fp32_master,
        )
    )


def router_gates(
    layer: int,
    scores: Any,
    kind: str,
    top_k: int = 0,
    correction_bias: Any = None,
    token_shard: int | None = None,
    chosen: Any = None,
) -> ingest.Summary:
    """`scores` [tokens, experts]; `kind`: softmax_logits, sigmoid_logits, softmax or sigmoid;
    `chosen` int32 [tokens, top_k]: absent: those of the largest scores."""
    return ingest.Summary(
        router_gates=ingest.RouterGates(
            layer=layer,
            scores=tensor(scores),
            score_kind=one_of("kind of scores", kind, SCORE_KINDS),
            top_k=top_k,
            chosen=None if chosen is None else tensor(chosen),
            correction_bias=None if correction_bias is None else tensor(correction_bias),
            token_shard=token_shard,
        )
    )


def router_load(
    layer: int, counts: Any, expert_offset: int = 0, token_shard: int | None = None
) -> ingest.Summary:
    """`counts` [experts from `expert_offset` on]: assignments of this rank's tokens, exact."""
    return ingest.Summary(
        router_load=ingest.RouterLoad(
            layer=layer,
            counts=tensor(np.asarray(counts, dtype=np.int64)),
            expert_offset=expert_offset,
            token_shard=token_shard,
        )
    )


def router_coactivation(
    layer: int,
    counts: Any,
    tokens: int,
    gate_mass: Any = None,
    token_shard: int | None = None,
) -> ingest.Summary:
    """`counts` int [experts, experts], symmetric: tokens that chose both; the diagonal is not sent.
    `gate_mass` [experts]: sums of the gates. Rare: it calibrates proxy models (docs/proxy.md)."""
    pairs = np.asarray(counts, dtype=np.int64)
    return ingest.Summary(
        router_coactivation=ingest.RouterCoactivation(
            layer=layer,
            experts=len(pairs),
            pair_counts=tensor(pairs[np.tril_indices(len(pairs), -1)]),
            gate_mass=None if gate_mass is None else tensor(np.asarray(gate_mass, np.float64)),
            tokens=tokens,
            token_shard=token_shard,
        )
    )


def router_weights(
    layer: int,
    weights: Any,
    rows: Rows = None,
    weight_dtype: str = "float32",
    fp32_master: bool = False,
) -> ingest.Summary:
    """`weights` [experts, d]."""
    return ingest.Summary(
        router_weights=ingest.RouterWeights(
            layer=layer,
            weights=tensor(weights),
            rows=_row_range(rows),
            weight_dtype=one_of("weight_dtype", weight_dtype, WEIGHT_DTYPES),
            fp32_master=fp32_master,
        )
    )


def event(kind: str, step: int, name: str = "", detail: str = "") -> ingest.Summary:
    """A declared change: warmup_end, lr_phase, batch_size, data_change, evaluation,
    checkpoint_saved (`name` is the checkpoint) or note."""
    return ingest.Summary(
        event=types.Event(
            kind=one_of("kind of event", kind, EVENT_KINDS), step=step, name=name, detail=detail
        )
    )
