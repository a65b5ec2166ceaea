"""How far an upload is: a line that is drawn again and again on a terminal, or one now and then where there is none.

Time is given to it, and what it writes goes where it is told.
"""

from collections import deque
from collections.abc import Callable

from windlass.cli.terminal import text as terminal_text
from windlass.client.submit import code_archive

DRAWN_EVERY_SECONDS = 0.1
TOLD_EVERY_SECONDS = 10.0
RATE_SECONDS = 10.0
"""The rate is that of the last so many seconds."""
BAR_CELLS = 24
NARROW = 60
"""A terminal with fewer columns has no room for the bar itself."""


class ProgressBar:
    def __init__(
        self, write: Callable[[str], object], clock: Callable[[], float], columns: int | None
    ) -> None:
        """`columns` is the width of the terminal; None: there is none."""
        self._write = write
        self._clock = clock
        self._columns = columns
        self._total = 0
        self._done = 0
        self._shown_at = float("-inf") if columns is not None else clock()
        self._steps: deque[tuple[float, int]] = deque()
        self._is_drawn = False

    def compared(self, count: int, total: int) -> None:
        if self._is_due():
            self._show(f"comparing checksums: {count} of {total} files")

    def begin(self, total: int) -> None:
        """So many bytes are to be sent."""
        self._total = total
        self._steps.append((self._clock(), 0))

    def moved(self, name: str, size: int) -> None:
        self._done += size
        now = self._clock()
        self._steps.append((now, self._done))
        while len(self._steps) > 2 and now - self._steps[0][0] > RATE_SECONDS:
            self._steps.popleft()
        if self._is_due():
            self._show(self._line(name))

    def note(self, line: str) -> None:
        """Above the bar."""
        self.end()
        self._write(f"{line}\n")

    def end(self) -> None:
        """Nothing of it stays on the terminal."""
        if self._is_drawn:
            self._write("\r\x1b[K")
            self._is_drawn = False

    def _is_due(self) -> bool:
        every = TOLD_EVERY_SECONDS if self._columns is None else DRAWN_EVERY_SECONDS
        return self._clock() - self._shown_at >= every

    def _show(self, line: str) -> None:
        self._shown_at = self._clock()
        if self._columns is None:
            self._write(f"{line}\n")
            return
        # In the last column some terminals go on to the next line.
        self._write(f"\r{terminal_text.clipped(line, self._columns - 1)}\x1b[K")
        self._is_drawn = True

    def _line(self, name: str) -> str:
        share = min(1.0, self._done / self._total) if self._total else 1.0
        has_bar = self._columns is not None and self._columns >= NARROW
        full = round(share * BAR_CELLS)
        bar = f"[{'#' * full}{'.' * (BAR_CELLS - full)}] " if has_bar else ""
        size = f"{code_archive.shown_size(self._done)} of {code_archive.shown_size(self._total)}"
        return f"{bar}{share:4.0%}  {size}  {self._pace()}  {terminal_text.plain(name)}"

    def _pace(self) -> str:
        (began, first), (now, last) = self._steps[0], self._steps[-1]
        if now <= began or last <= first:
            return "-"
        rate = (last - first) / (now - began)
        left = max(0, self._total - self._done)
        return f"{code_archive.shown_size(rate)}/s  {_shown_time(left / rate)} left"


def _shown_time(seconds: float) -> str:
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
