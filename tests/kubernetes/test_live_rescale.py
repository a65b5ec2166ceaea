"""Rescaling with real pods, as in the manual of FrameworkController (statements 36 to 40)."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from live import controllable_tasks, jobs, object_history
from live.jobs import framework
from live.object_history import History, version_of
from live.place import Place
from operated.place import completion_of, retries_of, state_of, status_of, tasks_of

from conformance.client import Json


@pytest.fixture
def frameworks(place: Place) -> Iterator[History]:
    with object_history.kept(place.client, place.framework_path()) as history:
        yield history


@pytest.fixture
def pods(place: Place) -> Iterator[History]:
    with object_history.kept(place.client, place.path("pods")) as history:
        yield history


# The example of the manual


@pytest.mark.smoke
def test_rescale_example_of_the_manual(place: Place, pods: History) -> None:
    """Failed and running tasks are removed by scaling and requested again."""
    place.submit(framework("job", controllable_tasks.role("a", 4, min_failed=4, min_succeeded=1)))
    place.wait_for_running("job", 4)

    for index in (2, 3):
        lose(place, index)
    rescale(place, 2)
    found = place.wait("job", lambda body: len(tasks_of(body, "a")) == 2, "two tasks")
    assert [task["state"] for task in tasks_of(found, "a")] == ["AttemptRunning"] * 2

    rescale(place, 4)
    place.wait_for_running("job", 4)
    before = lose_one_and_hold_another(place)
    rescale(place, 3)
    replaced = place.wait("job", lambda body: is_new(body, before, 2), "another instance of a-2")
    assert is_going(replaced, 3), "it has gone before it was let"
    controllable_tasks.end(place, "job-a-3")
    place.wait("job", lambda body: len(tasks_of(body, "a")) == 3, "three tasks")
    place.wait_for_running("job", 3)

    rescale(place, 4)
    place.wait_for_running("job", 4)
    before = lose_one_and_hold_another(place)
    rescale(place, 5)
    place.wait("job", lambda body: is_new(body, before, 2) and len(tasks_of(body, "a")) == 5, "two new tasks")
    assert is_going(place.framework("job"), 3), "it has gone before it was let"
    controllable_tasks.end(place, "job-a-3")
    found = place.wait_for_running("job", 5)
    assert is_new(found, before, 3)

    controllable_tasks.end(place, "job-a-4")
    found = place.wait_for_completed("job")
    done = completion_of(found)
    assert (done["code"], done["trigger"]["taskIndex"]) == (0, 4), (
        "something that was scaled away has counted"
    )
    assert retries_of(found) == 0
    insist_on_one_at_a_time(pods, "job-a-2", "job-a-3")


def rescale(place: Place, tasks: int) -> None:
    """Change the number of tasks and of failures that end the job in one update (40)."""
    role = "/spec/taskRoles/0"
    patch = [
        {"op": "test", "path": f"{role}/name", "value": "a"},
        {"op": "replace", "path": f"{role}/taskNumber", "value": tasks},
        {
            "op": "replace",
            "path": f"{role}/frameworkAttemptCompletionPolicy/minFailedTaskCount",
            "value": tasks,
        },
    ]
    place.client.patch(place.framework_path("job"), patch, kind="json").expect(200)


def lose(place: Place, index: int, role: str = "a") -> None:
    """Delete a pod, so that its task fails."""
    place.client.delete(place.path("pods", f"job-{role}-{index}")).expect(200)
    found = place.wait(
        "job",
        lambda body: tasks_of(body, role)[index]["state"] == "Completed",
        f"the end of {role}-{index}",
    )
    assert tasks_of(found, role)[index]["attemptStatus"]["completionStatus"]["code"] == -101


def lose_one_and_hold_another(place: Place) -> Json:
    """Check that a-2 has failed and a-3 is running, although the spec includes neither."""
    lose(place, 2)
    controllable_tasks.stay(place, "job-a-3")
    rescale(place, 2)
    return place.wait("job", lambda body: is_going(body, 3), "a-3 to be deleted")


def is_going(body: Json, index: int) -> bool:
    """Check that the task is removed and its pod is terminating."""
    task = tasks_of(body, "a")[index]
    return task.get("deletionPending") is True and task["state"] == "AttemptDeleting"


def is_new(body: Json, before: Json, index: int, role: str = "a") -> bool:
    """Check that the task has a pod and is a new one."""
    old, new = tasks_of(before, role)[index], tasks_of(body, role)[index]
    pod = new["attemptStatus"].get("podUID")
    return (
        bool(pod)
        and new["instanceUID"] != old["instanceUID"]
        and pod != old["attemptStatus"].get("podUID")
        and not new.get("deletionPending")
    )


def insist_on_one_at_a_time(pods: History, *names: str) -> None:
    """The next pod of a name is created when the last one is gone (40)."""
    for name in names:
        instances = pods.uids(name)
        assert len(instances) > 1
        for old, new in itertools.pairwise(instances):
            last = [body for body in pods.versions(name) if body["metadata"]["uid"] == old][-1]
            assert version_of(last) < pods.first(name, lambda body, it=new: body["metadata"]["uid"] == it)  # type: ignore[misc]


# Single changes


def test_reused_index_waits_for_its_old_pod(place: Place, pods: History) -> None:
    """The new task waits for the end of the old pod and has another instance (38)."""
    place.submit(framework("job", controllable_tasks.role(tasks=2)))
    before = place.wait_for_running("job", 2)
    controllable_tasks.stay(place, "job-worker-1")
    place.scale("job", 0, 1)
    place.wait("job", lambda body: tasks_of(body)[1]["state"] == "AttemptDeleting", "its pod to be deleted")
    place.scale("job", 0, 2)
    place.submit(framework("another", jobs.role()))
    place.wait_for_completed("another")
    assert pods.uids("job-worker-1") == [tasks_of(before)[1]["attemptStatus"]["podUID"]]
    assert tasks_of(place.framework("job"))[1]["deletionPending"], "what was seen of a rescale is committed"
    controllable_tasks.end(place, "job-worker-1")
    found = place.wait("job", lambda body: is_new(body, before, 1, "worker"), "a new instance")
    assert tasks_of(found)[0]["instanceUID"] == tasks_of(before)[0]["instanceUID"]
    finish(place, 2)
    insist_on_one_at_a_time(pods, "job-worker-1")


def test_deleted_role_is_removed_with_its_policies(place: Place) -> None:
    """The other role is unaffected (36, 37)."""
    place.submit(
        framework("job", controllable_tasks.role(tasks=2), controllable_tasks.role("ps", 2, min_failed=2))
    )
    before = place.wait_for_running("job", 4)
    lose(place, 0, "ps")
    place.client.patch(
        place.framework_path("job"), [{"op": "remove", "path": "/spec/taskRoles/1"}], kind="json"
    ).expect(200)
    found = place.wait("job", lambda body: roles_of(body) == ["worker"], "its role to be gone")
    assert tasks_of(found) == tasks_of(before)
    place.wait_for("its pods to be gone", lambda: sorted(place.pods("job")) == pod_names(2))
    finish(place, 2)


def test_added_role_gets_pods(place: Place) -> None:
    place.submit(framework("job", controllable_tasks.role(tasks=1)))
    before = place.wait_for_running("job", 1)
    added = {
        "op": "add",
        "path": "/spec/taskRoles/-",
        "value": controllable_tasks.role("ps", 2, min_succeeded=2),
    }
    place.client.patch(place.framework_path("job"), [added], kind="json").expect(200)
    found = place.wait_for_running("job", 3)
    assert roles_of(found) == ["worker", "ps"]
    assert tasks_of(found) == tasks_of(before)
    for index in range(2):
        controllable_tasks.end(place, f"job-ps-{index}")
    done = completion_of(place.wait_for_completed("job"))
    assert (done["code"], done["trigger"]["taskRoleName"]) == (0, "ps")


def test_status_is_stored_before_pods_change(place: Place, frameworks: History, pods: History) -> None:
    """New tasks before their pods, and the deletion mark before any deletion (36, 39)."""
    place.submit(framework("job", controllable_tasks.role(tasks=1)))
    place.wait_for_running("job", 1)
    place.scale("job", 0, 3)
    place.wait_for_running("job", 3)
    place.scale("job", 0, 1)
    place.wait("job", lambda body: len(tasks_of(body)) == 1, "one task")
    finish(place, 1)
    for index in (1, 2):
        name = f"job-worker-{index}"
        added = frameworks.first("job", lambda body, it=index: has_task(body, it))  # type: ignore[misc]
        marked = frameworks.first("job", lambda body, it=index: has_task(body, it, deletionPending=True))  # type: ignore[misc]
        shown = next(body for body in frameworks.versions("job") if version_of(body) == added)
        assert tasks_of(shown)[index]["state"] == "AttemptCreationPending"
        assert added < pods.first(name, lambda _: True)
        assert marked < pods.first(name, lambda body: "deletionTimestamp" in body["metadata"])


def test_scale_to_zero_and_up_again(place: Place) -> None:
    """A job without tasks waits (17)."""
    place.submit(framework("job", controllable_tasks.role(tasks=2)))
    before = place.wait_for_running("job", 2)
    place.scale("job", 0, 0)
    found = place.wait("job", lambda body: not tasks_of(body), "no task")
    assert state_of(found) == "AttemptRunning"
    place.wait_for("its pods to be gone", lambda: not place.pods("job"))
    place.scale("job", 0, 2)
    again = place.wait_for_running("job", 2)
    assert all(is_new(again, before, index, "worker") for index in range(2))
    finish(place, 2)


def test_rescale_with_other_edits(place: Place) -> None:
    """One update changes task number, policy and pod template: existing pods stay, new ones use the new template
    (40)."""
    place.submit(framework("job", controllable_tasks.role(tasks=3, min_failed=3)))
    before = place.wait_for_running("job", 3)
    for index in (1, 2):
        lose(place, index, "worker")
    changed = controllable_tasks.role(tasks=1, min_failed=1, graceful_timeout=600)
    changed["task"]["pod"]["metadata"] = {"labels": {"edition": "second"}}
    place.change("job", {"description": "smaller", "taskRoles": [changed]})
    found = place.wait("job", lambda body: len(tasks_of(body)) == 1, "one task")
    assert tasks_of(found) == tasks_of(before)[:1]
    assert found["status"]["attemptStatus"]["taskRoleStatuses"][0]["podGracefulDeletionTimeoutSec"] == 600
    place.scale("job", 0, 2)
    place.wait_for_running("job", 2)
    editions = {name: pod["metadata"]["labels"].get("edition") for name, pod in place.pods("job").items()}
    assert editions == {"job-worker-0": None, "job-worker-1": "second"}
    finish(place, 2)


# Helpers


def roles_of(body: Json) -> list[str]:
    return [role["name"] for role in body["status"]["attemptStatus"]["taskRoleStatuses"]]


def pod_names(tasks: int) -> list[str]:
    return [f"job-worker-{index}" for index in range(tasks)]


def has_task(body: Json, index: int, **fields: Any) -> bool:
    if not status_of(body).get("attemptStatus"):
        return False
    tasks = tasks_of(body)
    return len(tasks) > index and all(tasks[index].get(field) == value for field, value in fields.items())


def finish(place: Place, tasks: int) -> None:
    """End all tasks; the job succeeds at its first attempt."""
    for name in pod_names(tasks):
        place.wait_for(f"{name} to run", lambda it=name: phase_of(place, it) == "Running")  # type: ignore[misc]
        controllable_tasks.end(place, name)
    found = place.wait_for_completed("job")
    assert completion_of(found)["code"] == 0
    assert retries_of(found) == 0


def phase_of(place: Place, pod: str) -> str:
    found = place.pods("job").get(pod)
    return str(found["status"]["phase"]) if found else ""
