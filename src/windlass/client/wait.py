"""Until a job is as somebody wants it. By watch: nothing is asked again and again."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from windlass.client import lookup, views, watch
from windlass.client.connection import Connection
from windlass.client.errors import CompletedError, GoneError, NotInstalledError, TimedOutError
from windlass.client.views import JobView
from windlass.model.framework import Framework

T = TypeVar("T")


class Until(StrEnum):
    COMPLETED = "completed"
    RUNNING = "running"
    """Every task has run in this attempt."""
    DELETED = "deleted"


def _ignore(_: JobView) -> None:
    pass


async def wait(
    connection: Connection,
    name: str,
    until: Until = Until.COMPLETED,
    timeout: float | None = None,
    seen: Callable[[JobView], None] = _ignore,
) -> JobView:
    """The job as it was seen last; `seen` is told of every change on the way.

    Raises TimedOutError, GoneError, CompletedError, and what `finding.find` raises. One that is not there is deleted.
    """
    framework = await lookup.find_or_none(connection, name)
    if framework is None:
        missing = await lookup.not_found_error(connection, name)
        if until is not Until.DELETED or isinstance(missing, NotInstalledError):
            raise missing
        return JobView(
            name=name, namespace=connection.namespace, uid="", group="", state=views.JobState.DELETED
        )
    return await wait_for(connection, framework, until, timeout, seen)


async def wait_for(
    connection: Connection,
    framework: Framework,
    until: Until = Until.COMPLETED,
    timeout: float | None = None,
    seen: Callable[[JobView], None] = _ignore,
) -> JobView:
    """The same, of this very Framework and of no other of its name."""
    last = views.job_view(framework)

    async def look() -> JobView:
        nonlocal last
        async with contextlib.aclosing(watch_job(connection, framework)) as views_of_it:
            async for view in views_of_it:
                if view is None:
                    return _of_a_gone_one(last, until)
                last = view
                seen(view)
                if _is_over(view, until):
                    return view
        raise AssertionError("a watch ends with None")

    return await with_timeout(timeout, look(), lambda: _too_late(last, until, timeout))


async def watch_job(connection: Connection, framework: Framework) -> AsyncGenerator[JobView | None, None]:
    """As `watch.watch_framework` gives them."""
    async with contextlib.aclosing(watch.watch_framework(connection, framework)) as changes:
        async for found in changes:
            yield None if found is None else views.job_view(found)


async def with_timeout(timeout: float | None, work: Coroutine[Any, Any, T], too_late: Callable[[], str]) -> T:
    """Raises TimedOutError."""
    try:
        async with asyncio.timeout(timeout):
            return await work
    except TimeoutError as error:
        raise TimedOutError(too_late()) from error


def _is_over(view: JobView, until: Until) -> bool:
    """Raises CompletedError when it can never be so."""
    match until:
        case Until.COMPLETED:
            return view.is_completed
        case Until.DELETED:
            return False
        case Until.RUNNING:
            if view.is_completed and not view.has_succeeded:
                raise CompletedError(
                    f"{view.name} has completed before all of it ran: {view.reason}", view.code
                )
            return view.is_completed or view.have_all_tasks_run


def _of_a_gone_one(last: JobView, until: Until) -> JobView:
    if until is Until.DELETED:
        return msgspec.structs.replace(last, state=views.JobState.DELETED)
    raise GoneError(f"{last.name} was deleted before it was {until}")


def _too_late(last: JobView, until: Until, timeout: float | None) -> str:
    reason = f": {last.reason}" if last.reason else ""
    return f"{last.name} is not {until} after {timeout:g} s: its state is {last.state}{reason}"
