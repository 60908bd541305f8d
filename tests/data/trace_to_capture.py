#!/usr/bin/python3
"""Converts a recorded training run (.npz) into a capture (.fscap or .jsonl).

tests/data/README.md describes the recording, the rules of the conversion and how to run this;
docs/formats/capture.md the result. The same input gives the same bytes. Needs numpy, protobuf,
protoc and, for .fscap, the zstd command.

    tests/data/trace_to_capture.py run.npz run.fscap
    tests/data/trace_to_capture.py run.npz thin.fscap --layers 0,2 --factors-every 50
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, Iterator

import numpy as np

PROTO_DIR = pathlib.Path(__file__).resolve().parents[2] / "proto"
TENSOR_RANKS = 2  # tensor-parallel ranks per data-parallel one; they share the heads
FSCAP_HEADER = b"FSCAP\r\n\x01"
FRAME_CONTENT_BYTES = 4 << 20
ZSTD_LEVEL = 19

# Scalars rank 0 sends for the whole job: name, array of the recording, unit.
GLOBAL_SCALARS = (
    ("loss", "loss", "nats"),
    ("grad_norm", "gnorm", "1"),
    ("grad_norm_q", "gnorm_q", "1"),
    ("grad_norm_k", "gnorm_k", "1"),
    ("grad_norm_router", "gnorm_r", "1"),
    ("lr", "lr", "1"),
    ("aux_loss", "aux", "1"),
    ("tokens", "tokens", "tokens"),
)
RANK_LOSS_ID = 1
FIRST_GLOBAL_ID = 2


def load_messages() -> tuple[Any, Any, Any]:
    """Generates the Python messages of proto/ into a temporary folder and imports them."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"foreshock/v1/{n}.proto" for n in ("types", "ingest", "capture")]
        subprocess.run(
            ["protoc", f"--proto_path={PROTO_DIR}", f"--python_out={folder}", *names], check=True
        )
        sys.path.insert(0, folder)
        try:
            from foreshock.v1 import capture_pb2, ingest_pb2, types_pb2
        finally:
            sys.path.remove(folder)
    return types_pb2, ingest_pb2, capture_pb2


types, ingest, capture = load_messages()


def tensor(values: np.ndarray, dtype: int) -> Any:
    """A contract Tensor of `values`, any shape, in the element type `dtype` stands for."""
    kinds = {
        types.DTYPE_F32: "<f4",
        types.DTYPE_F16: "<f2",
        types.DTYPE_I64: "<i8",
    }
    data = np.ascontiguousarray(values, dtype=kinds[dtype])
    return types.Tensor(dtype=dtype, shape=data.shape, data=data.tobytes())


def split_evenly(counts: np.ndarray, parts: int) -> np.ndarray:
    """Splits counts [L, E] into [parts, L, E], equal but for remainders, which go round the parts.

    The sum over parts is `counts`; a layer's parts differ by at most one in their sum.
    """
    base, rest = np.divmod(counts.astype(np.int64), parts)
    first = np.cumsum(rest, axis=-1) - rest  # part that gets the first left-over of each expert
    part = np.arange(parts)[:, None, None]
    return base + ((part - first) % parts < rest)


@dataclasses.dataclass(frozen=True)
class Options:
    """What of the recording to keep."""

    run: str
    layers: list[int]
    snapshot_every: int  # steps; 0: every snapshot of the recording
    factors_every: int  # steps; 0: with every snapshot


class Recording:
    """The arrays of one .npz and what follows from them."""

    def __init__(self, path: str) -> None:
        with np.load(path) as file:
            self.arrays = {name: file[name] for name in file.files}
        meta = json.loads(str(self.arrays["meta"]))
        self.layers: int = meta["L"]
        self.heads: int = meta["H"]
        self.head_dim: int = meta["dh"]
        self.hidden: int = meta["d"]
        self.experts: int = meta["E"]
        self.top_k: int = meta["topk"]
        self.data_ranks: int = meta["ranks"]
        self.recorded_heads: list[int] = meta["heads"]
        self.steps = self.arrays["step"].astype(np.int64)
        self.snapshot_of_row = {int(row): i for i, row in enumerate(self.arrays["rrow"])}
        self.router_of_row = {int(row): i for i, row in enumerate(self.arrays["wr_row"])}
        self.w_q = self._weights("Wq0", "dWq", "dq_scale")
        self.w_k = self._weights("Wk0", "dWk", "dk_scale")

    def _weights(self, first: str, increment: str, scale: str) -> np.ndarray:
        """FP32 history [S, L, rows, d]: the first snapshot plus scaled increments, summed in FP32."""
        weights = self.arrays[first].astype(np.float32)
        scales = self.arrays[scale].astype(np.float32)
        history = []
        for i, step_increment in enumerate(self.arrays[increment]):
            weights = weights + step_increment.astype(np.float32) * scales[i][:, None, None]
            history.append(weights)
        return np.stack(history)

    def attempts(self) -> list[range]:
        """Rows of each attempt: a new one begins where the step goes back."""
        cuts = [0, *(np.flatnonzero(np.diff(self.steps) < 0) + 1).tolist(), len(self.steps)]
        return [range(a, b) for a, b in zip(cuts, cuts[1:])]

    def shape(self) -> Any:
        return types.ModelShape(
            layers=self.layers,
            heads=self.heads,
            kv_heads=self.heads,
            head_dim=self.head_dim,
            hidden_size=self.hidden,
            experts=self.experts,
            top_k=self.top_k,
            attention=types.ATTENTION_KIND_MHA,
            router=types.ROUTER_KIND_SOFTMAX,
        )

    def heads_of(self, tensor_rank: int) -> list[tuple[int, int]]:
        """(position in the recording, head) of the recorded heads a tensor-parallel rank holds."""
        per_rank = -(-self.heads // TENSOR_RANKS)
        return [(i, h) for i, h in enumerate(self.recorded_heads) if h // per_rank == tensor_rank]


def cadence(steps: list[int]) -> int | None:
    """The number of steps between most of `steps`; None if there are too few to tell."""
    gaps = [b - a for a, b in zip(steps, steps[1:]) if b > a]
    return max(set(gaps), key=gaps.count) if gaps else None


class Converter:
    """Makes the records of a capture, in the order in which the ranks would have sent them."""

    def __init__(self, recording: Recording, options: Options) -> None:
        self.rec = recording
        self.options = options
        self.ranks = recording.data_ranks * TENSOR_RANKS

    def records(self) -> Iterator[Any]:
        attempts = self.rec.attempts()
        for number, rows in enumerate(attempts):
            stream0 = number * self.ranks
            for rank in range(self.ranks):
                yield self._record(stream0 + rank, hello=self._hello(rank, number, rows))
            for seq, row in enumerate(rows, start=1):
                for rank in range(self.ranks):
                    report = self._report(rank, row, first=row == rows[0])
                    report.seq = seq
                    yield self._record(stream0 + rank, report=report)
            # A launch that was resumed says no goodbye: its streams just end.
            if number == len(attempts) - 1:
                for rank in range(self.ranks):
                    goodbye = ingest.Goodbye(outcome=ingest.OUTCOME_FINISHED)
                    yield self._record(stream0 + rank, goodbye=goodbye)

    @staticmethod
    def _record(stream: int, **message: Any) -> Any:
        return capture.CaptureRecord(stream=stream, message=ingest.PushRequest(**message))

    def _hello(self, rank: int, attempt: int, rows: range) -> Any:
        tensor_rank, data = divmod(rank, self.rec.data_ranks)
        launch = f"{self.options.run}-launch-{attempt + 1}"
        hello = ingest.Hello(
            run=self.options.run,
            launch_id=launch,
            client_instance=f"{launch}-rank-{rank}",
            rank=rank,
            coordinates=types.Coordinates(data=data, tensor=tensor_rank),
            world_size=self.ranks,
            model=self.rec.shape(),
            plan=self._plan(data, tensor_rank),
            client_version="trace_to_capture/1",
        )
        if attempt > 0:
            hello.resume_step = int(self.rec.steps[rows[0]])
        return hello

    def _plan(self, data: int, tensor_rank: int) -> list[Any]:
        if tensor_rank > 0 and data > 0:
            return []
        plan = []

        def add(kind: int, steps: list[int] | None, layers: list[int]) -> None:
            every = 1 if steps is None else cadence(steps)
            if every is not None:
                phase = 0 if steps is None else steps[0] % every
                plan.append(
                    ingest.PlanEntry(kind=kind, layers=layers, every_steps=every, phase_step=phase)
                )

        layers = self.options.layers
        rec = self.rec
        if tensor_rank == 0:
            add(types.SUMMARY_KIND_SCALARS, None, [])
            add(types.SUMMARY_KIND_ROUTER_LOAD, None, layers)
        if data == 0:
            shown = [int(rec.steps[r]) for r in rec.snapshot_of_row if self._snapshot(r)]
            factors = [int(rec.steps[r]) for r in rec.snapshot_of_row if self._factors(r)]
            if rec.heads_of(tensor_rank):
                add(types.SUMMARY_KIND_QK_FACTORS, factors, layers)
                add(types.SUMMARY_KIND_ATTENTION_LOGITS, shown, layers)
            if tensor_rank == 0:
                router = [int(rec.steps[r]) for r in rec.router_of_row]
                add(types.SUMMARY_KIND_ROUTER_GATES, shown, layers)
                add(types.SUMMARY_KIND_ROUTER_WEIGHTS, router, layers)
        return plan

    def _kept(self, row: int, every: int) -> bool:
        return row in self.rec.snapshot_of_row and (
            every == 0 or int(self.rec.steps[row]) % every == 0
        )

    def _snapshot(self, row: int) -> bool:
        return self._kept(row, self.options.snapshot_every)

    def _factors(self, row: int) -> bool:
        return self._snapshot(row) and self._kept(row, self.options.factors_every)

    def _report(self, rank: int, row: int, first: bool) -> Any:
        tensor_rank, data = divmod(rank, self.rec.data_ranks)
        rec = self.rec
        tokens = int(rec.arrays["tokens"][row])
        share = tokens // rec.data_ranks + (data < tokens % rec.data_ranks)
        report = ingest.Report(
            step=int(rec.steps[row]),
            time_unix_ns=round(float(rec.arrays["time"][row]) * 1e6) * 1000,
            tokens=share,
            phase=types.PHASE_TRAIN,
            last_of_step=True,
        )
        if tensor_rank == 0:
            report.summaries.add().scalars.CopyFrom(self._scalars(data, row, declare=first))
            self._add_load(report, data, row)
        if data == 0:
            if self._snapshot(row):
                self._add_snapshot(report, tensor_rank, row)
            if tensor_rank == 0 and row in rec.router_of_row:
                self._add_router_weights(report, row)
        return report

    def _scalars(self, data: int, row: int, declare: bool) -> Any:
        arrays = self.rec.arrays
        batch = ingest.ScalarBatch(ids=[RANK_LOSS_ID], values=[float(arrays["rank_loss"][row, data])])
        if declare:
            batch.declare.add(
                id=RANK_LOSS_ID,
                name="loss",
                unit="nats",
                reduction=types.REDUCTION_MEAN,
                scope=types.SCOPE_RANK,
            )
        if data == 0:
            for i, (name, array, unit) in enumerate(GLOBAL_SCALARS, start=FIRST_GLOBAL_ID):
                batch.ids.append(i)
                batch.values.append(float(arrays[array][row]))
                if declare:
                    batch.declare.add(
                        id=i,
                        name=name,
                        unit=unit,
                        reduction=types.REDUCTION_LAST,
                        scope=types.SCOPE_GLOBAL,
                    )
        return batch

    def _add_load(self, report: Any, data: int, row: int) -> None:
        counts = split_evenly(self.rec.arrays["counts"][row], self.rec.data_ranks)[data]
        for layer in self.options.layers:
            load = report.summaries.add().router_load
            load.layer = layer
            load.counts.CopyFrom(tensor(counts[layer], types.DTYPE_I64))

    def _add_snapshot(self, report: Any, tensor_rank: int, row: int) -> None:
        rec = self.rec
        i = rec.snapshot_of_row[row]
        held = rec.heads_of(tensor_rank)
        at = [position for position, _ in held]
        heads = [head for _, head in held]
        for layer in self.options.layers:
            if held and self._factors(row):
                factors = report.summaries.add().qk_factors
                factors.layer = layer
                factors.heads.extend(heads)
                for projection, weights in ((factors.q, rec.w_q), (factors.k, rec.w_k)):
                    by_head = weights[i, layer].reshape(-1, rec.head_dim, rec.hidden)
                    projection.dense.CopyFrom(tensor(by_head[at], types.DTYPE_F32))
                factors.weight_dtype = types.DTYPE_F32
                factors.fp32_master = True
            if held:
                attention = report.summaries.add().attention_logits
                attention.layer = layer
                attention.heads.extend(heads)
                attention.logits.CopyFrom(
                    tensor(rec.arrays["logits"][i, layer][at], types.DTYPE_F16)
                )
                attention.max_logit.CopyFrom(
                    tensor(rec.arrays["max_logit"][i, layer][at], types.DTYPE_F32)
                )
                attention.columns_complete = True
                attention.column_zero_is_first = True
            if tensor_rank == 0:
                gates = report.summaries.add().router_gates
                gates.layer = layer
                gates.scores.CopyFrom(tensor(rec.arrays["gates"][i, layer], types.DTYPE_F16))
                gates.score_kind = ingest.SCORE_KIND_SOFTMAX

    def _add_router_weights(self, report: Any, row: int) -> None:
        i = self.rec.router_of_row[row]
        for layer in self.options.layers:
            router = report.summaries.add().router_weights
            router.layer = layer
            router.weights.CopyFrom(tensor(self.rec.arrays["Wr"][i, layer], types.DTYPE_F32))
            router.weight_dtype = types.DTYPE_F32
            router.fp32_master = True


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_fscap(records: Iterator[Any], out: Any) -> None:
    def flush(content: bytearray) -> None:
        command = ["zstd", f"-{ZSTD_LEVEL}", "--check", "--quiet", "--stdout", "-"]
        out.write(subprocess.run(command, input=content, stdout=subprocess.PIPE, check=True).stdout)

    out.write(FSCAP_HEADER)
    content = bytearray()
    for record in records:
        data = record.SerializeToString(deterministic=True)
        content += varint(len(data)) + data
        if len(content) >= FRAME_CONTENT_BYTES:
            flush(content)
            content = bytearray()
    flush(content + varint(0))  # the end mark


def write_jsonl(records: Iterator[Any], out: Any) -> None:
    from google.protobuf import json_format

    for record in records:
        text = json_format.MessageToDict(record)
        out.write(json.dumps(text, separators=(",", ":")).encode() + b"\n")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("input", metavar="IN.npz")
    parser.add_argument("output", metavar="OUT.fscap|OUT.jsonl")
    parser.add_argument("--run", help="name of the run; default: the input's name without .npz")
    parser.add_argument("--layers", help="layers to keep, for example 0,2; default: all")
    parser.add_argument(
        "--snapshot-every",
        type=int,
        default=0,
        metavar="STEPS",
        help="keep snapshots (weights, logits, gates) at multiples of STEPS; default: all",
    )
    parser.add_argument(
        "--factors-every",
        type=int,
        default=0,
        metavar="STEPS",
        help="keep the Q/K weights, by far the largest part, at multiples of STEPS; default: all",
    )
    arguments = parser.parse_args()
    if not arguments.output.endswith((".fscap", ".jsonl")):
        parser.error(f"output {arguments.output}: the name must end in .fscap or .jsonl")
    if arguments.snapshot_every < 0 or arguments.factors_every < 0:
        parser.error("--snapshot-every and --factors-every take a positive number of steps")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    try:
        recording = Recording(arguments.input)
        layers = list(range(recording.layers))
        if arguments.layers is not None:
            kept = sorted({int(layer) for layer in arguments.layers.split(",")})
            if any(layer not in layers for layer in kept):
                raise ValueError(f"--layers {arguments.layers}: the model has 0..{layers[-1]}")
            layers = kept
    except (OSError, KeyError, ValueError) as error:
        print(f"trace_to_capture: reading {arguments.input}: {error}", file=sys.stderr)
        return 2
    options = Options(
        run=arguments.run or pathlib.Path(arguments.input).stem,
        layers=layers,
        snapshot_every=arguments.snapshot_every,
        factors_every=arguments.factors_every,
    )
    records = Converter(recording, options).records()
    write = write_fscap if arguments.output.endswith(".fscap") else write_jsonl
    temporary = f"{arguments.output}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as out:
            write(records, out)
        os.replace(temporary, arguments.output)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    return 0


if __name__ == "__main__":
    sys.exit(main())
