"""The usage of pods as read by `kubectl top`: at every level, with and without limits, and after adoption."""

import re
from typing import Any

from pods.daemons import Daemon
from pods.place import Place
from pods.specs import FOREVER, container

from conformance.client import Client, Json
from conformance.waiting import wait_for

METRICS = "/apis/metrics.k8s.io/v1beta1"
BUSY = "while true; do :; done"
HOLDS = ["python3", "-c", "held = b'x' * (60 << 20)\nimport time\ntime.sleep(100000)"]
HELD = 60 << 20
TOO_MUCH = 4 * HELD


class Used:
    def __init__(self, body: Any) -> None:
        self.cores = _number(body["usage"]["cpu"], "n") / 1e9
        self.memory = _number(body["usage"]["memory"], "Ki") * 1024


def _number(text: str, unit: str) -> int:
    found = re.fullmatch(rf"([0-9]+)({unit})?", text)
    assert found is not None, text
    assert found[2] or found[1] == "0", text
    return int(found[1])


def used(client: Client, namespace: str, pod: str) -> dict[str, Used]:
    """Return the usage by container; empty while it is not measured."""
    answer = client.get(f"{METRICS}/namespaces/{namespace}/pods/{pod}")
    return {each["name"]: Used(each) for each in answer.body["containers"]} if answer.code == 200 else {}


LIMITS: tuple[dict[str, str], ...] = ({}, {"memory": "200Mi"}, {"memory": "200Mi", "cpu": "500m"})


def test_memory_and_cpu_are_measured(place: Place) -> None:
    """With and without limits."""
    pods = [place.start(*busy_and_holding(limits)) for limits in LIMITS]

    def are_measured() -> bool:
        return all(is_measured(used(place.client, place.namespace, pod.name)) for pod in pods)

    wait_for("the pods to be measured", are_measured)


def busy_and_holding(limits: dict[str, str]) -> tuple[Json, Json]:
    """Return a container that uses the CPU, and one that uses memory."""
    resources = {"limits": limits, "requests": {"memory": "1Mi", "cpu": "1m"}} if limits else {}
    return container(BUSY, "busy", resources=resources), container(HOLDS, "holds", resources=resources)


def is_measured(found: dict[str, Used]) -> bool:
    if found.keys() != {"busy", "holds"}:
        return False
    assert found["holds"].memory < TOO_MUCH
    assert found["busy"].memory < HELD
    return found["busy"].cores > 0.01 and found["holds"].memory >= HELD


def test_ended_containers_are_not_measured(place: Place) -> None:
    pod = place.start("true")
    pod.ended()
    other = place.start(FOREVER)
    other.running()
    path = f"{METRICS}/namespaces/{place.namespace}/pods"
    wait_for("one of two pods", lambda: place.client.get(path).expect(200).names == [other.name])


def test_orphaned_processes_are_measured(place: Place) -> None:
    """The command itself uses nothing; its orphaned child does."""
    script = f'(setsid python3 -c "{HOLDS[2]}" &) ; sleep 100000'.replace("\n", "; ")
    pod = place.start(script)
    pod.running()

    def look() -> bool:
        found = used(place.client, place.namespace, pod.name)
        return "main" in found and found["main"].memory >= HELD

    wait_for("what was left behind", look)


def test_adopted_pods_are_measured(lasting: Daemon) -> None:
    place = lasting.new_place()
    pod = place.start(HOLDS)
    pod.running()
    lasting.kill()
    lasting.start()

    def look() -> bool:
        found = used(lasting.client, place.namespace, pod.name)
        return "main" in found and found["main"].memory >= HELD

    wait_for("the pod to be measured", look)
