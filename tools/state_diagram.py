"""Draw the states and their transitions: the states in a column, the transitions as arrows and arcs.

The picture is an SVG file, because the script that draws Mermaid diagrams comes from the web.
"""

from collections.abc import Iterator
from typing import Final

from windlass.decide.transitions import TRANSITIONS, TransitionType
from windlass.model.states import State

ROW, WIDTH, HEIGHT, LEFT, TOP = 62, 230, 34, 170, 20
COLOURS: Final = {
    TransitionType.PATH: "#3b82c4",
    TransitionType.SHORTCUT: "#8a8f98",
    TransitionType.WINDLASS: "#c2701c",
}
LABELS: Final = {
    TransitionType.PATH: "regular path",
    TransitionType.SHORTCUT: "shortcut",
    TransitionType.WINDLASS: "not in FrameworkController",
}
ROWS: Final = {state: number for number, state in enumerate(State)}


def picture() -> str:
    height = TOP + ROW * len(ROWS) + 70
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 620 {height}" width="620" height="{height}">',
            '<g font-family="sans-serif" font-size="13">',
            f'<rect width="620" height="{height}" rx="8" fill="#ffffff"/>',
            "<defs>",
            *(_arrow_head(kind) for kind in TransitionType),
            "</defs>",
            *(_transition(start, end, kind) for (start, end), kind in TRANSITIONS.items()),
            *(_state(state, row) for state, row in ROWS.items()),
            *_legend(height - 58),
            "</g>\n</svg>\n",
        )
    )


def _state(state: State, row: int) -> str:
    y = TOP + ROW * row
    return (
        f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#eef3f8" stroke="#5b6b7b"/>'
        f'<text x="{LEFT + WIDTH // 2}" y="{y + 22}" text-anchor="middle" fill="#1b2733">{state}</text>'
    )


def _transition(start: State, end: State, kind: TransitionType) -> str:
    """Draw neighbours as an arrow, other transitions as arcs: forwards on the right, backwards on the left."""
    first, last = ROWS[start], ROWS[end]
    distance = last - first
    if distance == 1:
        path = f"M{LEFT + WIDTH // 2} {TOP + ROW * first + HEIGHT} V{TOP + ROW * last - 2}"
    else:
        side = LEFT + WIDTH if distance > 0 else LEFT
        bulge = side + (36 + 20 * abs(distance)) * (1 if distance > 0 else -1)
        # Arcs leave below the middle and arrive above it, so that their ends do not meet.
        y1, y2 = TOP + ROW * first + 24, TOP + ROW * last + 10
        path = f"M{side} {y1} C{bulge} {y1} {bulge} {y2} {side + (2 if distance > 0 else -2)} {y2}"
    dashes = "" if kind is TransitionType.PATH else ' stroke-dasharray="5 3"'
    return (
        f'<path d="{path}" fill="none" stroke="{COLOURS[kind]}" stroke-width="1.5"{dashes}'
        f' marker-end="url(#{kind.name})"><title>{start} → {end}</title></path>'
    )


def _arrow_head(kind: TransitionType) -> str:
    return (
        f'<marker id="{kind.name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
        f' orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="{COLOURS[kind]}"/></marker>'
    )


def _legend(y: int) -> Iterator[str]:
    for number, kind in enumerate(TransitionType):
        dashes = "" if kind is TransitionType.PATH else ' stroke-dasharray="5 3"'
        line = y + 18 * number
        yield (
            f'<path d="M{LEFT} {line} h40" stroke="{COLOURS[kind]}" stroke-width="1.5"{dashes}/>'
            f'<text x="{LEFT + 50}" y="{line + 4}" fill="#1b2733">{LABELS[kind]}</text>'
        )
