#!/usr/bin/env python3
"""Every query of every dashboard, against a real Prometheus that scraped real replays.

    tests/e2e/dashboards_test.py FORESHOCKD FORESHOCK
"""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

from daemon_process import Daemon, cli, wait_until  # noqa: E402
from prometheus_process import Prometheus  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATE = ROOT / "deploy/grafana/generate.py"
DASHBOARDS = {path.stem: json.loads(path.read_text())
              for path in sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))}
CAPTURES = ["f_attn_201", "f_router_231"]
BROKEN = "broken"
FORESHOCKD, FORESHOCK = "", ""


def panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def record(stream, **message):
    return json.dumps({"stream": stream, "message": message}) + "\n"


def broken_run(launches):
    """A run whose loss is not a number, once per launch: what only a fault shows."""
    text = ""
    for launch in launches:
        text += record(launch, hello={"run": BROKEN, "launchId": f"launch-{launch}",
                                      "clientInstance": f"process-{launch}", "worldSize": 1})
        for seq, loss in enumerate(("NaN", 2.0), 1):
            text += record(launch, report={
                "seq": str(seq), "step": str(10 * launch + seq), "lastOfStep": True,
                "summaries": [{"scalars": {
                    "declare": [{"id": 1, "name": "loss", "unit": "nats",
                                 "reduction": "REDUCTION_MEAN", "scope": "SCOPE_GLOBAL"}],
                    "ids": [1], "values": [loss]}}]})
    return text


class Dashboards(unittest.TestCase):
    """One daemon, one Prometheus: two faulty captures, and a run that resumed and had a NaN."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="foreshock_dashboards_")
        cls.addClassCleanup(cls.directory.cleanup)
        directory = pathlib.Path(cls.directory.name)
        rules = [pathlib.Path(shutil.copy(file, directory))
                 for file in sorted((ROOT / "rules").glob("*.yaml"))]
        cls.daemon = Daemon(FORESHOCKD, directory, rules=rules)
        cls.enterClassContext(cls.daemon)
        cls.prometheus = cls.enterClassContext(
            Prometheus(cls.daemon.http, (ROOT / "deploy/prometheus").glob("*.yaml")))
        # Rates need a sample from before: the daemon's own, and the broken run's first attempt.
        cls.replay(directory / "first.jsonl", broken_run([1]))
        cls.wait_for(f'foreshock_run_attempt{{run="{BROKEN}"}} == 1')
        for name in CAPTURES:
            cls.replay(ROOT / f"tests/data/captures/{name}.fscap", run=name)
        cls.replay(directory / "second.jsonl", broken_run([2]))
        rules[0].write_text("no rules\n")
        cls.daemon.signal(signal.SIGHUP)
        cls.wait_for('ALERTS{alertname="ForeshockReloadFailed", alertstate="firing"}')
        cls.wait_for(f'changes(foreshock_run_attempt{{run="{BROKEN}"}}[1m]) > 0')
        for name in CAPTURES:
            cls.wait_for(f'rate(foreshock_run_steps_closed_total{{run="{name}"}}[1m]) >= 0')

    @classmethod
    def replay(cls, path, text=None, run=None):
        if text is not None:
            path.write_text(text)
        cli(FORESHOCK, "replay", path, *(["--run", run] if run else []), server=cls.daemon.grpc,
            check=0)

    @classmethod
    def wait_for(cls, expression):
        wait_until(lambda: cls.prometheus.query(expression), 60, f"Prometheus has {expression}")

    def variables(self, dashboard):
        """Every variable's values, as Grafana would ask for them."""
        values = {"__rate_interval": ["1m"]}
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "datasource":
                continue
            query = self.resolve(variable["query"]["query"], {
                name: "|".join(known) for name, known in values.items()})
            metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()
            values[variable["name"]] = self.prometheus.get(f"label/{label}/values",
                                                           **{"match[]": metric})
            self.assertTrue(values[variable["name"]], query)
        return values

    def resolve(self, expression, values):
        """The variables put in, and the zero that a panel shows for nothing taken out."""
        for name, value in values.items():
            expression = expression.replace(f"${name}", value)
        expression = expression.removesuffix(" or vector(0)")
        self.assertNotIn("$", expression)
        return expression

    def test_every_query_of_every_panel_has_data(self):
        for uid, dashboard in DASHBOARDS.items():
            values = {name: "|".join(known) for name, known in self.variables(dashboard).items()}
            for panel in panels(dashboard):
                for target in panel["targets"]:
                    with self.subTest(dashboard=uid, panel=panel["title"], expr=target["expr"]):
                        result = self.prometheus.query(self.resolve(target["expr"], values))
                        self.assertTrue(result, "no series")
                        labels = set().union(*(series["metric"] for series in result))
                        for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                            self.assertIn(label, labels)

    def test_every_query_of_a_run_has_data_for_one_recorded_run(self):
        """Variables of one value: what a person sees who has chosen a run."""
        lacking = {"Non-finite elements"}  # f_attn_201 has none; the broken run above shows it
        for uid in ("foreshock-run", "foreshock-attention", "foreshock-router"):
            values = {name: "|".join(known)
                      for name, known in self.variables(DASHBOARDS[uid]).items()}
            values["run"] = CAPTURES[0]
            for panel in panels(DASHBOARDS[uid]):
                for target in panel["targets"]:
                    if panel["title"] in lacking:
                        continue
                    with self.subTest(dashboard=uid, panel=panel["title"], expr=target["expr"]):
                        self.assertTrue(self.prometheus.query(
                            self.resolve(target["expr"], values)))

    def test_every_annotation_has_events_when_there_are_some(self):
        quiet = {"Restarts"}  # the daemon of this test does not
        seen = set()
        for uid, dashboard in DASHBOARDS.items():
            values = {name: "|".join(known) for name, known in self.variables(dashboard).items()}
            for annotation in dashboard["annotations"]["list"]:
                with self.subTest(dashboard=uid, annotation=annotation["name"]):
                    result = self.prometheus.query(self.resolve(annotation["expr"], values))
                    seen.add(annotation["name"])
                    self.assertEqual(bool(result), annotation["name"] not in quiet)
        self.assertLess(quiet, seen)


class Files(unittest.TestCase):

    def test_what_is_committed_is_what_the_generator_writes(self):
        done = subprocess.run([sys.executable, GENERATE, "--check"], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_uids_are_stable_and_panels_have_units_and_places_of_their_own(self):
        self.assertEqual(sorted(DASHBOARDS), [f"foreshock-{name}" for name in
                                              ("attention", "daemon", "fleet", "router", "run")])
        for uid, dashboard in DASHBOARDS.items():
            with self.subTest(dashboard=uid):
                self.assertEqual(dashboard["uid"], uid)
                self.assertNotIn("__inputs", dashboard)
                self.assertEqual(dashboard["templating"]["list"][0]["type"], "datasource")
                taken = set()
                for panel in dashboard["panels"]:
                    place = panel["gridPos"]
                    self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
                    cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                             for y in range(place["y"], place["y"] + place["h"])}
                    self.assertFalse(cells & taken, panel["title"])
                    taken |= cells
                for panel in panels(dashboard):
                    self.assertTrue(panel["fieldConfig"]["defaults"]["unit"], panel["title"])
                    self.assertEqual(panel["datasource"]["uid"], "${datasource}")

    def test_metrics_are_documented(self):
        documented = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs/metrics.md").read_text(), re.M))
        for uid, dashboard in DASHBOARDS.items():
            text = " ".join(target["expr"] for panel in panels(dashboard)
                            for target in panel["targets"])
            used = set(re.findall(r"\b(?:foreshock|process)_\w+", text))
            self.assertLessEqual({re.sub("_bucket$", "", name) for name in used}, documented, uid)


if __name__ == "__main__":
    FORESHOCKD, FORESHOCK = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
