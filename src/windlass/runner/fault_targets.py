"""Select the pods and times for the faults of `--inject`."""

from collections.abc import Iterable, Iterator

import msgspec

from windlass.client.pods import Pod, Task
from windlass.model.pods import PodPhase
from windlass.wire.fault_injection import Action, Injection

JobKey = tuple[str, str]
"""The namespace and the name of a job."""


class Hit(msgspec.Struct, frozen=True):
    """One fault for one pod, due `injection.seconds` after the pod runs; a delay, before it starts."""

    injection: Injection
    job: JobKey
    pod: str
    uid: str
    task: Task

    @property
    def namespace(self) -> str:
        return self.job[0]

    @property
    def said(self) -> str:
        """The fault as `--inject` writes it."""
        now = msgspec.structs.replace(self.injection, index=self.task.index, is_repeated=False)
        return str(now if now.what is Action.DELAY else msgspec.structs.replace(now, seconds=0.0))


class Aims:
    """Tracks the first pod of each task, and the pods that run."""

    def __init__(self, injections: Iterable[Injection]) -> None:
        self._injections = tuple(injections)
        self._first: dict[tuple[JobKey, Task], str] = {}
        self._running: set[str] = set()

    def delays(self, pod: Pod) -> tuple[Hit, ...]:
        """Return the delays of a pod that is about to start."""
        return tuple(hit for hit in self._of(pod) if hit.injection.what is Action.DELAY)

    def hits(self, pod: Pod) -> tuple[Hit, ...]:
        """Return the faults of a pod when it is first observed to run."""
        found = tuple(hit for hit in self._of(pod) if hit.injection.what is not Action.DELAY)
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
            if injection.concerns(task.role, task.index) and (injection.is_repeated or first == uid):
                yield Hit(injection, job, pod.name, uid, task)
