"""Completion codes, phrases and types of attempts.

Zero is success. A positive code is the exit code of a container. A negative code is set by the controller: from the
table below, or from a failure class (-1000 and below; see the built-in ones in statement 22 of docs/behaviours.md).
A configured failure class may also have a positive code.
"""

from enum import IntEnum, StrEnum

from windlass.model.base import Dense, Sparse


class CompletionCode(IntEnum):
    """The codes that Windlass defines."""

    SUCCEEDED = 0
    CONTAINER_TRANSIENT_FAILED = 200
    CONTAINER_TRANSIENT_CONFLICT_FAILED = 201
    CONTAINER_PERMANENT_FAILED = 210
    CONFIG_MAP_EXTERNAL_DELETED = -100
    POD_EXTERNAL_DELETED = -101
    CONFIG_MAP_LOCAL_CACHE_CREATION_TIMEOUT = -110
    POD_LOCAL_CACHE_CREATION_TIMEOUT = -111
    POD_CREATION_TRANSIENT_ERROR = -120
    """An error after which the creation of the pod is retried. Never the completion code of an attempt."""
    FRAMEWORK_SUSPENDED = -130
    POD_CREATION_PERMANENT_ERROR = -200
    STOP_FRAMEWORK_REQUESTED = -210
    FRAMEWORK_ATTEMPT_COMPLETION = -220
    DELETE_TASK_REQUESTED = -230
    PENDING_DEADLINE_EXCEEDED = -240
    ACTIVE_DEADLINE_EXCEEDED = -250
    COMPLETION_RULE_FAILED = -260
    START_CONDITION_UNREACHABLE = -270
    POD_FAILED_WITHOUT_FAILED_CONTAINER = -300
    POD_CREATION_UNKNOWN_ERROR = -310


RESERVED_CODES = (range(-999, 1), range(200, 220))
"""Codes reserved for Windlass: configured failure classes cannot use them."""


def is_reserved(code: int) -> bool:
    return any(code in reserved for reserved in RESERVED_CODES)


class CompletionTypeName(StrEnum):
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class CompletionTypeAttribute(StrEnum):
    TRANSIENT = "Transient"
    """Goes away within a finite number of retries: a lost node, a network fault, a preemption."""
    PERMANENT = "Permanent"
    """Occurs again at every retry: wrong usage, wrong configuration."""
    CONFLICT = "Conflict"
    """Caused by contention for resources, e.g. a gang that did not get all of its pods in time."""
    PLATFORM = "Platform"
    """Caused by the platform."""
    USER = "User"
    """Caused by the user."""


class CompletionType(Dense, frozen=True):
    """Succeeded or Failed, with attributes of the failure."""

    name: CompletionTypeName = CompletionTypeName.FAILED
    """Succeeded or Failed."""
    attributes: tuple[str, ...] = ()
    """Transient, Permanent, Conflict, Platform or User; configured failure classes may have other attributes."""

    @property
    def is_failed(self) -> bool:
        return self.name == CompletionTypeName.FAILED

    @property
    def is_transient(self) -> bool:
        return CompletionTypeAttribute.TRANSIENT in self.attributes

    @property
    def is_permanent(self) -> bool:
        return CompletionTypeAttribute.PERMANENT in self.attributes

    @property
    def is_conflict(self) -> bool:
        return CompletionTypeAttribute.CONFLICT in self.attributes


SUCCEEDED = CompletionType(name=CompletionTypeName.SUCCEEDED)
FAILED = CompletionType()
TRANSIENT = CompletionType(attributes=(CompletionTypeAttribute.TRANSIENT,))
TRANSIENT_CONFLICT = CompletionType(
    attributes=(CompletionTypeAttribute.TRANSIENT, CompletionTypeAttribute.CONFLICT),
)
PERMANENT = CompletionType(attributes=(CompletionTypeAttribute.PERMANENT,))

TYPES: dict[CompletionCode, CompletionType] = {
    CompletionCode.SUCCEEDED: SUCCEEDED,
    CompletionCode.CONTAINER_TRANSIENT_FAILED: TRANSIENT,
    CompletionCode.CONTAINER_TRANSIENT_CONFLICT_FAILED: TRANSIENT_CONFLICT,
    CompletionCode.CONTAINER_PERMANENT_FAILED: PERMANENT,
    CompletionCode.CONFIG_MAP_EXTERNAL_DELETED: TRANSIENT,
    CompletionCode.POD_EXTERNAL_DELETED: TRANSIENT,
    CompletionCode.CONFIG_MAP_LOCAL_CACHE_CREATION_TIMEOUT: TRANSIENT,
    CompletionCode.POD_LOCAL_CACHE_CREATION_TIMEOUT: TRANSIENT,
    CompletionCode.POD_CREATION_TRANSIENT_ERROR: TRANSIENT,
    CompletionCode.FRAMEWORK_SUSPENDED: TRANSIENT,
    CompletionCode.POD_CREATION_PERMANENT_ERROR: PERMANENT,
    CompletionCode.STOP_FRAMEWORK_REQUESTED: PERMANENT,
    CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION: PERMANENT,
    CompletionCode.DELETE_TASK_REQUESTED: PERMANENT,
    CompletionCode.PENDING_DEADLINE_EXCEEDED: PERMANENT,
    CompletionCode.ACTIVE_DEADLINE_EXCEEDED: PERMANENT,
    CompletionCode.COMPLETION_RULE_FAILED: FAILED,
    CompletionCode.START_CONDITION_UNREACHABLE: FAILED,
    CompletionCode.POD_FAILED_WITHOUT_FAILED_CONTAINER: FAILED,
    CompletionCode.POD_CREATION_UNKNOWN_ERROR: FAILED,
}


_PHRASES = {code: "".join(word.capitalize() for word in code.name.split("_")) for code in CompletionCode}


def phrase_of(code: CompletionCode) -> str:
    """Return the phrase of a code, e.g. `PodExternalDeleted` for `POD_EXTERNAL_DELETED`."""
    return _PHRASES[code]


class ContainerCompletionStatus(Sparse, frozen=True, kw_only=True):
    """Final status of a container."""

    name: str
    """Name of the container."""
    reason: str = ""
    """Reason of the container's end, e.g. OOMKilled."""
    message: str = ""
    """Its termination message."""
    signal: int = 0
    """Signal that ended it; 0 if none."""
    code: int
    """Exit code."""


class PodCompletionStatus(Sparse, frozen=True):
    """Final status of a pod, kept after the pod is deleted."""

    reason: str = ""
    """Reason of the pod, e.g. Evicted."""
    message: str = ""
    """Message of the pod."""
    containers: tuple[ContainerCompletionStatus, ...] = ()
    """Its containers."""


class TaskAttemptCompletionStatus(Sparse, frozen=True):
    """Completion of a task attempt."""

    code: int
    """Completion code."""
    phrase: str
    """The code as a word."""
    type: CompletionType
    diagnostics: str
    """Details, for people."""
    pod: PodCompletionStatus | None = None


class CompletionTrigger(Dense, frozen=True):
    """The task that ended the attempt: it met a completion policy, exceeded the pending deadline, or completed last.
    The message describes why."""

    message: str
    """Why the task ended the attempt."""
    task_role_name: str
    """Role of the task."""
    task_index: int
    """Index of the task."""


class FrameworkAttemptCompletionStatus(Sparse, frozen=True):
    """Completion of a Framework attempt."""

    code: int
    """Completion code."""
    phrase: str
    """The code as a word."""
    type: CompletionType
    diagnostics: str
    """Details, for people."""
    trigger: CompletionTrigger | None = None


def task_completion(
    code: CompletionCode, diagnostics: str, pod: PodCompletionStatus | None = None
) -> TaskAttemptCompletionStatus:
    return TaskAttemptCompletionStatus(
        code=int(code), phrase=phrase_of(code), type=TYPES[code], diagnostics=diagnostics, pod=pod
    )


def framework_completion(
    code: CompletionCode, diagnostics: str, trigger: CompletionTrigger | None = None
) -> FrameworkAttemptCompletionStatus:
    return FrameworkAttemptCompletionStatus(
        code=int(code), phrase=phrase_of(code), type=TYPES[code], diagnostics=diagnostics, trigger=trigger
    )
