"""Regular expressions as Go reads them (RE2), for Python's `re`.

The two have most of their syntax in common. What Go lacks is refused in Go's words; what Python writes otherwise is
rewritten; the little that Python cannot have (Unicode classes such as `\\p{Greek}`, the ungreedy flag) is refused too.
One difference remains: Go's matching takes linear time and Python's may not, so a pattern is as safe as its author.
"""

import functools
import re
from collections.abc import Callable

_QUANTIFIER = re.compile(r"(?:[*+?]|\{([0-9]+)(?:,([0-9]*))?\})\??")
_GROUP = re.compile(r"\(\?(?:(?P<flags>[imsU]*(?:-[imsU]+)?)(?P<end>[:)])|P?<(?P<name>[A-Za-z0-9_]+)>)")
_POSIX_CLASS = re.compile(r"\[:(\^?)([a-z]+):\]")
_CODE = re.compile(r"\\x\{([0-9a-fA-F]{1,6})\}|\\x([0-9a-fA-F]{2})|\\(0[0-7]{0,2}|[1-7][0-7]{1,2})")
_MOST_REPEATS = 1000
_SPACE = r"\t\n\f\r "
_SAME_ESCAPES = frozenset("afnrtvdDwW")
_ASSERTIONS = {"A": r"\A", "z": r"\Z", "b": r"\b", "B": r"\B"}
# These would begin something else in a set of Python's, now or in a later release.
_SPECIAL_IN_A_CLASS = frozenset("[&|~")
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}


class PatternError(ValueError):
    """What is wrong with a pattern, in Go's words."""

    def __init__(self, problem: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{part}`")


@functools.lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern to search with; PatternError when Go would not have it or Python cannot."""
    translated = _Translation(pattern).run()
    try:
        # Go's \d, \w and \b know ASCII alone.
        return re.compile(translated, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(str(error), pattern) from None


class _Translation:
    """One pass over a pattern, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []
        # For each open group, the flags that were set inside of it: Go's `(?i)` holds to the end of the group and
        # across its alternatives; Python has `(?i:…)`, which has to be closed and opened again around each `|`.
        self._flags: list[list[str]] = [[]]
        self._steps: dict[str, Callable[[], None]] = {
            "\\": self._escape,
            "[": self._class,
            "(": self._open,
            ")": self._close,
            "|": self._alternative,
            "$": self._end_of_text,
            **dict.fromkeys("*+?{", self._repeat),
        }

    def run(self) -> str:
        while self._at < len(self._pattern):
            step = self._steps.get(self._pattern[self._at])
            if step is None:
                self._take(self._pattern[self._at], 1)
            else:
                step()
        if len(self._flags) > 1:
            raise PatternError("missing closing )", self._pattern)
        self._out.append(")" * len(self._flags[0]))
        return "".join(self._out)

    def _take(self, translated: str, length: int) -> None:
        self._out.append(translated)
        self._at += length

    def _escape(self) -> None:
        character = self._pattern[self._at + 1 : self._at + 2]
        if character == "Q":
            quoted, _, _ = self._pattern[self._at + 2 :].partition("\\E")
            self._take(re.escape(quoted), len(quoted) + 4)
        elif character in _ASSERTIONS:
            self._take(_ASSERTIONS[character], 2)
        elif character and character in "sS":
            self._take(f"[{'^' * (character == 'S')}{_SPACE}]", 2)
        else:
            self._character_escape()

    def _character_escape(self) -> None:
        """An escape that means the same in a class and outside of it."""
        code = _CODE.match(self._pattern, self._at)
        character = self._pattern[self._at + 1 : self._at + 2]
        if code is not None:
            number = int(code[3], 8) if code[3] else int(code[1] or code[2], 16)
            self._take(f"\\U{number:08x}", len(code[0]))
        elif not character:
            raise PatternError("trailing backslash at end of expression", "")
        elif character in _SAME_ESCAPES or not (character.isalnum() or ord(character) > 127):
            self._take("\\" + character, 2)
        else:
            raise PatternError("invalid escape sequence", "\\" + character)

    def _class(self) -> None:
        start = self._at
        self._take("[", 1)
        if self._pattern.startswith("^", self._at):
            self._take("^", 1)
        is_first = True
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            if character == "]" and not is_first:
                self._take("]", 1)
                return
            is_first = False
            self._class_member(character)
        raise PatternError("missing closing ]", self._pattern[start:])

    def _class_member(self, character: str) -> None:
        posix = _POSIX_CLASS.match(self._pattern, self._at)
        if posix is not None:
            if posix[1] or posix[2] not in _POSIX:
                raise PatternError("invalid character class range", posix[0])
            self._take(_POSIX[posix[2]], len(posix[0]))
        elif self._pattern.startswith("\\s", self._at):
            self._take(_SPACE, 2)
        elif self._pattern.startswith("\\S", self._at):
            self._take("\\S", 2)
        elif character == "\\":
            self._character_escape()
        else:
            self._take("\\" * (character in _SPECIAL_IN_A_CLASS) + character, 1)

    def _open(self) -> None:
        group = _GROUP.match(self._pattern, self._at)
        if group is None:
            if self._pattern.startswith("(?", self._at):
                raise PatternError(
                    "invalid or unsupported Perl syntax", self._pattern[self._at : self._at + 3]
                )
            self._flags.append([])
            self._take("(", 1)
        elif group["name"]:
            self._flags.append([])
            self._take(f"(?P<{group['name']}>", len(group[0]))
        else:
            self._open_with_flags(group)

    def _open_with_flags(self, group: re.Match[str]) -> None:
        flags = group["flags"]
        if "U" in flags:
            raise PatternError("the ungreedy flag is not supported", group[0])
        opening = f"(?{flags}:"
        if group["end"] == ")":
            self._flags[-1].append(opening)
            self._take(opening, len(group[0]))
        else:
            self._flags.append([opening])
            self._take("(?:" + opening, len(group[0]))

    def _close(self) -> None:
        if len(self._flags) == 1:
            raise PatternError("unexpected )", self._pattern)
        self._take(")" * (len(self._flags.pop()) + 1), 1)

    def _alternative(self) -> None:
        opened = self._flags[-1]
        self._take(")" * len(opened) + "|" + "".join(opened), 1)

    def _end_of_text(self) -> None:
        # Python's `$` would also match before a newline at the very end.
        is_multiline = any("m" in opening.partition("-")[0] for group in self._flags for opening in group)
        self._take("$" if is_multiline else r"\Z", 1)

    def _repeat(self) -> None:
        first = _QUANTIFIER.match(self._pattern, self._at)
        if first is None:
            self._take("\\{", 1)
            return
        if not self._out or self._out[-1] in ("(", "|") or self._out[-1].startswith("(?"):
            raise PatternError("missing argument to repetition operator", first[0])
        if any(int(bound) > _MOST_REPEATS for bound in first.groups() if bound):
            raise PatternError("invalid repeat count", first[0])
        second = _QUANTIFIER.match(self._pattern, first.end())
        if second is not None:
            raise PatternError("invalid nested repetition operator", first[0] + second[0])
        self._take(first[0], len(first[0]))
