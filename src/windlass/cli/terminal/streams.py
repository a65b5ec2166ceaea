"""Connect the standard streams and the terminal size of this process to a remote command.

With --stdin and --tty, the terminal is in raw mode while the command runs, so that the command receives every key,
including Ctrl-C.
"""

import asyncio
import codecs
import contextlib
import os
import signal
import sys
import termios
import threading
import tty as terminal_modes
from collections.abc import AsyncIterator, Iterator
from typing import TextIO

from windlass.cli.errors import note
from windlass.cli.terminal import text as terminal_text
from windlass.client.exec import Size, Streams, Write

_CHUNK_BYTES = 32 * 1024


@contextlib.contextmanager
def local_streams(*, has_stdin: bool, tty: bool) -> Iterator[Streams]:
    """Yield the streams. Requires a running event loop. Without --tty, a terminal gets no control sequences except
    colours."""
    is_terminal = sys.stdin.isatty()
    if tty and has_stdin and not is_terminal:
        note("standard input is not a terminal: Ctrl-C is not sent to the command")
    is_raw = tty and has_stdin and is_terminal

    with contextlib.ExitStack() as stack:
        if is_raw:
            stack.enter_context(_raw_mode(sys.stdin.fileno()))
        sizes = stack.enter_context(_terminal_sizes()) if tty and sys.stdout.isatty() else None
        yield Streams(
            stdout=_writer(sys.stdout, tty=tty),
            stderr=_writer(sys.stderr, tty=tty),
            stdin=_read_stdin() if has_stdin else None,
            sizes=sizes,
            tty=tty,
            note=note,
        )


def _writer(stream: TextIO, *, tty: bool) -> Write:
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    is_filtered = stream.isatty() and not tty

    def write(data: bytes) -> None:
        if is_filtered:
            text = decode(data).replace("\r\n", "\n").replace("\r", "\n")
            data = terminal_text.only_colours(text).encode()
        stream.buffer.write(data)
        stream.buffer.flush()

    return write


@contextlib.contextmanager
def _raw_mode(descriptor: int) -> Iterator[None]:
    """Set raw mode, and restore the old mode at the end."""
    before = termios.tcgetattr(descriptor)
    try:
        # TCSANOW keeps input that was typed before.
        terminal_modes.setraw(descriptor, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _terminal_sizes() -> Iterator[AsyncIterator[Size]]:
    """Yield an iterator over the current size and the size after each change."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)

    async def sizes() -> AsyncIterator[Size]:
        while True:
            # Ignore COLUMNS, which does not change with the window.
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
            yield Size(columns, lines)
            await changed.wait()
            changed.clear()

    try:
        yield sizes()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


async def _read_stdin() -> AsyncIterator[bytes]:
    """Yield standard input, read by a thread, since an event loop cannot wait for a file."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    free_slots = threading.Semaphore(16)

    def read() -> None:
        data = b"first"
        while data:
            free_slots.acquire()
            try:
                data = os.read(sys.stdin.fileno(), _CHUNK_BYTES)
            except OSError:
                data = b""
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(pieces.put_nowait, data)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    while piece := await pieces.get():
        yield piece
        free_slots.release()
