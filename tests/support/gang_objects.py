"""Gangs and Frameworks whose tasks have addresses, as input of a barrier."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import builders
import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.gang import GangMember, GangRole, GangSpec
from windlass.model.status import (
    FrameworkAttemptStatus,
    FrameworkStatus,
    TaskAttemptStatus,
    TaskRoleStatus,
    TaskStatus,
)

CONFIG_MAP: Final = "cm"
ATTEMPT: Final = f"0_{CONFIG_MAP}"
GANG: Final = f"digits-{CONFIG_MAP}"
WORKER_1: Final = {
    "FC_FRAMEWORK_NAMESPACE": "research",
    "FC_FRAMEWORK_NAME": "digits",
    "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": ATTEMPT,
    "FC_POD_UID": "uid-worker-1",
    "FC_TASKROLE_NAME": "worker",
    "FC_TASK_INDEX": "1",
    "WINDLASS_GANG": GANG,
}
"""The environment of that task's barrier."""
TWO_ROLES: Final = {"ps": ["10.0.0.4"], "worker": ["10.0.0.5", "10.0.0.6"]}

Ips = Mapping[str, Sequence[str]]
"""Addresses by role; empty for a task without one."""


def pod_uid(role: str, index: int) -> str:
    return f"uid-{role}-{index}"


def gang(ips: Ips = TWO_ROLES, *, service: str = "", port: int = 2222, slots: int = 1) -> GangSpec:
    return GangSpec(
        framework_name="digits",
        framework_uid="digits-uid",
        attempt_instance_uid=ATTEMPT,
        service=service,
        roles=tuple(
            GangRole(
                role, port, slots, tuple(GangMember(pod_uid(role, at), ip) for at, ip in enumerate(listed))
            )
            for role, listed in ips.items()
        ),
    )


def stored(spec: GangSpec) -> Json:
    """Return the object as stored by the API server."""
    return {
        "apiVersion": f"{names.GANG_GROUP}/{names.VERSION}",
        "kind": names.GANG_KIND,
        "metadata": {"name": GANG, "namespace": "research", "resourceVersion": "7"},
        "spec": msgspec.to_builtins(spec),
    }


def framework(ips: Ips = TWO_ROLES, *, pod: Json | None = None, **fields: Any) -> Framework:
    """Return a Framework whose attempt has a ConfigMap and whose tasks have pods."""
    unstarted = builders.framework(
        fields.pop("name", "digits"),
        *(builders.role(role, len(listed), pod=pod) for role, listed in ips.items()),
        namespace=fields.pop("namespace", "research"),
        **fields,
    )
    attempt = FrameworkAttemptStatus(
        start_time=builders.NOW,
        instance_uid=ATTEMPT,
        config_map_name=names.config_map_name(unstarted.name),
        config_map_uid=CONFIG_MAP,
        task_role_statuses=tuple(
            TaskRoleStatus(
                name=role,
                instance_uid=f"uid-{role}",
                task_statuses=tuple(_task(unstarted, role, at, ip) for at, ip in enumerate(listed)),
            )
            for role, listed in ips.items()
        ),
    )
    return unstarted.with_status(
        FrameworkStatus(start_time=builders.NOW, transition_time=builders.NOW, attempt_status=attempt)
    )


def _task(of: Framework, role: str, index: int, ip: str) -> TaskStatus:
    return TaskStatus(
        index=index,
        instance_uid=f"uid-task-{role}-{index}",
        start_time=builders.NOW,
        transition_time=builders.NOW,
        attempt_status=TaskAttemptStatus(
            start_time=builders.NOW,
            instance_uid=f"0_{pod_uid(role, index)}",
            pod_name=names.pod_name(of.name, role, index),
            pod_uid=pod_uid(role, index),
            pod_ip=ip or None,
        ),
    )
