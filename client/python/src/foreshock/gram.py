"""Balanced Gram matrices of the change of W_Q and W_K over a window, on the weights' device.

    A' = [dQ/a, Q/q],  B' = [aK, q dK],  gram_a = A'^T A',  gram_b = B'^T B'   (both [2r, 2r])

so that A' B'^T is the first-order change of W_Q W_K^T. All in double: the spectra the daemon reads
off double Grams hold 1e-9 (docs/indicators/attention.md 1.4). a and q are powers of two near |dQ|
and |Q|, so scaling rounds nothing. Cost per head: 16 d r^2 multiply-adds.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch


class Grams(NamedTuple):
    gram_a: torch.Tensor  # [n, r(2r+1)] float64, lower triangles by rows
    gram_b: torch.Tensor
    a: torch.Tensor  # [n] float64, powers of two
    q: torch.Tensor


def balanced_grams(
    q_base: torch.Tensor, q_now: torch.Tensor, k_base: torch.Tensor, k_now: torch.Tensor
) -> Grams:
    """From the heads' rows of W_Q and W_K, each [n, r, d]; n query heads, K repeated per head."""
    # As one tensor, since the calls cost more than the numbers: [n, 4, r, d] of dQ, Q, K, dK.
    rows = torch.stack([q_now, q_base, k_base, k_now], dim=1).double()
    rows[:, 0] -= rows[:, 1]
    rows[:, 3] -= rows[:, 2]
    norm_dq, norm_q, norm_k, norm_dk = torch.linalg.vector_norm(rows, dim=(2, 3)).unbind(1)
    # Without a change of Q the scale that balances B' stands in.
    near_a = torch.where(norm_dq > 0, norm_dq, norm_q * norm_dk / norm_k)
    scales = _power_of_two(torch.stack([near_a, norm_q], dim=1))  # [n, 2] of a, q
    rows *= torch.cat([scales.reciprocal(), scales], dim=1)[:, :, None, None]
    sides = rows.view(rows.shape[0], 2, -1, rows.shape[3])  # A', B'
    grams = sides @ sides.transpose(2, 3)
    gram_a, gram_b = grams.flatten(2)[:, :, _lower_triangle(grams.shape[3], grams.device)].unbind(1)
    return Grams(gram_a, gram_b, *scales.unbind(1))


@functools.lru_cache(maxsize=16)
def _lower_triangle(size: int, device: torch.device) -> torch.Tensor:
    """Places in a flat [size, size] matrix."""
    i, j = torch.tril_indices(size, size, device=device)
    return i * size + j


def _power_of_two(norms: torch.Tensor) -> torch.Tensor:
    """The nearest 2^n, exactly; 1 for 0, NaN and infinity. float64."""
    usable = (norms > 1e-300) & (norms < math.inf)
    bits = norms.masked_fill(~usable, 1.0).view(torch.int64)
    # Half of the mantissa's range added, mantissa cleared: rounds up from 1.5 on.
    return ((bits + (1 << 51)) & -(1 << 52)).view(torch.float64)
