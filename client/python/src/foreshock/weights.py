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
from foreshock.share import Share
from foreshock.sharding import is_sharded, pieces_of, rows_of


def spread(heads: int, count: int) -> list[int]:
    """`count` of 0..heads-1, evenly spaced and always the same; 0 or too many: all."""
    if count == 0 or count >= heads:
        return list(range(heads))
    return sorted({(2 * i + 1) * heads // (2 * count) for i in range(count)})


class SpectrumSampler:
    """The attention layers in their turns."""

    def __init__(
        self, layers: Sequence[LayerSpectrum], spectra: Spectra
    ) -> None:
        self._turns = spectra.groups
        self._groups = [
            layers[group :: spectra.groups] for group in range(min(spectra.groups, len(layers)))
        ]

    def due(self, step: int, sampling: Sampling, every: int) -> Iterator[LayerSpectrum]:
        """The layers whose turn it is within `every` steps, and that this rank reads."""
        for group, layers in enumerate(self._groups):
            if sampling.due(every, step, group * every // self._turns):
                yield from (layer for layer in layers if layer.reads)


class LayerSpectrum:
    """Keeps the sampled heads' weights of the layer's last sample and subtracts from them."""

    def __init__(
        self, layer: AttentionLayer, heads: int, optimizer: Any, tensor_rank: int, sends: bool
    ) -> None:
        """`heads`: how many are sampled, 0: all. `sends`: this rank sends what it reads."""
        self.layer = layer
        held = layer.held
        sampled = [held.heads[i] for i in spread(len(held.heads), heads)]
        self.sends = sends and any(head in held.mine for head in sampled)
        self.reads = self.sends or held.gathered
        self._first_head = layer.first_head(tensor_rank)
        self._heads = sampled if held.gathered else [h for h in sampled if h in held.mine]
        self._key_heads = [layer.key_head(head) for head in self._heads]
        self._optimizer = optimizer
        self._base: tuple[torch.Tensor, torch.Tensor] | None = None
        self._base_step = 0

    def sample(self, step: int) -> Part | None:
        """Grams of the window since the last sample; None for the first one."""
        layer, held = self.layer, self.layer.held
        if is_sharded(layer.q.parameter()) != (held.mesh is not None):
            raise ValueError("its weights were sharded after watch(); call watch() behind it")
        q = layer.q.read(self._heads, self._optimizer, held.gathered)
        k = layer.k.read(sorted(set(self._key_heads)), self._optimizer, held.gathered)
        if not self.sends:
            return None
        base, base_step = self._base, self._base_step
        self._base, self._base_step = (q, k), step
        if base is None or base[0].shape != q.shape or base[1].shape != k.shape:
            return None
        by_head = self._per_query_head
        grams = balanced_grams(base[0], q, by_head(base[1]), by_head(k))
        parameter = layer.q.parameter()
        master = master_of(parameter, self._optimizer)
        begin, end = held.columns

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
                rows=(begin, end - begin, layer.hidden),
                weight_dtype=str(master.dtype).rpartition(".")[2],
                fp32_master=master is not parameter and master.dtype == torch.float32,
            )

        return Part(list(grams), build)

    def _per_query_head(self, k: torch.Tensor) -> torch.Tensor:
        """[key heads, r, d] as read -> [query heads, r, d]."""
        at = {head: i for i, head in enumerate(sorted(set(self._key_heads)))}
        index = [at[head] for head in self._key_heads]
        return k if index == list(range(k.shape[0])) else k[index]


class RouterWeights:
    """The matrix of one router, as far as this rank reads it."""

    def __init__(self, layer: RouterLayer, optimizer: Any, share: Share, gather: bool) -> None:
        self.layer = layer
        self._optimizer = optimizer
        pieces = pieces_of(self._parameter(), False)
        rows = (0, layer.experts)
        # Of a matrix that is cut between experts nothing can be added up.
        cut = any(piece.rows != rows for piece in pieces.all)
        self._gather = gather and cut
        self._columns = (0, layer.hidden) if cut else pieces.mine.columns
        first = pieces.me == 0 if cut else pieces.first
        self.sends = share.sends_weights(pieces.mesh, first) and (gather or not cut)
        if pieces.mesh is None:
            self.sends = self.sends and share.tensor_first
        self.reads = self.sends or self._gather

    def _parameter(self) -> torch.Tensor:
        return find_weight(self.layer.gate, self.layer.weight)

    def sample(self) -> Part | None:
        layer, parameter = self.layer, self._parameter()
        master = master_of(parameter, self._optimizer)
        rows = rows_of(master, torch.arange(layer.experts), False, self._gather)
        if not self.sends:
            return None
        weights = rows.float()
        dtype = str(master.dtype).rpartition(".")[2]
        is_master = master is not parameter and master.dtype == torch.float32
        begin, end = self._columns
        whole = (begin, end) == (0, layer.hidden)
        return Part(
            [weights],
            lambda arrays: payloads.router_weights(
                layer.layer,
                arrays[0],
                rows=None if whole else (begin, end - begin, layer.hidden),
                weight_dtype=dtype,
                fp32_master=is_master,
            ),
        )
