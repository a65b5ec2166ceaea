"""Which pods the faults of `--inject` are for, and how long after what they are due. Nothing is done here."""

from collections.abc import Iterable, Iterator

import msgspec

from windlass.client.pods import Pod, Task
from windlass.model.pods import PodPhase
from windlass.wire.fault_injection import Action, Injection

JobKey = tuple[str, str]
"""The namespace and the name of a job."""


class Hit(msgspec.Struct, frozen=True):
    """One fault for one pod. It is due `injection.seconds` after the pod was seen to run; a delay, before it starts."""

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
        """What is done, in the words in which it was asked for."""
        now = msgspec.structs.replace(self.injection, index=self.task.index, is_repeated=False)
        return str(now if now.what is Action.DELAY else msgspec.structs.replace(now, seconds=0.0))


class Aims:
    """Remembers which pod of a task was the first, and which were seen to run."""

    def __init__(self, injections: Iterable[Injection]) -> None:
        self._injections = tuple(injections)
        self._first: dict[tuple[JobKey, Task], str] = {}
        self._running: set[str] = set()

    def delays(self, pod: Pod) -> tuple[Hit, ...]:
        """Of a pod that is about to start."""
        return tuple(hit for hit in self._of(pod) if hit.injection.what is Action.DELAY)

    def hits(self, pod: Pod) -> tuple[Hit, ...]:
        """Of a pod as it is seen, as often as that may be: all of them at once, when it runs."""
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
