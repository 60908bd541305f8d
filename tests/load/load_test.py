#!/usr/bin/env python3
"""foreshock-load against a daemon of its own: no acknowledgement lost, memory flat.

    tests/load/load_test.py --foreshockd build/release/bin/foreshockd \
        --load build/release/bin/foreshock-load --ranks 2048 --duration 600 --growth-max 5

Without --ranks it is the short test: a small job; a daemon that is killed and started again below
the ranks; a daemon that refuses more streams than its limit.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support/python"))

from daemon_process import Daemon, wait_until  # noqa: E402

RULES = [ROOT / "rules/default.yaml", ROOT / "rules/signatures.yaml"]
SMALL = ("--interval", "0.2", "--gram-ranks", "4", "--gram-every", "5", "--head-dim", "8")


def load_command(program, daemon, *options):
    return [program, "--server", daemon.grpc, "--http", daemon.http, *map(str, options)]


def number(text, what):
    found = re.search(rf"(\d+) {what}", text)
    assert found, f"no '{what}' in:\n{text}"
    return int(found.group(1))


def expect(done, code):
    assert done.returncode == code, f"exit {done.returncode}, expected {code}:\n{done.stdout}{done.stderr}"
    return done.stdout


def run(*command):
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)


def test_every_report_is_acknowledged_once(arguments, directory):
    with Daemon(arguments.foreshockd, directory / "small", RULES) as daemon:
        out = expect(run(*load_command(arguments.load, daemon, *SMALL, "--ranks", 64,
                                       "--duration", 4)), 0)
        assert number(out, "acknowledged") == 64 * 20, out
        assert daemon.metric("foreshock_reports_committed_total") == 64 * 20, out
        # 4 ranks, 18 layers, steps 5, 10 and 15: the spectra of each were computed.
        assert daemon.metric("foreshock_summaries_rejected_total") == 0
        assert "attn_delta2_effective_rank" in daemon.get("/metrics")[1], out
        assert daemon.stop() == 0


def test_a_daemon_that_comes_back_has_lost_nothing(arguments, directory):
    with Daemon(arguments.foreshockd, directory / "killed", RULES) as daemon:
        load = subprocess.Popen(load_command(arguments.load, daemon, *SMALL, "--ranks", 16,
                                             "--duration", 4, "--drain", 60),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_until(lambda: (daemon.metric("foreshock_reports_committed_total") or 0) > 32, 60,
                   "the load runs")
        daemon.kill()
        daemon.listen_grpc = daemon.grpc
        daemon.start()
        out, _ = load.communicate(timeout=240)
        assert load.returncode == 0, out
        assert number(out, "lost") == 0 and number(out, "ended early") >= 16, out
        assert number(out, "acknowledged") == 16 * 20, out


def test_what_is_over_a_limit_is_refused_and_said(arguments, directory):
    config = directory / "limits.yaml"
    config.write_text("grpc: {streams_per_run_max: 8}\n")
    with Daemon(arguments.foreshockd, directory / "limits", RULES,
                extra=["--config", str(config)]) as daemon:
        done = run(*load_command(arguments.load, daemon, *SMALL, "--ranks", 12, "--duration", 1,
                                 "--greeting", 2))
        assert done.returncode == 3, done.stdout + done.stderr
        assert "8 of 12 ranks were let in" in done.stderr, done.stderr
        assert "streams_per_run_max" in done.stderr, done.stderr


def test_wrong_usage_is_told(arguments, _):
    for options, said in ((("--spread", "2"), "--spread is at most --interval"),
                          (("--ranks", "0"), "--ranks"),
                          (("--scalars", "2", "--rank-scalars", "3"), "--rank-scalars")):
        done = run(arguments.load, *options)
        assert done.returncode == 2 and said in done.stderr + done.stdout, done


def soak(arguments, directory):
    """The whole, with its lines as they come."""
    with Daemon(arguments.foreshockd, directory / "soak", RULES) as daemon:
        started = time.monotonic()
        code = subprocess.call(load_command(
            arguments.load, daemon, "--ranks", arguments.ranks, "--duration", arguments.duration,
            "--growth-max", arguments.growth_max, "--spread", arguments.spread))
        print(f"load: exit {code} after {time.monotonic() - started:.0f} s")
        return code or daemon.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--foreshockd", required=True)
    parser.add_argument("--load", required=True)
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--duration", type=float, default=600)
    parser.add_argument("--spread", type=float, default=0)
    parser.add_argument("--growth-max", type=float, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="foreshock_load_") as name:
        directory = pathlib.Path(name)
        for part in ("small", "killed", "limits", "soak"):
            (directory / part).mkdir()
        if arguments.ranks:
            return soak(arguments, directory)
        for test in (test_every_report_is_acknowledged_once,
                     test_a_daemon_that_comes_back_has_lost_nothing,
                     test_what_is_over_a_limit_is_refused_and_said, test_wrong_usage_is_told):
            print(test.__name__, flush=True)
            test(arguments, directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
