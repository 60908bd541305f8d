#!/usr/bin/env python3
"""`make run ONCE=1`, without the building: a newcomer sees the warning before the break."""

import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ""


class Demo(unittest.TestCase):

    def run_demo(self, **environment):
        environment = {**os.environ, "ONCE": "1", "BIN": BIN, "NO_COLOR": "1", **environment}
        return subprocess.run(["bash", str(ROOT / "deploy/demo.sh")], env=environment, cwd=ROOT,
                              capture_output=True, text=True, timeout=240, check=False)

    def test_faulty_run_warns_before_the_break_and_a_quiet_one_does_not(self):
        faulty = self.run_demo()
        self.assertEqual(faulty.returncode, 0, faulty.stdout + faulty.stderr)
        self.assertIn("low_precision_attention", faulty.stdout)
        self.assertRegex(faulty.stdout, r"warned \d[\d ]* steps before the loss broke")
        quiet = self.run_demo(CAPTURE=str(ROOT / "tests/data/captures/h_const_101.fscap"))
        self.assertEqual(quiet.returncode, 1, quiet.stdout + quiet.stderr)
        self.assertIn("quiet: no warning, and the loss has not broken", quiet.stdout)

    def test_unreadable_capture_is_named(self):
        done = self.run_demo(CAPTURE="nonesuch.fscap")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nonesuch.fscap", done.stderr)


if __name__ == "__main__":
    BIN = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
