"""Open pages in the browser of this machine."""

import asyncio
import webbrowser
from collections.abc import Callable


async def open_at(url: str, note: Callable[[str], None]) -> None:
    """Open a URL, or note that there is no browser."""
    if not await asyncio.to_thread(webbrowser.open, url):
        note(f"no browser found: open {url} yourself")
