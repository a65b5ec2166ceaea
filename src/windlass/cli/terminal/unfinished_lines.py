"""Show incomplete lines of tasks, e.g. progress bars, below the complete lines on a terminal.

Each line keeps its label and is redrawn in place. The cursor stays at the start of the line below.
"""

from collections.abc import Callable

from windlass.cli.terminal import colours
from windlass.cli.terminal import text as terminal_text

REDRAW_SECONDS = 1.0
"""Minimum time between two drawings of a changed state."""
_ERASE_BELOW = "\x1b[J"


class UnfinishedLines:
    def __init__(self, columns: Callable[[], int], clock: Callable[[], float]) -> None:
        """`columns` returns the width of the terminal, `clock` the time in seconds."""
        self._columns = columns
        self._clock = clock
        self._states: dict[tuple[str, str], tuple[str, int | None, str]] = {}
        """The label, its colour and the state of each incomplete line, by task and container."""
        self._drawn: list[str] = []
        self._drawn_at = float("-inf")

    def set(self, key: tuple[str, str], label: str, colour: int | None, state: bytes) -> None:
        """Change the state of the line of a task and a container; an empty state removes the line."""
        text = terminal_text.printable(state.decode("utf-8", "replace")).strip()
        if text:
            self._states[key] = (label, colour, text)
        else:
            self._states.pop(key, None)

    def update(self) -> bytes:
        """Return the output that shows the current states; empty if nothing has changed or the last drawing was less
        than REDRAW_SECONDS ago."""
        now = self._clock()
        if now - self._drawn_at < REDRAW_SECONDS or self._lines() == self._drawn:
            return b""
        self._drawn_at = now
        return self._erase() + self._draw()

    def around(self, data: bytes) -> bytes:
        """Return the output that inserts complete lines above the incomplete ones."""
        if not self._drawn:
            return data
        return self._erase() + data + self._draw()

    def clear(self) -> bytes:
        """Return the output that removes all incomplete lines."""
        self._states.clear()
        return self._erase()

    def _erase(self) -> bytes:
        erased = f"\x1b[{len(self._drawn)}A\r{_ERASE_BELOW}" if self._drawn else ""
        self._drawn = []
        return erased.encode()

    def _draw(self) -> bytes:
        self._drawn = self._lines()
        return "".join(f"{line}\n" for line in self._drawn).encode("utf-8", "replace")

    def _lines(self) -> list[str]:
        # Some terminals wrap a full line.
        columns = self._columns() - 1
        return [
            colours.colour(terminal_text.truncate(label, columns), colour)
            + terminal_text.truncate(f" {text}", columns - terminal_text.display_width(label))
            for label, colour, text in self._states.values()
        ]
