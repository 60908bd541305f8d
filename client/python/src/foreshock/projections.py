"""Reads the rows of some heads out of a projection's weights. Copies: training may go on."""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence, Union

import torch

from foreshock import patterns
from foreshock.sharding import Piece, Pieces, pieces_of, rows_of


def find_weight(module: Any, name: str) -> torch.Tensor:
    """The parameter at a dotted name, or that of the module there; looked up at every reading,
    so that a replaced weight is seen."""
    for part in name.split("."):
        module = getattr(module, part)
    return module.weight if isinstance(module, torch.nn.Module) else module


def master_of(parameter: torch.Tensor, optimizer: Any) -> torch.Tensor:
    """The fp32 master of a parameter where the optimizer keeps one of its shape, else itself."""
    candidates = [getattr(parameter, name, None) for name in patterns.MASTER_ATTRIBUTES]
    state = getattr(optimizer, "state", None)
    kept = state.get(parameter, {}) if hasattr(state, "get") else {}
    candidates += [kept.get(name) for name in patterns.MASTER_STATE_KEYS]
    for master in candidates:
        if isinstance(master, torch.Tensor) and master.shape == parameter.shape:
            return master
    return parameter


@dataclasses.dataclass
class Dense:
    """Rows of one weight; `rows` lists those of all heads, head after head."""

    module: Any
    name: str
    rows: torch.Tensor
    head_dim: int
    transposed: bool

    def read(self, heads: Sequence[int], optimizer: Any, gather: bool = False) -> torch.Tensor:
        """[len(heads), r, d], a copy in the weight's own type. Of a sharded weight d counts the
        columns that this rank holds; `gather`: all ranks together read all of it."""
        weight = master_of(self.parameter(), optimizer)
        rows = self.rows_of(heads)
        return rows_of(weight, rows, self.transposed, gather).unflatten(0, (len(heads), -1))

    def rows_of(self, heads: Sequence[int]) -> torch.Tensor:
        """Which rows of the parameter are those of the heads."""
        return self.rows.reshape(-1, self.head_dim)[list(heads)].reshape(-1)

    def parameter(self) -> torch.Tensor:
        return find_weight(self.module, self.name)

    def pieces(self) -> Pieces:
        return pieces_of(self.parameter(), self.transposed)


@dataclasses.dataclass
class LatentProduct:
    """Multi-head latent attention: up[head, first r rows] . diag(norm gain) . down[:latent]."""

    module: Any
    up: str
    norm: str
    down: str
    latent: int
    head_dim: int  # r, the part without rotary dimensions
    stride: int  # rows of `up` per head

    def read(self, heads: Sequence[int], optimizer: Any, gather: bool = False) -> torch.Tensor:
        """[len(heads), r, d] float64: products are formed in double, so that windows subtract."""
        up = master_of(self.parameter(), optimizer)
        down = master_of(find_weight(self.module, self.down), optimizer)
        by_head = rows_of(up, self.rows_of(heads), False, gather).double()
        gain = getattr(getattr(self.module, self.norm, None), "weight", None) if self.norm else None
        if isinstance(gain, torch.Tensor):
            every = torch.arange(len(gain))
            by_head = by_head * rows_of(gain[:, None], every, False, gather).double()[:, 0]
        latent = rows_of(down, torch.arange(self.latent), False, gather).double()
        return (by_head @ latent).unflatten(0, (len(heads), -1))

    def rows_of(self, heads: Sequence[int]) -> torch.Tensor:
        first = torch.tensor(list(heads)) * self.stride
        return (first[:, None] + torch.arange(self.head_dim)).reshape(-1)

    def parameter(self) -> torch.Tensor:
        return find_weight(self.module, self.up)

    def pieces(self) -> Pieces:
        """A rank without all of `down`, or of the columns of `up`, can form no product."""
        up, down = pieces_of(self.parameter(), False), pieces_of(self._down(), False)
        held = []
        for number, piece in enumerate(up.all):
            other = down.all[number] if len(down.all) > 1 else down.all[0]
            whole = other.rows == (0, self._down().shape[0])
            whole = whole and piece.columns == (0, self.parameter().shape[1])
            held.append(Piece(piece.rows if whole else (0, 0), other.columns))
        return Pieces(tuple(held), up.me, up.first, up.mesh)

    def _down(self) -> torch.Tensor:
        return find_weight(self.module, self.down)


Projection = Union[Dense, LatentProduct]
