"""The converter of recorded runs, on a small recording made here."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "data" / "trace_to_capture.py"
SEED = 20261130

spec = importlib.util.spec_from_file_location("trace_to_capture", SCRIPT)
assert spec is not None and spec.loader is not None
converter = importlib.util.module_from_spec(spec)
sys.modules["trace_to_capture"] = converter
spec.loader.exec_module(converter)

LAYERS, HEADS, HEAD_DIM, HIDDEN, EXPERTS, RANKS = 2, 4, 2, 6, 5, 4
STEPS = [0, 1, 2, 3, 4, 5, 6, 7, 5, 6, 7, 8]  # resumes at 5
SNAPSHOT_ROWS = [0, 2, 4, 6, 9, 11]  # steps 0, 2, 4, 6, 6, 8
ROUTER_ROWS = [0, 5, 8]


def make_recording(path: pathlib.Path) -> dict[str, np.ndarray]:
    """A recording with a resume and a not-a-number, written to `path`."""
    random = np.random.default_rng(SEED)
    n, s, rows = len(STEPS), len(SNAPSHOT_ROWS), 2 * HEAD_DIM
    arrays: dict[str, np.ndarray] = {
        "step": np.array(STEPS, np.int32),
        "time": 1.7e9 + 0.25 * np.arange(n),
        "tokens": np.full(n, 514, np.int32),
        "rank_loss": random.random((n, RANKS)).astype(np.float32),
        "counts": random.integers(0, 300, (n, LAYERS, EXPERTS)).astype(np.uint16),
        "rstep": np.array([STEPS[r] for r in SNAPSHOT_ROWS]),
        "rrow": np.array(SNAPSHOT_ROWS),
        "logits": random.standard_normal((s, LAYERS, 2, 3, 4)).astype(np.float16),
        "max_logit": random.random((s, LAYERS, 2)).astype(np.float32),
        "gates": random.random((s, LAYERS, 7, EXPERTS)).astype(np.float16),
        "Wr": random.random((len(ROUTER_ROWS), LAYERS, EXPERTS, HIDDEN)).astype(np.float32),
        "wr_row": np.array(ROUTER_ROWS),
        "meta": np.array(
            json.dumps(
                {
                    "L": LAYERS, "H": HEADS, "dh": HEAD_DIM, "d": HIDDEN, "E": EXPERTS,
                    "topk": 2, "ranks": RANKS, "heads": [0, 2],
                }
            )
        ),
    }  # fmt: skip
    for name in ("loss", "gnorm", "gnorm_q", "gnorm_k", "gnorm_r", "lr", "aux"):
        arrays[name] = random.random(n).astype(np.float32)
    arrays["loss"][10] = np.nan
    for name in ("q", "k"):
        arrays[f"W{name}0"] = random.random((LAYERS, rows, HIDDEN)).astype(np.float32)
        arrays[f"dW{name}"] = random.random((s, LAYERS, rows, HIDDEN)).astype(np.float16)
        arrays[f"d{name}_scale"] = random.random((s, LAYERS)).astype(np.float32)
    np.savez(path, **arrays)
    return arrays


class ConverterTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.npz = self.folder / "run.npz"
        self.arrays = make_recording(self.npz)

    def records(self, **changes: object) -> list[object]:
        options = {"run": "r", "layers": [0, 1], "snapshot_every": 0, "factors_every": 0}
        options.update(changes)
        recording = converter.Recording(str(self.npz))
        return list(converter.Converter(recording, converter.Options(**options)).records())

    def reports(self, stream: int, **changes: object) -> list[object]:
        return [
            r.message.report
            for r in self.records(**changes)
            if r.stream == stream and r.message.HasField("report")
        ]

    def convert(self, name: str, *options: str) -> bytes:
        out = self.folder / name
        subprocess.run([SCRIPT, self.npz, out, *options], check=True)
        return out.read_bytes()

    def test_the_same_recording_gives_the_same_bytes(self) -> None:
        for name in ("a.fscap", "a.jsonl"):
            self.assertEqual(self.convert(name), self.convert("again-" + name))

    def test_fscap_holds_the_records_framed(self) -> None:
        file = self.convert("a.fscap", "--run", "r")
        self.assertEqual(file[:8], b"FSCAP\r\n\x01")
        content = subprocess.run(
            ["zstd", "-dc"], input=file[8:], stdout=subprocess.PIPE, check=True
        ).stdout
        expected = b"".join(
            converter.varint(len(data)) + data
            for data in (r.SerializeToString(deterministic=True) for r in self.records())
        )
        self.assertEqual(content, expected + b"\0")

    def test_jsonl_holds_one_record_a_line(self) -> None:
        from google.protobuf import json_format

        lines = self.convert("a.jsonl", "--run", "r").decode().splitlines()
        parsed = [json_format.Parse(line, converter.capture.CaptureRecord()) for line in lines]
        # Compared as bytes: a message that holds a NaN is not equal to itself.
        self.assertEqual(
            [p.SerializeToString(deterministic=True) for p in parsed],
            [r.SerializeToString(deterministic=True) for r in self.records()],
        )

    def test_a_step_that_goes_back_is_a_new_launch(self) -> None:
        records = self.records()
        hellos = [r.message.hello for r in records if r.message.HasField("hello")]
        self.assertEqual(len(hellos), 16)
        self.assertEqual([h.rank for h in hellos], list(range(8)) * 2)
        self.assertEqual({h.launch_id for h in hellos}, {"r-launch-1", "r-launch-2"})
        self.assertEqual(len({h.client_instance for h in hellos}), 16)
        self.assertFalse(any(h.HasField("resume_step") for h in hellos[:8]))
        self.assertEqual({h.resume_step for h in hellos[8:]}, {5})
        self.assertEqual((hellos[5].coordinates.data, hellos[5].coordinates.tensor), (1, 1))
        goodbyes = [r.stream for r in records if r.message.HasField("goodbye")]
        self.assertEqual(goodbyes, list(range(8, 16)))
        for stream, steps in ((3, STEPS[:8]), (11, STEPS[8:])):
            reports = self.reports(stream)
            self.assertEqual([r.step for r in reports], steps)
            self.assertEqual([r.seq for r in reports], list(range(1, len(steps) + 1)))
            self.assertTrue(all(r.last_of_step for r in reports))

    def test_shares_of_counts_and_tokens_add_up_and_are_even(self) -> None:
        total = np.zeros((LAYERS, EXPERTS), np.int64)
        sums = []
        tokens = []
        for data in range(RANKS):
            report = self.reports(data)[3]
            tokens.append(report.tokens)
            self.assertEqual(self.reports(RANKS + data)[3].tokens, report.tokens)
            loads = [s.router_load for s in report.summaries if s.HasField("router_load")]
            self.assertEqual([load.layer for load in loads], [0, 1])
            counts = np.stack([np.frombuffer(load.counts.data, "<i8") for load in loads])
            sums.append(counts.sum(axis=1))
            total += counts
        np.testing.assert_array_equal(total, self.arrays["counts"][3])
        self.assertLessEqual(np.ptp(np.stack(sums), axis=0).max(), 1)
        self.assertEqual(sum(tokens), 514)

    def test_scalars_are_declared_once_and_nan_passes_through(self) -> None:
        names = {}
        for stream in (0, 8):
            batches = [r.summaries[0].scalars for r in self.reports(stream)]
            self.assertEqual(len(batches[0].declare), 9)
            self.assertFalse(any(b.declare for b in batches[1:]))
            names = {(d.name, d.scope): d.id for d in batches[0].declare}
        batch = self.reports(8)[2].summaries[0].scalars  # row 10
        values = dict(zip(batch.ids, batch.values))
        global_loss = names[("loss", converter.types.SCOPE_GLOBAL)]
        rank_loss = names[("loss", converter.types.SCOPE_RANK)]
        self.assertTrue(np.isnan(values[global_loss]))
        self.assertEqual(values[rank_loss], float(self.arrays["rank_loss"][10, 0]))
        self.assertEqual(values[names[("tokens", converter.types.SCOPE_GLOBAL)]], 514)
        self.assertEqual(
            values[names[("grad_norm_router", converter.types.SCOPE_GLOBAL)]],
            float(self.arrays["gnorm_r"][10]),
        )

    def test_weights_are_the_float32_sums_of_the_head_the_rank_holds(self) -> None:
        weights = self.arrays["Wq0"].copy()
        for i in range(4):  # up to the snapshot of step 6 of the first attempt
            increment = self.arrays["dWq"][i].astype(np.float32)
            weights = weights + increment * self.arrays["dq_scale"][i][:, None, None]
        for tensor_rank, head in ((0, 0), (1, 2)):
            report = self.reports(RANKS * tensor_rank)[6]
            factors = [s.qk_factors for s in report.summaries if s.HasField("qk_factors")][1]
            self.assertEqual((factors.layer, list(factors.heads)), (1, [head]))
            self.assertTrue(factors.fp32_master)
            self.assertEqual(list(factors.q.dense.shape), [1, HEAD_DIM, HIDDEN])
            rows = slice(tensor_rank * HEAD_DIM, (tensor_rank + 1) * HEAD_DIM)
            self.assertEqual(factors.q.dense.data, weights[1, rows].tobytes())

    def test_thinning_keeps_what_it_says_and_declares_it(self) -> None:
        reports = self.reports(0, layers=[1], snapshot_every=2, factors_every=4)
        shown = {
            kind: [r.step for r in reports if any(s.HasField(kind) for s in r.summaries)]
            for kind in ("qk_factors", "attention_logits", "router_gates", "router_weights")
        }
        self.assertEqual(
            shown,
            {
                "qk_factors": [0, 4],
                "attention_logits": [0, 2, 4, 6],
                "router_gates": [0, 2, 4, 6],
                "router_weights": [0, 5],
            },
        )
        hello = self.records(layers=[1], snapshot_every=2, factors_every=4)[0].message.hello
        plan = {p.kind: (list(p.layers), p.every_steps, p.phase_step) for p in hello.plan}
        self.assertEqual(plan[converter.types.SUMMARY_KIND_QK_FACTORS], ([1], 4, 0))
        self.assertEqual(plan[converter.types.SUMMARY_KIND_ROUTER_GATES], ([1], 2, 0))
        self.assertEqual(plan[converter.types.SUMMARY_KIND_SCALARS], ([], 1, 0))

    def test_bad_calls_are_refused(self) -> None:
        for options in (
            [self.npz, self.folder / "a.bin"],
            [self.folder / "missing.npz", self.folder / "a.fscap"],
            [self.npz, self.folder / "a.fscap", "--layers", "0,9"],
            [self.npz, self.folder / "a.fscap", "--snapshot-every", "-1"],
        ):
            done = subprocess.run([SCRIPT, *options], stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 2, options)
            self.assertTrue(done.stderr)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["run.npz"])


if __name__ == "__main__":
    unittest.main()
