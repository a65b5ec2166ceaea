"""The pods that wait for a node, in groups of pods that are scheduled alike. Nothing here reads or writes objects.

A group has the pods of one controller, or without one, for which every decision is the same, so one decision per group
is enough: if its oldest pod is unschedulable, all its pods are. A change in the cluster therefore costs one decision
per group, not one per pod.

Groups are tried by priority, then by the arrival of their oldest pod, as if pods were tried one by one. There is one
exception, for a group with more pods than the whole cluster could run at once: after each of its pods that gets a node,
the groups of the same priority that fit are tried first. Otherwise a small job would wait for all pods of a large one.
The pods of a group that fits are not interleaved with others: they may wait for each other.
"""

import heapq
import itertools
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import msgspec

from windlass.localcluster.controllers.volumes import claim_names
from windlass.localcluster.scheduler.node_resources import PodInfo
from windlass.model.base import Json

GroupKey = tuple[Any, ...]


class PendingPod(msgspec.Struct, frozen=True):
    """A pod without a node."""

    pod: Json
    pod_info: PodInfo
    equivalence_key: bytes
    # The message in the pod's status.
    last_message: str
    arrival: int

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @property
    def group_key(self) -> GroupKey:
        """The fields that a decision depends on, and the controller of the pod."""
        meta = self.pod["metadata"]
        owners = (one["uid"] for one in meta.get("ownerReferences") or () if one.get("controller"))
        claims = tuple(claim_names(self.pod["spec"]))
        return self.equivalence_key, next(owners, ""), claims and (meta["namespace"], *claims)


class PodGroup:
    def __init__(self, key: GroupKey, priority: int) -> None:
        self.key = key
        self.priority = priority
        # In the order in which they were added to the group.
        self.pods: dict[str, PendingPod] = {}
        # The result of the last decision, which applies to all pods but those in `undecided`.
        self.message = ""
        self.undecided: list[str] = []
        # Whether the group had more pods than the cluster could run at once when it was last tried.
        self.is_oversized = False

    @property
    def oldest(self) -> str:
        return next(iter(self.pods))


class PendingPods:
    def __init__(self) -> None:
        self._groups: dict[GroupKey, PodGroup] = {}
        self._group_of: dict[str, PodGroup] = {}
        # Groups that have to be tried, and their order. Other entries of the heap are stale.
        self._active: dict[GroupKey, PodGroup] = {}
        self._heap: list[tuple[int, int, int, PodGroup]] = []
        # Pods whose status does not have the message of their group. The groups take turns.
        self._unreported: OrderedDict[GroupKey, deque[str]] = OrderedDict()
        self._serial = itertools.count()
        self._was_last_oversized = False

    @property
    def has_active(self) -> bool:
        return bool(self._active)

    @property
    def has_unreported(self) -> bool:
        return bool(self._unreported)

    def get(self, key: str) -> PendingPod | None:
        group = self._group_of.get(key)
        return None if group is None else group.pods[key]

    def update(self, key: str, pod: PendingPod) -> None:
        """Add or replace a pod. Its group is tried again if the pod is new or has to be scheduled differently."""
        previous = self.get(key)
        if previous is not None and (previous.uid, previous.group_key) == (pod.uid, pod.group_key):
            self._group_of[key].pods[key] = pod
            return
        self.remove(key)
        group_key = pod.group_key
        group = self._groups.get(group_key)
        if group is None:
            group = self._groups[group_key] = PodGroup(group_key, pod.pod_info.requests.priority)
        group.pods[key] = pod
        group.undecided.append(key)
        self._group_of[key] = group
        self.activate(group)

    def remove(self, key: str) -> None:
        group = self._group_of.pop(key, None)
        if group is None:
            return
        del group.pods[key]
        if not group.pods:
            del self._groups[group.key]
            self._active.pop(group.key, None)
            self._unreported.pop(group.key, None)

    def drop(self, key: str) -> None:
        """Remove a pod after an error, and let its group continue with the next pod."""
        group = self._group_of.get(key)
        self.remove(key)
        if group is not None:
            self.activate(group)

    # Decisions

    def activate_all(self) -> None:
        for group in self._groups.values():
            self.activate(group)

    def activate(self, group: PodGroup) -> None:
        """Mark the group to be tried, unless all of its pods were removed."""
        is_current = self._groups.get(group.key) is group
        if is_current and group.key not in self._active:
            self._active[group.key] = group
            order = group.pods[group.oldest].arrival
            heapq.heappush(self._heap, (-group.priority, order, next(self._serial), group))

    def take(self, capacity: Callable[[PodInfo], int]) -> PodGroup:
        """Deactivate and return the group to try next. `capacity` returns how many equal pods the cluster could run."""
        yielding: list[tuple[int, int, int, PodGroup]] = []
        chosen: PodGroup | None = None
        while self._heap and chosen is None:
            entry = heapq.heappop(self._heap)
            group = entry[-1]
            if self._active.get(group.key) is not group:
                continue
            if yielding and yielding[0][0] != entry[0]:
                # A group does not yield to a lower priority.
                heapq.heappush(self._heap, entry)
                break
            group.is_oversized = len(group.pods) > capacity(group.pods[group.oldest].pod_info)
            if group.is_oversized and self._was_last_oversized:
                yielding.append(entry)
            else:
                chosen = group
        if chosen is None:
            chosen = yielding.pop(0)[-1]
        for entry in yielding:
            heapq.heappush(self._heap, entry)
        del self._active[chosen.key]
        return chosen

    def on_placed(self, group: PodGroup) -> None:
        """Let the group continue with its next pod."""
        self._was_last_oversized = group.is_oversized
        self.activate(group)

    # Reports of unschedulable pods

    def on_unschedulable(self, group: PodGroup, message: str) -> None:
        """Record the result for all pods of the group, and mark those that do not have it in their status."""
        decided = group.undecided if message == group.message else list(group.pods)
        group.message, group.undecided = message, []
        outdated = [key for key in decided if key in group.pods and group.pods[key].last_message != message]
        if outdated:
            self._unreported.setdefault(group.key, deque()).extend(outdated)

    def take_unreported(self) -> tuple[str, str] | None:
        """Return a pod whose status has to be updated, and the message."""
        while self._unreported:
            group_key, keys = self._unreported.popitem(last=False)
            group, key = self._groups[group_key], keys.popleft()
            if keys:
                self._unreported[group_key] = keys
            pod = group.pods.get(key)
            if pod is not None and pod.last_message != group.message:
                return key, group.message
        return None
