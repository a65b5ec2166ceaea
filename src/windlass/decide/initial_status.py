"""Initial statuses of a Framework, an attempt, a role and a task.

UIDs are derived, not random. The Framework's resourceVersion makes them unique: a new status takes effect only after it
is stored, and storing it changes the resourceVersion.
"""

from datetime import datetime
from hashlib import blake2b

from windlass.model import names
from windlass.model.framework import Framework, TaskRoleSpec
from windlass.model.status import (
    FrameworkAttemptStatus,
    FrameworkStatus,
    TaskAttemptStatus,
    TaskRoleStatus,
    TaskStatus,
)


def derived_uid(*parts: str) -> str:
    """Return a UUID derived from the parts."""
    digits = blake2b("/".join(parts).encode(), digest_size=16).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def derived_fraction(*parts: str) -> float:
    """Return a number in [0, 1) derived from the parts: jitter that a replay repeats."""
    return int.from_bytes(blake2b("/".join(parts).encode(), digest_size=6).digest(), "big") / 2**48


def task_attempt(
    framework: Framework, role: str, index: int, attempt_id: int, now: datetime
) -> TaskAttemptStatus:
    return TaskAttemptStatus(
        id=attempt_id, start_time=now, pod_name=names.pod_name(framework.name, role, index)
    )


def task(framework: Framework, role: str, index: int, attempt_id: int, now: datetime) -> TaskStatus:
    """Return a new task. `attempt_id` is the ID of the Framework attempt."""
    version = framework.metadata.resource_version
    return TaskStatus(
        index=index,
        instance_uid=derived_uid(framework.uid, version, str(attempt_id), role, str(index)),
        start_time=now,
        transition_time=now,
        attempt_status=task_attempt(framework, role, index, 0, now),
    )


def task_role(framework: Framework, spec: TaskRoleSpec, attempt_id: int, now: datetime) -> TaskRoleStatus:
    return TaskRoleStatus(
        name=spec.name,
        instance_uid=derived_uid(
            framework.uid, framework.metadata.resource_version, str(attempt_id), spec.name
        ),
        pod_graceful_deletion_timeout_sec=spec.task.pod_graceful_deletion_timeout_sec,
        task_statuses=tuple(
            task(framework, spec.name, index, attempt_id, now) for index in range(spec.task_number)
        ),
    )


def attempt(framework: Framework, attempt_id: int, now: datetime) -> FrameworkAttemptStatus:
    """Return a new attempt with the tasks of the current spec."""
    return FrameworkAttemptStatus(
        id=attempt_id,
        start_time=now,
        config_map_name=names.config_map_name(framework.name),
        task_role_statuses=tuple(
            task_role(framework, role, attempt_id, now) for role in framework.spec.task_roles
        ),
    )


def framework_status(framework: Framework, now: datetime) -> FrameworkStatus:
    return FrameworkStatus(start_time=now, transition_time=now, attempt_status=attempt(framework, 0, now))
