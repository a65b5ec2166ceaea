"""The input and output of a decision.

`Observed` is all that a decision knows besides the Framework, the time, the rules and the previous decision if
its status is not stored. A `Decision` describes actions and performs none.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from enum import StrEnum

import msgspec

from windlass.decide.failures import Classifier
from windlass.model.completion import FrameworkAttemptCompletionStatus
from windlass.model.failures import ApiFailure
from windlass.model.history import TaskRetry
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.settings import Settings
from windlass.model.status import FrameworkStatus, RetryOutcome, TaskAttemptStatus, TaskStatus

_DEFAULT_SETTINGS = Settings()


class Rules(msgspec.Struct, frozen=True):
    """The parts of the controller's configuration that decisions use."""

    classifier: Classifier = Classifier()
    cache_creation_timeout_sec: int = _DEFAULT_SETTINGS.object_local_cache_creation_timeout_sec
    completed_retain_sec: int = _DEFAULT_SETTINGS.framework_completed_retain_sec
    min_conflict_delay_sec: int = (
        _DEFAULT_SETTINGS.framework_min_retry_delay_sec_for_transient_conflict_failed
    )
    max_conflict_delay_sec: int = (
        _DEFAULT_SETTINGS.framework_max_retry_delay_sec_for_transient_conflict_failed
    )

    keeps_records: bool = _DEFAULT_SETTINGS.history.enabled

    @classmethod
    def from_settings(cls, settings: Settings) -> "Rules":
        return cls(
            classifier=Classifier(settings.pod_failure_spec) if settings.pod_failure_spec else Classifier(),
            cache_creation_timeout_sec=settings.object_local_cache_creation_timeout_sec,
            completed_retain_sec=settings.framework_completed_retain_sec,
            min_conflict_delay_sec=settings.framework_min_retry_delay_sec_for_transient_conflict_failed,
            max_conflict_delay_sec=settings.framework_max_retry_delay_sec_for_transient_conflict_failed,
            keeps_records=settings.history.enabled,
        )


class CreatedPod(msgspec.Struct, frozen=True):
    """A pod that the API server has created. Kept until the stored status names it."""

    uid: str
    task_uid: str
    attempt_id: int


class RejectedPod(msgspec.Struct, frozen=True):
    """A pod of a task attempt that the API server rejected, and the error."""

    failure: ApiFailure
    task_uid: str
    attempt_id: int


class Outcomes(msgspec.Struct, frozen=True):
    """Results of actions of earlier decisions that the observed objects do not show yet."""

    created: Mapping[str, CreatedPod] = {}
    """Created pods by name."""
    rejected: Mapping[str, RejectedPod] = {}
    """Rejected pods by name."""
    postponed: Mapping[str, datetime] = {}
    """Names of objects whose creation failed temporarily, and when to retry it."""
    uncertain: AbstractSet[str] = frozenset()
    """Names of pods whose creation has an unknown result: there was no response, or the name is in use. Such a pod
    may be running although the cache does not have it; only a new list can tell."""
    name_taken_message: str = ""
    """The error message if the name of the ConfigMap or Service is in use; otherwise empty."""
    deletion_requested: AbstractSet[str] = frozenset()
    """UIDs of objects whose deletion the API server has accepted."""
    forced: AbstractSet[str] = frozenset()
    """UIDs of pods whose forced deletion the API server has accepted."""
    collection_deletion_requested: AbstractSet[str] = frozenset()
    """UIDs of ConfigMaps whose pods were deleted as a collection. The UIDs of these pods are in deletion_requested;
    a pod that was observed later is not among them."""
    is_framework_deletion_requested: bool = False
    attempt_with_service: int = -1
    """ID of the attempt for which the Service is known to exist."""
    recorded_attempt: int = -1
    """ID of the attempt whose record is written, or was rejected by the API server."""
    published_gang: str = ""
    """Fingerprint of the gang that was published last."""


class Observed(msgspec.Struct, frozen=True):
    """The observed state of the objects of one Framework."""

    config_map: ConfigMapView | None = None
    pods: Mapping[str, PodView] = {}
    """All pods with the label of the Framework's name, by name, regardless of their creator."""
    known: AbstractSet[str] = frozenset()
    """UIDs of objects that exist or existed, or would be in the cache if they existed. A known object that is not
    observed was deleted; for an unknown one the objects have to be listed again."""
    unconfirmed: AbstractSet[str] = frozenset()
    """UIDs of objects seen only in responses to requests: the watch has not reported them yet."""
    previous_uids: AbstractSet[str] = frozenset()
    """UIDs of deleted Frameworks of the same name: their remaining objects have to be deleted."""
    other_controller: str = ""
    """Name of another controller that writes the Framework's status (A8). Empty: there is none."""
    is_other_controller_reported: bool = False
    """Whether the other controller was reported before. If it removes the condition, the condition is not added
    again."""
    outcomes: Outcomes = Outcomes()


class CreateConfigMap(msgspec.Struct, frozen=True, tag=True):
    """Create the ConfigMap of the Framework attempt."""


class CreateService(msgspec.Struct, frozen=True, tag=True):
    """Create the headless Service of the Framework unless it exists."""


class PublishGang(msgspec.Struct, frozen=True, tag=True):
    """Publish the addresses of the tasks for the barriers. The stored status already contains them."""

    fingerprint: str


class CreatePod(msgspec.Struct, frozen=True, tag=True):
    role: str
    index: int


class DeletePod(msgspec.Struct, frozen=True, tag=True):
    name: str
    uid: str
    force: bool = False
    """Delete without a grace period, because the pod did not terminate in time."""


class DeleteAttemptPods(msgspec.Struct, frozen=True, tag=True):
    """Delete the pods of an attempt as a collection: with one request, or several for very many pods."""

    config_map_uid: str


class DeleteConfigMap(msgspec.Struct, frozen=True, tag=True):
    uid: str


class DeleteFramework(msgspec.Struct, frozen=True, tag=True):
    uid: str


class RecordAttempt(msgspec.Struct, frozen=True, tag=True):
    """Write the record of the attempt. The stored status contains its tasks."""

    attempt: int
    ended_at: datetime
    completion: FrameworkAttemptCompletionStatus
    retry: RetryOutcome
    task_retries: tuple[TaskRetry, ...] = ()


class RelistObjects(msgspec.Struct, frozen=True, tag=True):
    """List the Framework's objects again, because the cache may differ from the API server."""


Action = (
    CreateService
    | CreateConfigMap
    | CreatePod
    | PublishGang
    | DeletePod
    | DeleteAttemptPods
    | DeleteConfigMap
    | DeleteFramework
    | RecordAttempt
    | RelistObjects
)


class ReasonKind(StrEnum):
    """The reason of a Kubernetes event."""

    ATTEMPT_STARTED = "AttemptStarted"
    ATTEMPT_ENDING = "AttemptEnding"
    FRAMEWORK_RETRIED = "FrameworkRetried"
    RETRY_SCHEDULED = "RetryScheduled"
    FRAMEWORK_COMPLETED = "FrameworkCompleted"
    FRAMEWORK_EXPIRED = "FrameworkExpired"
    TASK_FAILED = "TaskFailed"
    TASK_RETRIED = "TaskRetried"
    TASK_DELETED = "TaskDeleted"
    NAME_TAKEN = "NameTaken"
    INVALID = "Invalid"
    OTHER_CONTROLLER = "OtherController"
    POD_FORCE_DELETED = "PodForceDeleted"
    POSTPONED = "Postponed"


REPORTED_AFTER_ACTIONS = frozenset({ReasonKind.FRAMEWORK_EXPIRED, ReasonKind.POD_FORCE_DELETED})
"""Reasons that are reported only if the actions succeed; the others are reported once the status is stored."""


class Reason(msgspec.Struct, frozen=True):
    """Explanation of a decision. It is reported as a Kubernetes event; REPORTED_AFTER_ACTIONS says when."""

    kind: ReasonKind
    message: str
    role: str = ""
    index: int = -1
    is_warning: bool = False
    status: FrameworkStatus | None = None
    """Status of the completed Framework attempt, which a retry replaces: it is logged as a snapshot (behaviour 49)."""
    task: TaskStatus | None = None
    """Status of a task that is retried or was removed, for a snapshot."""
    failed_attempt: TaskAttemptStatus | None = None
    """The failed attempt of a task, to read its log."""


class Decision(msgspec.Struct, frozen=True):
    status: FrameworkStatus | None
    """The status to store, before the actions unless `may_wait` is set. None if the Framework has no status and none
    has to be stored."""
    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
    """When to decide again even if nothing has changed."""
    reasons: tuple[Reason, ...] = ()
    failure_count: int = 0
    """Number of task attempts that failed since the status was stored. The reasons name only the first ones."""
    may_wait: bool = False
    """Whether the status may be stored later, with the next change, because no action depends on it."""
