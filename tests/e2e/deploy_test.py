#!/usr/bin/env python3
"""What deploy/ ships, and what is installed: checked as far as a plain Debian goes.

    tests/e2e/deploy_test.py FORESHOCKD FORESHOCK

No container, cluster or batch system runs here. Files are parsed, the fields that matter are compared
with the daemon's own defaults, the arguments are given to the daemon, and the batch script runs with
stand-ins for Slurm's commands.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

from daemon_process import Daemon, cli  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKER = DEPLOY / "docker"
CAPTURE = ROOT / "tests/data/captures/h_const_101.fscap"
FORESHOCKD, FORESHOCK = "", ""
JOB = "foreshock"  # the scrape job that the alerts look for


def run(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False,
                          **options)


def check_config(*arguments):
    """The configuration in force with these arguments: what the daemon prints."""
    with tempfile.TemporaryDirectory() as directory:
        done = run(FORESHOCKD, "--data-dir", directory, *arguments, "--check-config")
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)


def port(address):
    return int(address.rsplit(":", 1)[1])


class Base(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        defaults = check_config()
        cls.grpc, cls.http = (port(defaults[part]["listen"]) for part in ("grpc", "http"))
        cls.service = yaml.safe_load((DEPLOY / "foreshock.yaml").read_text())

    def good(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def tool(self, name):
        path = shutil.which(name)
        if path is None:
            self.skipTest(f"{name} is not installed")
        return path


class Prometheus(Base):

    PARTS = ("self", "fleet")

    def test_promtool_checks_and_tests_the_alerts_about_daemons_and_fleets(self):
        for part in self.PARTS:
            self.good(run("promtool", "check", "rules", DEPLOY / f"prometheus/foreshock-{part}.yaml"))
            self.good(run("promtool", "test", "rules",
                          ROOT / f"tests/data/prometheus/{part}_test.yaml"))

    def rules(self):
        return [rule for part in self.PARTS for group in yaml.safe_load(
            (DEPLOY / f"prometheus/foreshock-{part}.yaml").read_text())["groups"]
                for rule in group["rules"]]

    def test_every_alert_is_tested_and_says_what_to_do(self):
        text = "".join((ROOT / f"tests/data/prometheus/{part}_test.yaml").read_text()
                       for part in self.PARTS)
        for rule in self.rules():
            name = rule.get("alert") or rule["record"]
            with self.subTest(name):
                self.assertIn(name, text)
                if "record" in rule:
                    continue
                self.assertIn(rule["labels"]["severity"], ("warning", "critical"))
                self.assertLessEqual({"summary", "description"}, set(rule["annotations"]))

    def test_metrics_are_documented(self):
        documented = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs/metrics.md").read_text(), re.M))
        used = set(re.findall(r"\b(?:foreshock|process)_\w+",
                              " ".join(rule["expr"] for rule in self.rules())))
        self.assertLessEqual({re.sub("_bucket$", "", name) for name in used}, documented)

    def test_configurations_are_good_and_name_the_job_that_alerts_look_for(self):
        with tempfile.TemporaryDirectory() as directory:
            shutil.copy(DOCKER / "prometheus.yml", directory)
            shutil.copytree(DEPLOY / "prometheus", f"{directory}/rules")
            done = run("promtool", "check", "config", f"{directory}/prometheus.yml")
        self.good(done)
        self.assertIn("foreshock-self.yaml", done.stdout)
        jobs = yaml.safe_load((DOCKER / "prometheus.yml").read_text())["scrape_configs"]
        self.assertEqual([job["job_name"] for job in jobs], [JOB])
        self.assertEqual(jobs[0]["static_configs"], [{"targets": [f"foreshock:{self.http}"]}])
        self.assertIn(f'job="{JOB}"', " ".join(rule["expr"] for rule in self.rules()))

    def test_amtool_finds_the_alertmanager_configuration_good(self):
        self.good(run(self.tool("amtool"), "check-config", DOCKER / "alertmanager.yml"))


class Docker(Base):

    def setUp(self):
        self.instructions = re.findall(
            r"^([A-Z]+) (.*)$", (DOCKER / "Dockerfile").read_text().replace("\\\n", ""), re.M)
        self.compose = yaml.safe_load((DOCKER / "compose.yaml").read_text())

    def last(self, name):
        return [text for instruction, text in self.instructions if instruction == name][-1]

    def test_image_is_debian_12_twice_runs_as_nobody_special_and_keeps_its_data_in_a_volume(self):
        self.assertEqual([text.split()[0] for name, text in self.instructions if name == "FROM"],
                         ["debian:12-slim"] * 2)
        self.assertRegex(self.last("USER"), r"^[1-9]\d*:[1-9]\d*$")
        self.assertEqual(self.last("VOLUME"), self.service["data_directory"])
        self.assertEqual(self.last("EXPOSE").split(), [str(self.grpc), str(self.http)])
        self.assertEqual(self.last("STOPSIGNAL"), "SIGTERM")

    def test_command_is_one_that_the_daemon_takes(self):
        entry, command = json.loads(self.last("ENTRYPOINT")), json.loads(self.last("CMD"))
        self.assertEqual(entry, ["foreshockd", "--config", "/etc/foreshock/foreshock.yaml"])
        shown = check_config("--config", DEPLOY / "foreshock.yaml", *command)
        self.assertEqual(shown["grpc"]["listen"], f"0.0.0.0:{self.grpc}")
        self.assertEqual(shown["http"]["listen"], f"0.0.0.0:{self.http}")

    def test_health_check_knows_a_daemon_from_none(self):
        check = json.loads(re.search(r'CMD (\[.*\])', self.last("HEALTHCHECK")).group(1))
        self.assertEqual(check[0], "foreshock")
        with tempfile.TemporaryDirectory() as directory, Daemon(FORESHOCKD, directory) as daemon:
            cli(FORESHOCK, *check[1:], server=daemon.grpc, check=0)
        cli(FORESHOCK, *check[1:], server="127.0.0.1:1", check=3)

    def test_what_is_copied_and_mounted_is_there(self):
        for name, text in self.instructions:
            if name == "COPY":
                for source in text.split()[:-1]:
                    self.assertTrue((ROOT / source).exists(), text)
        for name, service in self.compose["services"].items():
            for volume in service["volumes"]:
                source = volume.split(":")[0]
                with self.subTest(service=name, volume=volume):
                    if source.startswith("."):
                        self.assertTrue((DOCKER / source).exists())
                    else:
                        self.assertIn(source, self.compose["volumes"])

    def test_ports_are_published_on_loopback_only(self):
        for name, service in self.compose["services"].items():
            for published in service.get("ports", []):
                with self.subTest(service=name, port=published):
                    self.assertTrue(published.startswith("127.0.0.1:"))
        self.assertEqual(self.compose["services"]["foreshock"]["ports"],
                         [f"127.0.0.1:{number}:{number}" for number in (self.grpc, self.http)])

    def test_daemon_is_locked_in_and_has_time_to_stop(self):
        daemon = self.compose["services"]["foreshock"]
        self.assertTrue(daemon["read_only"])
        self.assertEqual(daemon["cap_drop"], ["ALL"])
        self.assertIn("no-new-privileges:true", daemon["security_opt"])
        self.assertGreater(seconds(daemon["stop_grace_period"]),
                           seconds(self.service["shutdown_deadline"]))

    def test_grafana_finds_what_is_mounted(self):
        mounts = dict(volume.split(":")[:2] for volume in
                      self.compose["services"]["grafana"]["volumes"])
        provider, = yaml.safe_load(
            (DOCKER / "grafana/dashboards/foreshock.yaml").read_text())["providers"]
        self.assertEqual(provider["options"]["path"], mounts["../grafana/dashboards"])
        source, = yaml.safe_load(
            (DOCKER / "grafana/datasources/foreshock.yaml").read_text())["datasources"]
        self.assertEqual((source["type"], source["url"]), ("prometheus", "http://prometheus:9090"))


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(m?s?)", str(text)).groups()
    return int(number) * {"": 1, "s": 1, "m": 60}[unit]


class Kubernetes(Base):

    def setUp(self):
        self.objects = [document for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
                        if path.name != "kustomization.yaml"
                        for document in yaml.safe_load_all(path.read_text())]
        # (pod template, container) of every daemon
        self.daemons = [
            (item["spec"]["template"], container) for item in self.objects
            if item["kind"] in ("Job", "StatefulSet")
            for kind in ("initContainers", "containers")
            for container in item["spec"]["template"]["spec"].get(kind, [])
            if container["name"] == "foreshock"]
        self.assertEqual(len(self.daemons), 2)

    def kind(self, name):
        return [item for item in self.objects if item["kind"] == name]

    def test_sidecar_is_native(self):
        (template, container), = [(t, c) for t, c in self.daemons
                                  if c in t["spec"].get("initContainers", [])]
        self.assertEqual(container["restartPolicy"], "Always")
        trainer, = template["spec"]["containers"]
        listen = check_config(*container["args"])["grpc"]["listen"]
        self.assertIn({"name": "FORESHOCK_SERVER", "value": listen}, trainer["env"])

    def test_arguments_and_ports_are_those_of_the_daemon(self):
        for template, container in self.daemons:
            shown = check_config(*container["args"])
            ports = {item["name"]: item["containerPort"] for item in container["ports"]}
            self.assertEqual(port(shown["grpc"]["listen"]), self.grpc)
            self.assertEqual(port(shown["http"]["listen"]), self.http)
            self.assertLessEqual(ports.items(), {"grpc": self.grpc, "http": self.http}.items())
            for name in ports:  # a port that others reach is not bound to loopback
                self.assertTrue(shown[name]["listen"].startswith("0.0.0.0:"))

    def test_probes_ask_for_pages_that_answer(self):
        with tempfile.TemporaryDirectory() as directory, Daemon(FORESHOCKD, directory) as daemon:
            for template, container in self.daemons:
                for probe, path in (("startupProbe", "/-/healthy"), ("readinessProbe", "/-/ready"),
                                    ("livenessProbe", "/-/healthy")):
                    asked = container[probe]["httpGet"]
                    self.assertEqual(asked["path"], path)
                    self.assertIn(asked["port"], [item["name"] for item in container["ports"]])
                    self.assertEqual(daemon.get(path)[0], 200)

    def test_containers_are_locked_in_and_bounded(self):
        user = int(re.search(r"^USER (\d+)", (DOCKER / "Dockerfile").read_text(), re.M).group(1))
        for template, container in self.daemons:
            context = container["securityContext"]
            self.assertEqual((context["runAsNonRoot"], context["runAsUser"],
                              context["readOnlyRootFilesystem"],
                              context["allowPrivilegeEscalation"],
                              context["capabilities"], context["seccompProfile"]),
                             (True, user, True, False, {"drop": ["ALL"]},
                              {"type": "RuntimeDefault"}))
            self.assertEqual(template["spec"]["securityContext"]["fsGroup"], user)
            for kind in ("requests", "limits"):
                self.assertEqual(set(container["resources"][kind]), {"cpu", "memory"})
            self.assertEqual(container["volumeMounts"], [
                {"name": "foreshock", "mountPath": self.service["data_directory"]}])
            self.assertGreater(template["spec"]["terminationGracePeriodSeconds"],
                               seconds(self.service["shutdown_deadline"]))

    def test_selectors_find_what_they_are_for(self):
        labels = [template["metadata"]["labels"] for template, container in self.daemons]
        monitor, = self.kind("PodMonitor")
        for label in labels:
            self.assertLessEqual(monitor["spec"]["selector"]["matchLabels"].items(), label.items())
        endpoint, = monitor["spec"]["podMetricsEndpoints"]
        self.assertEqual((endpoint["port"], endpoint["path"]), ("http", "/metrics"))
        self.assertIn({"targetLabel": "job", "replacement": JOB}, endpoint["relabelings"])
        per_job, = self.kind("StatefulSet")
        labels = per_job["spec"]["template"]["metadata"]["labels"]
        service, = self.kind("Service")
        self.assertEqual(per_job["spec"]["serviceName"], service["metadata"]["name"])
        self.assertLessEqual(service["spec"]["selector"].items(), labels.items())
        self.assertLessEqual(per_job["spec"]["selector"]["matchLabels"].items(), labels.items())
        policy, = self.kind("NetworkPolicy")
        self.assertLessEqual(policy["spec"]["podSelector"]["matchLabels"].items(), labels.items())

    def test_only_ranks_reach_grpc_and_they_know_the_service(self):
        service, = self.kind("Service")
        ports = {item["name"]: item["port"] for item in service["spec"]["ports"]}
        self.assertEqual(ports, {"grpc": self.grpc, "http": self.http})
        policy, = self.kind("NetworkPolicy")
        admitted = {rule["ports"][0]["port"]: rule["from"] for rule in policy["spec"]["ingress"]}
        self.assertEqual(set(admitted), {self.grpc, self.http})
        pushes = admitted[self.grpc][0]["podSelector"]["matchLabels"]
        ranks = [item["spec"]["template"] for item in self.kind("Job")
                 if pushes.items() <= item["spec"]["template"]["metadata"]["labels"].items()]
        self.assertEqual(len(ranks), 1)
        self.assertIn({"name": "FORESHOCK_SERVER",
                       "value": f"{service['metadata']['name']}:{self.grpc}"},
                      ranks[0]["spec"]["containers"][0]["env"])

    def test_kustomization_lists_files_that_are_there(self):
        content = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())
        for name in content["resources"]:
            self.assertTrue((DEPLOY / "kubernetes" / name).is_file(), name)
        self.assertEqual(content["images"][0]["newTag"], (ROOT / "VERSION").read_text().strip())


class Slurm(Base):
    """train.sbatch with an srun that runs its command here, and a scontrol that names many nodes."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_slurm_")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        for name, text in (("srun", 'while [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n'),
                           ("scontrol", "echo 127.0.0.1\nseq -f node-%g 20000\n")):
            path = self.directory / name
            path.write_text("#!/bin/sh\n" + text)
            path.chmod(0o755)

    def sbatch(self, *command, daemon=None):
        environment = {**os.environ, "PATH": f"{self.directory}:{os.environ['PATH']}",
                       "SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "127.0.0.1,second-node",
                       "SLURM_SUBMIT_DIR": str(self.directory),
                       "FORESHOCKD": daemon or FORESHOCKD, "NO_COLOR": "1"}
        return run("bash", DEPLOY / "slurm/train.sbatch", *command, env=environment, timeout=120)

    def test_ranks_find_the_daemon_and_it_ends_with_the_job(self):
        done = self.sbatch(FORESHOCK, "replay", CAPTURE, "--run", "job", "-o", "json")
        self.good(done)
        self.assertEqual(json.loads(done.stdout[done.stdout.index("{"):])["rejected"], 0)
        self.assertIn("stopped", (self.directory / "foreshock/foreshockd.17.log").read_text())
        self.assertFalse((self.directory / "foreshock/address.17").exists())
        # The next job takes the same directory: the run is there.
        done = self.sbatch(FORESHOCK, "runs")
        self.good(done)
        self.assertRegex(done.stdout, r"(?m)^job\b")

    def test_exit_code_is_that_of_the_training(self):
        self.assertEqual(self.sbatch("sh", "-c", "exit 7").returncode, 7)

    def test_training_goes_on_without_a_daemon(self):
        done = self.sbatch("sh", "-c", 'echo "server: ${FORESHOCK_SERVER-none}"', daemon="false")
        self.good(done)
        self.assertIn("server: none", done.stdout)
        self.assertIn("did not start", done.stderr)


class Installation(Base):

    def test_it_is_programs_and_rules_and_works_wherever_it_lies(self):
        build = pathlib.Path(FORESHOCKD).parents[1]
        with tempfile.TemporaryDirectory(prefix="foreshock_install_") as directory:
            first, moved = f"{directory}/first", f"{directory}/moved"
            self.good(run("cmake", "--install", build, "--prefix", first))
            installed = {str(path.relative_to(first)) for path in pathlib.Path(first).rglob("*")
                         if path.is_file()}
            needed = {"sbin/foreshockd", "bin/foreshock", "share/foreshock/rules/default.yaml",
                      "share/foreshock/rules/signatures.yaml"}
            # `make run` builds no more than that; foreshock-proxy goes along where it is built.
            self.assertIn(installed, (needed, needed | {"bin/foreshock-proxy"}))
            os.rename(first, moved)
            done = run(f"{moved}/sbin/foreshockd", "--data-dir", f"{directory}/data",
                       "--check-config")
            self.good(done)
            self.assertIn(f"{moved}/share/foreshock/rules/default.yaml", done.stdout)


class Scripts(Base):

    def test_shellcheck_finds_nothing(self):
        files = [DEPLOY / "slurm/train.sbatch", DEPLOY / "package.sh",
                 *(DEPLOY / "debian" / name for name in ("postinst", "prerm", "postrm"))]
        self.good(run(self.tool("shellcheck"), *files))

    def test_every_yaml_file_parses(self):
        files = [path for path in DEPLOY.rglob("*.y*ml")]
        self.assertGreater(len(files), 10)
        for path in files:
            with self.subTest(path=path):
                self.assertTrue(list(yaml.safe_load_all(path.read_text())))


if __name__ == "__main__":
    FORESHOCKD, FORESHOCK = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
