"""Pods that somebody waits for, such as those of a job's preparation: how far they are, and what is wrong. By watch."""

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from windlass.client import events, pods, watch
from windlass.client.connection import Connection
from windlass.client.errors import GoneError
from windlass.client.pods import ContainerStatus, Pod
from windlass.kubeapi.errors import ForbiddenError
from windlass.kubeapi.following import Changed, Deleted, Listed, News
from windlass.kubeapi.resources import EVENTS, PODS
from windlass.model.pods import ContainerWaiting

T = TypeVar("T")

FATAL_REASONS = frozenset({"FailedMount", "FailedMapVolume", "FailedCreatePodSandBox", "Failed"})
"""Reasons of events: what fails for one of these may still come right, but not often."""
FATAL_COUNT = 3
"""So many times."""
MAX_MESSAGE_LENGTH = 500
"""Of what an event or a container says."""

Places = Mapping[str, str]
"""By the names of volumes: where their files are, in words."""

_OF_MOUNTS = ("FailedMount", "FailedMapVolume")
_volume_in = re.compile(r'volume "([^"]+)"').search
_is_unheard_of = re.compile(r"failed to sync (configmap|secret) cache").search
"""A node has not heard yet what is in a volume, and asks again: that says nothing about the volume."""
_missing_claim = re.compile(r'persistentvolumeclaim "[^"]+" not found').search


class PodWatcher:
    """The pods of one Deployment or Job, or one pod alone."""

    def __init__(
        self,
        connection: Connection,
        places: Places,
        *,
        label_selector: str = "",
        name: str = "",
    ) -> None:
        """Those with these labels, or the one of that name."""
        self._connection = connection
        self._places = places
        self._label_selector = label_selector
        self._name = name
        self._pods: dict[str, Pod] = {}
        self.is_lost = False
        """There is none of them, or none any more."""
        self._events: dict[str, events.ApiEvent] = {}
        """By their UIDs, the newest last."""
        self._changed = asyncio.Condition()

    @property
    def pods(self) -> Sequence[Pod]:
        """Those that are there, the newest last."""
        return sorted(self._pods.values(), key=lambda pod: str(pod.metadata.creation_timestamp))

    @property
    def has_begun(self) -> bool:
        return any(container.has_begun for pod in self.pods for container in pod.container_statuses)

    @property
    def is_pulling(self) -> bool:
        """A node mounts the volumes first: who waits for an image has them."""
        pulled = {each.involved_object.uid for each in self._events.values() if each.reason == "Pulling"}
        return any(pod.uid in pulled for pod in self.pods)

    def looks(self) -> Iterator[Coroutine[Any, Any, None]]:
        """To be run while somebody waits. They end only by an error."""
        yield self._look_at_pods()
        yield self._look_at_events()

    async def watched(
        self,
        *works: Coroutine[Any, Any, T],
        seconds: float | None,
        may_go_on: Callable[[], bool] = lambda: False,
    ) -> T:
        """What the first of `works` gives, for which they are looked at. Raises TimeoutError, and ApiError.

        `may_go_on` is asked when the time is over.
        """
        working = [asyncio.create_task(work) for work in works]
        tasks = {*working, *(asyncio.create_task(look) for look in self.looks())}
        try:
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not done and may_go_on():
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in working:
            if task in done:
                return task.result()
        for look in done:
            look.result()  # it never ends by itself: this raises
        raise TimeoutError

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Asked again whenever something has changed."""
        async with self._changed:
            await self._changed.wait_for(is_so)

    async def until_over(self) -> Pod:
        """One of them has come to its end. Raises GoneError."""
        await self.until(lambda: self.is_lost or any(pod.is_over for pod in self.pods))
        ended = [pod for pod in self.pods if pod.is_over]
        if not ended:
            raise GoneError("somebody has deleted its pod meanwhile")
        return ended[-1]

    async def until_hopeless(self) -> str:
        """Why none of them will come to anything."""
        await self.until(self._is_hopeless)
        return self.why()

    def why(self) -> str:
        """What keeps the newest of them; empty where nobody knows."""
        if not self._pods:
            return "there is no pod of it yet"
        pod = self.pods[-1]
        warnings = self._warnings_of(pod)
        if warnings and not _unscheduled(pod):
            return self._explained(warnings[-1])
        return blocking_reason(pod)

    @property
    def blocking_reasons(self) -> Sequence[str]:
        """All that the cluster says of why the newest of them does not begin, in its own words, the newest last."""
        if not self._pods:
            return ()
        pod = self.pods[-1]
        said = (
            _unscheduled(pod),
            *(each.message for each in _waits(pod)),
            *(each.message for each in self._warnings_of(pod)),
        )
        reasons = (each.strip().removesuffix(".") for each in said)
        return [each for each in reasons if each]

    def _is_hopeless(self) -> bool:
        pod = self.pods[-1] if self._pods else None
        if pod is None or pod.is_over:
            return False
        is_missing = _missing_claim(_unscheduled(pod)) is not None
        return is_missing or are_unrecoverable(self._warnings_of(pod))

    def _warnings_of(self, pod: Pod) -> list[events.ApiEvent]:
        known = [each for each in self._events.values() if each.involved_object.uid == pod.uid]
        return [each for each in known if each.type == "Warning"]

    def _explained(self, warning: events.ApiEvent) -> str:
        """Where the files are that cannot be had: an event says the name of the volume only."""
        said = _cut(warning.message)
        found = _volume_in(warning.message)
        place = self._places.get(found[1], "") if found else ""
        if found and place and warning.reason in _OF_MOUNTS:
            return f"the volume {found[1]} ({place}) cannot be mounted: {said}"
        return said if warning.reason == "Failed" else f"{warning.reason}: {said}"

    # What the watches say

    async def _look_at_pods(self) -> None:
        fields = f"metadata.name={self._name}" if self._name else ""
        found = watch.watch_objects(
            self._connection, PODS, label_selector=self._label_selector, field_selector=fields
        )
        async with contextlib.aclosing(found) as changes:
            async for change in changes:
                match change:
                    case Listed(items=items):
                        self._pods = {pod.uid: pod for pod in map(pods.decode, items)}
                        self.is_lost = not self._pods
                    case Changed(object=body):
                        pod = pods.decode(body)
                        self._pods[pod.uid] = pod
                    case Deleted(object=body):
                        self._pods.pop(pods.decode(body).uid, None)
                        self.is_lost = not self._pods
                await self._tell()

    async def _look_at_events(self) -> None:
        """All of one pod, and warnings only where it could be any of the namespace."""
        which = f"involvedObject.name={self._name}" if self._name else "type=Warning"
        found = watch.watch_objects(
            self._connection, EVENTS, field_selector=f"involvedObject.kind=Pod,{which}"
        )
        try:
            async with contextlib.aclosing(found) as changes:
                async for change in changes:
                    self._take_events(change)
                    await self._tell()
        except ForbiddenError:
            # Whoever may not read events learns less, and later.
            await asyncio.Event().wait()

    def _take_events(self, change: News) -> None:
        if isinstance(change, Deleted):
            return
        for body in change.items if isinstance(change, Listed) else (change.object,):
            event = events.decode(body)
            self._events.pop(event.metadata.uid, None)
            self._events[event.metadata.uid] = event

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def are_unrecoverable(warnings: Sequence[events.ApiEvent]) -> bool:
    """These of one pod: does it fail for the same again and again?"""
    told = [each for each in warnings if each.reason in FATAL_REASONS and not _is_unheard_of(each.message)]
    # The same mount may fail in several words. An image that is not had at once is told in several, too.
    mounts: Counter[str] = Counter()
    for each in told:
        if each.reason in _OF_MOUNTS:
            found = _volume_in(each.message)
            mounts[found[1] if found else ""] += each.times
    of_any = mounts.pop("", 0)
    times = (of_any + max(mounts.values(), default=0), *(each.times for each in told))
    return max(times) >= FATAL_COUNT


def blocking_reason(pod: Pod) -> str:
    """What keeps it, as far as it says so itself; empty where it does not."""
    unscheduled = _unscheduled(pod)
    if unscheduled:
        return f"the pod {pod.name} has no node: {_cut(unscheduled)}"
    said = (f"{each.reason}: {each.message}".strip(": ") for each in _waits(pod) if each.reason)
    waits = next(said, "")
    return f"the pod {pod.name} waits: {_cut(waits)}" if waits else ""


def failed_container(pod: Pod) -> ContainerStatus | None:
    """The one that has ended badly, now or before it was started again."""
    for status in pod.container_statuses:
        ended = status.state.terminated or status.last_state.terminated
        if ended is not None and ended.exit_code:
            return status
    return None


def termination_message(pod: Pod) -> str:
    """Of a pod that has failed, by its own word; empty where it says nothing."""
    failed = failed_container(pod)
    ended = failed.state.terminated or failed.last_state.terminated if failed is not None else None
    if ended is not None and ended.message.strip():
        return ended.message.strip()
    return ": ".join(part for part in (pod.status.reason, pod.status.message) if part)


def _waits(pod: Pod) -> list[ContainerWaiting]:
    return [each.state.waiting for each in pod.container_statuses if each.state.waiting is not None]


def _unscheduled(pod: Pod) -> str:
    conditions = pod.status.conditions
    return next(
        (each.message for each in conditions if each.type == "PodScheduled" and each.status == "False"), ""
    )


def _cut(said: str) -> str:
    """In one line."""
    line = " ".join(said.split())
    return line if len(line) <= MAX_MESSAGE_LENGTH else line[: MAX_MESSAGE_LENGTH - 1] + "…"
