"""Pictures of a terminal's screen as SVG, and their text."""

import itertools
import re
from collections.abc import Iterator, Sequence
from html import escape, unescape

from pyte.screens import Char

WIDTH, HEIGHT, MARGIN = 8.4, 19, 14
"""Size of a character and of the border."""
BACKGROUND, TEXT = "#16181d", "#d7dae0"
COLOURS = {
    "black": "#6b7280",
    "red": "#f07178",
    "green": "#8fce8b",
    "brown": "#e5c07b",
    "blue": "#7aa2f7",
    "magenta": "#c792ea",
    "cyan": "#7fdbca",
    "white": "#f3f4f6",
}
"""Colours by their name in pyte, where yellow is brown; bright ones begin with `bright`."""


def picture(lines: Sequence[Sequence[Char]], title: str) -> str:
    """Return a picture of the lines. `title` describes it for readers who do not see it."""
    columns = max(len("".join(each.data for each in line).rstrip()) for line in lines)
    width, height = round(columns * WIDTH + 2 * MARGIN), len(lines) * HEIGHT + 2 * MARGIN
    rows = "\n".join(row for number, line in enumerate(lines) for row in _row(number, line[:columns]))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' role="img">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>\n'
        f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" fill="{TEXT}">\n{rows}\n</g>\n'
        "</svg>\n"
    )


def _row(number: int, line: Sequence[Char]) -> Iterator[str]:
    """Yield the parts of a line that look the same. Each has a fixed length, whatever the font."""
    y = MARGIN + number * HEIGHT + 14
    column = 0
    for (colour, is_bold), group in itertools.groupby(line, key=lambda each: (each.fg, each.bold)):
        text = "".join(each.data for each in group)
        start, column = column, column + len(text)
        shown = text.rstrip()
        if not shown.strip():
            continue
        blanks = len(shown) - len(shown.lstrip())
        x = MARGIN + (start + blanks) * WIDTH
        shade = COLOURS.get(colour.removeprefix("bright"))
        style = (f' fill="{shade}"' if shade else "") + (' font-weight="bold"' if is_bold else "")
        yield (
            f'<text x="{x:.1f}" y="{y}" textLength="{len(shown.strip()) * WIDTH:.1f}"'
            f' xml:space="preserve"{style}>{escape(shown.strip())}</text>'
        )


def lines_of(svg: str) -> list[str]:
    """Return the text of a picture, line by line."""
    found: dict[int, str] = {}
    for x, y, text in re.findall(r'<text x="([\d.]+)" y="(\d+)"[^>]*>([^<]*)</text>', svg):
        column = round((float(x) - MARGIN) / WIDTH)
        found[int(y)] = found.get(int(y), "").ljust(column) + unescape(text)
    return [found[y] for y in sorted(found)]
