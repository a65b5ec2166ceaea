"""What goes into a decision and what comes out of it.

`Observed` is all that a decision may know besides the Framework, the time and the rules. A `Decision` describes acts
and performs none.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from enum import StrEnum

import msgspec

from windlass.decide.failures import Classifier
from windlass.model.api_failure import ApiFailure
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.settings import Settings
from windlass.model.status import FrameworkStatus, TaskStatus

_UNCONFIGURED = Settings()


class Rules(msgspec.Struct, frozen=True):
    """What the controller's configuration has to say to a decision."""

    classifier: Classifier = Classifier()
    cache_creation_timeout_sec: int = _UNCONFIGURED.object_local_cache_creation_timeout_sec
    completed_retain_sec: int = _UNCONFIGURED.framework_completed_retain_sec
    min_conflict_delay_sec: int = _UNCONFIGURED.framework_min_retry_delay_sec_for_transient_conflict_failed
    max_conflict_delay_sec: int = _UNCONFIGURED.framework_max_retry_delay_sec_for_transient_conflict_failed

    @classmethod
    def from_settings(cls, settings: Settings) -> "Rules":
        return cls(
            classifier=Classifier(settings.pod_failure_spec) if settings.pod_failure_spec else Classifier(),
            cache_creation_timeout_sec=settings.object_local_cache_creation_timeout_sec,
            completed_retain_sec=settings.framework_completed_retain_sec,
            min_conflict_delay_sec=settings.framework_min_retry_delay_sec_for_transient_conflict_failed,
            max_conflict_delay_sec=settings.framework_max_retry_delay_sec_for_transient_conflict_failed,
        )


class CreatedPod(msgspec.Struct, frozen=True):
    """The API server said that it created this pod. Kept until the stored status says so too."""

    uid: str
    task_uid: str
    attempt_id: int


class RejectedPod(msgspec.Struct, frozen=True):
    """The API server rejected to create the pod of this task attempt, and what it said."""

    failure: ApiFailure
    task_uid: str
    attempt_id: int


class Outcomes(msgspec.Struct, frozen=True):
    """What came of the actions of earlier decisions, as far as the objects do not show it yet."""

    created: Mapping[str, CreatedPod] = {}
    """By pod name."""
    rejected: Mapping[str, RejectedPod] = {}
    """By pod name."""
    postponed: Mapping[str, datetime] = {}
    """Objects that could not be created for now, by name, and when to try again."""
    uncertain: AbstractSet[str] = frozenset()
    """Names of pods that may or may not have been created: there was no answer, or somebody has the name. A pod that
    does not show may run all the same until one has looked."""
    name_taken: str = ""
    """What was said when the ConfigMap could not be created because somebody else's has its name."""
    deletion_requested: AbstractSet[str] = frozenset()
    """UIDs of objects whose deletion was answered with yes."""
    forced: AbstractSet[str] = frozenset()
    """UIDs of pods whose removal by force was answered with yes."""
    collection_deletion_requested: AbstractSet[str] = frozenset()
    """UIDs of ConfigMaps whose pods were all deleted by one request. The UIDs of these pods are in deletion_requested;
    that of a pod that came to light since is not."""
    is_framework_deletion_requested: bool = False
    service_of_attempt: int = -1
    """The attempt for which the Service was seen to be there."""
    published_gang: str = ""
    """The fingerprint of the gang that was published last."""


class Observed(msgspec.Struct, frozen=True):
    """The objects around one Framework."""

    config_map: ConfigMapView | None = None
    pods: Mapping[str, PodView] = {}
    """By name: every pod that carries the Framework's name as its label, whosoever made it."""
    known: AbstractSet[str] = frozenset()
    """UIDs of objects that are or were seen, or would have been seen if they existed. Known and not here means gone;
    not known and not here means that one has to look."""
    unconfirmed: AbstractSet[str] = frozenset()
    """UIDs of objects that are known from the answer to their creation only: the watch has not shown them."""
    previous_uids: AbstractSet[str] = frozenset()
    """UIDs of Frameworks that had this name and are gone: what they left behind is ours to clear away."""
    other_controller: str = ""
    """Another controller that has written the Framework's status since this one began to (A8)."""
    is_other_controller_reported: bool = False
    """The status has said so once: another controller that wipes it away is not fought."""
    outcomes: Outcomes = Outcomes()


class CreateConfigMap(msgspec.Struct, frozen=True, tag=True):
    """Create the object that stands for the Framework attempt."""


class CreateService(msgspec.Struct, frozen=True, tag=True):
    """Create the Service by which the tasks have names, unless it is there."""


class PublishGang(msgspec.Struct, frozen=True, tag=True):
    """Tell the barriers where everybody is: it is stored."""

    fingerprint: str


class CreatePod(msgspec.Struct, frozen=True, tag=True):
    role: str
    index: int


class DeletePod(msgspec.Struct, frozen=True, tag=True):
    name: str
    uid: str
    force: bool = False
    """Without grace: the pod's node does not answer."""


class DeleteAttemptPods(msgspec.Struct, frozen=True, tag=True):
    """Delete all pods of an attempt in one request."""

    config_map_uid: str


class DeleteConfigMap(msgspec.Struct, frozen=True, tag=True):
    uid: str


class DeleteFramework(msgspec.Struct, frozen=True, tag=True):
    uid: str


class RelistObjects(msgspec.Struct, frozen=True, tag=True):
    """List the Framework's objects afresh: the status names one of which the cache has never heard."""


Action = (
    CreateService
    | CreateConfigMap
    | CreatePod
    | PublishGang
    | DeletePod
    | DeleteAttemptPods
    | DeleteConfigMap
    | DeleteFramework
    | RelistObjects
)


class ReasonKind(StrEnum):
    """Becomes the reason of a Kubernetes event."""

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


ABOUT_ACTIONS = frozenset({ReasonKind.FRAMEWORK_EXPIRED, ReasonKind.POD_FORCE_DELETED})
"""These are true once the actions are done; the others once the status is stored."""


class Reason(msgspec.Struct, frozen=True):
    """Why something was decided, in words. Announced after the decision is stored."""

    kind: ReasonKind
    message: str
    role: str = ""
    index: int = -1
    is_warning: bool = False
    status: FrameworkStatus | None = None
    """The status of the Framework attempt that is over, which a retry wipes: it leaves a snapshot (statement 49)."""
    task: TaskStatus | None = None
    """Likewise the status of a task that is retried or was scaled away."""


class Decision(msgspec.Struct, frozen=True):
    status: FrameworkStatus | None
    """Stored first, if it differs and may not wait. None only for a Framework that goes and never had one."""
    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
    """The earliest deadline. Everything else is woken by events."""
    reasons: tuple[Reason, ...] = ()
    failures: int = 0
    """How many tasks have failed since the stored status, of which the reasons name the first."""
    may_wait: bool = False
    """No action needs this status to be stored before: it may be written a little later, with the next change."""
