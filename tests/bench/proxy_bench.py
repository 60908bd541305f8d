#!/usr/bin/env python3
"""Speed and memory of foreshock-proxy, target against reached.

    tests/bench/proxy_bench.py FORESHOCK_PROXY [--directory=DIR] [--gib=2] [--sparse-gib=64]

DIR (default: the working directory) takes about twice --gib of random bytes, 1 GiB, and an eighth of
--sparse-gib of zeros, and is left as it was.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy

ROUNDS = 5
MIB = 1 << 20


def header_of(tensors):
    """Length and JSON for {name: (dtype, shape, bytes)}, and the bytes of data."""
    header, at = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text, at


def olmoe(directory, gib, layers, experts, random, hidden=2048, shards=4):
    """An OLMoE of about `gib` GiB; holes instead of bytes unless `random` is given."""
    directory.mkdir()
    inner = int(gib * (1 << 30) / (layers * experts * 3 * hidden * 2))
    (directory / "config.json").write_text(json.dumps({
        "model_type": "olmoe", "num_experts": experts, "num_experts_per_tok": 8,
        "num_hidden_layers": layers, "hidden_size": hidden, "norm_topk_prob": True}))
    names = [f"model-{s + 1:05d}-of-{shards:05d}.safetensors" for s in range(shards)]
    weight_map = {}
    for shard, name in enumerate(names):
        tensors = {}
        for layer in range(shard * layers // shards, (shard + 1) * layers // shards):
            at = f"model.layers.{layer}.mlp."
            tensors[at + "gate.weight"] = ("BF16", [experts, hidden], experts * hidden * 2)
            for expert in range(experts):
                for part in ("gate_proj", "up_proj", "down_proj"):
                    tensors[f"{at}experts.{expert}.{part}.weight"] = (
                        "BF16", [inner, hidden], inner * hidden * 2)
        weight_map.update(dict.fromkeys(tensors, name))
        head, size = header_of(tensors)
        with open(directory / name, "wb") as file:
            file.write(head)
            if random is None:
                file.truncate(len(head) + size)
            while random is not None and size > 0:
                # BF16 in [0, 1): the router's rows are read as numbers.
                part = random.integers(0, 0x3F80, min(size, 16 * MIB) // 2, numpy.uint16)
                file.write(part.tobytes())
                size -= part.nbytes
    (directory / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": weight_map}))


def write_calibration(path, layers, experts, hidden, top_k, random):
    tensors, data = {}, []

    def add(name, dtype, values):
        tensors[name] = (dtype, list(values.shape), values.nbytes)
        data.append(values.tobytes())

    tokens = 4096
    for layer in range(layers):
        chosen = numpy.argsort(random.standard_normal((tokens, experts)), axis=1)[:, :top_k]
        hits = numpy.zeros((tokens, experts))
        numpy.put_along_axis(hits, chosen, 1, axis=1)
        inputs = random.standard_normal((tokens, 64))
        spread = random.standard_normal((64, hidden))
        add(f"layers.{layer}.tokens", "I64", numpy.array(tokens, numpy.int64))
        add(f"layers.{layer}.frequency", "I64", hits.sum(0).astype(numpy.int64))
        add(f"layers.{layer}.coactivation", "I64", (hits.T @ hits).astype(numpy.int64))
        add(f"layers.{layer}.input_sum", "F64", inputs.sum(0) @ spread)
        add(f"layers.{layer}.expert_input_sum", "F64", hits.T @ inputs @ spread)
    head, _ = header_of(tensors)
    length, = struct.unpack("<Q", head[:8])
    header = json.loads(head[8:8 + length])
    header["__metadata__"] = {"format": "foreshock.calibration.v1", "model_type": "olmoe",
                              "experts": str(experts), "top_k": str(top_k)}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


# A small process between: the largest resident size of a child begins with that of its parent.
WATCH = """
import json, resource, subprocess, sys, time
before = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
wall = time.perf_counter() - before
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""


def timed(command):
    """Seconds, of them on a core, and the largest resident size in MiB."""
    answer = subprocess.run([sys.executable, "-c", WATCH, *map(str, command)],
                            capture_output=True, text=True, check=True)
    code, wall, cpu, peak = json.loads(answer.stdout)
    if code:
        sys.exit(f"{command[0]} failed: {answer.stderr}")
    return wall, cpu, peak


def bench_copy(proxy, directory, gib):
    source, out, copy = (directory / name for name in ("model", "proxy", "copy"))
    olmoe(source, gib, 8, 64, numpy.random.default_rng(0))
    build = [proxy, "build", source, out, "--keep=32", "--selector=random"]
    ratios = []
    for _ in range(ROUNDS):
        ours, _, _ = timed(build)
        os.sync()
        # What cp does with the same bytes, and until they are on the disk, as ours are.
        theirs, _, _ = timed(["sh", "-c", f"cp -r {out} {copy} && sync {copy}/* {copy}"])
        shutil.rmtree(copy)
        plain, _, _ = timed(["cp", "-r", out, copy])
        size = sum(file.stat().st_size for file in out.iterdir())
        print(f"  {size / MIB:.0f} MiB: build {ours:.2f} s, cp and sync {theirs:.2f} s, "
              f"cp alone {plain:.2f} s", flush=True)
        ratios.append((theirs / ours, plain / ours))
        shutil.rmtree(copy)
        shutil.rmtree(out)
        os.sync()
    shutil.rmtree(source)
    synced, alone = (100 * statistics.median(column) for column in zip(*ratios))
    print(f"build runs at {synced:.0f} % of the speed of cp and sync (target 70 %), "
          f"{alone:.0f} % of cp alone, which leaves the bytes in memory")


def bench_select(proxy, directory, layers, hidden, keeps):
    source, calibration = directory / "model", directory / "calib.safetensors"
    olmoe(source, 1, layers, 256, None, hidden)
    random = numpy.random.default_rng(1)
    # Router rows must not all be zero.
    for shard in source.glob("*.safetensors"):
        with open(shard, "r+b") as file:
            length, = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
            for name, entry in header.items():
                if name.endswith("gate.weight"):
                    file.seek(8 + length + entry["data_offsets"][0])
                    rows = random.standard_normal(entry["shape"]).astype(numpy.float32)
                    file.write((rows.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes())
    write_calibration(calibration, layers, 256, hidden, 8, random)
    for keep in keeps:
        seconds, cpu, peak = timed(["taskset", "-c", "0", proxy, "select", source, f"--keep={keep}",
                               "--calibration", calibration, "-w", directory / "plan.json"])
        print(f"select {keep} of 256 experts in {layers} layers of hidden size {hidden} on one "
              f"core: {cpu:.2f} s of it, {seconds:.2f} s in all (target 10 s), "
              f"{peak:.0f} MiB", flush=True)
    shutil.rmtree(source)
    calibration.unlink()


def bench_memory(proxy, directory, gib):
    source, out = directory / "model", directory / "proxy"
    olmoe(source, gib, 32, 64, None, shards=16)
    seconds, _, peak = timed([proxy, "build", source, out, "--keep=8", "--selector=first-k"])
    size = sum(file.stat().st_size for file in out.iterdir())
    print(f"build of {size / (1 << 30):.1f} GiB from a sparse checkpoint of {gib} GiB: peak "
          f"{peak:.0f} MiB (target 2048 MiB), {seconds:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("proxy", type=pathlib.Path)
    parser.add_argument("--directory", type=pathlib.Path)
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--sparse-gib", type=float, default=64)
    arguments = parser.parse_args()
    proxy = arguments.proxy.resolve()
    with tempfile.TemporaryDirectory(dir=arguments.directory or ".", prefix="proxy_bench_") as name:
        directory = pathlib.Path(name)
        bench_copy(proxy, directory, arguments.gib)
        bench_select(proxy, directory, 60, 512, (128, 64, 16))
        bench_select(proxy, directory, 60, 7168, (128,))
        bench_memory(proxy, directory, arguments.sparse_gib)


if __name__ == "__main__":
    main()
