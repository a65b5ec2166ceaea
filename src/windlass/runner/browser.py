"""A page in the browser of this machine."""

import asyncio
import webbrowser
from collections.abc import Callable


async def open_at(url: str, note: Callable[[str], None]) -> None:
    """`note` is told where there is none."""
    if not await asyncio.to_thread(webbrowser.open, url):
        note(f"no browser was found: open {url} in one")
