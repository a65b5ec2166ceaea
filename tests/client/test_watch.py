"""Watching one job: interrupted watches are resumed, permanent errors end the wait."""

import asyncio
from collections.abc import Callable

import pytest
from in_process_cluster import ClusterNamespace
from operated import jobs

from windlass.client import connection, lookup, views, wait, watch
from windlass.client.connection import Connection
from windlass.client.errors import RejectedError, UnreachableError
from windlass.client.views import JobState
from windlass.kubeapi import errors
from windlass.kubeapi.reflector import Reflector
from windlass.model.failures import ApiFailure
from windlass.model.framework import Framework


def play(place: ClusterNamespace, story: Callable[[Connection], object]) -> None:
    async def played() -> None:
        async with (
            asyncio.timeout(120),
            connection.connected(str(place.kubeconfig), namespace=place.name) as here,
        ):
            await story(here)  # type: ignore[misc]

    asyncio.run(played())


@pytest.fixture
def running(place: ClusterNamespace) -> ClusterNamespace:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.FOREVER)))
    place.wait_for_running("digits", 1)
    return place


def test_later_job_of_the_same_name_is_ignored(running: ClusterNamespace) -> None:
    async def story(here: Connection) -> None:
        first = await lookup.find(here, "digits")
        seen: list[Framework | None] = []
        async for found in watch.watch_framework(here, first):
            seen.append(found)
            if len(seen) == 1:
                await asyncio.to_thread(running.delete, "digits", "Foreground")
                await asyncio.to_thread(running.wait_until_gone, "digits")
                await asyncio.to_thread(running.submit, jobs.framework("digits"))
        assert seen[-1] is None
        assert {found.uid for found in seen if found is not None} == {first.uid}
        # A later watch ends immediately.
        assert [found async for found in watch.watch_framework(here, first)] == [None]

    play(running, story)


def fail_watches(error: Exception, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this number of watches fail first."""
    watch, left = Reflector._watch, times

    async def failing(self: Reflector) -> None:
        nonlocal left
        if left:
            left -= 1
            raise error
        await watch(self)

    monkeypatch.setattr(Reflector, "_watch", failing)


def test_interrupted_watch_is_resumed(running: ClusterNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_watches(errors.NoValidResponseError("interrupted"), 2, monkeypatch)

    async def story(here: Connection) -> None:
        framework = await lookup.find(here, "digits")
        is_ended = False
        async for found in watch.watch_framework(here, framework):
            assert found is not None
            if views.job_view(found).is_completed:
                return
            if not is_ended:
                await asyncio.to_thread(running.end_pod, "digits-worker-0")
            is_ended = True

    play(running, story)


PERMANENT_ERRORS = {
    "forbidden": errors.ForbiddenError(ApiFailure(403, "Forbidden", "no more")),
    "unknown": errors.UnauthorizedError(ApiFailure(401, "Unauthorized", "no more")),
}


@pytest.mark.parametrize("case", PERMANENT_ERRORS)
def test_permanent_error_ends_the_watch(
    case: str, running: ClusterNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_watches(PERMANENT_ERRORS[case], 1000, monkeypatch)
    with pytest.raises(RejectedError, match="no more"):
        play(running, lambda here: wait.wait(here, "digits"))


def test_long_outage_ends_the_watch(running: ClusterNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MAX_OUTAGE_SECONDS", 0.5)
    fail_watches(errors.NotSentError("connection refused"), 1000, monkeypatch)
    with pytest.raises(UnreachableError, match="connection refused"):
        play(running, lambda here: wait.wait(here, "digits"))


def test_unexpected_exception_ends_the_watch(
    running: ClusterNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_watches(ZeroDivisionError("a bug"), 1, monkeypatch)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        play(running, lambda here: wait.wait(here, "digits"))


def test_idle_watch_sends_no_requests(running: ClusterNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait needs one list and one watch."""
    asked: list[str] = []
    pages, watch = Reflector._pages, Reflector._watch

    async def listed(self: Reflector, size: int) -> object:
        asked.append("list")
        return await pages(self, size)

    async def watched(self: Reflector) -> None:
        asked.append("watch")
        await watch(self)

    monkeypatch.setattr(Reflector, "_pages", listed)
    monkeypatch.setattr(Reflector, "_watch", watched)
    changes: list[JobState] = []

    async def story(here: Connection) -> None:
        framework = await lookup.find(here, "digits")
        done = asyncio.create_task(
            wait.wait_for(here, framework, on_change=lambda view: changes.append(view.state))
        )
        while not changes:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(running.end_pod, "digits-worker-0")
        assert (await done).state is JobState.SUCCEEDED

    play(running, story)
    assert asked == ["list", "watch"]
