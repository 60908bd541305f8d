"""Brings sampled tensors to the host behind the training step: one copy per step, never waited for.

    transfer = device.transfer(tensors)   # on the training thread, does not wait
    arrays = transfer.arrays()            # on another thread, waits for the copy

The tensors must be the caller's own (not views of what training goes on to change). The CPU and the
generic class run in the tests; the CUDA class has not been run on a GPU.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import torch


class Transfer:
    def __init__(self, tensors: Sequence[torch.Tensor], size: int) -> None:
        self._tensors = list(tensors)
        self.bytes = size

    def arrays(self) -> list[np.ndarray]:
        return [tensor.numpy() for tensor in self._tensors]


class Cpu:
    """Host tensors need no copy."""

    def transfer(self, tensors: Sequence[torch.Tensor]) -> Transfer:
        return Transfer(tensors, _bytes(tensors))


class Generic:
    """Any other device: correct, but the copy is waited for in the step."""

    def transfer(self, tensors: Sequence[torch.Tensor]) -> Transfer:
        return Transfer([tensor.cpu() for tensor in tensors], _bytes(tensors))


class Cuda:
    """All tensors of a step as one buffer, copied to pinned memory on a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def transfer(self, tensors: Sequence[torch.Tensor]) -> Transfer:
        flat = [t.to(self._device).contiguous().reshape(-1).view(torch.uint8) for t in tensors]
        packed = torch.cat(flat) if flat else torch.empty(0, dtype=torch.uint8)
        host = torch.empty(packed.shape, dtype=torch.uint8, pin_memory=True)
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            host.copy_(packed, non_blocking=True)
            copied = torch.cuda.Event()
            copied.record(self._stream)
        packed.record_stream(self._stream)
        return _CudaTransfer(host, copied, [(t.dtype, tuple(t.shape)) for t in tensors])


class _CudaTransfer(Transfer):
    def __init__(self, host: torch.Tensor, copied: Any, layout: list[Any]) -> None:
        super().__init__([], host.numel())
        self._host = host
        self._copied = copied
        self._layout = layout

    def arrays(self) -> list[np.ndarray]:
        self._copied.synchronize()
        arrays, at = [], 0
        for dtype, shape in self._layout:
            size = torch.empty(0, dtype=dtype).element_size() * int(np.prod(shape, dtype=np.int64))
            part = self._host[at : at + size].numpy().tobytes()
            name = str(dtype).rpartition(".")[2]
            arrays.append(np.frombuffer(part, dtype=name).reshape(shape))
            at += size
        return arrays


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def of(device: torch.device) -> Cpu | Cuda | Generic:
    if device.type == "cpu":
        return Cpu()
    return Cuda(device) if device.type == "cuda" else Generic()
