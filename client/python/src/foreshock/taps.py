"""Forward hooks on router gates that only stash a detached sample, in steps that are sampled.

Forwards that activation checkpointing repeats run inside of a backward pass and are not counted.
Of a step that has forwards with gradients, those without (rollouts, old and reference
log-probabilities) are not counted either; reentrant checkpointing has only such, and they count.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Sequence

import torch

from foreshock import choices, listening
from foreshock.routers import RouterLayer
from foreshock.routing import leaves
from foreshock.sharding import local


@dataclasses.dataclass
class _Stash:
    """Of the forwards of a step with gradients, or of those without."""

    scores: list[torch.Tensor] = dataclasses.field(default_factory=list)
    chosen: list[torch.Tensor] = dataclasses.field(default_factory=list)  # of the same tokens
    sampled: int = 0
    counts: torch.Tensor | None = None
    choices: list[torch.Tensor] = dataclasses.field(default_factory=list)
    forwards: int = 0


@dataclasses.dataclass
class Taken:
    """None: there is none."""

    scores: torch.Tensor | None  # float32 [tokens, experts]
    chosen: torch.Tensor | None  # int32 [tokens, k], experts of the same tokens
    counts: torch.Tensor | None  # int64 [experts]
    bias: torch.Tensor | None  # [experts], correction
    # Of each forward [tokens, k], int16 or int32, -1 where a token has no k experts.
    choices: list[torch.Tensor]


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
        self._stashes = {True: _Stash(), False: _Stash()}  # by: with gradients
        self._handle = layer.gate.register_forward_hook(_Hook(listening.register(self)))

    def take(self) -> Taken:
        """What was heard in the step. Empties the tap."""
        with_gradients, without = self._stashes[True], self._stashes[False]
        stash = with_gradients if with_gradients.forwards else without
        self._stashes = {True: _Stash(), False: _Stash()}
        scores = torch.cat(stash.scores) if stash.scores else None
        whole = stash.chosen and sum(map(len, stash.chosen)) == stash.sampled
        bias = self.layer.correction_bias() if scores is not None else None
        return Taken(
            scores,
            torch.cat(stash.chosen) if whole else None,
            stash.counts,
            None if bias is None else bias.clone(),
            stash.choices,
        )

    def remove(self) -> None:
        self._handle.remove()

    def hear(self, shown: list[Any], numbers: Sequence[int]) -> None:
        """One forward: what went in, then the leaves of what came out; with gradients or not."""
        if not (self.armed or self.paired):
            return
        if listening.in_backward():
            self.recomputed += 1
            return
        self.heard += 1
        stash = self._stashes[bool(numbers[0])]
        stash.forwards += 1
        try:
            tokens, *output = (local(t) if isinstance(t, torch.Tensor) else t for t in shown)
            with torch.no_grad(), torch.autocast(tokens.device.type, enabled=False):
                tokens = tokens.detach().reshape(-1, self.layer.hidden)
                chosen = self._look_at_choice(stash, output, len(tokens))
                if self.armed:
                    self._sample(stash, tokens, output, chosen)
        except Exception as error:
            self._failed(f"router {self.layer.path}", error)

    def _sample(
        self,
        stash: _Stash,
        tokens: torch.Tensor,
        output: list[Any],
        chosen: torch.Tensor | None,
    ) -> None:
        room = self._tokens_max - stash.sampled
        if room <= 0 or tokens.shape[0] == 0:
            return
        rows = slice(None, None, -(-tokens.shape[0] // room))
        scores = self.layer.scores(tokens, output, rows)
        if scores is None:
            return
        # Copied at once: a compiled graph uses the memory of its intermediate values again.
        stash.scores.append(scores.clone())
        stash.sampled += scores.shape[0]
        if chosen is not None and self.layer.tells_choice:
            stash.chosen.append(chosen[rows].to(torch.int32, copy=True))

    def _look_at_choice(
        self, stash: _Stash, output: list[Any], tokens: int
    ) -> torch.Tensor | None:
        """The assignments of all tokens, where the gate's output says them."""
        if self.layer.top_k == 0:
            return None
        try:
            index, load = choices.told(self.layer, output, tokens)
        except choices.Untold as reason:
            self._untold(reason)
            return None
        if self.armed:
            stash.counts = load if stash.counts is None else stash.counts + load
        if self.paired:
            # Only narrowed here: pairs are counted on the packer's thread.
            narrow = torch.int16 if self.layer.experts <= 1 << 15 else torch.int32
            stash.choices.append(index.to(narrow, copy=True))
        return index


class _Hook:
    """Tells a tap. A hook does not travel: a copied or pickled model has one that tells nobody."""

    def __init__(self, number: torch.Tensor | None) -> None:
        self._number = number

    def __call__(self, gate: torch.nn.Module, inputs: Any, output: Any) -> None:
        if self._number is not None and gate.training and inputs:
            shown = [inputs[0], *leaves(output)]
            listening.tell(self._number, shown, [int(torch.is_grad_enabled())])

    def __reduce__(self) -> Any:
        return _Hook, (None,)
