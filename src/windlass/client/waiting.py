"""Describe what a pod is waiting for, and what to do, from the messages of the scheduler and the kubelet."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from windlass.client.pods import Pod
from windlass.model import start_errors

_UNSCHEDULABLE = ("Unschedulable", "FailedScheduling")
"""Reasons of the condition and of the event."""
NO_NODE = "no suitable node"
"""Beginning of the cause if the scheduler finds no node."""
_STARTING = ("", "ContainerCreating", "PodInitializing")
"""Waiting reasons of a container that starts normally."""
_IMAGE_REASONS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
)
_IMAGE = re.compile(r'image "(?P<image>[^"]+)"')
_NODES = re.compile(
    r"0/(?P<total>\d+) nodes are available: (?P<causes>.*?)\.?(?: preemption: .*)?", re.DOTALL
)
_NODE_CAUSE = re.compile(r"(?P<number>\d+) (?P<cause>.+)", re.DOTALL)
_TAINT = re.compile(r"node\(s\) had untolerated taint\S* (?P<taint>\{.*\})")
_MISSING = re.compile(
    r'(?P<kind>configmap|secret|persistentvolumeclaim) "(?P<name>[^"]+)" not found', re.IGNORECASE
)
_MISSING_KEY = re.compile(
    r"couldn't find key (?P<key>\S+) in (?P<kind>ConfigMap|Secret) (?:[^/\s]+/)?(?P<name>\S+)"
)
_KINDS = {"configmap": "ConfigMap", "secret": "Secret", "persistentvolumeclaim": "PersistentVolumeClaim"}
_SHORTAGES = {
    "cpu": "too few free CPUs",
    "memory": "too little free memory",
    "ephemeral-storage": "too little free disk space",
}


class Waiting(NamedTuple):
    text: str
    """The cause in a few words, e.g. `the ConfigMap settings does not exist`. Empty if it is unknown."""
    advice: str = ""
    """What to do; empty if that is unknown, or if nothing has to be done."""


def of_container(pod: Pod, container: str) -> Waiting:
    """Describe why a container has not started, as reported by the scheduler or the kubelet."""
    status = pod.status_of(container)
    waiting = None if status is None else status.state.waiting
    if waiting is not None and waiting.reason not in _STARTING:
        return describe(waiting.reason, waiting.message)
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return describe(condition.reason, condition.message)
    for init in pod.status.init_container_statuses:
        if init.state.waiting is not None and init.state.waiting.message:
            found = describe(init.state.waiting.reason, init.state.waiting.message)
            return Waiting(f"init container {init.name}: {found.text}", found.advice)
        if init.is_running:
            return Waiting(f"its init container {init.name} is running")
    return Waiting(waiting.reason if waiting is not None else "")


def waiting_reason(pod: Pod, container: str) -> str:
    """Return why a container has not started; empty if unknown."""
    return of_container(pod, container).text


def is_starting(reason: str) -> bool:
    """Return whether the reason only says that the container has not started yet."""
    return reason in _STARTING


def describe(reason: str, message: str) -> Waiting:
    """Describe the reason and the message of a waiting container, a condition or an event."""
    if found := _MISSING.search(message):
        return _missing(_KINDS[found["kind"].lower()], found["name"])
    if found := _MISSING_KEY.search(message):
        kind, name, key = found["kind"], found["name"], found["key"]
        return Waiting(
            f"the {kind} {name} has no key {key}", f"Add the key to the {kind}, or correct its name."
        )
    if reason in _IMAGE_REASONS:
        return _image(message)
    if reason in start_errors.START_REASONS:
        error = start_errors.describe(reason, message)
        return Waiting(f"cannot start: {error.text}", error.advice)
    if reason in _UNSCHEDULABLE and (found := _NODES.fullmatch(message.strip())):
        return _nodes(int(found["total"]), found["causes"])
    return Waiting(": ".join(part for part in (reason, message) if part))


def _missing(kind: str, name: str) -> Waiting:
    advice = f"Create it, or correct its name; the task starts as soon as the {kind} exists."
    return Waiting(f"the {kind} {name} does not exist", advice)


def _image(message: str) -> Waiting:
    found = _IMAGE.search(message)
    image = f"the image {found['image']}" if found else "its image"
    cause = message.rpartition('": ')[2].strip() if '": ' in message else ""
    return Waiting(
        f"{image} cannot be pulled{f': {cause}' if cause else ''}",
        "Check the name of the image, whether the node reaches its registry and, for a private registry, "
        "`imagePullSecrets`.",
    )


def _nodes(total: int, causes: str) -> Waiting:
    """Describe the scheduler's message about `total` nodes, e.g. `1 Insufficient cpu, 2 node(s) had …`."""
    if not total:
        return Waiting("the cluster has no nodes", "Add a node.")
    parts = list(_node_causes(total, causes))
    is_short = "Insufficient" in causes or "Too many pods" in causes
    advice = (
        "Request less (`resources` in the job file), wait until other jobs have ended, or add nodes."
        if is_short
        else "Change what the job requires of its nodes, or the nodes."
    )
    return Waiting(f"{NO_NODE}: {', '.join(parts)}", advice)


def _node_causes(total: int, causes: str) -> Iterator[str]:
    for part in re.split(r", (?=\d+ )", causes):
        found = _NODE_CAUSE.fullmatch(part)
        if found is None:
            yield part
            continue
        number = int(found["number"])
        subject = "the only node" if total == 1 else f"{number} of {total} nodes"
        yield f"{subject} {_node_cause(found['cause'], 'has' if number == 1 else 'have')}"


def _node_cause(cause: str, have: str) -> str:
    if cause.startswith("Insufficient "):
        resource = cause.removeprefix("Insufficient ")
        return f"{have} {_SHORTAGES.get(resource, f'too few free {resource}')}"
    if cause == "Too many pods":
        return f"{have} too many pods"
    if taint := _TAINT.match(cause):
        return f"{have} the taint {taint['taint']}, which the task does not tolerate"
    return cause.removeprefix("node(s) ")
