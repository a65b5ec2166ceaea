"""Which runs a TensorBoard has to show, asked of itself."""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp

ASKED_EVERY_SECONDS = 3.0
_ANSWER_SECONDS = 30.0

Sleep = Callable[[float], Awaitable[object]]


async def report(url: str, logdir: str, say: Callable[[str], None], sleep: Sleep = asyncio.sleep) -> None:
    """A TensorBoard that has nothing to show does not say so itself. `say` is told, and told again of the first run."""
    if await first(url) != []:
        return
    where = logdir or "its log directory"
    say(f"there is nothing in {where} yet: what the tasks write there shows up by itself")
    found = await until_any(url, sleep)
    say(f"there is something now: {', '.join(found)}")


async def first(url: str) -> list[str] | None:
    """Those that it has; None where it does not answer as a TensorBoard does."""
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
    """It looks at its folder itself every few seconds."""
    while True:
        found = await first(url)
        if found:
            return found
        await sleep(ASKED_EVERY_SECONDS)
