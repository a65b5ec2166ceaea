"""Jobs from their submission to their end: what came of them, what was made for them, and what is left of them.

All are submitted at once, and looked at one by one.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest
from fake_kubelet import history
from operated import jobs
from operated.controllers import Controller
from operated.jobs import FOREVER, PENDING, SUCCEEDS, fails, framework, role
from operated.place import Place, completion_of, condition_of, retries_of, summary_of, tasks_of
from operated.world import World

from windlass.model import names
from windlass.model.base import Json

FANCY = {"fancyRetryPolicy": True}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    code: int = 0
    phrase: str = ""
    made: dict[str, int]
    """Number of pods of each task, by role and index."""
    is_cut_short: bool = False
    """Whether a deadline may pass on a slow machine before all pods exist."""
    left: tuple[str, ...] = ()
    """The tasks whose pods are still there."""
    retries: int = 0
    summary: dict[str, int] | None = None
    task_codes: dict[str, list[int]] = {}


def two(count: int = 1) -> dict[str, int]:
    return {"worker-0": count, "worker-1": count}


AFTER_PS: Json = {"taskRole": "ps", "condition": "Ready"}


def _with_failure_class(worker: Json) -> Json:
    permanent = {"phrase": "Usage", "type": {"attributes": ["Permanent"]}}
    return {**worker, "task": {**worker["task"], "podFailureSpec": [permanent]}}


CASES: dict[str, tuple[Json, Outcome]] = {
    "success": (
        framework("success", role(tasks=2)),
        Outcome(made=two(), summary={"tasks": 2, "running": 0, "succeeded": 2, "failed": 0}),
    ),
    "success-kept": (
        framework("success-kept", role(tasks=2), completedPods="Keep"),
        Outcome(made=two(), left=("worker-0", "worker-1")),
    ),
    "older-group": (
        framework("older-group", role(tasks=2), group=names.LAUNCHER_GROUP),
        Outcome(made=two()),
    ),
    "ps-and-workers": (
        framework("ps-and-workers", role("ps", 1, FOREVER), role("worker", 2, SUCCEEDS, min_succeeded=2)),
        Outcome(made={"ps-0": 1, **two()}, task_codes={"ps": [-220], "worker": [0, 0]}),
    ),
    "ps-and-workers-kept": (
        framework(
            "ps-and-workers-kept",
            role("ps", 1, FOREVER),
            role("worker", 2, SUCCEEDS, min_succeeded=2),
            completedPods="Keep",
        ),
        Outcome(made={"ps-0": 1, **two()}, left=("worker-0", "worker-1"), task_codes={"ps": [-220]}),
    ),
    "failure": (
        framework("failure", role(tasks=1, life=fails(3)), role("other", 1, FOREVER)),
        Outcome(
            code=3,
            phrase="ContainerUnrecognizedFailed",
            made={"worker-0": 1, "other-0": 1},
            task_codes={"worker": [3], "other": [-220]},
        ),
    ),
    "failures-that-do-not-count": (
        framework("failures-that-do-not-count", role(tasks=2, life=fails(3), min_failed=-1)),
        Outcome(made=two(), task_codes={"worker": [3, 3]}),
    ),
    "evicted": (
        framework("evicted", role(life=fails(0, reason="Evicted"))),
        Outcome(code=-1000, made={"worker-0": 1}),
    ),
    "killed-by-a-signal": (
        framework("killed-by-a-signal", role(life=fails(137)), retryPolicy={"maxRetryCount": 0}),
        Outcome(code=137, made={"worker-0": 1}),
    ),
    "task-retry": (
        framework("task-retry", role(life=fails(3), retry={"maxRetryCount": 2}), role("other", 1, FOREVER)),
        Outcome(code=3, made={"worker-0": 3, "other-0": 1}),
    ),
    "framework-retry": (
        framework("framework-retry", role(tasks=2, life=fails(3)), retryPolicy={"maxRetryCount": 2}),
        Outcome(code=3, made=two(3), retries=2),
    ),
    "framework-retry-kept": (
        framework(
            "framework-retry-kept",
            role(tasks=2, life=fails(3), min_failed=2),
            retryPolicy={"maxRetryCount": 1},
            completedPods="Keep",
        ),
        Outcome(code=3, made=two(2), left=("worker-0", "worker-1"), retries=1),
    ),
    "permanent-failure": (
        framework("permanent-failure", role(life=fails(210)), retryPolicy={**FANCY, "maxRetryCount": 5}),
        Outcome(code=210, phrase="ContainerPermanentFailed", made={"worker-0": 1}),
    ),
    "transient-failures": (
        framework(
            "transient-failures",
            role(life=fails(200)),
            retryPolicy={**FANCY, "maxRetryCount": 0, "maxTransientRetryCount": 2},
        ),
        Outcome(code=200, phrase="ContainerTransientFailed", made={"worker-0": 3}, retries=2),
    ),
    "pending-for-too-long": (
        framework("pending-for-too-long", role(tasks=1, life=PENDING), pendingDeadlineSeconds=1),
        Outcome(code=-240, phrase="PendingDeadlineExceeded", made={"worker-0": 1}, is_cut_short=True),
    ),
    "running-for-too-long": (
        framework(
            "running-for-too-long",
            role(tasks=2, life=FOREVER),
            activeDeadlineSeconds=2,
            retryPolicy={"maxRetryCount": -2},
        ),
        Outcome(code=-250, phrase="ActiveDeadlineExceeded", made=two(), is_cut_short=True),
    ),
    "start-order": (
        framework(
            "start-order",
            {**role("worker", 2, SUCCEEDS, min_succeeded=2), "startAfter": [AFTER_PS]},
            role("ps", 1, FOREVER),
        ),
        Outcome(made={"ps-0": 1, **two()}, task_codes={"ps": [-220], "worker": [0, 0]}),
    ),
    "unreachable-start": (
        framework(
            "unreachable-start",
            {**role("worker", 2), "startAfter": [{**AFTER_PS, "condition": "Succeeded"}]},
            role("ps", 1, fails(3), min_failed=-1),
        ),
        Outcome(
            code=-270,
            phrase="StartConditionUnreachable",
            made={"ps-0": 1},
            task_codes={"ps": [3], "worker": [-220, -220]},
        ),
    ),
    "parallelism": (
        framework("parallelism", {**role("worker", 3, SUCCEEDS), "parallelism": 1}),
        Outcome(made={"worker-0": 1, "worker-1": 1, "worker-2": 1}),
    ),
    "completion-rule": (
        framework(
            "completion-rule",
            role("worker", 1, fails(3), retry={"maxRetryCount": 9}),
            role("other", 1, FOREVER),
            completionPolicies=[{"taskRoles": ["worker"], "minFailedAttemptCount": 3}],
        ),
        Outcome(
            code=-260,
            phrase="CompletionRuleFailed",
            made={"worker-0": 3, "other-0": 1},
            task_codes={"worker": [3], "other": [-220]},
        ),
    ),
    "failure-class": (
        framework(
            "failure-class", _with_failure_class(role(life=fails(3), retry={**FANCY, "maxRetryCount": 9}))
        ),
        Outcome(code=3, phrase="Usage", made={"worker-0": 1}),
    ),
    "stopped-before-it-started": (
        framework("stopped-before-it-started", executionType="Stop"),
        Outcome(code=-210, phrase="StopFrameworkRequested", made={}),
    ),
}


@pytest.fixture(scope="module")
def submitted(shared_world: World, shared_controller: Controller) -> Iterator[Place]:
    place = Place(shared_world.cluster.client, shared_world.cluster.new_namespace(), shared_world)
    for body, _ in CASES.values():
        place.submit(body)
    yield place
    place.client.delete(f"/api/v1/namespaces/{place.name}")


@pytest.mark.parametrize("name", CASES)
def test_outcome_of_a_job(submitted: Place, controller: Controller, name: str) -> None:
    body, expected = CASES[name]
    found = submitted.wait_for_completed(name, names.group_of(body["apiVersion"]))

    completion = completion_of(found)
    assert completion["code"] == expected.code, completion
    assert completion["phrase"] == (expected.phrase or completion["phrase"])
    assert completion["type"]["name"] == ("Failed" if expected.code else "Succeeded")
    assert condition_of(found, "Failed" if expected.code else "Complete")
    assert not condition_of(found, "Complete" if expected.code else "Failed")
    assert retries_of(found) == expected.retries
    assert summary_of(found) == (expected.summary or summary_of(found))
    for each, codes in expected.task_codes.items():
        assert _codes(found, each) == codes

    seen = submitted.world.history.of(submitted.name, name)
    # A task whose attempt is over before its pod was seen needs none.
    made = Counter(pod.name.removeprefix(f"{name}-") for pod in seen)
    assert made <= Counter(expected.made) if expected.is_cut_short else made == expected.made
    assert not history.started_together(seen)
    assert sorted(submitted.pods(name)) == [f"{name}-{task}" for task in expected.left]
    assert len(submitted.config_maps(name)) == bool(expected.left)


def _codes(found: Json, role_name: str) -> list[int]:
    return [task["attemptStatus"]["completionStatus"]["code"] for task in tasks_of(found, role_name)]


def test_pods_have_metadata_and_environment_of_their_task(submitted: Place) -> None:
    """Check instance UIDs, labels, annotations, owners and environment (statements 3 to 7)."""
    found = submitted.wait_for_completed("success-kept")
    attempt = found["status"]["attemptStatus"]
    config_map = submitted.config_maps("success-kept")["success-kept-attempt"]
    assert attempt["instanceUID"] == f"0_{config_map['metadata']['uid']}"
    assert config_map["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
    pods = submitted.pods("success-kept")
    for task in tasks_of(found):
        pod = pods[task["attemptStatus"]["podName"]]
        assert task["attemptStatus"]["podUID"] == pod["metadata"]["uid"]
        assert task["attemptStatus"]["podIP"] == pod["status"]["podIP"]
        assert task["attemptStatus"]["podNodeName"] == pod["spec"]["nodeName"]
        owner = pod["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["uid"]) == ("ConfigMap", config_map["metadata"]["uid"])
        labels = pod["metadata"]["labels"]
        assert labels["FC_TASK_INDEX"] == str(task["index"])
        assert labels["windlass.dev/attempt"] == config_map["metadata"]["uid"]
        variables = {each["name"] for each in pod["spec"]["containers"][0]["env"]}
        assert {"FC_TASKROLE_NAME", "FC_TASK_INDEX", "FC_POD_UID"} <= variables


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("success", {"AttemptStarted", "FrameworkCompleted"}),
        ("failure", {"AttemptStarted", "TaskFailed", "FrameworkCompleted"}),
        ("task-retry", {"TaskRetried", "FrameworkCompleted"}),
        ("framework-retry", {"FrameworkRetried", "FrameworkCompleted"}),
    ],
)
def test_events_of_a_job(submitted: Place, name: str, reasons: set[str]) -> None:
    found = submitted.wait_for_completed(name)
    events = submitted.wait_for_events(found["metadata"]["uid"], *reasons)
    assert all(event["message"] and event["type"] in ("Normal", "Warning") for event in events)
    assert all(event["involvedObject"]["kind"] == names.KIND for event in events)
    if name == "success":
        assert len(events) <= 3


@pytest.mark.parametrize(
    ("name", "trigger", "kind"),
    [
        ("framework-retry", "OnFrameworkRetry", "Framework"),
        ("task-retry", "OnTaskRetry", "Task"),
        ("success", "OnPodDeletion", "Pod"),
    ],
)
def test_snapshots_are_on_stderr(
    submitted: Place, controller: Controller, name: str, trigger: str, kind: str
) -> None:
    submitted.wait_for_completed(name)

    def look() -> list[str]:
        taken = controller.snapshots(trigger, submitted.name)
        return [each["kind"] for each in taken if each["metadata"]["name"].startswith(name)]

    assert set(submitted.world.wait_for(f"{trigger} of {name}", look)) == {kind}


def test_completion_policy_that_is_never_met(place: Place) -> None:
    """A Framework without any task waits (statement 17)."""
    place.submit(framework("empty", role(tasks=0)))
    place.submit(framework("after", role(tasks=1)))
    place.wait_for_completed("after")
    found = place.wait_for_state("empty", "AttemptPreparing")
    assert not condition_of(found, "Complete")
    place.scale("empty", 0, 1)
    assert completion_of(place.wait_for_completed("empty"))["code"] == 0


def test_pod_field_in_the_wrong_case_is_dropped_from_pods(place: Place) -> None:
    """The servicestateful example of the reference has this field. The client of the reference drops it too."""
    pod = jobs.template(FOREVER, ActiveDeadlineSeconds=60)
    stored = place.submit(framework("cased", role(pod=pod)))
    assert stored["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["ActiveDeadlineSeconds"] == 60
    place.wait_for_running("cased", 1)
    spec = place.pods("cased")["cased-worker-0"]["spec"]
    assert not {"ActiveDeadlineSeconds", "activeDeadlineSeconds"} & spec.keys()


def test_placeholders_in_pod_templates_are_filled(place: Place) -> None:
    """Placeholders (statement 9) and the termination message policy (statement 8)."""
    pod = jobs.template(FOREVER, hostname="{{FC_TASKROLE_NAME}}-{{FC_TASK_INDEX}}")
    place.submit(framework("filled", role(pod=pod)))
    place.wait_for_running("filled", 1)
    spec = place.pods("filled")["filled-worker-0"]["spec"]
    assert spec["hostname"] == "worker-0"
    assert spec["containers"][0]["terminationMessagePolicy"] == "FallbackToLogsOnError"
