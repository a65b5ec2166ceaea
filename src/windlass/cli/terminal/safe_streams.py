"""Standard streams that remove control sequences, which names and messages of servers, files and tasks may contain.

`sys.stdout.buffer` is not protected: code that writes to it must use `write_data` or `text.safe_log_lines`.
"""

import codecs
import contextlib
import io
import sys
from collections.abc import Iterator

from windlass.cli.terminal import text as terminal_text


class _SafeStream(io.TextIOWrapper):
    def write(self, text: str, /) -> int:
        super().write(terminal_text.only_colours(text))
        return len(text)


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Remove control sequences other than colours from text that is printed to a terminal in the block."""
    old = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    safe = {
        name: _safe(stream)
        for name, stream in old.items()
        if isinstance(stream, io.TextIOWrapper) and stream.isatty()
    }
    for name, stream in safe.items():
        setattr(sys, name, stream)
    try:
        yield
    finally:
        for name, stream in safe.items():
            setattr(sys, name, old[name])
            with contextlib.suppress(OSError):  # the terminal may be closed
                # Otherwise the stream would close the file when it is deleted.
                stream.detach()


def write_data(data: bytes) -> None:
    """Write the content of a file to standard output. On a terminal, remove control sequences other than colours."""
    sys.stdout.flush()
    sys.stdout.buffer.write(terminal_text.safe_log_lines(data) if sys.stdout.isatty() else data)
    sys.stdout.buffer.flush()


def _safe(stream: io.TextIOWrapper) -> _SafeStream:
    stream.flush()
    # click would bypass an ASCII stream and write UTF-8 to its buffer.
    is_ascii = codecs.lookup(stream.encoding).name == "ascii"
    return _SafeStream(
        stream.buffer,
        "utf-8" if is_ascii else stream.encoding,
        # "surrogateescape" would write bytes of file names that are not text, e.g. control characters, unchanged.
        "backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
