#!/usr/bin/env python3
"""The store beside Prometheus and VictoriaMetrics: the same points, one after the other, in one run.

    tests/bench/store_peers.py build/bench/tests/bench/store_feed tests/data/captures/*.fscap

Three sets of points, the same float32 values for all three:

* recorded: the captures, replayed by the daemon's own code: training scalars and indicators;
* wide: many series, few steps, random walks with noise, seed fixed;
* long: few series, many steps, the same.

A step is a second of time for the peers. They are the packages of Debian, started here with empty
folders and fed by remote write, in step order, with requests of some ten thousand points that are
grouped by series, which is the cheapest form for them. The store is fed as the daemon does it: a
batch per run and step. What each line of the table contains is said below it.
"""

import argparse
import calendar
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

import numpy as np
import snappy

RECORD = np.dtype([("step", "<i8"), ("series", "<u4"), ("value", "<f4"), ("flags", "<u4")])
REQUEST_POINTS = 20_000
REQUEST_STEPS = 1_000       # Prometheus takes nothing that is an hour older than its newest sample
PLOT_STEPS = 1_024          # a bucket of a plot
PLOT_ROUNDS = 5
START_SECONDS = 120.0
UNIT_NAMES = {1: "", 2: "head", 3: "expert", 4: "projection", 5: "rank", 6: "tensor"}
SEED = 20_231_101

NOTES = """\
at rest: with everything merged, indices included, logs not: after compaction of the database;
  Prometheus' snapshot (its blocks, the newest points as one more); VictoriaMetrics' folders `data`
  and `indexdb` after force_flush and force_merge.
as left: the whole folder after a clean end, logs and caches included; nothing was forced but the
  flush and merge of VictoriaMetrics.
append: CPU seconds of the process until all is acknowledged (settled: and chunked, flushed or in a
  block). The peers' contain HTTP, snappy and protobuf, ours does not: it is the library that the
  daemon has linked in. The store has each step in its log when it answers; VictoriaMetrics keeps
  the newest seconds in memory alone.
sum: one query over every point (sum_over_time; a visitor of all points), CPU seconds of the process.
plot: one series in buckets of 1 024 steps, after a restart with the files out of the page cache;
  wall clock, for the peers with HTTP and JSON. The store returns min, mean, max and last, the peers
  the mean.
restart: until the first query can be answered (a store that is open; /-/ready; /health).
lost: points that were acknowledged before kill -9, which comes right after the last answer, and
  were not there after it."""


# ---- Points


class Points:
    """A folder of points: tests/bench/store_feed.cc says what is in it."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = pathlib.Path(folder)
        lines = (self.folder / "series.tsv").read_text().splitlines()
        self.labels = [self.labels_of(*line.split("\t")) for line in lines]
        self.records = np.fromfile(self.folder / "points.bin", RECORD)
        self.last_step = int(self.records["step"].max())

    @staticmethod
    def labels_of(run, attempt, indicator, layer, unit, unit_id, unit_name):
        """Sorted by name. The indicator is a label, because sum_over_time drops metric names."""
        labels = {"__name__": "point", "indicator": indicator, "attempt": attempt, "run": run}
        if int(layer) >= 0:
            labels["layer"] = layer
        if UNIT_NAMES[int(unit)]:
            labels["unit"] = UNIT_NAMES[int(unit)]
            labels["unit_id"] = unit_id
        if unit_name:
            labels["unit_name"] = unit_name
        return dict(sorted(labels.items()))

    def selector(self, number):
        return "{" + ",".join(f'{k}="{v}"' for k, v in self.labels[number].items()) + "}"


def walks(name, folder, series, steps):
    """Random walks with noise, all bits of the mantissa in use."""
    folder.mkdir()
    random = np.random.default_rng(SEED)
    with open(folder / "series.tsv", "w", encoding="ascii") as file:
        for i in range(series):
            file.write(f"{name}\t1\tattn.delta2.entropy_ratio\t{i // 64}\t2\t{i % 64}\t\n")
    level = random.uniform(0.1, 5, series)
    with open(folder / "points.bin", "wb") as file:
        for first in range(0, steps, REQUEST_STEPS):
            count = min(REQUEST_STEPS, steps - first)
            moves = random.normal(0, 1e-3, (count, series)) * level
            level = level + moves.sum(axis=0)
            values = level + moves[::-1].cumsum(axis=0) + random.normal(0, 1e-3, (count, series))
            block = np.zeros((count, series), RECORD)
            block["step"] = np.arange(first, first + count)[:, None]
            block["series"] = np.arange(series)
            block["value"] = values
            file.write(block.tobytes())
    return Points(name, folder)


# ---- Remote write


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, payload):
    """A length-delimited field of a protobuf message."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def encode_samples(values, times_ms):
    """Rows of bytes, one for each `TimeSeries.samples` (2): Sample{double value = 1; int64
    timestamp = 2}. All times have 6 groups of 7 bits, so the rows are of one length."""
    out = np.empty((len(values), 20 - 2), np.uint8)
    out[:, 0] = 2 << 3 | 2
    out[:, 1] = 16
    out[:, 2] = 1 << 3 | 1
    out[:, 3:11] = values.astype("<f8")[:, None].view(np.uint8)
    out[:, 11] = 2 << 3 | 0
    for i in range(6):
        out[:, 12 + i] = (times_ms >> (7 * i)) & 0x7F | (0x80 if i < 5 else 0)
    return out


def write_requests(points, base_ms):
    """Bodies of remote write requests: WriteRequest{repeated TimeSeries timeseries = 1}, with
    TimeSeries{repeated Label labels = 1; repeated Sample samples = 2}, in snappy."""
    labels = [b"".join(field(1, field(1, name.encode()) + field(2, value.encode()))
                       for name, value in one.items()) for one in points.labels]
    records = points.records
    bounds = np.flatnonzero(np.diff(records["step"])) + 1   # where a step begins
    begin = 0
    while begin < len(records):
        last = records["step"][begin] + REQUEST_STEPS
        end = min(np.searchsorted(records["step"], last), begin + REQUEST_POINTS)
        at = np.searchsorted(bounds, end)
        end = int(bounds[at]) if at < len(bounds) else len(records)
        part = records[begin:end]
        part = part[np.argsort(part["series"], kind="stable")]
        rows = encode_samples(part["value"], base_ms + part["step"] * 1000)
        firsts = np.flatnonzero(np.diff(part["series"], prepend=-1))
        body = b"".join(field(1, labels[part["series"][a]] + rows[a:b].tobytes())
                        for a, b in zip(firsts, [*firsts[1:], len(part)]))
        yield snappy.compress(body)
        begin = end


# ---- Systems


def folder_bytes(folder, skip=()):
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*")
               if path.is_file() and not set(path.relative_to(folder).parts) & set(skip))


def forget_pages(folder):
    """The files of the folder leave the page cache."""
    os.sync()
    for path in pathlib.Path(folder).rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Foreshock:
    name = "Foreshock"

    def __init__(self, feed, folder):
        self.feed_program = feed
        self.folder = pathlib.Path(folder)

    def run(self, *words, died=False):
        done = subprocess.run([self.feed_program, *map(str, words)], stdout=subprocess.PIPE,
                              check=False)
        if done.returncode != (-signal.SIGKILL if died else 0):
            raise RuntimeError(f"store_feed {words[0]}: exit {done.returncode}")
        return json.loads(done.stdout or "{}")

    def measure(self, points, plot):
        fed = self.run("append", self.folder, points.folder)
        count = len(points.records)
        result = {"append": count / fed["cpu"], "append wall": count / fed["wall"],
                  "append settled": count / fed["settled_cpu"],
                  "as left": folder_bytes(self.folder) / count}
        if plot:
            forget_pages(self.folder)
            drawn = self.run("plot", self.folder, PLOT_STEPS)
            result |= {"restart": drawn["open"], "plot first": drawn["first"],
                       "plot again": drawn["again"]}
        scanned = self.run("scan", self.folder)
        result["sum"] = count / scanned["cpu"]
        checked = self.run("check", self.folder, points.folder)
        result["wrong"] = checked["missing"] + checked["wrong"]
        self.run("compact", self.folder)
        result["at rest"] = folder_bytes(self.folder, skip=("LOCK",)) / count
        return result

    def crash(self, points):
        self.run("append", self.folder, points.folder, "kill", died=True)
        forget_pages(self.folder)
        opened = self.run("plot", self.folder, PLOT_STEPS)
        return {"restart after kill": opened["open"],
                "lost": self.run("check", self.folder, points.folder)["missing"]}

    def declared(self, points):
        """Bytes a point, at rest, where values keep what their indicator promises."""
        self.run("append", self.folder, points.folder, "declared")
        self.run("compact", self.folder)
        return folder_bytes(self.folder, skip=("LOCK",)) / len(points.records)

    def synced(self, points):
        fed = self.run("append", self.folder, points.folder, "sync")
        return {"append synced": fed["points"] / fed["wall"],
                "sync": fed["wall"] / fed["batches"]}


class Peer:
    """A server of time series as a child process."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        month = time.gmtime(time.time() - 32 * 86_400)
        self.base = calendar.timegm((month.tm_year, month.tm_mon, 1, 0, 0, 0))
        self.process = None
        self.connection = None

    def start(self):
        """Seconds until it is ready."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder.mkdir(exist_ok=True)
        begun = time.monotonic()
        with open(self.folder.with_suffix(".log"), "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log)
        while True:
            try:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
                if self.ask("GET", self.READY, check=False)[0] == 200:
                    return time.monotonic() - begun
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() - begun > START_SECONDS:
                raise RuntimeError(f"{self.name} does not start:\n"
                                   + self.folder.with_suffix(".log").read_text()[-2000:])
            time.sleep(0.01)

    def stop(self, how=signal.SIGTERM):
        self.connection.close()
        self.process.send_signal(how)
        self.process.wait()

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def cpu(self):
        """Seconds of all threads; a Go program ends none of them. /proc/PID/stat counts in 10 ms."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) * 1e-9

    def ask(self, method, path, body=None, check=True, **parameters):
        if parameters:
            path += "?" + urllib.parse.urlencode(parameters)
        headers = {"Content-Encoding": "snappy"} if body else {}
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if check and answer.status >= 300:
            raise RuntimeError(f"{self.name}: {path}: {answer.status} {text[:500]!r}")
        return answer.status, text

    def query(self, expression, points):
        text = self.ask("GET", "/api/v1/query", query=expression, nocache=1,
                        time=self.base + points.last_step, timeout="10m")[1]
        return json.loads(text)["data"]["result"]

    def feed(self, points):
        """Requests are made before, so that only the server is busy."""
        bodies = list(write_requests(points, self.base * 1000))
        begun, cpu = time.monotonic(), self.cpu()
        for body in bodies:
            self.ask("POST", "/api/v1/write", body)
        return time.monotonic() - begun, self.cpu() - cpu

    def over_all(self, function, points):
        window = points.last_step + 1
        return f'sum({function}_over_time({{run!=""}}[{window}s]))'

    def count(self, points):
        found = self.query(self.over_all("count", points), points)
        return int(found[0]["value"][1]) if found else 0

    def measure(self, points, plot):
        count = len(points.records)
        self.start()
        wall, cpu = self.feed(points)
        begun = self.cpu()
        at_rest = self.settle()
        result = {"append": count / cpu, "append wall": count / wall,
                  "append settled": count / (cpu + self.cpu() - begun)}
        if at_rest is None:
            at_rest = folder_bytes(self.folder / "data") + folder_bytes(self.folder / "indexdb")
        result["at rest"] = at_rest / count
        self.stop()
        result["as left"] = folder_bytes(self.folder, skip=("snapshots",)) / count
        forget_pages(self.folder)
        result["restart"] = self.start()
        if plot:
            result |= self.plot(points)
        begun = self.cpu()
        self.query(self.over_all("sum", points), points)
        result["sum"] = count / (self.cpu() - begun)
        result["wrong"] = (count - self.count(points)) if plot else self.compare(points)
        self.stop()
        return result

    def plot(self, points):
        walls = []
        expression = f"avg_over_time({points.selector(0)}[{PLOT_STEPS}s])"
        for _ in range(1 + PLOT_ROUNDS):
            begun = time.monotonic()
            text = self.ask("GET", "/api/v1/query_range", query=expression, nocache=1,
                            start=self.base + PLOT_STEPS - 1, end=self.base + points.last_step,
                            step=PLOT_STEPS)[1]
            walls.append(time.monotonic() - begun)
        values = json.loads(text)["data"]["result"][0]["values"]
        if len(values) != (points.last_step + 1) // PLOT_STEPS:
            raise RuntimeError(f"{self.name}: {len(values)} points in the plot")
        return {"plot first": walls[0], "plot again": statistics.median(walls[1:])}

    def compare(self, points):
        """Points that do not come back, or not as the same float32."""
        numbers = {tuple(sorted(one.items())): i for i, one in enumerate(points.labels)}
        parts = []
        for labels, times, values in self.everything(points):
            part = np.zeros(len(times), RECORD)
            part["series"] = numbers[tuple(sorted(labels.items()))]
            part["step"] = np.rint(np.asarray(times, float) - self.base)
            part["value"] = np.asarray(values, float)
            parts.append(part)
        found = np.sort(np.concatenate(parts), order=("series", "step"))
        sent = points.records.copy()
        sent["flags"] = 0
        sent = np.sort(sent, order=("series", "step"))
        if len(found) != len(sent):
            return abs(len(sent) - len(found))
        return int(np.count_nonzero(found != sent))

    def crash(self, points):
        self.start()
        self.feed(points)
        self.stop(signal.SIGKILL)
        forget_pages(self.folder)
        restart = self.start()
        lost = len(points.records) - self.count(points)
        self.stop()
        return {"restart after kill": restart, "lost": lost}


class Prometheus(Peer):
    name = "Prometheus"
    READY = "/-/ready"

    def command(self):
        config = self.folder.with_suffix(".yml")
        config.write_text("{}\n")
        return ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}",
                f"--web.listen-address=127.0.0.1:{self.port}", "--storage.tsdb.retention.time=100y",
                "--web.enable-remote-write-receiver", "--web.enable-admin-api",
                "--query.max-samples=2000000000", "--query.timeout=10m", "--log.level=warn"]

    def settle(self):
        answer = json.loads(self.ask("POST", "/api/v1/admin/tsdb/snapshot")[1])
        return folder_bytes(self.folder / "snapshots" / answer["data"]["name"])

    def everything(self, points):
        for one in self.query(f'{{run!=""}}[{points.last_step + 1}s]', points):
            times, values = zip(*one["values"])
            yield one["metric"], times, values


class VictoriaMetrics(Peer):
    name = "VictoriaMetrics"
    READY = "/health"

    def command(self):
        return ["victoria-metrics", f"-storageDataPath={self.folder}",
                f"-httpListenAddr=127.0.0.1:{self.port}", "-retentionPeriod=100y",
                "-search.maxQueryDuration=10m", "-search.maxSamplesPerSeries=1000000000",
                "-search.latencyOffset=0s", "-search.disableCache", "-loggerLevel=WARN"]

    def settle(self):
        self.ask("GET", "/internal/force_flush")
        self.ask("GET", "/internal/force_merge")
        while True:
            time.sleep(0.2)
            metrics = self.ask("GET", "/metrics")[1].decode()
            busy = [line for line in metrics.splitlines()
                    if line.startswith(("vm_active_merges", "vm_active_force_merges"))
                    and not line.endswith(" 0")]
            if not busy:
                return None

    def everything(self, points):
        text = self.ask("GET", "/api/v1/export", **{"match[]": '{run!=""}'})[1]
        for line in text.splitlines():
            one = json.loads(line)
            yield one["metric"], [ms / 1000 for ms in one["timestamps"]], one["values"]


# ---- The table

ROWS = (  # key, what, unit, scale, smaller is better
    ("at rest", "bytes a point, at rest", "B", 1, True),
    ("as left", "bytes a point, as left", "B", 1, True),
    ("append", "append", "M points/CPU s", 1e-6, False),
    ("append settled", "append, settled", "M points/CPU s", 1e-6, False),
    ("append wall", "append, wall clock", "M points/s", 1e-6, False),
    ("sum", "sum over all points", "M points/CPU s", 1e-6, False),
    ("restart", "restart", "ms", 1e3, True),
    ("plot first", "plot, first", "ms", 1e3, True),
    ("plot again", "plot, again", "ms", 1e3, True),
    ("restart after kill", "restart after kill -9", "ms", 1e3, True),
    ("lost", "lost by kill -9", "points", 1, True),
    ("wrong", "not as written", "points", 1, True),
)


def show(points, results):
    names = list(results)
    print(f"\n{points.name}: {len(points.labels)} series, {len(points.records)} points, steps 0 to "
          f"{points.last_step}\n")
    print("| what | unit | " + " | ".join(names) + " | " +
          " | ".join(f"{name} / Foreshock" for name in names[1:]) + " |")
    print("|---|---|" + "---:|" * (2 * len(names) - 1))
    for key, what, unit, scale, _ in ROWS:
        values = [results[name].get(key) for name in names]
        if values[0] is None:
            continue
        cells = ["–" if value is None else f"{value * scale:.3g}" if key not in ("lost", "wrong")
                 else str(value) for value in values]
        ratios = ["–" if not value or not values[0] or key in ("lost", "wrong")
                  else f"{value / values[0]:.2f}" for value in values[1:]]
        print(f"| {what} | {unit} | " + " | ".join(cells + ratios) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store_feed", type=pathlib.Path)
    parser.add_argument("captures", nargs="+", type=pathlib.Path)
    parser.add_argument("--only", choices=("recorded", "wide", "long"), default=None)
    parser.add_argument("--wide", default="5000x200", help="series x steps")
    parser.add_argument("--long", default="2x1000000", help="series x steps")
    arguments = parser.parse_args()
    missing = [name for name in ("prometheus", "victoria-metrics") if not shutil.which(name)]
    if missing:
        sys.exit(f"store_peers: not installed: {', '.join(missing)} (deploy/install-deps.sh bench)")
    feed = arguments.store_feed.resolve()

    def sets(folder):
        if arguments.only in (None, "recorded"):
            subprocess.run([feed, "points", folder / "recorded", *arguments.captures], check=True)
            yield Points("recorded", folder / "recorded")
        for name, size in (("wide", arguments.wide), ("long", arguments.long)):
            if arguments.only in (None, name):
                yield walks(name, folder / name, *map(int, size.split("x")))

    with tempfile.TemporaryDirectory(prefix="foreshock_peers_") as directory:
        folder = pathlib.Path(directory)
        for points in sets(folder):
            results = {}
            for make in (lambda path: Foreshock(feed, path), Prometheus, VictoriaMetrics):
                system = make(folder / "data")
                try:
                    results[system.name] = system.measure(points, plot=points.name == "long")
                    shutil.rmtree(system.folder)
                    if points.name == "wide":
                        results[system.name] |= system.crash(points)
                        shutil.rmtree(system.folder)
                    if points.name == "recorded" and isinstance(system, Foreshock):
                        synced = system.synced(points)
                        shutil.rmtree(system.folder)
                        declared = system.declared(points)
                        shutil.rmtree(system.folder)
                finally:
                    if isinstance(system, Peer):
                        system.close()
            show(points, results)
            if points.name == "recorded":
                print(f"\nForced to the medium after every batch: "
                      f"{synced['append synced'] * 1e-6:.3g} M points/s, "
                      f"{synced['sync'] * 1e3:.3g} ms a batch\n"
                      f"Foreshock with store.precision declared: {declared:.3g} B a point, at rest")
    print("\n" + NOTES)


if __name__ == "__main__":
    main()
