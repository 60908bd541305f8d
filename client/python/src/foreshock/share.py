"""What this rank sends of what other ranks have as well."""

from __future__ import annotations

import dataclasses
from typing import Any

from foreshock.sharding import others_repeat
from foreshock.v1 import types_pb2 as types


@dataclasses.dataclass(frozen=True)
class Share:
    weights_first: bool  # of the ranks with the same plain weights, this one is the first
    tensor_first: bool  # of the tensor-parallel ranks
    routers: bool
    tokens: bool
    token_shard: int | None

    @staticmethod
    def of(at: types.Coordinates, token_shard: int | None) -> Share:
        return Share(
            weights_first=at.data == 0 and at.context == 0,
            tensor_first=at.tensor == 0,
            # Tensor-parallel siblings route the same tokens, unless they are said to be others.
            routers=at.tensor == 0 or token_shard is not None,
            tokens=at.tensor == 0 and at.pipeline == 0,
            token_shard=token_shard,
        )

    def sends_weights(self, mesh: Any, first: bool) -> bool:
        """Of a weight over `mesh` (None: a plain one), of which `first` says that no rank of the
        mesh before this one holds the same."""
        if mesh is None:
            return self.weights_first
        return first and not others_repeat(mesh, self.weights_first)
