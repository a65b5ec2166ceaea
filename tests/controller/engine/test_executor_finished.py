"""A finished Framework leaves the cache until it expires."""

import tracemalloc
from datetime import timedelta

import builders
import msgspec
import pytest
from builders import NOW
from tests.controller.benches import Bench

from windlass.controller.engine.api import RequestError, UnknownOutcomeError
from windlass.controller.engine.executor import MAX_FINISHED_SLEEP
from windlass.controller.engine.keys import key_of
from windlass.decide import initial_status
from windlass.model.framework import CompletedPods, Framework
from windlass.model.states import State

TTL = 100_000


def completed(version: str = "50", ttl: int = TTL, uid: str = "fw-1") -> Framework:
    made = builders.framework(
        "job",
        builders.role("worker", 2),
        uid=uid,
        resource_version=version,
        completed_pods=CompletedPods.DELETE,
        ttl_seconds_after_finished=ttl,
    )
    status = initial_status.framework_status(made, NOW)
    return made.with_status(
        msgspec.structs.replace(status, state=State.COMPLETED, start_time=NOW, completion_time=NOW)
    )


def finished() -> Bench:
    bench = Bench(completed())
    while bench.cache.framework(bench.key) is not None:
        bench.api.stored = bench.cache.framework(bench.key)
        bench.run()
    return bench


def test_finished_framework_leaves_the_cache_and_is_counted() -> None:
    bench = finished()
    assert not list(bench.cache.keys())
    assert bench.cache.finished_counts() == (1, 2)
    remembered = bench.cache.finished(bench.key)
    assert remembered is not None
    assert remembered.expires_at == NOW + timedelta(seconds=TTL)


def test_framework_with_objects_stays_in_the_cache() -> None:
    framework = completed()
    assert framework.status is not None
    bench = Bench(framework)
    bench.cache.put(builders.pod(framework, framework.status.attempt_status.roles[0].task_statuses[0]))
    for _ in range(3):
        bench.run()
    assert bench.cache.framework(bench.key) is not None


def test_nothing_is_requested_before_it_expires() -> None:
    bench = finished()
    wakes = 0
    while bench.seconds < TTL - MAX_FINISHED_SLEEP:
        assert bench.run_when_due() == []
        wakes += 1
    assert wakes <= TTL / MAX_FINISHED_SLEEP + 2


def test_expired_framework_is_read_and_deleted() -> None:
    bench = finished()
    bench.wait(TTL)
    assert bench.run() == ["read", "delete Framework", "announce"]


def test_framework_that_is_gone_when_it_expires_is_forgotten() -> None:
    bench = finished()
    bench.api.is_unknown = True
    bench.wait(TTL)
    assert bench.run() == ["read"]
    assert bench.cache.finished_counts() == (0, 0)
    assert bench.run() == []


@pytest.mark.parametrize("error", [UnknownOutcomeError()])
def test_failed_read_is_retried(error: RequestError) -> None:
    bench = finished()
    bench.api.errors["read"] = error
    bench.wait(TTL)
    assert bench.run() == ["read"]
    bench.api.errors.clear()
    assert bench.run_when_due() == ["read", "delete Framework", "announce"]


def test_event_about_the_finished_version_is_ignored() -> None:
    bench = finished()
    assert bench.api.stored is not None
    version = bench.api.stored.metadata.resource_version
    assert bench.cache.has_version(bench.key, version)
    assert not bench.cache.put_framework(bench.api.stored)
    assert not list(bench.cache.keys())


def test_changed_framework_returns_to_the_cache() -> None:
    bench = finished()
    assert bench.cache.put_framework(completed("999", ttl=0))
    assert bench.cache.finished(bench.key) is None
    assert bench.run()[-2:] == ["delete Framework", "announce"]


def test_deleted_framework_is_forgotten_and_its_name_can_be_reused() -> None:
    bench = finished()
    assert bench.api.stored is not None
    metadata = msgspec.structs.replace(bench.api.stored.metadata, resource_version="500")
    bench.cache.remove_framework(msgspec.structs.replace(bench.api.stored, metadata=metadata))
    assert bench.cache.finished_counts() == (0, 0)
    new = builders.framework("job", builders.role("worker", 1), uid="fw-2", resource_version="501")
    assert bench.cache.put_framework(new)
    assert bench.run() == ["create ConfigMap"]


MANY = 200
MAX_BYTES = 1500
"""A hundred thousand finished Frameworks then need less than 150 MB."""


def test_finished_frameworks_need_little_memory() -> None:
    bench = finished()
    assert bench.api.stored is not None
    body = msgspec.json.decode(msgspec.json.encode(bench.api.stored))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(MANY):
            body["metadata"].update(name=f"job-{number}", uid=f"uid-{number}")
            framework = msgspec.json.decode(msgspec.json.encode(body), type=Framework)
            bench.cache.put_framework(framework)
            bench.key = key_of(framework)
            bench.run()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bench.cache.finished_counts()[0] == MANY + 1
    assert (after - before) / MANY <= MAX_BYTES
