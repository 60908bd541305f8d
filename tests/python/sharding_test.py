#!/usr/bin/env python3
"""Which part of a weight a rank holds: arithmetic over meshes of stand-ins (torch 1.13 has none)."""

import types
import unittest

import torch

from foreshock import sharding
from foreshock.sharding import Piece, Scattered, coordinates_of, others_repeat, pieces_of


class Mesh:
    def __init__(self, shape, coordinate, names=None, root=None):
        self.shape, self._coordinate, self.mesh_dim_names = tuple(shape), coordinate, names
        self._root = root or self

    def get_coordinate(self):
        return self._coordinate

    def _get_root_mesh(self):
        return self._root


class Placement:
    def __init__(self, dim=None, split_factor=None):
        if dim is not None:
            self.dim = dim
        if split_factor:
            self.split_factor = split_factor

    def is_replicate(self):
        return not hasattr(self, "dim")


def weight(shape, mesh, *placements):
    return types.SimpleNamespace(shape=shape, device_mesh=mesh, placements=placements,
                                 to_local=lambda: None)


class Pieces(unittest.TestCase):
    def rows(self, *given):
        return [piece.rows for piece in pieces_of(weight(*given), False).all]

    def test_a_plain_tensor_is_whole(self):
        pieces = pieces_of(torch.empty(6, 4), transposed=True)
        self.assertEqual((pieces.mine, pieces.first), (Piece((0, 4), (0, 6)), True))

    def test_rows_are_cut_as_torch_cuts_them(self):
        self.assertEqual(self.rows((8, 3), Mesh([4], (0,)), Placement(0)),
                         [(0, 2), (2, 4), (4, 6), (6, 8)])
        self.assertEqual(self.rows((5, 3), Mesh([4], (0,)), Placement(0)),
                         [(0, 2), (2, 4), (4, 5), (0, 0)])

    def test_columns_and_transposed_weights(self):
        cut = weight((6, 8), Mesh([2], (1,)), Placement(1))
        self.assertEqual(pieces_of(cut, False).mine, Piece((0, 6), (4, 8)))
        self.assertEqual(pieces_of(cut, True).mine, Piece((4, 8), (0, 6)))

    def test_fsdp_over_tensor_parallelism(self):
        rows = self.rows((8, 3), Mesh([2, 2], (0, 0)), Placement(0, split_factor=2), Placement(0))
        self.assertEqual(rows, [(0, 2), (4, 6), (2, 4), (6, 8)])

    def test_replicas_and_the_first_of_them(self):
        for at, first in (((0, 1), True), ((1, 1), False)):
            pieces = pieces_of(weight((8, 3), Mesh([2, 2], at), Placement(), Placement(0)), False)
            self.assertEqual((pieces.mine.rows, pieces.first), ((4, 8), first))

    def test_rows_that_do_not_follow_each_other_and_a_rank_outside(self):
        with self.assertRaisesRegex(Scattered, "do not follow"):
            self.rows((8, 3), Mesh([2], (0,)), Placement(0, split_factor=2))
        with self.assertRaisesRegex(Scattered, "not in its mesh"):
            self.rows((8, 3), Mesh([2], None), Placement(0))


class Around(unittest.TestCase):
    def setUp(self):
        kept = sharding.torch.distributed.get_world_size
        sharding.torch.distributed.get_world_size = lambda: 4
        self.addCleanup(setattr, sharding.torch.distributed, "get_world_size", kept)

    def test_coordinates_from_names(self):
        for names, at, expected in (
                (("dp", "tp"), (1, 0), {"data": 1, "tensor": 0}),
                (("pp", "dp_replicate", "dp_shard"), (1, 1, 0), {"pipeline": 1, "data": 2}),
                (("dp", "mine"), (1, 0), None), (None, (1, 0), None)):
            shape = [2] * len(at)
            self.assertEqual(coordinates_of(Mesh(shape, at, names)), expected, names)

    def test_who_holds_the_same_outside_of_a_mesh(self):
        for at, repeat in (((0, 1), False), ((1, 0), True)):
            root = Mesh([2, 2], at, ("dp", "tp"))
            part = Mesh([2], at[1:], ("tp",), root)
            self.assertEqual(others_repeat(part, False), repeat)
        stages = Mesh([2, 2], (1, 0), ("pp", "tp"))  # another stage holds other layers
        self.assertFalse(others_repeat(Mesh([2], (0,), ("tp",), stages), False))
        self.assertFalse(others_repeat(Mesh([4], (3,)), False))  # all ranks
        for zero in (True, False):
            self.assertEqual(others_repeat(Mesh([2], (0,)), zero), not zero)


if __name__ == "__main__":
    unittest.main(verbosity=2)
