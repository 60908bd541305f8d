#!/usr/bin/env python3
"""Balanced Gram matrices: what the daemon reads off them equals the plain singular values."""

import unittest

import numpy as np
import torch

from foreshock.gram import balanced_grams

SEED = 7


def full(packed, size):
    matrix = np.zeros((size, size))
    matrix[np.tril_indices(size)] = packed
    return matrix + np.tril(matrix, -1).T


def effective_rank(squares):
    p = squares[squares > 0] / squares.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def from_grams(gram_a, gram_b):
    """Squared singular values of A B^T from A^T A and B^T B."""
    values, vectors = np.linalg.eigh(gram_a)
    root = vectors * np.sqrt(np.clip(values, 0, None))
    return np.clip(np.linalg.eigvalsh(root.T @ gram_b @ root), 0, None)


class Balanced(unittest.TestCase):
    def windows(self, d, r, size, heads=3, scale=1.0, dtype=torch.float32):
        generator = torch.Generator().manual_seed(SEED)

        def draw():
            return torch.randn(heads, r, d, generator=generator) * scale

        q, k = draw().to(dtype), draw().to(dtype)
        return q, (q + size * draw()).to(dtype), k, (k + size * draw()).to(dtype)

    def check(self, q0, q1, k0, k1):
        grams = balanced_grams(q0, q1, k0, k1)
        r = q0.shape[1]
        for head in range(q0.shape[0]):
            q, k = q0[head].double().numpy().T, k0[head].double().numpy().T
            dq, dk = q1[head].double().numpy().T - q, k1[head].double().numpy().T - k
            delta2 = dq @ k.T + q @ dk.T
            squares = np.linalg.svd(delta2, compute_uv=False)[: 2 * r] ** 2
            a, b = (full(g[head].numpy(), 2 * r) for g in (grams.gram_a, grams.gram_b))
            got = from_grams(a, b)
            self.assertLess(abs(effective_rank(got) / effective_rank(squares) - 1), 1e-9)
            self.assertLess(abs(got.sum() / squares.sum() - 1), 1e-9)
            scale_a, scale_q = float(grams.a[head]), float(grams.q[head])
            for scale in (scale_a, scale_q):
                self.assertEqual(np.frexp(scale)[0], 0.5, scale)
            np.testing.assert_allclose(a[:r, :r] * scale_a**2, dq.T @ dq, rtol=1e-9,
                                       atol=1e-13 * (dq**2).sum())
            np.testing.assert_allclose(b[:r, :r] / scale_a**2, k.T @ k, rtol=1e-9,
                                       atol=1e-13 * (k**2).sum())
            np.testing.assert_allclose(b[r:, r:] / scale_q**2, dk.T @ dk, rtol=1e-9,
                                       atol=1e-13 * (dk**2).sum())
            # Balanced: neither half of A' drowns the other.
            self.assertLess(abs(np.log2(np.trace(a[:r, :r]) / np.trace(a[r:, r:]))), 2.01)

    def test_equals_the_singular_values(self):
        for d, r, size in [(64, 8, 1e-1), (64, 8, 1e-4), (48, 16, 1e-3), (20, 16, 1e-2)]:
            with self.subTest(d=d, r=r, size=size, seed=SEED):
                self.check(*self.windows(d, r, size))

    def test_weights_of_any_size_and_type(self):
        self.check(*self.windows(40, 8, 1e-2, scale=1e-12, dtype=torch.float64))
        self.check(*self.windows(40, 8, 1e-2, scale=1e12, dtype=torch.float64))
        self.check(*self.windows(40, 8, 1e-1, dtype=torch.bfloat16))

    def test_one_side_that_did_not_change(self):
        q0, q1, k0, k1 = self.windows(40, 8, 1e-2)
        for same in ((q0, q0, k0, k1), (q0, q1, k0, k0)):
            grams = balanced_grams(*same)
            for gram in (grams.gram_a, grams.gram_b):
                self.assertTrue(torch.isfinite(gram).all())
            self.assertTrue(all(np.frexp(float(x))[0] == 0.5 for x in (*grams.a, *grams.q)))

    def test_nothing_changed_or_not_finite_still_has_lawful_scales(self):
        q0, q1, k0, k1 = self.windows(40, 8, 1e-2)
        q1[1, 0, 0] = float("nan")
        k1[2, 0, 0] = float("inf")
        for windows in ((q0, q0, k0, k0), (q0 * 0, q0 * 0, k0, k1), (q0, q1, k0, k1)):
            grams = balanced_grams(*windows)
            self.assertTrue(all(np.frexp(float(x))[0] == 0.5 for x in (*grams.a, *grams.q)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
