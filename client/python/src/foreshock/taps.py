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

from foreshock.discovery import RouterLayer
from foreshock.patterns import CORRECTION_BIAS_NAMES


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
    ) -> None:
        self.layer = layer
        self.armed = False  # scores and load
        self.paired = False  # choices
        self.recomputed = 0  # forwards that were not counted
        self._forwards = forwards
        self._tokens_max = tokens_max
        self._failed = failed  # takes what went wrong: a hook must not break the model's forward
        self._scores: list[torch.Tensor] = []
        self._sampled = 0
        self._counts: torch.Tensor | None = None
        self._choices: list[torch.Tensor] = []
        gate = layer.gate
        self._bias_name = next((n for n in CORRECTION_BIAS_NAMES if _is_there(gate, n)), "")
        self._handle = layer.gate.register_forward_hook(_Hook(self._on_forward))

    def take(self) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
        """(logits [tokens, experts] float32, counts [experts] int64, correction bias [experts])
        of the step; each None if there is none. Empties the tap."""
        scores = torch.cat(self._scores) if self._scores else None
        counts, self._counts = self._counts, None
        self._scores, self._sampled = [], 0
        bias = None
        if self._bias_name and scores is not None:
            bias = getattr(self.layer.gate, self._bias_name).detach().to(torch.float32, copy=True)
        return scores, counts, bias

    def take_choices(self) -> list[torch.Tensor]:
        """The chosen experts [tokens, k] of each forward of the step, int16 or int32; empties the
        list. There are none where the gate's output does not say them."""
        choices, self._choices = self._choices, []
        return choices

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
                if self.armed:
                    self._sample(gate, inputs)
                self._look_at_choice(output)
        except Exception as error:
            self._failed(f"router {self.layer.path}", error)

    def _sample(self, gate: Any, inputs: Any) -> None:
        tokens = inputs[0].detach().reshape(-1, self.layer.hidden)
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

    def _look_at_choice(self, output: Any) -> None:
        """The assignments of all tokens, where the gate's output says them without doubt: the
        chosen indices [tokens, k], a routing map [tokens, experts], or a linear gate's logits."""
        k, experts = self.layer.top_k, self.layer.experts
        if k == 0:
            return
        outputs = output if isinstance(output, (tuple, list)) else (output,)
        tensors = [t.detach() for t in outputs if isinstance(t, torch.Tensor) and t.dim() >= 2]
        chosen = [t for t in tensors if _is_integer(t) and t.shape[-1] == k]
        maps = [t for t in tensors if t.dtype == torch.bool and t.shape[-1] == experts]
        if maps:
            routed = maps[0].reshape(-1, experts)
            if self.armed:
                self._count(routed.sum(0))
            if self.paired:
                self._choose(routed.int().topk(k, dim=-1).indices)
            return
        sure = bool(chosen)  # logits say nothing of groups and corrections
        if chosen:
            index = chosen[0].reshape(-1, k).long()
        elif isinstance(output, torch.Tensor) and output.shape[-1] == experts:
            index = output.detach().reshape(-1, experts).topk(k, dim=-1).indices
        else:
            return
        if self.armed:
            counts = torch.zeros(experts, dtype=torch.int64, device=index.device)
            flat = index.reshape(-1)
            self._count(counts.scatter_add_(0, flat, torch.ones_like(flat)))
        if self.paired and (sure or (self.layer.groups <= 1 and not self._bias_name)):
            self._choose(index)

    def _count(self, counts: torch.Tensor) -> None:
        self._counts = counts if self._counts is None else self._counts + counts

    def _choose(self, index: torch.Tensor) -> None:
        """Only narrowed here: pairs are counted on the packer's thread."""
        narrow = torch.int16 if self.layer.experts <= 1 << 15 else torch.int32
        self._choices.append(index.to(narrow))


def _is_there(module: torch.nn.Module, name: str) -> bool:
    return getattr(module, name, None) is not None


def _is_integer(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.int32, torch.int64)


class _Hook:
    """A hook that does not travel: a copied or pickled model carries one that does nothing."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> None:
        if self._call is not None:
            self._call(*arguments)

    def __reduce__(self) -> Any:
        return _Hook, (None,)
