"""Which pods the faults of `--inject` are for, and how long after what they are due. Nothing is done here."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from windlass.model import names
from windlass.model.base import Sparse
from windlass.model.pods import PodPhase
from windlass.wire.injections import Injection, What

JobKey = tuple[str, str]
"""The namespace and the name of a job."""


class Metadata(Sparse, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: Mapping[str, str] = {}


class Status(Sparse, frozen=True):
    phase: str = PodPhase.PENDING


class Pod(Sparse, frozen=True):
    """What has to be known of one."""

    metadata: Metadata = Metadata()
    status: Status = Status()

    @property
    def task(self) -> tuple[str, int] | None:
        """Role and index; None for a pod that is no task."""
        labels = self.metadata.labels
        role, index = labels.get(names.TASKROLE_NAME, ""), labels.get(names.TASK_INDEX, "")
        return (role, int(index)) if role and index.isdecimal() else None


class Hit(msgspec.Struct, frozen=True):
    """One fault for one pod. It is due `injection.seconds` after the pod was seen to run; a delay, before it starts."""

    injection: Injection
    job: JobKey
    pod: str
    uid: str
    task: str

    @property
    def namespace(self) -> str:
        return self.job[0]

    @property
    def said(self) -> str:
        """What is done, in the words in which it was asked for."""
        index = int(self.task.rpartition("-")[2])
        now = msgspec.structs.replace(self.injection, index=index, is_repeated=False)
        return str(now if now.what is What.DELAY else msgspec.structs.replace(now, seconds=0.0))


class Aims:
    """Remembers which pod of a task was the first, and which were seen to run."""

    def __init__(self, injections: Iterable[Injection]) -> None:
        self._injections = tuple(injections)
        self._first: dict[tuple[JobKey, str, int], str] = {}
        self._running: set[str] = set()

    def delays(self, pod: Pod) -> tuple[Hit, ...]:
        """Of a pod that is about to start."""
        return tuple(hit for hit in self._of(pod) if hit.injection.what is What.DELAY)

    def hits(self, pod: Pod) -> tuple[Hit, ...]:
        """Of a pod as it is seen, as often as that may be: all of them at once, when it runs."""
        found = tuple(hit for hit in self._of(pod) if hit.injection.what is not What.DELAY)
        uid = pod.metadata.uid
        if pod.status.phase != PodPhase.RUNNING or uid in self._running:
            return ()
        self._running.add(uid)
        return found

    def _of(self, pod: Pod) -> Iterator[Hit]:
        if pod.task is None:
            return
        meta, (role, index) = pod.metadata, pod.task
        job = (meta.namespace, meta.labels.get(names.FRAMEWORK_NAME, ""))
        first = self._first.setdefault((job, role, index), meta.uid)
        for injection in self._injections:
            if injection.concerns(role, index) and (injection.is_repeated or first == meta.uid):
                yield Hit(injection, job, meta.name, meta.uid, names.host_name(role, index))
