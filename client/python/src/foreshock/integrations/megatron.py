"""For training loops in the manner of Megatron-LM's pretrain().

    watcher = MegatronWatcher(model, optimizer, run="exp-42", resume_step=args.iteration + 1)
    while iteration < args.train_iters:
        loss_dict, skipped_iter, *_, grad_norm, num_zeros = train_step(...)
        iteration += 1
        watcher.after_train_step(iteration, loss_dict, skipped_iter, grad_norm, learning_rate,
                                 loss_scale, tokens)
    watcher.monitor.close()

`model` is the list of this rank's chunks (virtual pipeline stages). Layer numbers are those of the
whole model (`layer_number`), heads those of this tensor-parallel rank, masters the optimizer's
`main_param`. Not run against the real library: tested against the documented order of calls.
"""

from __future__ import annotations

import math
from typing import Any, Mapping, Sequence

from foreshock.monitor import watch

_RANKS = {
    "data": "get_data_parallel_rank",
    "tensor": "get_tensor_model_parallel_rank",
    "pipeline": "get_pipeline_model_parallel_rank",
    "expert": "get_expert_model_parallel_rank",
    "context": "get_context_parallel_rank",
}


def coordinates(parallel_state: Any = None) -> dict[str, int] | None:
    """This rank's place from megatron.core.parallel_state; None where it is not set up."""
    if parallel_state is None:
        try:
            from megatron.core import parallel_state
        except ImportError:
            return None
    if not parallel_state.model_parallel_is_initialized():
        return None
    found = {}
    for name, function in _RANKS.items():
        if hasattr(parallel_state, function):
            found[name] = int(getattr(parallel_state, function)())
    return found


class MegatronWatcher:
    def __init__(self, model: Sequence[Any], optimizer: Any, **watch_options: Any) -> None:
        """`watch_options` are those of foreshock.watch; coordinates come from Megatron."""
        self.monitor = watch(model, optimizer, **{"coordinates": coordinates(), **watch_options})

    def after_train_step(
        self,
        iteration: int,
        loss_dict: Mapping[str, Any],
        skipped_iter: int = 0,
        grad_norm: Any = None,
        learning_rate: float | None = None,
        loss_scale: float | None = None,
        tokens: int | None = None,
    ) -> None:
        """`loss_dict` is empty on all but the last pipeline stage. A skipped iteration's norm,
        which is not finite, belongs to loss scaling and is left out."""
        norm_is_finite = not isinstance(grad_norm, float) or math.isfinite(grad_norm)
        self.monitor.step(
            iteration,
            loss=loss_dict.get("lm loss"),
            grad_norm=grad_norm if norm_is_finite or not skipped_iter else None,
            tokens=tokens,
            skipped=bool(skipped_iter),
            lr=learning_rate,
            loss_scale=loss_scale,
            aux_loss=loss_dict.get("load_balancing_loss"),
        )
