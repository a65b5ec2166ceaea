"""Regular expressions written by users: in `podFailureSpec`, and as `pattern` in the schema of a custom resource.

FrameworkController and the Kubernetes API server compile them with Go's `regexp`. RE2 has the same syntax and
also matches in linear time, so no expression can block the process.
"""

from collections.abc import Callable
from typing import Any

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # RE2 would write to stderr


class PatternError(ValueError):
    """An expression that RE2 rejects. `reason` is the message of RE2, without the expression."""

    def __init__(self, expression: str, reason: str) -> None:
        super().__init__(f"invalid regular expression `{expression}`: {reason}")
        self.reason = reason


class LineTest:
    """Finds the lines that match an expression of RE2, regardless of case. Raises PatternError."""

    def __init__(self, expression: str, *, is_regex: bool = True) -> None:
        text = _encode(expression)
        text = text if is_regex else re2.escape(text)
        self._line = _compile(expression, b"(?i)" + text)
        # \A and \z are the ends of the text, and (?-m) lets ^ and $ be: with several lines, they mean something else.
        depends_on_lines = re2.search(rb"\\[Az]|\(\?[a-zA-Z]*-", text) is not None
        self._lines = None if depends_on_lines else _compile(expression, b"(?im)" + text)

    def may_match(self, lines: bytes) -> bool:
        """Return whether one of several lines may match. Testing them together is much faster."""
        return self._lines is None or self._lines.search(lines) is not None

    def matches(self, line: bytes) -> bool:
        return self._line.search(line) is not None


def compile_search(expression: str) -> Callable[[str], str | None]:
    """Return a function that returns the first match of `expression` anywhere in a text. Raise PatternError."""
    pattern = _compile(expression, _encode(expression))

    def search(text: str) -> str | None:
        match = pattern.search(_encode(text))
        return None if match is None else match[0].decode(errors="replace")

    return search


def _compile(expression: str, encoded: bytes) -> Any:
    try:
        return re2.compile(encoded, _OPTIONS)
    except re2.error as error:
        raise PatternError(expression, error.args[0].decode(errors="replace")) from error


def _encode(text: str) -> bytes:
    # JSON may contain half of a surrogate pair.
    return text.encode(errors="surrogatepass")
