"""Show the progress of an upload: on a terminal, one line that is redrawn; otherwise, a new line every 10 s."""

from collections import deque
from collections.abc import Callable

from windlass.cli.terminal import text as terminal_text
from windlass.client.submit import code_archive

REDRAW_SECONDS = 0.1
LINE_SECONDS = 10.0
RATE_SECONDS = 10.0
"""Period over which the transfer rate is measured."""
BAR_CELLS = 24
MIN_BAR_COLUMNS = 60
"""Minimum width of a terminal for showing the bar."""


class ProgressBar:
    def __init__(
        self, write: Callable[[str], object], clock: Callable[[], float], columns: int | None
    ) -> None:
        """`columns` is the width of the terminal; None without a terminal."""
        self._write = write
        self._clock = clock
        self._columns = columns
        self._total = 0
        self._done = 0
        self._shown_at = float("-inf") if columns is not None else clock()
        self._samples: deque[tuple[float, int]] = deque()
        self._is_drawn = False

    def compared(self, count: int, total: int) -> None:
        """Show how many files were compared."""
        if self._is_due():
            self._show(f"comparing checksums: {count} of {total} {'file' if total == 1 else 'files'}")

    def begin(self, total: int) -> None:
        """Start the transfer of `total` bytes."""
        self._total = total
        self._samples.append((self._clock(), 0))

    def sent(self, name: str, size: int) -> None:
        """Add `size` bytes that were sent of the file `name`."""
        self._done += size
        now = self._clock()
        self._samples.append((now, self._done))
        while len(self._samples) > 2 and now - self._samples[0][0] > RATE_SECONDS:
            self._samples.popleft()
        if self._is_due():
            self._show(self._line(name))

    def note(self, line: str) -> None:
        """Print a line above the bar."""
        self.end()
        self._write(f"{line}\n")

    def end(self) -> None:
        """Erase the bar."""
        if self._is_drawn:
            self._write("\r\x1b[K")
            self._is_drawn = False

    def _is_due(self) -> bool:
        interval = LINE_SECONDS if self._columns is None else REDRAW_SECONDS
        return self._clock() - self._shown_at >= interval

    def _show(self, line: str) -> None:
        self._shown_at = self._clock()
        if self._columns is None:
            self._write(f"{line}\n")
            return
        # Some terminals wrap after the last column.
        self._write(f"\r{terminal_text.truncate(line, self._columns - 1)}\x1b[K")
        self._is_drawn = True

    def _line(self, name: str) -> str:
        fraction = min(1.0, self._done / self._total) if self._total else 1.0
        has_bar = self._columns is not None and self._columns >= MIN_BAR_COLUMNS
        full = round(fraction * BAR_CELLS)
        bar = f"[{'#' * full}{'.' * (BAR_CELLS - full)}] " if has_bar else ""
        size = f"{code_archive.format_size(self._done)} of {code_archive.format_size(self._total)}"
        return f"{bar}{fraction:4.0%}  {size}  {self._rate()}  {terminal_text.printable(name)}"

    def _rate(self) -> str:
        (start, first), (end, last) = self._samples[0], self._samples[-1]
        if end <= start or last <= first:
            return "-"
        rate = (last - first) / (end - start)
        seconds = round(max(0, self._total - self._done) / rate)
        return f"{code_archive.format_size(rate)}/s  {terminal_text.format_duration(seconds)} left"
