"""Invalid Frameworks, rejected pods and objects of other owners do not affect other jobs."""

from collections.abc import Iterator

import pytest
from operated import jobs
from operated.jobs import FOREVER, SUCCEEDS, framework, role
from operated.place import Place, completion_of, condition_of
from operated.world import World

from windlass.model import names
from windlass.model.base import Json
from windlass.wire.crd import manifests


def test_two_frameworks_of_the_same_name_run_one_after_the_other(place: Place) -> None:
    """One of each group: the second waits until the first is gone."""
    place.submit(framework("job", role(life=FOREVER)))
    place.wait_for_running("job", 1)
    place.submit(framework("job", role(life=SUCCEEDS), group=names.LAUNCHER_GROUP))
    taken = place.wait_for_condition("job", "NameTaken", names.LAUNCHER_GROUP)
    assert "job-attempt" in taken["message"]
    assert not condition_of(place.framework("job"), "NameTaken")
    place.delete("job")
    found = place.wait_for_completed("job", names.LAUNCHER_GROUP)
    assert completion_of(found)["code"] == 0
    assert not condition_of(found, "NameTaken")


@pytest.mark.parametrize("labels", [{}, {names.FRAMEWORK_NAME: "job"}], ids=["plain", "labelled-as-ours"])
def test_config_map_of_another_owner_blocks_the_job(place: Place, labels: dict[str, str]) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "job-attempt", "labels": labels},
        "data": {"precious": "yes"},
    }
    before = place.client.post(place.path("configmaps"), body).expect(201).body
    place.submit(framework("job", role()))
    place.wait_for_condition("job", "NameTaken")
    assert place.client.get(place.path("configmaps", "job-attempt")).expect(200).body == before
    assert not place.pods("job")
    place.client.delete(place.path("configmaps", "job-attempt")).expect(200)
    assert completion_of(place.wait_for_completed("job"))["code"] == 0


@pytest.mark.parametrize("labels", [{}, {names.FRAMEWORK_NAME: "job"}], ids=["plain", "labelled-as-ours"])
def test_pod_of_another_owner_blocks_its_task(place: Place, labels: dict[str, str]) -> None:
    """Its name is not free; the task waits, its role's other tasks do not, and the pod is left alone."""
    annotations = jobs.FOREVER if labels else {}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "job-worker-0", "labels": labels, "annotations": annotations},
        "spec": jobs.template()["spec"],
    }
    before = place.client.post(place.path("pods"), body).expect(201).body
    place.submit(framework("job", role(tasks=2, life=FOREVER)))
    place.wait_for_running("job", 1)
    after = place.client.get(place.path("pods", "job-worker-0")).expect(200).body
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert not after["metadata"].get("deletionTimestamp")
    place.change("job", {"executionType": "Stop"})
    place.wait_for_completed("job")
    stranger = place.client.get(place.path("pods", "job-worker-0")).expect(200).body
    assert stranger["metadata"]["uid"] == before["metadata"]["uid"]
    assert not stranger["metadata"].get("deletionTimestamp")
    assert sorted(place.pods()) == ["job-worker-0"]


REFUSED: dict[str, Json] = {
    "no-containers": {"spec": {"containers": []}},
    "bad-volume": {
        "spec": {
            "containers": [
                {"name": "main", "image": "x", "volumeMounts": [{"name": "nowhere", "mountPath": "/data"}]}
            ]
        }
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_rejected_pod_template_fails_the_job(place: Place, case: str) -> None:
    """The attempt ends with -200 and says what the server said (statement 23)."""
    place.submit(framework("job", role("worker", 2, pod=REFUSED[case])))
    found = place.wait_for_completed("job")
    completion = completion_of(found)
    assert completion["code"] == -200
    assert completion["phrase"] == "PodCreationPermanentError"
    expected = "nowhere" if case == "bad-volume" else "spec.containers"
    assert expected in completion["diagnostics"]
    assert condition_of(found, "Failed")
    assert not place.config_maps("job")


# What only a definition that is laxer than ours lets through


def lax(group: str) -> Json:
    definition = manifests.framework_crd(group)
    version = definition["spec"]["versions"][0]
    del version["selectableFields"]  # Kubernetes allows only fields of the schema.
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {"spec": anything, "status": anything},
    }
    return definition


@pytest.fixture
def lax_place(shared_world: World, place: Place) -> Iterator[Place]:
    """The definition has no schema, e.g. because FrameworkController installed it."""
    group = names.LAUNCHER_GROUP
    allowed = {**framework("bad", group=group), "spec": SENSELESS["a-number-that-is-a-text"]}
    shared_world.cluster.put_definition(lax(group), allowed)
    yield place
    for name in place.client.get(place.framework_path(group=group)).expect(200).names:
        patch = {"metadata": {"finalizers": None}}
        place.client.patch(place.framework_path(name, group), patch)
        place.delete(name, group=group)
        place.wait_until_gone(name, group)
    shared_world.cluster.put_definition(manifests.framework_crd(group))


SENSELESS: dict[str, Json] = {
    "two-roles-of-one-name": {"taskRoles": [role("worker"), role("worker")]},
    "a-role-name-with-a-hyphen": {"taskRoles": [role("a-b")]},
    "too-many-tasks": {"taskRoles": [role("worker", 10_001)]},
    "a-number-that-is-a-text": {"taskRoles": [{**role("worker"), "taskNumber": "two"}]},
    "an-unknown-execution-type": {"executionType": "Begin", "taskRoles": [role("worker")]},
    "a-list-that-is-an-object": {"taskRoles": {"worker": 2}},
}


@pytest.mark.parametrize("case", SENSELESS)
def test_invalid_framework_is_reported(lax_place: Place, case: str) -> None:
    """A condition and an event on it say so; nothing is made for it, and the others go on."""
    group = names.LAUNCHER_GROUP
    body = {**framework("bad", group=group), "spec": SENSELESS[case]}
    uid = lax_place.submit(body)["metadata"]["uid"]
    lax_place.submit(framework("good", role(), group=group))
    invalid = lax_place.wait_for_condition("bad", "Invalid", group)
    assert invalid["message"]
    assert lax_place.wait_for_events(uid, "Invalid")
    assert completion_of(lax_place.wait_for_completed("good", group))["code"] == 0
    assert not lax_place.pods("bad")
    assert not lax_place.config_maps("bad")


def test_corrected_framework_runs(lax_place: Place) -> None:
    group = names.LAUNCHER_GROUP
    body = framework("bad", role("worker"), role("worker"), group=group)
    lax_place.submit(body)
    lax_place.wait_for_condition("bad", "Invalid", group)
    lax_place.change("bad", {"taskRoles": [role("worker")]}, group)
    found = lax_place.wait_for_completed("bad", group)
    assert completion_of(found)["code"] == 0
    assert not condition_of(found, "Invalid")


@pytest.mark.parametrize(
    "status",
    [{"state": "Dreaming"}, {"startTime": 3}, {"attemptStatus": "none"}],
    ids=["unknown-state", "bad-time", "bad-attempt"],
)
def test_invalid_status_is_reported_and_kept(lax_place: Place, status: Json) -> None:
    """The invalid status is not overwritten, because it may contain valid data."""
    group = names.LAUNCHER_GROUP
    lax_place.submit(framework("bad", role(), group=group, executionType="Create"))
    lax_place.wait_for_state("bad", "AttemptCreationPending", group)
    path = f"{lax_place.framework_path('bad', group)}/status"
    patched = lax_place.client.patch(path, {"status": status}).expect(200)
    lax_place.wait_for_events(patched.uid, "Invalid")
    lax_place.submit(framework("good", role(), group=group))
    lax_place.wait_for_completed("good", group)
    found = lax_place.framework("bad", group)["status"]
    assert {key: found[key] for key in status} == status
    assert not lax_place.pods("bad")
