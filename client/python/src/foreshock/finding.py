"""Looks for sizes, weights and names on modules and their configs."""

from __future__ import annotations

import re
from typing import Any

import torch

from foreshock import patterns


class Skip(Exception):
    """Why a layer is not watched."""


def child(module: Any, name: str) -> Any:
    """A module or parameter by its dotted name below `module`; None if there is none."""
    for part in name.split("."):
        module = getattr(module, part, None)
    return module if isinstance(module, (torch.nn.Module, torch.Tensor)) else None


def weight_of(part: Any, name: str) -> torch.Tensor:
    """The parameter of a projection. Raises Skip where it is no plain matrix of floats."""
    if isinstance(part, torch.nn.Module):
        if hasattr(part, "base_layer") or hasattr(part, "lora_A"):
            raise Skip(f"{name} carries a LoRA adapter; its base weight does not train")
        part = getattr(part, "weight", None)
    if not isinstance(part, torch.Tensor):
        raise Skip(f"{name} has no weight tensor (quantised or wrapped)")
    if part.device.type == "meta":
        raise Skip(f"{name} is on the meta device; call watch() when the weights are there")
    if not part.is_floating_point() or "bit" in type(part).__name__.lower():
        raise Skip(f"{name} is quantised ({type(part).__name__} of {dtype_name(part)})")
    if part.dim() != 2:
        flat = (
            " (of FSDP1 or ZeRO 3, which keep no heads between steps; FSDP2's fully_shard does)"
            if part.dim() < 2 else ""
        )  # fmt: skip
        raise Skip(f"{name} has shape {tuple(part.shape)}; a matrix is needed{flat}")
    return part


def dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def attribute(holder: Any, name: str) -> Any:
    """None where there is none; some configs raise errors of their own."""
    try:
        return getattr(holder, name, None)
    except Exception:
        return None


def size(kind: str, *holders: Any) -> int:
    """The first attribute of SIZES[kind] on a holder or its config that is a positive integer."""
    for holder in holders:
        for source in (holder, attribute(holder, "config")):
            for name in patterns.SIZES[kind]:
                value = attribute(source, name)
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    return value
    return 0


def text(holder: Any, name: str) -> str:
    """A string of that name on a holder or its config; else empty."""
    for source in (holder, attribute(holder, "config")):
        value = attribute(source, name)
        if isinstance(value, str):
            return value
    return ""


def layer_of(path: str, module: Any) -> int:
    """The layer's number, from 0; -1: neither the module nor its path has one."""
    number = getattr(module, "layer_number", None)  # Megatron: from 1, over all pipeline stages
    if isinstance(number, int) and number > 0:
        return number - 1
    numbers = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", path)
    return int(numbers[0]) if numbers else -1
