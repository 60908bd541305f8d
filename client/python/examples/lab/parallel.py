"""Where a process stands in the grid of data- and tensor-parallel processes, and its reductions."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import torch.distributed as dist


@dataclasses.dataclass(frozen=True)
class Grid:
    """rank = data * tensor_size + tensor. Without groups it is one process and reduces nothing."""

    data_size: int = 1
    tensor_size: int = 1
    data: int = 0
    tensor: int = 0
    data_group: Any = None
    tensor_group: Any = None

    @property
    def rank(self) -> int:
        return self.data * self.tensor_size + self.tensor

    @property
    def world(self) -> int:
        return self.data_size * self.tensor_size

    def enter_tensor_region(self, x: torch.Tensor) -> torch.Tensor:
        """x itself; its gradient is summed over the tensor shards that used it."""
        return x if self.tensor_size == 1 else _SumGradient.apply(x, self.tensor_group)

    def leave_tensor_region(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of the shards' partial results."""
        return x if self.tensor_size == 1 else _Sum.apply(x, self.tensor_group)

    def sum_over_data(self, x: torch.Tensor) -> torch.Tensor:
        """In place."""
        if self.data_size > 1:
            dist.all_reduce(x, group=self.data_group)
        return x

    def sum_over_tensor(self, x: torch.Tensor) -> torch.Tensor:
        """In place."""
        if self.tensor_size > 1:
            dist.all_reduce(x, group=self.tensor_group)
        return x


def join(rank: int, world: int, tensor_size: int, init_method: str) -> Grid:
    """Joins the gloo processes; collective. `world` is a multiple of `tensor_size`."""
    dist.init_process_group("gloo", init_method=init_method, rank=rank, world_size=world)
    data_size = world // tensor_size
    data, tensor = divmod(rank, tensor_size)
    # Every process takes part in making every group.
    over_data = [
        dist.new_group([d * tensor_size + t for d in range(data_size)]) for t in range(tensor_size)
    ]
    over_tensor = [
        dist.new_group([d * tensor_size + t for t in range(tensor_size)]) for d in range(data_size)
    ]
    return Grid(data_size, tensor_size, data, tensor, over_data[tensor], over_tensor[data])


class _SumGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):  # type: ignore[no-untyped-def]
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):  # type: ignore[no-untyped-def]
        total = x.contiguous().clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        return gradient, None
