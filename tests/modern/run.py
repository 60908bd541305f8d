#!/usr/bin/env python3
"""Runs the Python client on the releases that tests/modern/requirements.txt pins (make modern).

    tests/modern/run.py build/release                   # the folder with bin/ and python/
    tests/modern/run.py build/release --filter monitor  # only tests whose name has "monitor"
    tests/modern/run.py build/release --if-pypi-answers # else nothing is run, which is said; exit 0

The packages are installed into build/modern, once for each content of the list. Exit: 0 all tests
passed, 1 one failed or the packages could not be installed.
"""

import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "tests/modern/requirements.txt"
VENV = ROOT / "build/modern"
TEST_SECONDS = 600
# (file below tests/, what it takes on its command line from the build folder). Longest first. Not
# here: the tests of the fault lab, which train for minutes and try the lab more than the client.
TESTS = [
    ("modern/torch_test.py",),
    ("modern/trainers_test.py", "bin/foreshockd"),
    ("modern/sharded_test.py", "bin/foreshockd"),
    ("modern/families_test.py",),
    ("python/client_test.py",),
    ("python/calibration_test.py", "bin/foreshock-proxy", "bin/foreshockd"),
    ("python/ranks_test.py", "bin/foreshockd"),
    ("python/daemon_test.py", "bin/foreshockd", "bin/foreshock"),
    ("python/forward_report_test.py", "bin/foreshock-proxy"),
    ("python/monitor_test.py",),
    ("python/integrations_test.py",),
    ("python/recorder_test.py",),
    ("python/discovery_test.py",),
    ("python/routing_test.py",),
    ("python/sharding_test.py",),
    ("python/gram_test.py",),
    ("python/pace_test.py",),
]


def pins():
    """[(package, version)] of the list."""
    return re.findall(r"^([\w.-]+)==(\S+)$", REQUIREMENTS.read_text(), re.M)


def undocumented():
    """The pins that the table of versions in docs/python.md does not tell as they are."""
    page = (ROOT / "docs/python.md").read_text()
    rows = re.findall(r"^\| ([\w-]+)(?:, [^|]*)? \|(.*)$", page, re.M)
    told = {name.lower(): cells for name, cells in rows}
    return [f"{name} {version}" for name, version in pins()
            if version not in re.split(r"[^\d.]+", told.get(name.lower(), ""))]


def installed():
    """The file that says that exactly this list is installed."""
    text = REQUIREMENTS.read_text() + sys.version
    return VENV / f"installed-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def pypi_answers():
    """Can pip fetch the smallest package of the list?"""
    with tempfile.TemporaryDirectory() as folder:
        package, version = next(pin for pin in pins() if pin[0] == "PyYAML")
        asked = subprocess.run(
            [sys.executable, "-m", "venv", f"{folder}/venv"], capture_output=True, check=False)
        asked = asked.returncode == 0 and subprocess.run(
            [f"{folder}/venv/bin/pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
             "--retries", "1", "--dest", folder, f"{package}=={version}"],
            capture_output=True, check=False).returncode == 0
    return bool(asked)


def install():
    """Makes build/modern anew; False if pip failed, whose words are then on the terminal."""
    began = time.monotonic()
    print(f"modern: installing {len(pins())} pinned packages into {VENV.relative_to(ROOT)}",
          flush=True)
    shutil.rmtree(VENV, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    done = subprocess.run(
        [VENV / "bin/pip", "install", "-qq", "--no-compile", "--no-warn-script-location",
         "--requirement", REQUIREMENTS], check=False)
    if done.returncode == 0:
        installed().touch()
        print(f"modern: installed in {time.monotonic() - began:.0f} s", flush=True)
    return done.returncode == 0


def run(build, test, *arguments):
    """(name, exit code, seconds, output)"""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("FORESHOCK_")},
        "PYTHONPATH": str(build / "python"),
        "OMP_NUM_THREADS": "1",  # the models are too small for more
        "HF_HUB_OFFLINE": "1",  # nothing is fetched from a hub
        "TOKENIZERS_PARALLELISM": "false",
    }
    command = [VENV / "bin/python", ROOT / "tests" / test, *(build / a for a in arguments)]
    began = time.monotonic()
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=TEST_SECONDS, check=False)
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        code, output = -1, f"{(error.stdout or b'').decode()}\nnot done after {TEST_SECONDS} s"
    return test, code, time.monotonic() - began, output


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--if-pypi-answers", action="store_true")
    parser.add_argument("--filter", default=".", help="a regular expression")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    if not installed().exists():
        if arguments.if_pypi_answers and not pypi_answers():
            print("modern: PyPI does not answer, so the Python client was NOT tested on "
                  + ", ".join(f"{p} {v}" for p, v in pins()))
            return 0
        if not install():
            return 1
    for package, version in pins():
        print(f"modern: {package} {version}")
    failed = [f"docs/python.md does not say {pin}" for pin in undocumented()]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        running = [pool.submit(run, arguments.build.resolve(), *test) for test in TESTS
                   if re.search(arguments.filter, test[0])]
        if not running:
            print(f"modern: no test's name has {arguments.filter!r}")
            return 1
        for done in concurrent.futures.as_completed(running):
            name, code, seconds, output = done.result()
            print(f"modern: {name}: {'passed' if code == 0 else 'FAILED'} in {seconds:.0f} s",
                  flush=True)
            if code != 0:
                failed.append(name)
                print(output, flush=True)
    print("".join(f"modern: FAILED: {name}\n" for name in sorted(failed))
          + f"modern: {len(running)} tests, {len(failed)} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
