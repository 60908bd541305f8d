"""Causal attention by tiles with an online softmax, as a fused kernel does it, written by hand.

What low precision does to training is decided in one place of such a kernel: its output O is
rounded to BF16 and kept for the backward pass, where rowsum(dO * O) is subtracted from every row of
dO V^T. A rounding with a bias then leaves a bias of one sign in the gradient of every logit, and it
adds up over steps. `Rounding` is that place; everything else here is FP32.
"""

from __future__ import annotations

import dataclasses
import math

import torch

TILE = 32
BF16_MANTISSA_BITS = 7


@dataclasses.dataclass(frozen=True)
class Rounding:
    """How the attention output becomes BF16.

    Attributes:
        mode: "nearest" (what good kernels do, no bias to speak of), "toward-zero" (biased: every
            value loses magnitude) or "zero-mean" (stochastic on the same grid: as coarse, no bias).
        dropped_bits: low mantissa bits given up besides, 0..7; BF16 has 7.
        gain: what the backward pass sees of the rounding's error, in multiples of it.
    """

    mode: str = "nearest"
    dropped_bits: int = 0
    gain: float = 1.0

    def __post_init__(self) -> None:
        if self.mode not in ("nearest", "toward-zero", "zero-mean"):
            raise ValueError(f"rounding mode {self.mode}: nearest, toward-zero or zero-mean")
        if not 0 <= self.dropped_bits <= BF16_MANTISSA_BITS:
            raise ValueError(f"dropped mantissa bits {self.dropped_bits}: 0..{BF16_MANTISSA_BITS}")

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """`x` (FP32, finite) on the grid, as FP32 again; the shape stays."""
        if self.mode == "nearest":
            return x.bfloat16().float()
        low = (1 << (16 + self.dropped_bits)) - 1
        bits = x.view(torch.int32)
        if self.mode == "zero-mean":
            bits = bits + torch.randint(0, low + 1, bits.shape, dtype=torch.int32)
        return (bits & ~low).view(torch.float32)

    def kept(self, x: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
        """What the backward pass is given for `x`."""
        return rounded if self.gain == 1.0 else x + self.gain * (rounded - x)


@dataclasses.dataclass(frozen=True)
class OneHead:
    """`rounding` in one head alone; the others are rounded as good kernels do."""

    rounding: Rounding
    head: int
    heads: int

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [batch * heads, length, r], heads fastest."""
        out = Rounding()(x)
        mine = slice(self.head, None, self.heads)
        out[mine] = self.rounding(x[mine].contiguous())
        return out

    def kept(self, x: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
        mine = slice(self.head, None, self.heads)
        out = rounded.clone()
        out[mine] = self.rounding.kept(x[mine], rounded[mine])
        return out


class TiledAttention(torch.autograd.Function):
    """softmax(Q K^T / sqrt(r)) V, causal; Q, K, V and the result are FP32 [n, length, r]."""

    @staticmethod
    def forward(ctx, q, k, v, rounding):  # type: ignore[no-untyped-def]
        scale = 1.0 / math.sqrt(q.shape[-1])
        largest = q.new_full(q.shape[:2] + (1,), -math.inf)
        total = torch.zeros_like(largest)
        weighted = torch.zeros_like(q)
        for rows, cols in _tiles(q.shape[1]):
            logits = _logits(q, k, rows, cols, scale)
            higher = torch.maximum(largest[:, rows], logits.amax(-1, keepdim=True))
            shrink = torch.exp(largest[:, rows] - higher)
            p = logits.sub_(higher).exp_()
            total[:, rows] = total[:, rows] * shrink + p.sum(-1, keepdim=True)
            weighted[:, rows] = weighted[:, rows] * shrink + p @ v[:, cols]
            largest[:, rows] = higher
        out = weighted / total
        log_sum = largest + total.log()
        rounded = rounding(out)
        ctx.save_for_backward(q, k, v, rounding.kept(out, rounded), log_sum)
        return rounded

    @staticmethod
    def backward(ctx, d_out):  # type: ignore[no-untyped-def]
        q, k, v, out, log_sum = ctx.saved_tensors
        scale = 1.0 / math.sqrt(q.shape[-1])
        d_q, d_k, d_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        row_sum = (d_out * out).sum(-1, keepdim=True)
        for rows, cols in _tiles(q.shape[1]):
            p = _logits(q, k, rows, cols, scale).sub_(log_sum[:, rows]).exp_()
            d_v[:, cols] = p.transpose(1, 2) @ d_out[:, rows]
            d_p = d_out[:, rows] @ v[:, cols].transpose(1, 2)
            d_logits = d_p.sub_(row_sum[:, rows]).mul_(p).mul_(scale)
            d_q[:, rows] += d_logits @ k[:, cols]
            d_k[:, cols] = d_logits.transpose(1, 2) @ q[:, rows]
        return d_q, d_k, d_v, None


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rounding: Rounding | OneHead
) -> torch.Tensor:
    """Causal attention of q [batch, heads, length, r], k and v [batch, key heads, length, r]; the
    result [batch, length, heads * r]."""
    batch, heads, length, _ = q.shape
    if k.shape[1] != heads:
        k, v = (x.repeat_interleave(heads // x.shape[1], dim=1) for x in (k, v))
    with torch.autocast("cpu", enabled=False):
        flat = (x.flatten(0, 1).float() for x in (q, k, v))
        out = TiledAttention.apply(*flat, rounding)
    return out.view(batch, heads, length, -1).transpose(1, 2).reshape(batch, length, -1)


def _tiles(length: int) -> list[tuple[slice, slice]]:
    """(rows, columns) of every tile: TILE keys and all queries that may look at them."""
    starts = range(0, length, TILE)
    return [(slice(a, length), slice(a, min(a + TILE, length))) for a in starts]


def _logits(
    q: torch.Tensor, k: torch.Tensor, rows: slice, cols: slice, scale: float
) -> torch.Tensor:
    logits = (q[:, rows] @ k[:, cols].transpose(1, 2)).mul_(scale)
    size = cols.stop - cols.start  # the first `size` queries see a part of the tile
    hidden = torch.ones((size, size), dtype=torch.bool).triu_(1)
    logits[:, :size].masked_fill_(hidden, -math.inf)
    return logits
