#!/usr/bin/env python3
"""The shipped Prometheus rules are the export of the default pack, and Prometheus agrees with them.

    tests/e2e/rules_export_test.py FORESHOCK
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "deploy/prometheus/foreshock-alerts.yaml"
PACK = ["rules/default.yaml", "rules/signatures.yaml"]
FORESHOCK = None


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def export(*arguments):
    answer = run(FORESHOCK, "rules", "export", *arguments)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def everything():
    """The export with what is only evidence, too."""
    return export(*PACK, "--severity-min=info")


def rules_of(text):
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


class ExportTest(unittest.TestCase):
    def test_shipped_file_is_the_export_of_the_pack(self):
        self.assertEqual(SHIPPED.read_text(), export(*PACK),
                         "run: foreshock rules export rules/default.yaml rules/signatures.yaml "
                         "-w deploy/prometheus/foreshock-alerts.yaml")

    def test_promtool_checks_and_tests_the_export(self):
        answer = run("promtool", "check", "rules", SHIPPED)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        tests = ROOT / "tests/data/prometheus"
        with tempfile.TemporaryDirectory(prefix="foreshock_export_") as directory:
            pathlib.Path(directory, "everything.yaml").write_text(everything())
            for name, rules in (("alerts_test.yaml", SHIPPED), ("central_test.yaml", None)):
                test = pathlib.Path(directory, name)
                test.write_text((tests / name).read_text().replace(
                    "RULES", str(rules or pathlib.Path(directory, "everything.yaml"))))
                answer = run("promtool", "test", "rules", test)
                self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)

    def test_every_rule_and_signature_that_can_warn_has_an_alert_of_the_daemon(self):
        names, infos = [], []
        for file in PACK:
            content = yaml.safe_load((ROOT / file).read_text())
            rules = [(r["alert"], r) for g in content.get("groups", []) for r in g["rules"]]
            rules += [(s["signature"], s) for s in content.get("signatures", [])]
            for name, rule in rules:
                names.append(name)
                severities = {rule.get("labels", {}).get("severity", "info")} | {
                    confirmation.get("severity") for confirmation in rule.get("confirmations", [])}
                if severities <= {"info", None}:
                    infos.append(name)
        for text, expected in ((everything(), names),
                               (SHIPPED.read_text(), [n for n in names if n not in infos])):
            daemon = [r["alert"] for r in rules_of(text)
                      if r.get("labels", {}).get("evaluation") == "daemon"]
            self.assertEqual(daemon, expected)
        self.assertTrue(infos)

    def test_only_what_is_severe_enough_is_asked_for(self):
        for severity, allowed in (("warning", "warning|critical"), ("critical", "critical")):
            for rule in rules_of(export(*PACK, f"--severity-min={severity}")):
                self.assertIn(f'severity=~"{allowed}"', rule["expr"])

    def test_every_rule_is_judged_centrally_or_named_with_a_reason(self):
        text = everything()
        central = {r["alert"] for r in rules_of(text)
                   if r.get("labels", {}).get("evaluation") == "central"}
        reasons = set(re.findall(r"# (\w+): not here, \w+", text))
        daemon = {r["alert"] for r in rules_of(text)
                  if r.get("labels", {}).get("evaluation") == "daemon"}
        self.assertEqual(central | reasons, daemon)
        self.assertFalse(central & reasons)

    def test_metrics_are_those_the_daemon_documents(self):
        documented = set(re.findall(r"^\| `(foreshock_\w+)`", (ROOT / "docs/metrics.md").read_text(),
                                    re.M))
        used = set(re.findall(r"\bforeshock_\w+", "".join(
            r["expr"] for r in rules_of(everything()))))
        self.assertGreater(len(used), 5)
        self.assertLessEqual(used, documented)

    def test_other_rules_pass_promtool_too(self):
        """Every detector, side, combination and baseline that the language has."""
        for file in ("rules/examples/own_scalars.yaml", "tests/data/prometheus/every_form.yaml"):
            with self.subTest(file), tempfile.NamedTemporaryFile(suffix=".yaml") as out:
                export(file, "--step-seconds=0.2", "--sample-steps=10", "--write", out.name)
                answer = run("promtool", "check", "rules", out.name)
                self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)

    def test_wrong_use_is_an_error(self):
        for arguments, code in ((["no-such-file.yaml"], 1), (PACK + ["--step-seconds=0"], 2),
                                (PACK + ["--format=nagios"], 2), ([], 2)):
            answer = run(FORESHOCK, "rules", "export", *arguments)
            self.assertEqual(answer.returncode, code, arguments)
            self.assertTrue(answer.stderr)
        answer = run(FORESHOCK, "rules", "export", *PACK, "-w", "/no/such/folder/x.yaml")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("/no/such/folder/x.yaml", answer.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    FORESHOCK = sys.argv.pop(1)
    unittest.main()
