#!/usr/bin/env python3
"""A training of a few seconds that prints its losses; watched if a server is named.

    train.py STEPS [SERVER]        # SERVER: host:port
"""

import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import standins  # noqa: E402


def main():
    steps = int(sys.argv[1])
    torch.manual_seed(11)
    model = standins.Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    monitor = None
    if len(sys.argv) > 2:
        import foreshock

        monitor = foreshock.watch(model, optimizer, run="train", server=sys.argv[2],
                                  sampling={"spectra": {"every": 5}})
    for step in range(steps):
        loss, norm = standins.train_step(model, optimizer, step)
        print(loss.item().hex(), flush=True)
        if monitor is not None:
            monitor.step(step, loss=loss, grad_norm=norm)
            time.sleep(0.005)
    if monitor is not None:
        monitor.close(timeout=2)
        print(monitor.stats(), file=sys.stderr)


if __name__ == "__main__":
    main()
