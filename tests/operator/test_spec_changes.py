"""Changes of a running job by users, deadlines and TTLs."""

from operated.jobs import FOREVER, SUCCEEDS, framework, role
from operated.place import Place, completion_of, condition_of, retries_of, state_of, tasks_of


def test_stop_ends_a_job(place: Place) -> None:
    place.submit(framework("job", role(tasks=2, life=FOREVER), retryPolicy={"maxRetryCount": -2}))
    place.wait_for_running("job", 2)
    place.change("job", {"executionType": "Stop"})
    found = place.wait_for_completed("job")
    assert completion_of(found)["code"] == -210
    assert retries_of(found) == 0
    assert not place.pods("job")
    assert not place.config_maps("job")


def test_created_job_runs_after_start(place: Place) -> None:
    place.submit(framework("job", role(tasks=2), executionType="Create"))
    found = place.wait_for_state("job", "AttemptCreationPending")
    assert [task["state"] for task in tasks_of(found)] == ["AttemptCreationPending"] * 2
    place.submit(framework("another", role()))
    place.wait_for_completed("another")
    assert not place.config_maps("job"), "it was made while it was held"
    place.change("job", {"executionType": "Start"})
    assert completion_of(place.wait_for_completed("job"))["code"] == 0


def test_suspended_job_resumes(place: Place) -> None:
    place.submit(framework("job", role(tasks=2, life=FOREVER)))
    before = place.wait_for_running("job", 2)
    place.change("job", {"suspend": True})
    place.wait_for_condition("job", "Suspended")
    assert not place.pods("job")
    assert not place.config_maps("job")
    place.change("job", {"suspend": False})
    after = place.wait_for_running("job", 2)
    assert not condition_of(after, "Suspended")
    assert _instance(after) != _instance(before)
    assert after["status"]["retryPolicyStatus"]["accountableRetriedCount"] == 0
    for index in range(2):
        place.end_pod(f"job-worker-{index}")
    assert completion_of(place.wait_for_completed("job"))["code"] == 0


def _instance(framework: dict[str, object]) -> object:
    status = framework["status"]
    assert isinstance(status, dict)
    return status["attemptStatus"]["instanceUID"]


def test_rescale_changes_the_tasks(place: Place) -> None:
    place.submit(framework("job", role(tasks=2, life=FOREVER)))
    first = place.wait_for_running("job", 2)
    place.scale("job", 0, 4)
    more = place.wait_for_running("job", 4)
    assert [task["instanceUID"] for task in tasks_of(more)[:2]] == [
        task["instanceUID"] for task in tasks_of(first)
    ]
    place.scale("job", 0, 1)
    place.wait("job", lambda body: len(tasks_of(body)) == 1, "one task")
    assert sorted(place.pods("job")) == ["job-worker-0"]
    assert _uid(place, "job-worker-0") == tasks_of(first)[0]["attemptStatus"]["podUID"]
    place.scale("job", 0, 2)
    again = place.wait_for_running("job", 2)
    assert tasks_of(again)[1]["instanceUID"] not in {task["instanceUID"] for task in tasks_of(more)}
    for index in range(2):
        place.end_pod(f"job-worker-{index}")
    found = place.wait_for_completed("job")
    assert completion_of(found)["code"] == 0
    assert retries_of(found) == 0


def _uid(place: Place, pod: str) -> str:
    return str(place.pods()[pod]["metadata"]["uid"])


def test_deleted_pod_is_retried(place: Place) -> None:
    place.submit(framework("job", role(life=FOREVER, retry={"maxRetryCount": 1})))
    place.wait_for_running("job", 1)
    before = _uid(place, "job-worker-0")
    place.client.delete(place.path("pods", "job-worker-0")).expect(200)
    found = place.wait("job", lambda body: tasks_of(body)[0]["attemptStatus"]["id"] == 1, "a second attempt")
    place.wait_for_running("job", 1)
    assert _uid(place, "job-worker-0") != before
    assert retries_of(found) == 0
    place.end_pod("job-worker-0")
    assert completion_of(place.wait_for_completed("job"))["code"] == 0


def test_deleted_config_map_ends_the_attempt(place: Place) -> None:
    place.submit(framework("job", role(tasks=2, life=FOREVER)))
    place.wait_for_running("job", 2)
    place.client.delete(place.path("configmaps", "job-attempt")).expect(200)
    assert completion_of(place.wait_for_completed("job"))["code"] == -100
    assert not place.pods("job")


def test_stuck_pod_is_deleted_by_force(place: Place) -> None:
    """The pod is deleted by force after its timeout (statement 42)."""
    life = {**FOREVER, "hollow.windlass.dev/stops-after": "never"}
    place.submit(framework("job", role(life=life, graceful_timeout=1)))
    place.wait_for_running("job", 1)
    place.change("job", {"executionType": "Stop"})
    place.wait_for_completed("job")
    assert not place.pods("job")


def test_timeout_that_is_set_while_the_attempt_ends_releases_a_stuck_pod(place: Place) -> None:
    """Statement 39: the user gives up the pod of a lost node."""
    life = {**FOREVER, "hollow.windlass.dev/stops-after": "never"}
    place.submit(framework("job", role(life=life)))
    place.wait_for_running("job", 1)
    place.change("job", {"executionType": "Stop"})
    place.wait(
        "job", lambda body: tasks_of(body)[0]["state"] == "AttemptDeleting", "its pod to be terminating"
    )
    place.change("job", {"taskRoles": [role(life=life, graceful_timeout=0)]})
    place.wait_for_completed("job")
    assert not place.pods("job")


def test_expired_job_is_deleted(place: Place) -> None:
    place.submit(framework("job", role(life=SUCCEEDS), ttlSecondsAfterFinished=0, completedPods="Keep"))
    place.wait_until_gone("job")
    place.world.wait_for("its pods to be gone", lambda: not place.pods("job"))
    place.world.wait_for("its ConfigMap to be gone", lambda: not place.config_maps("job"))


def test_job_within_its_ttl_is_kept(place: Place) -> None:
    place.submit(framework("job", role(life=SUCCEEDS), ttlSecondsAfterFinished=3600))
    place.wait_for_completed("job")
    place.change("job", {"ttlSecondsAfterFinished": 0})
    place.wait_until_gone("job")


def test_change_after_completion_has_no_effect(place: Place) -> None:
    """A completed job stays completed."""
    place.submit(framework("job", role(tasks=1)))
    done = place.wait_for_completed("job")
    place.scale("job", 0, 3)
    place.submit(framework("another", role()))
    place.wait_for_completed("another")
    assert state_of(place.framework("job")) == "Completed"
    assert completion_of(place.framework("job")) == completion_of(done)
    assert not place.pods("job")
