"""Finds what can be watched in a tree of modules, by the table in foreshock.patterns.

    found = discover(model)
    for line in found.lines: ...          # one per layer: what is watched, or why not

Nothing is guessed: where names fit but sizes do not add up, the layer is left alone and says why.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence, Union

import torch

from foreshock import patterns
from foreshock.attention import AttentionLayer, attention_at
from foreshock.finding import Skip, size
from foreshock.identity import ROUTER_KINDS
from foreshock.patterns import Attention, Router
from foreshock.routers import RouterLayer, router_at
from foreshock.v1 import types_pb2 as types

__all__ = ["AttentionLayer", "Found", "RouterLayer", "discover"]


@dataclasses.dataclass
class Found:
    attention: list[AttentionLayer]
    routers: list[RouterLayer]
    lines: list[str]
    shape: types.ModelShape


def discover(
    model: torch.nn.Module,
    extra: Sequence[Union[Attention, Router]] = (),
    gather: bool = False,
) -> Found:
    """Walks the modules in their order. `extra` entries are tried before the table's. `gather`: the
    ranks that share a weight may read it together."""
    attention_table = [p for p in extra if isinstance(p, Attention)] + list(patterns.ATTENTION)
    router_table = [p for p in extra if isinstance(p, Router)] + list(patterns.ROUTERS)
    lines: list[str] = []
    attention: list[AttentionLayer] = []
    routers: list[RouterLayer] = []
    seen: dict[int, str] = {}  # weights already watched
    unknown: dict[str, str] = {}  # by path: what looks like a layer and has no name that is known
    for path, module in model.named_modules():
        path = _plain(path)
        for layers, at in (
            (attention, lambda: _attention(path, module, attention_table, model, seen, gather)),
            (routers, lambda: router_at(path, module, router_table, model)),
        ):
            try:
                layer = at()
            except Skip as skip:
                lines.append(f"{path or 'the model'}: not watched: {skip}")
            else:
                layers.extend([] if layer is None else [layer])
        unknown.update(_looks_like(path, module))
    named = [layer.path for layer in (*attention, *routers)]
    named += [line.partition(":")[0] for line in lines]
    lines += _unnamed(unknown, named)
    _number(attention)
    _number(routers)
    lines = [layer.line() for layer in (*attention, *routers)] + lines
    return Found(attention, routers, lines, _shape(model, attention, routers))


def _plain(path: str) -> str:
    """Without what torch.compile, activation checkpointing and FSDP put around modules."""
    wrappers = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")
    return ".".join(part for part in path.split(".") if part not in wrappers)


def _attention(
    path: str,
    module: Any,
    table: Sequence[Attention],
    model: Any,
    seen: dict[int, str],
    gather: bool,
) -> AttentionLayer | None:
    for entry in patterns.LEFT_ALONE:
        if type(module).__name__ == entry.of_class or (
            entry.having and all(getattr(module, name, None) is not None for name in entry.having)
        ):
            raise Skip(entry.why)
    return attention_at(path, module, table, model, seen, gather)


def _looks_like(path: str, module: Any) -> dict[str, str]:
    """{where a layer that is to be named begins: why it is not watched}"""
    if "Attention" in type(module).__name__ and next(module.parameters(), None) is not None:
        held = [name for name, _ in module.named_children()]
        held += [name for name, _ in module.named_parameters(recurse=False)]
        return {path: f"no names of Q and K weights that are known, among {', '.join(held)}"}
    block, _, name = path.rpartition(".")
    if name == "experts" and next(module.parameters(), None) is not None:
        return {block: "experts, and beside them no gate with a name that is known"}
    return {}


def _unnamed(unknown: dict[str, str], named: list[str]) -> list[str]:
    """Lines about what looks like a layer; not where a line about it, its parts or what it is a
    part of is there already."""
    lines: list[str] = []
    for path, why in unknown.items():
        if not any(f"{other}.".startswith(f"{path}.") or f"{path}.".startswith(f"{other}.")
                   for other in named):  # fmt: skip
            lines.append(f"{path or 'the model'}: not watched: {why}")
            named.append(path)
    return lines


def _number(layers: Sequence[Union[AttentionLayer, RouterLayer]]) -> None:
    """Layers without a number in their path, or with one twice, are counted in module order."""
    numbers = [layer.layer for layer in layers]
    if -1 in numbers or len(set(numbers)) != len(numbers):
        for index, layer in enumerate(layers):
            layer.layer = index


def _shape(
    model: Any, attention: Sequence[AttentionLayer], routers: Sequence[RouterLayer]
) -> types.ModelShape:
    """Of the whole model; 0 is not known, or not the same in all layers."""
    shape = types.ModelShape()
    highest = max((layer.layer for layer in (*attention, *routers)), default=-1)
    shape.layers = max(size("layers", model), highest + 1)
    if attention:
        first = max(attention, key=lambda layer: layer.total_heads)
        shape.heads = first.total_heads
        shape.kv_heads = max(1, first.total_heads * first.kv_heads // first.heads)
        shape.head_dim = _same(layer.head_dim for layer in attention)
        shape.attention = _same(_kind(layer) for layer in attention)
    if routers:
        shape.experts = _same(router.experts for router in routers)
        shape.top_k = _same(router.top_k for router in routers)
        shape.router = ROUTER_KINDS[_same(router.score for router in routers) or ""]
        shape.shared_experts = _same(router.shared_experts for router in routers)
        shape.router_groups = _same(router.groups for router in routers)
    shape.hidden_size = _same(layer.hidden for layer in (*attention, *routers))
    return shape


def _kind(layer: AttentionLayer) -> int:
    if layer.latent:
        return types.ATTENTION_KIND_MLA
    if layer.heads == layer.kv_heads:
        return types.ATTENTION_KIND_MHA
    whole = max(1, layer.total_heads * layer.kv_heads // layer.heads)
    return types.ATTENTION_KIND_MQA if whole == 1 else types.ATTENTION_KIND_GQA


def _same(values: Any) -> int:
    """What all are; 0 where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else 0
