"""Other people's text on a terminal: how wide it is, what of it fits, and nothing that drives the terminal. Pure."""

import re
import unicodedata
from functools import lru_cache

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Categories that take no place, or a place that terminals do not agree on."""
_MARKS = ("Mn", "Me")
"""Stand on the character before them."""
ELLIPSIS = "…"


def plain(line: str) -> str:
    """What one would see of the line, without colours: after a carriage return, what was written last."""
    if line.isascii() and line.isprintable():
        return line
    text = _SEQUENCE.sub("", line)
    if "\r" in text:
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    return "".join(map(_seen, text))


def cells(text: str) -> int:
    """How many columns it takes; of text that is plain."""
    return len(text) if text.isascii() else sum(map(_width, text))


def clipped(text: str, columns: int) -> str:
    """Plain text in no more than so many columns."""
    if columns <= 0:
        return ""
    # No character takes more than two columns.
    if 2 * len(text) <= columns or cells(text) <= columns:
        return text
    room = columns - 1
    kept = []
    for character in text:
        room -= _width(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + ELLIPSIS


def fitted(text: str, columns: int) -> str:
    """Plain text in exactly so many columns."""
    cut = clipped(text, columns)
    return cut + " " * (columns - cells(cut))


def right(text: str, columns: int) -> str:
    """The same, to the right."""
    cut = clipped(text, columns)
    return " " * (columns - cells(cut)) + cut


@lru_cache(maxsize=4096)
def _seen(character: str) -> str:
    if character == "\t":
        return "  "
    # A variation selector makes the character before it wide, on some terminals.
    is_selector = "\ufe00" <= character <= "\ufe0f"
    is_unseen = is_selector or unicodedata.category(character) in _UNSEEN
    return "" if is_unseen else character


@lru_cache(maxsize=4096)
def _width(character: str) -> int:
    if unicodedata.category(character) in _MARKS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours before them where there are some: 1:05, 2:00:00."""
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
