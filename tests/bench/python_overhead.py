#!/usr/bin/env python3
"""What foreshock.watch costs a training: pairs of steps, one watched and one not, interleaved.

    PYTHONPATH=build/bench/python tests/bench/python_overhead.py build/bench/bin/foreshockd
    ... --model wide --pairs 200 --daemon stalled

Two models of one seed take turns on the same batches, in random order within a pair. Between steps
the watched one's background threads are waited for, outside the clock: what they burn is reported
by itself (background CPU), since on a machine that trains on all its cores it comes on top.
Reported are the median of the pairs' ratios, the ratio of the sums (which sampled steps weigh into
as they are) and 95 % bootstrap intervals of both.
"""

import argparse
import pathlib
import resource
import signal
import sys
import tempfile
import time

import numpy as np
import torch

import foreshock

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "python"), str(TESTS / "support/python")]
from daemon_process import Daemon  # noqa: E402
import standins  # noqa: E402

# name: shape of the decoder, sequences of a batch, their length
MODELS = {
    "tiny": (dict(d=64, depth=3, heads=4, kv_heads=4, count=8, vocabulary=96), 8, 64),
    "wide": (dict(d=512, depth=8, heads=8, kv_heads=8, count=8, vocabulary=512), 4, 96),
}
WARM_UP = 10
BOOTSTRAPS = 2000


class Trained:
    def __init__(self, shape, size, length):
        torch.manual_seed(5)
        self.model = standins.Decoder(**shape)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4)
        self.batch = dict(vocabulary=shape["vocabulary"], size=size, length=length)

    def step(self, step):
        inputs, targets = standins.batch(step, **self.batch)
        logits = self.model(inputs).flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, targets.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss, norm


def measure(name, pairs, server, reachable, sampling):
    shape, size, length = MODELS[name]
    plain, watched = Trained(shape, size, length), Trained(shape, size, length)
    before = resident()
    monitor = foreshock.watch(watched.model, watched.optimizer, run=f"bench-{name}", server=server,
                              sampling=sampling)
    order = np.random.default_rng(3).integers(0, 2, pairs + WARM_UP)
    rows, calls, background = [], [], 0.0
    for step in range(pairs + WARM_UP):
        took, burnt = {}, {}
        for who in (0, 1) if order[step] else (1, 0):
            began, cpu = time.perf_counter(), time.process_time()
            if who == 0:
                plain.step(step)
            else:
                loss, norm = watched.step(step)
                called, spent = time.perf_counter(), time.thread_time()
                monitor.step(step, loss=loss, grad_norm=norm, tokens=size * length)
                spent = time.thread_time() - spent
                calls.append((step, time.perf_counter() - called, spent))
            took[who], drained = time.perf_counter() - began, time.process_time()
            if who == 1:
                drain(monitor, reachable)
                background += time.process_time() - drained
            burnt[who] = time.process_time() - cpu
        if step >= WARM_UP:
            rows.append((took[0], took[1], burnt[0], burnt[1]))
    stats = monitor.stats()
    monitor.close(timeout=2.0)
    count = sum(p.numel() for p in watched.model.parameters())
    return np.array(rows), calls, background / len(calls), resident() - before, stats, count


def drain(monitor, reachable, seconds=0.5):
    """Until the packer is idle and, with a daemon that answers, everything is committed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        stats = monitor.stats()
        if stats.jobs_waiting == 0 and (not reachable or stats.client.queue_reports == 0):
            return
        time.sleep(0.002)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def interval(rows, statistic):
    random = np.random.default_rng(17)
    draws = [statistic(rows[random.integers(0, len(rows), len(rows))]) for _ in range(BOOTSTRAPS)]
    return statistic(rows), *np.percentile(draws, [2.5, 97.5])


def percent(values):
    return "{:+.2f} % [{:+.2f}, {:+.2f}]".format(*(100 * (v - 1) for v in values))


def report(name, daemon, result, sampling):
    rows, calls, background, memory, stats, count = result
    rests = [call[1:] for call in calls[WARM_UP:] if not is_sampled(sampling, call[0])]
    sampled = [call[1:] for call in calls[WARM_UP:] if is_sampled(sampling, call[0])]
    print(f"{name}, {count / 1e6:.1f} M parameters, daemon {daemon}: {len(rows)} pairs of "
          f"{1e3 * np.median(rows[:, 0]):.0f} ms")
    print(f"  slow-down, median of ratios  {percent(interval(rows, median_ratio))}")
    print(f"  slow-down, ratio of sums     {percent(interval(rows, sum_ratio))}")
    print(f"  CPU seconds, ratio of sums   {percent(interval(rows, cpu_ratio))}, background included")
    print(f"  background CPU               {1e3 * background:.2f} ms a step, "
          f"{100 * background / np.median(rows[:, 0]):.2f} % of one core's step")
    for what, took in (("no sample due", rests), ("sampled", sampled)):
        if not took:
            continue
        (p50, cpu50), (p99, cpu99) = np.percentile(1e6 * np.array(took), [50, 99], axis=0)
        print(f"  monitor.step, {what:13}  p50 {p50:.0f} us, p99 {p99:.0f} us ({len(took)}); "
              f"CPU of the calling thread {cpu50:.0f} and {cpu99:.0f} us")
    print(f"  memory {memory / 2**20:+.1f} MiB; committed {stats.client.committed}, "
          f"dropped {stats.dropped}, errors {stats.errors}", flush=True)


def is_sampled(sampling, step):
    groups = range(sampling.spectra.groups)
    offsets = [g * sampling.spectra.every // sampling.spectra.groups for g in groups]
    return (sampling.due(sampling.router.every, step)
            or sampling.due(sampling.router.coactivation_every, step)
            or sampling.due(sampling.gradients.every, step)
            or any(sampling.due(sampling.spectra.every, step, offset) for offset in offsets))


def median_ratio(rows):
    return np.median(rows[:, 1] / rows[:, 0])


def sum_ratio(rows):
    return rows[:, 1].sum() / rows[:, 0].sum()


def cpu_ratio(rows):
    return rows[:, 3].sum() / rows[:, 2].sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("foreshockd")
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--daemon", choices=("present", "absent", "stalled"), action="append")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--coactivation-every", type=int, default=0, metavar="STEPS",
                        help="experts chosen together, which is off by default")
    arguments = parser.parse_args()
    sampling = foreshock.Sampling(
        router=foreshock.sampling.Router(coactivation_every=arguments.coactivation_every))
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    for name in arguments.model or MODELS:
        for state in arguments.daemon or ("present", "absent", "stalled"):
            with tempfile.TemporaryDirectory(prefix="foreshock_bench_") as directory:
                with Daemon(arguments.foreshockd, directory) as daemon:
                    server = "127.0.0.1:1" if state == "absent" else daemon.grpc
                    if state == "stalled":
                        daemon.signal(signal.SIGSTOP)
                    reachable = state == "present"
                    report(name, state, measure(name, arguments.pairs, server, reachable, sampling),
                           sampling)


if __name__ == "__main__":
    main()
