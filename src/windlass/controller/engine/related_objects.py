"""The objects that carry one Framework's name, and what is known about each of their UIDs.

What to do about them is decided elsewhere.
"""

from collections.abc import Iterator

from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, ObjectView, PodView
from windlass.model.status import FrameworkStatus

PRUNE_ABOVE = 100
"""So many UIDs of objects that are gone are remembered before anybody tidies up."""


def version(resource_version: str) -> int:
    """Kubernetes orders the versions of all objects of one server by number."""
    return int(resource_version or 0)


class Surroundings:
    """The objects that carry one Framework's name."""

    def __init__(self) -> None:
        self.config_map: ConfigMapView | None = None
        self.pods: dict[str, PodView] = {}
        self.known: set[str] = set()
        self.unconfirmed: set[str] = set()
        self.departed: dict[str, Framework] = {}
        """By UID: Frameworks that are gone and may have left something here."""

    @property
    def is_empty(self) -> bool:
        return self.config_map is None and not self.pods

    def is_news(self, new: ObjectView, current: ObjectView | None) -> bool:
        is_gone = new.uid in self.known and (current is None or current.uid != new.uid)
        if is_gone:
            return False
        if current is None:
            return True
        is_unconfirmed = current.uid in self.unconfirmed
        seen, now = version(current.metadata.resource_version), version(new.metadata.resource_version)
        return now > seen or (now == seen and is_unconfirmed)

    def confirm(self, shown: ObjectView) -> None:
        self.known.add(shown.uid)
        self.unconfirmed.discard(shown.uid)

    def answered(self, found: ObjectView) -> None:
        if found.uid not in self.known:
            self.unconfirmed.add(found.uid)
        self.known.add(found.uid)

    def forget_departed(self) -> None:
        """Those that have left nothing behind."""
        left = {pod.metadata.annotations.framework_uid for pod in self.pods.values()}
        if self.config_map is not None and self.config_map.controller is not None:
            left.add(self.config_map.controller.uid)
        for uid in self.departed.keys() - left:
            del self.departed[uid]

    def prune(self, status: FrameworkStatus) -> None:
        """UIDs that neither exist nor stand in the status are of no use to anybody."""
        if len(self.known) < PRUNE_ABOVE + 4 * len(self.pods):
            return
        useful = {pod.uid for pod in self.pods.values()}
        useful.update(uids_in(status, pods=True, config_maps=True))
        if self.config_map is not None:
            useful.add(self.config_map.uid)
        self.known &= useful


def uids_in(status: FrameworkStatus, *, pods: bool, config_maps: bool) -> Iterator[str]:
    attempt = status.attempt_status
    if config_maps and attempt.config_map_uid is not None:
        yield attempt.config_map_uid
    if pods:
        for role in attempt.roles:
            for task in role.task_statuses:
                if task.attempt_status.pod_uid is not None:
                    yield task.attempt_status.pod_uid
