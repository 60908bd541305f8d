"""Joins the captures that the ranks and attempts of one run wrote into one, as a reader of whole
runs wants it (docs/formats/capture.md)."""

from __future__ import annotations

import os
import pathlib
from typing import Iterator, Sequence

import zstandard

from foreshock.recorder import FscapWriter
from foreshock.v1 import capture_pb2 as capture

HEADER_BYTES = 8


def read(path: pathlib.Path) -> Iterator[capture.CaptureRecord]:
    """The records of a .fscap file that is complete."""
    data = path.read_bytes()[HEADER_BYTES:]
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        content = reader.read()
    at = 0
    while True:
        size, shift = 0, 0
        while True:
            byte = content[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if size == 0:
            return
        yield capture.CaptureRecord.FromString(content[at : at + size])
        at += size


def join(attempts: Sequence[Sequence[str]], path: pathlib.Path) -> None:
    """Writes all records to `path`, attempt after attempt; those of the ranks of an attempt in
    turns, step by step. The parts are removed."""
    temporary = path.with_name(f"{path.name}.tmp")
    stream = 0
    with open(temporary, "wb") as file:
        out = FscapWriter(file)
        for ranks in attempts:
            records = [list(read(pathlib.Path(part))) for part in ranks]
            for at in range(max(map(len, records))):
                for rank, own in enumerate(records):
                    if at < len(own):
                        own[at].stream = stream + rank
                        out.write(own[at])
            stream += len(ranks)
        out.finish()
    for part in (part for ranks in attempts for part in ranks):
        os.unlink(part)
    os.replace(temporary, path)
