"""Watch pods and their events during a wait, and explain why the pods do not start."""

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from windlass.client import events, pods, watch
from windlass.client.connection import Connection
from windlass.client.errors import ObjectDeletedError
from windlass.client.pods import ContainerStatus, Pod
from windlass.kubeapi.errors import ForbiddenError
from windlass.kubeapi.reflector import Changed, Deleted, Listed, ResourceEvent
from windlass.kubeapi.resources import EVENTS, PODS
from windlass.model.pods import ContainerWaiting

T = TypeVar("T")

FATAL_REASONS = frozenset({"FailedMount", "FailedMapVolume", "FailedCreatePodSandBox", "Failed"})
"""Reasons of warning events after which a pod rarely starts."""
FATAL_COUNT = 3
"""Number of such events with the same cause after which a pod is considered unrecoverable."""
MAX_MESSAGE_LENGTH = 500
"""Maximum length of a message that is quoted in a reason."""

_MOUNT_REASONS = ("FailedMount", "FailedMapVolume")
_volume_in = re.compile(r'volume "([^"]+)"').search
_is_cache_sync = re.compile(r"failed to sync (configmap|secret) cache").search
"""The kubelet has not received the object yet and retries. This does not indicate a problem with the volume."""
_missing_claim = re.compile(r'persistentvolumeclaim "[^"]+" not found').search


class PodWatcher:
    """Watches the pods of one Deployment or Job, or a single pod."""

    def __init__(
        self,
        connection: Connection,
        *,
        label_selector: str = "",
        name: str = "",
        volume_locations: Mapping[str, str] = {},
    ) -> None:
        """Watch the pods with these labels, or the pod of that name.

        `volume_locations` are descriptions of where the files of volumes are, by volume name.
        """
        self._connection = connection
        self._volume_locations = volume_locations
        self._label_selector = label_selector
        self._name = name
        self._pods: dict[str, Pod] = {}
        self.had_no_pod = False
        """Whether no pod remained after the last list or deletion, even if one was created since."""
        self._events: dict[str, events.ApiEvent] = {}
        """By UID, the newest last."""
        self._changed = asyncio.Condition()

    @property
    def pods(self) -> Sequence[Pod]:
        """The existing pods, the newest last."""
        return sorted(self._pods.values(), key=lambda pod: str(pod.metadata.creation_timestamp))

    @property
    def has_started(self) -> bool:
        return any(container.has_started for pod in self.pods for container in pod.container_statuses)

    @property
    def has_started_pulling(self) -> bool:
        """Whether a pod has started to pull an image. Its volumes are mounted at that point.

        Only known for a pod that is watched by name: of other pods, only warnings are watched.
        """
        pulled = {each.involved_object.uid for each in self._events.values() if each.reason == "Pulling"}
        return any(pod.uid in pulled for pod in self.pods)

    def watches(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the coroutines to run during a wait. They end only with an error."""
        yield self._watch_pods()
        yield self._watch_events()

    async def run_while_watching(
        self,
        *works: Coroutine[Any, Any, T],
        seconds: float | None,
        may_continue: Callable[[], bool] = lambda: False,
    ) -> T:
        """Return the result of the first of `works` to finish.

        After the timeout, `may_continue` decides whether to wait on without a time limit. Raises TimeoutError, and the
        errors of `works` and of the watches.
        """
        working = [asyncio.create_task(work) for work in works]
        tasks = {*working, *(asyncio.create_task(each) for each in self.watches())}
        try:
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not done and may_continue():
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in working:
            if task in done:
                return task.result()
        for ended_watch in done:
            ended_watch.result()  # raises, since a watch ends only with an error
        raise TimeoutError

    async def wait_until(self, is_met: Callable[[], bool]) -> None:
        """Wait for a condition, which is evaluated now and after each change."""
        async with self._changed:
            await self._changed.wait_for(is_met)

    async def wait_until_finished(self) -> Pod:
        """Wait until a pod has terminated, and return it. Raises ObjectDeletedError if there is no pod."""
        await self.wait_until(lambda: self.had_no_pod or any(pod.is_over for pod in self.pods))
        ended = [pod for pod in self.pods if pod.is_over]
        if not ended:
            raise ObjectDeletedError("its pod was deleted meanwhile")
        return ended[-1]

    async def wait_until_unrecoverable(self) -> str:
        """Wait until the newest pod is considered unrecoverable, and return the reason."""
        await self.wait_until(self._is_unrecoverable)
        return self.pending_reason()

    def pending_reason(self) -> str:
        """Return why the newest pod does not run, or that there is no pod; empty if unknown."""
        if not self._pods:
            return "its pod is not created yet"
        pod = self.pods[-1]
        warnings = self._warnings_of(pod)
        if warnings and not _unscheduled_message(pod):
            return self._describe(warnings[-1])
        return blocking_reason(pod)

    @property
    def blocking_messages(self) -> Sequence[str]:
        """All messages about why the newest pod does not start: from its status, then its warnings, the newest last."""
        if not self._pods:
            return ()
        pod = self.pods[-1]
        messages = (
            _unscheduled_message(pod),
            *(each.message for each in _waiting_states(pod)),
            *(each.message for each in self._warnings_of(pod)),
        )
        reasons = (each.strip().removesuffix(".") for each in messages)
        return [each for each in reasons if each]

    def _is_unrecoverable(self) -> bool:
        pod = self.pods[-1] if self._pods else None
        if pod is None or pod.is_over:
            return False
        is_missing = _missing_claim(_unscheduled_message(pod)) is not None
        return is_missing or are_unrecoverable(self._warnings_of(pod))

    def _warnings_of(self, pod: Pod) -> list[events.ApiEvent]:
        return [
            each
            for each in self._events.values()
            if each.involved_object.uid == pod.uid and each.type == "Warning"
        ]

    def _describe(self, warning: events.ApiEvent) -> str:
        """Describe a warning. For a failed mount, add the location of the volume: the event has only its name."""
        message = _shorten(warning.message)
        found = _volume_in(warning.message)
        location = self._volume_locations.get(found[1], "") if found else ""
        if found and location and warning.reason in _MOUNT_REASONS:
            return f"cannot mount volume {found[1]} ({location}): {message}"
        return message if warning.reason == "Failed" else f"{warning.reason}: {message}"

    # Watches

    async def _watch_pods(self) -> None:
        fields = f"metadata.name={self._name}" if self._name else ""
        watched = watch.watch_objects(
            self._connection, PODS, label_selector=self._label_selector, field_selector=fields
        )
        async with contextlib.aclosing(watched) as changes:
            async for change in changes:
                match change:
                    case Listed(items=items):
                        self._pods = {pod.uid: pod for pod in map(pods.decode, items)}
                        self.had_no_pod = not self._pods
                    case Changed(object=body):
                        pod = pods.decode(body)
                        self._pods[pod.uid] = pod
                    case Deleted(object=body):
                        self._pods.pop(pods.decode(body).uid, None)
                        self.had_no_pod = not self._pods
                await self._notify()

    async def _watch_events(self) -> None:
        """Watch all events of a named pod, or the warnings of all pods in the namespace."""
        selector = f"involvedObject.name={self._name}" if self._name else "type=Warning"
        watched = watch.watch_objects(
            self._connection, EVENTS, field_selector=f"involvedObject.kind=Pod,{selector}"
        )
        try:
            async with contextlib.aclosing(watched) as changes:
                async for change in changes:
                    self._store_events(change)
                    await self._notify()
        except ForbiddenError:
            # Without permission for events, problems are detected later and in less detail.
            await asyncio.Event().wait()

    def _store_events(self, change: ResourceEvent) -> None:
        if isinstance(change, Deleted):
            return
        for body in change.items if isinstance(change, Listed) else (change.object,):
            event = events.decode(body)
            self._events.pop(event.metadata.uid, None)
            self._events[event.metadata.uid] = event

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def are_unrecoverable(warnings: Sequence[events.ApiEvent]) -> bool:
    """Return whether the warnings of one pod show that it fails repeatedly for the same reason."""
    fatal = [each for each in warnings if each.reason in FATAL_REASONS and not _is_cache_sync(each.message)]
    # The same mount may fail with different messages: add up the failures by volume.
    mounts: Counter[str] = Counter()
    for each in fatal:
        if each.reason in _MOUNT_REASONS:
            found = _volume_in(each.message)
            mounts[found[1] if found else ""] += each.occurrence_count
    unnamed = mounts.pop("", 0)
    counts = (unnamed + max(mounts.values(), default=0), *(each.occurrence_count for each in fatal))
    return max(counts) >= FATAL_COUNT


def blocking_reason(pod: Pod) -> str:
    """Return why the pod does not start according to its own status; empty if unknown."""
    unscheduled = _unscheduled_message(pod)
    if unscheduled:
        return f"pod {pod.name} is not scheduled: {_shorten(unscheduled)}"
    states = (f"{each.reason}: {each.message}".strip(": ") for each in _waiting_states(pod) if each.reason)
    waiting = next(states, "")
    return f"pod {pod.name} is waiting: {_shorten(waiting)}" if waiting else ""


def failed_container(pod: Pod) -> ContainerStatus | None:
    """Return the status of the first container that failed when it last ended."""
    for status in pod.container_statuses:
        ended = status.state.terminated or status.last_state.terminated
        if ended is not None and ended.exit_code:
            return status
    return None


def termination_message(pod: Pod) -> str:
    """Return the termination message of the failed container, or else the pod's reason and message; may be empty."""
    failed = failed_container(pod)
    ended = failed.state.terminated or failed.last_state.terminated if failed is not None else None
    if ended is not None and ended.message.strip():
        return ended.message.strip()
    return ": ".join(part for part in (pod.status.reason, pod.status.message) if part)


def _waiting_states(pod: Pod) -> list[ContainerWaiting]:
    return [each.state.waiting for each in pod.container_statuses if each.state.waiting is not None]


def _unscheduled_message(pod: Pod) -> str:
    conditions = pod.status.conditions
    return next(
        (each.message for each in conditions if each.type == "PodScheduled" and each.status == "False"), ""
    )


def _shorten(message: str) -> str:
    """Return the message on one line, truncated to MAX_MESSAGE_LENGTH."""
    line = " ".join(message.split())
    return line if len(line) <= MAX_MESSAGE_LENGTH else line[: MAX_MESSAGE_LENGTH - 1] + "…"
