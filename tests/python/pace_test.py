#!/usr/bin/python3
"""How often weights are sampled: by a budget, on a clock of the test's own."""

import itertools
import random
import unittest

import foreshock
import foreshock.sampling
from foreshock.pace import NOTCHES, YOUNG_STEPS, Pace


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def run(pace, clock, steps, step_seconds, sample_seconds):
    """(sampled steps, seconds spent on them, seconds in all); a sample is made when it is due."""
    sampled, begun, spent = [], clock.now, 0.0
    for step in range(steps):
        clock.now += step_seconds
        if step % pace.every == 0:
            with pace.cost():
                clock.now += sample_seconds
            spent += sample_seconds
            sampled.append(step)
        pace.tick()
    return sampled, spent, clock.now - begun


class PaceTest(unittest.TestCase):
    def test_what_costs_nothing_stays_fast(self):
        clock = Clock()
        pace = Pace(50, 0.5, clock)
        self.assertEqual(pace.every, 50 // NOTCHES[0])
        run(pace, clock, 5000, 1.0, 0.0001)
        self.assertEqual(pace.every, 10)

    def test_what_is_dear_slows_down_to_the_table_and_never_below(self):
        clock = Clock()
        pace = Pace(50, 0.5, clock)
        run(pace, clock, 5000, 0.01, 1.0)
        self.assertEqual(pace.every, 50)

    def test_a_young_run_may_spend_twice_the_budget(self):
        clock = Clock()
        pace = Pace(50, 0.5, clock)
        run(pace, clock, YOUNG_STEPS - 200, 1.0, 0.08)  # 0.8 % at every 10 steps
        self.assertEqual(pace.every, 10)
        run(pace, clock, 1000, 1.0, 0.08)
        self.assertEqual(pace.every, 25)

    def test_without_a_budget_the_cadence_is_the_given_one(self):
        for budget, every in ((0.0, 50), (0.0, 0), (5.0, 0)):
            pace = Pace(every, budget, Clock())
            self.assertEqual(pace.every, every)
            self.assertFalse(any(pace.tick() for _ in range(1000)))

    def test_law_the_share_of_a_grown_run_keeps_to_the_budget_or_the_table(self):
        rng = random.Random(7)
        for _ in range(50):
            budget = rng.choice([0.1, 0.5, 2.0])
            clock = Clock()
            pace = Pace(50, budget, clock)
            step, sample = 10 ** rng.uniform(-3, 1), 10 ** rng.uniform(-5, 0)
            run(pace, clock, YOUNG_STEPS + 1000, step, sample)
            before = pace.every
            sampled, spent, whole = run(pace, clock, 2000, step, sample)
            gaps = {b - a for a, b in itertools.pairwise(sampled)}
            self.assertLessEqual(max(gaps), 50)
            if pace.every < 50:
                self.assertLessEqual(spent / whole, 1.01 * budget / 100, (step, sample, budget))
                self.assertEqual(pace.every, before)  # it has settled

    def test_it_slows_down_one_notch_at_a_time(self):
        clock = Clock()
        pace = Pace(50, 0.5, clock)
        seen = [pace.every]
        for _ in range(1000):
            clock.now += 0.01
            with pace.cost():
                clock.now += 0.01
            if pace.tick():
                seen.append(pace.every)
        self.assertEqual(seen, [10, 25, 50])


class SamplingTest(unittest.TestCase):
    def test_a_given_cadence_wins(self):
        self.assertEqual(foreshock.Sampling().weights_budget, 0.5)
        self.assertEqual(foreshock.sampling.load({"spectra": {"every": 20}}).weights_budget, 0)
        self.assertEqual(foreshock.sampling.load({"budget": 0}).weights_budget, 0)
        self.assertEqual(foreshock.sampling.load({"budget": 2}).weights_budget, 2)

    def test_a_wrong_budget_is_named(self):
        for wrong in (-1, 101, "much", True):
            with self.assertRaisesRegex(ValueError, r"sampling\.budget is .*0 to 100"):
                foreshock.sampling.load({"budget": wrong})


if __name__ == "__main__":
    unittest.main()
