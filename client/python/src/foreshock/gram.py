"""Balanced Gram matrices of the change of W_Q and W_K over a window, on the weights' device.

    A' = [dQ/a, Q/q],  B' = [aK, q dK],  gram_a = A'^T A',  gram_b = B'^T B'   (both [2r, 2r])

so that A' B'^T is the first-order change of W_Q W_K^T. All in double: the spectra the daemon reads
off double Grams hold 1e-9 (docs/indicators/attention.md 1.4). a and q are powers of two near |dQ|
and |Q|, so scaling rounds nothing. Cost per head: 16 d r^2 multiply-adds.
"""

from __future__ import annotations

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
    q, k = q_base.double(), k_base.double()
    dq, dk = q_now.double() - q, k_now.double() - k
    norm_q, norm_k, norm_dq, norm_dk = (
        torch.linalg.vector_norm(x, dim=(1, 2)) for x in (q, k, dq, dk)
    )
    scale_q = _power_of_two(norm_q)
    # Without a change of Q the scale that balances B' stands in.
    scale_a = _power_of_two(torch.where(norm_dq > 0, norm_dq, scale_q * norm_dk / norm_k))
    a, s = scale_a[:, None, None], scale_q[:, None, None]
    return Grams(
        _packed_gram(torch.cat([dq / a, q / s], dim=1)),
        _packed_gram(torch.cat([k * a, dk * s], dim=1)),
        scale_a,
        scale_q,
    )


def _packed_gram(rows: torch.Tensor) -> torch.Tensor:
    gram = rows @ rows.transpose(1, 2)
    i, j = torch.tril_indices(gram.shape[1], gram.shape[2], device=gram.device)
    return gram[:, i, j]


def _power_of_two(norms: torch.Tensor) -> torch.Tensor:
    """The nearest 2^n, exactly; 1 for 0, NaN and infinity. [n] float64."""
    usable = torch.isfinite(norms) & (norms > 1e-300)
    bits = torch.where(usable, norms, torch.ones_like(norms)).view(torch.int64)
    # Half of the mantissa's range added, mantissa cleared: rounds up from 1.5 on.
    rounded = ((bits + (1 << 51)) >> 52) << 52
    return rounded.view(torch.float64)
