"""Synthetic pictures of ten classes for a vision transformer: coarse templates, moved, noisy."""

from __future__ import annotations

import numpy as np
import torch

CLASSES = 10
SIZE = 16  # pixels a side, one channel
NOISE = 1.6  # standard deviation beside templates of deviation 1
MOVES = 3  # pixels, at most


class Pictures:
    """The same interface as data.Batches: a pure function of (seed, step, data rank)."""

    def __init__(self, seed: int, pictures: int, dialect: int = 0) -> None:
        self._seed = seed
        self._pictures = pictures
        random = np.random.default_rng([11, dialect])
        coarse = random.standard_normal((CLASSES, SIZE // 4, SIZE // 4))
        self._templates = coarse.repeat(4, 1).repeat(4, 2).astype(np.float32)

    def at(
        self, step: int, data_rank: int, scale: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """float32 [pictures * scale, SIZE, SIZE] and their classes, int64."""
        random = np.random.default_rng([self._seed, step, data_rank])
        pictures = max(1, round(self._pictures * scale))
        classes = random.integers(0, CLASSES, pictures)
        moves = random.integers(-MOVES, MOVES + 1, (pictures, 2))
        rows = (np.arange(SIZE)[None, :] - moves[:, :1]) % SIZE
        columns = (np.arange(SIZE)[None, :] - moves[:, 1:]) % SIZE
        seen = self._templates[classes[:, None, None], rows[:, :, None], columns[:, None, :]]
        seen = seen + NOISE * random.standard_normal(seen.shape, dtype=np.float32)
        return torch.from_numpy(seen), torch.from_numpy(classes)

    def noise_at(self, step: int, data_rank: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Pictures of nothing, with classes."""
        random = np.random.default_rng([self._seed, step, data_rank, 1])
        size = (self._pictures, SIZE, SIZE)
        noise = NOISE * random.standard_normal(size, dtype=np.float32)
        return torch.from_numpy(noise), torch.from_numpy(random.integers(0, CLASSES, len(noise)))
