"""What the controller has found out and decided about a Framework. Only the controller writes it.

The names and the shape are the reference's; what Windlass adds stands at the Framework's own level only, so that
ten thousand task statuses do not grow by it.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from windlass.model.base import Dense, Sparse
from windlass.model.completion import FrameworkAttemptCompletionStatus, TaskAttemptCompletionStatus
from windlass.model.states import COMPLETED, State

Timestamp = Annotated[datetime, msgspec.Meta(tz=True)]
"""Somebody may have edited a status by hand: a time without a zone is none."""


class RetryPolicyStatus(Dense, frozen=True):
    total_retried_count: int = 0
    """Every retry. Also the id of the current attempt."""
    accountable_retried_count: int = 0
    """The retries that are held against maxRetryCount."""
    retry_delay_sec: int | None = None
    """Chosen once and stored; the retry is due that long after the attempt's completionTime."""


class TaskAttemptStatus(Dense, frozen=True, kw_only=True):
    id: int = 0
    start_time: Timestamp
    run_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    instance_uid: str | None = None
    pod_name: str
    pod_uid: str | None = None
    pod_node_name: str | None = None
    pod_ip: str | None = None
    pod_host_ip: str | None = None
    completion_status: TaskAttemptCompletionStatus | None = None


class TaskStatus(Dense, frozen=True, kw_only=True):
    index: int
    instance_uid: str | None = None
    deletion_pending: bool = False
    """Scaled away: on its way out, and counted by nobody."""
    start_time: Timestamp
    run_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    state: State = State.ATTEMPT_CREATION_PENDING
    transition_time: Timestamp
    retry_policy_status: RetryPolicyStatus = RetryPolicyStatus()
    attempt_status: TaskAttemptStatus

    @property
    def is_completed(self) -> bool:
        return self.state is COMPLETED


class TaskRoleStatus(Dense, frozen=True, kw_only=True):
    name: str
    instance_uid: str | None = None
    pod_graceful_deletion_timeout_sec: int | None = None
    """Copied from the spec and stored before it is used."""
    task_statuses: tuple[TaskStatus, ...] = ()


class FrameworkAttemptStatus(Dense, frozen=True, kw_only=True):
    id: int = 0
    start_time: Timestamp
    run_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    instance_uid: str | None = None
    config_map_name: str
    config_map_uid: str | None = None
    completion_status: FrameworkAttemptCompletionStatus | None = None
    task_role_statuses: tuple[TaskRoleStatus, ...] | None = ()
    """Null only on the wire, while taskRoleStatusesCompressed holds them."""
    task_role_statuses_compressed: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def roles(self) -> tuple[TaskRoleStatus, ...]:
        return self.task_role_statuses or ()


class ConditionType(StrEnum):
    COMPLETE = "Complete"
    FAILED = "Failed"
    SUSPENDED = "Suspended"
    NAME_TAKEN = "NameTaken"
    INVALID = "Invalid"
    OTHER_CONTROLLER = "OtherController"


class Condition(Dense, frozen=True, kw_only=True):
    """As every Kubernetes object has them, so that `kubectl wait --for=condition=Complete` works."""

    type: str
    status: str
    """"True" or "False"."""
    last_transition_time: Timestamp
    reason: str = ""
    message: str = ""

    @property
    def is_true(self) -> bool:
        return self.status == "True"


class Summary(Dense, frozen=True):
    """How many tasks there are and how they stand. Tasks that are being scaled away do not count, and one that ended
    because its attempt did, such as a parameter server, neither succeeded nor failed."""

    tasks: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class Holding(Sparse, frozen=True):
    """The time that a Framework was kept from running, by suspend or by executionType Create."""

    since: Timestamp | None = None
    """Since when it is held, if it is held now."""
    total_sec: int = 0
    """For how long it was held before."""
    suspended_count: int = 0
    """How many attempts a suspension ended: they count as no retry."""


class FrameworkStatus(Dense, frozen=True, kw_only=True):
    start_time: Timestamp
    run_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    state: State = State.ATTEMPT_CREATION_PENDING
    transition_time: Timestamp
    retry_policy_status: RetryPolicyStatus = RetryPolicyStatus()
    attempt_status: FrameworkAttemptStatus
    conditions: tuple[Condition, ...] = ()
    summary: Summary = Summary()
    holding: Holding = Holding()

    def condition(self, kind: ConditionType) -> Condition | None:
        return next((condition for condition in self.conditions if condition.type == kind), None)
