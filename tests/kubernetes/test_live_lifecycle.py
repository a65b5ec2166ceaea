"""User actions and deadlines over the life of a job."""

import pytest
from live import kubectl_process
from live.clusters import Cluster
from live.jobs import FOREVER, framework, role
from live.kubectl_process import Kubectl
from live.place import SECONDS, Place
from operated.place import completion_of, condition_of, retries_of, status_of, summary_of, tasks_of

from conformance.client import Json
from windlass.model import names
from windlass.wire.crd.manifests import PRINTER_COLUMNS

SECOND_ENDS = f'[ "$FC_FRAMEWORK_ATTEMPT_ID" -ge 1 ] || {{ {FOREVER}; }}'
"""The first attempt runs until it is ended; the second succeeds."""


def is_empty(place: Place, name: str) -> bool:
    return not place.pods(name) and not place.config_maps(name)


# Held and stopped (35, A3)


def test_create_then_start(place: Place) -> None:
    place.submit(framework("job", role(tasks=2), executionType="Create"))
    found = place.wait_for_state("job", "AttemptCreationPending")
    assert [task["state"] for task in tasks_of(found)] == ["AttemptCreationPending"] * 2
    place.submit(framework("another"))
    place.wait_for_completed("another")
    assert is_empty(place, "job"), "something was made for it while it was held"
    place.change("job", {"executionType": "Start"})
    assert completion_of(place.wait_for_completed("job"))["code"] == 0


@pytest.mark.parametrize("before", ["Create", "Start"])
def test_stopped_job_is_not_retried(place: Place, before: str) -> None:
    """Whatever its retry policy says (24)."""
    tasks = role(tasks=2, script=FOREVER, retry={"maxRetryCount": -2})
    place.submit(framework("job", tasks, executionType=before, retryPolicy={"maxRetryCount": -2}))
    if before == "Create":
        place.wait_for_state("job", "AttemptCreationPending")
    else:
        place.wait_for_running("job", 2)
    place.change("job", {"executionType": "Stop"})
    found = place.wait_for_completed("job")
    completion = completion_of(found)
    assert (completion["code"], completion["phrase"]) == (-210, "StopFrameworkRequested")
    assert retries_of(found) == 0
    assert condition_of(found, "Failed")
    assert is_empty(place, "job")


def test_suspend_and_resume(place: Place) -> None:
    place.submit(framework("job", role(tasks=2, script=SECOND_ENDS)))
    before = place.wait_for_running("job", 2)
    place.change("job", {"suspend": True})
    place.wait_for_condition("job", "Suspended")
    assert is_empty(place, "job")
    place.change("job", {"suspend": False})
    after = place.wait_for_completed("job")
    assert completion_of(after)["code"] == 0
    assert not condition_of(after, "Suspended")
    counts = status_of(after)["retryPolicyStatus"]
    assert (counts["totalRetriedCount"], counts["accountableRetriedCount"]) == (1, 0)
    assert _pod_uids(after).isdisjoint(_pod_uids(before))


def _pod_uids(framework: Json) -> set[str]:
    return {task["attemptStatus"]["podUID"] for task in tasks_of(framework)}


def test_job_suspended_from_the_start(place: Place) -> None:
    place.submit(framework("job", role(tasks=2), suspend=True))
    place.wait_for_condition("job", "Suspended")
    place.submit(framework("another"))
    place.wait_for_completed("another")
    assert is_empty(place, "job")
    place.change("job", {"suspend": False})
    found = place.wait_for_completed("job")
    assert (completion_of(found)["code"], retries_of(found)) == (0, 0)


# Time (A4, 42)


def test_active_deadline_covers_all_attempts(place: Place) -> None:
    """It ends the job whatever the retry policy says."""
    script = f'[ "$FC_FRAMEWORK_ATTEMPT_ID" -ge 1 ] || exit 1; {FOREVER}'
    place.submit(framework("job", role(tasks=1, script=script), retryPolicy={"maxRetryCount": -2}))
    place.wait("job", lambda body: status_of(body) and retries_of(body) == 1, "a second attempt")
    place.wait_for_running("job", 1)
    place.change("job", {"activeDeadlineSeconds": 1})
    found = place.wait_for_completed("job")
    completion = completion_of(found)
    assert (completion["code"], completion["phrase"]) == (-250, "ActiveDeadlineExceeded")
    assert completion["type"]["attributes"] == ["Permanent"]
    assert retries_of(found) == 1
    assert is_empty(place, "job")


def test_pending_deadline_applies_to_each_task(place: Place) -> None:
    """One unschedulable task ends the running ones."""
    nowhere = {"nodeSelector": {"no-node-has": "this-label"}}
    waits = role("waits", script=FOREVER, pod_spec=nowhere)
    place.submit(framework("job", role(script=FOREVER), waits))
    place.wait_for_running("job", 1)
    place.change("job", {"pendingDeadlineSeconds": 1})
    completion = completion_of(place.wait_for_completed("job"))
    assert (completion["code"], completion["phrase"]) == (-240, "PendingDeadlineExceeded")
    assert (completion["trigger"]["taskRoleName"], completion["trigger"]["taskIndex"]) == ("waits", 0)
    assert is_empty(place, "job")


def test_finished_job_is_deleted_after_its_time_to_live(place: Place) -> None:
    """With all kept pods."""
    place.submit(framework("job", role(tasks=2), completedPods="Keep", ttlSecondsAfterFinished=3600))
    place.wait_for_completed("job")
    assert sorted(place.pods("job")) == ["job-worker-0", "job-worker-1"]
    place.change("job", {"ttlSecondsAfterFinished": 0})
    place.wait_until_gone("job")
    place.wait_until_empty()


def test_stuck_pod_is_removed_after_its_deadline(place: Place) -> None:
    """Not after its grace period (42)."""
    deaf = role(
        script="trap '' TERM; sleep 100000",
        graceful_timeout=1,
        pod_spec={"terminationGracePeriodSeconds": 100000},
    )
    place.submit(framework("job", deaf))
    place.wait_for_running("job", 1)
    place.change("job", {"executionType": "Stop"})
    assert completion_of(place.wait_for_completed("job"))["code"] == -210
    place.wait_until_empty()


# Deletion


@pytest.mark.parametrize("propagation", ["Foreground", "Background", ""])
def test_deleted_job_leaves_nothing(place: Place, propagation: str) -> None:
    place.submit(framework("job", role(tasks=2, script=FOREVER), role("ps", script=FOREVER)))
    place.submit(framework("kept", role(tasks=1), completedPods="Keep"))
    place.wait_for_running("job", 3)
    place.wait_for_completed("kept")
    for name in ("job", "kept"):
        place.delete(name, propagation)
    for name in ("job", "kept"):
        place.wait_until_gone(name)
    place.wait_until_empty()


def test_job_recreated_at_once_runs_after_the_old_one(place: Place) -> None:
    """The new Framework waits for the names of the old pods and never adopts them."""
    place.submit(framework("job", role(tasks=2, script=FOREVER)))
    olds = [place.wait_for_running("job", 2)]
    for _ in range(3):
        place.delete("job", "Background")
        place.submit(framework("job", role(tasks=2, script=FOREVER)))
        olds.append(place.wait_for_running("job", 2))
    place.delete("job", "Background")
    place.submit(framework("job", role(tasks=2)))
    found = place.wait_for_completed("job")
    assert (completion_of(found)["code"], retries_of(found)) == (0, 0)
    uids = [uid for each in (*olds, found) for uid in _pod_uids(each)]
    assert len(set(uids)) == 10, "each Framework had its own pods"
    place.wait_until_empty()


def test_namespace_deleted_with_running_jobs(cluster: Cluster, place: Place) -> None:
    """The controller does not retry tasks in it, and other namespaces are not affected."""
    other = cluster.new_place()
    always = {"maxRetryCount": -2}
    other.submit(framework("job", role(tasks=2, script=FOREVER, retry=always), retryPolicy=always))
    other.submit(framework("held", executionType="Create"))
    other.wait_for_running("job", 2)
    other.wait_for_state("held", "AttemptCreationPending")
    namespace = f"/api/v1/namespaces/{other.name}"
    cluster.client.delete(namespace).expect(200)
    place.wait_for(f"{other.name} to be gone", lambda: cluster.client.get(namespace).code == 404)
    place.submit(framework("job"))
    assert completion_of(place.wait_for_completed("job"))["code"] == 0


# A quota that is too small (23)


def test_gang_waits_for_quota(place: Place) -> None:
    """It reports that, and continues when the quota is raised."""
    quotas = place.path("resourcequotas")
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {"pods": "1"}},
    }
    place.client.post(quotas, body).expect(201)
    place.wait_for("the quota to be counted", lambda: _is_counted(place, f"{quotas}/small"))
    uid = place.submit(framework("job", role(tasks=2, script=FOREVER)))["metadata"]["uid"]
    told = place.wait_for_events(uid, "Postponed")
    assert any("exceeded quota: small" in event["message"] for event in told)
    found = place.wait_for_running("job", 1)
    waiting = [task for task in tasks_of(found) if task["state"] != "AttemptRunning"]
    assert [task["state"].startswith("AttemptCreation") for task in waiting] == [True]
    assert len(place.pods("job")) == 1
    place.client.patch(f"{quotas}/small", {"spec": {"hard": {"pods": "2"}}}).expect(200)
    found = place.wait_for_running("job", 2)
    assert [task["attemptStatus"]["id"] for task in tasks_of(found)] == [0, 0]
    assert retries_of(found) == 0


def _is_counted(place: Place, quota: str) -> bool:
    return bool(place.client.get(quota).expect(200).body.get("status", {}).get("hard"))


# kubectl (A6)


@pytest.fixture(params=kubectl_process.NAMES)
def kubectl(request: pytest.FixtureRequest, cluster: Cluster, place: Place) -> Kubectl:
    return Kubectl(kubectl_process.named(cluster, request.param), cluster.kubeconfig, place.name)


@pytest.mark.parametrize(
    ("script", "condition"), [("exit 0", "Complete"), ("exit 3", "Failed")], ids=["complete", "failed"]
)
def test_kubectl_wait(place: Place, kubectl: Kubectl, script: str, condition: str) -> None:
    place.submit(framework("job", role(script=script)))
    resource = f"{names.PLURAL}.{names.CONTROLLER_GROUP}/job"
    said = kubectl("wait", f"--for=condition={condition}", f"--timeout={SECONDS:.0f}s", resource)
    assert "condition met" in said
    reason = kubectl(
        "get", resource, f"--output=jsonpath={{.status.conditions[?(@.type=='{condition}')].reason}}"
    )
    assert reason == ("Succeeded" if condition == "Complete" else "ContainerUnrecognizedFailed")


def test_kubectl_get_shows_the_state(place: Place, kubectl: Kubectl) -> None:
    tasks = role(tasks=3, script="exit $FC_TASK_INDEX", min_failed=-1)
    place.submit(framework("job", tasks, role("ps", script="exit 1"), retryPolicy={"maxRetryCount": 1}))
    found = place.wait_for_completed("job")
    header, row = kubectl("get", f"{names.PLURAL}.{names.CONTROLLER_GROUP}").splitlines()
    assert header.split() == ["NAME", *(name.upper() for name, _, _, _ in PRINTER_COLUMNS)]
    summary = summary_of(found)
    assert row.split()[:-1] == [
        "job",
        "Completed",
        *(str(summary[each]) for each in ("tasks", "running", "succeeded", "failed")),
        "1",
    ]
