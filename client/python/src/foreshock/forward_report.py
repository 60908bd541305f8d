"""How a proxy computes beside its original: what `foreshock-proxy report` cannot know without running
both.

    report = foreshock.proxy_report(original, proxy, "proxy/plan.json", batches, "forward.json")
    print("\\n".join(report.lines))
    # foreshock-proxy report MODEL PROXY --forward forward.json --markdown report.md

Both run over the same text, held out from what the experts were selected with. Per MoE layer: where the
tokens go, how the experts are used, and how far the hidden states are apart; over all the output.
docs/proxy.md says what each number is.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import pathlib
from typing import Any, Callable, Iterable, Mapping, Sequence

import torch
import torch.nn.functional as F

from foreshock.calibration import MARGIN_BINS, RouterSums, mask_of, routers_of, run_batch
from foreshock.discovery import RouterLayer
from foreshock.patterns import Attention, Router

FORMAT = "foreshock.forward.v1"


@dataclasses.dataclass
class ForwardReport:
    path: str
    values: dict[str, Any]  # as the file has them
    lines: list[str]  # for people


class _Watched:
    """One of the two models, with hooks on every MoE layer: its gate, its output, the residual
    stream behind it."""

    def __init__(
        self, model: torch.nn.Module, routers: Sequence[RouterLayer], renormalised: bool
    ) -> None:
        self.model = model
        self.sums = {r.layer: RouterSums(r, None, renormalised, norms=False) for r in routers}
        self.outputs: dict[int, torch.Tensor] = {}  # of the last batch, [tokens, d]
        self.streams: dict[int, torch.Tensor] = {}
        self.mask: torch.Tensor | None = None
        self._handles: list[Any] = []
        for router in routers:
            block, layer = _around(router.path)
            self._hook(router.gate, self._on_gate(router.layer))
            self._hook(model.get_submodule(block), self._keep(self.outputs, router))
            self._hook(model.get_submodule(layer), self._keep(self.streams, router))

    def run(self, batch: Any, mask: torch.Tensor | None) -> torch.Tensor:
        """The logits [..., vocabulary]."""
        self.mask = mask
        output = run_batch(self.model, batch)
        output = getattr(output, "logits", output)
        output = output[0] if isinstance(output, (tuple, list)) else output
        if isinstance(output, Mapping):
            output = output["logits"]
        return output.detach()

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _hook(self, module: torch.nn.Module, function: Callable[..., None]) -> None:
        self._handles.append(module.register_forward_hook(function))

    def _on_gate(self, layer: int) -> Callable[..., None]:
        return lambda gate, inputs, output: self.sums[layer].add(gate, inputs, output, self.mask)

    def _keep(self, into: dict[int, torch.Tensor], router: RouterLayer) -> Callable[..., None]:
        def keep(module: Any, inputs: Any, output: Any) -> None:
            first = output[0] if isinstance(output, (tuple, list)) else output
            rows = first.detach().reshape(-1, router.hidden)
            into[router.layer] = rows if self.mask is None else rows[self.mask.to(rows.device)]

        return keep


@dataclasses.dataclass
class _Apart:
    """Hidden states of two models, token by token."""

    errors: list[torch.Tensor] = dataclasses.field(default_factory=list)
    cosines: list[torch.Tensor] = dataclasses.field(default_factory=list)

    def add(self, before: torch.Tensor, after: torch.Tensor) -> None:
        before, after = before.double(), after.double()
        norms = before.norm(dim=-1)
        some = norms > 0  # of a vector of zeros nothing can be said
        before, after, norms = before[some], after[some], norms[some]
        self.errors.append(((after - before).norm(dim=-1) / norms).cpu())
        self.cosines.append(F.cosine_similarity(before, after, dim=-1).cpu())

    def values(self) -> dict[str, float | None]:
        nothing = torch.empty(0, dtype=torch.float64)
        errors, cosines = torch.cat([nothing, *self.errors]), torch.cat([nothing, *self.cosines])
        if len(errors) == 0:
            return {"error_mean": None, "error_p90": None, "cosine_mean": None, "cosine_p10": None}
        return {
            "error_mean": float(errors.mean()),
            "error_p90": _quantile(errors, 0.9),
            "cosine_mean": float(cosines.mean()),
            "cosine_p10": _quantile(cosines, 0.1),
        }


@dataclasses.dataclass
class _Layer:
    """What both routers did in one layer."""

    kept: torch.Tensor  # int64 [K]: original numbers
    cluster: torch.Tensor | None  # int64 [E]: the new number of each expert's representative
    choices: int = 0
    survived: int = 0
    agreed: int = 0
    output: _Apart = dataclasses.field(default_factory=_Apart)
    stream: _Apart = dataclasses.field(default_factory=_Apart)

    def add(self, before: torch.Tensor, after: torch.Tensor) -> None:
        """Chosen experts [T, k] of the same tokens, in the numbers of each model."""
        self.choices += before.numel()
        self.survived += int(torch.isin(before, self.kept).sum())
        if self.cluster is not None:
            wanted = self.cluster[before]  # [T, k]
            self.agreed += int((wanted.unsqueeze(-1) == after.unsqueeze(1)).any(-1).sum())


def proxy_report(
    original: torch.nn.Module,
    proxy: torch.nn.Module,
    plan: str | os.PathLike[str],
    batches: Iterable[Any],
    path: str | os.PathLike[str] | None = None,
    *,
    targets: Callable[[Any], torch.Tensor] | None = None,
    norm_topk_prob: bool | None = None,
    mask: Callable[[Any], torch.Tensor] | None = None,
    patterns: Sequence[Attention | Router] = (),
) -> ForwardReport:
    """Runs both models over `batches` without gradients; writes the numbers to `path`, if given.

    `plan` is the proxy's plan.json. Batches, `mask`, `norm_topk_prob` and `patterns` are those of
    `calibrate`. `targets` gives for a batch the token that should follow at every position of the
    logits, -100 where none counts; default: the next of input_ids (or of the batch's first tensor)
    that is no padding.

    Raises ValueError where the two models are not a pair of this plan.
    """
    text = pathlib.Path(plan).read_bytes()
    layers = _layers_of(json.loads(text))
    model_type = str(getattr(getattr(original, "config", None), "model_type", "") or "")
    watched = []
    for model, experts in ((original, json.loads(text)["experts"]), (proxy, json.loads(text)["keep"])):
        routers, renormalised = routers_of(model, model_type, norm_topk_prob, patterns)
        for router in routers:
            if router.layer in layers and router.experts != experts:
                raise ValueError(
                    f"{plan}: layer {router.layer} has {experts} experts in the plan, the "
                    f"{'original' if model is original else 'proxy'} has {router.experts}"
                )
        missing = sorted(set(layers) - {router.layer for router in routers})
        if missing:
            raise ValueError(f"{plan}: no router of the layers {missing} was found in a model")
        watched.append(_Watched(model, [r for r in routers if r.layer in layers], renormalised))
    before, after = watched
    training = original.training, proxy.training
    original.eval(), proxy.eval()
    sums = {"cross_entropy_before": 0.0, "cross_entropy_after": 0.0, "kl": 0.0}
    counted = 0
    try:
        with torch.no_grad():
            for batch in batches:
                tokens = mask_of(batch, mask)
                logits = before.run(batch, tokens), after.run(batch, tokens)
                for number, layer in layers.items():
                    layer.add(before.sums[number].chosen.cpu(), after.sums[number].chosen.cpu())
                    layer.output.add(before.outputs[number], after.outputs[number])
                    if number in before.streams and number in after.streams:
                        layer.stream.add(before.streams[number], after.streams[number])
                wanted = targets(batch) if targets else _next_tokens(batch)
                counted += _add_output(logits, wanted, sums)
    finally:
        for one in watched:
            one.close()
        original.train(training[0]), proxy.train(training[1])
    values: dict[str, Any] = {
        "format": FORMAT,
        "plan_sha256": hashlib.sha256(text).hexdigest(),
        "tokens": int(next(iter(before.sums.values())).values["tokens"]),
        "layers": [
            _layer_values(number, layer, before.sums[number], after.sums[number])
            for number, layer in layers.items()
        ],
        "output": {
            "positions": counted,
            **{name: value / counted if counted else None for name, value in sums.items()},
        },
    }
    if path is not None:
        temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
        pathlib.Path(temporary).write_text(json.dumps(values, indent=1) + "\n")
        os.replace(temporary, path)
    return ForwardReport(os.fspath(path) if path else "", values, _lines(values))


def _around(gate: str) -> tuple[str, str]:
    """The paths of the MoE block and of the decoder layer in which a gate stands."""
    parts = gate.split(".")
    for at in range(len(parts) - 2, -1, -1):
        if parts[at].isdigit():
            return ".".join(parts[: at + 2]), ".".join(parts[: at + 1])
    raise ValueError(f"{gate}: no decoder layer with a number is around it")


def _layers_of(plan: Mapping[str, Any]) -> dict[int, _Layer]:
    return {
        int(layer["layer"]): _Layer(
            torch.tensor(layer["kept"]),
            torch.tensor(layer["cluster"]) if layer.get("cluster") else None,
        )
        for layer in plan["layers"]
    }


def _next_tokens(batch: Any) -> torch.Tensor:
    first = batch
    padding = None
    if isinstance(batch, Mapping):
        first, padding = batch["input_ids"], batch.get("attention_mask")
    elif isinstance(batch, (tuple, list)):
        first = batch[0]
    wanted = torch.full_like(first, -100)
    wanted[..., :-1] = first[..., 1:]
    if padding is not None:
        wanted[..., :-1] = wanted[..., :-1].masked_fill(padding[..., 1:] == 0, -100)
    return wanted


def _add_output(
    logits: tuple[torch.Tensor, torch.Tensor], wanted: torch.Tensor, sums: dict[str, float]
) -> int:
    flat = wanted.reshape(-1)
    some = flat != -100
    scores = [
        torch.log_softmax(one.reshape(-1, one.shape[-1])[some.to(one.device)].double(), dim=-1)
        for one in logits
    ]
    target = flat[some].to(scores[0].device).unsqueeze(-1)
    for name, score in zip(("cross_entropy_before", "cross_entropy_after"), scores):
        sums[name] -= float(score.gather(1, target).sum())
    sums["kl"] += float((scores[0].exp() * (scores[0] - scores[1])).sum())
    return int(some.sum())


def _layer_values(
    number: int, layer: _Layer, before: RouterSums, after: RouterSums
) -> dict[str, Any]:
    clustered = layer.cluster is not None
    load_before, load_after = (s.values["frequency"].double().cpu() for s in (before, after))
    correlation, why = None, "the selector makes no clusters"
    if layer.cluster is not None:
        expected = torch.zeros_like(load_after).index_add(0, layer.cluster, load_before)
        correlation = _spearman(expected, load_after)
        why = "" if correlation is not None else "all experts have the same load"
    return {
        "layer": number,
        "survival": layer.survived / layer.choices if layer.choices else None,
        "cluster_agreement": layer.agreed / layer.choices if clustered and layer.choices else None,
        "load": {
            "before": _load_shape(load_before, before.layer.top_k),
            "after": _load_shape(load_after, after.layer.top_k),
            "rank_correlation": correlation,
            "rank_correlation_missing": why,
        },
        "router": {"before": _router_shape(before), "after": _router_shape(after)},
        "output": layer.output.values(),
        "stream": layer.stream.values(),
    }


def _load_shape(counts: torch.Tensor, top_k: int) -> dict[str, float | None]:
    """As foreshock-proxy's ShapeOfLoad."""
    experts, shares = len(counts), counts / counts.sum()
    entropy = float(-(shares * shares.clamp(min=1e-300).log()).sum())
    return {
        "entropy_ratio": entropy / math.log(experts) if experts > 1 else 1.0,
        "cv": float((shares - 1 / experts).square().mean().sqrt() * experts),
        "max_violation_ratio": (
            (experts * float(shares.max()) - 1) / (experts / top_k - 1) if experts > top_k else None
        ),
    }


def _router_shape(sums: RouterSums) -> dict[str, float | None]:
    tokens, experts = float(sums.values["tokens"]), sums.layer.experts
    mean = sums.values["probability_sum"].double().cpu() / tokens
    entropy = float(sums.values["entropy_sum"]) / tokens
    spread = float(-(mean * mean.clamp(min=1e-300).log()).sum())
    scale = math.log(experts) if experts > 1 else None
    return {
        "token_entropy_ratio": entropy / scale if scale else None,
        "mutual_information": (spread - entropy) / scale if scale else None,
        "margin_p10": _margin_p10(sums.values.get("margin_histogram")),
    }


def _margin_p10(histogram: torch.Tensor | None) -> float | None:
    if histogram is None or int(histogram.sum()) == 0:
        return None
    reached = histogram.cumsum(0) * 10 >= histogram.sum()
    first = int(reached.int().argmax())
    return 0.0 if first == 0 else 2.0 ** ((first - (MARGIN_BINS - 2)) / 2)


def _quantile(values: torch.Tensor, share: float) -> float:
    """The smallest value below or at which `share` of them lie."""
    return float(values.kthvalue(max(1, math.ceil(share * len(values)))).values)


def _spearman(a: torch.Tensor, b: torch.Tensor) -> float | None:
    ranks = [_ranks(one) - (len(one) + 1) / 2 for one in (a, b)]
    scale = float(ranks[0].square().sum() * ranks[1].square().sum()) ** 0.5
    return float((ranks[0] * ranks[1]).sum()) / scale if scale > 0 else None


def _ranks(values: torch.Tensor) -> torch.Tensor:
    """From 1, of equal values their mean."""
    below = (values.unsqueeze(0) < values.unsqueeze(1)).sum(1)
    equal = (values.unsqueeze(0) == values.unsqueeze(1)).sum(1)
    return below.double() + (equal.double() + 1) / 2


def _lines(values: Mapping[str, Any]) -> list[str]:
    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    lines = [
        f"layer {layer['layer']}: {shown(layer['survival'])} of the choices survive, clusters agree "
        f"{shown(layer['cluster_agreement'])}, output off by {shown(layer['output']['error_mean'])}, "
        f"stream by {shown(layer['stream']['error_mean'])}"
        for layer in values["layers"]
    ]
    output = values["output"]
    lines.append(
        f"cross-entropy {shown(output['cross_entropy_before'])} -> "
        f"{shown(output['cross_entropy_after'])} nats, KL {shown(output['kl'])}, "
        f"{output['positions']} positions"
    )
    return lines
