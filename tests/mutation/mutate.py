#!/usr/bin/env python3
"""Changes the sources of pure modules one place at a time and says which change no test notices.

    tests/mutation/mutate.py                                # every module, every mutant
    tests/mutation/mutate.py merge --mutants 100 --seed 7   # make mutate builds what they need first

For each module it finds mutants (mutants.py), builds all of them into one copy of the module's test
programs behind a switch (mutant.h), and runs the tests once for each mutant that they reach, the
quick ones first, until one fails. What the compiler refuses behind the switch (constants of the compiler's own) is built
one by one. equivalent.yaml names the mutants that change nothing, with the reason; they do not count.

Exit: 0 every module reaches --least percent, 1 one does not, 2 usage or a build that fails.
"""

import argparse
import concurrent.futures
import dataclasses
import fnmatch
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time

import yaml

import mutants as mutation

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
SWITCH = "tests/mutation/libforeshock_mutant.a"  # below the build folder
SLOW_MS = 50           # a test that takes as long runs after all others
MEMORY_MAX = 8 << 30  # of a test program; a mutant may never stop to allocate


@dataclasses.dataclass
class Module:
    sources: list  # patterns below the root
    tests: list    # test programs, the fastest first
    but: tuple = ()   # patterns of sources left out
    slow: tuple = ()  # tests that take too long to run once for each mutant


MODULES = {
    "merge": Module(["daemon/merge/*.cc"],
                    ["merge_test", "open_steps_property_test", "merge_property_test"]),
    "chunk_codec": Module(["daemon/store/chunk_codec.cc", "daemon/store/int_column.cc",
                           "daemon/store/value_column.cc", "daemon/store/bytes.cc",
                           "daemon/store/bit_stream.h", "daemon/store/predictor.h"],
                          ["chunk_golden_test", "chunk_codec_test"]),
    "indicators": Module(["daemon/indicators/*.cc", "daemon/indicators/*.inc",
                          "daemon/indicators/*.h"],
                         ["indicators_test", "indicators_property_test", "merge_property_test"]),
    "detect": Module(["daemon/detect/*.cc", "daemon/detect/ladder.h"],
                     ["detect_test", "detect_property_test"],
                     slow=("DetectLaws.HealthyNoiseIsQuiet", "DetectLaws.PagesKeepTheirPromise")),
    "rules": Module(["daemon/rules/*.cc", "daemon/rules/detectors/*.cc"],
                    ["rules_parts_test", "rules_test", "rules_restart_test"],
                    # The export to Prometheus judges nothing; the CLI's tests have it.
                    but=("daemon/rules/prometheus.cc", "daemon/rules/promql.cc")),
    "notify": Module(["daemon/notify/decision.cc", "daemon/notify/policy.cc",
                      "daemon/notify/delivery.cc", "daemon/notify/matcher.cc",
                      "daemon/notify/retry_clock.cc", "daemon/notify/severity.cc",
                      "daemon/notify/silences.cc", "daemon/notify/token_bucket.cc"],
                     ["notify_test"]),
}


class Failure(Exception):
    """What ends the program with a message."""


class Build:
    """The build folder: how its files are compiled and its programs linked."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        database = self.folder / "compile_commands.json"
        if not database.exists():
            raise Failure(f"{self.folder} is not configured: cmake --preset mutation")
        self.commands = {}  # object, relative to the folder -> (source, command)
        for entry in json.loads(database.read_text()):
            words = shlex.split(entry["command"])
            if "-c" not in words or "-o" not in words:
                continue
            source = pathlib.Path(words[words.index("-c") + 1])
            if source.is_relative_to(ROOT):
                self.commands[words[words.index("-o") + 1]] = (
                    str(source.relative_to(ROOT)), words)
        self.dependencies = self._dependencies()

    def _ninja(self, *words):
        done = subprocess.run(["ninja", "-C", str(self.folder), "-t", *words],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure(f"ninja -t {' '.join(words)} in {self.folder}: {done.stderr.strip()}")
        return "\n".join(line for line in done.stdout.split("\n")
                         if not line.startswith("ninja: Entering"))

    def _dependencies(self):
        """Object -> the files below the root that it is made of, relative to the root."""
        found, current = {}, None
        for line in self._ninja("deps").split("\n"):
            if line and not line[0].isspace():
                current = found.setdefault(line.split(": #deps")[0], set())
            elif line.strip():
                path = os.path.normpath(self.folder / line.strip())
                if path.startswith(f"{ROOT}/"):
                    current.add(path[len(str(ROOT)) + 1:])
        return found

    def link_of(self, program):
        """The words that link a program, its output in front of them."""
        line = self._ninja("commands", program).strip().split("\n")[-1]
        words = shlex.split(line.removeprefix(": && ").removesuffix(" && :"))
        return words[words.index("-o") + 1], words

    def compile(self, source_object, out, overlay):
        """Compiles an object with the sources of `overlay` over those of the tree."""
        source, words = self.commands[source_object]
        words = [word for word in words if word != "-Werror"]
        if "ccache" in pathlib.Path(words[0]).name:
            words = words[1:]
        words[words.index("-o") + 1] = str(out)
        if (overlay / source).exists():
            words[words.index("-c") + 1] = str(overlay / source)
        words[1:1] = [f"-I{overlay}", f"-I{ROOT}", "-include", str(HERE / "mutant.h"), "-w"]
        out.parent.mkdir(parents=True, exist_ok=True)
        return subprocess.run(words, cwd=self.folder, capture_output=True, text=True)


class Progress:
    """A line that moves on a terminal, else a line now and then."""

    def __init__(self, name, total):
        self.name, self.total = name, total
        self.done = self.killed = 0
        self.lock = threading.Lock()
        self.next_line = time.monotonic() + 30

    def count(self, mutant, killed):
        with self.lock:
            self.done += 1
            self.killed += killed is not False
            if killed is False:
                clear = "\r\033[K" if sys.stderr.isatty() else ""
                print(f"{clear}survives: {mutant}", flush=True)
            text = f"{self.name}: {self.done}/{self.total}, {self.done - self.killed} not killed"
            if sys.stderr.isatty():
                end = "\n" if self.done == self.total else ""
                print(f"\r{text}\033[K", end=end, file=sys.stderr, flush=True)
            elif time.monotonic() >= self.next_line or self.done == self.total:
                self.next_line = time.monotonic() + 30
                print(text, file=sys.stderr, flush=True)


@dataclasses.dataclass
class Program:
    path: pathlib.Path
    cpu: float = 0.0  # seconds of a run without a mutant
    wall: float = 0.0
    tests: dict = dataclasses.field(default_factory=dict)  # mutant's number -> tests that reach it
    slow: set = dataclasses.field(default_factory=set)     # tests that run after all others


class Runner:
    """The mutants of one module."""

    def __init__(self, build, name, jobs):
        self.build, self.name, self.jobs = build, name, jobs
        self.module = MODULES[name]
        self.work = build.folder / "mutants" / name
        self.links = [build.link_of(test) for test in self.module.tests]
        self.sources = self._sources()
        self.programs = []
        self.object_of = {source: [o for o, (s, _) in build.commands.items() if s == source]
                          for source in self.sources}
        self.test_objects = {o for _, words in self.links for o in words if o in build.commands}

    def _sources(self):
        tracked = sorted(str(path.relative_to(ROOT)) for pattern in self.module.sources
                         for path in ROOT.glob(pattern))
        if not tracked:
            raise Failure(f"{self.name}: no file is like {', '.join(self.module.sources)}")
        return [path for path in tracked
                if not any(fnmatch.fnmatch(path, pattern) for pattern in self.module.but)]

    def find(self):
        return [mutant for source in self.sources
                for mutant in mutation.find(source, (ROOT / source).read_text())]

    def objects_of(self, changed):
        """Objects to compile when these files change: the module's and the tests' own."""
        mine = {o for source in self.sources for o in self.object_of[source]} | self.test_objects
        return sorted(o for o in mine if self.build.dependencies.get(o, set()) & set(changed))

    def link(self, objects, out):
        """Links every test program into `out` with the objects {object: compiled file}."""
        programs = []
        for output, words in self.links:
            words = [str(objects.get(word, word)) for word in words]
            program = out / pathlib.Path(output).name
            at = words.index("-o")
            others = [str(file) for o, file in objects.items() if o not in self.test_objects]
            words[at + 1:at + 2] = [str(program), *others, SWITCH]
            done = subprocess.run(words, cwd=self.build.folder, capture_output=True, text=True)
            if done.returncode != 0:
                raise Failure(f"{self.name}: linking {output}: {done.stderr[-2000:]}")
            programs.append(program)
        return programs

    # --- all mutants behind the switch

    def build_switched(self, chosen):
        """Builds the programs with as many of `chosen` behind the switch as the compiler takes; the
        others lose their number."""
        shutil.rmtree(self.work, ignore_errors=True)
        overlay = self.work / "all"
        for number, mutant in enumerate(chosen, 1):
            mutant.number = number
        by_file = {}
        for mutant in chosen:
            by_file.setdefault(mutant.file, []).append(mutant)
        stale = set(by_file)
        objects = {o: overlay / "objects" / o for o in self.objects_of(by_file)}
        left = set(objects)
        rounds = 0
        while left:
            rounds += 1
            for file in stale:
                path = overlay / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(mutation.instrument((ROOT / file).read_text(), by_file[file]))
            with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
                results = dict(zip(sorted(left), pool.map(
                    lambda o: self.build.compile(o, objects[o], overlay), sorted(left))))
            failed = {o: done.stderr for o, done in results.items() if done.returncode != 0}
            stale = set()  # a header's mutants may be refused by many objects
            for o, errors in failed.items():
                stale |= self._refuse(errors, o, overlay, by_file, rounds)
            for o, errors in failed.items():
                if not stale:
                    raise Failure(f"{self.name}: {o} does not compile behind the switch:\n"
                                  f"{errors[-3000:]}")
            left = {o for o in objects if self.build.dependencies[o] & stale}
        return [Program(path) for path in self.link(objects, overlay)]

    def _refuse(self, errors, o, overlay, by_file, rounds):
        """Takes the mutants that a compiler's message points to from the switch; the files they
        are in."""
        pointed = {}
        for file, line in re.findall(rf"^\s*(?:In file included from )?{re.escape(str(overlay))}/"
                                     rf"([^:\s]+):(\d+)", errors, re.MULTILINE):
            pointed.setdefault(file, set()).add(int(line))
        stale = set()
        for file in self.build.dependencies[o] & set(by_file):
            for mutant in by_file[file]:
                if mutant.number and (rounds > 8 or mutant.line in pointed.get(file, ())):
                    mutant.number = 0
                    stale.add(file)
        # A statement of many lines has its error in any of them.
        if not stale:
            for file in self.build.dependencies[o] & set(by_file):
                for mutant in by_file[file]:
                    near = any(mutant.line <= line <= mutant.line + 12
                               for line in pointed.get(file, ()))
                    if mutant.number and near:
                        mutant.number = 0
                        stale.add(file)
        return stale

    # --- running

    def run(self, program, number, tests=("*",), reached=None):
        """Whether these tests of a program pass with a mutant, their CPU seconds and their seconds
        by the clock."""
        environment = dict(os.environ, FORESHOCK_MUTANT=str(number))
        if reached is not None:
            environment["FORESHOCK_MUTANTS_REACHED"] = str(reached)
        chosen = ":".join(tests)
        if self.module.slow:
            chosen += "-" + ":".join(self.module.slow)
        cpu_max = 120 if program.cpu == 0 else int(3 * program.cpu + 3)
        limits = f"ulimit -c 0; ulimit -t {cpu_max}; ulimit -v {MEMORY_MAX >> 10}"
        process = subprocess.Popen(
            ["sh", "-c", f'{limits}; exec "$@"', "sh", str(program.path), "--gtest_fail_fast",
             "--gtest_brief=1", f"--gtest_filter={chosen}"], cwd=program.path.parent, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        begin = time.monotonic()
        deadline = begin + (600 if program.cpu == 0 else 10 * program.wall + 20)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid != 0:
                process.returncode = os.waitstatus_to_exitcode(status)
                return (process.returncode == 0, usage.ru_utime + usage.ru_stime,
                        time.monotonic() - begin)
            if time.monotonic() > deadline:  # it waits for what never comes
                process.kill()
                process.wait()
                return False, 0, 0
            time.sleep(0.005)

    def measure(self, programs):
        for program in programs:
            reached = program.path.with_suffix(".reached")
            passed, program.cpu, program.wall = self.run(program, 0, reached=reached)
            if not passed:
                raise Failure(f"{self.name}: {program.path} fails without a mutant")
            for line in reached.read_text().splitlines():
                test, milliseconds, *numbers = line.split()
                if int(milliseconds) >= SLOW_MS:
                    program.slow.add(test)
                for number in numbers:
                    program.tests.setdefault(int(number), []).append(test)

    def killed_behind_switch(self, mutant):
        for slow in (False, True):
            for program in self.programs:
                tests = [test for test in program.tests.get(mutant.number, ())
                         if (test in program.slow) == slow]
                if tests and not self.run(program, mutant.number, tests)[0]:
                    return True
        return False

    def killed_alone(self, mutant):
        """None: the compiler refuses it."""
        work = self.work / f"alone-{threading.get_ident()}"
        shutil.rmtree(work, ignore_errors=True)
        path = work / mutant.file
        path.parent.mkdir(parents=True)
        path.write_text(mutant.apply((ROOT / mutant.file).read_text()))
        objects = {o: work / "objects" / o for o in self.objects_of([mutant.file])}
        for o, out in objects.items():
            if self.build.compile(o, out, work).returncode != 0:
                return None
        took = {program.path.name: (program.cpu, program.wall) for program in self.programs}
        return any(not self.run(Program(path, *took[path.name]), 0)[0]
                   for path in self.link(objects, work))

    def judge(self, chosen):
        """{mutant's place in `chosen`: True killed, False not, None refused by the compiler}."""
        self.programs = self.build_switched(chosen)
        self.measure(self.programs)
        progress = Progress(self.name, len(chosen))

        def one(mutant):
            killed = (self.killed_behind_switch(mutant) if mutant.number
                      else self.killed_alone(mutant))
            progress.count(mutant, killed)
            return killed

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(one, chosen))


def read_equivalents(mutants_of_all):
    """The mutants that equivalent.yaml names, by identity; a line that names none is an error."""
    path = HERE / "equivalent.yaml"
    equivalent = set()
    for entry in yaml.safe_load(path.read_text()) or []:
        for code in [entry["code"]] if isinstance(entry["code"], str) else entry["code"]:
            named = [mutant for mutant in mutants_of_all
                     if mutant.file == entry["file"] and code in mutant.code and
                     entry.get("change", mutant.change) == mutant.change]
            if not named:
                raise Failure(f"{path}: no mutant of {entry['file']} is like '{code}', "
                              f"{entry.get('change', 'any change')}")
            equivalent |= {id(mutant) for mutant in named}
    return equivalent


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE",
                        help=f"of {', '.join(MODULES)}; all if none is given")
    parser.add_argument("--build", default=ROOT / "build" / "mutation",
                        help="the folder of the preset `mutation`")
    parser.add_argument("--mutants", type=int, default=0, help="how many of a module; 0: all")
    parser.add_argument("--seed", type=int, default=None, help="of the sample; default: random")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--least", type=float, default=90, help="percent to kill, in each module")
    parser.add_argument("--file", default="*", help="only mutants of files like this")
    parser.add_argument("--list", action="store_true", help="print the mutants, run none")
    parser.add_argument("--targets", action="store_true", help="print the test programs and end")
    options = parser.parse_args()
    names = options.modules or list(MODULES)
    for name in names:
        if name not in MODULES:
            raise Failure(f"no module {name}; there are: {', '.join(MODULES)}")
    if options.targets:
        print("\n".join(sorted({test for name in names for test in MODULES[name].tests})),
              "foreshock_mutant", sep="\n")
        return 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    build = Build(options.build)
    runners = {name: Runner(build, name, options.jobs) for name in MODULES}
    found = {name: runner.find() for name, runner in runners.items()}
    equivalent = read_equivalents([mutant for mutants in found.values() for mutant in mutants])
    print(f"seed {seed}, {options.jobs} jobs", file=sys.stderr)
    summary, reached = [], True
    for name in names:
        counted = [mutant for mutant in found[name] if id(mutant) not in equivalent and
                   fnmatch.fnmatch(mutant.file, options.file)]
        same = len(found[name]) - len(counted)
        chosen = counted
        if 0 < options.mutants < len(counted):
            chosen = random.Random(seed).sample(counted, options.mutants)
        chosen.sort(key=lambda mutant: (mutant.file, mutant.line))
        if options.list:
            print("\n".join(map(str, chosen)))
            continue
        print(f"{name}: {len(chosen)} mutants", file=sys.stderr)
        begin = time.monotonic()
        killed = runners[name].judge(chosen)
        minutes = (time.monotonic() - begin) / 60
        n = sum(dead is not None for dead in killed)
        dead = sum(dead is True for dead in killed)
        percent = 100 * dead / n if n else 100.0
        reached = reached and percent >= options.least
        summary.append(f"{name:12} {dead:5} of {n:5} killed, {percent:5.1f} %; {len(counted)} found, "
                       f"{same} equivalent or left out, {len(chosen) - n} do not compile; "
                       f"{minutes:.0f} min")
        print(summary[-1], flush=True)
    if len(summary) > 1:
        print("\n" + "\n".join(summary))
    return 0 if reached else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"mutate: {failure}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
