#!/usr/bin/env python3
"""Who may reach the daemon and do what, through the built programs. SECURITY.md names these tests.

    tests/e2e/security_test.py FORESHOCKD FORESHOCK
"""

import json
import os
import pathlib
import queue
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

import grpc  # noqa: E402

import contract  # noqa: E402
from certificates import Authority, replace  # noqa: E402
from daemon_process import Daemon, wait_until  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOG = ROOT / "tests/data/import/metrics.jsonl"
V1 = contract.load()
FORESHOCKD, FORESHOCK = "", ""
SECONDS = 30
RULES = """
groups:
  - name: g
    rules:
      - alert: LossHigh
        indicator: train.loss
        threshold: {above: 1}
        warm_up: judge
        labels: {severity: critical}
"""
# What each call needs, by the comments in proto/foreshock/v1/; other calls of QueryService: read.
ROLES = {"Push": "push", "PushOnce": "push", "Reload": "admin", "DeclareEvent": "operate",
         "PinRun": "admin", "DeleteRun": "admin", "AcknowledgeAlert": "operate", "AcceptAlert": "operate",
         "SilenceAlerts": "operate", "ExpireSilence": "operate", "GetStoreStats": "read",
         "VerifyStore": "admin", "BackupStore": "admin"}
HOLDS = {"push": {"push"}, "read": {"read"}, "operate": {"read", "operate"},
         "admin": {"push", "read", "operate", "admin"}}
REFUSALS = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}


def hello(run, rank=0, instance="one"):
    return V1.ingest.Hello(run=run, launch_id="launch", client_instance=f"{instance}-{rank}",
                           rank=rank, world_size=8)


def report(seq, notes=0):
    """One loss, and so many notes of 1 KiB."""
    message = V1.ingest.Report(seq=seq, step=seq, last_of_step=True)
    batch = message.summaries.add().scalars
    if seq == 1:
        batch.declare.add(id=1, name="loss", reduction=V1.types.REDUCTION_LAST,
                          scope=V1.types.SCOPE_GLOBAL)
    batch.ids.append(1)
    batch.values.append(2.5)
    for _ in range(notes):
        message.summaries.add().event.CopyFrom(V1.types.Event(
            kind=V1.types.EVENT_KIND_NOTE, name="note", detail="x" * 1024))
    return message


class Stream:
    """A Push stream whose messages are sent one by one."""

    def __init__(self, channel, run, metadata=(), rank=0, instance="one"):
        self._requests = queue.Queue()
        self.call = V1.ingest_grpc.IngestServiceStub(channel).Push(
            iter(self._requests.get, None), metadata=metadata)
        self._requests.put(V1.ingest.PushRequest(hello=hello(run, rank, instance)))

    def greeted(self):
        return next(self.call).hello_ack

    def push(self, message):
        self._requests.put(V1.ingest.PushRequest(report=message))

    def acked(self, seq):
        while True:
            if next(self.call).ack.seq >= seq:
                return

    def end(self):
        """The status with which the daemon ends it."""
        try:
            for _ in self.call:
                pass
        except grpc.RpcError as error:
            return error
        finally:
            self._requests.put(None)
        raise AssertionError("the stream ended well")

    def close(self):
        self._requests.put(None)
        self.call.cancel()


class Security(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="foreshock_e2e_")
        directory = pathlib.Path(cls.shared.name)
        cls.ca, cls.other_ca = Authority(directory, "ca"), Authority(directory, "other-ca")
        cls.server = cls.ca.issue("server")
        cls.rotated = cls.ca.issue("rotated")
        cls.expired = cls.ca.issue("expired", days=-1)
        cls.stranger = cls.other_ca.issue("stranger")
        cls.client = cls.ca.issue("client")
        cls.client_expired = cls.ca.issue("client-expired", days=-1)

    @classmethod
    def tearDownClass(cls):
        cls.shared.cleanup()

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_e2e_")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.rules = self.directory / "rules.yaml"
        self.rules.write_text("groups: []\n")
        self.config = self.directory / "foreshock.yaml"
        self.tokens_file = self.directory / "tokens.yaml"
        self.tokens = {}
        self.entries = {}

    # ---- what a test is made of

    def start(self, config=""):
        self.config.write_text(config)
        daemon = Daemon(FORESHOCKD, self.directory, rules=[self.rules],
                        extra=["--config", str(self.config)])
        self.addCleanup(daemon.__exit__)
        return daemon.start()

    def tls(self, pair=None, client_ca=None, require=""):
        pair = pair or self.server
        lines = f"tls:\n  cert_file: {pair.cert}\n  key_file: {pair.key}\n"
        if client_ca:
            lines += f"  client_ca_file: {client_ca.cert}\n"
        return lines + (f"  require_client_cert: {require}\n" if require else "")

    def own_pair(self):
        """A copy of the server's pair that this test may replace."""
        pair = type(self.server)(self.directory / "own.pem", self.directory / "own.key")
        replace(pair, self.server)
        return pair

    def token(self, name, *roles, match=()):
        """A token of the real program; its entry goes into the tokens file."""
        arguments = ["token", "new", name, "--to", self.directory / f"{name}.token"]
        for role in roles:
            arguments += ["--role", role]
        for text in match:
            arguments += ["--match", text]
        self.entries[name] = self.run_cli(*arguments, check=0).stdout
        self.tokens[name] = (self.directory / f"{name}.token").read_text().strip()
        self.write_tokens()

    def write_tokens(self):
        self.tokens_file.write_text("tokens:\n" + "".join(self.entries.values()))

    def access(self):
        return f"access:\n  tokens_file: {self.tokens_file}\n"

    def header(self, name):
        return (("authorization", f"Bearer {self.tokens[name]}"),)

    def run_cli(self, *arguments, check=None, **environment):
        env = {key: value for key, value in os.environ.items() if not key.startswith("FORESHOCK_")}
        env.update({"NO_COLOR": "1", **{key: str(value) for key, value in environment.items()}})
        done = subprocess.run([FORESHOCK, *map(str, arguments)], env=env, check=False,
                              capture_output=True, text=True, timeout=120)
        if check is not None:
            self.assertEqual(done.returncode, check, f"{arguments}\n{done.stdout}{done.stderr}")
        return done

    def check_config(self, *arguments):
        return subprocess.run([FORESHOCKD, "--data-dir", str(self.directory / "data"), "--rules",
                               str(self.rules), "--check-config", *map(str, arguments)],
                              capture_output=True, text=True, timeout=60, check=False)

    def secure(self, daemon, ca=None, client=None):
        """A channel that trusts `ca`."""
        pair = (None, None) if client is None else (client.key.read_bytes(),
                                                    client.cert.read_bytes())
        channel = grpc.secure_channel(daemon.grpc, grpc.ssl_channel_credentials(
            (ca or self.ca).cert.read_bytes(), *pair),
            options=[("grpc.use_local_subchannel_pool", 1)])
        self.addCleanup(channel.close)
        return channel

    def plain(self, daemon):
        channel = grpc.insecure_channel(daemon.grpc)
        self.addCleanup(channel.close)
        return channel

    def served(self, daemon):
        """The certificate that both ports show now."""
        shown = set()
        for address in (daemon.grpc, daemon.http):
            host, port = address.rsplit(":", 1)
            shown.add(ssl.get_server_certificate((host, int(port))))
        return shown

    def get(self, daemon, path, ca=None, client=None, token=None, method="GET", host=None,
            body=None):
        """(status, body) over HTTP; an OSError where no connection comes about. `body`: as JSON."""
        context = None
        if ca:
            context = ssl.create_default_context(cafile=str(ca.cert))
            if client:
                context.load_cert_chain(client.cert, client.key)
        url = f"{'https' if ca else 'http'}://{host or daemon.http}{path}"
        request = urllib.request.Request(url, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=SECONDS, context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def status_code(self, channel, metadata=()):
        try:
            V1.query_grpc.QueryServiceStub(channel).GetStatus(
                V1.query.GetStatusRequest(), timeout=SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    def metric(self, daemon, line, **request):
        page = self.get(daemon, "/metrics", **request)[1]
        found = [text for text in page.splitlines() if text.startswith(line + " ")]
        return float(found[0].rsplit(" ", 1)[1]) if found else None

    # ---- TLS

    def test_both_ports_speak_tls_and_nothing_else(self):
        daemon = self.start(self.tls())
        self.assertEqual(self.status_code(self.secure(daemon)), grpc.StatusCode.OK)
        self.assertEqual(self.get(daemon, "/-/healthy", ca=self.ca)[0], 200)
        self.assertEqual(self.status_code(self.plain(daemon)), grpc.StatusCode.UNAVAILABLE)
        with self.assertRaises(OSError):
            self.get(daemon, "/-/healthy")

    def test_tls_older_than_1_2_is_refused(self):
        daemon = self.start(self.tls())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.ca.cert)
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        for address in (daemon.grpc, daemon.http):
            host, port = address.rsplit(":", 1)
            with socket.create_connection((host, int(port))) as peer:
                with self.assertRaises(ssl.SSLError):
                    context.wrap_socket(peer, server_hostname="localhost")

    def test_client_that_trusts_another_ca_does_not_connect(self):
        daemon = self.start(self.tls())
        self.assertEqual(self.status_code(self.secure(daemon, ca=self.other_ca)),
                         grpc.StatusCode.UNAVAILABLE)
        with self.assertRaises(OSError):
            self.get(daemon, "/-/healthy", ca=self.other_ca)

    def test_expired_certificate_is_refused_by_clients(self):
        daemon = self.start(self.tls(self.expired))
        self.assertIn("the certificate has expired", daemon.log_text())
        self.assertEqual(self.status_code(self.secure(daemon)), grpc.StatusCode.UNAVAILABLE)
        with self.assertRaises(OSError):
            self.get(daemon, "/-/healthy", ca=self.ca)

    def test_client_without_or_with_a_bad_certificate_is_refused(self):
        daemon = self.start(self.tls(client_ca=self.ca))
        self.assertEqual(self.status_code(self.secure(daemon, client=self.client)),
                         grpc.StatusCode.OK)
        self.assertEqual(self.get(daemon, "/-/healthy", ca=self.ca, client=self.client)[0], 200)
        for bad in (None, self.stranger, self.client_expired):
            with self.subTest(client=bad and bad.cert.name):
                self.assertEqual(self.status_code(self.secure(daemon, client=bad)),
                                 grpc.StatusCode.UNAVAILABLE)
                with self.assertRaises(OSError):
                    self.get(daemon, "/-/healthy", ca=self.ca, client=bad)

    def test_client_certificates_can_be_asked_for_on_one_port_only(self):
        daemon = self.start(self.tls(client_ca=self.ca, require="grpc"))
        self.assertEqual(self.get(daemon, "/-/healthy", ca=self.ca)[0], 200)
        self.assertEqual(self.status_code(self.secure(daemon)), grpc.StatusCode.UNAVAILABLE)

    def test_certificate_rotates_under_a_running_stream(self):
        pair = self.own_pair()
        daemon = self.start(self.tls(pair))
        stream = Stream(self.secure(daemon), "rotating")
        self.addCleanup(stream.close)
        stream.greeted()
        stream.push(report(1))
        stream.acked(1)
        before = self.served(daemon)
        replace(pair, self.rotated)
        after = self.rotated.cert.read_text().strip()
        wait_until(lambda: {text.strip() for text in self.served(daemon)} == {after}, SECONDS,
                   "both ports show the new certificate")
        self.assertNotIn(after, before)
        stream.push(report(2))
        stream.acked(2)
        self.assertEqual(self.status_code(self.secure(daemon)), grpc.StatusCode.OK)

    def test_broken_rotation_keeps_the_old_certificate_and_shows(self):
        pair = self.own_pair()
        daemon = self.start(self.tls(pair))
        before = self.served(daemon)
        pair.cert.write_bytes(self.rotated.cert.read_bytes())  # and not its key
        wait_until(lambda: self.metric(daemon, "foreshock_tls_reload_failures_total", ca=self.ca),
                   SECONDS, "the failure is counted")
        self.assertEqual(self.served(daemon), before)
        self.assertIn("own.key: is not the key of the certificate", daemon.log_text())
        pair.key.write_bytes(self.rotated.key.read_bytes())
        wait_until(lambda: self.served(daemon) != before, SECONDS, "the pair is whole again")

    # ---- tokens

    def all_tokens(self):
        for role in HOLDS:
            self.token(role, role)

    def test_every_call_needs_its_role(self):
        self.all_tokens()
        daemon = self.start(self.access())
        channel = self.plain(daemon)
        requests = {"Push": lambda: iter([V1.ingest.PushRequest(hello=hello("roles"))])}
        for module, name in ((V1.ingest, "IngestService"), (V1.query, "QueryService"),
                             (V1.admin, "AdminService")):
            service = module.DESCRIPTOR.services_by_name[name]
            for method in service.methods:
                needs = ROLES.get(method.name, "read")
                for holder in (None, *HOLDS):
                    with self.subTest(call=method.name, token=holder):
                        code = self.call(channel, service, method, requests,
                                         () if holder is None else self.header(holder))
                        if holder is None:
                            self.assertIs(code, grpc.StatusCode.UNAUTHENTICATED)
                        elif needs in HOLDS[holder]:
                            self.assertNotIn(code, REFUSALS)
                        else:
                            self.assertIs(code, grpc.StatusCode.PERMISSION_DENIED)

    def call(self, channel, service, method, requests, metadata):
        """The status of a call with an empty request."""
        module = sys.modules[f"foreshock.v1.{service.file.name.split('/')[-1][:-6]}_pb2"]
        request_type = getattr(module, method.input_type.name)
        kind = ("stream" if method.name == "Push" else "unary",
                "stream" if method.name in ("Push", "QueryPoints", "VerifyStore") else "unary")
        caller = getattr(channel, "_".join(kind))(
            f"/{service.full_name}/{method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=lambda data: data)
        request = requests.get(method.name, request_type)()
        try:
            answer = caller(request, timeout=SECONDS, metadata=metadata)
            if kind[1] == "stream":
                for _ in answer:
                    pass
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    def test_http_needs_a_token_but_for_the_probes_and_the_page(self):
        self.all_tokens()
        daemon = self.start(self.access() + "http:\n  reload: true\n")
        for path in ("/-/healthy", "/-/ready"):
            self.assertEqual(self.get(daemon, path)[0], 200)
        for path in ("/metrics", "/api/v1/status", "/api/v1/runs", "/api/nothing-here",
                     "/-/nothing-here"):
            with self.subTest(path=path):
                self.assertEqual(self.get(daemon, path)[0], 401)
                self.assertEqual(self.get(daemon, path, token="fst_unknown")[0], 401)
                self.assertEqual(self.get(daemon, path, token=self.tokens["push"])[0], 403)
                self.assertIn(self.get(daemon, path, token=self.tokens["read"])[0], (200, 404))
        backtest = "/api/v1/rules/backtest"  # it changes nothing: who may read may ask for it
        for name, status in ((None, 401), ("push", 403), ("read", 400), ("operate", 400)):
            self.assertEqual(self.get(daemon, backtest, method="POST",
                                      token=name and self.tokens[name])[0], status)
        for name in ("push", "read", "operate"):
            self.assertEqual(self.get(daemon, "/-/reload", method="POST",
                                      token=self.tokens[name])[0], 403)
        self.assertEqual(self.get(daemon, "/-/reload", method="POST",
                                  token=self.tokens["admin"])[0], 200)

    def test_page_opens_without_a_token_and_what_it_shows_does_not(self):
        self.all_tokens()
        self.rules.write_text(RULES)
        daemon = self.start(self.access())
        once = V1.ingest_grpc.IngestServiceStub(self.plain(daemon))
        alone = hello("hidden")
        alone.world_size = 1
        once.PushOnce(V1.ingest.PushOnceRequest(hello=alone, reports=[report(1)]),
                      timeout=SECONDS, metadata=self.header("push"))
        alert = wait_until(lambda: json.loads(self.get(
            daemon, "/api/v1/alerts", token=self.tokens["read"])[1])["alerts"], SECONDS, "an alert")[0]
        for path in ("/", "/runs", f"/alert?run=hidden&id={alert['id']}"):
            status, page = self.get(daemon, path)
            self.assertEqual(status, 200, path)
            self.assertEqual(page, self.get(daemon, path, token=self.tokens["admin"])[1])
            for name in re.findall(r'"(web/[^"]+)"', page):
                self.assertEqual(self.get(daemon, f"/{name}")[0], 200, name)
        self.assertEqual(self.get(daemon, "/nothing-here")[0], 404)
        for path in ("/api/v1/runs", "//api/v1/runs", "/%61pi/v1/runs", "/API/v1/runs",
                     "/runs/../api/v1/runs", "/%6detrics", "/metrics?x=1", "/metrics/"):
            with self.subTest(path=path):
                status, answer = self.get(daemon, path)
                self.assertIn(status, (401, 404))
                self.assertNotIn("hidden", answer)
        for holder, status in ((None, 401), ("push", 403), ("read", 403), ("operate", 200)):
            with self.subTest(token=holder):
                self.assertEqual(self.get(
                    daemon, "/api/v1/alerts/acknowledge", method="POST",
                    token=self.tokens.get(holder),
                    body={"id": alert["id"], "by": str(holder), "why": ""})[0], status)
                shown = json.loads(self.get(daemon, "/api/v1/alerts",
                                            token=self.tokens["read"])[1])["alerts"][0]
                self.assertEqual("acknowledgement" in shown, status == 200)

    def test_push_token_is_for_its_runs_only(self):
        self.token("trainer", "push", match=['run=~"exp-.*"', "run!=exp-9"])
        daemon = self.start(self.access())
        channel = self.plain(daemon)
        for run, good in (("exp-1", True), ("exp-9", False), ("prod", False), ("xexp-1", False)):
            with self.subTest(run=run):
                stream = Stream(channel, run, self.header("trainer"))
                self.addCleanup(stream.close)
                if good:
                    self.assertEqual(stream.greeted().attempt, 1)
                    continue
                error = stream.end()
                self.assertIs(error.code(), grpc.StatusCode.PERMISSION_DENIED)
                self.assertIn(f"may not push to run '{run}'", error.details())
        once = V1.ingest_grpc.IngestServiceStub(channel)
        with self.assertRaises(grpc.RpcError) as refused:
            once.PushOnce(V1.ingest.PushOnceRequest(hello=hello("prod")), timeout=SECONDS,
                          metadata=self.header("trainer"))
        self.assertIs(refused.exception.code(), grpc.StatusCode.PERMISSION_DENIED)

    def test_revoked_token_ends_its_stream_at_the_next_message(self):
        self.token("gone", "push")
        self.token("stays", "push")
        daemon = self.start(self.access())
        channel = self.plain(daemon)
        streams = {name: Stream(channel, "revoked", self.header(name), rank)
                   for rank, name in enumerate(("gone", "stays"))}
        for stream in streams.values():
            self.addCleanup(stream.close)
            stream.greeted()
            stream.push(report(1))
            stream.acked(1)
        del self.entries["gone"]
        self.write_tokens()
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: "reloaded" in daemon.log_text(), SECONDS, "the tokens are read again")
        streams["gone"].push(report(2))
        error = streams["gone"].end()
        self.assertIs(error.code(), grpc.StatusCode.UNAUTHENTICATED)
        self.assertIn("revoked", error.details())
        streams["stays"].push(report(2))
        streams["stays"].acked(2)

    def test_tokens_file_with_mistakes_keeps_the_old_tokens(self):
        self.token("ci", "read")
        daemon = self.start(self.access())
        self.tokens_file.write_text("tokens: [{name: x, sha256: 12, roles: [read]}]\n")
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: "reload failed" in daemon.log_text(), SECONDS, "the reload fails")
        self.assertEqual(self.get(daemon, "/metrics", token=self.tokens["ci"])[0], 200)
        self.assertEqual(self.get(daemon, "/metrics")[0], 401)

    def test_secrets_are_shown_nowhere(self):
        self.all_tokens()
        daemon = self.start(self.tls() + self.access())
        secrets = [*self.tokens.values(), self.server.key.read_text().splitlines()[1],
                   *(entry.split("sha256: ")[1].split()[0] for entry in self.entries.values())]
        self.status_code(self.secure(daemon), self.header("read"))
        self.status_code(self.secure(daemon), self.header("push"))
        self.status_code(self.secure(daemon), (("authorization", "Bearer fst_mistyped"),))
        seen = [daemon.log_text(), self.check_config("--config", self.config).stdout]
        for path in ("/metrics", "/api/v1/status", "/api/v1/runs"):
            seen.append(self.get(daemon, path, ca=self.ca, token=self.tokens["admin"])[1])
        self.assertIn("foreshock_access_refused_total", seen[2])
        for text in seen:
            self.assertTrue(text)
            for secret in [*secrets, "fst_"]:
                self.assertNotIn(secret, text)

    # ---- without tokens, and what no configuration opens

    def other_address(self):
        """An address of this machine that is not loopback; skips where there is none."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
            except OSError:
                self.skipTest("this machine has no address but loopback")
            return probe.getsockname()[0]

    def test_open_port_beyond_this_machine_is_refused_unless_it_is_meant(self):
        closed = self.directory / "closed.yaml"
        self.token("ci", "read")
        closed.write_text(self.tls() + self.access())
        plain_tokens = self.directory / "plain.yaml"
        plain_tokens.write_text(self.access())
        only_tls = self.directory / "tls.yaml"
        only_tls.write_text(self.tls())
        mutual = self.directory / "mutual.yaml"
        mutual.write_text(self.tls(client_ca=self.ca))
        for flag, name in (("--listen-grpc", "grpc"), ("--listen-http", "http")):
            for config, good in ((None, False), (plain_tokens, False), (only_tls, False),
                                 (closed, True), (mutual, True)):
                with self.subTest(flag=flag, config=config and config.name):
                    arguments = [flag, "0.0.0.0:0", *(["--config", config] if config else [])]
                    done = self.check_config(*arguments)
                    self.assertEqual(done.returncode, 0 if good else 2, done.stderr)
                    if good:
                        continue
                    self.assertIn(f"{name}.listen 0.0.0.0:0 can be reached from other machines",
                                  done.stderr)
                    done = self.check_config(*arguments, "--insecure")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("warning: insecure", done.stderr)

    def test_without_tokens_admin_is_for_this_machine_only(self):
        address = self.other_address()
        self.config.write_text("http:\n  reload: true\n")
        daemon = Daemon(FORESHOCKD, self.directory, rules=[self.rules],
                        extra=["--config", str(self.config), "--insecure"])
        daemon.listen_grpc = daemon.listen_http = "0.0.0.0:0"
        self.addCleanup(daemon.__exit__)
        daemon.start()
        ports = {name: getattr(daemon, name).rsplit(":", 1)[1] for name in ("grpc", "http")}
        for host, good in (("127.0.0.1", True), (address, False)):
            with self.subTest(host=host):
                channel = grpc.insecure_channel(f"{host}:{ports['grpc']}")
                self.addCleanup(channel.close)
                self.assertEqual(self.status_code(channel), grpc.StatusCode.OK)
                admin = V1.admin_grpc.AdminServiceStub(channel)
                if good:
                    admin.Reload(V1.admin.ReloadRequest(), timeout=SECONDS)
                else:
                    with self.assertRaises(grpc.RpcError) as refused:
                        admin.Reload(V1.admin.ReloadRequest(), timeout=SECONDS)
                    self.assertIs(refused.exception.code(), grpc.StatusCode.PERMISSION_DENIED)
                self.assertEqual(self.get(daemon, "/-/reload", method="POST",
                                          host=f"{host}:{ports['http']}")[0], 200 if good else 403)

    def test_reload_over_http_is_off_unless_enabled(self):
        self.assertEqual(self.get(self.start(), "/-/reload", method="POST")[0], 404)  # as any path

    def test_no_name_from_the_network_becomes_a_file(self):
        outside = self.directory / "outside"
        outside.mkdir()
        daemon = self.start(f"store:\n  backup_directory: {self.directory / 'backups'}\n")
        channel = self.plain(daemon)
        before = set(self.directory.iterdir())
        for name in ("../../outside/x", "/etc/passwd", f"{outside}/x", "..", "a/b"):
            once = V1.ingest_grpc.IngestServiceStub(channel)
            request = V1.ingest.PushOnceRequest(hello=hello(name))
            request.reports.append(report(1))
            self.assertEqual(once.PushOnce(request, timeout=SECONDS).ack.seq, 1)
            with self.assertRaises(grpc.RpcError) as refused:
                V1.admin_grpc.AdminServiceStub(channel).BackupStore(
                    V1.admin.BackupStoreRequest(name=name), timeout=SECONDS)
            self.assertIs(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            rules = (f"groups: [{{name: g, rules: [{{alert: r, indicator: train.loss, robust_z: {{above: 3}}, "
                     f"labels: {{severity: info}}, baseline: {{kind: reference, file: '{name}'}}}}]}}]")
            with self.assertRaises(grpc.RpcError) as refused:
                V1.query_grpc.QueryServiceStub(channel).BacktestRules(V1.query.BacktestRulesRequest(
                    run=name, files=[V1.query.RuleFile(name=name, text=rules)]), timeout=SECONDS)
            self.assertIn("no file is opened for rules that come from elsewhere",
                          refused.exception.details())
        for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api/v1/../../etc/passwd"):
            self.assertEqual(self.get(daemon, path)[0], 404)
        self.assertEqual(list(outside.iterdir()), [])
        self.assertEqual(set(self.directory.iterdir()), before)
        self.assertEqual([path for path in (self.directory / "data").rglob("*")
                          if path.name in ("x", "passwd", "b")], [])

    def test_the_daemon_can_run_no_command(self):
        symbols = subprocess.run(["readelf", "-W", "--dyn-syms", FORESHOCKD], check=True,
                                 capture_output=True, text=True).stdout
        if re.search(r"\b__[at]san_", symbols):
            self.skipTest("a sanitizer runs its symbolizer")
        self.assertIn("accept4@", symbols)
        self.assertEqual(re.findall(r"\b(?:system|popen|v?fork|exec\w+|posix_spawnp?)@", symbols),
                         [])

    # ---- limits of each client

    def test_one_address_that_is_slow_holds_up_no_probe_of_another(self):
        daemon = self.start()
        host, port = daemon.http.rsplit(":", 1)
        crowd = []
        for beginning in [b"", b"GET /-/hea", b"POST /api/v1/silences HTTP/1.1\r\n"] * 100:
            crowd.append(socket.create_connection((host, int(port)), timeout=SECONDS,
                                                  source_address=("127.0.0.2", 0)))
            self.addCleanup(crowd[-1].close)
            crowd[-1].sendall(beginning)
        # More than can wait: the crowd's own go, and who comes from elsewhere is answered.
        for _ in range(20):
            self.assertEqual(self.get(daemon, "/-/healthy")[0], 200)
        self.assertGreater(self.metric(daemon, "foreshock_http_connections_refused_total"), 0)

    def refused(self, stream):
        error = stream.end()
        self.assertIs(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        return error.details()

    def test_streams_of_a_client_are_limited(self):
        self.token("many", "push")
        self.token("other", "push", "read")
        daemon = self.start(self.access() + "limits:\n  client_streams_max: 2\n")
        channel = self.plain(daemon)
        streams = [Stream(channel, "streams", self.header("many"), rank) for rank in range(2)]
        for stream in streams:
            self.addCleanup(stream.close)
            stream.greeted()
        third = Stream(channel, "streams", self.header("many"), 2)
        self.addCleanup(third.close)
        self.assertIn("(client_streams_max)", self.refused(third))
        other = Stream(channel, "streams", self.header("other"), 3)
        self.addCleanup(other.close)
        other.greeted()
        self.assertEqual(self.metric(daemon, 'foreshock_limit_hits_total{limit="client_streams"}',
                                     token=self.tokens["other"]), 1)

    def test_runs_of_a_client_are_limited(self):
        daemon = self.start("limits:\n  client_runs_max: 2\n")
        channel = self.plain(daemon)
        once = V1.ingest_grpc.IngestServiceStub(channel)
        for run in ("one", "two", "one"):
            once.PushOnce(V1.ingest.PushOnceRequest(hello=hello(run)), timeout=SECONDS)
        stream = Stream(channel, "three")
        self.addCleanup(stream.close)
        self.assertIn("client '127.0.0.1' has pushed to 2 runs within a day", self.refused(stream))
        self.assertEqual(self.metric(daemon, 'foreshock_limit_hits_total{limit="client_runs"}'), 1)

    def test_bytes_of_a_client_are_limited(self):
        daemon = self.start("limits:\n  client_bytes_per_second_max: 1KiB\n")
        channel = self.plain(daemon)
        stream = Stream(channel, "bytes")
        self.addCleanup(stream.close)
        stream.greeted()
        stream.push(report(1, notes=60))  # passes, and is a minute ahead
        stream.acked(1)
        stream.push(report(2))
        self.assertIn("(client_bytes_per_second_max)", self.refused(stream))
        self.assertEqual(self.metric(daemon, 'foreshock_limit_hits_total{limit="client_bytes"}'), 1)

    # ---- the clients

    def doctor(self, daemon, *arguments, check):
        done = self.run_cli("doctor", "--server", daemon.grpc, "--http", daemon.http, "--timeout",
                            "5", "-o", "json", *arguments)
        self.assertEqual(done.returncode, check, done.stdout + done.stderr)
        return {item["check"]: item for item in json.loads(done.stdout)["checks"]}

    def test_the_command_line_works_with_tls_and_a_token(self):
        self.token("feeder", "push", match=["run=fed"])
        self.token("reader", "read")
        daemon = self.start(self.tls(client_ca=self.ca) + self.access())
        files = dict(FORESHOCK_SERVER=daemon.grpc, FORESHOCK_CA_FILE=self.ca.cert,
                     FORESHOCK_CERT_FILE=self.client.cert, FORESHOCK_KEY_FILE=self.client.key)
        feeder = dict(files, FORESHOCK_TOKEN_FILE=self.directory / "feeder.token")
        reader = dict(files, FORESHOCK_TOKEN_FILE=self.directory / "reader.token")
        capture = self.directory / "run.fscap"
        self.run_cli("import", LOG, "-w", capture, check=0)
        replay = ["replay", capture]
        self.run_cli(*replay, "--run", "fed", check=0, **feeder)
        self.assertIn("fed", self.run_cli("runs", check=0, **reader).stdout)
        done = self.run_cli(*replay, "--run", "fed", check=1, **reader)
        self.assertIn("token 'reader' has no role push, only read", done.stderr)
        done = self.run_cli(*replay, "--run", "else", check=1, **feeder)
        self.assertIn("may not push to run 'else'", done.stderr)
        done = self.run_cli("runs", check=1, **files)
        self.assertIn("--token-file FILE or FORESHOCK_TOKEN_FILE", done.stderr)
        done = self.run_cli("runs", check=2, **dict(reader, FORESHOCK_TOKEN_FILE="/no/such/file"))
        self.assertIn("token file /no/such/file: No such file or directory", done.stderr)

    def test_doctor_says_what_is_wrong_in_words(self):
        self.token("reader", "read")
        self.token("pusher", "push")
        unknown = self.directory / "unknown.token"
        unknown.write_text("fst_unknown\n")
        pair = self.own_pair()
        daemon = self.start(self.tls(pair, client_ca=self.ca) + self.access())
        ca = ["--ca-file", self.ca.cert]
        client = ["--cert-file", self.client.cert, "--key-file", self.client.key]
        token = ["--token-file", self.directory / "reader.token"]
        for arguments, check, found in (
                ([], "tls", "the daemon speaks TLS"),
                (["--ca-file", self.other_ca.cert, *client], "tls", "of another CA"),
                (ca, "tls", "asks for a client certificate"),
                ([*ca, "--cert-file", self.stranger.cert, "--key-file", self.stranger.key], "tls",
                 "does not accept the certificate"),
                ([*ca, "--cert-file", self.client_expired.cert, "--key-file",
                  self.client_expired.key], "tls", "has expired"),
                ([*ca, *client, "--server-name", "elsewhere"], "tls", "is not for elsewhere"),
                ([*ca, *client, "--token-file", "/no/such"], "credentials", "No such file")):
            with self.subTest(arguments=arguments):
                self.assertIn(found, self.doctor(daemon, *arguments, check=3)[check]["detail"])
        for arguments, found in (([], "wants a token"), (["--token-file", unknown], "not known"),
                                 (["--token-file", self.directory / "pusher.token"],
                                  "has no role read")):
            with self.subTest(arguments=arguments):
                self.assertIn(found, self.doctor(daemon, *ca, *client, *arguments,
                                                 check=1)["token"]["detail"])
        self.doctor(daemon, *ca, *client, *token, check=0)
        replace(pair, self.expired)
        wait_until(lambda: "has expired" in self.doctor_tls(daemon, *ca, *client), SECONDS,
                   "the daemon shows its expired certificate")

    def doctor_tls(self, daemon, *arguments):
        done = self.run_cli("doctor", "--server", daemon.grpc, "--http", daemon.http, "--timeout",
                            "5", "-o", "json", *arguments)
        return "".join(item["detail"] for item in json.loads(done.stdout)["checks"]
                       if item["check"] == "tls")

    def test_doctor_says_when_the_daemon_speaks_no_tls(self):
        daemon = self.start()
        found = self.doctor(daemon, "--ca-file", self.ca.cert, check=3)
        self.assertIn("does not speak TLS", found["tls"]["detail"])

    def test_token_new_shows_the_token_once_and_writes_it_for_its_owner_only(self):
        shown = json.loads(self.run_cli("token", "new", "x", "--role", "admin", "-o", "json",
                                        check=0).stdout)
        self.assertRegex(shown["token"], r"^fst_[A-Za-z0-9_-]{43}$")
        self.assertRegex(shown["sha256"], r"^[0-9a-f]{64}$")
        self.token("y", "push", match=['run=~"it\'s-.*"'])
        path = self.directory / "y.token"
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertNotIn(self.tokens["y"], self.entries["y"])
        again = self.run_cli("token", "new", "y", "--role", "push", "--to", path)
        self.assertEqual(again.returncode, 2)
        self.assertIn("File exists", again.stderr)
        for arguments in (["--role", "king"], ["--role", "push", "--match", "team=a"], []):
            self.assertEqual(self.run_cli("token", "new", "z", *arguments).returncode, 2)

    # ---- what is written of it

    def test_every_claim_of_the_threat_model_names_a_test_that_is_here(self):
        text = (ROOT / "SECURITY.md").read_text()
        named = set(re.findall(r"`(test_\w+)`", text))
        here = {name for name in dir(self) if name.startswith("test_")}
        self.assertGreater(len(named), 15)
        self.assertLessEqual(named, here)
        self.assertTrue((ROOT / "tests/unit/security/token_test.cc").exists())

    # ---- --check-config

    def test_check_config_finds_mistakes_with_their_place(self):
        broken = self.directory / "broken.pem"
        broken.write_text("no certificate\n")
        tokens = self.directory / "bad-tokens.yaml"
        tokens.write_text("tokens:\n  - name: a\n    sha256: fst_secretsecret\n    roles: [reed]\n")
        cert, key = self.server
        for text, place, what in (
                (f"tls:\n  cert_file: {cert}\n", "2:14", "needs both"),
                (f"tls:\n  cert_file: /no/such\n  key_file: {key}\n", "2:14", "/no/such: No such"),
                (f"tls:\n  cert_file: {broken}\n  key_file: {key}\n", "2:14", "no certificate"),
                (f"tls:\n  cert_file: {cert}\n  key_file: {self.client.key}\n", "3:13",
                 "is not the key"),
                (f"tls:\n  cert_file: {cert}\n  key_file: {key}\n  client_ca_file: {broken}\n",
                 "4:19", "no certificate"),
                (f"tls:\n  client_ca_file: {cert}\n", "2:19", "needs cert_file and key_file"),
                ("access:\n  tokens_file: /no/such\n", "2:16", "/no/such"),
                (f"access:\n  tokens_file: {tokens}\n", "2:16", "bad-tokens.yaml:3:13: ")):
            with self.subTest(text=text):
                self.config.write_text(text)
                done = self.check_config("--config", self.config)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(f"{self.config}:{place}: ", done.stderr)
                self.assertIn(what, done.stderr)
                self.assertNotIn("fst_", done.stderr)


if __name__ == "__main__":
    FORESHOCKD, FORESHOCK = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
