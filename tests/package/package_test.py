#!/usr/bin/env python3
"""The Debian package in a fresh Debian 12: installs, starts, upgrades, is removed, is purged.

    tests/package/package_test.py PACKAGE.deb WORK_DIRECTORY     # make package-test

As root, with debootstrap and a mirror. The base system is made once and kept in WORK_DIRECTORY; the
test works on a copy. There is no systemd in it: the service is started by the unit's own command line,
as the unit's user (tests/e2e/service_test.py has what is between systemd and the daemon).
"""

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "tests/data/captures/f_attn_201.fscap"
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
PACKAGE, WORK = None, None


def run(*command, check=True, **options):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n"
                             f"{done.stdout[-4000:]}")
    return done


def base_system():
    """A minimal Debian 12, made at the first call."""
    base = WORK / "base"
    if not base.exists():
        print(f"debootstrap from {MIRROR}, once: a few minutes", flush=True)
        fresh = WORK / "base.new"
        shutil.rmtree(fresh, ignore_errors=True)
        run("debootstrap", "--variant=minbase", "bookworm", fresh, MIRROR)
        fresh.rename(base)
    return base


class Package(unittest.TestCase):
    """The tests are steps, in the order of their names, in one system."""

    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="root-", dir=WORK))
        cls.addClassCleanup(shutil.rmtree, cls.root)
        run("cp", "-a", f"{base_system()}/.", cls.root)
        # In this process' own mount namespace: nothing of it is left behind.
        run("mount", "-t", "proc", "proc", cls.root / "proc")
        cls.addClassCleanup(run, "umount", cls.root / "proc")
        run("mount", "--bind", "/dev", cls.root / "dev")
        cls.addClassCleanup(run, "umount", cls.root / "dev")
        shutil.copy("/etc/resolv.conf", cls.root / "etc/resolv.conf")
        for proxy in pathlib.Path("/etc/apt/apt.conf.d").glob("*proxy*"):
            shutil.copy(proxy, cls.root / "etc/apt/apt.conf.d")
        shutil.copy(CAPTURE, cls.root / "tmp/run.fscap")
        shutil.copy(PACKAGE, cls.root / "tmp/foreshock.deb")

    @classmethod
    def inside(cls, *command, **options):
        return run("chroot", cls.root, *command, env={
            **os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8",
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "NO_COLOR": "1"}, **options)

    def start(self):
        """The unit's command, as its user; on free ports, because the machine's may be taken."""
        unit = (self.root / "usr/lib/systemd/system/foreshockd.service").read_text()
        command = shlex.split(re.search(r"^ExecStart=(.*)$", unit, re.M).group(1))
        user = re.search(r"^User=(.*)$", unit, re.M).group(1)
        address = self.root / "var/lib/foreshock/address"
        address.unlink(missing_ok=True)
        log = open(self.root / "tmp/log", "wb")
        self.addCleanup(log.close)
        daemon = subprocess.Popen(
            ["chroot", f"--userspec={user}:{user}", str(self.root), *command,
             "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0",
             "--address-file", "/var/lib/foreshock/address"], stdout=log, stderr=log)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        deadline = time.monotonic() + 60
        while not address.exists():
            if daemon.poll() is not None or time.monotonic() > deadline:
                self.fail("it did not start: " + (self.root / "tmp/log").read_text())
            time.sleep(0.1)
        grpc, http = re.findall(r"=(\S+)", address.read_text())
        return daemon, ["--server", grpc], ["--http", http]

    def stop(self, daemon):
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(timeout=60), 0)

    def upgraded(self):
        """The same package a version later, with another default configuration."""
        tree = self.root / "tmp/tree"
        run("dpkg-deb", "-R", PACKAGE, tree)
        control = tree / "DEBIAN/control"
        control.write_text(re.sub(r"(?m)^(Version: .*)$", r"\1+next", control.read_text()))
        config = tree / "etc/foreshock/foreshock.yaml"
        config.write_text(config.read_text() + "# new in this version\n")
        run("dpkg-deb", "--root-owner-group", "-b", tree, self.root / "tmp/next.deb")
        shutil.rmtree(tree)

    def test_1_contents(self):
        listing = run("dpkg-deb", "-c", PACKAGE).stdout
        for path in ("usr/sbin/foreshockd", "usr/bin/foreshock", "usr/bin/foreshock-proxy",
                     "usr/lib/systemd/system/foreshockd.service", "etc/foreshock/foreshock.yaml",
                     "usr/share/foreshock/rules/default.yaml",
                     "usr/share/foreshock/rules/signatures.yaml",
                     "usr/share/foreshock/prometheus/foreshock-self.yaml",
                     "usr/share/foreshock/dashboards/foreshock-run.json",
                     "usr/share/doc/foreshock/docs/deployment.md"):
            self.assertRegex(listing, rf"(?m)^-\S+ root/root .* \./{re.escape(path)}$")
        self.assertNotIn("/include/", listing)
        self.assertNotIn("/usr/local", listing)
        fields = run("dpkg-deb", "-f", PACKAGE).stdout
        self.assertRegex(fields, r"(?m)^Depends: .*libgrpc\+\+\S* .*librocksdb")

    def test_2_installs_and_is_whole(self):
        self.inside("apt-get", "update", "-q")
        self.inside("apt-get", "install", "-q", "-y", "--no-install-recommends",
                    "/tmp/foreshock.deb")
        self.assertEqual(self.inside("dpkg", "--verify", "foreshock").stdout, "")
        self.assertEqual(self.inside("stat", "-c", "%U:%G %a", "/etc/foreshock",
                                     "/var/lib/foreshock").stdout.split("\n")[:2],
                         ["root:foreshock 750", "foreshock:foreshock 750"])
        for program in ("foreshockd", "foreshock", "foreshock-proxy"):
            self.assertIn((ROOT / "VERSION").read_text().strip(),
                          self.inside(program, "--version").stdout)

    def test_3_starts_with_the_default_pack_and_watches(self):
        daemon, server, http = self.start()
        self.inside("foreshock", "replay", "/tmp/run.fscap", "--run", "r", *server)
        self.assertIn("low_precision_attention",
                      self.inside("foreshock", "alerts", "--brief", *server).stdout)
        self.inside("foreshock", "doctor", *server, *http)
        self.stop(daemon)

    def test_4_upgrade_keeps_configuration_and_data(self):
        config = self.root / "etc/foreshock/foreshock.yaml"
        config.write_text(config.read_text() + "# changed here\n")
        self.upgraded()
        self.inside("dpkg", "--force-confdef", "--force-confold", "-i", "/tmp/next.deb")
        self.assertIn("# changed here", config.read_text())
        self.assertIn("# new in this version",
                      config.with_name("foreshock.yaml.dpkg-dist").read_text())
        daemon, server, _ = self.start()
        self.assertRegex(self.inside("foreshock", "runs", *server).stdout, r"(?m)^r\b")
        self.stop(daemon)

    def test_5_removal_keeps_configuration_and_data(self):
        self.inside("apt-get", "remove", "-q", "-y", "foreshock")
        self.assertFalse((self.root / "usr/sbin/foreshockd").exists())
        self.assertFalse((self.root / "usr/share/foreshock").exists())
        self.assertTrue((self.root / "etc/foreshock/foreshock.yaml").exists())
        self.assertTrue((self.root / "var/lib/foreshock/address").exists())

    def test_6_purge_leaves_nothing(self):
        self.inside("apt-get", "purge", "-q", "-y", "foreshock")
        left = self.inside("find", "/etc", "/usr", "/var", "-name", "*foreshock*").stdout.split()
        self.assertEqual([path for path in left if not path.startswith("/var/cache/apt/")], [])

    def test_7_installs_again(self):
        self.inside("apt-get", "install", "-q", "-y", "--no-install-recommends",
                    "/tmp/foreshock.deb")
        daemon, server, http = self.start()
        self.inside("foreshock", "doctor", *server, *http)
        self.stop(daemon)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if os.geteuid() != 0:
        sys.exit("package_test: needs root, for debootstrap and chroot: sudo make package-test")
    if shutil.which("debootstrap") is None:
        sys.exit("package_test: debootstrap is not installed: deploy/install-deps.sh package")
    if "FORESHOCK_PACKAGE_TEST" not in os.environ:
        os.environ["FORESHOCK_PACKAGE_TEST"] = "in a mount namespace of its own"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    global PACKAGE, WORK
    PACKAGE, WORK = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    WORK.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=sys.argv[:1], verbosity=2, failfast=True)


if __name__ == "__main__":
    main()
