"""Norms of the gradients of W_Q, W_K and the routers, beside the norm of all: train.grad_norm_*.

The rules look at the share of W_Q and W_K in the whole, so all norms must be of one moment. When
the training loop gives a `grad_norm` from before clipping and the gradients have been clipped
since, the parts are scaled back by the ratio of that norm to the one measured here. Where a fused
weight holds Q and K, their rows are taken. Of a sharded model a rank measures its own shard.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import torch

from foreshock.discovery import Found
from foreshock.projections import Dense


class GradientNorms:
    def __init__(self, chunks: Sequence[torch.nn.Module], found: Found) -> None:
        self._chunks = chunks
        self._projections = {
            "q": [layer.q for layer in found.attention],
            "k": [layer.k for layer in found.attention],
        }
        self._gates = [layer.gate for layer in found.routers]

    def measure(self) -> dict[str, torch.Tensor]:
        """Squares of the norms, 0-d float32 on the device; absent: no gradient at hand."""
        parameters = {id(p): p for chunk in self._chunks for p in chunk.parameters()}
        everything = [p.grad.detach() for p in parameters.values() if p.grad is not None]
        squares = {"": _sum_of_squares(everything)} if everything else {}
        for name, projections in self._projections.items():
            gradients = [g for g in map(_gradient_rows, projections) if g is not None]
            if gradients:
                squares[name] = _sum_of_squares(gradients)
        gates = [g.weight.grad.detach() for g in self._gates if g.weight.grad is not None]
        if gates:
            squares["router"] = _sum_of_squares(gates)
        return squares

    def scalars(
        self, squares: dict[str, torch.Tensor], grad_norm: Any
    ) -> Iterator[tuple[str, Any]]:
        """(name, value) pairs; `grad_norm` as the loop gave it, None: the measured one is sent."""
        if "" not in squares:
            return
        whole = squares[""].sqrt()
        if grad_norm is None:
            yield "grad_norm", whole
            scale: Any = 1.0
        else:
            scale = torch.as_tensor(grad_norm, device=whole.device).detach() / whole
        for name in ("q", "k", "router"):
            if name in squares:
                yield f"grad_norm_{name}", squares[name].sqrt() * scale


def _gradient_rows(projection: Any) -> torch.Tensor | None:
    parameter = projection.parameter()
    if parameter.grad is None:
        return None
    gradient = parameter.grad.detach()
    if not isinstance(projection, Dense):
        return gradient
    if projection.transposed:
        gradient = gradient.t()
    if projection.rows.numel() == gradient.shape[0]:
        return gradient
    return gradient.index_select(0, projection.rows.to(gradient.device))


def _sum_of_squares(tensors: list[torch.Tensor]) -> torch.Tensor:
    norms = [torch.linalg.vector_norm(t, dtype=torch.float32) for t in tensors]
    return torch.stack(norms).square().sum()
