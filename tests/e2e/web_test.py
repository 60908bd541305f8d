#!/usr/bin/env python3
"""The page in a real browser, on a real daemon with replayed runs.

    tests/e2e/web_test.py FORESHOCKD FORESHOCK
"""

import csv
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import urllib.request
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

from selenium.webdriver.common.keys import Keys  # noqa: E402

from browser import SECONDS, Browser  # noqa: E402
from daemon_process import Daemon, cli, wait_until  # noqa: E402
from web_rules import BAND_RULES, ENTROPY, OWN_RULES, write_band_rules  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "tests/data/captures"
FORESHOCKD, FORESHOCK = "", ""
# Markup; text that turns its neighbours around; other scripts; as long as a name may be.
HOSTILE = ['<img src=x onerror="document.title=1">&amp;"\'', "\u202eevil\u202c\u2066 abc",
           "\u05e8\u05e9\u05ea ../..?run=a&x#1 %2F", "n" * 256]


def address(view, **parameters):
    return f"{view}?{urllib.parse.urlencode(parameters, quote_via=urllib.parse.quote)}"


class Page(unittest.TestCase):
    """One daemon, one browser; a run with a fault (demo) and a good one."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="foreshock_web_")
        cls.addClassCleanup(cls.directory.cleanup)
        folder = pathlib.Path(cls.directory.name)
        cls.daemon = Daemon(FORESHOCKD, folder, rules=[*sorted((ROOT / "rules").glob("*.yaml")),
                                                       write_band_rules(folder)]).start()
        cls.addClassCleanup(cls.daemon.__exit__)
        replays = [cls.replay("f_attn_201", "demo"), cls.replay("h_const_101", "good")]
        cls.browser = Browser(f"http://{cls.daemon.http}/")
        cls.addClassCleanup(cls.browser.__exit__)
        for replay in replays:
            cls.assertEqual(cls(), replay.wait(timeout=120), 0)
        cls.alert = next(alert for alert in cls.api("alerts", run="demo")["alerts"]
                         if alert["rule"] == "low_precision_attention")

    @classmethod
    def replay(cls, capture, run, *more):
        return subprocess.Popen(
            [FORESHOCK, "replay", str(CAPTURES / f"{capture}.fscap"), "--run", run, "-s",
             cls.daemon.grpc, *more], stdout=subprocess.DEVNULL)

    @classmethod
    def api(cls, path, **parameters):
        status, body = cls.daemon.get(f"/api/v1/{address(path, **parameters)}")
        assert status == 200, body
        return json.loads(body)

    def setUp(self):
        self.browser.size(1280, 900)
        self.browser.log()

    def tearDown(self):
        # No error of the script, nothing that the content security policy had to stop.
        self.assertEqual(self.browser.log(), [])

    def test_the_runs_are_listed(self):
        self.browser.open("")
        self.browser.wait_text("main", "demo")
        self.browser.wait_text("main", "1\u202f499")
        self.browser.wait_drawn("main canvas.spark")
        rows = {row.text.split("\n")[0].split(" ")[0]: row.text for row in self.browser.find("tbody tr")}
        self.assertIn("critical 2", rows["demo"])
        self.assertIn("none", rows["good"])
        self.browser.find("input[type=search]")[0].send_keys("goo")
        self.browser.wait("only 'good' is left", lambda: "demo" not in self.browser.text("main tbody"))
        self.assertIn("name=goo", self.browser.driver.current_url)

    def test_a_run_shows_what_fires_and_its_plots(self):
        self.browser.open(address("run", run="demo"))
        self.browser.wait_text("main .alert.critical", "low_precision_attention")
        self.assertIn("last healthy step 389", self.browser.text("main .alert.critical"))
        self.browser.wait_text(".plots", "train.loss")
        self.browser.wait_drawn()
        for text in ("train.grad_norm", "train.lr", ENTROPY, "layer 1, head 0"):
            self.assertIn(text, self.browser.text(".plots"))
        self.assertIn("qk_grad_share_high", self.browser.text(".timeline"))
        # By keyboard: a value at a step, a closer look, and back.
        chart = self.browser.find(".plots canvas")[0]
        chart.send_keys(Keys.HOME)
        self.browser.wait_text(".plots .readout", "steps 0 to ")
        chart.send_keys("+")
        self.browser.wait("the address says the range", lambda: "last=" in self.browser.driver.current_url)
        self.browser.driver.back()
        self.browser.wait("back", lambda: "last=" not in self.browser.driver.current_url)

    def test_an_address_shows_what_it_says(self):
        self.browser.open(address("run", run="demo", first=300, last=600, plot=f"{ENTROPY}@1:0"))
        self.browser.wait_text(".plots", f"{ENTROPY} · layer 1 · #0")
        self.browser.wait_drawn()
        self.assertEqual(len(self.browser.find(".plots figure")), 1)
        self.assertIn("step 600", self.browser.text(".plots .readout"))
        # Each point by itself: the value is the stored one.
        self.browser.find(".plots canvas")[0].send_keys(Keys.END)
        points = self.api("points", run="demo", indicator=ENTROPY, layer=1, unit_id=0, first_step=600,
                          last_step=600)["results"][0]["points"]
        self.assertIn(f"{points[0]['value']:.9g}", self.browser.text(".plots .legend"))
        # And so are those that are saved.
        saved = pathlib.Path(self.directory.name) / "saved"
        saved.mkdir()
        self.browser.save_to(saved)
        self.browser.click(".plots button", "CSV")
        self.browser.click(".plots button", "PNG")
        self.browser.click(".plots button", "SVG")
        wait_until(lambda: {path.suffix for path in saved.iterdir()} == {".csv", ".png", ".svg"}, SECONDS,
                   "two pictures and numbers are saved")
        rows = list(csv.DictReader(next(saved.glob("*.csv")).read_text().splitlines()))
        points = self.api("points", run="demo", indicator=ENTROPY, layer=1, unit_id=0, first_step=300,
                          last_step=600)["results"][0]["points"]
        self.assertEqual([(row["first_step"], float(row["mean"])) for row in rows],
                         [(point["step"], point["value"]) for point in points])
        self.assertEqual(next(saved.glob("*.png")).read_bytes()[:4], b"\x89PNG")
        drawing = xml.etree.ElementTree.parse(next(saved.glob("*.svg"))).getroot()
        svg = "{http://www.w3.org/2000/svg}"
        self.assertEqual(drawing.find(f"{svg}title").text, f"demo: {ENTROPY} · layer 1 · #0")
        lines = [line.get("points").split() for line in drawing.iter(f"{svg}polyline")]
        self.assertEqual([len(line) for line in lines], [len(points)])
        self.assertIn("300", [text.text for text in drawing.iter(f"{svg}text")])

    def test_attention_by_layer_and_head_opens_a_head(self):
        self.browser.open(address("attention", run="demo", step=800))
        self.browser.wait_drawn(".heat-box canvas")
        heat = self.browser.find(".heat-box canvas")[0]
        heat.send_keys(Keys.ARROW_RIGHT)
        self.browser.wait_text(".heat .readout", "layer 1, head 0: ")
        points = self.api("points", run="demo", indicator=ENTROPY, layer=1, unit_id=0, first_step=800,
                          last_step=800)["results"][0]["points"]
        self.assertIn(f"{points[0]['value']:.9g}, from step 800", self.browser.text(".heat .readout"))
        heat.send_keys(Keys.ENTER)
        self.browser.wait_text("h2", "Layer 1, head 0")
        self.browser.wait_text(".plots", "attn.logits.max")
        self.browser.wait_drawn(".plots canvas")
        saved = pathlib.Path(self.directory.name) / "saved-map"
        saved.mkdir()
        self.browser.save_to(saved)
        self.browser.click(".toolbar button", "SVG")
        wait_until(lambda: list(saved.glob("*.svg")), SECONDS, "a drawing is saved")
        drawing = xml.etree.ElementTree.parse(next(saved.glob("*.svg"))).getroot()
        cells = [cell for cell in drawing.iter("{http://www.w3.org/2000/svg}rect")
                 if cell.get("fill").startswith("rgb(")]
        self.assertEqual(len(cells), len(self.api("points", run="demo", indicator=ENTROPY, unit="head",
                                                  first_step=288, last_step=800, buckets_max=1)["results"]))

    def test_router_by_layer_and_expert(self):
        self.browser.open(address("router", run="demo"))
        self.browser.wait_drawn(".heat-box canvas")
        self.browser.wait_text("main", "The busiest gets")
        self.browser.open(address("router", run="demo", over="steps", layer=1))
        self.browser.wait_drawn(".heat-box canvas")
        self.browser.wait_text(".plots", "router.token_entropy_ratio")
        self.browser.wait_drawn(".plots canvas")

    def test_two_runs_over_each_other(self):
        for by in ("", "tokens"):
            self.browser.open(address("compare", a="demo", b="good", by=by))
            self.browser.wait_text("main figure", f"train.loss over {by or 'steps'}")
            self.browser.wait_drawn()
            self.assertIn("good", self.browser.text(".legend"))

    def test_a_run_over_its_reference_band(self):
        self.browser.open(address("compare", a="demo", band="loss_off_band"))
        self.browser.wait_text("main figure", "train.loss over steps")
        self.browser.wait_drawn()
        self.assertIn("rule loss_off_band compares with", self.browser.text("main"))
        # The band between two of its points, and 8 spreads around it.
        self.browser.open(address("compare", a="demo", band="loss_off_band", first=256, last=266))
        self.browser.wait_drawn()
        self.browser.find("main canvas")[0].send_keys(Keys.HOME)
        self.browser.wait_text(".legend", "band 2.45 (0.45 to 4.45)")
        # What the rule looks at is the mean over the heads.
        heads = [result["points"] for result in self.api(
            "points", run="demo", indicator=ENTROPY, layer=1, first_step=0)["results"]]
        self.assertGreater(len(heads), 1)
        mean = sum(points[-1]["value"] for points in heads) / len(heads)
        self.browser.open(address("compare", a="demo", band="entropy_off_band", first=1400))
        self.browser.wait_drawn()
        self.browser.wait_text(".legend", f"mean of {len(heads)} {float(f'{mean:.4g}'):g}")

    def backtest(self, files, run="demo"):
        request = urllib.request.Request(
            f"{self.browser.base}api/v1/rules/backtest", method="POST",
            data=json.dumps({"run": run, "files": files}).encode(),
            headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)

    def test_rules_in_force_would_have_found_what_they_have_found(self):
        files = self.api("rules", files=1)["files"]
        for run in ("demo", "good"):
            found = self.backtest(files, run)
            last = int(found["last_step"])  # not the run's where the machine is slow
            self.assertEqual(found["stopped"] == "", last == 1499)
            key = lambda alert: (alert["rule"], int(alert["firing_step"]))  # noqa: E731
            self.assertEqual(sorted(map(key, found["alerts"])),
                             sorted(key(alert) for alert in self.api("alerts", run=run)["alerts"]
                                    if int(alert["firing_step"]) <= last))

    def test_edited_rules_are_judged_in_a_stored_run(self):
        self.browser.open(address("rules", run="demo"))
        self.browser.wait_text("main", "delta2_entropy_low")
        before = self.api("rules", files=1)

        def write(text):
            self.browser.run("const [editor] = document.querySelectorAll('textarea'); editor.value = "
                             "arguments[0]; editor.dispatchEvent(new Event('input'))", text)
            self.browser.click("button", "Judge")

        # A rule leads to its place in its file.
        self.browser.run("document.querySelector('[aria-label=\"Try an edit of loss_off_band\"]').click()")
        self.assertIn("loss_off_band", self.browser.run(
            "const at = document.activeElement; return at.value.slice(at.selectionStart, at.selectionEnd)"))
        self.browser.click(".backtest input[type=checkbox]")  # this file alone
        write(OWN_RULES.replace("below", "bellow"))
        self.browser.wait_text(".backtest .outcome", "bands.yaml, line 6")
        self.assertIn("unknown key `bellow`", self.browser.text(".backtest .outcome"))
        self.browser.click(".backtest .outcome button")
        self.assertIn("bellow", self.browser.run("return document.activeElement.value"))
        write(OWN_RULES)
        self.browser.wait_text(".backtest", "1 of 2 rules and signatures would have fired")
        self.assertEqual(self.browser.text(".backtest .outcome").strip(), "")
        [first] = [alert["firing_step"] for alert in self.backtest(
            [{"name": "x", "text": OWN_RULES}])["alerts"]][:1]
        self.assertIn(f"{int(first):,}".replace(",", "\u202f"), self.browser.text(".backtest table"))
        self.assertNotIn("never_so_high", self.browser.text(".backtest table"))
        # No file is opened for it, and nothing that is in force has changed.
        write(BAND_RULES.replace("band.yaml", "/etc/passwd"))
        self.browser.wait_text(".backtest .outcome", "no file is opened for rules that come from elsewhere")
        self.browser.click("button", "Undo edits")
        self.browser.click("button", "Judge")
        self.browser.wait_text(".backtest", " of 2 rules and signatures would have fired")
        self.assertEqual(self.api("rules", files=1), before)
        self.assertEqual([entry for entry in self.browser.log() if "400 (Bad Request)" not in entry], [])

    def test_the_rules_and_the_daemon(self):
        self.browser.open("rules")
        self.browser.wait_text("main", "delta2_entropy_low")
        self.browser.open("daemon")
        self.browser.wait_text("main", "writable")
        self.assertIn(str(pathlib.Path(self.directory.name) / "data"), self.browser.text("main"))

    def test_an_alert_is_explained_taken_on_and_silenced(self):
        self.browser.open("alerts")
        self.browser.wait_text("main", "low_precision_attention")
        self.assertNotIn("delta2_entropy_low", self.browser.text("main"))
        self.browser.click("input[type=checkbox]")
        self.browser.wait_text("main", "delta2_entropy_low")
        self.browser.click("main .alert.critical h3 a", "low_precision_attention")
        self.browser.wait_text("h1", "low_precision_attention")
        for text in ("all layers", "fired at 440", "389", "Roll back", "docs/runbooks/",
                     "qk_grad_share_high"):
            self.assertIn(text, self.browser.text("main"))
        self.browser.wait_drawn(".plots canvas")
        # Without a name nothing is sent.
        self.browser.click("button", "Acknowledge")
        self.assertNotIn("acknowledgement", self.shown_alert())
        self.browser.find("form input")[0].send_keys("ada <b>")
        self.browser.find("form input")[1].send_keys("rolling back")
        self.browser.click("button", "Acknowledge")
        self.browser.wait_text("main", "Taken on by ada <b>")
        self.assertEqual(self.shown_alert()["acknowledgement"]["why"], "rolling back")
        self.browser.click("button", "Silence")
        self.browser.wait_text("main", "Silenced until")
        self.assertEqual(self.api("silences")["silences"][0]["matchers"],
                         ['run="demo"', 'rule="low_precision_attention"'])
        self.browser.open("daemon")
        self.browser.wait_text("main", 'rule="low_precision_attention"')
        self.browser.click("button", "End now")
        self.browser.wait_text("main", "None: whoever")
        self.assertEqual(self.api("silences")["silences"], [])

    def shown_alert(self):
        return next(alert for alert in self.api("alerts", run="demo")["alerts"]
                    if alert["id"] == self.alert["id"])

    def test_a_warning_appears_while_one_looks(self):
        self.browser.open("alerts")
        self.browser.wait_text("main", "low_precision_attention")
        self.browser.run("window.untouched = true")
        replay = self.replay("f_router_231", "live")
        try:
            self.browser.wait_text("main", "router_collapse")
            self.browser.wait_text(".main-nav .count", "4")
            self.assertIn("New critical alert: router_collapse in run live",
                          self.browser.run("return document.querySelector('[aria-live]').textContent"))
            self.assertTrue(self.browser.run("return document.title.startsWith('(4)')"))
            self.assertTrue(self.browser.run("return window.untouched"))
        finally:
            replay.wait(timeout=120)
            cli(FORESHOCK, "runs", "delete", "live", "--yes", server=self.daemon.grpc, check=0)

    def test_what_is_gone_is_explained(self):
        for path, text in ((address("run", run="gone"), "There is no run of this name"),
                           (address("attention", run="gone"), "There is no run of this name"),
                           (address("alert", run="demo", id="gone"), "There is no such alert"),
                           ("run", "No run is chosen"), ("no-such-view", "There is no page")):
            self.browser.open(path)
            self.browser.wait_text("body", text)
            self.assertTrue(self.browser.find("a[href*=runs]"), path)
        self.assertIn("404", " ".join(self.browser.log()))  # the daemon's own answer, to the browser too

    def test_names_are_text_and_nothing_is_wider_than_a_phone(self):
        folder = pathlib.Path(self.directory.name)
        (folder / "log.csv").write_text("step,loss\n" + "".join(f"{i},{3 - i / 50}\n" for i in range(50)))
        for i, name in enumerate(HOSTILE):
            capture = folder / f"{i}.fscap"
            cli(FORESHOCK, "import", folder / "log.csv", "-w", capture, "--run", name, check=0)
            cli(FORESHOCK, "replay", capture, server=self.daemon.grpc, check=0)
        self.browser.size(360, 740)
        self.browser.open("runs")
        listed = lambda: [name.get_attribute("textContent")  # noqa: E731
                          for name in self.browser.find("tbody bdi")]
        self.browser.wait("all runs", lambda: set(HOSTILE) <= set(listed()))
        for name in HOSTILE:
            self.browser.open(address("run", run=name))
            self.browser.wait_drawn()
            self.assertEqual(self.browser.find("h1 bdi")[0].get_attribute("textContent"), name)
            self.assertLessEqual(self.browser.overflow(), 0, name)
        self.assertEqual(self.browser.find("img"), [])
        long = HOSTILE[-1]
        for path in ("runs", "alerts", "rules", "daemon", address("compare", a=long, b="demo"),
                     address("attention", run="demo"), address("router", run="demo"),
                     address("attention", run=long), address("run", run="demo"),
                     address("run", run=long + "x"),
                     address("alert", run="demo", id=self.alert["id"])):
            self.browser.open(path)
            self.browser.wait_loaded()
            self.assertLessEqual(self.browser.overflow(), 0, path)
        self.assertEqual([entry for entry in self.browser.log() if "404" not in entry], [])

    def closed_daemon(self):
        """A daemon that wants tokens, with a run that fires; (its HTTP address, tokens, the alert's
        id, a function that takes a token back)."""
        folder = pathlib.Path(self.directory.name) / "closed"
        folder.mkdir()
        paths = {role: folder / f"{role}.token" for role in ("push", "read", "operate")}
        entries = {role: cli(FORESHOCK, "token", "new", f"my-{role}", "--role", role, "--to", path,
                             check=0).stdout for role, path in paths.items()}
        tokens, config = folder / "tokens.yaml", folder / "foreshock.yaml"
        tokens.write_text("tokens:\n" + "".join(entries.values()))
        config.write_text(f"access:\n  tokens_file: {tokens}\n")
        (folder / "rules.yaml").write_text(
            "groups: [{name: g, rules: [{alert: LossHigh, indicator: train.loss, warm_up: judge, "
            "threshold: {above: 1}, labels: {severity: critical}}]}]\n")
        (folder / "log.csv").write_text("step,loss\n" + "".join(f"{i},{2 + i}\n" for i in range(9)))
        cli(FORESHOCK, "import", folder / "log.csv", "-w", folder / "log.fscap", check=0)
        daemon = Daemon(FORESHOCKD, folder, rules=[folder / "rules.yaml"],
                        extra=["--config", str(config)]).start()
        self.addCleanup(daemon.__exit__)
        cli(FORESHOCK, "replay", folder / "log.fscap", "--run", "hidden", "--token-file",
            paths["push"], server=daemon.grpc, check=0)
        alerts = cli(FORESHOCK, "alerts", "-o", "json", "--token-file", paths["read"],
                     server=daemon.grpc, check=0).stdout

        def revoke(role):
            del entries[role]
            tokens.write_text("tokens:\n" + "".join(entries.values()))
            daemon.signal(signal.SIGHUP)

        return (daemon.http, {role: path.read_text().strip() for role, path in paths.items()},
                json.loads(alerts)["alerts"][0]["id"], revoke)

    def test_a_daemon_that_wants_a_token_is_shown_one(self):
        http, tokens, alert, revoke = self.closed_daemon()
        self.addCleanup(setattr, self.browser, "base", self.browser.base)
        self.browser.base = f"http://{http}/"
        kept = lambda: self.browser.run(  # noqa: E731
            "return JSON.stringify([sessionStorage, localStorage, document.cookie])")

        def show(token):
            self.browser.wait_text("main.gate h1", "This daemon wants a token")
            self.browser.find("main.gate input")[0].send_keys(token, Keys.ENTER)

        self.browser.open("runs")
        self.browser.wait_text("main.gate", "foreshock token new")
        self.assertEqual(self.browser.text(".gate .outcome"), "")
        show("fst_<b>wrong</b>")
        self.browser.wait_text(".gate .outcome", "Refused: the token is not known to this daemon")
        show("two words")
        self.browser.wait_text(".gate .outcome", "no spaces")
        show(tokens["push"])
        self.browser.wait_text(".gate .outcome", "token 'my-push' has no role read, only push")
        self.assertNotIn("fst_", kept())
        show(tokens["read"])
        self.browser.wait_text("main", "hidden")
        self.assertEqual(self.browser.text(".gate"), "")
        self.assertEqual(kept(), json.dumps([{"foreshock.token": tokens["read"]}, {}, ""],
                                            separators=(",", ":")))
        # It lasts as long as the tab; who may only read is told so.
        self.browser.open(address("alert", run="hidden", id=alert))
        self.browser.wait_text("h1", "LossHigh")
        self.browser.find(".actions input")[0].send_keys("ada")
        self.browser.click("button", "Acknowledge")
        self.browser.wait_text(".actions .outcome",
                               "Refused: token 'my-read' has no role operate, only read")
        # One that is taken back is asked for again, and the view goes on with another.
        revoke("read")
        self.browser.wait_text(".gate .outcome", "revoked")
        self.assertNotIn("LossHigh", self.browser.text("body"))
        self.assertNotIn("fst_", kept())
        show(tokens["operate"])
        self.browser.wait_drawn(".plots canvas")
        self.browser.click(".actions button", "Acknowledge")
        self.browser.wait_text("main", "Taken on by ada")
        seen = [self.browser.driver.page_source, *self.browser.run(
            "return [location.href, ...performance.getEntries().map((one) => one.name)]")]
        self.assertTrue(any("/api/v1/alerts/acknowledge" in one for one in seen))
        for text in seen:
            self.assertFalse(tokens["operate"] in text, text[:100])
        self.browser.click("button", "Forget token")
        self.browser.wait_text("main.gate h1", "This daemon wants a token")
        self.assertNotIn("fst_", kept())
        refusals = [entry for entry in self.browser.log() if "status of 40" not in entry]
        self.assertEqual(refusals, [])

    def test_everything_comes_from_the_daemon(self):
        self.browser.open(address("run", run="demo"))
        self.browser.wait_drawn()
        loaded = self.browser.run("return performance.getEntriesByType('resource').map((one) => "
                                  "[one.name, one.encodedBodySize, one.decodedBodySize])")
        for name, _, _ in loaded:
            self.assertTrue(name.startswith((self.browser.base, "data:")), name)
        page = [size for name, _, size in loaded if "/web/" in name]
        self.assertEqual(len(page), 2, loaded)
        self.assertLess(sum(page), 500_000)

    def test_a_daemon_that_dies_and_comes_back_needs_no_reload(self):
        self.browser.open(address("run", run="good"))
        self.browser.wait_drawn()
        self.browser.run("window.untouched = true")
        self.daemon.kill()
        self.browser.wait_text(".banner.lost", "The daemon does not answer since")
        self.assertIn("train.loss", self.browser.text("main"))  # what was there stays readable
        self.daemon.listen_grpc, self.daemon.listen_http = self.daemon.grpc, self.daemon.http
        self.daemon.start()
        self.browser.click(".banner button", "Try now")
        self.browser.wait("the banner goes", lambda: self.browser.text(".banner").strip() == "")
        self.browser.wait_text("main", "train.loss")
        self.browser.wait_drawn()
        self.assertTrue(self.browser.run("return window.untouched"))
        wait_until(lambda: self.browser.run(
            "return document.querySelector('.pulse').textContent.startsWith('as of')"), SECONDS,
            "the page says how fresh it is")


if __name__ == "__main__":
    FORESHOCKD, FORESHOCK = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
