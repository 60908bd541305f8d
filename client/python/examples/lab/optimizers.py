"""The optimizers of the lab by name. Weight decay is decoupled in all of them: a step multiplies
weights by 1 - lr * weight_decay, beside what the gradient does."""

from __future__ import annotations

from typing import Any, Callable, Iterable

import torch

Named = list[tuple[str, torch.nn.Parameter]]
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5


def adamw(named: Named, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    parameters = [parameter for _, parameter in named]
    return torch.optim.AdamW(parameters, lr=lr, betas=(0.9, 0.95), weight_decay=weight_decay,
                             foreach=True)  # fmt: skip


class Sgd(torch.optim.Optimizer):
    """With momentum."""

    def __init__(self, parameters: Iterable[Any], lr: float, weight_decay: float) -> None:
        super().__init__(parameters, dict(lr=lr, weight_decay=weight_decay, momentum=0.9))

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group, parameter, state in _each(self):
            heavy = state["momentum"].mul_(group["momentum"]).add_(parameter.grad)
            parameter.mul_(1.0 - group["lr"] * group["weight_decay"]).sub_(heavy * group["lr"])


class Lion(torch.optim.Optimizer):
    """Chen et al., arXiv:2302.06675: the sign of an average of momentum and gradient."""

    def __init__(self, parameters: Iterable[Any], lr: float, weight_decay: float) -> None:
        super().__init__(parameters, dict(lr=lr, weight_decay=weight_decay, betas=(0.9, 0.99)))

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group, parameter, state in _each(self):
            near, far = group["betas"]
            momentum = state["momentum"]
            update = torch.lerp(parameter.grad, momentum, near).sign_()
            parameter.mul_(1.0 - group["lr"] * group["weight_decay"]).sub_(update * group["lr"])
            momentum.lerp_(parameter.grad, 1.0 - far)


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum for the matrices of the layers, as large as an update of AdamW at the
    same rate (Moonlight, arXiv:2502.16982, 2.2); Adam for everything else."""

    def __init__(self, named: Named, lr: float, weight_decay: float) -> None:
        matrices = [p for name, p in named if p.dim() >= 2 and _inside(name)]
        inside = {id(p) for p in matrices}
        others = [p for _, p in named if id(p) not in inside]
        common = dict(lr=lr, weight_decay=weight_decay)
        groups = [dict(params=matrices, muon=True), dict(params=others, muon=False)]
        super().__init__(groups, dict(**common, momentum=0.95, betas=(0.9, 0.95)))

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        steps: dict[Any, list[tuple[Any, torch.Tensor]]] = {}
        for group, parameter, state in _each(self):
            parameter.mul_(1.0 - group["lr"] * group["weight_decay"])
            if group["muon"]:
                momentum = state["momentum"].mul_(group["momentum"]).add_(parameter.grad)
                nesterov = parameter.grad + group["momentum"] * momentum
                steps.setdefault(tuple(parameter.shape), []).append((parameter, nesterov))
            else:
                _adam(group, parameter, state)
        lr = self.param_groups[0]["lr"]
        for shape, pairs in steps.items():  # matrices of one shape at once
            whole = torch.stack([update for _, update in pairs])
            whole = orthogonal(whole).mul_(0.2 * max(shape[-2:]) ** 0.5 * lr)
            for (parameter, _), update in zip(pairs, whole):
                parameter.sub_(update)


def orthogonal(x: torch.Tensor) -> torch.Tensor:
    """[..., m, n] with all singular values near 1, by Newton and Schulz's iteration."""
    a, b, c = NEWTON_SCHULZ
    wide = x.shape[-2] > x.shape[-1]
    x = x.transpose(-2, -1) if wide else x
    x = x / (x.flatten(-2).norm(dim=-1)[..., None, None] + 1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.transpose(-2, -1)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.transpose(-2, -1) if wide else x


OPTIMIZERS: dict[str, Callable[[Named, float, float], torch.optim.Optimizer]] = {
    "adamw": adamw,
    "muon": Muon,
    "lion": lambda named, lr, decay: Lion([p for _, p in named], lr, decay),
    "sgd": lambda named, lr, decay: Sgd([p for _, p in named], lr, decay),
}


def _inside(name: str) -> bool:
    """In a layer, and no router: those stay with Adam, as embeddings and the head do."""
    return any(part.isdigit() for part in name.split(".")) and ".gate." not in name


def _each(optimizer: torch.optim.Optimizer) -> Iterable[tuple[dict[str, Any], Any, dict[str, Any]]]:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                state = optimizer.state[parameter]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(parameter)
                yield group, parameter, state


def _adam(group: dict[str, Any], parameter: Any, state: dict[str, Any]) -> None:
    first, second = group["betas"]
    state["step"] = state.get("step", 0) + 1
    if "square" not in state:
        state["square"] = torch.zeros_like(parameter)
    momentum = state["momentum"].lerp_(parameter.grad, 1.0 - first)
    square = state["square"].mul_(second).addcmul_(parameter.grad, parameter.grad, value=1 - second)
    corrected = (square / (1.0 - second ** state["step"])).sqrt_().add_(1e-8)
    parameter.addcdiv_(momentum, corrected, value=-group["lr"] / (1.0 - first ** state["step"]))
