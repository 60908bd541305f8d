"""RL post-training: how far the trainer's policy is from the one that sampled the tokens.

    mismatch = foreshock.policy_mismatch(trainer_logprobs, rollout_logprobs, response_mask)
    monitor.step(step, reward_mean=reward, policy_mismatch=mismatch)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from foreshock import payloads
from foreshock.v1 import ingest_pb2 as ingest

PAIRS_MAX = 4096  # the contract's limit for one report


def policy_mismatch(
    trainer_logprobs: Any,
    rollout_logprobs: Any,
    mask: Any = None,
    *,
    routes: tuple[int, int] | None = None,
    tokens_with_route_mismatch: tuple[int, int] | None = None,
    routes_replayed: bool = False,
    token_shard: int | None = None,
) -> ingest.Summary:
    """Evenly spaced pairs of log-probabilities, at most 4096, as a PolicyMismatch summary.

    Args:
        trainer_logprobs: of the sampled tokens, any shape, nats, <= 0; array or tensor.
        rollout_logprobs: of the same tokens, the same shape.
        mask: the same shape; tokens with 0 are left out. Absent: all count.
        routes: (compared, mismatched) pairs of (token, layer) with another set of experts.
        tokens_with_route_mismatch: (compared, mismatched) tokens with any such layer.
        routes_replayed: the trainer replays the rollout's routes.

    Raises:
        ValueError: the shapes differ, or no token is left.
    """
    trainer, rollout = _flat(trainer_logprobs), _flat(rollout_logprobs)
    if trainer.shape != rollout.shape:
        raise ValueError(
            f"policy_mismatch: {trainer.size} trainer and {rollout.size} rollout "
            "log-probabilities; allowed: the same shape"
        )
    if mask is not None:
        keep = _flat(mask) != 0
        if keep.shape != trainer.shape:
            raise ValueError(
                f"policy_mismatch: a mask of {keep.size} for {trainer.size} tokens; "
                "allowed: the same shape"
            )
        trainer, rollout = trainer[keep], rollout[keep]
    if trainer.size == 0:
        raise ValueError("policy_mismatch: no token is left; allowed: at least one")
    if trainer.size > PAIRS_MAX:
        at = np.linspace(0, trainer.size - 1, PAIRS_MAX).astype(np.int64)
        trainer, rollout = trainer[at], rollout[at]
    payload = ingest.PolicyMismatch(
        trainer_logprobs=payloads.tensor(trainer),
        rollout_logprobs=payloads.tensor(rollout),
        routes_replayed=routes_replayed,
        token_shard=token_shard,
    )
    if routes is not None:
        payload.routes_compared, payload.routes_mismatched = routes
    if tokens_with_route_mismatch is not None:
        payload.tokens_compared, payload.tokens_mismatched = tokens_with_route_mismatch
    return ingest.Summary(policy_mismatch=payload)


def _flat(values: Any) -> np.ndarray:
    if hasattr(values, "detach"):  # a tensor: one copy to the host, off the training step's path
        values = values.detach().float().cpu().numpy()
    array = np.asarray(values)
    return array.astype(np.float64 if array.dtype == np.float64 else np.float32).reshape(-1)
