"""Build Frameworks and roles, with defaults for everything that the caller does not set."""

from datetime import UTC, datetime
from typing import Any

from windlass.k8s.metadata import ObjectMeta
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import (
    CompletionPolicySpec,
    Framework,
    FrameworkSpec,
    RetryPolicySpec,
    TaskRoleSpec,
    TaskSpec,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = "default"
POD_TEMPLATE: Json = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "busybox", "command": ["true"]}],
    }
}


def role(
    name: str = "worker",
    tasks: int = 1,
    *,
    min_failed: int = 1,
    min_succeeded: int = -1,
    retry: RetryPolicySpec | None = None,
    graceful_timeout: int | None = None,
    pod: Json | None = None,
) -> TaskRoleSpec:
    return TaskRoleSpec(
        name=name,
        task_number=tasks,
        framework_attempt_completion_policy=CompletionPolicySpec(
            min_failed_task_count=min_failed, min_succeeded_task_count=min_succeeded
        ),
        task=TaskSpec(
            retry_policy=retry or RetryPolicySpec(),
            pod_graceful_deletion_timeout_sec=graceful_timeout,
            pod=POD_TEMPLATE if pod is None else pod,
        ),
    )


def framework(
    name: str = "job",
    *roles: TaskRoleSpec,
    group: str = names.CONTROLLER_GROUP,
    namespace: str = NAMESPACE,
    uid: str | None = None,
    resource_version: str = "1",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Framework:
    """Return a Framework. `spec` takes the other fields of FrameworkSpec."""
    return Framework(
        api_version=names.api_version(group),
        kind=names.KIND,
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"{name}-uid" if uid is None else uid,
            resource_version=resource_version,
            creation_timestamp=NOW,
            annotations=annotations or {},
        ),
        spec=FrameworkSpec(task_roles=roles or (role(),), **spec),
    )
