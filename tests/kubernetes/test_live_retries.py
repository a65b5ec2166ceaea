"""Retries: conditions, numbers and pods (statements 24 to 29).

All jobs are submitted at once and checked one by one. A task reads its attempt from its environment.
"""

from collections.abc import Iterator

import msgspec
import pytest
from live import external_changes, job_batches
from live.clusters import Cluster
from live.external_changes import Act
from live.jobs import FOREVER, framework, role
from live.place import Place
from operated.place import completion_of, status_of, tasks_of

from conformance.client import Json

TASK, FRAMEWORK = "FC_TASK_ATTEMPT_ID", "FC_FRAMEWORK_ATTEMPT_ID"


def until(attempt: int, variable: str, before: str, then: str = "exit 0") -> str:
    return f'[ "${variable}" -lt {attempt} ] && {{ {before}; }}; {then}'


def limit(count: int, *, fancy: bool = False) -> Json:
    return {"maxRetryCount": count, "fancyRetryPolicy": fancy}


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    code: int
    framework: tuple[int, int] = (0, 0)
    """All retries, and the counted ones."""
    task: tuple[int, int] = (0, 0)
    """Retries of the first worker in the last attempt."""
    made: int
    """Number of pods of the first worker in total."""


CASES: dict[str, tuple[Json, Retries]] = {
    # 26: whole attempts
    "none": (framework("none", role(script="exit 1")), Retries(code=1, made=1)),
    "all-are-used": (
        framework("all-are-used", role(tasks=2, script="exit 1", min_failed=2), retryPolicy=limit(2)),
        Retries(code=1, framework=(2, 2), made=3),
    ),
    "one-is-enough": (
        framework("one-is-enough", role(script=until(1, FRAMEWORK, "exit 1")), retryPolicy=limit(5)),
        Retries(code=0, framework=(1, 1), made=2),
    ),
    "until-success": (
        framework("until-success", role(script=until(2, FRAMEWORK, "exit 1")), retryPolicy=limit(-1)),
        Retries(code=0, framework=(2, 2), made=3),
    ),
    "success-is-enough": (
        framework("success-is-enough", role(retry=limit(-1)), retryPolicy=limit(-1)),
        Retries(code=0, made=1),
    ),
    # 26: single tasks, while the others of the attempt continue
    "task-all-are-used": (
        framework("task-all-are-used", role(script="exit 1", retry=limit(1)), role("ps", script=FOREVER)),
        Retries(code=1, task=(1, 1), made=2),
    ),
    "task-until-success": (
        framework("task-until-success", role(script=until(2, TASK, "exit 1"), retry=limit(-1))),
        Retries(code=0, task=(2, 2), made=3),
    ),
    # 29: the task counts restart with the attempt.
    "both": (
        framework("both", role(script="exit 1", retry=limit(1)), retryPolicy=limit(1)),
        Retries(code=1, framework=(1, 1), task=(1, 1), made=4),
    ),
    # 25
    "transient": (
        framework(
            "transient", role(script=until(2, FRAMEWORK, "exit 200")), retryPolicy=limit(0, fancy=True)
        ),
        Retries(code=0, framework=(2, 0), made=3),
    ),
    "transient-by-signal": (
        framework("transient-by-signal", role(script=until(1, TASK, "exit 137"), retry=limit(0, fancy=True))),
        Retries(code=0, task=(1, 0), made=2),
    ),
    "transient-and-then-not": (
        framework(
            "transient-and-then-not",
            role(script=until(1, TASK, "exit 200", "exit 1"), retry=limit(1, fancy=True)),
        ),
        Retries(code=1, task=(2, 1), made=3),
    ),
    "permanent": (
        framework("permanent", role(script="exit 210"), retryPolicy=limit(5, fancy=True)),
        Retries(code=210, made=1),
    ),
    "permanent-by-signal": (
        framework("permanent-by-signal", role(script="exit 139", retry=limit(-2, fancy=True))),
        Retries(code=139, made=1),
    ),
    "permanent-but-not-fancy": (
        framework(
            "permanent-but-not-fancy", role(script=until(1, FRAMEWORK, "exit 210")), retryPolicy=limit(1)
        ),
        Retries(code=0, framework=(1, 1), made=2),
    ),
    # A5
    "transient-with-an-end": (
        framework(
            "transient-with-an-end",
            role(script="exit 200"),
            retryPolicy={**limit(0, fancy=True), "maxTransientRetryCount": 1},
        ),
        Retries(code=200, framework=(1, 0), made=2),
    ),
}

ALWAYS = [
    # The policy, and how the second attempt differs from the first, which succeeded.
    framework("again", role(script=until(1, FRAMEWORK, "exit 0", FOREVER)), retryPolicy=limit(-2)),
    framework("task-again", role(script=until(1, TASK, "exit 0", FOREVER), retry=limit(-2))),
]


FROM_OUTSIDE: dict[str, tuple[Act, Json, tuple[int, int], tuple[int, int]]] = {
    # The external change, and the expected retries of Framework and task.
    "pod-deleted": (
        external_changes.delete_pod,
        framework("pod-deleted", role(script=until(1, TASK, FOREVER), retry=limit(0, fancy=True))),
        (0, 0),
        (1, 0),
    ),
    "pod-evicted": (
        external_changes.evict_pod,
        framework("pod-evicted", role(script=until(1, TASK, FOREVER), retry=limit(1))),
        (0, 0),
        (1, 1),
    ),
    "config-map-deleted": (
        external_changes.delete_config_map,
        framework(
            "config-map-deleted",
            role(script=until(1, FRAMEWORK, FOREVER)),
            retryPolicy=limit(0, fancy=True),
        ),
        (1, 0),
        (0, 0),
    ),
}


@pytest.fixture(scope="module")
def submitted(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    bodies = [body for _, body, _, _ in FROM_OUTSIDE.values()] + ALWAYS
    bodies += [body for body, _ in CASES.values()]
    with job_batches.submitted(cluster, tmp_path_factory, "retries", bodies) as place:
        yield place


def _retries(status: Json) -> tuple[int, int]:
    counts = status["retryPolicyStatus"]
    return counts["totalRetriedCount"], counts["accountableRetriedCount"]


@pytest.mark.parametrize("name", FROM_OUTSIDE)
def test_deleted_objects_are_recreated(submitted: Place, name: str) -> None:
    """With a new pod of another UID."""
    act, _, of_framework, of_task = FROM_OUTSIDE[name]
    before = tasks_of(submitted.wait_for_running(name, 1))[0]["attemptStatus"]
    act(submitted, name)
    found = submitted.wait_for_completed(name)
    assert completion_of(found)["code"] == 0
    assert (_retries(status_of(found)), _retries(tasks_of(found)[0])) == (of_framework, of_task)
    after = tasks_of(found)[0]["attemptStatus"]
    assert after["podName"] == before["podName"]
    assert after["podUID"] != before["podUID"]
    assert after["instanceUID"] == f"{of_task[0]}_{after['podUID']}"
    job_batches.wait_for_pods_made(submitted, name, {"worker-0": 2})


@pytest.mark.parametrize("name", CASES)
def test_retries_follow_the_policy(submitted: Place, name: str) -> None:
    expected = CASES[name][1]
    found = submitted.wait_for_completed(name)
    assert completion_of(found)["code"] == expected.code
    assert _retries(status_of(found)) == expected.framework
    assert _retries(tasks_of(found)[0]) == expected.task
    assert found["status"]["attemptStatus"]["id"] == expected.framework[0]
    assert tasks_of(found)[0]["attemptStatus"]["id"] == expected.task[0]
    assert not submitted.pods(name)
    workers = len(tasks_of(found))
    job_batches.wait_for_pods_made(
        submitted, name, {f"worker-{each}": expected.made for each in range(workers)}
    )


@pytest.mark.parametrize("name", ["again", "task-again"])
def test_success_is_retried_if_the_policy_says_so(submitted: Place, name: str) -> None:
    """26; a stopped one is not (24)."""
    submitted.wait(name, lambda body: _retries_of_both(body) == [(0, 0), (1, 1)], "a second attempt")
    submitted.wait_for_running(name, 1)
    submitted.change(name, {"executionType": "Stop"})
    found = submitted.wait_for_completed(name)
    assert completion_of(found)["code"] == -210
    assert _retries_of_both(found) == [(0, 0), (1, 1)]


def _retries_of_both(framework: Json) -> list[tuple[int, int]]:
    """Return the retries of the Framework and of its task, fewer first."""
    if not status_of(framework):
        return []
    return sorted([_retries(status_of(framework)), _retries(tasks_of(framework)[0])])


def test_job_waiting_for_its_retry_can_be_stopped(place: Place) -> None:
    """27 and 28: after a conflict a Framework waits for a minute or more, unless it is stopped."""
    place.submit(framework("conflict", role(script="exit 201"), retryPolicy=limit(0, fancy=True)))
    found = place.wait("conflict", lambda body: _delay(body) is not None, "a delay")
    assert 60 <= _delay(found) <= 900
    place.change("conflict", {"executionType": "Stop"})
    found = place.wait_for_completed("conflict")
    assert completion_of(found)["code"] == -210
    assert _retries(status_of(found)) == (1, 0)
    assert _delay(found) is None


def _delay(framework: Json) -> Json:
    return status_of(framework).get("retryPolicyStatus", {}).get("retryDelaySec")
