"""Ownership of objects: decided by UIDs and owner references, never by a name alone."""

from collections.abc import Set as AbstractSet
from enum import Enum, auto

from windlass.decide.types import Observed
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, ObjectView, PodView
from windlass.model.status import TaskStatus


class Presence(Enum):
    """Whether the object with a UID exists."""

    PRESENT = auto()
    """It exists, and the watch has reported it."""
    UNCONFIRMED = auto()
    """It exists according to the response to a request; the watch has not reported it."""
    DELETED = auto()
    """It was deleted."""
    UNKNOWN = auto()
    """The status names it, but it was never in the cache. Only a new list request shows whether it exists."""


def presence_of(uid: str, found: ObjectView | None, observed: Observed) -> Presence:
    if found is not None and found.metadata.uid == uid:
        return Presence.UNCONFIRMED if uid in observed.unconfirmed else Presence.PRESENT
    return Presence.DELETED if uid in observed.known else Presence.UNKNOWN


def is_our_config_map(config_map: ConfigMapView, framework_uids: AbstractSet[str]) -> bool:
    controller = config_map.controller
    return controller is not None and controller.kind == names.KIND and controller.uid in framework_uids


def is_our_pod(pod: PodView, framework_uids: AbstractSet[str]) -> bool:
    """Return whether the pod was created for one of these Frameworks, in any attempt."""
    controller = pod.controller
    return (
        controller is not None
        and controller.kind == "ConfigMap"
        and pod.metadata.annotations.framework_uid in framework_uids
    )


def owner_uid_of(pod: PodView) -> str:
    """Return the UID of the pod's controller, which is a ConfigMap if the pod is ours; empty if there is none."""
    controller = pod.controller
    return "" if controller is None else controller.uid


def is_config_map_of_attempt(config_map: ConfigMapView, framework: Framework, attempt_id: int) -> bool:
    """Return whether the ConfigMap was created for this attempt and is not being deleted. The status may not name it
    yet."""
    return (
        is_our_config_map(config_map, {framework.uid})
        and config_map.metadata.annotations.framework_attempt_id == str(attempt_id)
        and not config_map.is_deleting
    )


def is_pod_of_task_attempt(pod: PodView, task: TaskStatus, config_map_uid: str | None) -> bool:
    """Return whether the pod was created for this attempt of this task. The status may not name it yet."""
    annotations = pod.metadata.annotations
    return (
        config_map_uid is not None
        and owner_uid_of(pod) == config_map_uid
        and annotations.task_uid == (task.instance_uid or "")
        and annotations.task_attempt_id == str(task.attempt_status.id)
    )
