"""How long functions are, in C++ as clang-format lays it out and in Python; typescript.cjs has the third.

    for function in functions.in_cpp(text):
        print(function.line, function.name, function.lines)
"""

import ast
import collections
import re

# `line`: where it begins; `lines`: how many it has, both ends included.
Function = collections.namedtuple("Function", "line name lines")

# Braces mean nothing in strings, characters, comments and directives. 1'000 has no character.
OPAQUE = re.compile(r'R"(?P<tag>[^()\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|'
                    r"(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'|//[^\n]*|/\*.*?\*/|"
                    r"^[ ]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE)
SCOPE = re.compile(r"\s*(template\s*<.*>\s*)?(inline\s+)?(namespace|class|struct|union|enum)\b|"
                   r"\s*extern\s*\{")
TEST = re.compile(r"\b(?:TYPED_)?TEST(?:_[FP])?\((\w+),\s*(\w+)\)")
NAME = re.compile(r"([\w:]*operator(?:\(\)|\s*\S+?)|[\w:~]+)\s*\(")


def _braces(lines):
    """(line of `{`, line of `}`) of each pair, the outer before the inner; lines count from 0."""
    pairs, opened = [], []
    for number, line in enumerate(lines):
        for character in line:
            if character == "{":
                opened.append(len(pairs))
                pairs.append([number, None])
            elif character == "}" and opened:
                pairs[opened.pop()][1] = number
    return [pair for pair in pairs if pair[1] is not None]


def _indent(line):
    return len(line) - len(line.lstrip())


def in_cpp(text):
    """Functions of namespaces and classes. Lambdas and local classes count to the function around."""
    lines = OPAQUE.sub(lambda found: re.sub(r"[^\n]", " ", found.group(0)), text).split("\n")
    found, inside = [], -1  # the last line of what is no scope
    for opening, closing in _braces(lines):
        if opening <= inside and closing <= inside:
            continue
        begin = opening
        while begin > 0 and (not lines[begin].strip() or _indent(lines[begin]) > _indent(lines[closing])):
            begin -= 1
        header = " ".join(lines[begin:opening + 1])
        if SCOPE.match(header) and "=" not in header:
            continue
        # A body's brace stands alone; that of an initializer is followed by something.
        if lines[closing].strip() != "}" or "(" not in header:
            continue
        inside = closing
        test, name = TEST.search(header), NAME.search(header)
        found.append(Function(begin + 1, ".".join(test.groups()) if test else name.group(1),
                              closing - begin + 1))
    return found


def in_python(text):
    """All functions, those inside of others too."""
    return [Function(node.lineno, node.name, node.end_lineno - node.lineno + 1)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
