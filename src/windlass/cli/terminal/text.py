"""Display untrusted text on a terminal: remove control sequences, measure and truncate."""

import re
import unicodedata
from functools import lru_cache

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories of characters that are removed, since they have no well-defined width."""
_MARKS = ("Mn", "Me")
"""Unicode categories of combining characters."""
ELLIPSIS = "…"


def printable(line: str) -> str:
    """Return the visible text without colours. After carriage returns, only the last part is visible."""
    if line.isascii() and line.isprintable():
        return line
    text = _SEQUENCE.sub("", line)
    if "\r" in text:
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    return "".join(map(_visible, text))


def display_width(text: str) -> int:
    """Return the number of columns of printable text."""
    return len(text) if text.isascii() else sum(map(_width, text))


def truncate(text: str, columns: int) -> str:
    """Truncate printable text to a number of columns."""
    if columns <= 0:
        return ""
    # No character takes more than two columns.
    if 2 * len(text) <= columns or display_width(text) <= columns:
        return text
    remaining = columns - 1
    for at, character in enumerate(text):
        remaining -= _width(character)
        if remaining < 0:
            return text[:at] + ELLIPSIS
    return text


def pad(text: str, columns: int, *, is_right_aligned: bool = False) -> str:
    """Truncate or pad printable text to exactly this number of columns."""
    text = truncate(text, columns)
    spaces = " " * (columns - display_width(text))
    return spaces + text if is_right_aligned else text + spaces


@lru_cache(maxsize=4096)
def _visible(character: str) -> str:
    if character == "\t":
        return "  "
    # On some terminals, a variation selector makes the previous character wide.
    is_selector = "\ufe00" <= character <= "\ufe0f"
    is_invisible = is_selector or unicodedata.category(character) in _INVISIBLE
    return "" if is_invisible else character


@lru_cache(maxsize=4096)
def _width(character: str) -> int:
    if unicodedata.category(character) in _MARKS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def format_duration(seconds: float) -> str:
    """Return minutes and seconds, with hours if there are any: 1:05, 2:00:00."""
    minutes, secs = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"
