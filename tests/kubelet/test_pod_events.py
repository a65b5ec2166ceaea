"""What is said of a pod in events, and who says it."""

import re

import pytest
from pods.place import Place
from pods.specs import FOREVER, IMAGE, container

from conformance.waiting import wait_for

MESSAGES = {
    "Scheduled": r"Successfully assigned {namespace}/{name} to {node}",
    "Pulled": r'Container image "{image}" already present on machine.*',
    "Created": r"(Created container main|Created container: main|Container created)",
    "Started": r"(Started container main|Container started)",
}


@pytest.mark.parametrize("reason", MESSAGES)
def test_of_a_start(place: Place, reason: str) -> None:
    pod = place.start("true")
    seen = pod.ended()
    event = pod.event(reason)
    known = {"namespace": place.namespace, "name": pod.name, "node": seen.node, "image": IMAGE}
    escaped = {name: re.escape(value) for name, value in known.items()}
    assert re.fullmatch(MESSAGES[reason].format(**escaped), event["message"])
    assert event["type"] == "Normal"
    about = event["involvedObject"]
    assert (about["kind"], about["name"], about["uid"]) == ("Pod", pod.name, seen.uid)
    is_of_container = reason != "Scheduled"
    assert about.get("fieldPath") == ("spec.containers{main}" if is_of_container else None)


def test_who_says_it(place: Place) -> None:
    pod = place.start("true")
    seen = pod.ended()
    started, scheduled = pod.event("Started"), pod.event("Scheduled")
    assert started["source"] == {"component": "kubelet", "host": seen.node}
    named = scheduled.get("reportingComponent") or scheduled["source"]["component"]
    assert named == "default-scheduler"


def test_of_an_init_container(place: Place) -> None:
    pod = place.start("true", initContainers=[container("true", "first")])
    pod.ended()
    wait_for("two events", lambda: len(pod.events("Started")) == 2)
    paths = {each["involvedObject"].get("fieldPath") for each in pod.events("Started")}
    assert paths == {"spec.initContainers{first}", "spec.containers{main}"}


def test_of_an_end(place: Place) -> None:
    pod = place.start(FOREVER)
    pod.running()
    pod.delete()
    event = pod.event("Killing")
    assert event["message"] == "Stopping container main"
    assert event["involvedObject"]["fieldPath"] == "spec.containers{main}"
    pod.wait_until_gone()


def test_what_is_said_again_is_counted(place: Place) -> None:
    pod = place.start("exit 1", restartPolicy="Always")
    said = wait_for(
        "it to be said again", lambda: [each for each in pod.events("Started") if each["count"] > 1]
    )
    assert len(said) == 1
    assert said[0]["firstTimestamp"] <= said[0]["lastTimestamp"]


def test_of_something_that_cannot_be_run(place: Place) -> None:
    pod = place.start(["there-is-no-such-command"])
    pod.ended()
    event = pod.event("Failed", "there-is-no-such-command")
    assert event["type"] == "Warning"
    assert event["message"].startswith("Error: ")
