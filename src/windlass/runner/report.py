"""What is told of a run, and when: objects as they change → lines. Pure, but for what was told already."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from windlass.client.pods import ContainerStatus, Pod
from windlass.client.submit.plan import CompanionRef
from windlass.model import names
from windlass.model.base import Sparse
from windlass.model.framework import Framework
from windlass.model.pods import TERMINAL_PHASES, PodPhase
from windlass.model.states import State
from windlass.render.manifest import Manifest
from windlass.runner import exit_codes
from windlass.wire.progress import Progress

_WARNING = "Warning"
_SCHEDULED, _STOPPED = "Scheduled", "Stopped"
_COMPLETED = "FrameworkCompleted"
_UNHEALTHY = "Unhealthy"


class Topic(StrEnum):
    """What a line is about: the `event` of `--output json`."""

    NOTE = "note"
    FRAMEWORK = "framework"
    POD = "pod"
    COMPANION = "companion"
    LOG = "log"
    PROGRESS = "progress"
    COMPLETED = "completed"
    ERROR = "error"
    SUMMARY = "summary"


class Line(msgspec.Struct, frozen=True):
    """One line of the output."""

    event: Topic
    time: datetime
    object: str
    """The Framework's name, a pod's short name (`worker-0`; of one job of several `digits/worker-0`), or `cluster`."""
    reason: str
    """One word, as in Kubernetes events."""
    message: str


class Opened(Line, frozen=True):
    """A companion that this machine leads to."""

    url: str


class LogLine(msgspec.Struct, frozen=True):
    event: Topic
    time: datetime
    object: str
    container: str
    line: str


class Source(StrEnum):
    """Where a task has said how far it is."""

    LOG = "log"
    FILE = "file"


class Advance(msgspec.Struct, frozen=True):
    """How far a task is, by its own word."""

    event: Topic
    time: datetime
    object: str
    step: int
    total: int
    values: Mapping[str, str]
    source: Source
    remaining: float | None = None
    """Seconds, at the pace of the last steps."""

    @property
    def progress(self) -> Progress:
        return Progress(self.step, self.total, self.values)


class Verdict(msgspec.Struct, frozen=True):
    """The last line of a job: how it ended. Where there are several jobs, one more is the last line of them all."""

    event: Topic
    time: datetime
    object: str
    message: str
    exit: int
    code: int | None = None
    phrase: str = ""
    type: str = ""
    state: str = ""


def verdict(framework: Framework | None, name: str, now: datetime, *, was_interrupted: bool) -> Verdict:
    """Of a Framework as it was seen last: completed, or gone before."""
    status = framework.status if framework is not None else None
    completion = status.attempt_status.completion_status if status is not None else None
    if status is None or completion is None or status.state is not State.COMPLETED:
        code = exit_codes.INTERRUPTED if was_interrupted else exit_codes.OTHER_CODE
        return Verdict(Topic.ERROR, now, name, "was deleted before it had completed", exit=code)
    ended_as = exit_codes.of_job(completion.code, has_succeeded=not completion.type.is_failed)
    how = f"has completed with {completion.phrase} ({completion.code})"
    because = completion.trigger.message if completion.trigger is not None else completion.diagnostics
    return Verdict(
        Topic.COMPLETED,
        now,
        name,
        f"{how}: {because}" if because else how,
        exit=exit_codes.INTERRUPTED if was_interrupted else ended_as,
        code=completion.code,
        phrase=completion.phrase,
        type=" ".join((completion.type.name.value, *completion.type.attributes)),
        state=status.state.value,
    )


def summary(work: str, verdicts: Sequence[Verdict], now: datetime) -> Verdict:
    """Of several jobs, in the order of the file: the first that did not succeed decides."""
    bad = [verdict for verdict in verdicts if verdict.exit != exit_codes.SUCCESS]
    good = len(verdicts) - len(bad)
    message = f"{good} of {len(verdicts)} have succeeded"
    if bad:
        message += f"; the first in the file that has not is {bad[0].object}"
    return Verdict(Topic.SUMMARY, now, work, message, exit=bad[0].exit if bad else exit_codes.SUCCESS)


def open_companions(verdicts: Sequence[Verdict], companions: Mapping[str, str]) -> str:
    """After the jobs. `companions` are URLs by name, empty where that is not known yet."""
    called = " and ".join(f"{name} at {url}" if url else name for name, url in companions.items())
    end = "goes on: Ctrl-C ends it" if len(companions) == 1 else "go on: Ctrl-C ends them"
    if len(verdicts) > 1:
        return f"the jobs have ended; {called} {end}"
    how = "has succeeded" if verdicts[0].exit == exit_codes.SUCCESS else "has not succeeded"
    return f"{how}; {called} {end}"


# What is read of the objects


class Involved(Sparse, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Event(Sparse, frozen=True):
    involved_object: Involved = Involved()
    type: str = ""
    reason: str = ""
    message: str = ""


class Report:
    """Remembers what was told, so that it is told once."""

    def __init__(self, jobs: Sequence[Manifest], companions: Sequence[CompanionRef] = ()) -> None:
        self._jobs = {job.key: job for job in jobs}
        self._companions = companions
        # Of the only one, the last line says it, from what is stored.
        self._not_told = (_COMPLETED,) if len(jobs) == 1 else ()
        self._stages: dict[str, str] = {}
        self._trouble: dict[tuple[str, str], str] = {}
        self._restarts: dict[tuple[str, str], int] = {}
        self._called: dict[tuple[str, str], str] = {}
        self._events: set[tuple[str, str]] = set()

    def name_of(self, pod: Pod) -> str:
        """What a pod is called in all that is told of it."""
        name = str(pod.task) if pod.is_task else pod.name
        job = self._jobs.get(pod.job_key)
        return f"{job.display_prefix}{name}" if job is not None else name

    def pod(self, pod: Pod, now: datetime) -> Iterator[Line]:
        """What is new of it."""
        uid, name = pod.metadata.uid, self.name_of(pod)
        self._called[pod.metadata.namespace, pod.metadata.name] = name
        for container in pod.container_statuses:
            yield from self._container(uid, name, container, now)
        stage = _stage(pod)
        if stage is None or self._stages.get(uid) == stage:
            return
        self._stages[uid] = stage
        yield Line(Topic.POD, now, name, stage, _said_of(pod, stage))

    def deleted_pod(self, pod: Pod, now: datetime) -> Iterator[Line]:
        uid = pod.metadata.uid
        was_over = self._stages.pop(uid, "") in (*TERMINAL_PHASES, _STOPPED)
        if not was_over:
            yield Line(Topic.POD, now, self.name_of(pod), "Deleted", "is gone")

    def event(self, event: Event, now: datetime) -> Iterator[Line]:
        """What the controller says of Frameworks, and what anybody warns of. Pods tell of their lives themselves."""
        involved = event.involved_object
        is_ours = involved.kind == names.KIND and (involved.namespace, involved.name) in self._jobs
        if event.reason in self._not_told or not (is_ours or event.type == _WARNING):
            return
        companion = self._companion(involved)
        if companion and event.reason == _UNHEALTHY:
            # It has not begun to answer: when it does is told.
            return
        told = (involved.uid, event.message) if event.message else (involved.uid, event.reason)
        if told in self._events:
            return
        self._events.add(told)
        if is_ours:
            yield Line(Topic.FRAMEWORK, now, involved.name, event.reason, event.message)
            return
        topic = Topic.POD if involved.kind == "Pod" else Topic.NOTE
        name = companion or self._called.get((involved.namespace, involved.name), involved.name)
        yield Line(topic, now, name, event.reason, f"{event.reason}: {event.message}")

    def _companion(self, involved: Involved) -> str:
        """What the companion is called whose pod this is; empty for any other object."""
        for each in self._companions:
            is_named_so = involved.name.startswith(f"{each.server}-")
            if involved.kind == "Pod" and involved.namespace == each.namespace and is_named_so:
                return each.name
        return ""

    def _container(self, uid: str, name: str, container: ContainerStatus, now: datetime) -> Iterator[Line]:
        key = (uid, container.name)
        if container.restart_count > self._restarts.get(key, 0):
            self._restarts[key] = container.restart_count
            count = (
                f"restarted, {container.restart_count} times by now"
                if container.restart_count > 1
                else "restarted"
            )
            yield Line(Topic.POD, now, name, "Restarted", f"container {container.name} is {count}")
        waiting = container.state.waiting
        is_in_trouble = waiting is not None and bool(waiting.message)
        trouble = f"{waiting.reason}: {waiting.message}" if waiting is not None and is_in_trouble else ""
        if trouble and self._trouble.get(key) != trouble:
            yield Line(Topic.POD, now, name, "Waiting", f"container {container.name} waits: {trouble}")
        self._trouble[key] = trouble


def _stage(pod: Pod) -> str | None:
    is_stopped = pod.status.phase == PodPhase.FAILED and pod.is_deleting
    if is_stopped:
        # What it ended with says nothing against it.
        return _STOPPED
    if pod.status.phase != PodPhase.PENDING:
        return pod.status.phase
    return _SCHEDULED if pod.spec.node_name else None


def _said_of(pod: Pod, stage: str) -> str:
    if stage == PodPhase.RUNNING:
        return f"runs at {pod.status.pod_ip}" if pod.status.pod_ip else "runs"
    said = {
        _SCHEDULED: f"is scheduled to {pod.spec.node_name}",
        PodPhase.SUCCEEDED: "has succeeded",
        PodPhase.FAILED: f"has failed{_why(pod)}",
        _STOPPED: f"was stopped{_why(pod)}",
    }
    return said.get(stage, f"is {stage}")


def _why(pod: Pod) -> str:
    status = pod.status
    parts = [": ".join(part for part in (status.reason, status.message) if part)]
    for container in pod.container_statuses:
        ended = container.state.terminated
        if ended is not None and ended.exit_code:
            reason = f" ({ended.reason})" if ended.reason and ended.reason != "Error" else ""
            parts.append(f"container {container.name} ended with {ended.exit_code}{reason}")
    said = "; ".join(part for part in parts if part)
    return f": {said}" if said else ""
