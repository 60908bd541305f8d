"""Snapshots of sampled weights at step boundaries: Grams of W_Q and W_K, router matrices."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import numpy as np
import torch

from foreshock import payloads
from foreshock.discovery import AttentionLayer, RouterLayer
from foreshock.gram import balanced_grams
from foreshock.packer import Part
from foreshock.projections import find_weight, master_of
from foreshock.sampling import Sampling, Spectra


def spread(heads: int, count: int) -> list[int]:
    """`count` of 0..heads-1, evenly spaced and always the same; 0 or too many: all."""
    if count == 0 or count >= heads:
        return list(range(heads))
    return sorted({(2 * i + 1) * heads // (2 * count) for i in range(count)})


class SpectrumSampler:
    """The attention layers in their turns."""

    def __init__(
        self, layers: Sequence[AttentionLayer], spectra: Spectra, optimizer: Any, tensor_rank: int
    ) -> None:
        samplers = [
            LayerSpectrum(layer, spread(layer.heads, spectra.heads), optimizer, tensor_rank)
            for layer in layers
        ]
        # (offset of its turn in steps, layers) of each group that has layers
        self._groups = [
            (group * spectra.every // spectra.groups, samplers[group :: spectra.groups])
            for group in range(min(spectra.groups, len(samplers)))
        ]

    def due(self, step: int, sampling: Sampling) -> Iterator[LayerSpectrum]:
        """The layers whose turn it is."""
        for offset, layers in self._groups:
            if sampling.due(sampling.spectra.every, step, offset):
                yield from layers


class LayerSpectrum:
    """Keeps the sampled heads' weights of the layer's last sample and subtracts from them."""

    def __init__(
        self, layer: AttentionLayer, heads: list[int], optimizer: Any, tensor_rank: int
    ) -> None:
        self.layer = layer
        self._first_head = layer.first_head(tensor_rank)
        self._heads = heads
        self._key_heads = [layer.key_head(head) for head in heads]
        self._optimizer = optimizer
        self._base: tuple[torch.Tensor, torch.Tensor] | None = None
        self._base_step = 0

    def sample(self, step: int) -> Part | None:
        """Grams of the window since the last sample; None for the first one."""
        layer = self.layer
        q = layer.q.read(self._heads, self._optimizer)
        k = layer.k.read(sorted(set(self._key_heads)), self._optimizer)
        base, base_step = self._base, self._base_step
        self._base, self._base_step = (q, k), step
        if base is None or base[0].shape != q.shape or base[1].shape != k.shape:
            return None
        by_head = self._per_query_head
        grams = balanced_grams(base[0], q, by_head(base[1]), by_head(k))
        parameter = layer.q.parameter()
        master = master_of(parameter, self._optimizer)

        def build(arrays: list[np.ndarray]) -> Any:
            return payloads.qk_gram(
                layer.layer,
                [self._first_head + head for head in self._heads],
                arrays[0],
                arrays[1],
                arrays[2].tolist(),
                arrays[3].tolist(),
                base_step=base_step,
                window_steps=step - base_step,
                head_dim=layer.head_dim,
                rows=(0, layer.hidden, layer.hidden),
                weight_dtype=str(master.dtype).rpartition(".")[2],
                fp32_master=master is not parameter and master.dtype == torch.float32,
            )

        return Part(list(grams), build)

    def _per_query_head(self, k: torch.Tensor) -> torch.Tensor:
        """[key heads, r, d] as read -> [query heads, r, d]."""
        at = {head: i for i, head in enumerate(sorted(set(self._key_heads)))}
        index = [at[head] for head in self._key_heads]
        return k if index == list(range(k.shape[0])) else k[index]


class RouterSampler:
    def __init__(self, layers: Sequence[RouterLayer], optimizer: Any) -> None:
        self._layers = layers
        self._optimizer = optimizer

    def sample(self) -> list[Part]:
        return [self._part(layer) for layer in self._layers]

    def _part(self, layer: RouterLayer) -> Part:
        parameter = find_weight(layer.gate, "weight")
        master = master_of(parameter, self._optimizer)
        weights = master.detach().to(torch.float32, copy=True)
        dtype = str(master.dtype).rpartition(".")[2]
        is_master = master is not parameter and master.dtype == torch.float32
        return Part(
            [weights],
            lambda arrays: payloads.router_weights(
                layer.layer, arrays[0], weight_dtype=dtype, fp32_master=is_master
            ),
        )
