#!/usr/bin/env python3
"""Pages, through the built daemon: to receivers that answer badly, over kills and reloads; and through
Debian's Alertmanager.

    tests/e2e/notifiers_test.py FORESHOCKD FORESHOCK
"""

import hashlib
import hmac
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

import grpc  # noqa: E402
import jsonschema  # noqa: E402

from alertmanager_process import Alertmanager  # noqa: E402
from daemon_process import Daemon, cli, wait_until  # noqa: E402
from receiver import Receiver  # noqa: E402
from trainer import V1, Trainer  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORESHOCKD, FORESHOCK = "", ""
SECONDS = 30
RULES = """\
groups:
  - name: g
    rules:
      - alert: LossHigh
        indicator: train.loss
        threshold: {above: 10}
        warm_up: judge
        labels: {severity: critical, team: llm}
        annotations: {runbook: "https://example.org/loss"}
"""
# What https://developer.pagerduty.com says of an alert event of the Events API v2.
PAGERDUTY = {
    "type": "object",
    "required": ["routing_key", "event_action", "dedup_key"],
    "additionalProperties": False,
    "properties": {
        "routing_key": {"type": "string", "minLength": 32, "maxLength": 32},
        "event_action": {"enum": ["trigger", "acknowledge", "resolve"]},
        "dedup_key": {"type": "string", "maxLength": 255},
        "client": {"type": "string"},
        "client_url": {"type": "string", "format": "uri"},
        "links": {"type": "array", "items": {
            "type": "object", "required": ["href"], "additionalProperties": False,
            "properties": {"href": {"type": "string"}, "text": {"type": "string"}}}},
        "payload": {
            "type": "object",
            "required": ["summary", "source", "severity"],
            "additionalProperties": False,
            "properties": {
                "summary": {"type": "string", "maxLength": 1024},
                "source": {"type": "string", "minLength": 1},
                "severity": {"enum": ["critical", "error", "warning", "info"]},
                "timestamp": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"},
                "component": {"type": "string"},
                "group": {"type": "string"},
                "class": {"type": "string"},
                "custom_details": {"type": "object"}}},
    },
    "if": {"properties": {"event_action": {"const": "trigger"}}},
    "then": {"required": ["payload"]},
}
# And of a change event.
PAGERDUTY_CHANGE = {
    "type": "object",
    "required": ["routing_key", "payload"],
    "additionalProperties": False,
    "properties": {
        "routing_key": {"type": "string", "minLength": 32, "maxLength": 32},
        "links": PAGERDUTY["properties"]["links"],
        "payload": {
            "type": "object", "required": ["summary"], "additionalProperties": False,
            "properties": {"summary": {"type": "string", "maxLength": 1024},
                           "source": {"type": "string"},
                           "timestamp": PAGERDUTY["properties"]["payload"]["properties"]["timestamp"],
                           "custom_details": {"type": "object"}}}},
}
WEBHOOK = json.loads((ROOT / "docs/webhook.schema.json").read_text())
ROUTING_KEY = "0123456789abcdef0123456789abcdef"


class NotifierCase(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_notify_")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.rules = self.directory / "rules.yaml"
        self.rules.write_text(RULES)
        self.config = self.directory / "foreshockd.yaml"

    def secret(self, name, text):
        path = self.directory / name
        path.write_text(text + "\n")
        return path

    def receiver(self, *script):
        receiver = Receiver(script)
        self.addCleanup(receiver.close)
        return receiver

    def configure(self, notifiers, more=""):
        self.config.write_text(f"notifiers:\n{notifiers}\nexternal_url: https://foreshock.example\n"
                               + more)

    def daemon(self):
        daemon = Daemon(FORESHOCKD, self.directory, rules=[self.rules],
                        extra=["--config", str(self.config)])
        self.addCleanup(daemon.__exit__)
        return daemon.start()

    def metric(self, daemon, what, notifier, result=None):
        labels = f'notifier="{notifier}"' + (f',result="{result}"' if result else "")
        return daemon.metric(f"foreshock_notifications_{what}{{{labels}}}") or 0

    def wait_told(self, daemon, receiver, notifier, count):
        """Until the receiver has taken so many, and that is written down."""
        wait_until(lambda: len(receiver.taken) >= count, SECONDS, f"{notifier} takes {count}")
        wait_until(lambda: self.metric(daemon, "total", notifier, "sent") > 0 and
                   self.metric(daemon, "pending", notifier) == 0, SECONDS,
                   f"nothing is left to tell {notifier}")

    def cli(self, daemon, *arguments, check=0):
        return cli(FORESHOCK, *arguments, server=daemon.grpc, http=daemon.http, check=check).stdout


class Notifiers(NotifierCase):

    def test_each_message_arrives_once_whatever_the_receivers_answer_and_over_a_kill(self):
        pagerduty = self.receiver((429, {"Retry-After": "1"}), "hang")
        hook = self.receiver(500, "close")
        slack = self.receiver()
        self.configure(f"""\
  - type: pagerduty
    url: {pagerduty.url}/v2/enqueue
    routing_key_file: {self.secret("key", ROUTING_KEY)}
    group_wait: 100ms
    timeout: 300ms
  - type: webhook
    url: {hook.url}/hook
    hmac_secret_file: {self.secret("hmac", "s3cret")}
    group_wait: 100ms
  - type: slack
    url_file: {self.secret("slack", slack.url + "/services/T0/B0/x")}
    group_wait: 100ms""")
        daemon = self.daemon()
        trainer = Trainer("exp-1")
        trainer.push(daemon, 1, 20, 20)
        told = {"pagerduty": pagerduty, "webhook": hook, "slack": slack}
        for name, receiver in told.items():
            self.wait_told(daemon, receiver, name, 1)
        daemon.kill()
        daemon.start()
        trainer.push(daemon, 20, 1, 1, 1)
        for name, receiver in told.items():
            self.wait_told(daemon, receiver, name, 2)
        self.assertEqual(daemon.stop(), 0, daemon.log_text())

        events = [taken.parsed for taken in pagerduty.taken]
        self.assertEqual([event["event_action"] for event in events], ["trigger", "resolve"])
        self.assertEqual(len({event["dedup_key"] for event in events}), 1)
        for event in events:
            jsonschema.validate(event, PAGERDUTY)
        self.assertIn("LossHigh in run exp-1", events[0]["payload"]["summary"])
        self.assertEqual(events[0]["links"][0]["href"], "https://example.org/loss")

        self.assertEqual([taken.parsed["status"] for taken in hook.taken], ["firing", "resolved"])
        for taken in hook.taken:
            jsonschema.validate(taken.parsed, WEBHOOK)
            self.assertEqual(taken.headers["X-Foreshock-Signature"], "sha256=" + hmac.new(
                b"s3cret", taken.body, hashlib.sha256).hexdigest())
        self.assertEqual(len({taken.headers["Idempotency-Key"] for taken in hook.taken}), 2)
        self.assertEqual(hook.taken[0].parsed["run_url"],
                         "https://foreshock.example/run?run=exp-1")
        self.assertEqual(len(slack.taken), 2)
        self.assertIn("LossHigh in run exp-1", slack.taken[0].parsed["text"])

    def test_what_a_kill_cut_off_is_told_by_the_next_process(self):
        hook = self.receiver("hang")
        self.configure(f"  - {{type: webhook, url: '{hook.url}', group_wait: 0s, timeout: 60s}}")
        daemon = self.daemon()
        trainer = Trainer("exp-1")
        trainer.push(daemon, 1, 20, 1, 1, 1)  # it has ended before anyone could be told
        wait_until(lambda: hook.asked == 1, SECONDS, "the receiver is asked")
        daemon.kill()
        self.assertEqual(hook.taken, [])
        daemon.start()
        self.wait_told(daemon, hook, "webhook", 2)
        self.assertEqual([taken.parsed["status"] for taken in hook.taken], ["firing", "resolved"])
        # And the end of a process does not wait for company.
        self.configure(f"  - {{type: webhook, url: '{hook.url}', group_wait: 1h}}")
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: "reloaded" in daemon.log_text(), SECONDS, "the daemon reloads")
        trainer.push(daemon, 20)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(len(hook.taken), 3)

    def test_a_new_attempt_is_a_change_for_pagerduty_and_a_template_speaks_for_a_webhook(self):
        pagerduty, hook = self.receiver(503), self.receiver()
        template = self.secret("words", '{"content": "{{status}} {{summary}}"}')
        self.configure(f"""\
  - type: pagerduty
    url: {pagerduty.url}/v2/enqueue
    routing_key_file: {self.secret("key", ROUTING_KEY)}
  - type: webhook
    url: {hook.url}
    template_file: {template}
    group_wait: 0s""")
        daemon = self.daemon()
        Trainer("exp-1").push(daemon, 1, 2)
        second = Trainer("exp-1", launch="two")
        second.steps = 1
        second.push(daemon, 2, 20)
        wait_until(lambda: pagerduty.taken, SECONDS, "PagerDuty hears of the attempt")
        change = pagerduty.taken[0]
        self.assertEqual(change.path, "/v2/change/enqueue")
        jsonschema.validate(change.parsed, PAGERDUTY_CHANGE)
        self.assertEqual(change.parsed["payload"]["summary"],
                         "Run exp-1 goes on in attempt 2; the one before reached step 1")
        wait_until(lambda: hook.taken, SECONDS, "the webhook is told")
        self.assertEqual(list(hook.taken[0].parsed), ["content"])
        self.assertIn("firing critical: LossHigh in run exp-1", hook.taken[0].parsed["content"])
        # A restart tells of no attempt that was there before.
        daemon.kill()
        daemon.start()
        second.push(daemon, 3)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual([taken.path for taken in pagerduty.taken if "change" in taken.path],
                         ["/v2/change/enqueue"])
        template.write_text('{"content": "{{sumary}}"}')
        checked = subprocess.run([FORESHOCKD, "--config", self.config, "--data-dir", self.directory,
                                  "--check-config"], capture_output=True, text=True, check=False)
        self.assertEqual(checked.returncode, 2)
        self.assertIn(f"{template}:1:14: 'sumary' is not in a message", checked.stderr)

    def test_secrets_are_shown_nowhere(self):
        key, path, signs, token = (f"hunter2{name}" for name in ("key", "path", "hmac", "token"))
        hook = self.receiver((400, {}, f"bad {path} {signs} {token}"))
        pagerduty = self.receiver((400, {}, f"bad {key}"))
        self.configure(f"""\
  - type: pagerduty
    url: {pagerduty.url}
    routing_key_file: {self.secret("key", key)}
    group_wait: 0s
  - type: webhook
    url_file: {self.secret("url", f"{hook.url}/{path}")}
    hmac_secret_file: {self.secret("hmac", signs)}
    bearer_token_file: {self.secret("token", token)}
    group_wait: 0s
  - type: slack
    name: gone
    url_file: {self.secret("gone", f"http://127.0.0.1:1/{path}")}
    group_wait: 0s""")
        checked = subprocess.run([FORESHOCKD, "--config", self.config, "--data-dir", self.directory,
                                  "--rules", self.rules, "--check-config"], capture_output=True,
                                 text=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        daemon = self.daemon()
        Trainer("exp-1").push(daemon, 1, 20)
        for name, result in (("pagerduty", "refused"), ("webhook", "refused"), ("gone", "failed")):
            wait_until(lambda n=name, r=result: self.metric(daemon, "total", n, r), SECONDS,
                       f"{name} has {result}")
        pages = [daemon.get(path)[1] for path in ("/metrics", "/api/v1/alerts", "/api/v1/status",
                                                  "/api/v1/runs", "/api/v1/rules")]
        daemon.stop()
        shown = "".join([checked.stdout, checked.stderr, daemon.log_text(), *pages])
        self.assertIn("HTTP 400: bad ***", shown)
        # Not the whole of it as the message: nobody is to see that either.
        self.assertFalse("hunter2" in shown, "a secret is shown")
        # A secret that is not there is a mistake that is found before the daemon starts.
        (self.directory / "key").unlink()
        checked = subprocess.run([FORESHOCKD, "--config", self.config, "--data-dir", self.directory,
                                  "--check-config"], capture_output=True, text=True, check=False)
        self.assertEqual(checked.returncode, 2)
        self.assertIn("notifier 'pagerduty'", checked.stderr)

    def test_tls_is_verified(self):
        certificate = self.directory / "receiver.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=test",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", certificate, "-out",
                        self.directory / "ca.pem"], check=True, capture_output=True)
        certificate.write_text(certificate.read_text() + (self.directory / "ca.pem").read_text())
        hook = Receiver(certificate=certificate)
        self.addCleanup(hook.close)
        self.configure(f"""\
  - {{type: webhook, name: trusts, url: '{hook.url}', group_wait: 0s, ca_file: {self.directory}/ca.pem}}
  - {{type: webhook, name: does-not, url: '{hook.url}', group_wait: 0s}}""")
        daemon = self.daemon()
        Trainer("exp-1").push(daemon, 1, 20)
        self.wait_told(daemon, hook, "trusts", 1)
        wait_until(lambda: self.metric(daemon, "total", "does-not", "failed"), SECONDS, "it fails")
        self.assertEqual(self.metric(daemon, "total", "does-not", "sent"), 0)
        self.assertIn("certificate", daemon.log_text())
        daemon.stop()
        self.assertEqual(len(hook.taken), 1)

    def test_acknowledged_and_silenced_alerts_are_told_no_more_also_over_a_restart(self):
        hook = self.receiver()
        self.configure(f"  - {{type: webhook, url: '{hook.url}', group_wait: 0s}}")
        daemon = self.daemon()
        made = json.loads(self.cli(daemon, "alerts", "silence", "run=~qui.*", "team=llm", "--for",
                                   "2h", "--by", "ada", "--why", "moving house", "-o", "json"))
        silence = made["silence"]["id"]
        quiet, loud = Trainer("quiet"), Trainer("loud")
        quiet.push(daemon, 1, 20)
        loud.push(daemon, 1, 20)
        self.wait_told(daemon, hook, "webhook", 1)
        daemon.kill()
        daemon.start()
        self.assertIn("moving house", self.cli(daemon, "alerts", "silences"))
        alerts = json.loads(self.cli(daemon, "alerts", "-o", "json"))["alerts"]
        by_run = {alert["run"]: alert for alert in alerts}
        self.assertEqual(by_run["quiet"]["silenced_by"], [silence])
        self.cli(daemon, "alerts", "ack", by_run["loud"]["id"][:8], "--by", "ada", "--why", "on it")
        self.wait_told(daemon, hook, "webhook", 2)
        self.assertIn("by ada", self.cli(daemon, "alerts", "--run", "loud"))
        self.assertEqual([(taken.parsed["status"], taken.parsed["run"]) for taken in hook.taken],
                         [("firing", "loud"), ("acknowledged", "loud")])
        self.cli(daemon, "alerts", "unsilence", silence)
        self.wait_told(daemon, hook, "webhook", 3)
        self.assertEqual(hook.taken[2].parsed["run"], "quiet")
        daemon.kill()
        daemon.start()
        loud.push(daemon, 1, 1)
        self.wait_told(daemon, hook, "webhook", 4)
        self.assertEqual((hook.taken[3].parsed["status"], hook.taken[3].parsed["run"]),
                         ("resolved", "loud"))
        for wrong in (("ack", "nosuch"), ("unsilence", "nosuch")):
            done = cli(FORESHOCK, "alerts", *wrong, *(["--by", "ada"] if wrong[0] == "ack" else []),
                       server=daemon.grpc, check=1)
            self.assertIn("nosuch", done.stderr)

    def test_a_reload_takes_new_notifiers_or_keeps_the_old(self):
        hook, added = self.receiver(), self.receiver()
        first = f"  - {{type: webhook, url: '{hook.url}', group_wait: 0s}}\n"
        self.configure(first)
        daemon = self.daemon()
        trainer = Trainer("exp-1")
        trainer.push(daemon, 1, 20)
        self.wait_told(daemon, hook, "webhook", 1)
        self.configure(first + "  - {type: slack, url_file: /nonexistent}\n")
        reloaded = "foreshock_config_last_reload_successful"
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: daemon.metric(reloaded) == 0, SECONDS, "the reload fails")
        self.configure(first + f"  - {{type: webhook, name: added, url: '{added.url}', group_wait: 0s}}\n")
        daemon.signal(signal.SIGHUP)
        self.wait_told(daemon, added, "added", 1)  # of what fires already
        status = json.loads(self.cli(daemon, "status", "-o", "json"))
        self.assertTrue(status["ready"])
        self.assertEqual([(notifier["name"], notifier["told"], notifier["pending"])
                          for notifier in status["notifiers"]], [("added", 1, 0), ("webhook", 1, 0)])
        self.assertEqual(status["silences"], 0)
        blind = json.loads(cli(FORESHOCK, "status", "-o", "json", server=daemon.grpc,
                               http="127.0.0.1:1", check=0).stdout)
        self.assertIsNone(blind["notifiers"])
        self.assertIn("127.0.0.1:1", blind["notifiers_unknown"])
        trainer.push(daemon, 1, 1)
        self.wait_told(daemon, hook, "webhook", 2)
        self.wait_told(daemon, added, "added", 2)
        self.assertEqual([taken.parsed["status"] for taken in hook.taken], ["firing", "resolved"])


class ThroughAlertmanager(NotifierCase):

    def test_a_recorded_fault_is_one_group_that_is_paged_once_over_restarts_of_both(self):
        hook = self.receiver()
        alertmanager = Alertmanager(self.directory, hook).start()
        self.addCleanup(alertmanager.stop)
        self.configure(f"""\
  - type: alertmanager
    urls: ["{alertmanager.url}", "http://127.0.0.1:1"]
    resend: 1s""")
        self.rules.unlink()
        for name in ("default.yaml", "signatures.yaml"):
            shutil.copy(ROOT / "rules" / name, self.directory / name)
        files = [self.directory / "default.yaml", self.directory / "signatures.yaml"]
        daemon = Daemon(FORESHOCKD, self.directory, rules=files,
                        extra=["--config", str(self.config)])
        self.addCleanup(daemon.__exit__)
        daemon.start()
        self.cli(daemon, "replay", ROOT / "tests/data/captures/f_lrramp_211.fscap", "--run",
                 "recorded")
        fires = {(alert["rule"], alert["severity"]) for alert in json.loads(
            self.cli(daemon, "alerts", "--state", "firing", "-o", "json"))["alerts"]
                 if alert["severity"] != "info"}
        self.assertTrue(fires)

        def paged():
            return {(alert["labels"]["alertname"], alert["labels"]["severity"])
                    for taken in hook.taken[-1:] for alert in taken.parsed["alerts"]
                    if alert["status"] == "firing"}
        wait_until(lambda: paged() == fires, SECONDS, f"the page names {fires}")
        groups = json.loads(alertmanager.get("/api/v2/alerts/groups"))
        self.assertEqual([group["labels"] for group in groups], [{"run": "recorded"}])
        told = wait_until(alertmanager.alerts, SECONDS, "Alertmanager shows it")
        self.assertIn("learning_rate_too_high", {alert["labels"]["fault"] for alert in told})

        def identities():
            return {json.dumps(alert["labels"], sort_keys=True) for alert in alertmanager.alerts()}
        before = identities()
        pages = len(hook.taken)
        daemon.kill()
        alertmanager.stop()
        alertmanager.start()
        daemon.start()
        wait_until(lambda: identities() == before, SECONDS, "Alertmanager is told the same again")
        # The run has ended: it comes back to memory when somebody asks for it. Then the rules are
        # withdrawn, and with them the alerts end.
        with grpc.insecure_channel(daemon.grpc) as channel:
            V1.admin_grpc.AdminServiceStub(channel).DeclareEvent(V1.admin.DeclareEventRequest(
                run="recorded", event=V1.types.Event(kind="EVENT_KIND_CHECKPOINT_SAVED", step=1500,
                                                     name="last")), timeout=SECONDS)
        for file in files:
            file.write_text("groups: []\n")
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: hook.taken[-1].parsed["status"] == "resolved", SECONDS, "the end")
        self.assertEqual({taken.parsed["groupKey"] for taken in hook.taken},
                         {'{}:{run="recorded"}'})
        firing = [taken for taken in hook.taken if taken.parsed["status"] == "firing"]
        self.assertEqual(len(firing), pages, "no second page over the restarts")
        self.assertEqual(daemon.stop(), 0)


    def test_a_silence_ends_no_alert_and_mutes_alertmanager_also_over_restarts(self):
        pages = self.receiver()
        alertmanager = Alertmanager(self.directory, pages).start()
        self.addCleanup(alertmanager.stop)
        self.configure(f"""\
  - {{type: alertmanager, urls: ["{alertmanager.url}"], resend: 1s}}""")
        daemon = self.daemon()
        trainer = Trainer("exp-1")
        trainer.push(daemon, 1, 20, 20)
        wait_until(lambda: pages.taken, SECONDS, "the page")

        def silence():
            made = json.loads(self.cli(daemon, "alerts", "silence", "run=exp-1", "--for", "2h",
                                       "--by", "ada", "--why", "moving house", "-o", "json"))
            return made["silence"]["id"]

        def muted():
            alerts = json.loads(alertmanager.get("/api/v2/alerts"))
            return [alert for alert in alerts if alert["status"]["state"] == "suppressed"]

        first = silence()
        wait_until(muted, SECONDS, "Alertmanager mutes it")
        self.assertEqual([held["createdBy"] for held in alertmanager.silences()], ["ada"])
        self.assertIn(first, alertmanager.silences()[0]["comment"])
        # Longer than Alertmanager waits for an alert that nobody shows any more (4 x resend).
        until = time.monotonic() + 7
        while time.monotonic() < until:
            self.assertEqual(len(muted()), 1)
            time.sleep(0.2)
        daemon.kill()
        alertmanager.stop()
        alertmanager.start()
        daemon.start()
        sent = self.metric(daemon, "total", "alertmanager", "repeated")
        wait_until(lambda: self.metric(daemon, "total", "alertmanager", "repeated") > sent + 2,
                   SECONDS, "it is shown again")
        self.assertEqual(len(alertmanager.silences()), 1, "one silence over the restarts")
        self.assertEqual([taken.parsed["status"] for taken in pages.taken], ["firing"])
        self.cli(daemon, "alerts", "unsilence", first)
        wait_until(lambda: not alertmanager.silences(), SECONDS, "the silence is lifted")
        # The end of what was told is told, also when it comes in a silence.
        silence()
        wait_until(muted, SECONDS, "Alertmanager mutes it again")
        trainer.push(daemon, 1, 1, 1)
        wait_until(lambda: pages.taken[-1].parsed["status"] == "resolved", SECONDS, "the end")
        self.assertEqual([taken.parsed["status"] for taken in pages.taken],
                         ["firing", "resolved"])
        # What fires while it is silenced is told when the silence ends.
        trainer.push(daemon, 20, 20)
        wait_until(lambda: json.loads(self.cli(daemon, "alerts", "--state", "firing", "-o",
                                               "json"))["alerts"], SECONDS, "it fires again")
        sent = self.metric(daemon, "total", "alertmanager", "repeated")
        wait_until(lambda: self.metric(daemon, "total", "alertmanager", "repeated") > sent,
                   SECONDS, "another turn")
        self.assertEqual(len(pages.taken), 2)
        for held in json.loads(self.cli(daemon, "alerts", "silences", "-o", "json"))["silences"]:
            self.cli(daemon, "alerts", "unsilence", held["id"])
        wait_until(lambda: len(pages.taken) == 3, SECONDS, "it is told")
        self.assertEqual(pages.taken[2].parsed["status"], "firing")
        self.assertEqual(daemon.stop(), 0, daemon.log_text())

    def test_what_fires_when_its_run_ends_is_over_for_people_and_fires_anew_when_it_goes_on(self):
        pages, hook = self.receiver(), self.receiver()
        alertmanager = Alertmanager(self.directory, pages).start()
        self.addCleanup(alertmanager.stop)
        self.configure(f"""\
  - {{type: alertmanager, urls: ["{alertmanager.url}"], resend: 1s}}
  - {{type: webhook, url: "{hook.url}", group_wait: 0s}}""", "metrics: {ended_runs_for: 2s}\n")
        daemon = self.daemon()
        trainer = Trainer("exp-1")
        trainer.push(daemon, 1, 20, 20)

        def told(receiver, status, count):
            wait_until(lambda: [taken.parsed["status"] for taken in receiver.taken].count(status)
                       >= count, SECONDS, f"{status}, {count} times")
        for receiver in (pages, hook):
            told(receiver, "firing", 1)
        trainer.push(daemon, goodbye="OUTCOME_FAILED")
        for receiver in (pages, hook):
            told(receiver, "resolved", 1)
        over = hook.taken[-1].parsed
        jsonschema.validate(over, WEBHOOK)
        self.assertIn("the run failed, it fired until then", over["summary"])
        self.assertEqual(pages.taken[-1].parsed["alerts"][0]["annotations"]["ended"],
                         "the run failed, it fired until then")
        firing = json.loads(self.cli(daemon, "alerts", "--state", "firing", "-o", "json"))["alerts"]
        self.assertEqual([alert["run"] for alert in firing], ["exp-1"], "the record says how it was")
        # A process that finds it like that tells nothing; one more attempt, and it is a page.
        self.assertEqual(daemon.stop(), 0, daemon.log_text())
        daemon.start()
        second = Trainer("exp-1", launch="two")
        second.steps = trainer.steps
        second.push(daemon, 20)
        for receiver in (pages, hook):
            told(receiver, "firing", 2)
        second.push(daemon, 1, 1, 1)
        for receiver in (pages, hook):
            told(receiver, "resolved", 2)
        self.assertEqual(daemon.stop(), 0, daemon.log_text())
        self.assertEqual([taken.parsed["status"] for taken in hook.taken],
                         ["firing", "resolved"] * 2)
        self.assertEqual(len({taken.headers["Idempotency-Key"] for taken in hook.taken}), 4)


if __name__ == "__main__":
    FORESHOCKD, FORESHOCK = sys.argv[1:3]
    for variable in list(os.environ):
        if variable.lower().endswith("_proxy"):
            del os.environ[variable]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
