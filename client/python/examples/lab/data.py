"""Training text: the bytes of the repository's own documents and sources.

A batch is a pure function of (seed, step, data rank), so that a run can go back to a checkpoint, or
be repeated, without any state of a reader.
"""

from __future__ import annotations

import pathlib

import numpy as np
import torch

VOCABULARY = 128  # 7-bit bytes; others become "?"
SUFFIXES = (".md", ".proto", ".h", ".cc")
FOLDERS = ("docs", "proto", "daemon")


def read_text(root: pathlib.Path) -> np.ndarray:
    """All text below `root`'s docs, proto and daemon folders, in path order: uint8 [bytes] < 128.

    Raises:
        ValueError: fewer than 100 000 bytes were found.
    """
    files = sorted(
        path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES
    )
    text = np.frombuffer(b"".join(path.read_bytes() for path in files), dtype=np.uint8).copy()
    text[text >= VOCABULARY] = ord("?")
    if len(text) < 100_000:
        raise ValueError(
            f"training text: {len(text)} bytes in {', '.join(FOLDERS)} of {root}; "
            "at least 100 000 are needed, give --text another folder"
        )
    return text


class Batches:
    """Windows of the text at random places.

    Args:
        text: uint8 [bytes].
        seed: of the run.
        sequences: per data rank and step.
        length: tokens of a sequence.
        vocabulary: tokens of the text are smaller.
    """

    def __init__(
        self, text: np.ndarray, seed: int, sequences: int, length: int,
        vocabulary: int = VOCABULARY,
    ) -> None:
        self._text = text
        self._seed = seed
        self._sequences = sequences
        self._offsets = np.arange(length + 1)
        self._vocabulary = vocabulary

    def at(
        self, step: int, data_rank: int, scale: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of a step, int64 [sequences * scale, length] each."""
        random = np.random.default_rng([self._seed, step, data_rank])
        sequences = max(1, round(self._sequences * scale))
        starts = random.integers(0, len(self._text) - len(self._offsets), sequences)
        return _split(self._text[starts[:, None] + self._offsets])

    def noise_at(self, step: int, data_rank: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The same shapes, filled with random bytes: a corrupt batch."""
        random = np.random.default_rng([self._seed, step, data_rank, 1])
        shape = (self._sequences, len(self._offsets))
        return _split(random.integers(0, self._vocabulary, shape))


def _split(windows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.from_numpy(windows.astype(np.int64))
    return tokens[:, :-1], tokens[:, 1:]
