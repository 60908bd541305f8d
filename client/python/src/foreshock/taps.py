"""Forward hooks on router gates that only stash a detached sample, in steps that are sampled.

Two things a hook must tell apart: a forward of the training step, and one that activation
checkpointing repeats in the backward pass. The repeated one runs while the model's own forward does
not, so a pair of hooks on the model says which it is. Where the model's forward is never called as
a whole (only its parts are), nothing can be told apart and all count.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
import torch.nn.functional as F

from foreshock import choices
from foreshock.discovery import RouterLayer


class ForwardWatch:
    """Knows whether the model's forward, or that of one of its chunks, is running."""

    def __init__(self, chunks: Sequence[torch.nn.Module]) -> None:
        self.seen = False
        self._depth = 0
        self._handles = []
        for chunk in chunks:
            self._handles.append(chunk.register_forward_pre_hook(_Hook(self._enter)))
            self._handles.append(chunk.register_forward_hook(_Hook(self._leave)))

    def recomputing(self) -> bool:
        return self.seen and self._depth == 0

    def start_of_step(self) -> None:
        self._depth = 0  # a forward that raised never left

    def _enter(self, *unused: Any) -> None:
        self.seen = True
        self._depth += 1

    def _leave(self, *unused: Any) -> None:
        self._depth = max(0, self._depth - 1)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


class RouterTap:
    """Samples the scores and counts the load of one router over the forwards of a step; where it is
    `paired` it also keeps which experts each token chose."""

    def __init__(
        self,
        layer: RouterLayer,
        forwards: ForwardWatch,
        tokens_max: int,
        failed: Callable[[str, Exception], None],
        untold: Callable[[Exception], None],
    ) -> None:
        self.layer = layer
        self.armed = False  # scores and load
        self.paired = False  # choices
        self.recomputed = 0  # forwards that were not counted
        self._forwards = forwards
        self._tokens_max = tokens_max
        self._failed = failed  # takes what went wrong: a hook must not break the model's forward
        self._untold = untold  # takes why a choice is not known
        self._scores: list[torch.Tensor] = []
        self._sampled = 0
        self._counts: torch.Tensor | None = None
        self._choices: list[torch.Tensor] = []
        self._handle = layer.gate.register_forward_hook(_Hook(self._on_forward))

    def take(self) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
        """(logits [tokens, experts] float32, counts [experts] int64, correction bias [experts])
        of the step; each None if there is none. Empties the tap."""
        scores = torch.cat(self._scores) if self._scores else None
        counts, self._counts = self._counts, None
        self._scores, self._sampled = [], 0
        bias = self.layer.correction_bias() if scores is not None else None
        return scores, counts, None if bias is None else bias.clone()

    def take_choices(self) -> list[torch.Tensor]:
        """The chosen experts [tokens, k] of each forward of the step, int16 or int32, -1 where a
        token has no k of them; empties the list. None where the gate's output does not say them."""
        taken, self._choices = self._choices, []
        return taken

    def remove(self) -> None:
        self._handle.remove()

    def _on_forward(self, gate: torch.nn.Module, inputs: Any, output: Any) -> None:
        if not (self.armed or self.paired) or not gate.training:
            return
        if self._forwards.recomputing():
            self.recomputed += 1
            return
        try:
            with torch.no_grad():
                tokens = inputs[0].detach().reshape(-1, self.layer.hidden)
                if self.armed:
                    self._sample(gate, tokens)
                self._look_at_choice(output, len(tokens))
        except Exception as error:
            self._failed(f"router {self.layer.path}", error)

    def _sample(self, gate: Any, tokens: torch.Tensor) -> None:
        room = self._tokens_max - self._sampled
        if room <= 0 or tokens.shape[0] == 0:
            return
        stride = -(-tokens.shape[0] // room)
        sample = tokens[::stride].float()
        bias = getattr(gate, "bias", None)
        with torch.autocast(sample.device.type, enabled=False):
            logits = F.linear(sample, gate.weight.float(), None if bias is None else bias.float())
        self._scores.append(logits)
        self._sampled += sample.shape[0]

    def _look_at_choice(self, output: Any, tokens: int) -> None:
        """The assignments of all tokens, where the gate's output says them."""
        if self.layer.top_k == 0:
            return
        try:
            index, load = choices.told(self.layer, output, tokens)
        except choices.Untold as reason:
            self._untold(reason)
            return
        if self.armed:
            self._counts = load if self._counts is None else self._counts + load
        if self.paired:
            # Only narrowed here: pairs are counted on the packer's thread.
            narrow = torch.int16 if self.layer.experts <= 1 << 15 else torch.int32
            self._choices.append(index.to(narrow))


class _Hook:
    """A hook that does not travel: a copied or pickled model carries one that does nothing."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> None:
        if self._call is not None:
            self._call(*arguments)

    def __reduce__(self) -> Any:
        return _Hook, (None,)
