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
    """Number of the attempt, from 0."""
    start_time: Timestamp
    """When the attempt started."""
    run_time: Timestamp | None = None
    """When its pod was first seen running."""
    completion_time: Timestamp | None = None
    """When the controller saw that it had ended."""
    instance_uid: str | None = None
    """The number and the UID of the pod."""
    pod_name: str
    """Name of the pod."""
    pod_uid: str | None = None
    """UID of the pod; null until it is created."""
    pod_node_name: str | None = None
    """Node of the pod."""
    pod_ip: str | None = None
    """Address of the pod."""
    pod_host_ip: str | None = None
    """Address of the node."""
    completion_status: TaskAttemptCompletionStatus | None = None
    """Result; null until the attempt has ended."""
    pod_times: PodTimes | msgspec.UnsetType = msgspec.UNSET
    """Absent unless records of attempts are enabled."""

    @property
    def times_of_pod(self) -> PodTimes:
        """The times of the pod; without any if they are unknown."""
        return _UNKNOWN_TIMES if self.pod_times is msgspec.UNSET else self.pod_times


class RetryOutcome(Sparse, frozen=True):
    """The decision of the retry policy about an attempt, with its reason."""

    should_retry: bool
    """Whether another attempt follows."""
    reason: str = ""
    """Reason of the decision, for people."""
    is_counted: bool = False
    """Whether the retry counts for maxRetryCount."""
    delay_sec: int = 0
    """Delay before the next attempt."""


class EndedTaskAttempt(Sparse, frozen=True, kw_only=True):
    """A completed attempt of a task, with the decision of the retry policy."""

    role: str
    """Role of the task."""
    index: int
    """Index of the task in its role."""
    attempt: TaskAttemptStatus
    """The attempt."""
    retry: RetryOutcome | None = None
    """Absent for a task that ended with the Framework attempt."""


class TaskStatus(Dense, frozen=True, kw_only=True):
    index: int
    """Index of the task in its role."""
    instance_uid: str | None = None
    """UID of the task; a task that is removed and added again has a new one."""
    deletion_pending: bool = False
    """Whether the task is marked for deletion by a scale-down. Completion policies and barriers then ignore it."""
    start_time: Timestamp
    """When the task was added."""
    run_time: Timestamp | None = None
    """When its first pod was seen running."""
    completion_time: Timestamp | None = None
    """When the task completed."""
    state: State = State.ATTEMPT_CREATION_PENDING
    transition_time: Timestamp
    """When the state changed."""
    retry_policy_status: RetryPolicyStatus = RetryPolicyStatus()
    """Retries of the task."""
    attempt_status: TaskAttemptStatus
    """Current attempt."""

    @property
    def is_completed(self) -> bool:
        return self.state is COMPLETED


class TaskRoleStatus(Dense, frozen=True, kw_only=True):
    name: str
    """Name of the role."""
    instance_uid: str | None = None
    """UID of the role."""
    pod_graceful_deletion_timeout_sec: int | None = None
    """Copy of the spec's value, stored before it is used."""
    task_statuses: tuple[TaskStatus, ...] = ()
    """Its tasks, by index."""


class FrameworkAttemptStatus(Dense, frozen=True, kw_only=True):
    id: int = 0
    """Number of the attempt, from 0."""
    start_time: Timestamp
    """When the attempt started."""
    run_time: Timestamp | None = None
    """When its first task was seen running."""
    completion_time: Timestamp | None = None
    """When the attempt ended."""
    instance_uid: str | None = None
    """The number and the UID of the ConfigMap."""
    config_map_name: str
    """Name of the ConfigMap that owns the pods of the attempt."""
    config_map_uid: str | None = None
    """UID of the ConfigMap; null until it is created."""
    completion_status: FrameworkAttemptCompletionStatus | None = None
    """Result; null until the attempt has ended."""
    task_role_statuses: tuple[TaskRoleStatus, ...] | None = ()
    """Null in the stored JSON if taskRoleStatusesCompressed contains the statuses."""
    task_role_statuses_compressed: str | msgspec.UnsetType = msgspec.UNSET
    """The statuses of a large Framework: JSON, gzip, base64."""

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
    """Complete, Failed, Suspended, NameTaken, Invalid or OtherController."""
    status: str
    """"True" or "False"."""
    last_transition_time: Timestamp
    """When the status of the condition changed."""
    reason: str = ""
    """Reason as a word."""
    message: str = ""
    """Reason as a sentence."""

    @property
    def is_true(self) -> bool:
        return self.status == "True"


class Summary(Dense, frozen=True):
    """Numbers of tasks by state. Tasks marked for deletion are not counted. A task that ended because the Framework
    attempt ended, e.g. a parameter server, is counted neither as succeeded nor as failed."""

    tasks: int = 0
    """Number of tasks."""
    running: int = 0
    """Number of running tasks."""
    succeeded: int = 0
    """Number of succeeded tasks."""
    failed: int = 0
    """Number of failed tasks."""


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
    """When the Framework was first processed."""
    run_time: Timestamp | None = None
    """When its first task was seen running."""
    completion_time: Timestamp | None = None
    """When the Framework completed."""
    state: State = State.ATTEMPT_CREATION_PENDING
    transition_time: Timestamp
    """When the state changed."""
    retry_policy_status: RetryPolicyStatus = RetryPolicyStatus()
    """Retries of the Framework."""
    attempt_status: FrameworkAttemptStatus
    """Current attempt."""
    conditions: tuple[Condition, ...] = ()
    """Conditions, for `kubectl wait`."""
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
