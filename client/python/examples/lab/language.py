"""A synthetic language that a small decoder learns in a few hundred steps, and its relatives.

The next token follows, in turns that are drawn token by token, from a sparse table of successors
(what feed-forward layers learn), from what followed the same token before in the sequence (what
attention learns), or from nothing. Another `dialect` shares most of the table: the data a run
changes to, or is fine-tuned on.
"""

from __future__ import annotations

import functools

import numpy as np

VOCABULARY = 64
SUCCESSORS = 4  # of a token, with probabilities 1, 1/2, 1/3, 1/4 to scale
COPIED = 0.6  # share of tokens that repeat what followed before
ANY = 0.05  # share of tokens that follow from nothing
CHANGED = 0.4  # share of the table's rows that another dialect has of its own
STREAMS, STREAM_TOKENS = 512, 512


@functools.lru_cache(maxsize=4)
def read_language(dialect: int = 0) -> np.ndarray:
    """uint8 [STREAMS * STREAM_TOKENS], the same at every call."""
    random = np.random.default_rng(7)
    table = random.integers(0, VOCABULARY, (VOCABULARY, SUCCESSORS))
    if dialect:
        random = np.random.default_rng([7, dialect])
        rows = random.permutation(VOCABULARY)[: round(CHANGED * VOCABULARY)]
        table[rows] = random.integers(0, VOCABULARY, (len(rows), SUCCESSORS))
    weights = 1.0 / np.arange(1, SUCCESSORS + 1)
    streams = np.arange(STREAMS)
    token = random.integers(0, VOCABULARY, STREAMS)
    followed = table[:, 0][None].repeat(STREAMS, 0)  # by stream and token: what came after it
    text = np.empty((STREAMS, STREAM_TOKENS), dtype=np.uint8)
    for at in range(STREAM_TOKENS):
        text[:, at] = token
        chosen = random.choice(SUCCESSORS, STREAMS, p=weights / weights.sum())
        turn = random.random(STREAMS)
        after = np.where(turn < COPIED, followed[streams, token], table[token, chosen])
        anything = random.integers(0, VOCABULARY, STREAMS)
        after = np.where(turn > 1.0 - ANY, anything, after)
        followed[streams, token] = after
        token = after
    return text.reshape(-1)
