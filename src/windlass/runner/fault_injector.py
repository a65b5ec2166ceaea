"""Inject the faults of `--inject` into pods of the embedded cluster.

injector = Injector(injections, cluster, transport, report, prefixes)   # before the first pod exists
injector.on_pod(pod)                                                    # for each observed pod
await injector.finish()                                                 # when the jobs have completed
await injector.stop()                                                   # always
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from windlass.client.pods import Pod, Task
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ApiError, ConflictError, NotFoundError
from windlass.kubeapi.resources import PODS
from windlass.model.base import Json
from windlass.model.pods import PodPhase
from windlass.runner import report as reports
from windlass.runner.report import Line, Topic
from windlass.wire import fault_injection
from windlass.wire.fault_injection import Action, Injection

if TYPE_CHECKING:
    from windlass.kubeapi.transport import Transport


JobKey = tuple[str, str]
"""The namespace and the name of a job."""


class PodFault(msgspec.Struct, frozen=True):
    """A fault for one pod, injected `injection.seconds` after the pod has started. A delay postpones the start."""

    injection: Injection
    job: JobKey
    pod: str
    uid: str
    task: Task

    @property
    def namespace(self) -> str:
        return self.job[0]

    @property
    def description(self) -> str:
        """The fault of this pod in the syntax of `--inject`, without the time of the injection."""
        seconds = self.injection.seconds if self.injection.action is Action.DELAY else 0.0
        return str(
            msgspec.structs.replace(self.injection, index=self.task.index, is_repeated=False, seconds=seconds)
        )


class FaultTargets:
    """Selects the faults of each pod. To do so, it tracks the first pod of each task, and the pods that have run."""

    def __init__(self, injections: Iterable[Injection]) -> None:
        self._injections = tuple(injections)
        self._first_pods: dict[tuple[JobKey, Task], str] = {}
        self._seen_running: set[str] = set()
        """UIDs of pods that were observed in the phase Running."""

    def delays(self, pod: Pod) -> tuple[PodFault, ...]:
        """Return the delays of a pod that is about to start."""
        return tuple(fault for fault in self._faults_of(pod) if fault.injection.action is Action.DELAY)

    def faults(self, pod: Pod) -> tuple[PodFault, ...]:
        """Return the faults other than delays when a pod is first observed in the phase Running, otherwise none."""
        faults = tuple(fault for fault in self._faults_of(pod) if fault.injection.action is not Action.DELAY)
        if pod.status.phase != PodPhase.RUNNING or pod.uid in self._seen_running:
            return ()
        self._seen_running.add(pod.uid)
        return faults

    def _faults_of(self, pod: Pod) -> Iterator[PodFault]:
        if not pod.is_task:
            return
        job, task, uid = pod.job_key, pod.task, pod.uid
        first = self._first_pods.setdefault((job, task), uid)
        for injection in self._injections:
            if injection.matches(task.role, task.index) and (injection.is_repeated or first == uid):
                yield PodFault(injection, job, pod.name, uid, task)


class Cluster(Protocol):
    """The part of `LocalCluster` that injects faults."""

    def end_container(
        self,
        namespace: str,
        pod: str,
        *,
        uid: str = "",
        code: int = fault_injection.KILLED_EXIT_CODE,
    ) -> bool: ...

    def delay_pods(self, seconds_of: Callable[[Json], float]) -> None: ...


class Injector:
    """Injects faults and reports each of them. `finish` also reports the faults that were not injected."""

    def __init__(
        self,
        injections: Iterable[Injection],
        cluster: Cluster,
        transport: "Transport",
        report: Callable[[Line], None],
        prefixes: Mapping[JobKey, str],
    ) -> None:
        """`prefixes` are the display prefixes of jobs."""
        self._injections = tuple(injections)
        self._targets = FaultTargets(self._injections)
        self._cluster = cluster
        self._transport = transport
        self._report = report
        self._prefixes = prefixes
        self._reported: set[Injection] = set()
        """Faults that were injected, or whose failure was reported."""
        self._timers: set[asyncio.TimerHandle] = set()
        self._deletions: set[asyncio.Task[None]] = set()
        self._is_stopped = False
        if any(injection.action is Action.DELAY for injection in self._injections):
            cluster.delay_pods(self._delay_of)

    def on_pod(self, pod: Pod) -> None:
        if self._is_stopped:
            return
        loop = asyncio.get_running_loop()
        for fault in self._targets.faults(pod):
            self._timers.add(loop.call_later(fault.injection.seconds, self._inject, fault))

    async def stop(self) -> None:
        """Cancel the remaining faults."""
        self._is_stopped = True
        for timer in self._timers:
            timer.cancel()
        deletions = tuple(self._deletions)
        for task in deletions:
            task.cancel()
        await asyncio.gather(*deletions, return_exceptions=True)

    async def finish(self) -> None:
        """Stop after the jobs have ended, and report the faults that were not injected."""
        await self.stop()
        for injection in dict.fromkeys(self._injections):
            if injection not in self._reported:
                message = f"not injected: {injection}: the task ended before, or never ran"
                self._report(Line(Topic.NOTE, reports.now(), injection.task, "NotInjected", message))

    def _delay_of(self, pod: Json) -> float:
        faults = self._targets.delays(msgspec.convert(pod, Pod))
        for fault in faults:
            self._report_injected(fault)
        return sum(fault.injection.seconds for fault in faults)

    def _inject(self, fault: PodFault) -> None:
        if fault.injection.action is Action.DELETE:
            deletion = asyncio.create_task(self._delete(fault))
            self._deletions.add(deletion)
            deletion.add_done_callback(self._deletions.discard)
        elif self._cluster.end_container(
            fault.namespace, fault.pod, uid=fault.uid, code=fault.injection.code
        ):
            self._report_injected(fault)

    async def _delete(self, fault: PodFault) -> None:
        try:
            await self._transport.send(requests.delete(PODS, fault.namespace, fault.pod, uid=fault.uid))
        except (NotFoundError, ConflictError):
            return
        except ApiError as error:
            self._reported.add(fault.injection)
            message = f"not injected: {fault.description}: {error}"
            self._report(Line(Topic.NOTE, reports.now(), self._name_of(fault), "NotInjected", message))
            return
        self._report_injected(fault)

    def _report_injected(self, fault: PodFault) -> None:
        self._reported.add(fault.injection)
        self._report(
            Line(
                Topic.NOTE, reports.now(), self._name_of(fault), "Injected", f"injected: {fault.description}"
            )
        )

    def _name_of(self, fault: PodFault) -> str:
        """Return the display name of the task."""
        return f"{self._prefixes.get(fault.job, '')}{fault.task}"
