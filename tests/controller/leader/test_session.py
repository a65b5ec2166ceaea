"""A leader session on the embedded API server: start, missing permissions and definitions, end."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from tests.controller import embedded
from tests.controller.embedded import Cluster
from tests.controller.http_apis import revoked_guard

from windlass.controller import definitions
from windlass.controller.definitions import Problem
from windlass.controller.engine.informers import HistoryError
from windlass.controller.engine.lease_guard import LeaseGuard, unrestricted
from windlass.controller.engine.system_clock import SystemClock
from windlass.controller.leader import session
from windlass.controller.leader.session import LeaderSession
from windlass.controller.observe.metrics import Metrics
from windlass.controller.observe.observers import Observers
from windlass.kubeapi import errors
from windlass.kubeapi.requests import Verb
from windlass.kubeapi.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, PODS, Resource, frameworks
from windlass.kubeapi.transport import Transport
from windlass.model.names import CONTROLLER_GROUP, GROUPS, LAUNCHER_GROUP
from windlass.model.settings import LogObjectSnapshot, Settings

GANGS = "gangs.windlass.dev"
DEFINED = sorted([*(f"frameworks.{group}" for group in GROUPS), GANGS])


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(session, "RECHECK_SEC", 0.02)
    monkeypatch.setattr(definitions, "RETRY_SEC", 0.02)
    caplog.set_level(logging.INFO, "windlass")


@asynccontextmanager
async def prepared(
    cluster: Cluster, settings: Settings | None = None, guard: LeaseGuard | None = None
) -> AsyncIterator[LeaderSession]:
    clock = SystemClock()
    metrics = Metrics(clock, frameworks=lambda: (), queue_depth=lambda: 0, is_leader=lambda: True)
    observers = Observers(metrics, None, LogObjectSnapshot(), None, SystemClock())
    async with Transport(cluster.access) as transport:
        yield LeaderSession(
            settings or Settings(),
            transport,
            guard or unrestricted(),
            observers,
            clock,
            field_manager="windlass-test",
        )


@asynccontextmanager
async def begun(
    cluster: Cluster, settings: Settings | None = None, guard: LeaseGuard | None = None
) -> AsyncIterator[LeaderSession]:
    async with prepared(cluster, settings, guard) as made:
        running = asyncio.create_task(made.run())
        try:
            yield made
            assert not running.done(), running.result()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def test_no_write_before_everything_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("job")
        cluster.sent.hold(lambda request: request.resource == PODS)
        async with begun(cluster) as made:
            await cluster.until(lambda: bool(cluster.sent.of(PODS)))
            assert made.cache.framework(next(made.cache.keys())) is not None
            await cluster.submit("another")
            await cluster.until(lambda: len(list(made.cache.keys())) == 2)
            assert cluster.sent.writes() == []
            assert made.not_ready_reason == "the objects are not listed yet"
            cluster.sent.let_go_on()
            await cluster.until_pods("another-worker-0", "job-worker-0")
            assert made.not_ready_reason == ""

    embedded.play(monkeypatch, story)


def test_missing_definitions_are_reported_until_they_exist(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Cluster) -> None:
        async with begun(cluster) as made:
            looks = 2 * len(DEFINED)
            await cluster.until(lambda: len(cluster.sent.of(CUSTOM_RESOURCE_DEFINITIONS)) > looks)
            assert all(f"frameworks.{group} is missing" in made.not_ready_reason for group in GROUPS)
            assert "windlass install --crds-only --apply" in made.not_ready_reason
            assert cluster.sent.writes() == []
            await cluster.define()
            await cluster.submit("job")
            await cluster.until_pods("job-worker-0")
            assert made.not_ready_reason == ""

    embedded.play(monkeypatch, story)
    said = [record for record in caplog.records if "is missing" in record.getMessage()]
    assert len(said) == len(DEFINED), "once, however often it is looked at"


def test_missing_gang_definition_is_reported_and_jobs_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Frameworks that ask for no barrier have nothing to do with them."""

    async def story(cluster: Cluster) -> None:
        await cluster.define(*GROUPS)
        await cluster.submit("job")
        async with begun(cluster) as made:
            await cluster.until_pods("job-worker-0")
            assert made.not_ready_reason == ""

    embedded.play(monkeypatch, story)
    (said,) = (record.getMessage() for record in caplog.records if "is missing" in record.getMessage())
    assert said.startswith(f"CustomResourceDefinition {GANGS} is missing: jobs with a barrier never start")


def test_each_group_runs_as_soon_as_its_definition_exists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define(CONTROLLER_GROUP)
        await cluster.submit("job")
        async with begun(cluster) as made:
            await cluster.until_pods("job-worker-0")
            assert made.not_ready_reason == ""
            assert cluster.sent.of(frameworks(LAUNCHER_GROUP)) == []
            await cluster.define(LAUNCHER_GROUP)
            await cluster.submit("other", LAUNCHER_GROUP)
            await cluster.until_pods("job-worker-0", "other-worker-0")

    embedded.play(monkeypatch, story)


def test_definitions_are_created_if_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: Cluster) -> None:
        async with begun(cluster, Settings(manage_crds=True)) as made:
            await cluster.until(lambda: made.not_ready_reason == "")
            assert await cluster.definitions() == DEFINED
            await cluster.submit("job")
            await cluster.until_pods("job-worker-0")

    embedded.play(monkeypatch, story)


def test_definitions_are_not_created_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: Cluster) -> None:
        async with begun(cluster):
            await cluster.until(lambda: bool(cluster.sent.of(PODS, Verb.WATCH)))
            assert await cluster.definitions() == []

    embedded.play(monkeypatch, story)


def failing_to_manage(error: errors.ApiError) -> Callable[..., Awaitable[tuple[str, ...]]]:
    """The first time."""
    manage = definitions.manage
    left = [error]

    async def managed(*arguments: Any, **options: Any) -> tuple[str, ...]:
        if left:
            raise left.pop()
        return await manage(*arguments, **options)

    return managed


@pytest.mark.parametrize("error", [errors.from_response(503, {}, b""), errors.NoValidResponseError("cut")])
def test_failed_definition_update_is_retried(monkeypatch: pytest.MonkeyPatch, error: errors.ApiError) -> None:
    monkeypatch.setattr(definitions, "manage", failing_to_manage(error))

    async def story(cluster: Cluster) -> None:
        async with begun(cluster, Settings(manage_crds=True)) as made:
            await cluster.until(lambda: made.not_ready_reason == "")
            assert await cluster.definitions() == DEFINED

    embedded.play(monkeypatch, story)


@pytest.mark.parametrize("code", [403, 422])
def test_forbidden_definition_update_is_raised(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    refusal = errors.from_response(code, {}, b"")
    monkeypatch.setattr(definitions, "manage", failing_to_manage(refusal))

    async def story(cluster: Cluster) -> None:
        async with prepared(cluster, Settings(manage_crds=True)) as made:
            with pytest.raises(type(refusal)):
                await made.run()
        assert cluster.sent.requests == []

    embedded.play(monkeypatch, story)


def failing_once(error: errors.ApiError) -> Callable[..., Awaitable[tuple[Problem, ...]]]:
    check = definitions.check
    left = [error]

    async def checked(send: definitions.Send, **options: Any) -> tuple[Problem, ...]:
        if left:
            raise left.pop()
        return await check(send, **options)

    return checked


@pytest.mark.parametrize("code", [403, 500])
def test_unreadable_definitions_are_ignored(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """One who may not read them finds out by listing Frameworks; whatever else it is passes."""
    monkeypatch.setattr(definitions, "check", failing_once(errors.from_response(code, {}, b"")))

    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("job")
        async with begun(cluster):
            await cluster.until_pods("job-worker-0")

    embedded.play(monkeypatch, story)


def test_missing_definition_is_detected_without_permission_to_read_definitions(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def forbidden(_: definitions.Send, **__: Any) -> tuple[Problem, ...]:
        raise errors.from_response(403, {}, b"")

    monkeypatch.setattr(definitions, "check", forbidden)

    async def story(cluster: Cluster) -> None:
        await cluster.define(CONTROLLER_GROUP)
        await cluster.submit("job")
        async with begun(cluster) as made:
            await cluster.until_pods("job-worker-0")
            assert made.not_ready_reason == ""
            assert cluster.sent.of(frameworks(LAUNCHER_GROUP), Verb.WATCH) == []
            await cluster.define(LAUNCHER_GROUP)
            await cluster.submit("other", LAUNCHER_GROUP)
            await cluster.until_pods("job-worker-0", "other-worker-0")

    embedded.play(monkeypatch, story)
    told = f"Frameworks of {LAUNCHER_GROUP} are not served"
    assert len([record for record in caplog.records if told in record.getMessage()]) == 1, "once"


@pytest.mark.parametrize("resource", [frameworks(CONTROLLER_GROUP), CONFIG_MAPS, PODS])
def test_server_restored_from_backup_ends_the_session(
    monkeypatch: pytest.MonkeyPatch, resource: Resource
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        embedded.restore_once(monkeypatch, resource).set()
        async with prepared(cluster) as made:
            with pytest.raises(HistoryError, match="the API server went back from resourceVersion"):
                await made.run()
        assert cluster.sent.open_streams == 0

    embedded.play(monkeypatch, story)


def test_only_configured_namespaces_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("job", namespace="kube-system")
        await cluster.submit("job")
        async with begun(cluster, Settings(namespaces=("default",))):
            await cluster.until_pods("job-worker-0")
        asked = {
            request.namespace
            for request in cluster.sent.requests
            if request.resource != CUSTOM_RESOURCE_DEFINITIONS
        }
        assert asked == {"default"}
        assert await cluster.pods("kube-system") == []

    embedded.play(monkeypatch, story)


def test_finish_starts_no_new_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        async with begun(cluster) as made:
            await cluster.until(lambda: made.not_ready_reason == "")
            await made.finish(embedded.PATIENCE_SECONDS)
            await cluster.submit("job")
            await cluster.until(lambda: len(list(made.cache.keys())) == 1)
            await cluster.until(lambda: len(made.queue) == 1)
            assert cluster.sent.writes() == []

    embedded.play(monkeypatch, story)


def test_revoked_lease_allows_watches_but_no_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("job")
        async with begun(cluster, guard=revoked_guard()) as made:
            # A pass that may do nothing is put off.
            await cluster.until(lambda: made.queue.next_time() is not None)
            assert cluster.sent.writes() == []

    embedded.play(monkeypatch, story)
