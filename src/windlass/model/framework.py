"""The Framework: spec and metadata."""

import functools
import operator
import re
from enum import StrEnum
from typing import Annotated

import msgspec

from windlass.k8s.metadata import ObjectMeta
from windlass.model import names
from windlass.model.base import Json, Sparse
from windlass.model.completion import CompletionType
from windlass.model.failures import IntRange, TaskFailureClass
from windlass.model.pods import PodPhase
from windlass.model.status import FrameworkStatus


class ExecutionType(StrEnum):
    CREATE = "Create"
    """Create the task statuses, but do not start the first attempt."""
    START = "Start"
    """Run the Framework."""
    STOP = "Stop"
    """Stop the Framework permanently."""


class CompletedPods(StrEnum):
    DELETE = "Delete"
    """Delete the pods of an attempt when it ends, as FrameworkController does."""
    KEEP = "Keep"
    """Keep the completed pods of the last attempt, with their logs, until the Framework is deleted."""


MAX_TASK_NUMBER = 10_000
ALWAYS_RETRY = -2
RETRY_IF_FAILED = -1

RetryCount = Annotated[int, msgspec.Meta(ge=ALWAYS_RETRY, le=2**31 - 1)]
TaskCount = Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
PositiveCount = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
INDEXES_PATTERN = "^[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*$"


class RetryBackoff(Sparse, frozen=True):
    """Delay before a retry: doubles from the initial to the maximum delay, with jitter."""

    initial_sec: Seconds = 5
    """Delay before the first retry."""
    max_sec: Seconds = 300
    """Maximum delay."""


class RetryPolicySpec(Sparse, frozen=True):
    """When a Framework or a task is retried."""

    fancy_retry_policy: bool = False
    """Retry transient failures without counting them, and never retry permanent ones."""
    max_retry_count: RetryCount = 0
    """-2: always retry; -1: retry after every failure; n: retry after up to n failures."""
    max_transient_retry_count: Count | None = None
    """Maximum number of retries that fancyRetryPolicy does not count. Absent: unlimited."""
    retry_backoff: RetryBackoff | None = None
    """Absent: no delay, except after a Transient Conflict failure of a Framework with fancyRetryPolicy."""


class CompletionPolicySpec(Sparse, frozen=True):
    """Numbers of failed or succeeded tasks of a role that complete the Framework attempt. 0 and -1 disable a rule."""

    min_failed_task_count: TaskCount = 0
    """Number of failed tasks of the role that fails the attempt."""
    min_succeeded_task_count: TaskCount = 0
    """Number of succeeded tasks of the role that completes the attempt with success."""


FIELDS_WITHOUT_STORED_DEFAULT = frozenset(
    {"completion_policies", "start_after", "parallelism", "pod_failure_spec"}
)
"""Fields that are left out where all defaults are written, so that Frameworks without them stay as they were."""


class CompletionRule(Sparse, frozen=True, kw_only=True):
    """A rule that completes the Framework attempt. Exactly one of the fields allSucceeded and min… is set. The attempt
    succeeds with allSucceeded and minSucceededTaskCount, and fails with the others."""

    name: str = ""
    """Name of the rule in messages."""
    task_roles: tuple[str, ...] = ()
    """Roles of the selected tasks. Absent: all roles."""
    task_indexes: Annotated[str, msgspec.Meta(pattern=INDEXES_PATTERN)] | None = None
    """Indexes of the selected tasks in each role, e.g. 0-3,7. Absent: all indexes."""
    after_all: bool = False
    """Evaluate the rule only when all selected tasks have completed."""
    all_succeeded: bool = False
    """All selected tasks have succeeded."""
    min_succeeded_task_count: PositiveCount | None = None
    """Number of selected tasks that have succeeded."""
    min_failed_task_count: PositiveCount | None = None
    """Number of selected tasks that have failed and are not retried."""
    phrases: tuple[str, ...] = ()
    """With minFailedTaskCount: count only failures with one of these phrases."""
    code_ranges: tuple[IntRange, ...] = ()
    """With minFailedTaskCount: count only failures with a completion code in one of these ranges."""
    min_failed_attempt_count: PositiveCount | None = None
    """Number of failed attempts of the selected tasks, including those that were retried and counted."""
    min_container_restart_count: PositiveCount | None = None
    """Number of container restarts in the existing pods of the selected tasks."""
    phases: tuple[PodPhase, ...] = ()
    """With minContainerRestartCount: count only pods in one of these phases."""
    type: CompletionType | None = None
    """Type of the failure of the attempt, for fancyRetryPolicy. Absent: the type of the failure that met the rule."""

    @property
    def is_success(self) -> bool:
        """Whether the attempt succeeds when the rule is met."""
        return self.all_succeeded or self.min_succeeded_task_count is not None


@functools.lru_cache(maxsize=1024)
def parse_indexes(written: str) -> tuple[range, ...] | None:
    """Return the ranges of indexes such as `0-3,7`, sorted and without overlaps; None if they are invalid."""
    if re.fullmatch(INDEXES_PATTERN, written) is None:
        return None
    ends = [part.split("-") for part in written.split(",")]
    ranges = [range(int(pair[0]), int(pair[-1]) + 1) for pair in ends]
    if not all(ranges):
        return None
    disjoint: list[range] = []
    for each in sorted(ranges, key=operator.attrgetter("start")):
        start = max(each.start, disjoint[-1].stop) if disjoint else each.start
        if start < each.stop:
            disjoint.append(range(start, each.stop))
    return tuple(disjoint)


class StartCondition(StrEnum):
    RUNNING = "Running"
    """The task has run."""
    READY = "Ready"
    """The pod of the task is ready, or the task has succeeded."""
    SUCCEEDED = "Succeeded"
    """The task has succeeded."""


class StartAfter(Sparse, frozen=True):
    """A role whose tasks must have reached a condition before the first pod of this role is created."""

    task_role: str
    """Name of the other role."""
    condition: StartCondition
    min_task_count: PositiveCount | None = None
    """Number of its tasks that must have reached the condition. Absent: all."""


class TaskSpec(Sparse, frozen=True):
    """Pod template and retries of the tasks of a role."""

    retry_policy: RetryPolicySpec = RetryPolicySpec()
    pod_graceful_deletion_timeout_sec: Seconds | None = None
    """Time after which a terminating pod is deleted by force. Absent: never."""
    pod: Json = {}
    """A Kubernetes pod template."""
    pod_failure_spec: tuple[TaskFailureClass, ...] = ()
    """Failure classes of these tasks, which are tried before those of the controller."""


class TaskRoleSpec(Sparse, frozen=True):
    """A number of tasks that run the same pod template."""

    name: Annotated[str, msgspec.Meta(pattern=names.ROLE_NAME_PATTERN)]
    """Name of the role: lower-case letters and digits."""
    task_number: Annotated[int, msgspec.Meta(ge=0, le=MAX_TASK_NUMBER)] = 0
    """Number of tasks. Their pods are named {framework}-{role}-0, {framework}-{role}-1 and so on."""
    framework_attempt_completion_policy: CompletionPolicySpec = CompletionPolicySpec()
    task: TaskSpec = TaskSpec()
    start_after: tuple[StartAfter, ...] = ()
    """Roles that start before this one. All conditions must be reached."""
    parallelism: PositiveCount | None = None
    """Maximum number of pods of this role at a time; tasks with lower indexes come first. Absent: no limit."""


class FrameworkSpec(Sparse, frozen=True):
    description: str = ""
    """Description for users."""
    execution_type: ExecutionType = ExecutionType.START
    retry_policy: RetryPolicySpec = RetryPolicySpec()
    task_roles: tuple[TaskRoleSpec, ...] = ()
    """The task roles."""
    completed_pods: CompletedPods = CompletedPods.DELETE
    suspend: bool = False
    """End the attempt and wait without pods until this field is false again."""
    pending_deadline_seconds: Seconds | None = None
    """Maximum time that one task waits for its pod to run."""
    active_deadline_seconds: Seconds | None = None
    """Maximum time of all attempts together; suspended time does not count."""
    ttl_seconds_after_finished: Seconds | None = None
    """Time to keep a completed Framework. Absent: the controller's configuration decides."""
    completion_policies: tuple[CompletionRule, ...] = ()
    """Rules over all roles, before the frameworkAttemptCompletionPolicy of the roles. The first rule that is met
    decides."""

    @property
    def has_rules(self) -> bool:
        """Whether the spec has a field of completion rules, failure classes, start order or parallelism."""
        return bool(self.completion_policies) or any(
            role.start_after or role.task.pod_failure_spec or role.parallelism is not None
            for role in self.task_roles
        )

    def role(self, name: str) -> TaskRoleSpec | None:
        return next((role for role in self.task_roles if role.name == name), None)


class Framework(Sparse, frozen=True):
    """A distributed application: task roles, retry policies and completion policies."""

    api_version: str
    kind: str
    metadata: ObjectMeta
    spec: FrameworkSpec = FrameworkSpec()
    status: FrameworkStatus | None = None

    @property
    def group(self) -> str:
        return names.group_of(self.api_version)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def is_deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    def with_status(self, status: FrameworkStatus, resource_version: str = "") -> "Framework":
        metadata = self.metadata
        if resource_version:
            metadata = msgspec.structs.replace(metadata, resource_version=resource_version)
        return msgspec.structs.replace(self, status=status, metadata=metadata)
