#!/usr/bin/env python3
"""Whether open pages slow ingestion: the load program alone, and beside pages that look at its run.

What a page asks for in a round is recorded from the page itself in Chromium; then as many clients as
there are pages ask for the same, each with the page's own pause between rounds, and its longer ones
while the daemon does not answer.

    tests/bench/pages_bench.py FORESHOCKD FORESHOCK_LOAD [--pages 50] [--ranks 256] [--seconds 30]
"""

import argparse
import asyncio
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/python"))

from browser import Browser  # noqa: E402
from daemon_process import Daemon, wait_until  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = sorted((ROOT / "rules").glob("*.yaml"))
RUN = "load"
TURNS = 3  # of each: alone, with pages, alone, ...

# Addresses of a page's newest whole round: from one question for the daemon's state to the next.
ROUND = """
const asked = performance.getEntriesByType("resource").map((one) => one.name)
  .filter((one) => one.includes("/api/"));
const begins = asked.flatMap((one, i) => one.includes("/api/v1/status") ? [i] : []);
return begins.length < 4 ? null : asked.slice(begins[begins.length - 2], begins[begins.length - 1]);
"""


def pauses():
    """Seconds between rounds of a live view, and the first and longest ones without an answer."""
    text = (ROOT / "daemon/web/src/parts/live.ts").read_text()
    return [int(re.search(rf"{name} = ([\d_]+)", text).group(1)) / 1000
            for name in ("LIVE_MS", "RETRY_FIRST_MS", "RETRY_MOST_MS")]


def start_load(program, daemon, ranks, seconds):
    return subprocess.Popen(
        [program, "--server", daemon.grpc, "--http", daemon.http, "--run", RUN, "--ranks", str(ranks),
         "--spread", "0.5", "--duration", str(seconds)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def record_round(arguments, folder):
    """The paths that a page on the run asks for in a round."""
    with Daemon(arguments.foreshockd, folder, RULES) as daemon, \
            Browser(f"http://{daemon.http}/") as browser:
        load = start_load(arguments.load, daemon, arguments.ranks, 20)
        wait_until(lambda: daemon.get(f"/api/v1/runs/{RUN}")[0] == 200, 30, "the load's run is there")
        browser.open(f"run?run={RUN}")
        asked = browser.wait("rounds of the page", lambda: browser.run(ROUND))
        load.kill()
        load.wait()
        return [one[len(browser.base) - 1:] for one in asked]


class Page:
    """One page that is open: a connection that is kept, rounds, pauses."""

    def __init__(self, address, paths):
        self.host, self.port = address.rsplit(":", 1)
        self.paths = paths
        self.rounds = []  # seconds that each took
        self.failures = 0
        self.stream = None

    async def get(self, path):
        if self.stream is None:
            self.stream = await asyncio.open_connection(self.host, int(self.port))
        reader, writer = self.stream
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\nAccept-Encoding: gzip\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(re.search(rb"content-length: (\d+)", head).group(1)))
        if b"connection: close" in head:
            self.drop()
        return int(head[9:12])

    def drop(self):
        if self.stream is not None:
            self.stream[1].close()
        self.stream = None

    async def ask(self, path):
        """The status. A connection that the daemon gave to somebody else meanwhile is made anew."""
        fresh = self.stream is None
        try:
            return await self.get(path)
        except (OSError, EOFError):
            self.drop()
            if fresh:
                raise
            return await self.get(path)

    async def run(self, start, end):
        live, first, most = pauses()
        await asyncio.sleep(start)
        tries = 0
        while time.monotonic() < end:
            began = time.monotonic()
            try:
                statuses = [await self.ask(path) for path in self.paths]
                wait, tries = live, 0
                assert set(statuses) == {200}, (statuses, self.paths)
                self.rounds.append(time.monotonic() - began)
            except (OSError, EOFError):
                self.drop()
                self.failures += 1
                wait = min(first * 2 ** tries, most)
                tries += 1
            await asyncio.sleep(wait)
        self.drop()


async def look(address, paths, count, seconds):
    end = time.monotonic() + seconds
    open_pages = [Page(address, paths) for _ in range(count)]
    pause = pauses()[0]
    await asyncio.gather(*(page.run(pause * i / count, end) for i, page in enumerate(open_pages)))
    return open_pages


def one_turn(arguments, folder, paths, count):
    """What the load program measured, and the pages."""
    folder.mkdir()
    with Daemon(arguments.foreshockd, folder, RULES) as daemon:
        load = start_load(arguments.load, daemon, arguments.ranks, arguments.seconds)
        wait_until(lambda: daemon.get(f"/api/v1/runs/{RUN}")[0] == 200, 30, "the load's run is there")
        seen = asyncio.run(look(daemon.http, paths, count, arguments.seconds - 2))
        out, _ = load.communicate(timeout=arguments.seconds + 120)
    assert load.returncode == 0, out

    def value(pattern):
        found = re.search(pattern, out)
        assert found, f"no '{pattern}' in:\n{out}"
        return float(found.group(1))

    return ({"acks/s": value(r"(\d+) acknowledged") / arguments.seconds,
             "p50 ms": value(r"p50 ([\d.]+)"), "p99 ms": value(r"p99 ([\d.]+)"),
             "cores": value(r"daemon +([\d.]+) cores")}, seen)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("foreshockd")
    parser.add_argument("load")
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--seconds", type=int, default=30, help="of each turn")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="foreshock_pages_") as name:
        folder = pathlib.Path(name)
        (folder / "record").mkdir()
        paths = record_round(arguments, folder / "record")
        turns = {0: [], arguments.pages: []}
        rounds, failures = [], 0
        for turn in range(TURNS):
            for count, measured in turns.items():
                values, seen = one_turn(arguments, folder / f"{count}-{turn}", paths, count)
                measured.append(values)
                rounds += [seconds for page in seen for seconds in page.rounds]
                failures += sum(page.failures for page in seen)
    print(f"{arguments.ranks} ranks, a report each second; a page's round: {len(paths)} requests")
    for count, measured in turns.items():
        print(f"{count:3} pages  " + "  ".join(
            f"{what} {statistics.median(one[what] for one in measured):8.2f} "
            f"({min(one[what] for one in measured):.2f} to {max(one[what] for one in measured):.2f})"
            for what in measured[0]))
    print(f"rounds of the pages: {len(rounds)}, median {1000 * statistics.median(rounds):.0f} ms, "
          f"{failures} without an answer")


if __name__ == "__main__":
    main()
