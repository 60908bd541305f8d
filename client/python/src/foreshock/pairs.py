"""Which experts are chosen together, counted off the training thread.

    pairs.count([chosen], experts=8)    # chosen [tokens, k] -> int64 [8, 8], 120 tokens
"""

from __future__ import annotations

from typing import Sequence

import numpy as np
import torch

TOKENS_AT_ONCE = 8192


def count(chosen: Sequence[np.ndarray], experts: int) -> tuple[np.ndarray, int]:
    """`chosen` [tokens, k] each, whole numbers below `experts`, each once in a row: (int64 [experts,
    experts], symmetric, in how many rows both are; on the diagonal, in how many one is; of how many
    rows). Rows with a -1 are left out: their token did not get its k experts."""
    counts = torch.zeros(experts * experts, dtype=torch.int64)
    tokens = 0
    for array in chosen:
        # torch's loops, unlike numpy's, let the training thread go on.
        for part in torch.from_numpy(array.astype(np.int64)).split(TOKENS_AT_ONCE):
            rows = part[(part >= 0).all(1)]
            both = rows.unsqueeze(2) * experts + rows.unsqueeze(1)
            counts += torch.bincount(both.flatten(), minlength=experts * experts)
            tokens += len(rows)
    return counts.view(experts, experts).numpy(), tokens
