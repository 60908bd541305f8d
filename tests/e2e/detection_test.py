#!/usr/bin/env python3
"""The default pack on logs of runs that it has never seen, made anew from each kind of trouble.

    tests/e2e/detection_test.py FORESHOCKD FORESHOCK

Every kind is written as a log with three seeds, imported and judged as a person would do it. A kind
says from which row to which it must be told, whether it must page, or that the run is healthy.
"""

import csv
import dataclasses
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACK = [str(ROOT / "rules/default.yaml"), str(ROOT / "rules/signatures.yaml")]
FORESHOCK = None
SEEDS = (1, 2, 3)


@dataclasses.dataclass
class Kind:
    """Rows of columns, and what must be told of them (rows count from 0)."""
    rows: list
    told: tuple = None    # first and last row at which the first warning may come; None: none may
    page: tuple = None    # the same for the first page; None: none may
    rule: str = None      # an alert that must have fired


def noise(rng, spread):
    return math.exp(rng.gauss(0, spread))


def descent(row, start=10.0, end=2.5, length=300.0):
    return end + (start - end) * math.exp(-row / length)


def healthy_pretraining(rng):
    return Kind([{"loss": descent(i) * noise(rng, 0.01), "grad_norm": 0.4 * noise(rng, 0.2),
                  "lr": min(i / 100, 1) * 3e-4} for i in range(4000)])


def healthy_noisy_finetuning(rng):
    walk, rows = 0.0, []
    for i in range(3000):
        walk = 0.85 * walk + rng.gauss(0, 0.08)
        rows.append({"loss": (0.3 + 1.5 * math.exp(-i / 60)) * math.exp(walk), "grad_norm": noise(rng, 0.5)})
    return Kind(rows)


def healthy_two_kinds_of_batches(rng):
    return Kind([{"loss": descent(i, 7, 2, 200) * (2.0 if rng.random() < 0.4 else 1.0) * noise(rng, 0.02)}
                 for i in range(2000)])


def healthy_gradients_that_grow(rng):
    return Kind([{"loss": descent(i, 8, 1, 500) * noise(rng, 0.02),
                  "grad_norm": 0.05 * math.exp(i / 800) * noise(rng, 0.2)} for i in range(2500)])


def healthy_new_cadence(rng):
    """A hundred rows of single steps, then one row in five hundred steps: all that moves has moved."""
    rows = [{"step": i, "loss": 11 - 0.01 * i + rng.gauss(0, 0.02), "grad_norm": 0.4 * noise(rng, 0.05)}
            for i in range(100)]
    rows += [{"step": 500 * i, "loss": descent(i, 6, 3, 40) * noise(rng, 0.01),
              "grad_norm": 4 * noise(rng, 0.1)} for i in range(1, 500)]
    return Kind(rows)


def healthy_policy_loss(rng):
    return Kind([{"loss": rng.gauss(0, 0.01), "grad_norm": 0.3 * noise(rng, 0.4),
                  "reward_mean": min(0.8, 0.3 + i / 1000) + rng.gauss(0, 0.08),
                  "reward_std": 0.3 * noise(rng, 0.1)} for i in range(1500)])


def healthy_short_spikes(rng):
    def spike(i):
        since = i % 437
        return 1 + 0.6 * 0.5 ** since if i > 437 and since < 12 else 1
    return Kind([{"loss": descent(i) * spike(i) * noise(rng, 0.01)} for i in range(3000)])


def optional_metric_undefined(rng):
    return Kind([{"loss": 0.5 * noise(rng, 0.02), "grad_norm": 0.8 * noise(rng, 0.2),
                  "rewards_margins": math.nan if rng.random() < 0.2 else rng.gauss(0.4, 0.1)}
                 for i in range(800)])


def level_lost(rng):
    return Kind([{"loss": descent(i) * (2.4 if i >= 2000 else 1) * noise(rng, 0.01)} for i in range(4000)],
                told=(2000, 2004), page=(2004, 2060), rule="unknown_loss_level")


def level_lost_in_a_descent(rng):
    return Kind([{"loss": (2.4 - 0.004 * min(i, 280) if i < 280 else 1.65) * noise(rng, 0.005)}
                 for i in range(700)], told=(280, 290), page=(284, 360), rule="unknown_loss_level")


def level_lost_early(rng):
    return Kind([{"loss": 2 * (3 if i >= 14 else 1) * noise(rng, 0.02)} for i in range(120)],
                told=(14, 24), page=(18, 119), rule="unknown_loss_level")


def slow_rise(rng):
    return Kind([{"loss": 0.7 * (1 + max(0, i - 1000) * 0.25 / 3000) * noise(rng, 0.04)}
                 for i in range(4000)], told=(1300, 3000), page=(1300, 3999), rule="loss_worse_than_best")


def gradients_creep(rng):
    return Kind([{"loss": descent(i, 10, 3, 250) * noise(rng, 0.01),
                  "grad_norm": 0.6 * math.exp(max(0, i - 1400) * math.log(7) / 900) * noise(rng, 0.15)}
                 for i in range(2300)], told=(1500, 2200), rule="optimizer_fault")


def gradients_explode(rng):
    return Kind([{"loss": 2 * noise(rng, 0.02),
                  "grad_norm": 10 ** (max(0, min(i - 600, 400)) / 40) * noise(rng, 0.1)}
                 for i in range(1500)], told=(600, 700), page=(700, 800), rule="optimizer_fault")


def gradient_nan(rng):
    return Kind([{"loss": 8.5 - 0.02 * i + rng.gauss(0, 0.02), "grad_norm": math.nan if i >= 7 else 3.0 + i / 10}
                 for i in range(60)], told=(7, 7), page=(7, 7), rule="grad_norm_nonfinite")


def all_nan(rng):
    del rng
    return Kind([{"loss": math.nan, "grad_norm": math.nan, "lr": 1e-4} for _ in range(300)],
                told=(0, 0), page=(0, 0), rule="loss_nonfinite")


def loss_zero(rng):
    return Kind([{"loss": descent(i, 1.6, 0.9, 200) * noise(rng, 0.05) if i < 900 else 0.0,
                  "grad_norm": 0.4 * noise(rng, 0.3) if i < 900 else math.nan} for i in range(1400)],
                told=(900, 909), page=(900, 909), rule="unknown_loss_zero")


def frozen_log(rng):
    return Kind([{"loss": 2 * noise(rng, 0.02) if i < 500 else 2.0123} for i in range(700)],
                told=(529, 529), rule="unknown_frozen")


def loss_scale_falls(rng):
    rows, scale = [], 65536.0
    for i in range(900):
        if i >= 500 and (i - 500) % 20 == 0:
            scale = max(1.0, scale / 2)
        rows.append({"loss": descent(i) * noise(rng, 0.01), "loss_scale": scale})
    return Kind(rows, told=(540, 640), page=(540, 640), rule="loss_scale_low")


def reward_collapses(rng):
    return Kind([{"loss": rng.gauss(0, 0.01), "reward_mean":
                  (0.3 + 0.5 * min(i, 200) / 200 if i < 200 else 0.35) + rng.gauss(0, 0.07)}
                 for i in range(500)], told=(200, 240), page=(200, 260), rule="reward_collapse")


def gradient_zero_while_rewards_differ(rng):
    return Kind([{"loss": 0.0, "grad_norm": 0.0, "reward_mean": rng.gauss(0.35, 0.08),
                  "reward_std": abs(rng.gauss(0.4, 0.05))} for _ in range(250)],
                told=(19, 120), rule="actor_update_omitted")


KINDS = [
    healthy_pretraining, healthy_noisy_finetuning, healthy_two_kinds_of_batches,
    healthy_gradients_that_grow, healthy_new_cadence, healthy_policy_loss, healthy_short_spikes,
    optional_metric_undefined, level_lost, level_lost_in_a_descent, level_lost_early, slow_rise,
    gradients_creep, gradients_explode, gradient_nan, all_nan, loss_zero, frozen_log,
    loss_scale_falls, reward_collapses, gradient_zero_while_rewards_differ,
]


def write_log(path, rows):
    """A CSV log with a step column; NaN is written as nan."""
    columns = ["step"] + [name for name in rows[0] if name != "step"]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        for row, values in enumerate(rows):
            writer.writerow({"step": values.get("step", row), **{
                name: f"{value:.6g}" for name, value in values.items() if name != "step"}})


class DetectionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name)
        cls.kinds = {}
        for make in KINDS:
            for seed in SEEDS:
                name = f"{make.__name__}-{seed}"
                kind = make(random.Random(f"{make.__name__} {seed}"))
                cls.kinds[name] = kind
                write_log(folder / f"{name}.csv", kind.rows)
                subprocess.run([FORESHOCK, "import", folder / f"{name}.csv", "-w",
                                folder / f"{name}.fscap", "--run", name], check=True, capture_output=True)
        answer = subprocess.run([FORESHOCK, "rules", "backtest", *PACK, "-c", folder, "-o", "json"],
                                capture_output=True, text=True, check=False)
        cls.runs = {run["name"]: run["alerts"] for run in json.loads(answer.stdout)["runs"]}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_kind_was_made(self):
        self.assertEqual(set(self.runs), set(self.kinds))

    def row_of(self, kind, step):
        return next((i for i, row in enumerate(kind.rows) if row.get("step", i) >= step), len(kind.rows))

    def first(self, kind, alerts, severities, key):
        steps = [alert[key] if alert[key] is not None else alert["firing_step"]
                 for alert in alerts if alert["severity"] in severities]
        return self.row_of(kind, min(steps)) if steps else None

    def check(self, name, what, first, allowed):
        if allowed is None:
            self.assertIsNone(first, f"{name}: a {what} at row {first}, none is allowed")
        else:
            self.assertIsNotNone(first, f"{name}: no {what}, rows {allowed} are allowed")
            self.assertTrue(allowed[0] <= first <= allowed[1],
                            f"{name}: the first {what} comes at row {first}, rows {allowed} are allowed")

    def test_warnings_and_pages(self):
        for name, kind in self.kinds.items():
            alerts = self.runs[name]
            with self.subTest(name):
                self.check(name, "warning", self.first(kind, alerts, ("warning", "critical"), "warning_step"),
                           kind.told)
                self.check(name, "page", self.first(kind, alerts, ("critical",), "critical_step"), kind.page)
                if kind.rule is not None:
                    self.assertIn(kind.rule, {alert["rule"] for alert in alerts}, name)

    def test_what_is_wrong_is_told_until_the_end(self):
        for name, kind in self.kinds.items():
            if kind.told is None:
                continue
            with self.subTest(name):
                self.assertTrue(any(alert["severity"] != "info" and alert["resolved_step"] is None
                                    for alert in self.runs[name]), name)


if __name__ == "__main__":
    FORESHOCK = str(pathlib.Path(sys.argv.pop(2)).resolve())
    sys.argv.pop(1)
    unittest.main()
