"""Failure classes of pods, as in the configuration file, and errors of the API server."""

import msgspec

from windlass.model.base import Sparse
from windlass.model.completion import CompletionType


class IntRange(Sparse, frozen=True):
    """A range with inclusive ends; an absent end is unbounded."""

    min: int | None = None
    """Smallest number."""
    max: int | None = None
    """Largest number."""

    @property
    def is_unbounded(self) -> bool:
        return self.min is None and self.max is None

    def contains(self, number: int) -> bool:
        return (self.min is None or number >= self.min) and (self.max is None or number <= self.max)


class ContainerPattern(Sparse, frozen=True):
    """Matches a container if all fields of the pattern match. A container that
    neither terminated nor failed to start has only a name."""

    name_regex: str = ""
    """RE2 pattern of the container's name."""
    reason_regex: str = ""
    """RE2 pattern of the reason, e.g. OOMKilled."""
    message_regex: str = ""
    """RE2 pattern of the message."""
    signal_range: IntRange = IntRange()
    """Signals."""
    code_range: IntRange = IntRange()
    """Exit codes. A container that exited with 0 matches too, unless the range excludes 0."""


class PodPattern(Sparse, frozen=True):
    """Matches a pod if all fields of the pattern match; each container pattern must match at least one container."""

    name_regex: str = ""
    """RE2 pattern of the pod's name."""
    reason_regex: str = ""
    """RE2 pattern of the reason, e.g. Evicted."""
    message_regex: str = ""
    """RE2 pattern of the message."""
    containers: tuple[ContainerPattern, ...] = ()
    """Patterns of containers."""


class FailureClass(Sparse, frozen=True):
    """A completion code for the failed pods that match any of its patterns."""

    code: int
    phrase: str = ""
    type: CompletionType = msgspec.field(default_factory=CompletionType)
    pod_patterns: tuple[PodPattern, ...] = ()


class TaskFailureClass(Sparse, frozen=True, kw_only=True):
    """A failure class of the tasks of a role. It matches a failed task attempt if all its fields match; an absent field
    matches any. The first class that matches decides, before the classes of the controller."""

    code: int | None = None
    """Completion code. Absent: the code that the attempt has without this class, e.g. the exit code."""
    phrase: str = ""
    """Phrase of the code, for completionPolicies. Absent: the phrase that the attempt has without this class."""
    type: CompletionType = msgspec.field(default_factory=CompletionType)
    """With fancyRetryPolicy: the attribute Transient retries the task without counting it, Permanent never retries it.
    Without attributes, the retry is counted."""
    pod_patterns: tuple[PodPattern, ...] = ()
    """Patterns of the failed pod, of which one must match."""
    condition_types: tuple[str, ...] = ()
    """Types of pod conditions, e.g. DisruptionTarget, of which one must be True."""
    code_ranges: tuple[IntRange, ...] = ()
    """Ranges of the code that the attempt has without this class, of which one must contain it. -101: the pod was
    deleted."""


class ApiFailure(Sparse, frozen=True):
    """An error of the API server, in the fields of a Kubernetes `Status` object."""

    code: int = 0
    """HTTP status; 0 if there was no response."""
    reason: str = ""
    """Machine-readable reason, e.g. `Forbidden`; empty if the response was not a `Status`."""
    message: str = ""
