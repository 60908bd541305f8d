"""Which part of a weight this rank holds, and how the parts of all ranks come together.

    pieces = pieces_of(weight, transposed=False)
    pieces.mine.rows                          # (begin, end) of the matrix as [out, in]
    rows_of(weight, rows, False, gather=True) # the same on all ranks that share the weight

A plain tensor is whole. A DTensor (FSDP2, tensor parallelism) lies over a mesh of ranks: along each
dimension of the mesh it is repeated, or cut along its rows or columns. Only `gather` speaks with
other ranks; everything else is arithmetic.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any, NamedTuple, Sequence

import torch

# What the dimensions of a mesh are called, and which coordinate they are.
MESH_NAMES = {
    "dp": "data", "ddp": "data", "data": "data", "fsdp": "data", "replicate": "data",
    "shard": "data", "dp_replicate": "data", "dp_shard": "data", "batch": "data",
    "tp": "tensor", "tensor": "tensor", "pp": "pipeline", "pipeline": "pipeline",
    "cp": "context", "context": "context", "ep": "expert", "expert": "expert",
}  # fmt: skip


class Piece(NamedTuple):
    rows: tuple[int, int]  # begin, end; of the matrix as [out, in]
    columns: tuple[int, int]

    def has(self, rows: tuple[int, int]) -> bool:
        return self.rows[0] <= rows[0] and rows[1] <= self.rows[1]


@dataclasses.dataclass(frozen=True)
class Pieces:
    all: tuple[Piece, ...]  # of the ranks of the mesh, in the mesh's order
    me: int  # this rank's place in it
    first: bool  # of the ranks that hold the same piece, this one is the first
    mesh: Any = None  # None: a plain tensor

    @property
    def mine(self) -> Piece:
        return self.all[self.me]


class Scattered(ValueError):
    """Rows or columns that do not follow each other, or a rank outside of the mesh."""


def is_sharded(weight: Any) -> bool:
    """Is it a DTensor?"""
    return hasattr(weight, "to_local") and hasattr(weight, "placements")


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank holds of it."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def pieces_of(weight: Any, transposed: bool) -> Pieces:
    """`transposed`: the weight is [in, out]. Raises Scattered."""
    if not is_sharded(weight):
        rows, columns = weight.shape[::-1] if transposed else weight.shape
        return Pieces((Piece((0, rows), (0, columns)),), 0, True)
    return _pieces(tuple(weight.shape), transposed, weight.device_mesh, tuple(weight.placements))


@functools.lru_cache(maxsize=64)  # the layers of a model have a few shapes
def _pieces(shape: tuple[int, ...], transposed: bool, mesh: Any, placements: Any) -> Pieces:
    mine = mesh.get_coordinate()
    if mine is None:
        raise Scattered("this rank is not in its mesh")
    places = list(itertools.product(*(range(size) for size in mesh.shape)))
    found = []
    for place in places:
        first, second = (
            _extent(shape[dim], [(at, size, placement) for at, size, placement in
                                 zip(place, mesh.shape, placements)
                                 if getattr(placement, "dim", None) == dim])
            for dim in (0, 1)
        )  # fmt: skip
        found.append(Piece(second, first) if transposed else Piece(first, second))
    repeated = [at for at, placement in zip(mine, placements) if placement.is_replicate()]
    return Pieces(tuple(found), places.index(tuple(mine)), not any(repeated), mesh)


def _extent(length: int, cuts: Sequence[tuple[int, int, Any]]) -> tuple[int, int]:
    """(begin, end) of what is left of 0..length after the cuts: (which, of how many, placement)."""
    held = torch.arange(length)
    for at, size, placement in cuts:
        # FSDP2 over tensor parallelism cuts each of the `split_factor` shards by itself.
        chunks = held.chunk(size * getattr(placement, "split_factor", 1))[at::size]
        held = torch.cat(chunks) if chunks else held[:0]
    if len(held) and int(held[-1]) - int(held[0]) + 1 != len(held):
        raise Scattered("a rank holds rows that do not follow each other")
    return (int(held[0]), int(held[-1]) + 1) if len(held) else (0, 0)


def rows_of(
    weight: torch.Tensor, rows: torch.Tensor, transposed: bool, gather: bool
) -> torch.Tensor:
    """A copy of rows of the matrix [out, in]: [len(rows), columns this rank holds]. With `gather`,
    of all ranks together and with all columns: then all of them must call it, in one order."""
    held = local(weight).detach()
    held = held.t() if transposed else held
    if not is_sharded(weight):
        return held.index_select(0, rows.to(held.device))
    mine = pieces_of(weight, transposed).mine
    begin, end = mine.rows
    if not gather:
        return held.index_select(0, rows.to(held.device) - begin)
    columns = weight.shape[0] if transposed else weight.shape[1]
    whole = held.new_zeros(len(rows), columns)
    here = (rows >= begin) & (rows < end)
    if bool(here.any()):
        own = held.index_select(0, (rows[here] - begin).to(held.device))
        whole[here.to(held.device), slice(*mine.columns)] = own
    return add_up(whole, weight)


def add_up(values: torch.Tensor, weight: Any) -> torch.Tensor:
    """The sum over the ranks between which `weight` is cut, in place, on all of them."""
    for dim, placement in enumerate(weight.placements):
        if not placement.is_replicate():
            torch.distributed.all_reduce(values, group=weight.device_mesh.get_group(dim))
    return values


def others_repeat(mesh: Any, coordinates_zero: bool) -> bool:
    """Does a rank outside of this weight's mesh, and before this one, hold the same piece?

    The mesh that it was taken from tells; its pipeline stages hold other layers. A mesh that stands
    alone and leaves ranks out says nothing: then `coordinates_zero`, of data and context, counts.
    """
    root, own = _root(mesh), mesh.mesh_dim_names or ()
    if not own or math.prod(root.shape) == math.prod(mesh.shape):
        whole = math.prod(mesh.shape) >= torch.distributed.get_world_size()
        return not whole and not coordinates_zero
    around = zip(root.mesh_dim_names, root.get_coordinate())
    return any(at for name, at in around
               if name not in own and MESH_NAMES.get(name) != "pipeline")  # fmt: skip


def coordinates_of(mesh: Any) -> dict[str, int] | None:
    """This rank's place, from the names that the mesh's dimensions are usually given; None where
    one has no name, or another."""
    root = _root(mesh)
    names, mine = root.mesh_dim_names, root.get_coordinate()
    if not names or mine is None or any(name not in MESH_NAMES for name in names):
        return None
    found: dict[str, int] = {}
    for name, at, size in zip(names, mine, root.shape):
        kind = MESH_NAMES[name]  # two dimensions may be of one kind: replicas and their shards
        found[kind] = found.get(kind, 0) * size + at
    return found


def _root(mesh: Any) -> Any:
    """The mesh that this one is a part of."""
    return mesh._get_root_mesh() if hasattr(mesh, "_get_root_mesh") else mesh
