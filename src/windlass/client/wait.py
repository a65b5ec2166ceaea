"""Wait for a condition of a job, with a watch instead of polling."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from windlass.client import jobs, plain_jobs, views, watch
from windlass.client.connection import Connection
from windlass.client.errors import CompletedError, NotInstalledError, ObjectDeletedError, TimedOutError
from windlass.client.views import JobView
from windlass.model.framework import Framework

T = TypeVar("T")


class Until(StrEnum):
    COMPLETED = "completed"
    RUNNING = "running"
    """Every task has run in its current attempt, or the job has succeeded."""
    DELETED = "deleted"


def _ignore(_: JobView) -> None:
    pass


async def wait(
    connection: Connection,
    name: str,
    until: Until = Until.COMPLETED,
    timeout: float | None = None,
    on_change: Callable[[JobView], None] = _ignore,
) -> JobView:
    """Wait until the condition holds and return the job. `on_change` is called now and after each change.

    With Until.DELETED, a job that does not exist counts as deleted. Raises TimedOutError, ObjectDeletedError,
    CompletedError, and the errors of `lookup.find`.
    """
    framework = await jobs.find_or_none(connection, name)
    if framework is None:
        missing = await jobs.not_found_error(connection, name)
        if until is not Until.DELETED or isinstance(missing, NotInstalledError):
            raise missing
        return JobView(
            name=name, namespace=connection.namespace, uid="", group="", state=views.JobState.DELETED
        )
    return await wait_for(connection, framework, until, timeout, on_change)


async def wait_for(
    connection: Connection,
    framework: Framework,
    until: Until = Until.COMPLETED,
    timeout: float | None = None,
    on_change: Callable[[JobView], None] = _ignore,
) -> JobView:
    """Wait as `wait` does, but for exactly this Framework, not for a later one of the same name."""
    last = views.job_view(framework)

    async def wait_until_met() -> JobView:
        nonlocal last
        async with contextlib.aclosing(watch_job(connection, framework)) as changes:
            async for view in changes:
                if view is None:
                    return _view_after_deletion(last, until)
                last = view
                on_change(view)
                if _is_met(view, until):
                    return view
        raise AssertionError("a watch ends with None")

    return await with_timeout(timeout, wait_until_met(), lambda: _timeout_message(last, until, timeout))


async def watch_job(connection: Connection, framework: Framework) -> AsyncGenerator[JobView | None, None]:
    """Yield the view of the job now and after each change, and None after its deletion."""
    async with contextlib.aclosing(watch_framework(connection, framework)) as changes:
        async for found in changes:
            yield None if found is None else views.job_view(found)


def watch_framework(connection: Connection, framework: Framework) -> AsyncGenerator[Framework | None, None]:
    """Watch a Framework, or a job that was created without one."""
    if plain_jobs.is_plain(framework):
        return plain_jobs.watch_job(connection, framework)
    return watch.watch_framework(connection, framework)


async def with_timeout(
    timeout: float | None, work: Coroutine[Any, Any, T], timeout_message: Callable[[], str]
) -> T:
    """Return the result of `work`. Raises TimedOutError with the message after the timeout."""
    try:
        async with asyncio.timeout(timeout):
            return await work
    except TimeoutError as error:
        raise TimedOutError(timeout_message()) from error


def _is_met(view: JobView, until: Until) -> bool:
    """Return whether the condition holds. Raises CompletedError if it never will."""
    match until:
        case Until.COMPLETED:
            return view.is_completed
        case Until.DELETED:
            return False
        case Until.RUNNING:
            if view.is_completed and not view.has_succeeded:
                raise CompletedError(f"{view.message} (before all of its tasks ran)", view.code)
            return view.is_completed or view.have_all_tasks_run


def _view_after_deletion(last: JobView, until: Until) -> JobView:
    if until is Until.DELETED:
        return msgspec.structs.replace(last, state=views.JobState.DELETED)
    raise ObjectDeletedError(f"{last.name} was deleted before it was {until}")


def _timeout_message(last: JobView, until: Until, timeout: float | None) -> str:
    return f"{last.name} is not {until} after {timeout:g} s: {last.message}"
