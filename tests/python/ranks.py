#!/usr/bin/env python3
"""Two ranks that train one model with DistributedDataParallel: gloo, on this machine's loopback.

    ranks.py spawn FOLDER SERVER STEPS    # from a watched parent, by spawn; FOLDER/rank<n>.json
    ranks.py forever FOLDER SERVER RANK   # one of the two, until a signal ends it; tells its steps
"""

import itertools
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import foreshock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import standins  # noqa: E402

RANKS = 2


def join(rank, folder):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank,
                            world_size=RANKS)


def watched(model, optimizer, run, server):
    """Rank and world size come from torch.distributed."""
    return foreshock.watch(model, optimizer, run=run, server=server, launch_id=run,
                           sampling={"spectra": {"every": 4, "groups": 1}, "router": {"every": 2}})


def train(rank, steps, run=None, server=None, each=lambda step: None):
    """(losses of this rank, its monitor); watched if there is a run."""
    torch.manual_seed(11)
    model = DistributedDataParallel(standins.Decoder())
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    monitor = watched(model, optimizer, run, server) if run else None
    losses = []
    for step in steps:
        loss, norm = standins.train_step(model, optimizer, RANKS * step + rank)
        losses.append(loss.item())
        if monitor is not None:
            monitor.step(step, loss=loss, grad_norm=norm, tokens=48)
        each(step)
    return losses, monitor


def alone_and_watched(rank, folder, server, steps):
    join(rank, folder)
    alone, _ = train(rank, range(steps))
    losses, monitor = train(rank, range(steps), "ranks", server)
    closed = monitor.close()
    stats = monitor.stats()
    (pathlib.Path(folder) / f"rank{rank}.json").write_text(json.dumps(dict(
        alone=alone, watched=losses, closed=closed, errors=stats.errors, dropped=stats.dropped,
        committed=stats.client.committed, rejections=stats.client.rejections)))
    dist.destroy_process_group()


def tell(step):
    print(step, flush=True)


def main():
    what, folder, server, number = sys.argv[1:5]
    if what == "spawn":
        monitor = foreshock.watch(standins.Decoder(), run="parent", server=server)
        monitor.step(0, loss=1.0)
        torch.multiprocessing.spawn(alone_and_watched, (folder, server, int(number)), RANKS)
        monitor.step(1, loss=1.0)
    else:
        join(int(number), folder)
        train(int(number), itertools.count(), "preempted", server, tell)


if __name__ == "__main__":
    main()
