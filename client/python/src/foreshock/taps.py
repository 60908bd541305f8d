"""Forward hooks on router gates that only stash a detached sample, in steps that are sampled.

Forwards that activation checkpointing repeats run inside of a backward pass and are not counted.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch

from foreshock import choices, listening
from foreshock.routers import RouterLayer
from foreshock.routing import leaves
from foreshock.sharding import local


class RouterTap:
    """Samples the scores and counts the load of one router over the forwards of a step; where it is
    `paired` it also keeps which experts each token chose."""

    def __init__(
        self,
        layer: RouterLayer,
        tokens_max: int,
        failed: Callable[[str, Exception], None],
        untold: Callable[[Exception], None],
    ) -> None:
        self.layer = layer
        self.armed = False  # scores and load
        self.paired = False  # choices
        self.recomputed = 0  # forwards that were not counted
        self.heard = 0  # forwards that were
        self._tokens_max = tokens_max
        self._failed = failed  # takes what went wrong: a hook must not break the model's forward
        self._untold = untold  # takes why a choice is not known
        self._scores: list[torch.Tensor] = []
        self._chosen: list[torch.Tensor] = []  # of the same tokens
        self._sampled = 0
        self._counts: torch.Tensor | None = None
        self._choices: list[torch.Tensor] = []
        self._handle = layer.gate.register_forward_hook(_Hook(listening.register(self)))

    def take(self) -> tuple[torch.Tensor | None, ...]:
        """(scores [tokens, experts] float32, chosen experts of the same tokens [tokens, k] int32,
        counts [experts] int64, correction bias [experts]) of the step; each None if there is none.
        Empties the tap."""
        scores = torch.cat(self._scores) if self._scores else None
        whole = self._chosen and sum(map(len, self._chosen)) == self._sampled
        chosen = torch.cat(self._chosen) if whole else None
        counts, self._counts = self._counts, None
        self._scores, self._chosen, self._sampled = [], [], 0
        bias = self.layer.correction_bias() if scores is not None else None
        return scores, chosen, counts, None if bias is None else bias.clone()

    def take_choices(self) -> list[torch.Tensor]:
        """The chosen experts [tokens, k] of each forward of the step, int16 or int32, -1 where a
        token has no k of them; empties the list. None where the gate's output does not say them."""
        taken, self._choices = self._choices, []
        return taken

    def remove(self) -> None:
        self._handle.remove()

    def hear(self, shown: list[Any], numbers: Sequence[int]) -> None:
        """One forward: what went in, then the leaves of what came out."""
        if not (self.armed or self.paired):
            return
        if listening.in_backward():
            self.recomputed += 1
            return
        self.heard += 1
        try:
            tokens, *output = (local(t) if isinstance(t, torch.Tensor) else t for t in shown)
            with torch.no_grad(), torch.autocast(tokens.device.type, enabled=False):
                tokens = tokens.detach().reshape(-1, self.layer.hidden)
                chosen = self._look_at_choice(output, len(tokens))
                if self.armed:
                    self._sample(tokens, output, chosen)
        except Exception as error:
            self._failed(f"router {self.layer.path}", error)

    def _sample(
        self, tokens: torch.Tensor, output: list[Any], chosen: torch.Tensor | None
    ) -> None:
        room = self._tokens_max - self._sampled
        if room <= 0 or tokens.shape[0] == 0:
            return
        rows = slice(None, None, -(-tokens.shape[0] // room))
        scores = self.layer.scores(tokens, output, rows)
        if scores is None:
            return
        self._scores.append(scores)
        self._sampled += scores.shape[0]
        if chosen is not None and self.layer.tells_choice:
            self._chosen.append(chosen[rows].int())

    def _look_at_choice(self, output: list[Any], tokens: int) -> torch.Tensor | None:
        """The assignments of all tokens, where the gate's output says them."""
        if self.layer.top_k == 0:
            return None
        try:
            index, load = choices.told(self.layer, output, tokens)
        except choices.Untold as reason:
            self._untold(reason)
            return None
        if self.armed:
            self._counts = load if self._counts is None else self._counts + load
        if self.paired:
            # Only narrowed here: pairs are counted on the packer's thread.
            narrow = torch.int16 if self.layer.experts <= 1 << 15 else torch.int32
            self._choices.append(index.to(narrow))
        return index


class _Hook:
    """Tells a tap. A hook does not travel: a copied or pickled model has one that tells nobody."""

    def __init__(self, number: torch.Tensor | None) -> None:
        self._number = number

    def __call__(self, gate: torch.nn.Module, inputs: Any, output: Any) -> None:
        if self._number is not None and gate.training and inputs:
            listening.tell(self._number, [inputs[0], *leaves(output)])

    def __reduce__(self) -> Any:
        return _Hook, (None,)
