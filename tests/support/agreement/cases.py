"""A case: a job file, and what happens to its pods. An outcome: what the controller made of it."""

from enum import StrEnum
from typing import Any

import msgspec

from windlass.model.base import Json


class Happening(StrEnum):
    """What happens to a running pod."""

    EXIT = "exit"
    """Its containers exit with a code. If its restartPolicy says so, the kubelet restarts them in the same pod."""
    EVICT = "evict"
    """The kubelet evicts it: phase Failed, condition DisruptionTarget; the pod stays."""
    PREEMPT = "preempt"
    """The scheduler marks it with DisruptionTarget and deletes it."""
    LOSE_NODE = "lose-node"
    """Its node is gone: pod garbage collection sets phase Failed with DisruptionTarget. When the controller has
    settled, it also removes the pod."""
    DELETE = "delete"
    """A user deletes it; the kubelet reports its end, then removes it."""
    VANISH = "vanish"
    """A user deletes it with --force: it is removed without having ended."""


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    role: str
    index: int = 0
    what: Happening = Happening.EXIT
    code: int = 0

    def __str__(self) -> str:
        code = f" {self.code}" if self.what is Happening.EXIT else ""
        return f"{self.role}-{self.index} {self.what}{code}"


class Case(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    kind: str
    objects: tuple[dict[str, Any], ...]
    """The documents of the job file, without namespaces."""
    steps: tuple[Step, ...] = ()
    finishes: bool = True
    """Whether all remaining pods succeed after the steps. Otherwise the case waits for the deadline of the job."""
    ends_last_first: bool = False
    """Whether the last of the remaining pods succeeds first."""
    is_removed: bool = False
    """Whether the job is deleted soon after its end."""
    features: tuple[str, ...] = ()
    """The policy fields and happenings that the case covers."""

    @property
    def job(self) -> Json:
        return next(each for each in self.objects if each["kind"] == self.kind)


class Progress(msgspec.Struct, frozen=True):
    """How far a controller is when it has settled."""

    verdict: str
    """Succeeded, Failed, Suspended or Active."""
    created: dict[str, int]
    """Number of created pods by role."""


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    verdict: str
    created: dict[str, int]
    left: dict[str, int]
    """Number of pods that exist in the end by role."""
    progress: tuple[Progress, ...] = ()
    """The progress after the start and after each step."""
    running: dict[str, int] = {}
    """Number of pods that still run in the end by role."""
    restarts: dict[str, int] = {}
    """Number of container restarts by role."""
    environment: dict[str, dict[str, str]] = {}
    """Variables of each pod's main container, by role and index. The namespace is written as NAMESPACE."""
    late: dict[str, int] = {}
    """Number of pods by role that were created in the second in which the job ended, or later."""
    is_removed: bool = False
    """Whether the job is deleted soon after its end. Only cases with a time to live wait for it."""
    skipped: tuple[int, ...] = ()
    """The steps whose pod did not run."""

    replaced: int = 0
    """Number of pods that replace one that did not succeed."""

    @property
    def has_retries(self) -> bool:
        return bool(self.restarts or self.replaced)


class Played(msgspec.Struct, frozen=True):
    """A case with the outcome of the original operator, as it is recorded."""

    case: Case
    outcome: Outcome
