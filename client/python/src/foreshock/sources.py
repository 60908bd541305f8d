"""What of the layers that were found this rank reads and sends, and the plan that says so."""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence

from foreshock.discovery import Found, RouterLayer
from foreshock.sampling import Sampling
from foreshock.share import Share
from foreshock.v1 import ingest_pb2 as ingest
from foreshock.v1 import types_pb2 as types
from foreshock.weights import LayerSpectrum, RouterWeights


@dataclasses.dataclass(frozen=True)
class Sources:
    share: Share
    gather: bool
    spectra: Sequence[LayerSpectrum]
    matrices: Sequence[RouterWeights]
    routers: Sequence[RouterLayer]

    @staticmethod
    def of(
        found: Found, sampling: Sampling, optimizer: Any, tensor: int, share: Share, gather: bool
    ) -> Sources:
        """`tensor`: the tensor-parallel rank."""
        spectra = []
        for layer in found.attention:
            sends = share.sends_weights(layer.held.mesh, layer.held.first)
            spectra.append(
                LayerSpectrum(layer, sampling.spectra.heads, optimizer, tensor, sends)
            )
        matrices = [RouterWeights(layer, optimizer, share, gather) for layer in found.routers]
        return Sources(share, gather, spectra, matrices, found.routers)

    def plan(self, sampling: Sampling) -> list[ingest.PlanEntry]:
        """What will be sent and how often, so that the daemon can tell silence from health."""
        plan = []

        def add(kind: int, layers: list[int], every: int, offset: int = 0) -> None:
            if every > 0 and layers:
                phase = (sampling.phase + offset) % every
                plan.append(
                    ingest.PlanEntry(
                        kind=kind, layers=layers, every_steps=every, phase_step=phase
                    )
                )

        spectra = sampling.spectra
        for group in range(spectra.groups):
            turn = self.spectra[group :: spectra.groups]
            layers = [source.layer.layer for source in turn if source.sends]
            offset = group * spectra.every // spectra.groups
            add(types.SUMMARY_KIND_QK_GRAM, layers, spectra.every, offset)
        heard = self.routers if self.share.routers else []
        scored = [router.layer for router in heard if router.score]
        add(types.SUMMARY_KIND_ROUTER_GATES, scored, sampling.router.every)
        sent = [matrix.layer.layer for matrix in self.matrices if matrix.sends]
        add(types.SUMMARY_KIND_ROUTER_WEIGHTS, sent, sampling.router.weights_every)
        paired = [router.layer for router in heard if router.top_k > 1]
        add(types.SUMMARY_KIND_ROUTER_COACTIVATION, paired, sampling.router.coactivation_every)
        return plan
