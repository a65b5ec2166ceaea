"""A job with many tasks, stored with its status: no controller and no pods are needed."""

from datetime import timedelta
from typing import Any

import builders
import msgspec
from scripted_cluster import Place

from windlass.wire import codec

NODES = 200
FAILED_EVERY = 500
"""Each of these tasks has failed."""


def create(place: Place, name: str, tasks: int) -> None:
    """Create a running job."""
    store(place, submit(place, name, tasks), status(name, tasks))


def submit(place: Place, name: str, tasks: int) -> dict[str, Any]:
    """Create a job without a status, and return it."""
    role = builders.role("worker", tasks, min_failed=-1)
    framework = builders.framework(name, role, namespace=place.name, uid="", resource_version="")
    created: dict[str, Any] = place.submit(msgspec.to_builtins(framework) | {"status": None})
    return created


def store(place: Place, created: dict[str, Any], found: dict[str, Any]) -> None:
    """Store the status of a created job."""
    name = created["metadata"]["name"]
    body = {**created, "status": found}
    full = codec.decode_framework(msgspec.json.encode(body))
    assert full.status is not None
    stored = msgspec.structs.replace(full, status=codec.compress_status(full.status))
    place.client.put(
        f"{place.framework_path(name)}/status", msgspec.json.decode(codec.encode_framework(stored))
    ).expect(200)


def status(name: str, tasks: int) -> dict[str, Any]:
    return {
        "startTime": _at(0),
        "runTime": _at(5),
        "transitionTime": _at(5),
        "state": "AttemptRunning",
        "attemptStatus": {
            "id": 0,
            "startTime": _at(0),
            "runTime": _at(5),
            "configMapName": f"{name}-attempt",
            "taskRoleStatuses": [
                {"name": "worker", "taskStatuses": [_task(name, index) for index in range(tasks)]}
            ],
        },
    }


def _task(name: str, index: int) -> dict[str, Any]:
    has_failed = index % FAILED_EVERY == FAILED_EVERY - 1
    started = 5 + index % 60
    attempt: dict[str, Any] = {
        "id": 0,
        "startTime": _at(index % 5),
        "runTime": _at(started),
        "podName": f"{name}-worker-{index}",
        "podUID": f"{index:032}",
        "podNodeName": f"node-{index % NODES}",
    }
    task: dict[str, Any] = {
        "index": index,
        "startTime": _at(index % 5),
        "runTime": _at(started),
        "state": "AttemptRunning",
        "transitionTime": _at(started),
        "attemptStatus": attempt,
    }
    if has_failed:
        attempt["completionTime"] = task["completionTime"] = _at(started + 100)
        attempt["completionStatus"] = {
            "code": 1,
            "phrase": "ContainerFailed",
            "type": {"name": "Failed", "attributes": []},
            "diagnostics": "exited with code 1",
        }
        task["state"] = "Completed"
    return task


def _at(seconds: float) -> str:
    return (builders.NOW + timedelta(seconds=seconds)).isoformat()
