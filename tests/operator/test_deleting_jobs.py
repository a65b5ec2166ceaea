"""Frameworks that are deleted while they run, in every way that Kubernetes knows, and made anew at once."""

import pytest
from fake_kubelet import history
from operated.controllers import Controller
from operated.jobs import FOREVER, SUCCEEDS, framework, role
from operated.place import Place, completion_of


@pytest.mark.parametrize("propagation", ["Foreground", "Background", ""])
def test_deleting_a_job_deletes_its_objects(place: Place, propagation: str) -> None:
    place.submit(framework("job", role(tasks=2, life=FOREVER)))
    place.wait_for_running("job", 2)
    place.delete("job", propagation)
    place.wait_until_gone("job")
    place.world.wait_for("its pods to be gone", lambda: not place.pods("job"))
    place.world.wait_for("its ConfigMap to be gone", lambda: not place.config_maps("job"))


def test_snapshot_of_a_foreground_deletion_has_the_ended_attempt(
    place: Place, controller: Controller
) -> None:
    """Statements 34 and 49, as the reference ends the attempt when the garbage collector deletes its ConfigMap."""
    job = framework("job", role(tasks=2, life=FOREVER))
    # The finalizer keeps the Framework until the controller has stored its status: pods may be gone before that.
    job["metadata"]["finalizers"] = ["example.com/hold"]
    place.submit(job)
    place.wait_for_running("job", 2)
    place.delete("job", "Foreground")
    place.wait_for_state("job", "AttemptDeleting")
    place.client.patch(place.framework_path("job"), {"metadata": {"finalizers": None}}).expect(200)
    place.wait_until_gone("job")
    (taken,) = place.world.wait_for(
        "the snapshot", lambda: controller.snapshots("OnFrameworkDeletion", place.name)
    )
    assert (taken["kind"], taken["status"]["state"]) == ("Framework", "AttemptDeleting")
    assert completion_of(taken)["code"] == -100


def test_deleting_a_job_deletes_kept_pods(place: Place) -> None:
    place.submit(framework("job", role(tasks=2, life=SUCCEEDS), completedPods="Keep"))
    place.wait_for_completed("job")
    place.delete("job")
    place.wait_until_gone("job")
    place.world.wait_for("its pods to be gone", lambda: not place.pods("job"))
    place.world.wait_for("its ConfigMap to be gone", lambda: not place.config_maps("job"))


def test_orphan_propagation_does_not_block_a_new_job(place: Place) -> None:
    """After an orphaning deletion the name is either free or taken."""
    place.submit(framework("job", role(tasks=2, life=FOREVER)))
    place.wait_for_running("job", 2)
    place.delete("job", "Orphan")
    place.wait_until_gone("job")
    place.submit(framework("job", role(tasks=2, life=SUCCEEDS)))
    seen = place.wait("job", lambda body: body.get("status"), "a status")
    assert seen["status"]["retryPolicyStatus"]["totalRetriedCount"] == 0
    if place.config_maps("job"):
        is_stranger = not place.config_maps("job")["job-attempt"]["metadata"].get("ownerReferences")
        if is_stranger:
            place.wait_for_condition("job", "NameTaken")
            place.client.delete(place.path("configmaps", "job-attempt")).expect(200)
            for pod in place.pods("job"):
                place.client.delete(place.path("pods", pod), gracePeriodSeconds="0")
    assert completion_of(place.wait_for_completed("job"))["code"] == 0


@pytest.mark.parametrize("propagation", ["Foreground", "Background"])
def test_recreated_job_does_not_adopt_old_objects(place: Place, propagation: str) -> None:
    """The new job waits for the name and never adopts objects of the old one."""
    place.submit(framework("job", role(tasks=2, life=FOREVER)))
    old = place.wait_for_running("job", 2)
    place.delete("job", propagation)
    new = place.world.wait_for("the name to be free", lambda: _resubmitted(place))
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    found = place.wait_for_completed("job")
    assert found["metadata"]["uid"] == new["metadata"]["uid"]
    assert completion_of(found)["code"] == 0
    seen = place.world.history.of(place.name, "job")
    owners = [(pod.name, pod.framework_uid) for pod in seen]
    assert len(set(owners)) == len(owners) == 4, "each task of each Framework had one pod"
    assert not history.started_together(seen)


def _resubmitted(place: Place) -> dict[str, dict[str, str]] | None:
    body = framework("job", role(tasks=2, life=SUCCEEDS))
    answer = place.client.post(place.framework_path(), body)
    if answer.code == 409:
        return None
    created: dict[str, dict[str, str]] = answer.expect(201).body
    return created


def test_deleting_the_namespace_deletes_everything(place: Place) -> None:
    """The namespace is deleted completely, without interference of the controller."""
    other = place.world.new_place()
    other.submit(framework("job", role(tasks=2, life=FOREVER)))
    other.wait_for_running("job", 2)
    namespace = f"/api/v1/namespaces/{other.name}"
    other.client.delete(namespace).expect(200)
    place.world.wait_for(f"{namespace} to be gone", lambda: other.client.get(namespace).code == 404)
