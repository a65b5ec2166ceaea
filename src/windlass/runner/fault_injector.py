"""Inject the faults of `--inject` into pods of the embedded cluster.

injector = Injector(injections, cluster, transport, tell)     # before there is a pod
injector.on_pod(pod)                                          # whenever one is seen
await injector.finish()                                       # when the jobs are over
await injector.stop()                                         # in any case
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

from windlass.client.pods import Pod, Task
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ApiError, ConflictError, NotFoundError
from windlass.kubeapi.resources import PODS
from windlass.model.base import Json
from windlass.model.pods import PodPhase
from windlass.runner.report import Line, Topic
from windlass.wire import fault_injection
from windlass.wire.fault_injection import Action, Injection

if TYPE_CHECKING:
    from windlass.kubeapi.transport import Transport


JobKey = tuple[str, str]
"""The namespace and the name of a job."""


class Hit(msgspec.Struct, frozen=True):
    """A fault for one pod, injected `injection.seconds` after the pod has started. A delay precedes the start."""

    injection: Injection
    job: JobKey
    pod: str
    uid: str
    task: Task

    @property
    def namespace(self) -> str:
        return self.job[0]

    @property
    def text(self) -> str:
        """The fault in the syntax of `--inject`."""
        now = msgspec.structs.replace(self.injection, index=self.task.index, is_repeated=False)
        return str(now if now.action is Action.DELAY else msgspec.structs.replace(now, seconds=0.0))


class FaultTargets:
    """Selects the faults of each pod. Tracks the first pod of each task and the running pods for that."""

    def __init__(self, injections: Iterable[Injection]) -> None:
        self._injections = tuple(injections)
        self._first: dict[tuple[JobKey, Task], str] = {}
        self._running: set[str] = set()

    def delays(self, pod: Pod) -> tuple[Hit, ...]:
        """Return the delays of a pod that is about to start."""
        return tuple(hit for hit in self._of(pod) if hit.injection.action is Action.DELAY)

    def hits(self, pod: Pod) -> tuple[Hit, ...]:
        """Return the faults of a pod when it is first observed to run."""
        found = tuple(hit for hit in self._of(pod) if hit.injection.action is not Action.DELAY)
        uid = pod.uid
        if pod.status.phase != PodPhase.RUNNING or uid in self._running:
            return ()
        self._running.add(uid)
        return found

    def _of(self, pod: Pod) -> Iterator[Hit]:
        if not pod.is_task:
            return
        job, task, uid = pod.job_key, pod.task, pod.uid
        first = self._first.setdefault((job, task), uid)
        for injection in self._injections:
            if injection.matches(task.role, task.index) and (injection.is_repeated or first == uid):
                yield Hit(injection, job, pod.name, uid, task)


class Cluster(Protocol):
    """The part of `LocalCluster` that injects faults."""

    def end_container(
        self,
        namespace: str,
        pod: str,
        *,
        uid: str = "",
        container: str = "",
        code: int = fault_injection.KILLED_EXIT_CODE,
    ) -> bool: ...

    def delay_pods(self, seconds_of: Callable[[Json], float]) -> None: ...


class Injector:
    """Injects faults and reports each of them. `finish` also reports the faults that were not injected."""

    def __init__(
        self,
        wanted: Iterable[Injection],
        cluster: Cluster,
        transport: "Transport",
        tell: Callable[[Line], None],
        prefixes: Mapping[JobKey, str] | None = None,
    ) -> None:
        """`prefixes` are the display prefixes of jobs."""
        self._wanted = tuple(wanted)
        self._targets = FaultTargets(self._wanted)
        self._cluster = cluster
        self._transport = transport
        self._tell = tell
        self._prefixes = prefixes or {}
        self._done: set[Injection] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._deletions: set[asyncio.Task[None]] = set()
        self._is_over = False
        if any(injection.action is Action.DELAY for injection in self._wanted):
            cluster.delay_pods(self._delay_of)

    def on_pod(self, pod: Pod) -> None:
        if self._is_over:
            return
        loop = asyncio.get_running_loop()
        for hit in self._targets.hits(pod):
            self._timers.add(loop.call_later(hit.injection.seconds, self._do, hit))

    async def stop(self) -> None:
        """Cancel the remaining faults."""
        self._is_over = True
        for timer in self._timers:
            timer.cancel()
        deletions = tuple(self._deletions)
        for task in deletions:
            task.cancel()
        await asyncio.gather(*deletions, return_exceptions=True)

    async def finish(self) -> None:
        """Stop after the jobs have ended, and report the faults that were not injected."""
        await self.stop()
        for injection in dict.fromkeys(self._wanted):
            if injection not in self._done:
                message = f"not injected: {injection}: the task ended before, or never ran"
                self._tell(Line(Topic.NOTE, _now(), injection.task, "NotInjected", message))

    def _delay_of(self, pod: Json) -> float:
        hits = self._targets.delays(msgspec.convert(pod, Pod))
        for hit in hits:
            self._say(hit)
        return sum(hit.injection.seconds for hit in hits)

    def _do(self, hit: Hit) -> None:
        if hit.injection.action is Action.DELETE:
            deletion = asyncio.create_task(self._delete(hit))
            self._deletions.add(deletion)
            deletion.add_done_callback(self._deletions.discard)
        elif self._cluster.end_container(hit.namespace, hit.pod, uid=hit.uid, code=hit.injection.code):
            self._say(hit)

    async def _delete(self, hit: Hit) -> None:
        try:
            await self._transport.send(requests.delete(PODS, hit.namespace, hit.pod, uid=hit.uid))
        except (NotFoundError, ConflictError):
            return
        except ApiError as error:
            message = f"not injected: {hit.text}: {error}"
            self._tell(Line(Topic.NOTE, _now(), self._name_of(hit), "NotInjected", message))
            return
        self._say(hit)

    def _say(self, hit: Hit) -> None:
        self._done.add(hit.injection)
        self._tell(Line(Topic.NOTE, _now(), self._name_of(hit), "Injected", f"injected: {hit.text}"))

    def _name_of(self, hit: Hit) -> str:
        """Return the display name of the task."""
        return f"{self._prefixes.get(hit.job, '')}{hit.task}"


def _now() -> datetime:
    return datetime.now(UTC)
