"""Events of pods: their words, and how those that repeat are counted."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from windlass.localcluster import events
from windlass.localcluster.apiserver.options import DeleteOptions, WriteOptions
from windlass.localcluster.events import EventRecorder
from windlass.localcluster.kubelet.containers import errors
from windlass.localcluster.kubelet.lifecycle import terminations
from windlass.localcluster.kubelet.lifecycle.records import ContainerRecord, Ending
from windlass.localcluster.kubelet.pods.events import COMPONENT, PodEvents
from windlass.localcluster.kubelet.probes.schedule import Kill
from windlass.localcluster.server import ApiServer
from windlass.localcluster.store_types import StoreError

Json = dict[str, Any]
NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


class World:
    def __init__(self, data: Path) -> None:
        self.server = ApiServer(data)
        self.lifecycle = self.server.lifecycle
        self.at(timedelta())
        self.recorder = EventRecorder(self.lifecycle, COMPONENT, "node-1")
        self.pod = self.create_pod("default")

    def at(self, later: timedelta) -> None:
        self.lifecycle.clock = lambda: NOW + later

    def create_pod(self, namespace: str) -> Json:
        kind = self.server.registry.find_by_resource("pods")
        assert kind is not None
        containers = [{"name": "main", "image": "tf:1"}]
        spec = {"containers": containers, "initContainers": [{"name": "fetch", "image": "git"}]}
        given = {"metadata": {"name": "p"}, "spec": spec}
        self.lifecycle.create(kind, namespace, given, WriteOptions())
        return self.lifecycle.read(kind, namespace, "p")

    def events(self) -> list[Json]:
        found = self.lifecycle.objects("", "events")
        return sorted(found, key=lambda event: event["metadata"]["creationTimestamp"])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    one = World(tmp_path)
    yield one
    one.server.store.close()


Told = Callable[[PodEvents, Json], None]
MAIN = "spec.containers{main}"


@pytest.mark.parametrize(
    ("tell", "type_", "reason", "message", "field_path"),
    [
        (
            lambda told, pod: told.pulled(pod, "main"),
            *("Normal", "Pulled"),
            'Container image "tf:1" already present on machine and can be accessed by the pod',
            MAIN,
        ),
        (lambda told, pod: told.created(pod, "main"), "Normal", "Created", "Container created", MAIN),
        (
            lambda told, pod: told.security_not_applied(pod, "main", ["privileged", "sysctls"]),
            *("Warning", "SecurityContextNotApplied"),
            (
                "Container main runs without these settings of its securityContext, which this machine cannot apply:"
                ' privileged, sysctls. See "Security contexts" in docs/local.md.'
            ),
            MAIN,
        ),
        (lambda told, pod: told.started(pod, "main"), "Normal", "Started", "Container started", MAIN),
        (
            lambda told, pod: told.stopping(pod, "fetch"),
            *("Normal", "Killing", "Stopping container fetch", "spec.initContainers{fetch}"),
        ),
        (
            lambda told, pod: told.killing(pod, "main", Kill(2, "Container main failed liveness probe")),
            *("Normal", "Killing", "Container main failed liveness probe", MAIN),
        ),
        (
            lambda told, pod: told.backing_off(pod, ContainerRecord("main")),
            *("Warning", "BackOff", "Back-off restarting failed container main in pod p_default(UID)", MAIN),
        ),
        (
            lambda told, pod: told.failed(pod, "main", 'configmap "c" not found'),
            *("Warning", "Failed", 'Error: configmap "c" not found', MAIN),
        ),
        (
            lambda told, pod: told.unhealthy(pod, "main", "Liveness probe failed: no"),
            *("Warning", "Unhealthy", "Liveness probe failed: no", MAIN),
        ),
        (
            lambda told, pod: told.setup_failed(pod, errors.failed_mount("v", "hostPath type check failed")),
            *("Warning", "FailedMount"),
            'MountVolume.SetUp failed for volume "v" : hostPath type check failed',
            None,
        ),
        (
            lambda told, pod: told.sandbox_creation_failed(pod, "no address is left"),
            *("Warning", "FailedCreatePodSandBox", "Failed to create pod sandbox: no address is left", None),
        ),
        (
            lambda told, pod: told.ending(
                pod, terminations.eviction("The node was low on resource: memory.")
            ),
            *("Warning", "Evicted", "The node was low on resource: memory.", None),
        ),
        (
            lambda told, pod: told.ending(pod, Ending(30, "DeadlineExceeded", "Pod was active too long")),
            *("Normal", "DeadlineExceeded", "Pod was active too long", None),
        ),
    ],
)
def test_events_have_reasons_and_messages_of_the_kubelet(
    world: World, tell: Told, type_: str, reason: str, message: str, field_path: str | None
) -> None:
    tell(PodEvents(world.recorder), world.pod)
    (event,) = world.events()
    about = event["involvedObject"]
    shown = event["message"].replace(world.pod["metadata"]["uid"], "UID")
    assert (event["type"], event["reason"], shown) == (type_, reason, message)
    assert about.get("fieldPath") == field_path
    assert (about["kind"], about["name"], about["uid"]) == ("Pod", "p", world.pod["metadata"]["uid"])
    assert event["source"] == {"component": "kubelet", "host": "node-1"}
    assert (event["reportingComponent"], event["reportingInstance"]) == ("kubelet", "node-1")
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-02T12:00:00Z"
    assert (event["count"], event["eventTime"]) == (1, None)


def test_deletion_has_no_event(world: World) -> None:
    PodEvents(world.recorder).ending(world.pod, Ending(30))
    assert not world.events()


@pytest.mark.parametrize(
    ("other", "count"),
    [
        (("Normal", "Started", "Container started", MAIN), 1),
        (("Warning", "Started", "Container started", MAIN), 2),
        (("Normal", "Created", "Container started", MAIN), 2),
        (("Normal", "Started", "Another", MAIN), 2),
        (("Normal", "Started", "Container started", "spec.containers{b}"), 2),
    ],
)
def test_repeated_event_is_counted(world: World, other: tuple[str, str, str, str], count: int) -> None:
    world.recorder.record(world.pod, "Normal", "Started", "Container started", MAIN)
    world.at(timedelta(seconds=90))
    # After a restart nothing else is remembered.
    EventRecorder(world.lifecycle, COMPONENT, "node-1").record(world.pod, *other)
    found = world.events()
    assert len(found) == count
    if count == 1:
        assert found[0]["count"] == 2
        assert found[0]["firstTimestamp"] == "2026-01-02T12:00:00Z"
        assert found[0]["lastTimestamp"] == "2026-01-02T12:01:30Z"


def test_similar_events_are_aggregated(world: World) -> None:
    for number in range(30):
        world.recorder.record(world.pod, "Warning", "Unhealthy", f"Liveness probe failed: {number}", MAIN)
    found = world.events()
    combined = [event for event in found if event["message"].startswith(events.COMBINED)]
    assert len(found) == events.MAX_SIMILAR + 1
    assert [(event["message"], event["count"]) for event in combined] == [
        ("(combined from similar events): Liveness probe failed: 29", 20)
    ]
    # Later, and of another pod, it is news again.
    world.at(timedelta(minutes=11))
    world.recorder.record(world.pod, "Warning", "Unhealthy", "Liveness probe failed: late", MAIN)
    assert len(world.events()) == len(found) + 1


def test_long_message_is_truncated(world: World) -> None:
    world.recorder.record(world.pod, "Warning", "Failed", "é" * 2000)
    (event,) = world.events()
    assert event["message"].endswith("é ...")
    assert len(event["message"].encode()) <= 1024


def test_terminating_namespace_gets_no_events(world: World) -> None:
    namespaces = world.server.registry.find_by_resource("namespaces")
    assert namespaces is not None
    world.lifecycle.create(namespaces, "", {"metadata": {"name": "gone"}}, WriteOptions())
    pod = world.create_pod("gone")
    world.lifecycle.delete(namespaces, "", "gone", DeleteOptions())
    PodEvents(world.recorder).started(pod, "main")
    assert not world.events()


def test_full_disk_does_not_raise(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> bytes:
        raise StoreError("the disk is full")

    monkeypatch.setattr(world.server.store, "create", full)
    PodEvents(world.recorder).started(world.pod, "main")
    assert not world.events()
    with pytest.raises(StoreError, match="full"):
        world.recorder.record(world.pod, "Normal", "Started", "Container started")
