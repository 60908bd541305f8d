"""Norms of the gradients of W_Q, W_K and the routers, beside the norm of all: train.grad_norm_*.

The rules look at the share of W_Q and W_K in the whole, so all norms must be of one moment. When
the training loop gives a `grad_norm` from before clipping and the gradients have been clipped
since, the parts are scaled back by the ratio of that norm to the one measured here. Where a fused
weight holds Q and K, their rows are taken. Of a sharded model a rank measures its own shard, unless
the ranks gather.

In the step a norm per tensor is taken and nothing else; sums are made on the packer's thread.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence

import numpy as np
import torch

from foreshock.discovery import Found
from foreshock.packer import Part
from foreshock.projections import Dense, find_weight
from foreshock.sharding import add_up, is_sharded, local, pieces_of


@dataclasses.dataclass
class Norms:
    """Of one moment, on the device."""

    values: torch.Tensor  # float32: of `whole` parameters, then of rows of fused ones
    whole: int
    places: dict[str, list[int]]  # where in `values` those of "q", "k", "router" are

    def part(self, grad_norm: Any) -> Part:
        """`grad_norm`: number or tensor of one element as the loop gave it; None: the measured one
        is sent."""
        if isinstance(grad_norm, torch.Tensor) and grad_norm.device.type != "cpu":
            tensors = [self.values, grad_norm.detach().to(torch.float64, copy=True)]
            return Part(tensors, lambda arrays: self._scalars(arrays[0], arrays[1].item()))
        given = None if grad_norm is None else float(grad_norm)
        return Part([self.values], lambda arrays: self._scalars(arrays[0], given))

    def _scalars(self, values: np.ndarray, given: float | None) -> dict[str, float]:
        squares = np.square(values, dtype=np.float64)
        whole = np.sqrt(squares[: self.whole].sum())
        found = {"grad_norm": float(whole)} if given is None else {}
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.float64(1.0) if given is None else np.float64(given) / whole
            for name, places in self.places.items():
                found[f"grad_norm_{name}"] = float(np.sqrt(squares[places].sum()) * scale)
        return found


class GradientNorms:
    def __init__(
        self, chunks: Sequence[torch.nn.Module], found: Found, gather: bool = False
    ) -> None:
        self._chunks = chunks
        self._gather = gather
        self._projections: Mapping[str, Sequence[Any]] = {
            "q": [layer.q for layer in found.attention],
            "k": [layer.k for layer in found.attention],
            "router": [_Gate(layer.gate, layer.weight) for layer in found.routers],
        }
        self._parameters: dict[int, torch.Tensor] = {}  # by id
        self._list_parameters()

    def measure(self) -> Norms | None:
        """None: no gradient at hand."""
        watched = {
            name: [(projection, projection.parameter()) for projection in projections]
            for name, projections in self._projections.items()
        }
        # The walk over the modules is dear: made once, and again when a parameter was replaced.
        if any(id(p) not in self._parameters for pairs in watched.values() for _, p in pairs):
            self._list_parameters()
        norms, at = _Sums(self._gather), {}
        for key, parameter in self._parameters.items():
            if parameter.grad is not None:
                at[key] = len(norms)
                norms.add(local(parameter.grad), parameter.grad)
        if not len(norms):
            return None
        whole, places = len(norms), {}
        for name, pairs in watched.items():
            mine = []
            for projection, parameter in pairs:
                if id(parameter) not in at:
                    continue
                rows = _own_rows(projection, parameter.grad)
                if rows is None:
                    mine.append(at[id(parameter)])
                else:
                    mine.append(len(norms))
                    norms.add(rows, parameter.grad)
            if mine:
                places[name] = mine
        return Norms(norms.all(), whole, places)

    def _list_parameters(self) -> None:
        self._parameters = {id(p): p for chunk in self._chunks for p in chunk.parameters()}


@dataclasses.dataclass
class _Gate:
    module: Any
    weight: str

    def parameter(self) -> torch.Tensor:
        return find_weight(self.module, self.weight)


def _own_rows(projection: Any, gradient: torch.Tensor) -> torch.Tensor | None:
    """The rows of a fused weight's gradient that are the projection's, as far as this rank holds
    them; None: all of it."""
    if not isinstance(projection, Dense):
        return None
    by_row = local(gradient).t() if projection.transposed else local(gradient)
    if projection.rows.numel() == gradient.shape[1 if projection.transposed else 0]:
        return None
    begin, end = pieces_of(gradient, projection.transposed).mine.rows
    rows = projection.rows[(projection.rows >= begin) & (projection.rows < end)] - begin
    return by_row.index_select(0, rows.to(by_row.device))


def _norm(tensor: torch.Tensor) -> torch.Tensor:
    return torch.linalg.vector_norm(tensor, dtype=torch.float32)


class _Sums:
    """Norms in a row; where they are to be gathered, those of tensors that ranks share are added
    up over the ranks, in one exchange for each way of sharing."""

    def __init__(self, gather: bool) -> None:
        self._gather = gather
        self._norms: list[torch.Tensor] = []
        self._shared: dict[Any, tuple[Any, list[int]]] = {}

    def __len__(self) -> int:
        return len(self._norms)

    def add(self, part: torch.Tensor, whole: torch.Tensor) -> None:
        """`part`: what this rank holds of what is measured; `whole`: the tensor it is cut from."""
        if self._gather and is_sharded(whole):
            key = (whole.device_mesh, tuple(whole.placements))
            self._shared.setdefault(key, (whole, []))[1].append(len(self._norms))
        self._norms.append(_norm(part))

    def all(self) -> torch.Tensor:
        norms = torch.stack(self._norms)
        for whole, places in self._shared.values():
            norms[places] = add_up(norms[places].square(), whole).sqrt()
        return norms
