"""Events of pods and their sources."""

import re

import pytest
from pods.place import Place
from pods.seen import Seen
from pods.specs import FOREVER, IMAGE, container

from conformance.client import Json
from conformance.waiting import wait_for


def check_about(event: Json, seen: Seen, **more: str) -> None:
    assert event["type"] == "Normal"
    named = {name: event["involvedObject"].get(name) for name in ("kind", "name", "uid", "fieldPath")}
    whole = {"kind": "Pod", "name": seen.body["metadata"]["name"], "uid": seen.uid, "fieldPath": None}
    assert named == {**whole, **more}


def test_scheduled_event(place: Place) -> None:
    pod = place.start("true")
    seen = pod.ended()
    event = pod.event("Scheduled")
    assert event["message"] == f"Successfully assigned {place.namespace}/{pod.name} to {seen.node}"
    check_about(event, seen)


@pytest.mark.parametrize("reason", ["Pulled", "Created", "Started"])
def test_start_events(place: Place, reason: str, by_release: str) -> None:
    pod = place.start("true")
    seen = pod.ended()
    event = pod.event(reason)
    assert re.fullmatch(by_release.format(image=re.escape(IMAGE)), event["message"])
    check_about(event, seen, fieldPath="spec.containers{main}")


def test_event_source_is_the_kubelet(place: Place) -> None:
    pod = place.start("true")
    seen = pod.ended()
    started, scheduled = pod.event("Started"), pod.event("Scheduled")
    assert started["source"] == {"component": "kubelet", "host": seen.node}
    named = scheduled.get("reportingComponent") or scheduled["source"]["component"]
    assert named == "default-scheduler"


def test_events_of_an_init_container(place: Place) -> None:
    pod = place.start("true", initContainers=[container("true", "first")])
    pod.ended()
    wait_for("two events", lambda: len(pod.events("Started")) == 2)
    paths = {each["involvedObject"].get("fieldPath") for each in pod.events("Started")}
    assert paths == {"spec.initContainers{first}", "spec.containers{main}"}


def test_killing_event(place: Place) -> None:
    pod = place.start(FOREVER)
    pod.running()
    pod.delete()
    event = pod.event("Killing")
    assert event["message"] == "Stopping container main"
    assert event["involvedObject"]["fieldPath"] == "spec.containers{main}"
    pod.wait_until_gone()


def test_repeated_event_is_counted(place: Place) -> None:
    pod = place.start("exit 1", restartPolicy="Always")
    said = wait_for(
        "the event to be repeated", lambda: [each for each in pod.events("Started") if each["count"] > 1]
    )
    assert len(said) == 1
    assert said[0]["firstTimestamp"] <= said[0]["lastTimestamp"]


def test_failed_event_of_an_invalid_command(place: Place) -> None:
    pod = place.start(["there-is-no-such-command"])
    pod.ended()
    event = pod.event("Failed", "there-is-no-such-command")
    assert event["type"] == "Warning"
    assert event["message"].startswith("Error: ")
