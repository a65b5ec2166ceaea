"""Frameworks whose pods have annotations for the fake kubelet."""

from typing import Any

from fake_kubelet import lifecycle

from windlass.model import names
from windlass.model.base import Json

FOREVER = lifecycle.annotations(runs_for="never")
UNTIL_TOLD = FOREVER
"""Runs until the test sets its annotations anew."""
PENDING = lifecycle.annotations(starts_after="never")
SUCCEEDS = lifecycle.annotations(runs_for=0)


def fails(code: int = 1, **more: Any) -> dict[str, str]:
    return lifecycle.annotations(runs_for=0, exit_code=code, **more)


def role(
    name: str = "worker",
    tasks: int = 1,
    life: dict[str, str] | None = None,
    *,
    min_failed: int = 1,
    min_succeeded: int = -1,
    retry: Json | None = None,
    graceful_timeout: int | None = None,
    pod: Json | None = None,
) -> Json:
    task: Json = {"retryPolicy": retry or {}, "pod": pod or template(life)}
    if graceful_timeout is not None:
        task["podGracefulDeletionTimeoutSec"] = graceful_timeout
    return {
        "name": name,
        "taskNumber": tasks,
        "frameworkAttemptCompletionPolicy": {
            "minFailedTaskCount": min_failed,
            "minSucceededTaskCount": min_succeeded,
        },
        "task": task,
    }


def template(life: dict[str, str] | None = None, **spec: Any) -> Json:
    container = {"name": "main", "image": "windlass/test:1", "command": ["true"]}
    return {
        "metadata": {"annotations": life or {}},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def framework(
    name: str,
    *roles: Json,
    group: str = names.CONTROLLER_GROUP,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Json:
    """`spec` takes the other fields, as they are spelt in YAML."""
    return {
        "apiVersion": names.api_version(group),
        "kind": names.KIND,
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"executionType": "Start", "taskRoles": list(roles or (role(),)), **spec},
    }
