"""How a hook hears what runs inside of a compiled graph.

    number = listening.register(tap)          # tap.hear(tensors, numbers)
    ...                                       # in a hook or a method that torch.compile may trace:
    listening.tell(number, [tokens, logits], [layer])

Outside of torch.compile `tell` is a call. Inside it becomes one opaque operation of the graph,
`foreshock::heard`, which comes back here whenever the graph runs: there is no break in the graph,
and what a listener does or keeps compiles nothing again. `register` gives a tensor so that layers
which differ in nothing else share one graph. CUDA graphs replay kernels without Python and tell
nothing.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, List, Sequence  # List: torch reads the annotations of an operation

import torch

_numbers = itertools.count()
_listeners: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def register(listener: Any) -> torch.Tensor:
    number = next(_numbers)
    _listeners[number] = listener
    return torch.tensor(number, device="cpu")


def in_backward() -> bool:
    """Does this thread run a backward pass? A forward in one is repeated (checkpointing)."""
    if hasattr(torch._C, "_current_graph_task_id"):  # torch 2.1
        return bool(torch._C._current_graph_task_id() != -1)
    try:
        torch._C._will_engine_execute_node(_node)  # raises outside of a backward pass
    except RuntimeError as error:
        return "only be called during the backward" not in str(error)
    return True


_node = torch.zeros((), requires_grad=True).clone().grad_fn


def _heard(number: torch.Tensor, tensors: Sequence[torch.Tensor], numbers: Sequence[int]) -> None:
    listener = _listeners.get(int(number))
    if listener is not None:
        listener.hear(list(tensors), list(numbers))


if hasattr(torch, "compiler") and hasattr(torch.library, "custom_op"):  # torch 2.4
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    _heard.__annotations__ = {"number": torch.Tensor, "tensors": List[torch.Tensor],
                              "numbers": List[int], "return": None}  # fmt: skip
    torch.library.custom_op("foreshock::heard", _heard, mutates_args=()).register_fake(
        lambda number, tensors, numbers: None
    )
    # It has no output: without this a compiler may leave it out.
    _register_effectful_op(torch.ops.foreshock.heard.default, _EffectType.ORDERED)

    def tell(number: torch.Tensor, tensors: Sequence[Any], numbers: Sequence[int] = ()) -> None:
        """What is no tensor arrives as an empty one."""
        if torch.compiler.is_compiling():
            plain = [t.detach() if isinstance(t, torch.Tensor) else torch.empty(0) for t in tensors]
            torch.ops.foreshock.heard(number, plain, list(numbers))
        else:
            _heard(number, tensors, numbers)

else:

    def tell(number: torch.Tensor, tensors: Sequence[Any], numbers: Sequence[int] = ()) -> None:
        _heard(number, tensors, numbers)
