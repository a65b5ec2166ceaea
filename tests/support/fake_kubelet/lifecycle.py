"""The behaviour of pods under the fake kubelet as data, and the statuses that it writes.

The behaviour is in annotations of the pod, so that a job file alone defines what a test or a benchmark observes:

    hollow.windlass.dev/starts-after: "0.5"    seconds until it runs, or never
    hollow.windlass.dev/runs-for: never        seconds until it ends by itself, or never
    hollow.windlass.dev/exit-code: "1"         exit code of its containers
    hollow.windlass.dev/reason: Evicted        reason of the pod after a failure
    hollow.windlass.dev/message: text          termination message of its containers
    hollow.windlass.dev/stops-after: never     seconds from its deletion until it is removed, or never
    hollow.windlass.dev/gang: "50"             starts and ends together with this number of pods of its attempt

They are read whenever the pod changes: a pod that runs forever ends when its runs-for is set to 0.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from windlass.k8s.metadata import OwnedObjectMeta
from windlass.model.base import Json, Sparse

ANNOTATION_PREFIX: Final = "hollow.windlass.dev/"
NEVER: Final = "never"
HOST_ADDRESS: Final = "192.0.2.1"


class Life(msgspec.Struct, frozen=True):
    """Simulated behaviour of a pod. By default it starts and succeeds at once, and is removed when it is deleted."""

    starts_after: float | None = 0.0
    runs_for: float | None = 0.0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    stops_after: float | None = 0.0
    gang: int = 1


class Container(Sparse, frozen=True):
    name: str = ""
    image: str = ""


class PodSpec(Sparse, frozen=True):
    node_name: str = ""
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()


class PodStatus(Sparse, frozen=True):
    phase: str = "Pending"


class Pod(Sparse, frozen=True):
    """The fields of a pod that the fake kubelet reads."""

    metadata: OwnedObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def is_deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_ended(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def owner_uid(self) -> str:
        return next((owner.uid for owner in self.metadata.owner_references if owner.controller), "")


Play = Callable[[Pod], Life]
"""Returns the life of a pod. Called whenever the pod changes."""


def by_annotations(default: Life) -> Play:
    """Return a function that applies the annotations of a pod to the default."""

    def play(pod: Pod) -> Life:
        values = {
            key.removeprefix(ANNOTATION_PREFIX): value
            for key, value in pod.metadata.annotations.items()
            if key.startswith(ANNOTATION_PREFIX)
        }
        return _with_annotations(default, values) if values else default

    return play


def annotations(
    *,
    starts_after: float | str | None = None,
    runs_for: float | str | None = None,
    exit_code: int | None = None,
    reason: str | None = None,
    message: str | None = None,
    stops_after: float | str | None = None,
    gang: int | None = None,
) -> dict[str, str]:
    """Return the annotations for a pod template."""
    given = {
        "starts-after": starts_after,
        "runs-for": runs_for,
        "exit-code": exit_code,
        "reason": reason,
        "message": message,
        "stops-after": stops_after,
        "gang": gang,
    }
    return {f"{ANNOTATION_PREFIX}{key}": str(value) for key, value in given.items() if value is not None}


def _with_annotations(default: Life, values: Mapping[str, str]) -> Life:
    return Life(
        starts_after=_seconds(values, "starts-after", default.starts_after),
        runs_for=_seconds(values, "runs-for", default.runs_for),
        exit_code=int(values.get("exit-code", default.exit_code)),
        reason=values.get("reason", default.reason),
        message=values.get("message", default.message),
        stops_after=_seconds(values, "stops-after", default.stops_after),
        gang=int(values.get("gang", default.gang)),
    )


def _seconds(values: Mapping[str, str], key: str, default: float | None) -> float | None:
    value = values.get(key)
    if value is None:
        return default
    return None if value == NEVER else float(value)


def running_status(pod: Pod, address: str, now: str) -> Json:
    state = {"running": {"startedAt": now}}
    return {
        "phase": "Running",
        "hostIP": HOST_ADDRESS,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now,
        "conditions": [_condition("Initialized", now), _condition("Ready", now)],
        "initContainerStatuses": [
            _container_status(container, _terminated(0, "", now), is_ready=True)
            for container in pod.spec.init_containers
        ],
        "containerStatuses": [
            _container_status(container, state, is_ready=True) for container in pod.spec.containers
        ],
    }


def ended_status(pod: Pod, life: Life, now: str) -> Json:
    is_failed = bool(life.exit_code or life.reason)
    state = _terminated(life.exit_code, life.message, now)
    status: Json = {
        "phase": "Failed" if is_failed else "Succeeded",
        "containerStatuses": [
            _container_status(container, state, is_ready=False) for container in pod.spec.containers
        ],
    }
    return {**status, "reason": life.reason} if life.reason else status


def _terminated(exit_code: int, message: str, now: str) -> Json:
    ended: Json = {
        "exitCode": exit_code,
        "reason": "Error" if exit_code else "Completed",
        "startedAt": now,
        "finishedAt": now,
    }
    return {"terminated": {**ended, "message": message} if message else ended}


def _container_status(container: Container, state: Json, *, is_ready: bool) -> Json:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": is_ready,
        "restartCount": 0,
        "state": state,
    }


def _condition(kind: str, now: str) -> Json:
    return {"type": kind, "status": "True", "lastTransitionTime": now}
