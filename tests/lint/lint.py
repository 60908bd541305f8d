#!/usr/bin/env python3
"""Holds what the compiler cannot: arrows, namespaces, owners of libraries, file lists, words, clocks,
lengths of functions.

    tests/lint/lint.py            # what ctest runs
    tests/lint/lint.py --format   # clang-format as well (make lint)

Every finding is FILE:LINE: what is wrong and what is allowed. Exit: 0 clean, 1 findings.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

import functions

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
    "daemon/detect": 2,
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
# A folder's namespace is foreshock::FOLDER; these have another name.
NAMESPACES = {"daemon": "app", "client/cpp": "client_internal",
              "tests/unit/client": "client_internal"}
# Defines functions of gRPC and Abseil again, for ThreadSanitizer.
FOREIGN_NAMESPACES = {"daemon/base/archive.h", "tests/support/tsan_grpc.cc"}
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
    r"cereal/": {"daemon/base"},
    r"grpcpp/|grpc/": {"daemon/ingest", "daemon/query", "daemon/rpc", "daemon/app", "daemon/security",
                       "client/cpp", "client/cli"},
}
# The page's folders, from the lowest; a view's folder imports no other view's.
WEB = "daemon/web/src"
WEB_LEVELS = {"base": 0, "parts": 1, "views": 2}
# A function of any language; those of LONG_FUNCTIONS are longer still.
FUNCTION_LINES_MOST = 80
LONG_FUNCTIONS = "tests/lint/long_functions.txt"
# Words that must not be in the tree: other machines' paths and notes to self.
FORBIDDEN = [
    (r"(?<![\w.~])/(home|Users)/\w+", "a path of one machine"),
    (r"\b(TODO|FIXME|XXX)\b", "a note to self; do it, or file an issue"),
]
FORBIDDEN_SKIP = {"tests/lint/lint.py"}
# How programs wait: absl::Now() is for what is stored and shown.
# What has one way; the files that may do it otherwise, and the way.
ONE_WAY = [
    (re.compile(r"\bstd::string_view\b"), set(), "use absl::string_view, which Abseil's functions take"),
    (re.compile(r"\bsteady_clock\b"), {"daemon/base/clock.h"}, "use SteadyNow() of daemon/base/clock.h"),
    (re.compile(r"static_cast<grpc::StatusCode>"), {"daemon/security/grpc_status.h"},
     "use ToGrpc() of daemon/security/grpc_status.h"),
]
WAITS = re.compile(r"absl::Now\(\) [+<>]|([<>]=?|(until|deadline|next) -) absl::Now\(\)")
TEXT_SUFFIXES = {".cc", ".h", ".inc", ".proto", ".py", ".ts", ".cjs", ".sh", ".md", ".txt", ".yaml", ".yml",
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


def namespace_of(name):
    """The namespace below `foreshock` that belongs to a file: its folder's name."""
    parts = name.split("/")[:-1]
    folder = "/".join(parts[:3] if parts[:2] == ["tests", "unit"] else parts[:2])
    return NAMESPACES.get(folder, folder.split("/")[-1])


def declares_only(lines, number):
    """Whether the block that line `number` opens holds forward declarations of types only."""
    for line in lines[number:]:
        if line.startswith("}"):
            return True
        if not re.fullmatch(r"((template <[^>]*> )?(class|struct|enum class) \w+( : \w+)?;)?\s*(//.*)?",
                            line):
            return False
    return False


def lies_within(lines, number, own):
    """Whether line `number` comes after the head of a block of `own` and before its end."""
    for line in reversed(lines[:number - 1]):
        if re.match(rf"\}}  // namespace {own}$", line):
            return False
        if re.match(rf"namespace {own} \{{", line):
            return True
    return False


def check_namespaces(name, lines):
    """What a module declares lies in its own namespace; the public client's lies in `foreshock`."""
    if not name.startswith(("daemon/", "client/", "proxy/", "tests/")) or name in FOREIGN_NAMESPACES:
        return
    own = rf"foreshock::{namespace_of(name)}(?:::\w+)*"
    if name.startswith("client/cpp/include/"):
        own = "foreshock"
    elif name.startswith("client/cpp/src/") and name.endswith(".cc"):
        own = f"(?:{own}|foreshock)"  # defines what the public headers declare
    for number, line in enumerate(lines, 1):
        found = re.match(r"(?:inline )?namespace ([\w:]+) \{", line)
        if not found or re.fullmatch(own, found.group(1)) or lies_within(lines, number, own):
            continue
        if found.group(1) == "foreshock" or not declares_only(lines, number):
            yield (f"{name}:{number}: namespace {found.group(1)} is not this folder's; "
                   f"foreshock::{namespace_of(name)} is")


def check_macro_includes(name, lines):
    """A header that a macro names is one that no check of arrows sees."""
    for number, line in enumerate(lines, 1):
        if re.match(r"\s*#\s*include(_next)?\s+[A-Za-z_]", line):
            yield f"{name}:{number}: includes what a macro names; write the header's name"


def target_folders(cmake):
    """{name of a library of ours: its folder}, from {name of a CMake file: its text}."""
    folders = {}
    for name, text in cmake.items():
        for target in re.findall(r"\b(?:foreshock_library|add_library)\(\s*(\w+)", text):
            folders[target.removeprefix("foreshock_")] = str(pathlib.PurePosixPath(name).parent)
    return folders


def check_links(cmake):
    """A library or program links only what its folder may include."""
    folders = target_folders(cmake)
    for name, text in cmake.items():
        module = module_of(name)
        if not module or module == "daemon":
            continue
        for call in re.finditer(
                r"\b(?:foreshock_library|foreshock_executable|target_link_libraries)\(([^()]*)", text):
            for found in re.finditer(r"(?<![\w-])foreshock(?:::|_)(\w+)", call.group(1)):
                folder = folders.get(found.group(1))
                number = text.count("\n", 0, call.start(1) + found.start()) + 1
                if folder is None or "#" in text.splitlines()[number - 1]:
                    continue
                reason = check_link(module, found.group(1), module_of(folder + "/CMakeLists.txt"))
                if reason:
                    yield f"{name}:{number}: links {found.group(0)}: {reason}"


def check_link(module, library, target):
    """None if `module` may link `library`, which lies in the module `target`; else the reason."""
    if target is None:
        return f"{library} is for tests"
    if module != "proxy":
        return check_arrow(module, target)
    if target in PROXY_MAY_USE or library == "cli_text":  # the headers of the CLI that it sees
        return None
    return "proxy may use daemon/base, daemon/capture, daemon/store and cli_text only"


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


def check_one_way(name, lines):
    if not name.startswith(("daemon/", "client/", "proxy/")):
        return
    for number, line in enumerate(lines, 1):
        for pattern, allowed, way in ONE_WAY:
            found = pattern.search(line)
            if found and name not in allowed:
                yield f"{name}:{number}: '{found.group(0)}': {way}"


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


def read_typescript(files):
    """{file: {"imports": [[line, module]], "functions": [[line, name, lines]]}}; None without node."""
    names = [name for name in files if name.endswith(".ts") and not name.endswith(".d.ts")]
    if not names:
        return {}
    node = shutil.which("node")
    if not node:
        return None
    result = subprocess.run([node, "tests/lint/typescript.cjs", *names], cwd=ROOT, check=True,
                            capture_output=True, text=True)
    return json.loads(result.stdout)


def web_folder(name):
    """`base`, `parts`, `views/run`; "" for main.ts, which stands on top."""
    folder = str(pathlib.PurePosixPath(name).parent.relative_to(WEB))
    return "" if folder == "." else folder


def check_web_arrow(name, target):
    """None if one file of the page may import the other, else the reason."""
    source, to = web_folder(name), web_folder(target)
    if source in ("", to):
        return None
    levels = [WEB_LEVELS.get(folder.split("/")[0], len(WEB_LEVELS)) for folder in (source, to)]
    if levels[1] < levels[0]:
        return None
    return f"{source} may import its own folder and lower ones ({', '.join(WEB_LEVELS)}) only"


def check_web(modules):
    """Arrows between the page's folders, circles of imports, and files that nothing imports."""
    arrows = {}
    for name in sorted(modules):
        if not name.startswith(f"{WEB}/"):
            continue
        arrows[name] = []
        for line, module in modules[name]["imports"]:
            if not module.startswith("."):
                continue
            parts = []
            for part in (pathlib.PurePosixPath(name).parent / f"{module}.ts").parts:
                parts = parts[:-1] if part == ".." else [*parts, part]
            target = "/".join(parts)
            arrows[name].append(target)
            reason = check_web_arrow(name, target)
            if reason:
                yield f"{name}:{line}: imports {target}: {reason}"
    for circle in circles(arrows):
        yield f"{circle[0]}:1: imports itself: {' -> '.join(circle)}"
    used = {f"{WEB}/main.ts"}.union(*arrows.values())
    for name in arrows:
        if name not in used:
            yield f"{name}:1: nothing of the page imports it; import it, or remove it"


def circles(arrows):
    """One path back to its beginning for each circle, by a walk in depth."""
    done, path = set(), []

    def walk(name):
        if name in path:
            yield [*path[path.index(name):], name]
        elif name not in done:
            path.append(name)
            for target in arrows.get(name, []):
                yield from walk(target)
            path.pop()
            done.add(name)

    for name in sorted(arrows):
        yield from walk(name)


def check_lengths(found, allowed):
    """`found`: {file: functions}; `allowed`: {(file, name): lines}, which only shrinks."""
    long = {}
    for name, all_of_it in found.items():
        for function in all_of_it:
            key = (name, function.name)
            most = allowed.get(key, FUNCTION_LINES_MOST)
            if function.lines > FUNCTION_LINES_MOST:
                long[key] = function.lines
            if function.lines > most:
                yield (f"{name}:{function.line}: {function.name} has {function.lines} lines; "
                       f"at most {most}")
    for name, function in sorted(set(allowed) - set(long)):
        yield f"{LONG_FUNCTIONS}:1: {name} has no long function {function} any more; remove the entry"


def read_long_functions(text):
    """`file name lines` a line."""
    entries = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {(name, function): int(lines) for name, function, lines in entries}


def functions_of(files, modules):
    """{file: functions} of all three languages."""
    found = {name: [functions.Function(*one) for one in module["functions"]]
             for name, module in modules.items()}
    for name in files:
        if name.endswith((".cc", ".h", ".inc")):
            found[name] = functions.in_cpp((ROOT / name).read_text())
        elif name.endswith(".py"):
            found[name] = functions.in_python((ROOT / name).read_text())
    return found


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
    cmake = {}
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
            findings += check_macro_includes(name, lines)
            findings += check_namespaces(name, lines)
            findings += check_pragma_once(name, text)
            findings += check_waits(name, lines)
            findings += check_one_way(name, lines)
            findings += check_says(name, lines)
        elif name.endswith(".h.in"):
            findings += check_namespaces(name, lines)
        elif name.endswith(("CMakeLists.txt", ".cmake")):
            cmake[name] = text
    findings += check_links(cmake)
    findings += check_listed(files)
    modules = read_typescript(files)
    if modules is None:
        findings.append("node is not installed: deploy/install-deps.sh test")
    else:
        findings += check_web(modules)
        findings += check_lengths(functions_of(files, modules),
                                  read_long_functions((ROOT / LONG_FUNCTIONS).read_text()))
    if arguments.format:
        findings += check_format(files)
    print("\n".join(findings) or f"{len(files)} files, nothing found")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
