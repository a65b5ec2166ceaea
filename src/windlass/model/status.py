"""The status of a Framework. Only the controller writes it.

Names and structure are those of FrameworkController; additions of Windlass are at the level of the Framework, so that
they do not enlarge ten thousand task statuses. `podTimes`, which exists only with records of attempts, is an exception.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from windlass.model.base import Dense, Sparse
from windlass.model.completion import FrameworkAttemptCompletionStatus, TaskAttemptCompletionStatus
from windlass.model.states import COMPLETED, State

Timestamp = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with a time zone. A time without one, e.g. in a status edited by hand, is rejected."""


class RetryPolicyStatus(Dense, frozen=True):
    total_retried_count: int = 0
    """Number of all retries. Also the ID of the current attempt."""
    accountable_retried_count: int = 0
    """Number of retries that count for maxRetryCount."""
    retry_delay_sec: int | None = None
    """Delay of the next retry after the attempt's completionTime. Chosen once and stored."""


class PodTimes(Sparse, frozen=True, kw_only=True):
    """Times of the pod of an ended task attempt, as far as they are known. They complete the times of the attempt:
    `startTime` (AttemptCreationPending), `runTime` (AttemptRunning) and `completionTime` (AttemptCompleted)."""

    created: Timestamp | None = None
    """When the API server created the pod: AttemptCreationRequested, then AttemptPreparing."""
    scheduled: Timestamp | None = None
    """When the kubelet of its node accepted the pod (`status.startTime`). Images are pulled after this."""
    started: Timestamp | None = None
    """When the first container started; init containers are not counted. By the clock of the node."""
    ended: Timestamp | None = None
    """When the last container ended, by the clock of the node."""
    deletion_requested: Timestamp | None = None
    """When the API server received the request that deleted the pod: AttemptDeletionRequested, then AttemptDeleting."""


_UNKNOWN_TIMES = PodTimes()


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
    pod_times: PodTimes | msgspec.UnsetType = msgspec.UNSET
    """Absent unless records of attempts are enabled."""

    @property
    def times_of_pod(self) -> PodTimes:
        """The times of the pod; without any if they are unknown."""
        return _UNKNOWN_TIMES if self.pod_times is msgspec.UNSET else self.pod_times


class RetryOutcome(Sparse, frozen=True):
    """The decision of the retry policy about an attempt, with its reason."""

    should_retry: bool
    reason: str = ""
    is_counted: bool = False
    """Whether the retry counts for maxRetryCount."""
    delay_sec: int = 0


class EndedTaskAttempt(Sparse, frozen=True, kw_only=True):
    """A completed attempt of a task, with the decision of the retry policy."""

    role: str
    index: int
    attempt: TaskAttemptStatus
    retry: RetryOutcome | None = None
    """Absent for a task that ended with the Framework attempt."""


class TaskStatus(Dense, frozen=True, kw_only=True):
    index: int
    instance_uid: str | None = None
    deletion_pending: bool = False
    """Whether the task is marked for deletion by a scale-down. Completion policies and barriers then ignore it."""
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
    """Copy of the spec's value, stored before it is used."""
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
    """Null in the stored JSON if taskRoleStatusesCompressed contains the statuses."""
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
    """A Kubernetes condition, for `kubectl wait --for=condition=Complete`."""

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
    """Numbers of tasks by state. Tasks marked for deletion are not counted. A task that ended because the Framework
    attempt ended, e.g. a parameter server, is counted neither as succeeded nor as failed."""

    tasks: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class Holding(Sparse, frozen=True):
    """Time in which a Framework was held, i.e. not allowed to run, because of suspend or executionType Create."""

    since: Timestamp | None = None
    """Start of the current hold. Absent: the Framework is not held."""
    total_sec: int = 0
    """Total duration of earlier holds."""
    suspended_count: int = 0
    """Number of attempts ended by a suspension. Their retries count only for totalRetriedCount."""


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
    earlier_task_attempts: tuple[EndedTaskAttempt, ...] | msgspec.UnsetType = msgspec.UNSET
    """Attempts of tasks that were retried in this Framework attempt, oldest first, up to a limit. Absent unless records
    of attempts are enabled."""

    @property
    def earlier_attempts(self) -> tuple[EndedTaskAttempt, ...]:
        return () if self.earlier_task_attempts is msgspec.UNSET else self.earlier_task_attempts

    def condition(self, condition_type: ConditionType) -> Condition | None:
        return next((condition for condition in self.conditions if condition.type == condition_type), None)
