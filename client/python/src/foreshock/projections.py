"""Reads the rows of some heads out of a projection's weights. Copies: training may go on."""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence, Union

import torch

from foreshock import patterns


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

    def read(self, heads: Sequence[int], optimizer: Any) -> torch.Tensor:
        """[len(heads), r, d], a copy in the weight's own type."""
        weight = master_of(find_weight(self.module, self.name), optimizer).detach()
        if self.transposed:
            weight = weight.t()
        rows = self.rows.reshape(-1, self.head_dim)[list(heads)].reshape(-1).to(weight.device)
        return weight.index_select(0, rows).reshape(len(heads), self.head_dim, -1)

    def parameter(self) -> torch.Tensor:
        return find_weight(self.module, self.name)


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

    def read(self, heads: Sequence[int], optimizer: Any) -> torch.Tensor:
        """[len(heads), r, d] float64: products are formed in double, so that windows subtract."""
        up = master_of(find_weight(self.module, self.up), optimizer).detach()
        down = master_of(find_weight(self.module, self.down), optimizer).detach()
        by_head = up.reshape(-1, self.stride, up.shape[1])[list(heads), : self.head_dim].double()
        gain = getattr(getattr(self.module, self.norm, None), "weight", None) if self.norm else None
        if isinstance(gain, torch.Tensor):
            by_head = by_head * gain.detach().double()
        return by_head @ down[: self.latent].double()

    def parameter(self) -> torch.Tensor:
        return find_weight(self.module, self.up)


Projection = Union[Dense, LatentProduct]
