"""Finds what may be changed in a C++ source, and writes the source with the changes behind a switch.

    mutants = find("daemon/merge/open_steps.cc", text)
    with_switch = instrument(text, mutants)        # mutant.h says how the switch works
    by_itself = mutants[3].apply(text)             # one change, without the switch

It reads tokens, not a grammar: the sources are formatted by clang-format, so that an operator with
spaces on both sides is a binary one. Where it errs the compiler refuses the change, and it counts
as none.
"""

import dataclasses
import re

TOKEN = re.compile(r"""
    (?P<space>\s+)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^(\s]*)\(.*?\)(?P=delimiter)")
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
  | (?P<char>'(?:\\.|[^'\\\n])+')
  | (?P<directive>\#[^\n]*(?:(?<=\\)\n[^\n]*)*)
  | (?P<number>\.?[0-9](?:[eEpP][+-]|'[0-9a-fA-F]|[0-9a-zA-Z_.])*)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<op><=>|->\*|\.\.\.|<<=|>>=|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w])
""", re.VERBOSE | re.DOTALL)

# What stands for an operator, and the placeholder's name in mutant.h.
OPERATORS = {
    "+": ("Plus", ["-"]), "-": ("Minus", ["+"]), "*": ("Times", ["/"]), "/": ("Over", ["*"]),
    "%": ("Modulo", ["*"]), "<": ("Less", ["<=", ">="]), "<=": ("LessOrEqual", ["<", ">"]),
    ">": ("Greater", [">=", "<="]), ">=": ("GreaterOrEqual", [">", "<"]),
    "==": ("Equal", ["!="]), "!=": ("NotEqual", ["=="]), "&": ("And", ["|"]), "|": ("Or", ["&"]),
    "^": ("Xor", ["&"]), "<<": ("ShiftLeft", [">>"]), ">>": ("ShiftRight", ["<<"]),
}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = {")", "]", "}"}
NOT_EXPRESSIONS = {
    "using", "typedef", "static_assert", "template", "friend", "public", "private", "protected",
    "struct", "class", "enum", "union", "namespace", "const", "constexpr", "static", "auto",
    "return", "if", "else", "for", "while", "do", "switch", "case", "default", "break", "continue",
    "goto", "try", "catch", "throw", "delete", "extern", "inline", "mutable", "volatile", "asm",
    "unsigned", "signed", "int", "bool", "char", "double", "float", "long", "short", "void",
    "thread_local", "alignas", "explicit", "virtual", "co_return", "co_await", "co_yield",
}
# Statements whose loss no test can or should see: memory set aside ahead, own bugs, annotations,
# lines of the log.
LEFT_ALONE = re.compile(
    r"\breserve\(|\bshrink_to_fit\(|FORESHOCK_D?CHECK|static_assert|\bABSL_|__builtin_expect|"
    r"\bFORESHOCK_INLINE\b|\bLog(Debug|Info|Warning|Error|Every)\(")


@dataclasses.dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int
    spaced: bool = False  # white space on both sides


@dataclasses.dataclass
class Mutant:
    file: str
    line: int
    code: str          # the line, stripped
    change: str        # "< → <="
    edits: list        # [(start, end, text)] of the change by itself
    switch: tuple      # how to write it behind the switch: (kind, start, end, *more)
    number: int = 0    # behind the switch; 0: not there

    def __str__(self):
        return f"{self.file}:{self.line}: {self.change}    {self.code}"

    def apply(self, text):
        for start, end, new in sorted(self.edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text


def tokens_of(text):
    tokens = []
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        kind = found.lastgroup if found.lastgroup != "delimiter" else "raw"
        if kind not in ("space", "comment"):
            tokens.append(Token(kind, found.group(), found.start(), found.end(),
                                text[at - 1:at].isspace() and text[found.end():][:1].isspace()))
        at = found.end()
    return tokens


class Finder:
    def __init__(self, file, text):
        self.file, self.text = file, text
        self.lines = text.split("\n")
        self.line_starts = [0]
        for line in self.lines:
            self.line_starts.append(self.line_starts[-1] + len(line) + 1)
        self.tokens = tokens_of(text)
        self.partner = self._partners()
        self.code = self._code_braces()
        self.found = []

    # --- structure

    def _partners(self):
        """Index of the bracket that belongs to each."""
        partner, stack = {}, []
        for i, token in enumerate(self.tokens):
            if token.text in OPENING:
                stack.append(i)
            elif token.text in CLOSING and stack:
                partner[i] = stack.pop()
                partner[partner[i]] = i
        return partner

    def _code_braces(self):
        """Indices of the braces that hold statements."""
        code = set()
        for i, token in enumerate(self.tokens):
            if token.text != "{" or i == 0:
                continue
            before = self.tokens[i - 1].text
            if before in (")", "]", "else", "do", "try", "const", "noexcept", "override", "mutable",
                          ";", "}", ":"):
                code.add(i)
            elif before == "{":
                if i - 1 in code:
                    code.add(i)
            elif self._returns_type(i):
                code.add(i)
        return code

    def _returns_type(self, i):
        """Whether the brace opens a lambda with `-> T`."""
        for j in range(i - 1, max(i - 24, 0), -1):
            token = self.tokens[j]
            if token.text == "->":
                return self.tokens[j - 1].text == ")"
            if token.kind != "word" and token.text not in ("::", "<", ">", "*", "&", ",", ">>"):
                return False
        return False

    def _line(self, start):
        low, high = 0, len(self.line_starts) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.line_starts[middle] <= start else (low, middle)
        return low + 1

    def _add(self, start, change, edits, switch):
        line = self._line(start)
        code = self.lines[line - 1].strip()
        self.found.append(Mutant(self.file, line, code, change, edits, switch))

    def _short(self, start, end):
        text = " ".join(self.text[start:end].split())
        return text if len(text) <= 60 else text[:57] + "..."

    # --- ranges of tokens

    def _forward(self, i, stops):
        """The last token of the operand that begins at `i`."""
        while i < len(self.tokens):
            text = self.tokens[i].text
            if text in CLOSING or text in stops:
                return i - 1
            i = self.partner.get(i, i) + 1 if text in OPENING else i + 1
        return len(self.tokens) - 1

    def _backward(self, i, stops):
        """The first token of the operand that ends at `i`."""
        while i >= 0:
            text = self.tokens[i].text
            if text in OPENING or text in stops or text in ("return", "else", "case"):
                return i + 1
            if text == "}" and self.partner.get(i) in self.code:  # the end of a block
                return i + 1
            i = self.partner.get(i, i) - 1 if text in CLOSING else i - 1
        return 0

    def _text(self, first, last):
        return self.tokens[first].start, self.tokens[last].end

    # --- what may change

    def find(self):
        for i, token in enumerate(self.tokens):
            if token.kind == "op":
                self._operator(i, token)
            elif token.kind == "number":
                self._number(token)
            elif token.kind == "word":
                self._word(i, token)
        self._statements()
        left = [m for m in self.found if not LEFT_ALONE.search(m.code)]
        return sorted(left, key=lambda mutant: (mutant.line, mutant.edits[0][0], mutant.change))

    def _operator(self, i, token):
        text = token.text
        if text in OPERATORS and token.spaced and self.tokens[i - 1].text != "operator":
            name, others = OPERATORS[text]
            for which, other in enumerate(others):
                self._add(token.start, f"{text} → {other}", [(token.start, token.end, other)],
                          ("operator", token.start, token.end, text, name, which))
        elif text in ("&&", "||") and token.spaced:
            self._logical(i, text)
        elif text == "!" and not token.spaced:
            self._add(token.start, "! removed", [(token.start, token.end, "")],
                      ("flip", token.start, token.end))
        elif text == "?" and token.spaced:
            first = self._backward(i - 1, {",", ";", "?", ":"} | ASSIGNMENTS)
            self._condition(first, i - 1, both=True)
        elif text in ("+=", "-="):
            last = self._forward(i + 1, {";", ","})
            start, end = self._text(i + 1, last)
            other = "-=" if text == "+=" else "+="
            self._add(token.start, f"{text} → {other}", [(token.start, token.end, other)],
                      ("negated", start, end))

    def _logical(self, i, text):
        stops = {"&&", "||", ",", ";", "?", ":"}
        neutral = "true" if text == "&&" else "false"
        sides = [(i + 1, self._forward(i + 1, stops))]
        first = self._backward(i - 1, stops | ASSIGNMENTS)
        if self.tokens[first - 1].text != text:  # else the operator before this one has it
            sides.append((first, i - 1))
        for first, last in sides:
            if last < first:
                continue
            start, end = self._text(first, last)
            which = "always" if neutral == "true" else "never"
            self._add(start, f"{self._short(start, end)} → {neutral}", [(start, end, neutral)],
                      ("condition", start, end, which))

    def _condition(self, first, last, both):
        if last < first:
            return
        start, end = self._text(first, last)
        for value, which in (("true", "always"), ("false", "never")):
            if both or value == "false":
                self._add(start, f"{self._short(start, end)} → {value}", [(start, end, value)],
                          ("condition", start, end, which))

    def _number(self, token):
        digits = re.fullmatch(r"(0[xX][0-9a-fA-F']+|[0-9']+)([uUlLzZ]*)", token.text)
        if digits:
            value = int(digits.group(1).replace("'", ""), 0 if digits.group(1)[:2].lower() == "0x"
                        else 10)
            other = f"{0 if value == 1 else value + 1}{digits.group(2)}"
        else:
            found = re.fullmatch(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([fF]?)", token.text)
            value = float(found.group(1)) if found else None
            if value is None:  # a hexadecimal float
                other = f"(1 + {token.text})"
            else:
                other = f"{value + 1!r}{found.group(2)}"
        self._add(token.start, f"{token.text} → {other}", [(token.start, token.end, other)],
                  ("constant", token.start, token.end, token.text, other))

    def _word(self, i, token):
        text = token.text
        after = self.tokens[i + 1].text if i + 1 < len(self.tokens) else ""
        if text in ("true", "false"):
            other = "false" if text == "true" else "true"
            self._add(token.start, f"{text} → {other}", [(token.start, token.end, other)],
                      ("constant", token.start, token.end, text, other))
        elif text in ("max", "min") and after in ("(", "<") and self.tokens[i - 1].text == "::" and \
                self.tokens[i - 2].text == "std":
            other = "min" if text == "max" else "max"
            self._add(token.start, f"{text} → {other}", [(token.start, token.end, other)],
                      ("extreme", self.tokens[i - 2].start, token.end, text))
        elif text in ("if", "while") and after == "(":
            last = self.partner[i + 1] - 1
            first = i + 2
            for j in range(i + 2, last):
                if self.tokens[j].text == ";" and self._depth_one(j, i + 1):
                    first = j + 1
            declares = any(self.tokens[j].text == "=" and self._depth_one(j, i + 1)
                           for j in range(first, last))
            if not declares:
                self._condition(first, last, both=text == "if")
        elif text == "for" and after == "(":
            parts = [j for j in range(i + 2, self.partner[i + 1])
                     if self.tokens[j].text == ";" and self._depth_one(j, i + 1)]
            if len(parts) == 2:
                self._condition(parts[0] + 1, parts[1] - 1, both=False)

    def _depth_one(self, j, opening):
        """Whether token `j` stands in the brackets of `opening` and in none inside of them."""
        k = opening + 1
        while k < j:
            k = self.partner.get(k, k) + 1 if self.tokens[k].text in OPENING else k + 1
        return k == j

    def _statements(self):
        for brace in sorted(self.code):
            end = self.partner.get(brace)
            if end is None:
                continue
            i = brace + 1
            while i < end:
                i = self._statement(i, end)

    def _statement(self, i, end):
        """Takes the statement that begins at `i`; returns where the next one begins."""
        text = self.tokens[i].text
        if text == "{":
            return self.partner[i] + 1  # a block of its own
        if text in ("if", "for", "while", "switch", "catch") or text == "constexpr":
            j = i + 1
            while j < end and self.tokens[j].text != "(":
                j += 1
            return self.partner.get(j, end) + 1
        if text in ("else", "do", "try"):
            return i + 1
        if text in ("case", "default"):
            while i < end and self.tokens[i].text != ":":
                i += 1
            return i + 1
        last = i
        while last < end and self.tokens[last].text != ";":
            last = self.partner.get(last, last) + 1 if self.tokens[last].text in OPENING else last + 1
        if last >= end:
            return end
        start, stop = self.tokens[i].start, self.tokens[last].start
        if text in ("continue", "break") or (text == "return" and self._guarded(i)):
            self._add(start, f"{self._short(start, stop)}; removed", [(start, stop, "")],
                      ("jump", start, stop + 1))
        elif self._is_expression(i, last):
            self._add(start, f"{self._short(start, stop)}; removed", [(start, stop, "")],
                      ("statement", start, stop))
        return last + 1

    def _guarded(self, i):
        """Whether a statement is all that an `if` guards."""
        before = self.tokens[i - 1].text
        if before != ")":
            return False
        opening = self.partner.get(i - 1)
        return opening is not None and self.tokens[opening - 1].text == "if"

    def _is_expression(self, first, last):
        """Whether the tokens are an expression that is worth something without its value."""
        tokens = self.tokens[first:last]
        if not tokens or tokens[0].text in NOT_EXPRESSIONS or tokens[0].kind in ("directive",):
            return False
        if re.fullmatch(r"[A-Z][A-Z0-9_]+", tokens[0].text):
            return tokens[0].text.endswith("RETURN_IF_ERROR")
        if tokens[0].text in ("++", "--", "*", "("):
            return True
        does = False
        i = first
        while i < last:
            text = self.tokens[i].text
            here, after = self.tokens[i], self.tokens[i + 1]
            if text in ASSIGNMENTS or text in ("++", "--"):
                return True
            if here.kind == "word" and after.kind == "word":
                return False  # Type name
            if text in ("*", "&", "&&", ">") and after.kind == "word" and not here.spaced and \
                    self.text[here.end:here.end + 1].isspace():
                return False  # Type* name
            if text == "(":
                does = True
            i = self.partner.get(i, i) + 1 if text in OPENING else i + 1
        return does


def find(file, text):
    """The mutants of a source, in its order."""
    return Finder(file, text).find()


def instrument(text, mutants):
    """The source with those mutants that have a number behind the switch. Lines stay where they are;
    it is compiled with `-include tests/mutation/mutant.h`."""
    prefix = "foreshock::mutation::"
    replaced = {}   # (start, end) of a token -> text
    around = {}     # (start, end) -> [(before, after)], the innermost first
    shared = {}     # (kind, start, end) -> numbers by which
    for mutant in mutants:
        if mutant.number == 0:
            continue
        kind, start, end, *more = mutant.switch
        number = mutant.number
        if kind == "operator":
            shared.setdefault((kind, start, end, more[0], more[1]), {})[more[2]] = number
        elif kind == "condition":
            shared.setdefault((kind, start, end), {}).setdefault(more[0], number)
            if shared[(kind, start, end)][more[0]] != number:  # found twice: both are the same
                mutant.number = shared[(kind, start, end)][more[0]]
        elif kind == "flip":
            replaced[(start, end)] = f"{prefix}Flip{{{number}}}->*!"
        elif kind == "constant":
            replaced[(start, end)] = f"{prefix}Constant({number}, {more[0]}, {more[1]})"
        elif kind == "extreme":
            which = "true" if more[0] == "max" else "false"
            replaced[(start, end)] = f"{prefix}Extreme<{number}, {which}>::Of"
        elif kind == "negated":
            around.setdefault((start, end), []).append((f"{prefix}Negated({number}, ", ")"))
        elif kind == "statement":
            around.setdefault((start, end), []).append(
                (f"{prefix}IsOn({number}) ? void() : void(", ")"))
        elif kind == "jump":
            around.setdefault((start, end), []).append((f"{{ if (!{prefix}IsOn({number})) ", " }"))
    for key, numbers in shared.items():
        if key[0] == "operator":
            _, start, end, op, name = key
            a, b = numbers.get(0, 0), numbers.get(1, 0)
            replaced[(start, end)] = f"{op} {prefix}{name}{{{a}, {b}}} {op}"
        else:
            _, start, end = key
            a, b = numbers.get("always", 0), numbers.get("never", 0)
            around.setdefault((start, end), []).append(
                (f"{prefix}Condition({a}, {b}, static_cast<bool>(", "))"))
    inserts = []  # (position, order, text): closings before openings, inner closings first
    for (start, end), wraps in around.items():
        for depth, (before, after) in enumerate(wraps):
            inserts.append((start, (1, -end, -depth), before, start))
            inserts.append((end, (0, -start, depth), after, end))
    for (start, end), new in replaced.items():
        inserts.append((start, (2, 0, 0), new, end))
    out, at = [], 0
    for start, _, new, end in sorted(inserts, key=lambda insert: insert[:2]):
        out.append(text[at:start])
        out.append(new)
        at = max(at, end)
    out.append(text[at:])
    return "".join(out)
