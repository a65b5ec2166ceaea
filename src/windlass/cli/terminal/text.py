"""Display untrusted text on a terminal: remove control sequences, measure and truncate."""

import re
import unicodedata
from functools import lru_cache

from windlass.model.untrusted_text import HIDDEN, SEQUENCE, SEQUENCES, last_overwrite

# The group matches colours of a usual length, which `only_colours` keeps.
_UNSAFE = re.compile(rf"(\x1b\[[0-9;:]{{0,60}}m)|{SEQUENCE}|[\x00-\x08\x0b-\x1f\x7f-\x9f{HIDDEN}]")
_RESET = "\x1b[0m"
_SAFE_BYTES = bytes((0x09, 0x0A, *range(0x20, 0x7F)))
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories of characters that are removed, since they have no well-defined width."""
_MARKS = ("Mn", "Me")
"""Unicode categories of combining characters."""
_MAX_MARKS = 2
"""Maximum number of combining characters and joiners after a character. More could cover other lines."""
ELLIPSIS = "…"


def printable(line: str) -> str:
    """Return the visible text without colours. After carriage returns, only the last part is visible."""
    if line.isascii() and line.isprintable():
        return line
    return _limit_marks("".join(map(_visible, last_overwrite(SEQUENCES.sub("", line)))))


def only_colours(text: str) -> str:
    """Remove everything that could control a terminal, except colours, which are reset at the end. Keep tabs and line
    breaks."""
    if text.isascii() and text.isprintable():
        return text
    safe = _limit_marks(_UNSAFE.sub(r"\1", text))
    return safe + _RESET if "\x1b" in safe else safe


def safe_log_lines(data: bytes) -> bytes:
    """Remove everything that could control a terminal, except colours, which are reset at the end of each line. Keep
    only the last part of a line with carriage returns, e.g. a progress bar."""
    if not data.translate(None, _SAFE_BYTES):
        return data
    lines = data.decode("utf-8", "replace").split("\n")
    return "\n".join(only_colours(last_overwrite(line)) for line in lines).encode()


def _limit_marks(text: str) -> str:
    if text.isascii():
        return text
    kept, marks = [], 0
    for character in text:
        marks = marks + 1 if _is_mark(character) else 0
        if marks <= _MAX_MARKS:
            kept.append(character)
    return "".join(kept)


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
def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in (*_MARKS, "Cf")


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
