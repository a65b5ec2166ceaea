"""Decisions about a Job, by its pods, its status and the time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.localcluster.controllers.workloads.samples import acts, at, pod, tracked, workload, written

from windlass.localcluster.controllers.workloads import jobs, templates
from windlass.localcluster.controllers.workloads.decisions import Create
from windlass.localcluster.controllers.workloads.observed import TRACKING, Pod

STARTED = {"startTime": written(0)}


def job(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    usual = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed"}
    return workload("Job", {**usual, **spec}, STARTED if status is None else status)


def indexed(completions: int, parallelism: int, status: dict[str, Any] | None = None, **spec: Any) -> Any:
    return job(status, completionMode="Indexed", completions=completions, parallelism=parallelism, **spec)


STEPS: dict[str, tuple[dict[str, Any], list[Pod], list[str]]] = {
    "the first pod": (job({}), [], ["create w-"]),
    "as many as may run at once": (job(parallelism=2, completions=5), [], ["create w-"] * 2),
    "no more than are needed": (job(parallelism=9, completions=2), [], ["create w-"] * 2),
    "while they run": (job(), [tracked("a")], []),
    "the next when one has succeeded": (
        job(completions=2),
        [tracked("a", "Succeeded", ended=1)],
        ["count a", "create w-"],
    ),
    "a failure is waited for": (job(), [tracked("a", "Failed", ended=99)], ["count a"]),
    "and then tried again": (job(), [pod("a", "Failed", ended=80)], ["create w-"]),
    "a queue": (job(parallelism=2, completions=None), [tracked("a")], ["create w-"]),
    "a queue that one has found empty": (
        job(parallelism=2, completions=None),
        [tracked("a"), tracked("b", "Succeeded", ended=1)],
        ["count b"],
    ),
    "fewer at once than before": (
        job(parallelism=1, completions=3),
        [tracked("old", created=1, ready=2), tracked("young", created=3, ready=4)],
        ["count young", "delete young"],
    ),
    "one without a node goes first": (
        job(parallelism=1, completions=3),
        [tracked("old", "Pending", created=1, has_node=False), tracked("young", created=3, ready=4)],
        ["count old", "delete old"],
    ),
    "none at once": (job(parallelism=0), [], []),
    "a deleted pod counts as failed": (job(), [tracked("a", deleted=95)], ["count a"]),
    "a deleted pod is waited for where that is asked": (
        job(podReplacementPolicy="Failed"),
        [tracked("a", deleted=80)],
        [],
    ),
    "indexes, the lowest first": (indexed(3, 2), [], ["create w-0-", "create w-1-"]),
    "the next index": (
        indexed(3, 2),
        [tracked("a", index=0), tracked("b", "Succeeded", index=1, ended=1)],
        ["count b", "create w-2-"],
    ),
    "an index that was done before": (
        indexed(3, 3, {**STARTED, "completedIndexes": "1", "succeeded": 1}),
        [],
        ["create w-0-", "create w-2-"],
    ),
    "an index again": (indexed(2, 2), [tracked("a", index=0), pod("b", "Failed", index=1)], ["create w-1-"]),
    "two of one index": (
        indexed(2, 2),
        [tracked("a", index=0, ready=1), tracked("b", index=0), tracked("c", index=1)],
        ["count b", "delete b"],
    ),
    "suspended": (job(suspend=True), [tracked("a")], ["count a", "delete a"]),
    "managed by another controller": (job({}, managedBy="example.com/queue"), [], []),
    "a pod that is no longer needed because enough have succeeded": (
        job(parallelism=2, completions=1),
        [tracked("a", "Succeeded", ended=1), tracked("b")],
        ["count a", "count b", "delete b"],
    ),
    "too many failures": (
        job(parallelism=2, completions=2, backoffLimit=0),
        [tracked("a", "Failed", ended=1), tracked("b")],
        ["count a", "delete b"],
    ),
    "restarts count, too": (
        job(backoffLimit=2),
        [tracked("a", restarts=2, restarts_on_failure=True)],
        ["delete a"],
    ),
    "too late": (job(activeDeadlineSeconds=100), [tracked("a")], ["delete a"]),
    "not yet too late": (job(activeDeadlineSeconds=101), [tracked("a")], []),
}


@pytest.mark.parametrize(("body", "pods", "expected"), STEPS.values(), ids=STEPS)
def test_actions(body: dict[str, Any], pods: list[Pod], expected: list[str]) -> None:
    assert acts(jobs.decide(body, pods, at(100))) == expected


ENDS: dict[str, tuple[dict[str, Any], list[Pod], list[tuple[str, str]]]] = {
    "complete": (
        job(),
        [tracked("a", "Succeeded", ended=1)],
        [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")],
    ),
    "nothing to do": (
        job(completions=0),
        [],
        [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")],
    ),
    "a queue is done": (
        job(completions=None),
        [tracked("a", "Succeeded", ended=1)],
        [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")],
    ),
    "failed": (
        job(backoffLimit=0),
        [tracked("a", "Failed", ended=1)],
        [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")],
    ),
    "the last failure that is allowed": (job(backoffLimit=1), [tracked("a", "Failed", ended=99)], []),
    "late, and its pods still end": (
        job(activeDeadlineSeconds=1),
        [tracked("a", deleted=99)],
        [("FailureTarget", "DeadlineExceeded")],
    ),
    "late": (
        job(activeDeadlineSeconds=1),
        [],
        [("FailureTarget", "DeadlineExceeded"), ("Failed", "DeadlineExceeded")],
    ),
    "a policy that is not known here": (
        job(podFailurePolicy={"rules": []}),
        [],
        [("FailureTarget", "NotSupported"), ("Failed", "NotSupported")],
    ),
    "suspended": (job(suspend=True), [], [("Suspended", "JobSuspended")]),
}


@pytest.mark.parametrize(("body", "pods", "expected"), ENDS.values(), ids=ENDS)
def test_conditions(body: dict[str, Any], pods: list[Pod], expected: list[tuple[str, str]]) -> None:
    status = jobs.decide(body, pods, at(100)).status
    assert status is not None
    found = status.get("conditions", [])
    assert [(one["type"], one["reason"]) for one in found] == expected
    assert all(one["status"] == "True" for one in found)


def test_status_counts_pods() -> None:
    pods = [
        tracked("a", "Succeeded", ended=1),
        tracked("b", "Failed", ended=2),
        tracked("c", ready=3),
        tracked("d", deleted=99),
        pod("counted before", "Succeeded", ended=1),
    ]
    status = jobs.decide(job({**STARTED, "succeeded": 1}, completions=9, parallelism=2), pods, at(100)).status
    assert status == {
        "startTime": written(0),
        "active": 1,
        "succeeded": 2,
        "failed": 2,
        "ready": 1,
        "terminating": 1,
        "uncountedTerminatedPods": {},
    }


def test_each_index_is_counted_once() -> None:
    body = indexed(3, 3, {**STARTED, "completedIndexes": "0", "succeeded": 1})
    pods = [tracked("a", "Succeeded", index=0, ended=1), tracked("b", "Succeeded", index=2, ended=1)]
    status = jobs.decide(body, pods, at(100)).status or {}
    assert (status["completedIndexes"], status["succeeded"]) == ("0,2", 2)


def test_finished_job_is_deleted_after_its_ttl() -> None:
    ended = jobs.decide(job(), [tracked("a", "Succeeded", ended=1)], at(100)).status
    body = job(ended, ttlSecondsAfterFinished=10)
    before = jobs.decide(body, [], at(109))
    assert (acts(before), before.wake_at) == ([], at(110))
    assert acts(jobs.decide(body, [], at(110))) == ["delete w"]


def test_resumed_job_gets_its_full_deadline() -> None:
    suspended = jobs.decide(job(suspend=True), [], at(50)).status
    resumed = jobs.decide(job(suspended, activeDeadlineSeconds=60), [], at(200))
    assert resumed.status is not None
    assert resumed.status["startTime"] == written(200)
    assert [(one["type"], one["status"]) for one in resumed.status["conditions"]] == [("Suspended", "False")]
    assert resumed.wake_at == at(260)
    assert acts(resumed) == ["create w-"]


def test_deleted_job_releases_its_pods() -> None:
    body = job()
    body["metadata"]["deletionTimestamp"] = written(1)
    assert acts(jobs.decide(body, [tracked("a"), pod("b")], at(100))) == ["count a"]


def test_indexed_pod_knows_its_index() -> None:
    made = jobs.decide(indexed(5, 5, {**STARTED, "completedIndexes": "0-3"}), [], at(0)).actions[0]
    assert isinstance(made, Create)
    meta, spec = made.body["metadata"], made.body["spec"]
    assert meta["generateName"] == "w-4-"
    assert meta["labels"][templates.INDEX] == meta["annotations"][templates.INDEX] == "4"
    assert meta["finalizers"] == [TRACKING]
    assert [(one["uid"], one["controller"]) for one in meta["ownerReferences"]] == [("uid-w", True)]
    assert spec["hostname"] == "w-4"
    (variable,) = spec["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.annotations['{templates.INDEX}']"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (set(), ""),
        ({0}, "0"),
        ({0, 1}, "0,1"),
        ({0, 1, 2}, "0-2"),
        ({7, 1, 3, 4, 5}, "1,3-5,7"),
        ({0, 1, 2, 9, 10}, "0-2,9,10"),
    ],
)
def test_indexes_are_formatted_as_ranges(found: set[int], text: str) -> None:
    assert jobs.format_indexes(found) == text


@given(st.sets(st.integers(0, 50)))
def test_formatted_indexes_are_parsed_back(found: set[int]) -> None:
    assert jobs.parse_indexes(jobs.format_indexes(found), 51) == found


def test_indexes_beyond_the_completions_are_ignored() -> None:
    assert jobs.parse_indexes("0-5,8", 3) == {0, 1, 2}
