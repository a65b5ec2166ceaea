r"""The regular expressions of a configuration: RE2 syntax as Go's `regexp` takes it, on Python's `re`.

The two dialects look alike and differ quietly: `$`, `\s`, `\w`, `{,5}` and flags in the middle mean different
things, lookaround and `a++` exist in one of them only. So an expression is read here, symbol by symbol, as RE2
reads it, and written again as the Python expression of the same meaning. What RE2 does not have is refused, even
where Python has it: a configuration that works here also works with the reference.

**Limit.** RE2 matches in linear time, `re` backtracks: an expression such as `(a+)+$` can take exponential time on a
text made for it. That cannot be excluded here. `find` therefore looks only at the first `SEARCHED_LENGTH`
characters, which holds whatever is polynomial to well under a second; nested unbounded repetitions of the same
symbols remain the author's business.
"""

import functools
import re
import unicodedata
from typing import NoReturn

SEARCHED_LENGTH = 4096
"""How much of a text is searched. A kubelet keeps no more than 4096 bytes of a container's termination message."""

MAX_DEPTH = 100
"""How deep groups may be nested. Go allows 1000; Python's compiler would run out of stack before."""

MAX_REPEAT = 1000
"""The largest count in `{n,m}`, as in RE2."""


MAX_CODEPOINT = 0x10FFFF


class ExpressionError(ValueError):
    """The text is not an expression that can be taken. Says what is wrong, where, and what to write instead."""

    def __init__(self, expression: str, position: int, problem: str, advice: str) -> None:
        super().__init__(f"{problem} (character {position + 1} of `{expression}`): {advice}")
        self.expression = expression
        self.position = position


def compile_expression(text: str) -> re.Pattern[str]:
    """The Python pattern that means what `text` means in RE2, for an unanchored search."""
    return _Translation(text).compile()


def find(expression: re.Pattern[str], text: str) -> str | None:
    """The first match in the first `SEARCHED_LENGTH` characters; the text counts as ending there."""
    found = expression.search(text, 0, SEARCHED_LENGTH)
    return None if found is None else found[0]


_SPACE, _DIGIT, _WORD = r"\t\n\f\r ", "0-9", "0-9A-Za-z_"
_PERL_CLASSES = {"d": _DIGIT, "s": _SPACE, "w": _WORD}  # ASCII only, and \s without \v
_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": _DIGIT,
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t-\r ",
    "upper": "A-Z",
    "word": _WORD,
    "xdigit": "0-9A-Fa-f",
}
_CONTROL_ESCAPES = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

_POSIX_CLASS = re.compile(r"\[:(\^?)(\w+):\]")
_UNICODE_CLASS = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|([A-Z]))")
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAMED_GROUP = re.compile(r"\(\?P?<(\w*)>", re.ASCII)
_REPEAT_COUNT = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}")
_HEXADECIMAL = re.compile(r"\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]+)\})")
_OCTAL = re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})")

_NOT_RE2_GROUPS = {
    "(?=": ("lookahead", "RE2 has none; match the neighbouring text as part of the expression"),
    "(?!": ("negative lookahead", "RE2 has none; use a further pattern or another order of the classes"),
    "(?<=": ("lookbehind", "RE2 has none; match the neighbouring text as part of the expression"),
    "(?<!": ("negative lookbehind", "RE2 has none; use a further pattern or another order of the classes"),
    "(?>": ("atomic group", "RE2 has none, and needs none: write `(?:…)`"),
    "(?P=": ("backreference", "RE2 has none; write the text out"),
    "(?(": ("conditional group", "RE2 has none; write the alternatives as `a|b`"),
    "(?#": ("comment", "RE2 has none; leave it out"),
}


class _Translation:
    """One reading of one expression, from left to right, and the Python expression written so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.written: list[str] = []
        self.flags: frozenset[str] = frozenset()
        self.open_groups: list[tuple[int, frozenset[str]]] = []
        """Where each open group began, and the flags that hold again once it is closed."""
        self.names: set[str] = set()
        self.is_repeatable = False
        """There is something on the left that a `*` can refer to."""
        self.is_repeated = False
        """… and it has its `*` already."""
        leading = _FLAGS.match(text)
        self.ignores_case_throughout = leading is not None and leading[3] == ")" and "i" in leading[1]

    def compile(self) -> re.Pattern[str]:
        while self.at < len(self.text):
            self._read_symbol()
        if self.open_groups:
            self._refuse(
                "`(` without `)`",
                r"close the group, or write `\(` for the character",
                self.open_groups[-1][0],
            )
        # Without re.ASCII: folding of case goes beyond ASCII in RE2 too. What is ASCII only is written out as such.
        return re.compile("".join(self.written), re.IGNORECASE if self.ignores_case_throughout else 0)

    def _read_symbol(self) -> None:
        match self.text[self.at]:
            case "\\":
                self._read_escape()
            case "[":
                self._read_class()
            case "(":
                self._read_group()
            case ")":
                self._close_group()
            case "*" | "+" | "?":
                self._write_repeat(self.text[self.at], 1)
            case "{" if counts := _REPEAT_COUNT.match(self.text, self.at):
                self._read_counts(counts)
            case "|":
                self._write("|", 1, is_repeatable=False)
            case ".":
                self._write("(?s:.)" if "s" in self.flags else ".", 1)
            case "^":
                self._write("(?m:^)" if "m" in self.flags else r"(?:\A)", 1)
            case "$":
                # Python's own `$` also matches before a newline at the very end; RE2's does not.
                self._write("(?m:$)" if "m" in self.flags else r"(?:\Z)", 1)
            case literal:
                self._write_cased(re.escape(literal), 1)

    def _write(self, python: str, length: int, *, is_repeatable: bool = True) -> None:
        self.written.append(python)
        self.at += length
        self.is_repeatable, self.is_repeated = is_repeatable, False

    def _write_cased(self, python: str, length: int) -> None:
        """Write what depends on the flag `i`, which may change in the middle: in Python only for a group."""
        ignores_case = "i" in self.flags
        if ignores_case != self.ignores_case_throughout:
            python = f"(?{'' if ignores_case else '-'}i:{python})"
        self._write(python, length)

    def _refuse(self, problem: str, advice: str, position: int | None = None) -> NoReturn:
        raise ExpressionError(self.text, self.at if position is None else position, problem, advice)

    # Groups and flags

    def _read_group(self) -> None:
        if len(self.open_groups) == MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} nested groups", "write it flatter")
        if not self.text.startswith("(?", self.at):
            self._open_group("(", 1, self.flags)
            return
        for opening, (what, advice) in _NOT_RE2_GROUPS.items():
            if self.text.startswith(opening, self.at):
                self._refuse(f"{what} `{opening}`", advice)
        if named := _NAMED_GROUP.match(self.text, self.at):
            self._open_named_group(named)
        elif flags := _FLAGS.match(self.text, self.at):
            self._read_flags(flags)
        else:
            found = self.text[self.at : self.at + 4]
            self._refuse(
                f"unknown group `{found}`", "RE2 knows `(?:…)`, `(?P<name>…)` and the flags i, m, s, U"
            )

    def _open_group(self, python: str, length: int, flags: frozenset[str]) -> None:
        self.open_groups.append((self.at, self.flags))
        self.flags = flags
        self._write(python, length, is_repeatable=False)

    def _open_named_group(self, named: re.Match[str]) -> None:
        name = named[1]
        if not name.isidentifier():
            self._refuse(f"group name `{name}`", "begin it with a letter, then letters, digits and `_`")
        if name in self.names:
            self._refuse(f"second group of the name `{name}`", "give each group a name of its own")
        self.names.add(name)
        self._open_group(f"(?P<{name}>", len(named[0]), self.flags)

    def _read_flags(self, found: re.Match[str]) -> None:
        flags = self.flags.union(found[1]).difference(found[2] or "")
        if found[3] == ":":
            self._open_group("(?:", len(found[0]), flags)
            return
        self.flags = flags
        self.at += len(found[0])

    def _close_group(self) -> None:
        if not self.open_groups:
            self._refuse("`)` without `(`", r"open the group, or write `\)` for the character")
        _, self.flags = self.open_groups.pop()
        self._write(")", 1)

    # Repetition

    def _read_counts(self, counts: re.Match[str]) -> None:
        least, most = int(counts[1]), int(counts[3] or counts[1])
        if max(least, most) > MAX_REPEAT:
            self._refuse(f"repeat count `{counts[0]}`", f"RE2 counts to {MAX_REPEAT}")
        if least > most:
            self._refuse(f"repeat count `{counts[0]}`", "the smaller number comes first")
        self._write_repeat(counts[0], len(counts[0]))

    def _write_repeat(self, repeat: str, length: int) -> None:
        if self.is_repeated:
            advice = (
                "RE2 has no possessive or stacked repetition; write `(?:…)` around what is repeated twice"
            )
            self._refuse(f"`{repeat}` after a repetition", advice)
        if not self.is_repeatable:
            self._refuse(f"nothing to repeat before `{repeat}`", rf"write `\{repeat[0]}` for the character")
        is_marked = self.text.startswith("?", self.at + length)
        is_lazy = is_marked != ("U" in self.flags)
        self._write(repeat + ("?" if is_lazy else ""), length + is_marked)
        self.is_repeated = True

    # Escapes

    def _read_escape(self) -> None:
        letter = self.text[self.at + 1 : self.at + 2]
        match letter:
            case "A":
                self._write(r"(?:\A)", 2)
            case "z":
                self._write(r"(?:\Z)", 2)
            case "b" | "B":
                self._write(rf"(?a:\{letter})", 2)
            case "Q":
                self._read_quoted()
            case "Z":
                self._refuse(r"`\Z`", r"RE2 has none; write `\z` for the end of the text")
            case _ if ranges := self._class_escape():
                is_negated, members, length = ranges
                self._write_cased(f"[{'^' if is_negated else ''}{members}]", length)
            case _:
                character, length = self._character_escape()
                self._write_cased(re.escape(character), length)

    def _read_quoted(self) -> None:
        quoted, end, _ = self.text[self.at + 2 :].partition(r"\E")
        self.at += 2
        for character in quoted:
            self._write_cased(re.escape(character), 1)
        self.at += len(end)

    def _class_escape(self) -> tuple[bool, str, int] | None:
        r"""Of `\d`, `\W`, `\pL`, `\P{Lu}` and the like: whether it is negated, its members, its length."""
        letter = self.text[self.at + 1 : self.at + 2]
        if members := _PERL_CLASSES.get(letter.lower()):
            return letter.isupper(), members, 2
        if letter not in ("p", "P"):
            return None
        found = _UNICODE_CLASS.match(self.text, self.at)
        members = _members_of_category(found[3] or found[4]) if found else ""
        if found is None or not members:
            what = found[0] if found else "\\" + letter
            advice = (
                r"only general categories such as `\pL` or `\p{Lu}` can be had; list the characters in `[…]`"
            )
            self._refuse(f"Unicode class `{what}`", advice)
        return (found[1] == "P") != bool(found[2]), members, len(found[0])

    def _character_escape(self) -> tuple[str, int]:
        """The one character that the escape here stands for, and the length of the escape."""
        letter = self.text[self.at + 1 : self.at + 2]
        if not letter:
            self._refuse(r"`\` at the end", r"write `\\` for the character")
        if control := _CONTROL_ESCAPES.get(letter):
            return control, 2
        if found := _HEXADECIMAL.match(self.text, self.at):
            return self._character(int(found[1] or found[2], 16), found[0])
        if found := _OCTAL.match(self.text, self.at):
            return self._character(int(found[1], 8), found[0])
        if letter.isdigit():
            self._refuse(rf"backreference `\{letter}`", "RE2 has none; write the text out")
        if letter.isalnum() or not letter.isascii():
            self._refuse(
                rf"unknown escape `\{letter}`", f"write `{letter}` without the backslash for the character"
            )
        return letter, 2

    def _character(self, codepoint: int, escape: str) -> tuple[str, int]:
        if codepoint > MAX_CODEPOINT:
            self._refuse(f"no character `{escape}`", r"the last one is `\x{10FFFF}`")
        return chr(codepoint), len(escape)

    # Classes

    def _read_class(self) -> None:
        start = self.at
        is_negated = self.text.startswith("^", self.at + 1)
        self.at += 1 + is_negated
        members: list[str] = []
        complements: list[str] = []
        is_first = True
        while is_first or not self.text.startswith("]", self.at):
            if self.at >= len(self.text):
                self._refuse("`[` without `]`", r"close the class, or write `\[` for the character", start)
            self._read_member(members, complements)
            is_first = False
        self._write_cased(_class_of(is_negated, "".join(members), complements), 1)

    def _read_member(self, members: list[str], complements: list[str]) -> None:
        """Read one part of a class. A negated part, as in `[a\\W]`, has to be kept apart for Python's sake."""
        is_negated, ranges, length = self._named_class() or (False, "", 0)
        if not length:
            ranges = self._read_range()
        self.at += length
        (complements if is_negated else members).append(ranges)

    def _named_class(self) -> tuple[bool, str, int] | None:
        if self.text.startswith("\\", self.at):
            return self._class_escape()
        found = _POSIX_CLASS.match(self.text, self.at)
        if found is None:
            return None
        members = _POSIX_CLASSES.get(found[2])
        if members is None:
            self._refuse(f"unknown class `{found[0]}`", f"one of {', '.join(_POSIX_CLASSES)} is expected")
        return bool(found[1]), members, len(found[0])

    def _read_range(self) -> str:
        start = self.at
        first = last = self._read_class_character()
        has_end = self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at)
        if has_end and self.at + 1 < len(self.text):
            self.at += 1
            last = self._read_class_character()
        if first > last:
            found = self.text[start : self.at]
            self._refuse(
                f"empty range `{found}`", r"the smaller character comes first; `\-` is the character", start
            )
        return re.escape(first) if first == last else f"{re.escape(first)}-{re.escape(last)}"

    def _read_class_character(self) -> str:
        character, length = self.text[self.at], 1
        if character == "\\":
            character, length = self._character_escape()
        self.at += length
        return character


def _class_of(is_negated: bool, members: str, complements: list[str]) -> str:
    """A class of Python's; `complements` are the members of classes of which all *other* characters belong to it.

    Writing out those other characters would go wrong with the flag `i`, which folds first and complements then.
    """
    if not complements:
        return f"[{'^' if is_negated else ''}{members}]"
    parts = [f"[{members}]"] if members else []
    parts += [f"[^{complement}]" for complement in complements]
    union = "|".join(parts)
    return f"(?:(?!{union})(?s:.))" if is_negated else f"(?:{union})"


@functools.cache
def _members_of_category(name: str) -> str:
    """The characters of a general category such as `L` or `Lu`, as ranges; empty for a name that is none."""
    if not name or len(name) > 2:
        return ""
    ranges: list[list[int]] = []
    for codepoint in range(MAX_CODEPOINT + 1):
        category = unicodedata.category(chr(codepoint))
        if not category.startswith(name) or category == "Cn":
            continue
        if ranges and ranges[-1][1] == codepoint - 1:
            ranges[-1][1] = codepoint
        else:
            ranges.append([codepoint, codepoint])
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)
