#!/usr/bin/env python3
"""rules/schema.json says what the daemon's reader says: same files, same keys.

    tests/e2e/rules_schema_test.py FORESHOCK

Keys are compared with the reader's own words: every map of the language is fed an unknown key, and the
keys that the error allows must be those of the schema. A new detector is found by its name in the
reader's list of detectors and needs an `examples` entry in the schema, nothing here.
"""

import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "rules/schema.json").read_text())
DEFINITIONS = SCHEMA["definitions"]
FORESHOCK = None

# Detectors that look at the run or at what ranks sent, not at an indicator.
WITHOUT_INDICATOR = {"non_finite", "hang", "coverage", "restarts", "skipped"}

LABELS = {"severity": "info"}
RULE = {"alert": "a", "indicator": "train.loss", "threshold": {"above": 1}, "labels": LABELS}
OTHER = {**RULE, "alert": "b"}
SIGNATURE = {"signature": "s", "when": "a", "labels": {"severity": "info", "fault": "f"}}


class Loader(yaml.SafeLoader):
    """Numbers as our reader knows them: 1e6 is one."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"), list("-+0123456789."))


class Dumper(yaml.SafeDumper):
    """Without anchors, which rule files may not have."""

    def ignore_aliases(self, data):
        return True


def document(*rules, defaults=None, signatures=()):
    group = {"name": "g", "rules": list(rules)}
    if defaults is not None:
        group["defaults"] = defaults
    return {"groups": [group], "signatures": list(signatures)}


def schema_errors(value):
    return [error.message for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(value)]


def reader_errors(value):
    """What `foreshock rules check` says of the document."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.dump(value, file, Dumper)
        file.flush()
        answer = subprocess.run([FORESHOCK, "rules", "check", file.name, "--output=json"],
                                capture_output=True, text=True, check=False)
    report = json.loads(answer.stdout)
    return [] if report["valid"] else report["errors"]


def allowed_keys(value):
    """The keys that the reader would take in the map that holds the key `zzz`."""
    for error in reader_errors(value):
        found = re.search(r"unknown key `zzz`.*Allowed: (.*)$", error)
        if found:
            return set(found.group(1).split(", "))
    raise AssertionError(f"the reader did not complain about zzz in {json.dumps(value)}")


def detectors():
    """The detectors of the reader, from the error on a rule that has none."""
    value = document({"alert": "a", "indicator": "train.loss", "labels": LABELS})
    for error in reader_errors(value):
        found = re.search(r"no detector is given; exactly one of (.*) is expected", error)
        if found:
            return set(found.group(1).split(", "))
    raise AssertionError("the reader did not list its detectors")


def with_detector(name, **keys):
    """A rule with the schema's first example of the detector."""
    rule = {"alert": "a", "indicator": "train.loss", "labels": LABELS}
    if name in WITHOUT_INDICATOR:
        rule.pop("indicator")
    rule[name] = copy.deepcopy(DEFINITIONS[name]["examples"][0])
    rule.update(keys)
    return rule


class KeysTest(unittest.TestCase):
    def test_top_group_and_defaults(self):
        self.assertEqual(allowed_keys({**document(RULE), "zzz": 1}), set(SCHEMA["properties"]))
        value = document(RULE)
        value["groups"][0]["zzz"] = 1
        self.assertEqual(allowed_keys(value), set(DEFINITIONS["group"]["properties"]))
        keys = set()
        for name in detectors():
            keys |= allowed_keys(document(with_detector(name), defaults={"zzz": 1}))
        self.assertEqual(keys, set(DEFINITIONS["defaults"]["properties"]))

    def test_detectors_are_those_of_the_reader(self):
        required = [branch["required"][0] for branch in DEFINITIONS["rule"]["oneOf"]]
        self.assertEqual(set(required), detectors())

    def test_rule(self):
        keys = set()
        for name in detectors():
            keys |= allowed_keys(document(with_detector(name, zzz=1)))
        self.assertEqual(keys, set(DEFINITIONS["rule"]["properties"]))

    def test_detector_maps_and_their_examples(self):
        for name in sorted(detectors()):
            with self.subTest(name):
                good = document(with_detector(name))
                self.assertEqual(reader_errors(good), [])
                self.assertEqual(schema_errors(good), [])
                rule = with_detector(name)
                rule[name]["zzz"] = 1
                self.assertEqual(allowed_keys(document(rule)), set(DEFINITIONS[name]["properties"]))

    def test_baseline_over_its_kinds(self):
        kinds = DEFINITIONS["baseline"]["properties"]["kind"]["enum"]
        rule = {"alert": "a", "indicator": "train.lr", "relative_rise": {"above": 2},
                "labels": LABELS}
        wrong = reader_errors(document({**rule, "baseline": {"kind": "zzz"}}))
        known = re.search(r"one of (.*) is expected", wrong[0]).group(1).split(", ")
        self.assertEqual(sorted(known), sorted(kinds))
        keys = set()
        for kind in kinds:
            keys |= allowed_keys(document({**rule, "baseline": {"kind": kind, "zzz": 1}}))
        self.assertEqual(keys, set(DEFINITIONS["baseline"]["properties"]))

    def test_small_maps_of_a_rule(self):
        for key in ("smooth", "quorum", "annotations", "rate_limit"):
            with self.subTest(key):
                self.assertEqual(allowed_keys(document({**RULE, key: {"zzz": "1"}})),
                                 set(DEFINITIONS[key]["properties"]))
        for name, key, inside in (("non_finite", "ranks", "ranks"),
                                  ("spike_budget", "spike", "spike_limit")):
            rule = with_detector(name)
            rule[name][key] = {"zzz": 1}
            self.assertEqual(allowed_keys(document(rule)), set(DEFINITIONS[inside]["properties"]))

    def test_signature_and_its_maps(self):
        def signature(**keys):
            return document(RULE, OTHER, signatures=[{**SIGNATURE, **keys}])
        self.assertEqual(allowed_keys(signature(zzz=1)), set(DEFINITIONS["signature"]["properties"]))
        self.assertEqual(
            allowed_keys(signature(confirmations=[{"when": "b", "zzz": 1}])),
            set(DEFINITIONS["confirmation"]["properties"]))
        self.assertEqual(
            allowed_keys(signature(wait={"while": "a", "samples_of": "b", "samples": 1, "zzz": 1})),
            set(DEFINITIONS["wait"]["properties"]))
        keys = set()
        for condition in ({"all": ["a"]}, {"at_least": 1, "of": ["a"]},
                          {"healed": "a", "within": "1 step"}):
            keys |= allowed_keys(signature(when={**condition, "zzz": 1}))
        self.assertEqual(keys, set(DEFINITIONS["combination"]["properties"]))


class FilesTest(unittest.TestCase):
    def test_shipped_files_pass(self):
        files = sorted((ROOT / "rules").glob("*.yaml")) + sorted((ROOT / "rules/examples").glob("*.yaml"))
        self.assertGreater(len(files), 2)
        for file in files:
            with self.subTest(file.name):
                self.assertEqual(schema_errors(yaml.load(file.read_text(), Loader)), [])

    def test_examples_of_the_manual_pass(self):
        """Every ```yaml block of docs/rules.md that is a whole file."""
        blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/rules.md").read_text(), re.S)
        whole = [yaml.load(block, Loader) for block in blocks
                 if block.startswith(("groups:", "signatures:"))]
        self.assertGreater(len(whole), 1)
        for value in whole:
            self.assertEqual(schema_errors(value), [])


def rule_with(**keys):
    return document({**RULE, **keys})


def without(key):
    return document({name: value for name, value in RULE.items() if name != key})


def signature_with(**keys):
    return document(RULE, OTHER, signatures=[{**SIGNATURE, **keys}])


LEVEL = {"alert": "a", "indicator": "train.loss", "labels": LABELS}

# What both must refuse.
WRONG = {
    "unknown key": rule_with(indicater="train.loss"),
    "no alert name": without("alert"),
    "name with a space": rule_with(alert="a b"),
    "no detector": without("threshold"),
    "two detectors": rule_with(no_data={"intervals": 3}),
    "threshold without a limit": rule_with(threshold={"clear": 1}),
    "threshold with two limits": rule_with(threshold={"above": 1, "below": 0}),
    "a limit that is text": rule_with(threshold={"above": "much"}),
    "a drop above 1": document({**LEVEL, "relative_drop": {"below": 1.5}}),
    "a rise below 1": document({**LEVEL, "relative_rise": {"above": 0.5}}),
    "a rise with the key of a drop": document({**LEVEL, "relative_rise": {"below": 0.5}}),
    "log that is no bool": document({**LEVEL, "robust_z": {"above": 3, "log": "perhaps"}}),
    "hits without of": rule_with(hits="3"),
    "hits of zero": rule_with(hits="0 of 3"),
    "a length without a unit": rule_with(**{"for": "20"}),
    "a length in seconds": rule_with(keep_firing_for="20s"),
    "clear_samples 0": rule_with(clear_samples=0),
    "an unknown aggregate": rule_with(aggregate="median"),
    "an unknown flag": rule_with(judge_flags=["grids"]),
    "an unknown cause": rule_with(rebase_on=["weather"]),
    "indicators of one": document({"alert": "a", "indicators": ["train.loss"], "combine": "sum",
                                   "threshold": {"above": 1}, "labels": LABELS}),
    "a baseline kind unknown": document({**LEVEL, "relative_rise": {"above": 2},
                                         "baseline": {"kind": "median"}}),
    "a fixed baseline without value": document({**LEVEL, "relative_rise": {"above": 2},
                                                "baseline": {"kind": "fixed"}}),
    "a lag for an anchored baseline": document({**LEVEL, "relative_rise": {"above": 2},
                                                "baseline": {"kind": "anchored", "lag": 2}}),
    "a cusum without a limit": document({**LEVEL, "cusum": {"slack": 1}}),
    "a level shift downwards by a positive number": document({**LEVEL,
                                                              "level_shift": {"below": 3}}),
    "will_cross without within": document({**LEVEL, "slope": {"will_cross": {"above": 1}}}),
    "a share that is no percentage": document({**LEVEL, "spike_budget": {"spike": {"above": 6},
                                                                         "share": 0.03}}),
    "continuity without a limit": document({**LEVEL, "continuity": {"within": "5 steps"}}),
    "a reference without a file": document({**LEVEL, "relative_rise": {"above": 2},
                                            "baseline": {"kind": "reference"}}),
    "hang with a wait in steps": document({"alert": "a", "hang": {"at_least": "5 steps"},
                                           "labels": LABELS}),
    "restarts without in": document({"alert": "a", "restarts": {"above": 3}, "labels": LABELS}),
    "rate limit of zero": rule_with(rate_limit={"starts": 0, "in": "10 steps"}),
    "intervals 0": document({**LEVEL, "no_data": {"intervals": 0}}),
    "severity unknown": rule_with(labels={"severity": "page"}),
    "a label that is ours": rule_with(labels={"severity": "info", "run": "x"}),
    "a label with a dash": rule_with(labels={"severity": "info", "my-label": "x"}),
    "quorum of zero": rule_with(quorum={"layers": 0}),
    "quorum of a word": rule_with(quorum={"layers": "most"}),
    "annotation unknown": rule_with(annotations={"title": "x"}),
    "rules are a map": {"groups": [{"name": "g", "rules": {"alert": "a"}}]},
    "groups are a map": {"groups": {"name": "g"}},
    "a list at the top": [1],
    "a group without a name": {"groups": [{"rules": [RULE]}]},
    "a signature without fault": signature_with(labels={"severity": "info"}),
    "a signature without when": document(RULE, signatures=[
        {"signature": "s", "labels": {"severity": "info", "fault": "f"}}]),
    "a list as when": signature_with(when=["a"]),
    "an empty all": signature_with(when={"all": []}),
    "all and any": signature_with(when={"all": ["a"], "any": ["b"]}),
    "at_least without of": signature_with(when={"at_least": 1}),
    "healed without within": signature_with(when={"healed": "a"}),
    "same_layer of one": signature_with(when={"same_layer": ["a"]}),
    "a window in samples": signature_with(window="3 samples"),
    "confidence unknown": signature_with(confidence="sure"),
    "wait without samples": signature_with(wait={"while": "a", "samples_of": "b"}),
    "a confirmation without when": signature_with(confirmations=[{"severity": "critical"}]),
}

# What both must take.
RIGHT = {
    "bare": document(RULE),
    "an empty file": {},
    "fixed baseline": document({**LEVEL, "relative_rise": {"above": 2},
                                "baseline": {"kind": "fixed", "value": 3}}),
    "quorum": rule_with(indicator="attn.logits.max", quorum={"layers": "50%", "heads": 2}),
    "quorum as text": rule_with(quorum={"layers": "2"}),
    "lengths": rule_with(**{"for": "1 step", "keep_firing_for": "12 samples"}),
    "labels of one's own": rule_with(labels={"severity": "info", "team": "x", "fault": "f"}),
    "severity from the defaults": document({k: v for k, v in RULE.items() if k != "labels"},
                                           defaults={"labels": LABELS}),
    "nested conditions": signature_with(when={"all": ["a", {"any": ["b", {"at_least": 1,
                                                                          "of": ["a", "b"]}]}]}),
    "same layer": signature_with(when={"same_layer": ["a", "b"]}),
    "healed": signature_with(when={"healed": "a", "within": "20 steps"}),
}


class CorpusTest(unittest.TestCase):
    def test_both_refuse_what_is_wrong(self):
        for name, value in WRONG.items():
            with self.subTest(name):
                self.assertNotEqual(reader_errors(value), [], "the reader took it")
                self.assertNotEqual(schema_errors(value), [], "the schema took it")

    def test_both_take_what_is_right(self):
        for name, value in RIGHT.items():
            with self.subTest(name):
                self.assertEqual(reader_errors(value), [])
                self.assertEqual(schema_errors(value), [])

    def test_the_schema_is_a_schema(self):
        jsonschema.Draft7Validator.check_schema(SCHEMA)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    FORESHOCK = sys.argv.pop(1)
    unittest.main()
