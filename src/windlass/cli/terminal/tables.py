"""Format tables and paragraphs for the width of a terminal. Only `terminal_width` reads the environment."""

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from windlass.cli.terminal import text as terminal_text

GAP = 2
MIN_WIDTH = 6
"""Minimum width of a column that can shrink."""
MIN_NAME_WIDTH = 16
"""Minimum width of the most important column."""
MAX_PARAGRAPH_WIDTH = 100
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


class Column(NamedTuple):
    title: str
    importance: int = 0
    """On a narrow terminal, the least important columns are dropped first."""
    can_shrink: bool = False
    """Whether the column is truncated before others are dropped."""


def terminal_width() -> int | None:
    """Return COLUMNS, else the width of the terminal, else None, for unlimited lines."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Format a table whose lines are at most `width` wide, without trailing spaces."""
    cells = [
        [column.title for column in columns],
        *([terminal_text.printable(cell) for cell in row] for row in rows),
    ]
    widths = [max(terminal_text.display_width(row[at]) for row in cells) for at in range(len(columns))]
    shown = list(range(len(columns)))
    if width is not None:
        shown, widths = _fit_columns(columns, widths, width)
    lines = [
        (" " * GAP).join(terminal_text.pad(row[at], widths[at]) for at in shown).rstrip() for row in cells
    ]
    return "\n".join(line if width is None else terminal_text.truncate(line, width) for line in lines)


def _fit_columns(
    columns: Sequence[Column], content_widths: Sequence[int], width: int
) -> tuple[list[int], list[int]]:
    """Return the visible columns, and the widths of all columns."""
    shown = list(range(len(columns)))
    max_importance = max(column.importance for column in columns)

    def min_width(at: int) -> int:
        bound = MIN_WIDTH if columns[at].importance < max_importance else MIN_NAME_WIDTH
        return min(content_widths[at], bound) if columns[at].can_shrink else content_widths[at]

    while sum(map(min_width, shown)) + GAP * (len(shown) - 1) > width and len(shown) > 1:
        shown.remove(min(shown, key=lambda at: (columns[at].importance, -at)))
    widths = list(content_widths)
    excess = sum(widths[at] for at in shown) + GAP * (len(shown) - 1) - width
    for at in sorted(shown, key=lambda at: columns[at].importance):
        if excess > 0 and columns[at].can_shrink:
            reduction = min(excess, widths[at] - min_width(at))
            widths[at] -= reduction
            excess -= reduction
    return shown, widths


def paragraph(title: str, text: str, width: int | None, indent: int = 12) -> str:
    """Format a title and a text that is wrapped in a column next to it."""
    wrapped = textwrap.fill(
        terminal_text.printable(text),
        MAX_PARAGRAPH_WIDTH if width is None else max(width, indent + 8),
        initial_indent=f"{title:<{indent}}",
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    lines = (wrapped or title).splitlines()
    return "\n".join(line if width is None else terminal_text.truncate(line, width) for line in lines)


def age(since: datetime | None, now: datetime) -> str:
    """Return the age in one unit, e.g. 45s, 3m, 2h or 5d; empty if unknown."""
    if since is None:
        return ""
    seconds = max(0, int((now - since).total_seconds()))
    for length, unit in _UNITS:
        if seconds >= 2 * length or (seconds >= length and unit != "m"):
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def task_counts(running: int, succeeded: int, failed: int, total: int, retrying: int = 0) -> str:
    """Return e.g. `2 running, 1 failed of 4`; only the total if the other numbers are 0."""
    counts = ((running, "running"), (retrying, "retrying"), (succeeded, "succeeded"), (failed, "failed"))
    listed = ", ".join(f"{count} {word}" for count, word in counts if count)
    return f"{listed} of {total}" if listed else str(total)
