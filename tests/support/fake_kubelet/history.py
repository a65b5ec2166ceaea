"""Records what the fake kubelet observed of each pod, for checks that no task ran twice or was lost.

Several pods may have the same name one after the other; each UID has its own record.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from fake_kubelet.lifecycle import Pod
from windlass.model import names


class Sighting(msgspec.Struct):
    """One pod. Times are in seconds of a monotonic clock; None if it has not happened."""

    namespace: str
    name: str
    uid: str
    framework: str
    framework_uid: str
    attempt: str
    """The UID of the ConfigMap that stands for the Framework's attempt."""
    task_attempt: str
    created: float
    started: float | None = None
    ended: float | None = None
    """When it ended by itself or was removed."""
    exit_code: int | None = None
    removed: float | None = None


class History:
    def __init__(self) -> None:
        self._by_uid: dict[str, Sighting] = {}

    def saw(self, pod: Pod, now: float) -> Sighting:
        sighting = self._by_uid.get(pod.uid)
        if sighting is None:
            sighting = self._by_uid[pod.uid] = _sighting(pod, now)
        return sighting

    @property
    def pods(self) -> tuple[Sighting, ...]:
        """Return all pods in the order in which they were first seen."""
        return tuple(self._by_uid.values())

    def of(self, namespace: str, framework: str) -> tuple[Sighting, ...]:
        return tuple(pod for pod in self.pods if pod.namespace == namespace and pod.framework == framework)

    @property
    def alive(self) -> tuple[Sighting, ...]:
        """Return the pods that have started and not ended."""
        return tuple(pod for pod in self.pods if pod.started is not None and pod.ended is None)


def by_name(pods: Iterable[Sighting]) -> dict[tuple[str, str], list[Sighting]]:
    named: dict[tuple[str, str], list[Sighting]] = defaultdict(list)
    for pod in pods:
        named[pod.namespace, pod.name].append(pod)
    return dict(named)


def started_more_than_once(pods: Iterable[Sighting]) -> dict[tuple[str, str], list[Sighting]]:
    """Return names with more than one started pod. Without retries there are none."""
    started = by_name(pod for pod in pods if pod.started is not None)
    return {name: each for name, each in started.items() if len(each) > 1}


def started_together(pods: Iterable[Sighting]) -> list[tuple[Sighting, Sighting]]:
    """Return pairs of pods of one name of which the second started before the first had ended. Must be empty."""
    pairs = []
    for each in by_name(pod for pod in pods if pod.started is not None).values():
        ordered = sorted(each, key=lambda pod: pod.started or 0.0)
        pairs += [
            (first, second)
            for first, second in itertools.pairwise(ordered)
            if first.ended is None or first.ended > (second.started or 0.0)
        ]
    return pairs


def _sighting(pod: Pod, now: float) -> Sighting:
    metadata = pod.metadata
    return Sighting(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        framework=metadata.labels.get(names.FRAMEWORK_NAME, ""),
        framework_uid=metadata.annotations.get(names.FRAMEWORK_UID, ""),
        attempt=pod.owner_uid,
        task_attempt=metadata.annotations.get(names.TASK_ATTEMPT_ID, ""),
        created=now,
    )
