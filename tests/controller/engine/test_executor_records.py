"""The record of an attempt is written once, after the status, and never delays or fails the job."""

import builders
import pytest
from tests.controller.benches import Bench

from windlass.controller.engine.actions import MAX_RECORD_ATTEMPTS
from windlass.controller.engine.port import (
    AlreadyExistsError,
    NotFoundError,
    RefusedError,
    RequestError,
    UnknownOutcomeError,
)
from windlass.decide.types import Rules
from windlass.model.failures import ApiFailure
from windlass.model.framework import CompletedPods, RetryPolicySpec
from windlass.model.states import State

THROTTLED = RefusedError(ApiFailure(429, "TooManyRequests", "slow down"))
QUOTA = RefusedError(ApiFailure(403, "Forbidden", "exceeded quota: records"))


@pytest.fixture
def ended() -> Bench:
    """Return an executor whose only pod has just succeeded, and is kept."""
    role = builders.role("worker", 1)
    framework = builders.framework("job", role, completed_pods=CompletedPods.KEEP)
    bench = Bench(framework, rules=Rules(keeps_records=True))
    for _ in range(2):
        bench.run()
        bench.show()
    bench.set_phases("Succeeded")
    return bench


def test_record_is_written_after_the_status_is_stored(ended: Bench) -> None:
    assert ended.run() == ["store Completed", "record attempt 0", "announce"]
    assert ended.run() == []
    (record,) = ended.port.records
    assert record.framework.status is not None
    assert record.framework.status.state is State.COMPLETED


@pytest.mark.parametrize(
    "error", [QUOTA, NotFoundError("no definition")], ids=["quota", "missing definition"]
)
def test_rejected_record_is_reported_and_not_retried(ended: Bench, error: RequestError) -> None:
    ended.port.errors["record attempt 0"] = error
    assert ended.run() == ["store Completed", "record attempt 0", "lost record 0", "announce"]
    assert ended.run() == []
    assert ended.state is State.COMPLETED


def test_existing_record_counts_as_written(ended: Bench) -> None:
    ended.port.errors["record attempt 0"] = AlreadyExistsError()
    assert ended.run() == ["store Completed", "record attempt 0", "announce"]
    assert ended.run() == []


@pytest.mark.parametrize("error", [UnknownOutcomeError(), THROTTLED], ids=["unknown outcome", "throttled"])
def test_unanswered_record_is_retried_with_backoff_up_to_a_limit(ended: Bench, error: RequestError) -> None:
    ended.port.errors["record attempt 0"] = error
    assert ended.run() == ["store Completed", "record attempt 0", "announce"]
    assert ended.run() == [], "not at once"
    for _ in range(MAX_RECORD_ATTEMPTS - 2):
        assert ended.run_when_due() == ["record attempt 0"]
    assert ended.run_when_due() == ["record attempt 0", "lost record 0"]
    assert ended.run() == []


def test_failures_are_reported_after_the_status_is_stored_and_before_pods_are_deleted() -> None:
    """So that their logs can be read."""
    role = builders.role("worker", 1, retry=RetryPolicySpec(max_retry_count=1))
    bench = Bench(builders.framework("job", role), rules=Rules(keeps_records=True))
    for _ in range(2):
        bench.run()
        bench.show()
    bench.set_phases("Failed")
    calls = bench.run()
    assert bench.stored_failures == [("job-worker-0", ("store AttemptPreparing",))]
    assert "delete job-worker-0" in [*calls, *bench.run()]
    assert len(bench.stored_failures) == 1


def test_restarted_controller_writes_the_missing_record(ended: Bench) -> None:
    """The status is stored, and the next controller finds a completed Framework."""
    ended.port.errors["record attempt 0"] = RequestError("the process was killed")
    assert ended.run() == ["store Completed", "record attempt 0", "announce"]
    framework = ended.cache.framework(ended.key)
    assert framework is not None
    successor = Bench(framework, rules=Rules(keeps_records=True))
    for found in (*ended.cache.observe(ended.key, builders.NOW, 0.0).pods.values(),):
        successor.cache.put(found)
    assert "record attempt 0" in successor.run()
    assert "record attempt 0" not in successor.run()
