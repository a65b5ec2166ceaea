"""A text that is shown again when it changes: redrawn in place on a terminal, else printed below the previous one."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from windlass.cli.terminal import live_terminal, tables
from windlass.cli.terminal import text as terminal_text

TICK_SECONDS = 1.0
"""Interval in which ages are updated on a terminal."""

T = TypeVar("T")


async def show(
    changes: AsyncGenerator[object, None],
    read: Callable[[], Awaitable[T]],
    lines: Callable[[T, datetime, int | None], Sequence[str]],
    is_over: Callable[[T], bool] = lambda _: False,
) -> T:
    """Show what `read` returns, at the start and after each change, as `lines` of a width and at a time. Return the
    value for which `is_over` is true."""
    start, canvas, last = datetime.now(UTC), live_terminal.Canvas(), ""

    def draw(value: T) -> None:
        nonlocal last
        if sys.stdout.isatty():
            size = live_terminal.terminal_size(sys.stdout.buffer)
            shown = lines(value, datetime.now(UTC), tables.terminal_width())[: size.lines - 1]
            shown = [terminal_text.truncate(line, size.columns) for line in shown]
            sys.stdout.buffer.write(canvas.update(shown, (), size).encode())
            sys.stdout.buffer.flush()
        elif (text := "\n".join(lines(value, start, tables.terminal_width()))) != last:
            # Ages are computed once, at the start, so that a higher age is not printed as a change.
            print(text if not last else f"\n{text}", flush=True)
            last = text

    next_change = asyncio.ensure_future(anext(changes))
    try:
        while True:
            await next_change
            next_change = asyncio.ensure_future(anext(changes))
            value = await read()
            draw(value)
            if is_over(value):
                return value
            while not next_change.done():
                await asyncio.wait({next_change}, timeout=TICK_SECONDS)
                draw(value)
    finally:
        next_change.cancel()
        with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration, Exception):
            await next_change
        await changes.aclose()
