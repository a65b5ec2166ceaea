"""The simulated kubelet does what the others rely on. No controller runs here: the pods are made by hand."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_kubelet import history, lifecycle
from fake_kubelet.history import Sighting
from fake_kubelet.lifecycle import Life, Pod
from operated import clusters
from operated.place import Place
from operated.processes import Spawned
from operated.world import World

from conformance.waiting import wait_for
from windlass.k8s.metadata import OwnedObjectMeta
from windlass.model import names


@pytest.fixture
def minded(shared_world: World) -> Iterator[Place]:
    yield shared_world.new_place()
    shared_world.leave_places()


def create(place: Place, name: str, owner: str = "", **life: Any) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gang", "uid": owner, "controller": True}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {names.FRAMEWORK_NAME: "job"},
            "annotations": lifecycle.annotations(**life),
            "ownerReferences": [reference] if owner else [],
        },
        "spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"},
    }
    place.client.post(place.path("pods"), body).expect(201)


def phases(place: Place) -> dict[str, str]:
    return {name: pod["status"]["phase"] for name, pod in place.pods().items()}


@pytest.mark.parametrize(
    ("life", "phase", "terminated"),
    [
        ({}, "Succeeded", {"exitCode": 0, "reason": "Completed"}),
        (
            {"exit_code": 3, "message": "alas"},
            "Failed",
            {"exitCode": 3, "reason": "Error", "message": "alas"},
        ),
        ({"reason": "Evicted"}, "Failed", {"exitCode": 0}),
        ({"runs_for": "never"}, "Running", None),
        ({"starts_after": "never"}, "Pending", None),
    ],
)
def test_pods_follow_their_annotations(
    minded: Place, life: dict[str, Any], phase: str, terminated: dict[str, Any] | None
) -> None:
    create(minded, "pod", **life)
    create(minded, "after")
    minded.world.wait_for("both pods", lambda: phases(minded) == {"pod": phase, "after": "Succeeded"})
    pod = minded.pods()["pod"]
    if terminated is not None:
        found = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        assert terminated.items() <= found.items()
        assert found["finishedAt"]
        assert pod["status"].get("reason", "") == life.get("reason", "")
    if phase == "Running":
        assert pod["status"]["podIP"]
        assert pod["spec"]["nodeName"]


def test_endless_pod_can_be_ended_and_deleted(minded: Place) -> None:
    for name in ("told", "deleted"):
        create(minded, name, runs_for="never")
    minded.world.wait_for("both to run", lambda: phases(minded) == {"told": "Running", "deleted": "Running"})
    minded.end_pod("told", exit_code=4)
    minded.client.delete(minded.path("pods", "deleted")).expect(200)
    minded.world.wait_for("the end of both", lambda: phases(minded) == {"told": "Failed"})
    seen = {pod.name: pod for pod in minded.world.history.of(minded.name, "job")}
    assert seen["told"].exit_code == 4
    assert seen["deleted"].ended is not None
    assert not {pod.name for pod in minded.world.history.alive if pod.namespace == minded.name}


def test_gang_starts_and_ends_together(minded: Place) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gang"}}
    owner = minded.client.post(minded.path("configmaps"), body).expect(201).uid
    for index in range(2):
        create(minded, f"member-{index}", owner, gang=3, runs_for="never")
    create(minded, "alone")
    minded.world.wait_for("the one alone", lambda: phases(minded).get("alone") == "Succeeded")
    assert phases(minded) == {"member-0": "Pending", "member-1": "Pending", "alone": "Succeeded"}
    create(minded, "member-2", owner, gang=3, runs_for="never")
    minded.world.wait_for("all to run", lambda: list(phases(minded).values()).count("Running") == 3)
    minded.world.override_life(minded, "job", Life(gang=3))
    minded.world.wait_for("all to end", lambda: list(phases(minded).values()).count("Succeeded") == 4)


def test_command_prints_a_summary_when_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(lifecycle.__file__).parents[1]))
    with clusters.running() as cluster:
        command = [sys.executable, "-m", "fake_kubelet.kubelet"]
        options = ["--kubeconfig", str(cluster.kubelets_kubeconfig), "--namespace", "default"]
        process = Spawned("fake kubelet", [*command, *options], cluster.folder / "hollow.log")
        try:
            place = Place(cluster.client, "default", None)  # type: ignore[arg-type]
            create(place, "commanded")
            wait_for("the pod to end", lambda: phases(place).get("commanded") == "Succeeded")
            assert process.stop() == 0
            assert json.loads(process.text()) == {"pods": 1, "started": 1, "alive": 0}
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("said", "life"),
    [
        ({}, Life(exit_code=9)),
        ({"exit-code": "0", "runs-for": "2.5"}, Life(runs_for=2.5)),
        ({"runs-for": "never", "starts-after": "1"}, Life(exit_code=9, starts_after=1.0, runs_for=None)),
        ({"stops-after": "never", "gang": "50"}, Life(exit_code=9, stops_after=None, gang=50)),
    ],
)
def test_annotations_override_the_default(said: dict[str, str], life: Life) -> None:
    annotations = {f"{lifecycle.ANNOTATION_PREFIX}{key}": value for key, value in said.items()}
    play = lifecycle.by_annotations(Life(exit_code=9))
    assert play(Pod(metadata=OwnedObjectMeta(annotations=annotations))) == life


def sighting(uid: str, started: float | None, ended: float | None, name: str = "pod") -> Sighting:
    return Sighting("ns", name, uid, "job", "f", "cm", "0", created=0.0, started=started, ended=ended)


@pytest.mark.parametrize(
    ("pods", "twice", "together"),
    [
        ([sighting("a", 1, 2)], 0, 0),
        ([sighting("a", 1, 2), sighting("b", None, None)], 0, 0),
        ([sighting("a", 1, 2), sighting("b", 3, 4)], 1, 0),
        ([sighting("a", 1, None), sighting("b", 3, 4)], 1, 1),
        ([sighting("a", 1, 3.5), sighting("b", 3, 4)], 1, 1),
        ([sighting("a", 1, 3.5), sighting("b", 3, 4, name="other")], 0, 0),
    ],
)
def test_history_finds_duplicates(pods: list[Sighting], twice: int, together: int) -> None:
    assert len(history.started_more_than_once(pods)) == twice
    assert len(history.started_together(pods)) == together
