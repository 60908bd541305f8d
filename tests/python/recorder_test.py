#!/usr/bin/env python3
"""foreshock.Recorder: captures of both forms, complete or not there."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

import foreshock
from foreshock.v1 import capture_pb2 as capture
from google.protobuf import json_format


def read_jsonl(path):
    lines = pathlib.Path(path).read_text().splitlines()
    return [json_format.Parse(line, capture.CaptureRecord()) for line in lines]


def read_fscap(path):
    """By the zstd command and docs/formats/capture.md, not by the writer's code."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"FSCAP\r\n\x01"
    content = subprocess.run(["zstd", "-d", "-q", "-c"], input=data[8:], stdout=subprocess.PIPE,
                             check=True).stdout
    records, at = [], 0
    while True:
        length = shift = 0
        while True:
            byte = content[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if length == 0:
            assert at == len(content)
            return records
        records.append(capture.CaptureRecord.FromString(content[at : at + length]))
        at += length


class Recording(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_python_")
        self.addCleanup(temporary.cleanup)
        self.directory = temporary.name

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, path, steps=3, width=8):
        with foreshock.Recorder(path, run="r", launch_id="l", client_instance="c", rank=1,
                                world_size=2, model={"experts": width}) as recorder:
            for step in range(steps):
                counts = foreshock.payloads.router_load(0, np.arange(width) + step)
                recorder.report(step, {"loss": 2.0, "lr": float("nan")}, [counts],
                                time_unix_ns=step)

    def test_both_forms_hold_the_same_records(self):
        self.write(self.path("a.jsonl"))
        self.write(self.path("a.fscap"))
        records = read_jsonl(self.path("a.jsonl"))
        self.assertEqual([r.SerializeToString() for r in records],
                         [r.SerializeToString() for r in read_fscap(self.path("a.fscap"))])
        kinds = [r.message.WhichOneof("message") for r in records]
        self.assertEqual(kinds, ["hello", "report", "report", "report", "goodbye"])
        self.assertEqual([r.stream for r in records], [1] * 5)
        reports = [r.message.report for r in records[1:4]]
        self.assertEqual([r.seq for r in reports], [1, 2, 3])
        self.assertEqual([len(r.summaries[0].scalars.declare) for r in reports], [2, 0, 0])

    def test_many_frames(self):
        self.write(self.path("long.fscap"), steps=1500, width=512)  # about 6 MiB of content
        self.assertEqual(len(read_fscap(self.path("long.fscap"))), 1502)

    def test_the_name_appears_when_the_file_is_complete(self):
        recorder = foreshock.Recorder(self.path("b.jsonl"))
        recorder.report(0, {"loss": 1.0})
        self.assertFalse(os.path.exists(self.path("b.jsonl")))
        self.assertTrue(recorder.close())
        self.assertEqual(os.listdir(self.directory), ["b.jsonl"])
        self.assertFalse(recorder.report(1, {"loss": 1.0}))

    def test_an_exception_inside_is_a_failed_run(self):
        with self.assertRaises(RuntimeError):
            with foreshock.Recorder(self.path("c.jsonl")) as recorder:
                recorder.report(0, {"loss": 1.0})
                raise RuntimeError("boom")
        last = read_jsonl(self.path("c.jsonl"))[-1].message.goodbye
        self.assertEqual((last.outcome, last.detail), (2, "RuntimeError('boom')"))

    def test_other_endings_are_refused(self):
        with self.assertRaisesRegex(ValueError, "allowed: a name ending in .fscap or .jsonl"):
            foreshock.Recorder(self.path("c.bin"))
        self.assertEqual(os.listdir(self.directory), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
