#!/usr/bin/env python3
"""The Debian package, from CPack to purge, in an empty directory: no root, no network, seconds.

    tests/package/install_test.py BUILD_DIRECTORY

dpkg installs into a root of its own (--root) as whoever runs this; maintainer scripts run outside
of it, as DPKG_ROOT tells them to. What they would do inside, by chroot, a stand-in writes down. The
installed daemon runs by the unit's own command with its paths below that root. What needs a whole
system (dependencies from a mirror, the user of its own) is in package_test.py, `make package-test`.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

from daemon_process import Daemon, cli  # noqa: E402

BUILD = None
# dpkg wants sbin on it; a user's has none.
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# Files that must be there, with their modes.
MODES = {"usr/sbin/foreshockd": 0o755, "usr/bin/foreshock": 0o755, "usr/bin/foreshock-proxy": 0o755,
         "usr/lib/systemd/system/foreshockd.service": 0o644, "etc/foreshock/foreshock.yaml": 0o644,
         "usr/share/foreshock/rules/default.yaml": 0o644,
         "usr/share/foreshock/rules/signatures.yaml": 0o644,
         "usr/share/foreshock/prometheus/foreshock-self.yaml": 0o644,
         "usr/share/foreshock/dashboards/foreshock-run.json": 0o644,
         "usr/share/doc/foreshock/docs/deployment.md": 0o644}
NAME = re.compile(r"(?:^|, )([a-z0-9.+-]+)")  # in a list of packages
PROGRAMS = [name for name, mode in MODES.items() if mode == 0o755]
# As chroot(8), but it only says what was asked; the user is there once it was made.
CHROOT = """#!/bin/sh
root=$1; shift
[ "$1" != getent ] || { grep -q '^adduser ' "$root/../calls"; exit; }
echo "$@" >>"$root/../calls"
"""


def run(*command, check=True, **options):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, stdin=subprocess.DEVNULL,
                          **{"env": {**os.environ, "PATH": PATH, "LC_ALL": "C.UTF-8"}, **options})
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n"
                             f"{done.stdout}")
    return done


def owners(paths):
    """For each file the names by which the Debian package that it belongs to can be depended on."""
    # What dpkg knows may be below / or, with merged directories, below /usr.
    names = {path: {path, os.path.realpath(path), path.removeprefix("/usr"),
                    os.path.realpath(path).removeprefix("/usr")} for path in paths}
    found = run("dpkg-query", "-S", *sorted(set().union(*names.values())), check=False).stdout
    package_of = {name: package for package, name in
                  re.findall(r"^([^\s:]+)(?::\w+)?: (/\S+)$", found, re.M)}
    provides = dict(re.findall(r"^(\S+) (.*)$", run(
        "dpkg-query", "-W", "-f", "${Package} ${Provides}\n",
        *sorted(set(package_of.values()))).stdout, re.M))
    return {path: set().union(*({package_of[name], *NAME.findall(provides[package_of[name]])}
                                for name in names[path] if name in package_of))
            for path in paths}


class Package(unittest.TestCase):
    """The tests are steps, in the order of their names, in one root."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_package_")
        cls.addClassCleanup(temporary.cleanup)
        cls.directory = pathlib.Path(temporary.name)
        run("cpack", "-G", "DEB", "-B", cls.directory / "cpack",
            "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none", cwd=BUILD)
        (cls.package,) = (cls.directory / "cpack").glob("foreshock_*.deb")
        cls.root = cls.directory / "root"
        cls.calls = cls.directory / "calls"
        cls.calls.touch()
        for name in ("updates", "info"):
            (cls.root / "var/lib/dpkg" / name).mkdir(parents=True)
        (cls.root / "var/lib/dpkg/status").touch()
        # A system with a systemd that runs.
        (cls.root / "run/systemd/system").mkdir(parents=True)
        (cls.root / "usr/bin").mkdir(parents=True)
        (cls.root / "usr/bin/systemctl").touch(0o755)
        cls.before = cls.files()
        stand_ins = cls.directory / "bin"
        stand_ins.mkdir()
        (stand_ins / "chroot").write_text(CHROOT)
        (stand_ins / "chroot").chmod(0o755)
        cls.environment = {"PATH": f"{stand_ins}:{PATH}", "LC_ALL": "C.UTF-8"}

    @classmethod
    def files(cls):
        return {str(path.relative_to(cls.root)) for path in cls.root.rglob("*")
                if "var/lib/dpkg" not in str(path)}

    def dpkg(self, *arguments):
        """Runs dpkg in the root; what its scripts asked for inside it."""
        self.calls.write_text(
            "".join(f"{line}\n" for line in self.asked() if line.startswith("adduser")))
        known = len(self.asked())
        run("dpkg", f"--root={self.root}", "--force-not-root", "--force-script-chrootless",
            "--force-depends", "--force-unsafe-io", "--force-confdef", "--force-confold",
            *arguments, env=self.environment)
        return self.asked()[known:]

    def asked(self):
        return self.calls.read_text().splitlines()

    def field(self, name):
        return run("dpkg-deb", "-f", self.package, name).stdout.strip()

    def start(self):
        """The unit's command with its paths below the root, on free ports."""
        unit = (self.root / "usr/lib/systemd/system/foreshockd.service").read_text()
        program, *arguments = shlex.split(re.search(r"^ExecStart=(.*)$", unit, re.M).group(1))
        arguments = [re.sub("^/etc/", f"{self.root}/etc/", argument) for argument in arguments]
        daemon = Daemon(f"{self.root}{program}", self.directory,
                        data=self.root / "var/lib/foreshock", extra=arguments)
        self.addCleanup(daemon.__exit__)
        return daemon.start()

    def test_1_depends_on_every_library_of_the_programs(self):
        depends = set(NAME.findall(self.field("Depends")))
        libraries = set()
        tree = self.directory / "tree"
        run("dpkg-deb", "-x", self.package, tree)
        for name in PROGRAMS:
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", tree / name).stdout)
            self.assertIn("libc.so.6", needed)
            loaded = dict(re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", tree / name).stdout, re.M))
            libraries |= {loaded[library] for library in needed if library in loaded}
            self.assertLessEqual({library for library in needed if library not in loaded},
                                 {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"})
        for library, packages in owners(libraries).items():
            self.assertTrue(packages & depends, f"{library} of {packages}")
        self.assertIn("adduser", depends)  # of postinst

    def test_2_installs_what_it_should(self):
        asked = self.dpkg("-i", self.package)
        for name, mode in MODES.items():
            with self.subTest(name):
                self.assertEqual(stat.S_IMODE((self.root / name).stat().st_mode), mode)
        for name in self.files() - self.before:
            self.assertRegex(name, r"^(etc|usr|var)\b")
            self.assertNotRegex(name, r"^usr/(local|include)\b|\.(a|h|cmake)$")
            # Nothing but root's, and only root writes.
            self.assertFalse((self.root / name).stat().st_mode & 0o022, name)
        listing = run("dpkg-deb", "-c", self.package).stdout.splitlines()
        self.assertEqual([line for line in listing if " root/root " not in line], [])
        for name in ("etc/foreshock", "var/lib/foreshock"):
            self.assertEqual(stat.S_IMODE((self.root / name).stat().st_mode), 0o750)
        self.assertEqual(asked, [
            "adduser --system --group --quiet --no-create-home --home /var/lib/foreshock foreshock",
            "chown foreshock:foreshock /var/lib/foreshock",
            "chgrp foreshock /etc/foreshock",
            "systemctl enable --quiet foreshockd.service",
            "systemctl daemon-reload",
            "systemctl start foreshockd.service"])
        self.assertEqual(run("dpkg", f"--root={self.root}", "--verify", "foreshock").stdout, "")
        known = run("dpkg-query", f"--admindir={self.root}/var/lib/dpkg", "-W", "-f",
                    "${db:Status-Abbrev}${Conffiles}", "foreshock").stdout.split()
        self.assertEqual(known[:2], ["ii", "/etc/foreshock/foreshock.yaml"])

    def test_3_what_is_installed_runs(self):
        for name in PROGRAMS:
            self.assertIn(self.field("Version"), run(self.root / name, "--version").stdout)
        daemon = self.start()
        self.assertEqual(daemon.get("/-/ready")[0], 200)
        rules = json.loads(daemon.get("/api/v1/rules")[1])["rules"]
        self.assertTrue(rules)  # the pack that came with it
        cli(self.root / "usr/bin/foreshock", "doctor", server=daemon.grpc, http=daemon.http,
            check=0)
        self.assertEqual(daemon.stop(), 0)

    def test_4_upgrade_keeps_the_changed_configuration_and_the_data(self):
        config = self.root / "etc/foreshock/foreshock.yaml"
        config.write_text(config.read_text() + "# changed here\n")
        stored = self.root / "var/lib/foreshock/CURRENT"
        self.assertTrue(stored.exists())
        tree = self.directory / "next"
        run("dpkg-deb", "-R", self.package, tree)
        control = tree / "DEBIAN/control"
        control.write_text(re.sub(r"(?m)^(Version: .*)$", r"\1+next", control.read_text()))
        shipped = tree / "etc/foreshock/foreshock.yaml"
        shipped.write_text(shipped.read_text() + "# new in this version\n")
        gone = "usr/share/doc/foreshock/docs/fleet.md"
        (tree / gone).unlink()
        run("dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, self.directory / "next.deb")
        asked = self.dpkg("-i", self.directory / "next.deb")
        self.assertEqual(asked[-2:],
                         ["systemctl daemon-reload", "systemctl try-restart foreshockd.service"])
        self.assertNotIn("adduser", " ".join(asked))
        self.assertIn("# changed here", config.read_text())
        self.assertIn("# new in this version",
                      config.with_name("foreshock.yaml.dpkg-dist").read_text())
        self.assertFalse((self.root / gone).exists())
        self.assertTrue(stored.exists())
        self.assertEqual(self.start().stop(), 0)

    def test_5_removal_keeps_configuration_and_data(self):
        asked = self.dpkg("-r", "foreshock")
        self.assertEqual(asked, ["systemctl stop foreshockd.service",
                                 "systemctl disable --quiet foreshockd.service",
                                 "systemctl daemon-reload"])
        self.assertFalse((self.root / "usr/sbin/foreshockd").exists())
        self.assertFalse((self.root / "usr/share/foreshock").exists())
        self.assertIn("# changed here", (self.root / "etc/foreshock/foreshock.yaml").read_text())
        self.assertTrue((self.root / "var/lib/foreshock/CURRENT").exists())

    def test_6_purge_leaves_nothing(self):
        self.dpkg("-P", "foreshock")
        left = {name for name in self.files() - self.before if "foreshock" in name}
        self.assertEqual(left, set())


def main():
    global BUILD
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    BUILD = pathlib.Path(sys.argv[1]).resolve()
    for tool in ("cpack", "dpkg-shlibdeps", "file", "readelf"):
        if shutil.which(tool, path=PATH) is None:
            sys.exit(f"install_test: {tool} is not installed: deploy/install-deps.sh build test")
    unittest.main(argv=sys.argv[:1], verbosity=2, failfast=True)


if __name__ == "__main__":
    main()
