#!/usr/bin/env python3
"""Trains one small model in every way of sharding it, on some ranks of this machine (gloo).

    sharded.py RANKS FOLDER SERVER      # a run for each of kinds(), named <kind>-<ranks>
    sharded.py 1 FOLDER SERVER          # the runs to compare with, whole-<key heads>

The model is trained for real. Before a step is told, its weights are set to those of `whole`, the
same training on one rank, so that what is sent can be compared to the last digit.
"""

import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                               parallelize_module)
from torch.nn.parallel import DistributedDataParallel

import foreshock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import standins  # noqa: E402

STEPS, BATCH = 5, 4
SAMPLING = {"spectra": {"every": 2, "groups": 1, "heads": 0},
            "router": {"every": 1, "tokens": 4096, "weights_every": 2},
            "gradients": {"every": 1}}  # fmt: skip


def make(kv_heads):
    torch.manual_seed(5)
    return standins.Decoder(d=32, depth=2, heads=4, kv_heads=kv_heads, count=4)


def batch(step, first, every):
    inputs, targets = standins.batch(step, size=BATCH)
    return inputs[first::every], targets[first::every]


def train_step(model, optimizer, inputs, targets):
    loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def whole(kv_heads, server=None, run=None):
    """Weights behind each step, by name; told as a run if there is a server."""
    model = make(kv_heads)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    monitor = foreshock.watch(model, optimizer, run=run, server=server, strict=True, rank=0,
                              world_size=1, sampling=SAMPLING) if server else None
    weights = []
    for step in range(STEPS):
        loss = train_step(model, optimizer, *batch(step, 0, 1))
        weights.append({name: p.detach().clone() for name, p in model.named_parameters()})
        if monitor is not None:
            monitor.step(step, loss=loss, tokens=BATCH * 12)
    if monitor is not None:
        assert monitor.close(), monitor.stats()
    return weights


def tensor_parallel(model, mesh, style=None):
    for layer in model.layers:
        plan = {f"{name}_proj": style or ColwiseParallel() for name in "qkv"}
        parallelize_module(layer.self_attn, mesh, plan if style is None else
                           {"q_proj": style, "k_proj": style})  # fmt: skip
        if style is None:
            parallelize_module(layer.self_attn, mesh, {"o_proj": RowwiseParallel()})


def fsdp(model, mesh=None):
    for layer in model.layers:
        fully_shard(layer, **({"mesh": mesh} if mesh is not None else {}))
    return fully_shard(model, **({"mesh": mesh} if mesh is not None else {}))


def rowwise():
    """Splits the hidden dimension: the input is cut before the product and added up behind it."""
    from torch.distributed.tensor import Replicate

    return RowwiseParallel(input_layouts=Replicate(), output_layouts=Replicate())


# name -> (key heads, options of watch, which of how many data ranks this one is, how it is sharded)
def kinds(ranks):
    rank = dist.get_rank()
    found = {
        "ddp": (2, {}, (rank, ranks), DistributedDataParallel),
        "fsdp2": (ranks, {}, (rank, ranks), fsdp),
        "gather": (1, {"gather": True}, (rank, ranks), fsdp),
        "split": (1, {}, (rank, ranks), fsdp),
    }
    tp = init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))
    found["tp"] = (ranks, {}, (0, 1), lambda model: tensor_parallel(model, tp) or model)
    found["rows"] = (2, {}, (0, 1), lambda model: tensor_parallel(model, tp, rowwise()) or model)
    if ranks == 4:
        hsdp = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp_replicate", "dp_shard"))
        found["hsdp"] = (2, {}, (rank, ranks), lambda model: fsdp(model, hsdp))
        grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))

        def both(model):
            tensor_parallel(model, grid["tp"])
            return fsdp(model, grid["dp"])

        found["fsdp2-tp"] = (4, {}, (rank // 2, 2), both)

        def replicated(model):
            tensor_parallel(model, grid["tp"])
            return model

        found["tp-replicated"] = (2, {}, (0, 1), replicated)
    return found


def set_weights(model, weights):
    with torch.no_grad():
        for name, p in model.named_parameters():
            exact = weights[name.removeprefix("module.")]
            here = p.full_tensor() if isinstance(p, DTensor) else p
            torch.testing.assert_close(here.detach(), exact, rtol=1e-3, atol=1e-5)
            if isinstance(p, DTensor):
                exact = distribute_tensor(exact, p.device_mesh, p.placements).to_local()
                p.to_local().copy_(exact)
            else:
                p.copy_(exact)


def run_of(rank, ranks, folder, server):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting{ranks}", rank=rank,
                            world_size=ranks)
    torch.set_num_threads(1)
    for kind, (kv_heads, options, (first, every), shard) in kinds(ranks).items():
        weights = whole(kv_heads)
        model = shard(make(kv_heads))
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        monitor = foreshock.watch(model, optimizer, run=f"{kind}-{ranks}", server=server,
                                  strict=True, launch_id=f"{kind}-{ranks}", sampling=SAMPLING,
                                  **options)
        (pathlib.Path(folder) / f"{kind}-{ranks}-{rank}.txt").write_text(
            "\n".join(monitor.found.lines))
        for step in range(STEPS):
            inputs, targets = batch(step, first, every)
            loss = train_step(model, optimizer, inputs, targets)
            set_weights(model, weights[step])
            monitor.step(step, loss=loss, tokens=inputs.numel())
        assert monitor.close(timeout=60), monitor.stats()
        stats = monitor.stats()
        assert not stats.errors and not stats.client.rejections, (kind, stats)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks, folder, server = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    if ranks == 1:
        for kv_heads in (1, 2, 4):
            whole(kv_heads, server, f"whole-{kv_heads}")
    else:
        torch.multiprocessing.spawn(run_of, (ranks, folder, server), ranks)
