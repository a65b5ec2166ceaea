"""This process's own streams for a command that runs elsewhere: what is typed, what comes back, the terminal's size.

A terminal is made raw for as long as the command runs, so that every key, Ctrl-C too, is the command's.
"""

import asyncio
import contextlib
import os
import signal
import sys
import termios
import threading
import tty as terminal_modes
from collections.abc import AsyncIterator, Iterator

import click

from windlass.client.exec import Size, Streams

_CHUNK_BYTES = 32 * 1024


@contextlib.contextmanager
def opened(*, has_stdin: bool, tty: bool) -> Iterator[Streams]:
    """In a running event loop."""
    is_terminal = sys.stdin.isatty()
    if tty and has_stdin and not is_terminal:
        _note("standard input is no terminal: what is typed is sent line by line, and its size is not known")
    is_raw = tty and has_stdin and is_terminal
    out, err = sys.stdout.buffer, sys.stderr.buffer

    def write_out(data: bytes) -> None:
        out.write(data)
        out.flush()

    def write_err(data: bytes) -> None:
        err.write(data)
        err.flush()

    with contextlib.ExitStack() as stack:
        if is_raw:
            stack.enter_context(_raw(sys.stdin.fileno()))
        sizes = stack.enter_context(_sizes()) if tty and sys.stdout.isatty() else None
        yield Streams(
            stdout=write_out,
            stderr=write_err,
            stdin=_typed() if has_stdin else None,
            sizes=sizes,
            tty=tty,
            note=_note,
        )


def _note(message: str) -> None:
    click.echo(f"windlass: {message}", err=True)


@contextlib.contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """However it ends, the terminal is as it was."""
    before = termios.tcgetattr(descriptor)
    try:
        # At once: what was typed until now is not thrown away.
        terminal_modes.setraw(descriptor, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _sizes() -> Iterator[AsyncIterator[Size]]:
    """The size now, and again whenever somebody pulls at the window."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)

    async def sizes() -> AsyncIterator[Size]:
        while True:
            # Not what COLUMNS says: that does not follow the window.
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
            yield Size(columns, lines)
            await changed.wait()
            changed.clear()

    try:
        yield sizes()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


async def _typed() -> AsyncIterator[bytes]:
    """Read by a thread, since an event loop cannot wait for a file. It ends with the process."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    has_room = threading.Semaphore(16)

    def read() -> None:
        data = b"first"
        while data:
            has_room.acquire()
            try:
                data = os.read(sys.stdin.fileno(), _CHUNK_BYTES)
            except OSError:
                data = b""
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                loop.call_soon_threadsafe(pieces.put_nowait, data)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    while piece := await pieces.get():
        yield piece
        has_room.release()
