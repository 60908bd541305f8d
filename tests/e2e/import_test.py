#!/usr/bin/env python3
"""foreshock import, through the built programs: every form of log becomes a capture that backtest judges
and the daemon takes.

    tests/e2e/import_test.py FORESHOCKD FORESHOCK
"""

import csv
import json
import math
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

from daemon_process import Daemon, cli  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACK = [ROOT / "rules/default.yaml", ROOT / "rules/signatures.yaml"]
FORESHOCKD, FORESHOCK = "", ""

# A run that is ill from step 300 on: the loss runs away, a NaN at 450; then it is resumed at 250.
FAULT_FROM, NAN_AT, LAST, RESUMED_AT = 300, 450, 500, 250


def loss_at(step):
    if step == NAN_AT:
        return math.nan
    healthy = 2.0 + 3.0 * math.exp(-step / 50) + 0.01 * math.sin(step)
    return healthy + max(0, step - FAULT_FROM) * 0.05


def rows():
    """(step, loss, grad norm, lr) of the first attempt, then of the resumed one, which is healthy."""
    for step in range(1, LAST + 1):
        yield step, loss_at(step), 1 + 0.1 * math.cos(step) + max(0, step - FAULT_FROM) * 0.1, 3e-4
    for step in range(RESUMED_AT, FAULT_FROM):
        yield step, loss_at(step), 1 + 0.1 * math.cos(step), 3e-4


def write_megatron(path):
    with open(path, "w") as file:
        file.write("building GPT model ...\n")
        for step, loss, grad_norm, lr in rows():
            file.write(
                f" iteration {step:8d}/{LAST:8d} | consumed samples: {step * 256:12d} | elapsed time "
                f"per iteration (ms): 512.3 | learning rate: {lr:.6E} | global batch size:   256 | "
                f"lm loss: {loss:.9E} | loss scale: 1.0 | grad norm: {grad_norm:.6f} | number of "
                f"skipped iterations:   0 | number of nan iterations:   {int(math.isnan(loss))} |\n")


def write_jsonl(path):
    with open(path, "w") as file:
        for step, loss, grad_norm, lr in rows():
            file.write(json.dumps({"global_step": step, "train": {"loss": loss, "lr": lr},
                                   "grad_norm": grad_norm, "phase": "train"}) + "\n")


def write_csv(path):
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["Step", "train loss", "grad-norm", "learning_rate"])
        out.writerows(rows())


class Import(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="foreshock_import_")
        cls.folder = pathlib.Path(cls.directory.name)
        cls.logs = {"megatron": cls.folder / "train.log", "jsonl": cls.folder / "metrics.jsonl",
                    "csv": cls.folder / "scalars.csv"}
        write_megatron(cls.logs["megatron"])
        write_jsonl(cls.logs["jsonl"])
        write_csv(cls.logs["csv"])

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def load(self, form, ending=".fscap"):
        """The capture of a form and what the command says of it."""
        out = self.folder / f"{form}{ending}"
        done = cli(FORESHOCK, "import", self.logs[form], "-w", out, "--run", form, "-o", "json",
                   check=0)
        return out, json.loads(done.stdout)

    def test_every_form_gives_the_same_run(self):
        said = {}
        for form in self.logs:
            said[form] = self.load(form)[1]
            self.assertEqual(said[form]["steps"], LAST + FAULT_FROM - RESUMED_AT, form)
            self.assertEqual([(a["first_step"], a["last_step"]) for a in said[form]["attempts"]],
                             [(1, LAST), (RESUMED_AT, FAULT_FROM - 1)], form)
            self.assertEqual(said[form]["nonfinite"], 1, form)
            self.assertIn(f"loss is nan at step {NAN_AT}", said[form]["first_nonfinite"])
            self.assertEqual(said[form]["not_understood"], 0, said[form]["first_not_understood"])
            self.assertLessEqual({"loss", "grad_norm", "lr"}, said[form]["scalars"].keys(), form)
        self.assertEqual(said["megatron"]["scalars"]["loss"], "lm loss")
        self.assertEqual(said["megatron"]["other_lines"], 1)
        self.assertEqual(said["jsonl"]["scalars"]["loss"], "train/loss")
        self.assertEqual(said["jsonl"]["left_out"], {"phase": "`train` is no number"})

    def test_backtest_warns_by_the_loss_and_finds_the_nan(self):
        verdicts = {}
        for form in self.logs:
            out, _ = self.load(form)
            done = cli(FORESHOCK, "rules", "backtest", *PACK, "-c", out, "--fault-from", FAULT_FROM,
                       "-o", "json", check=0)
            run, = json.loads(done.stdout)["runs"]
            alerts = {(alert["rule"], alert.get("attempt"), int(alert["firing_step"]))
                      for alert in run["alerts"]}
            self.assertIn(("loss_nonfinite", 1, NAN_AT), alerts, form)
            names = {rule for rule, _, _ in alerts}
            self.assertIn("loss_level_high", names, form)
            self.assertEqual(run["steps"], LAST + FAULT_FROM - RESUMED_AT, form)
            first = min(step for _, attempt, step in alerts if attempt == 1)
            self.assertGreaterEqual(first, FAULT_FROM, form)
            verdicts[form] = alerts
        # The CSV and the JSONL have all digits of the loss, the text log ten.
        self.assertEqual(verdicts["jsonl"], verdicts["csv"])

    def test_a_lead_below_zero_is_told_as_such(self):
        late = self.folder / "late.yaml"
        late.write_text("groups: [{name: g, rules: [{alert: a, indicator: train.loss, "
                        "threshold: {above: 8}, labels: {severity: warning}}]}]\n")
        out, _ = self.load("csv")
        done = cli(FORESHOCK, "rules", "backtest", late, "-c", out, "--fault-from", FAULT_FROM)
        self.assertRegex(done.stdout, r"median lead -\d+ steps")

    def test_the_daemon_takes_it_and_has_the_values(self):
        with Daemon(FORESHOCKD, self.folder, rules=PACK) as daemon:
            at = {"server": daemon.grpc, "http": daemon.http}
            for form, ending in (("megatron", ".fscap"), ("csv", ".jsonl")):
                out, _ = self.load(form, ending)
                said = json.loads(cli(FORESHOCK, "replay", out, "-o", "json", check=0,
                                      **at).stdout)
                self.assertEqual((said["run"], said["attempts"], said["rejected"]), (form, [1, 2], 0))
                answer = cli(FORESHOCK, "query", form, "train.loss", "--steps", "100:100", "-o",
                             "json", check=0, **at).stdout
                self.assertIn(f"{loss_at(100):.5f}", answer)
                alerts = cli(FORESHOCK, "alerts", "--run", form, "-o", "json", check=0, **at).stdout
                self.assertIn("loss_nonfinite", alerts)

    def test_files_go_on_in_one_run_and_columns_can_be_named(self):
        first, second = self.folder / "a.csv", self.folder / "b.csv"
        first.write_text("Wall time,Step,Value\n1772373751.5,1,3.5\n1772373752.5,2,3.25\n")
        second.write_text("Wall time,Step,Value\n1772373753.5,3,3.125\n")
        out = self.folder / "ab.jsonl"
        done = cli(FORESHOCK, "import", "--map", "Value=loss", first, second, "-w", out, check=0)
        self.assertIn("a: 3 steps in 1 attempt, 1 scalar, from 2 files", done.stdout)
        self.assertIn("train.loss is Value", done.stdout)
        reports = [json.loads(line)["message"]["report"] for line in
                   out.read_text().splitlines() if "report" in line]
        self.assertEqual([report["timeUnixNs"] for report in reports],
                         ["1772373751500000000", "1772373752500000000", "1772373753500000000"])

    def test_what_is_wrong_is_told_and_nothing_is_written(self):
        def file(name, text):
            (self.folder / name).write_text(text)
            return self.folder / name

        out = self.folder / "never.fscap"
        good = self.logs["csv"]
        cases = [
            ([good, "-w", self.folder / "a.txt"], 1, ".fscap or .jsonl"),
            ([good], 2, "--write"),
            ([good, "-w", out, "--format", "xml"], 2, "xml"),
            ([good, "-w", out, "--run", "a\nb"], 2, "without control characters"),
            ([good, "-w", out, "--map", "loss"], 2, "allowed is COLUMN=NAME"),
            ([good, "-w", out, "--map", "nothing=x"], 1,
             "--map nothing: no column has this name; the columns with numbers are `train loss`"),
            ([self.folder / "none.log", "-w", out], 1, "none.log"),
            ([self.folder, "-w", out], 1, str(self.folder)),
            ([good, "-w", out, "--step-key", "Steps"], 1, "scalars.csv:1:1: there is no step: "
             "no `Steps` among `Step`, `train loss`"),
            ([file("words.txt", "nothing\nto see\n"), "-w", out], 1,
             "no row with a step and a number"),
            ([file("pretty.json", '{\n  "step": 1\n}\n'), "-w", out], 1, "pretty.json: a JSON document without rows"),
            ([file("quote.csv", 'step,loss\n1,2\n2,a"b\n'), "-w", out], 1, "quote.csv:3:4: "),
            ([file("events.out.tfevents.17.host", "x"), "-w", out], 1, "TensorBoard event file"),
            ([ROOT / "tests/data/captures/h_const_101.fscap", "-w", out], 1, "a capture already"),
            ([file("same.jsonl", '{"step": 1, "loss": 2}\n'), "-w", self.folder / "same.jsonl"], 2,
             "one of the files to be read"),
        ]
        for arguments, code, text in cases:
            done = cli(FORESHOCK, "import", *arguments, check=code)
            self.assertIn(text, done.stderr, arguments)
        self.assertFalse(out.exists())
        self.assertFalse(list(self.folder.glob("never*")), "a temporary file is left")

    def test_lines_that_are_not_understood_are_counted_and_the_first_shown(self):
        log = self.folder / "torn.jsonl"
        log.write_text('{"step": 1, "loss": 3}\n{"step": 2, "lo\n{"step": 3}\n{"loss": 3}\n')
        done = cli(FORESHOCK, "import", log, "-w", self.folder / "torn.fscap", check=0)
        self.assertIn("1 step in 1 attempt", done.stdout)
        self.assertIn("not understood: 2 lines; the first: ", done.stdout)
        self.assertIn("torn.jsonl:2:", done.stdout)

    def test_help_and_completion_know_it(self):
        done = cli(FORESHOCK, "import", "--help", check=0)
        for word in ("--step-key", "--map", "TensorBoard", "Examples:"):
            self.assertIn(word, done.stdout)
        self.assertIn("--time-key", cli(FORESHOCK, "completion", "bash", check=0).stdout)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    FORESHOCKD, FORESHOCK = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
