"""The submitted jobs: Frameworks and Kubernetes Jobs with the same pods."""

import enum
import json
from typing import Final

from fake_kubelet.lifecycle import ANNOTATION_PREFIX, NEVER

from windlass.kubeapi.resources import JOBS, Resource, frameworks
from windlass.model import names
from windlass.model.base import Json

NAMESPACE: Final = "windlass-bench"
LABEL: Final = "bench.windlass.dev/job"
"""The label by which the fake kubelet and the driver know pods. Its value is the job's name."""
FRAMEWORKS: Final = frameworks(names.CONTROLLER_GROUP)
FOREVER: Final = NEVER
"""The maximum run time of pods."""


class Pods(enum.StrEnum):
    """What happens to the pods of a finished job."""

    KEPT = "kept"
    REMOVED = "removed"


def framework(name: str, tasks: int, *, pods: Pods, runs_for: str = "0") -> bytes:
    role = {"name": "worker", "taskNumber": tasks, "task": {"pod": _template(name, runs_for)}}
    body = {
        "apiVersion": names.api_version(names.CONTROLLER_GROUP),
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {"completedPods": "Keep" if pods is Pods.KEPT else "Delete", "taskRoles": [role]},
    }
    return json.dumps(body).encode()


def job(name: str, tasks: int, *, is_indexed: bool, runs_for: str = "0") -> bytes:
    spec: Json = {"completions": tasks, "parallelism": tasks, "template": _template(name, runs_for)}
    if is_indexed:
        spec["completionMode"] = "Indexed"
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    return json.dumps(body).encode()


def _template(name: str, runs_for: str) -> Json:
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    return {
        "metadata": {"labels": {LABEL: name}, "annotations": {f"{ANNOTATION_PREFIX}runs-for": runs_for}},
        # No scheduler may bind them: the fake kubelet does.
        "spec": {"restartPolicy": "Never", "schedulerName": "hollow", "containers": [container]},
    }


def is_done(resource: Resource, status: Json) -> bool:
    if resource == JOBS:
        return any(
            each["type"] == "Complete" and each["status"] == "True" for each in status.get("conditions") or ()
        )
    return bool(status.get("state") == "Completed")


def is_running(resource: Resource, status: Json, tasks: int) -> bool:
    if resource == JOBS:
        return int(status.get("active") or 0) == tasks
    return bool(status.get("state") == "AttemptRunning")
