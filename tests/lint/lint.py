#!/usr/bin/env python3
"""Holds what the compiler cannot: include arrows, owners of libraries, file lists, words, clocks.

    tests/lint/lint.py            # what ctest runs
    tests/lint/lint.py --format   # clang-format as well (make lint)

Every finding is FILE:LINE: what is wrong and what is allowed. Exit: 0 clean, 1 findings.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A module may include from its own folder and from modules of a lower level.
LEVELS = {
    "proto": 0,
    "daemon/base": 0,
    "daemon/model": 1,
    "daemon/capture": 1,
    "daemon/yaml": 1,
    "daemon/security": 1,
    "daemon/ingest": 2,
    "daemon/indicators": 2,
    "daemon/merge": 2,
    "daemon/store": 2,
    "daemon/notify": 2,
    "daemon/exporter": 2,
    "daemon/http": 2,
    "daemon/remote_write": 3,
    "daemon/rules": 3,
    "daemon/query": 3,
    "daemon/rpc": 3,
    "daemon/web": 3,
    "daemon/pipeline": 4,
    "daemon/backtest": 5,
    "daemon/config": 5,
    "daemon/app": 6,
}
# client/ stands beside the daemon and sees only these parts of it.
CLIENT_MAY_USE = {
    "client/cpp": {"proto", "daemon/base"},
    "client/cli": {"proto", "client/cpp", "daemon/base", "daemon/capture", "daemon/rules",
                   "daemon/backtest", "daemon/store", "daemon/security"},
}
# proxy/ is a program of its own and prints with the CLI's tables.
PROXY_MAY_USE = {"proxy", "proto", "daemon/base", "daemon/capture", "daemon/store",
                 "client/cli/terminal.h", "client/cli/say.h", "client/cli/table.h", "client/cli/progress.h"}
# Text leaves the two programs through say.h, which makes it safe to print; these write besides it.
SAYS = re.compile(r"\b(f|v|vf)?printf\(|\b(f?puts|f?putc|putchar|fwrite)\(|std::(cout|cerr)\b")
MAY_WRITE = {"client/cli/say.cc", "client/cli/progress.cc", "client/cli/verb_export.cc",
             "proxy/file.cc"}
# Which folders may include a library's headers.
OWNERS = {
    r"rocksdb/": {"daemon/store"},
    r"yaml-cpp/": {"daemon/yaml"},
    r"Eigen/|unsupported/Eigen": {"daemon/indicators", "proxy"},
    r"prometheus/": {"daemon/exporter"},
    r"httplib": {"daemon/http", "client/cli"},
    r"zstd\.h": {"daemon/capture", "daemon/store"},
    r"zlib\.h": {"daemon/store"},
    r"spdlog/": {"daemon/base"},
    r"systemd/": {"daemon/app"},
    r"csv\.h": {"client/cli"},
    r"curses\.h|utf8proc\.h": {"client/cli"},
    r"CLI/": {"client/cli", "daemon", "proxy"},
    r"nlohmann/": {"client/cli", "daemon/query", "daemon/http", "daemon/notify", "proxy"},
    r"openssl/": {"daemon/notify", "daemon/security", "daemon/http", "client/cli", "proxy"},
    r"curl/": {"daemon/notify"},
    r"kainjow/": {"daemon/notify"},
    r"snappy": {"daemon/remote_write"},
    r"re2/": {"daemon/base"},
    r"grpcpp/|grpc/": {"daemon/ingest", "daemon/query", "daemon/rpc", "daemon/app", "daemon/security",
                       "client/cpp", "client/cli"},
}
# Words that must not be in the tree: other machines' paths and notes to self.
FORBIDDEN = [
    (r"(?<![\w.~])/(home|Users)/\w+", "a path of one machine"),
    (r"\b(TODO|FIXME|XXX)\b", "a note to self; do it, or file an issue"),
]
FORBIDDEN_SKIP = {"tests/lint/lint.py"}
# How programs wait: absl::Now() is for what is stored and shown.
WAITS = re.compile(r"absl::Now\(\) [+<>]|([<>]=?|(until|deadline|next) -) absl::Now\(\)")
TEXT_SUFFIXES = {".cc", ".h", ".inc", ".proto", ".py", ".sh", ".md", ".txt", ".yaml", ".yml",
                 ".cmake", ".json", ".in", ""}


def tracked_files():
    """Paths below ROOT that belong to the tree: git's view, or a walk in an unpacked archive."""
    try:
        names = subprocess.run(
            ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others",
             "--exclude-standard"], cwd=ROOT, check=True, capture_output=True,
            text=True).stdout.split("\0")
        return sorted({name for name in names if name and (ROOT / name).is_file()})
    except (OSError, subprocess.CalledProcessError):
        return sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*")
                      if path.is_file() and path.relative_to(ROOT).parts[0] not in {"build", ".git"})


def module_of(path):
    """The module a file or include belongs to: its first two folders, `proxy`, or None."""
    parts = path.split("/")
    if parts[0] == "proxy":
        return "proxy"
    if parts[0] in ("foreshock", "proto"):
        return "proto"
    if parts[0] not in ("daemon", "client") or len(parts) < 2:
        return None
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def check_arrow(module, target):
    """None if `module` may include `target`, else the reason."""
    if module == target or module == "daemon":  # daemon/main.cc stands on top
        return None
    if module in CLIENT_MAY_USE:
        if target in CLIENT_MAY_USE[module]:
            return None
        return f"{module} may use {', '.join(sorted(CLIENT_MAY_USE[module]))} only"
    if target.startswith("client"):
        return "nothing in daemon/ uses client/"
    if target == "proxy":
        return "nothing uses proxy/"
    if module not in LEVELS:
        return f"{module} has no level; give it one in tests/lint/lint.py"
    if target not in LEVELS:
        return f"there is no module {target}"
    if LEVELS[target] < LEVELS[module]:
        return None
    return (f"{module} (level {LEVELS[module]}) may use lower levels only, "
            f"{target} is level {LEVELS[target]}")


def check_includes(name, lines):
    module = module_of(name)
    for number, line in enumerate(lines, 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^">]+)[">]', line)
        if not found:
            continue
        quote, header = found.groups()
        target = module_of(header) if quote == '"' else None
        if module and target:
            if module == "proxy":  # it sees single headers of the CLI
                if not {target, header} & PROXY_MAY_USE:
                    yield (f"{name}:{number}: includes {header}: proxy may use "
                           f"{', '.join(sorted(PROXY_MAY_USE))} only")
                continue
            reason = check_arrow(module, target)
            if reason:
                yield f"{name}:{number}: includes {header}: {reason}"
        if not name.startswith(("daemon/", "client/", "proxy/")):
            continue
        for pattern, owners in OWNERS.items():
            if re.match(pattern, header) and module not in owners:
                yield (f"{name}:{number}: includes {header}, which belongs to "
                       f"{', '.join(sorted(owners))}")


def check_pragma_once(name, text):
    if name.endswith(".h") and "#pragma once" not in text:
        yield f"{name}:1: a header begins with a comment and then #pragma once"


def check_words(name, lines):
    if name in FORBIDDEN_SKIP:
        return
    for number, line in enumerate(lines, 1):
        for pattern, reason in FORBIDDEN:
            found = re.search(pattern, line)
            if found:
                yield f"{name}:{number}: '{found.group(0)}' is {reason}"
        if name.endswith((".cc", ".h")) and len(line) > 100 and "http" not in line:
            if not kept_by_hand(lines, number):
                yield f"{name}:{number}: {len(line)} columns; at most 100"


def check_waits(name, lines):
    if not name.startswith(("daemon/", "client/", "proxy/")):
        return
    for number, line in enumerate(lines, 1):
        found = WAITS.search(line)
        if found:
            yield (f"{name}:{number}: '{found.group(0)}' waits by a clock that people set; "
                   "SteadyNow() of daemon/base/clock.h is none")


def check_says(name, lines):
    if not name.startswith(("client/cli/", "proxy/")) or name in MAY_WRITE:
        return
    for number, line in enumerate(lines, 1):
        found = SAYS.search(line.split("//")[0])
        if found:
            yield f"{name}:{number}: {found.group(0)} prints what it is given; use client/cli/say.h"


def inside(lines, number, begin, end):
    """Whether line `number` comes after a line with `begin` and no line with `end` since."""
    for line in reversed(lines[:number]):
        if end in line:
            return False
        if begin in line:
            return True
    return False


def kept_by_hand(lines, number):
    """Whether the line is in a table that clang-format leaves alone, or in a raw string."""
    return (inside(lines, number, "clang-format off", "clang-format on") or
            inside(lines, number, 'R"(', ')"'))


def check_listed(files):
    """Every .cc is named by a CMake file of its folder or above, or by its whole path by any."""
    cmake = {}
    for name in files:
        if name.endswith(("CMakeLists.txt", ".cmake")):
            folder = str(pathlib.PurePosixPath(name).parent)
            cmake[folder] = cmake.get(folder, "") + (ROOT / name).read_text()
    everything = "".join(cmake.values())
    for name in files:
        if not name.endswith(".cc") or f"/{name}" in everything:
            continue
        path = pathlib.PurePosixPath(name)
        for folder in path.parents:
            listed = str(path.relative_to(folder))
            if re.search(rf"(?<![\w/.-]){re.escape(listed)}(?![\w.-])", cmake.get(str(folder), "")):
                break
        else:
            yield f"{name}:1: no CMake file builds it; list it, or remove it"


def check_format(files):
    tool = shutil.which("clang-format")
    if not tool:
        yield "clang-format is not installed: deploy/install-deps.sh dev"
        return
    sources = [name for name in files if name.endswith((".cc", ".h", ".ts"))]
    result = subprocess.run([tool, "--dry-run", "--Werror", *sources], cwd=ROOT,
                            capture_output=True, text=True, check=False)
    for line in result.stderr.splitlines():
        if ": error:" in line:
            yield line


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--format", action="store_true", help="check with clang-format as well")
    arguments = parser.parse_args()
    files = tracked_files()
    findings = []
    for name in files:
        path = ROOT / name
        if path.suffix not in TEXT_SUFFIXES:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        lines = text.splitlines()
        findings += check_words(name, lines)
        if name.endswith((".cc", ".h", ".inc")):
            findings += check_includes(name, lines)
            findings += check_pragma_once(name, text)
            findings += check_waits(name, lines)
            findings += check_says(name, lines)
    findings += check_listed(files)
    if arguments.format:
        findings += check_format(files)
    print("\n".join(findings) or f"{len(files)} files, nothing found")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
