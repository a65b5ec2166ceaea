"""Ask a TensorBoard for its runs."""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp

ASKED_EVERY_SECONDS = 3.0
_ANSWER_SECONDS = 30.0

Sleep = Callable[[float], Awaitable[object]]


async def report(url: str, logdir: str, say: Callable[[str], None], sleep: Sleep = asyncio.sleep) -> None:
    """Say that a TensorBoard has no runs yet, and again when the first appears."""
    if await first(url) != []:
        return
    where = logdir or "its log directory"
    say(f"{where} has no runs yet: they appear as soon as tasks write them")
    found = await until_any(url, sleep)
    say(f"found runs: {', '.join(found)}")


async def first(url: str) -> list[str] | None:
    """Return its runs, or None if the response is not that of a TensorBoard."""
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{url}data/runs") as answer,
        ):
            found = await answer.json()
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None
    return [str(each) for each in found] if isinstance(found, list) else None


async def until_any(url: str, sleep: Sleep) -> list[str]:
    """Poll until there is a run. TensorBoard itself scans its folder every few seconds."""
    while True:
        found = await first(url)
        if found:
            return found
        await sleep(ASKED_EVERY_SECONDS)
