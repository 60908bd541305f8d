#!/usr/bin/env python3
"""foreshock store and runs pin, unpin and delete, through the built programs.

    tests/e2e/store_test.py FORESHOCKD FORESHOCK
"""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

from daemon_process import Daemon, cli  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "tests/data/captures/h_const_101.fscap"
FORESHOCKD, FORESHOCK = "", ""


class Store(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="foreshock_store_")
        self.addCleanup(self.directory.cleanup)
        self.folder = pathlib.Path(self.directory.name)

    def config(self, text):
        path = self.folder / "foreshockd.yaml"
        path.write_text(text)
        return ["--config", str(path)]

    def test_an_operator_looks_checks_copies_and_restores(self):
        backups = self.folder / "backups"
        backups.mkdir()
        extra = self.config(f"store: {{backup_directory: {backups}}}\n")
        with Daemon(FORESHOCKD, self.folder, extra=extra) as daemon:
            at = {"server": daemon.grpc, "http": daemon.http}
            cli(FORESHOCK, "replay", CAPTURE, "--run", "r", check=0, **at)
            cli(FORESHOCK, "replay", CAPTURE, "--run", "other", check=0, **at)
            stats = json.loads(cli(FORESHOCK, "store", "stats", "-o", "json", check=0, **at).stdout)
            run = next(run for run in stats["runs"] if run["name"] == "r")
            self.assertGreater(int(run["open_points"]) + int(run["raw_points"]), 1000)
            self.assertIn("bytes/point".upper(),
                          cli(FORESHOCK, "store", "stats", check=0, **at).stdout.upper())
            checked = cli(FORESHOCK, "store", "verify", "-o", "json", check=0, **at)
            self.assertEqual(json.loads(checked.stdout)["findings"], [])
            for number in (1, 2):
                made = json.loads(cli(FORESHOCK, "store", "backup", "nightly", "-o", "json", check=0,
                                      **at).stdout)
                self.assertEqual((made["id"], made["directory"]), (number, str(backups / "nightly")))
            refused = cli(FORESHOCK, "store", "backup", "../away", check=2, **at)
            self.assertIn("allowed", refused.stderr)
            # A run that is pinned, freed and deleted.
            cli(FORESHOCK, "runs", "pin", "other", check=0, **at)
            shown = json.loads(cli(FORESHOCK, "runs", "show", "other", "-o", "json", check=0,
                                   **at).stdout)
            self.assertTrue(shown["run"]["pinned"])
            cli(FORESHOCK, "runs", "unpin", "other", check=0, **at)
            self.assertIn("--yes", cli(FORESHOCK, "runs", "delete", "other", check=2, **at).stderr)
            cli(FORESHOCK, "runs", "delete", "other", "--yes", check=0, **at)
            cli(FORESHOCK, "runs", "show", "other", check=1, **at)

        restored = self.folder / "restored"
        cli(FORESHOCK, "store", "restore", backups / "nightly", "--to", restored, check=0)
        cli(FORESHOCK, "store", "restore", backups / "nightly", "--to", restored, check=1)
        cli(FORESHOCK, "store", "verify", "--data", restored, check=0)
        stats = json.loads(cli(FORESHOCK, "store", "stats", "--data", restored, "-o", "json",
                               check=0).stdout)
        self.assertEqual(sorted(run["name"] for run in stats["runs"]), ["other", "r"])
        cli(FORESHOCK, "store", "backup", "--data", restored, "--to", self.folder / "again", check=0)

        table = max(restored.glob("*.sst"), key=lambda path: path.stat().st_size)
        content = bytearray(table.read_bytes())
        content[len(content) // 3] ^= 0x10
        table.write_bytes(content)
        bad = cli(FORESHOCK, "store", "verify", "--data", restored, check=1)
        self.assertIn(table.name, bad.stdout)

    def test_without_a_backup_directory_there_is_no_backup_over_the_network(self):
        with Daemon(FORESHOCKD, self.folder) as daemon:
            refused = cli(FORESHOCK, "store", "backup", "x", check=1, server=daemon.grpc)
            self.assertIn("store.backup_directory", refused.stderr)


if __name__ == "__main__":
    FORESHOCKD, FORESHOCK = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
