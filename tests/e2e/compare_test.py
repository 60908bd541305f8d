#!/usr/bin/env python3
"""foreshock compare and fidelity on recorded runs: from captures, and through a daemon.

    tests/e2e/compare_test.py FORESHOCKD FORESHOCK
"""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

from daemon_process import Daemon, cli  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = sorted((ROOT / "rules").glob("*.yaml"))
FOLDER = ROOT / "tests/data/captures"
HEALTHY, ROUTER, LRRAMP = (FOLDER / f"{name}.fscap"
                           for name in ("h_const_101", "f_router_231", "f_lrramp_211"))
FORESHOCKD, FORESHOCK = "", ""


def rules():
    return [word for rule in RULES for word in ("--rules", rule)]


def four(full_healthy, full_fault, proxy_healthy, proxy_fault):
    return ["--full-healthy", full_healthy, "--full-fault", full_fault,
            "--proxy-healthy", proxy_healthy, "--proxy-fault", proxy_fault]


class CompareTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="foreshock_compare_")
        cls.folder = pathlib.Path(cls.directory.name)
        cls.daemon = Daemon(FORESHOCKD, cls.directory.name, rules=RULES).start()
        for capture in (HEALTHY, ROUTER, LRRAMP):
            cli(FORESHOCK, "replay", capture, "--run", capture.stem, server=cls.daemon.grpc,
                http=cls.daemon.http, check=0)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__(None, None, None)
        cls.directory.cleanup()

    def ask(self, *arguments, check=0):
        return cli(FORESHOCK, *arguments, server=self.daemon.grpc, http=self.daemon.http,
                   check=check)

    def compare(self, *arguments):
        return json.loads(self.ask("compare", *arguments, "-o", "json").stdout)

    def fidelity(self, *arguments, check=0):
        return json.loads(self.ask("fidelity", *arguments, "-o", "json", check=check).stdout)

    def test_a_run_does_not_differ_from_itself(self):
        answer = self.compare(HEALTHY, HEALTHY)
        self.assertGreater(len(answer["series"]), 50)
        self.assertEqual([i for i in answer["indicators"] if i["since"] is not None], [])

    def test_a_capture_and_the_stored_run_of_it_are_the_same(self):
        # Another learning rate of the ramp is seen from where it begins, not before.
        by_capture = self.compare(HEALTHY, LRRAMP, "--indicators", "train.*")
        by_store = self.compare(HEALTHY.stem, LRRAMP.stem, "--indicators", "train.*")
        since = {i["indicator"]: i["since"] for i in by_capture["indicators"]}
        self.assertGreater(since["train.lr"], 300)
        # The clock of a step is that of the daemon's, and spikes are scored over it.
        for answer in (by_capture, by_store):
            for kind in ("indicators", "series"):
                answer[kind] = [one for one in answer[kind] if "step_seconds" not in one["indicator"]]
        self.assertEqual([i["indicator"] for i in by_capture["indicators"]],
                         [i["indicator"] for i in by_store["indicators"]])
        for one, other in zip(by_capture["series"], by_store["series"], strict=True):
            self.assertEqual((one["indicator"], one["where"], one["points"], one["since"]),
                             (other["indicator"], other["where"], other["points"], other["since"]))
            # Stored as float32.
            self.assertAlmostEqual(one["difference"], other["difference"],
                                   delta=1e-5 * abs(one["difference"]) + 1e-9)

    def test_by_tokens_and_as_a_table(self):
        table = self.ask("compare", HEALTHY, ROUTER.stem, "--by", "tokens", "--indicators",
                         "router.token_entropy*,train.loss").stdout
        self.assertIn("router.token_entropy", table)
        self.assertIn("SINCE TOKEN", table)

    def test_the_same_fault_in_both_passes(self):
        for runs, options in (((HEALTHY, ROUTER, HEALTHY, ROUTER), rules()),
                              ((HEALTHY.stem, ROUTER.stem, HEALTHY.stem, ROUTER.stem), [])):
            answer = self.fidelity(*four(*runs), "--fault-from", "500", *options)
            self.assertEqual(answer["verdict"], "pass", answer["criteria"])
            self.assertEqual(answer["full_fault"], "router_collapse")
            judged = [one for one in answer["indicators"] if one["judged"]]
            self.assertTrue(judged)
            for one in judged:
                if one["direction"] != "undefined":
                    self.assertEqual(one["full_slope"], one["proxy_slope"])
            self.assertEqual({c["name"]: c["verdict"] for c in answer["criteria"]}["onset"], "pass")

    def test_another_fault_is_another_type(self):
        answer = self.fidelity(*four(HEALTHY.stem, ROUTER.stem, HEALTHY.stem, LRRAMP.stem),
                               "--fault-from", "500", check=1)
        self.assertEqual(answer["verdict"], "fail")
        criteria = {c["name"]: c for c in answer["criteria"]}
        self.assertEqual(criteria["type"]["verdict"], "fail")
        self.assertIn("router_collapse", criteria["type"]["reason"])
        table = self.ask("fidelity", *four(HEALTHY.stem, ROUTER.stem, HEALTHY.stem, LRRAMP.stem),
                         check=1).stdout
        self.assertIn("the proxy does not answer the fault", table)
        self.assertIn("onset (not required)", table)

    def test_a_healthy_proxy_that_is_warned_about_is_not_quiet(self):
        answer = self.fidelity(*four(HEALTHY.stem, ROUTER.stem, LRRAMP.stem, ROUTER.stem), check=1)
        criteria = {c["name"]: c for c in answer["criteria"]}
        self.assertEqual(criteria["quiet"]["verdict"], "fail")

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_pictures_are_drawn(self):
        picture = self.folder / "compare.svg"
        self.ask("compare", HEALTHY.stem, LRRAMP.stem, "--indicators", "train.*", "--plot", picture)
        self.assertIn("train.lr", picture.read_text())
        picture = self.folder / "fidelity.png"
        self.ask("fidelity", *four(HEALTHY.stem, ROUTER.stem, HEALTHY.stem, ROUTER.stem),
                 "--fault-from", "500", "--plot", picture)
        self.assertTrue(picture.read_bytes().startswith(b"\x89PNG"))

    def test_wrong_usage_and_bad_input_are_told(self):
        names = four(HEALTHY.stem, ROUTER.stem, HEALTHY.stem, ROUTER.stem)
        captures = four(HEALTHY, ROUTER, HEALTHY, ROUTER)
        cases = [
            (["compare", "nobody", HEALTHY.stem], 1, "nobody"),
            (["compare", HEALTHY.stem], 2, "RUN_B"),
            (["compare", HEALTHY, self.folder / "nowhere.fscap"], 1, "nowhere.fscap"),
            (["compare", HEALTHY, ROUTER, "--indicators", "rl.*"], 1, "have no series of the same"),
            (["compare", HEALTHY, ROUTER, "--by", "hours"], 2, "--by"),
            (["compare", HEALTHY, ROUTER, "--plot", "a.pdf"], 2, "must end in .svg or .png"),
            (["fidelity", *captures], 2, "captures hold no alerts: give --rules"),
            (["fidelity", *names, *rules()], 2, "--rules is for captures"),
            (["fidelity", *names[:-1], "nobody"], 1, "nobody"),
            (["fidelity", *names, "--fault-from", "99999"], 1, "is said to begin at step 99999"),
            (["fidelity", *captures, *rules(), "--indicators", "rl.*"], 1,
             "has no such series"),
        ]
        for arguments, code, text in cases:
            done = self.ask(*arguments, check=code)
            self.assertIn(text, done.stderr, arguments)
        done = cli(FORESHOCK, "compare", "a", "b", server="127.0.0.1:1", check=3)
        self.assertIn("no answer from foreshockd", done.stderr)


if __name__ == "__main__":
    FORESHOCK = sys.argv.pop(2)
    FORESHOCKD = sys.argv.pop(1)
    unittest.main()
