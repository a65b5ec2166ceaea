"""Tables and paragraphs for people, as wide as their terminal is. Pure but for `width`, which looks at it."""

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from windlass.cli.terminal import text as terminal_text

GAP = 2
NARROW = 6
"""A column that gives way does not become narrower than this, and the most important one not as narrow."""
NARROW_NAME = 16
LONGEST_PARAGRAPH = 100
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


class Column(NamedTuple):
    title: str
    importance: int = 0
    """Where there is no room, the columns of the least importance go first."""
    gives_way: bool = False
    """It is cut before others go."""


def width() -> int | None:
    """How many columns there are. None: no terminal, and nobody minds long lines."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said) > 0:
        return int(said)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int | None) -> str:
    """Lines without spaces at their ends. No line is longer than the room."""
    cells = [
        [column.title for column in columns],
        *([terminal_text.plain(cell) for cell in row] for row in rows),
    ]
    widths = [max(terminal_text.cells(row[at]) for row in cells) for at in range(len(columns))]
    shown = list(range(len(columns)))
    if room is not None:
        shown, widths = _fitting(columns, widths, room)
    lines = [
        (" " * GAP).join(terminal_text.fitted(row[at], widths[at]) for at in shown).rstrip() for row in cells
    ]
    return "\n".join(line if room is None else terminal_text.clipped(line, room) for line in lines)


def _fitting(columns: Sequence[Column], natural: Sequence[int], room: int) -> tuple[list[int], list[int]]:
    """Which columns are shown, and how wide all of them are."""
    shown = list(range(len(columns)))
    most = max(column.importance for column in columns)

    def least(at: int) -> int:
        bound = NARROW if columns[at].importance < most else NARROW_NAME
        return min(natural[at], bound) if columns[at].gives_way else natural[at]

    def needed() -> int:
        return sum(map(least, shown)) + GAP * (len(shown) - 1)

    while needed() > room and len(shown) > 1:
        shown.remove(min(shown, key=lambda at: (columns[at].importance, -at)))
    widths = list(natural)
    excess = sum(widths[at] for at in shown) + GAP * (len(shown) - 1) - room
    for at in sorted(shown, key=lambda at: columns[at].importance):
        if excess > 0 and columns[at].gives_way:
            taken = min(excess, widths[at] - least(at))
            widths[at] -= taken
            excess -= taken
    return shown, widths


def paragraph(title: str, text: str, room: int | None, indent: int = 12) -> str:
    """`title` and then the text, wrapped between words so that it stays beside its title."""
    first = f"{title:<{indent}}"
    longest = LONGEST_PARAGRAPH if room is None else max(room, indent + 8)
    wrapped = textwrap.wrap(
        terminal_text.plain(text), longest - indent, break_on_hyphens=False, break_long_words=False
    )
    lines = [
        f"{first if at == 0 else ' ' * indent}{line}".rstrip() for at, line in enumerate(wrapped or [""])
    ]
    return "\n".join(line if room is None else terminal_text.clipped(line, room) for line in lines)


def age(since: datetime | None, now: datetime) -> str:
    """As kubectl has it: 45s, 3m, 2h, 5d."""
    if since is None:
        return ""
    seconds = max(0, int((now - since).total_seconds()))
    for length, unit in _UNITS:
        if seconds >= 2 * length or (seconds >= length and unit != "m"):
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def tasks(running: int, succeeded: int, failed: int, total: int) -> str:
    """`2 running, 1 failed of 4`."""
    counts = ((running, "running"), (succeeded, "succeeded"), (failed, "failed"))
    said = ", ".join(f"{count} {word}" for count, word in counts if count)
    return f"{said} of {total}" if said else str(total)
