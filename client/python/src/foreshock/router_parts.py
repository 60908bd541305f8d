"""Summaries of what was heard of one router in a step."""

from __future__ import annotations

import numpy as np

from foreshock import pairs, payloads
from foreshock.packer import Part
from foreshock.routers import RouterLayer
from foreshock.taps import Taken
from foreshock.v1 import ingest_pb2 as ingest


def router_parts(
    layer: RouterLayer, taken: Taken, gates: bool, paired: bool, token_shard: int | None
) -> list[Part]:
    """`gates`: scores and load are due; `paired`: pairs of experts are."""
    parts = []
    if taken.choices and paired:
        parts.append(
            Part(
                taken.choices,
                lambda arrays: payloads.router_coactivation(
                    layer.layer, *pairs.count(arrays, layer.experts), token_shard=token_shard
                ),
            )
        )
    if gates and taken.scores is not None:
        parts.append(_gates(layer, taken, token_shard))
    if gates and taken.counts is not None:
        parts.append(
            Part(
                [taken.counts],
                lambda arrays: payloads.router_load(
                    layer.layer, arrays[0], token_shard=token_shard
                ),
            )
        )
    return parts


def _gates(layer: RouterLayer, taken: Taken, token_shard: int | None) -> Part:
    given = [taken.scores, taken.chosen, taken.bias]

    def build(arrays: list[np.ndarray]) -> ingest.Summary:
        left = iter(arrays)
        scores, chosen, bias = (None if t is None else next(left) for t in given)
        return payloads.router_gates(
            layer.layer,
            scores,
            layer.score_kind,
            layer.top_k,
            correction_bias=bias,
            token_shard=token_shard,
            # Tokens without k experts (a capacity limit) cannot be told.
            chosen=None if chosen is None or (chosen < 0).any() else chosen,
        )

    return Part([t for t in given if t is not None], build)
