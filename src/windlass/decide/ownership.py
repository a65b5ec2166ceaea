"""Whose an object is: told by UIDs and owners, never by its name alone."""

from collections.abc import Set as AbstractSet
from enum import Enum, auto

from windlass.decide.types import Observed
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, ObjectView, PodView
from windlass.model.status import TaskStatus


class Presence(Enum):
    """What is known about the object of a UID."""

    PRESENT = auto()
    """It exists, and the watch has shown it."""
    UNCONFIRMED = auto()
    """It exists by the answer to its creation; the watch has not shown it."""
    GONE = auto()
    """It existed, and does not any more."""
    UNKNOWN = auto()
    """The status names it and nobody here has ever heard of it."""


def presence_of(uid: str, found: ObjectView | None, observed: Observed) -> Presence:
    if found is not None and found.metadata.uid == uid:
        return Presence.UNCONFIRMED if uid in observed.unconfirmed else Presence.PRESENT
    return Presence.GONE if uid in observed.known else Presence.UNKNOWN


def is_our_config_map(config_map: ConfigMapView, framework_uids: AbstractSet[str]) -> bool:
    controller = config_map.controller
    return controller is not None and controller.kind == names.KIND and controller.uid in framework_uids


def is_our_pod(pod: PodView, framework_uids: AbstractSet[str]) -> bool:
    """Made by a controller for one of these very Frameworks, in whichever attempt."""
    controller = pod.controller
    return (
        controller is not None
        and controller.kind == "ConfigMap"
        and pod.metadata.annotations.framework_uid in framework_uids
    )


def owner_uid_of(pod: PodView) -> str:
    """The UID of the ConfigMap that the pod belongs to."""
    controller = pod.controller
    return "" if controller is None else controller.uid


def is_config_map_of_attempt(config_map: ConfigMapView, framework: Framework, attempt_id: int) -> bool:
    """Made for this attempt, whose status does not name it yet: the answer to its creation got lost."""
    return (
        is_our_config_map(config_map, {framework.uid})
        and config_map.metadata.annotations.framework_attempt_id == str(attempt_id)
        and not config_map.is_deleting
    )


def is_pod_of_task_attempt(pod: PodView, task: TaskStatus, config_map_uid: str | None) -> bool:
    """Made for this very attempt of this very task, whose status does not name it yet."""
    annotations = pod.metadata.annotations
    return (
        config_map_uid is not None
        and owner_uid_of(pod) == config_map_uid
        and annotations.task_uid == (task.instance_uid or "")
        and annotations.task_attempt_id == str(task.attempt_status.id)
    )
