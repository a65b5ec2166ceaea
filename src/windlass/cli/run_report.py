"""What is told of a run, and when: objects as they change → lines. Pure, but for what was told already."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from windlass.model import names
from windlass.model.base import Sparse
from windlass.model.completion import FrameworkAttemptCompletionStatus
from windlass.model.framework import Framework
from windlass.model.pods import PodPhase
from windlass.model.states import State

SUCCESS = 0
USAGE = 2
NO_ANSWER = 124
OTHER_CODE = 125
INTERRUPTED = 130
LARGEST_CODE = 255

_WARNING = "Warning"
_SCHEDULED, _STOPPED = "Scheduled", "Stopped"
_COMPLETED = "FrameworkCompleted"
"""The last line says this, from what is stored."""


class Topic(StrEnum):
    """What a line is about: the `event` of `--output json`."""

    NOTE = "note"
    FRAMEWORK = "framework"
    POD = "pod"
    LOG = "log"
    COMPLETED = "completed"
    ERROR = "error"


class Line(msgspec.Struct, frozen=True):
    """One line of the output."""

    event: Topic
    time: datetime
    object: str
    """The Framework's name, a pod's short name (`worker-0`), or `cluster`."""
    reason: str
    """One word, as in Kubernetes events."""
    message: str


class LogLine(msgspec.Struct, frozen=True):
    event: Topic
    time: datetime
    object: str
    container: str
    line: str


class Verdict(msgspec.Struct, frozen=True):
    """The last line: how it ended."""

    event: Topic
    time: datetime
    object: str
    message: str
    exit: int
    code: int | None = None
    phrase: str = ""
    type: str = ""
    state: str = ""


def exit_code(completion: FrameworkAttemptCompletionStatus) -> int:
    """0 only for success; the completion code where a shell can hold it."""
    if not completion.type.is_failed:
        return SUCCESS
    return completion.code if 1 <= completion.code <= LARGEST_CODE else OTHER_CODE


def verdict(framework: Framework | None, name: str, now: datetime, *, was_interrupted: bool) -> Verdict:
    """Of a Framework as it was seen last: completed, or gone before."""
    status = framework.status if framework is not None else None
    completion = status.attempt_status.completion_status if status is not None else None
    if status is None or completion is None or status.state is not State.COMPLETED:
        code = INTERRUPTED if was_interrupted else OTHER_CODE
        return Verdict(Topic.ERROR, now, name, "was deleted before it had completed", exit=code)
    how = f"has completed with {completion.phrase} ({completion.code})"
    because = completion.trigger.message if completion.trigger is not None else completion.diagnostics
    return Verdict(
        Topic.COMPLETED,
        now,
        name,
        f"{how}: {because}" if because else how,
        exit=INTERRUPTED if was_interrupted else exit_code(completion),
        code=completion.code,
        phrase=completion.phrase,
        type=" ".join((completion.type.name.value, *completion.type.attributes)),
        state=status.state.value,
    )


# What is read of the objects


class Terminated(Sparse, frozen=True):
    exit_code: int = 0
    reason: str = ""
    message: str = ""


class Waiting(Sparse, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerState(Sparse, frozen=True):
    waiting: Waiting | None = None
    running: Mapping[str, object] | None = None
    terminated: Terminated | None = None


class Container(Sparse, frozen=True):
    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()

    @property
    def has_begun(self) -> bool:
        return self.state.running is not None or self.state.terminated is not None


class PodMetadata(Sparse, frozen=True):
    name: str = ""
    uid: str = ""
    deletion_timestamp: str = ""
    labels: Mapping[str, str] = {}


class PodSpec(Sparse, frozen=True):
    node_name: str = ""


class PodStatus(Sparse, frozen=True):
    phase: str = PodPhase.PENDING
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    init_container_statuses: tuple[Container, ...] = ()
    container_statuses: tuple[Container, ...] = ()


class Pod(Sparse, frozen=True):
    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def short_name(self) -> str:
        """By role and index; of a pod that is no task, its name."""
        labels = self.metadata.labels
        role, index = labels.get(names.TASKROLE_NAME), labels.get(names.TASK_INDEX)
        return f"{role}-{index}" if role and index else self.metadata.name

    @property
    def containers(self) -> tuple[Container, ...]:
        return self.status.init_container_statuses + self.status.container_statuses


class Involved(Sparse, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class EventMetadata(Sparse, frozen=True):
    uid: str = ""


class Event(Sparse, frozen=True):
    metadata: EventMetadata = EventMetadata()
    involved_object: Involved = Involved()
    type: str = ""
    reason: str = ""
    message: str = ""


class Report:
    """Remembers what was told, so that it is told once."""

    def __init__(self, framework: str) -> None:
        self._framework = framework
        self._stages: dict[str, str] = {}
        self._trouble: dict[tuple[str, str], str] = {}
        self._restarts: dict[tuple[str, str], int] = {}
        self._short_names: dict[str, str] = {}
        self._events: set[tuple[str, str]] = set()

    def pod(self, pod: Pod, now: datetime) -> Iterator[Line]:
        """What is new of it."""
        uid, name = pod.metadata.uid, pod.short_name
        self._short_names[pod.metadata.name] = name
        for container in pod.containers:
            yield from self._container(uid, name, container, now)
        stage = _stage(pod)
        if stage is None or self._stages.get(uid) == stage:
            return
        self._stages[uid] = stage
        yield Line(Topic.POD, now, name, stage, _said_of(pod, stage))

    def deleted_pod(self, pod: Pod, now: datetime) -> Iterator[Line]:
        uid = pod.metadata.uid
        was_over = self._stages.pop(uid, "") in (PodPhase.SUCCEEDED, PodPhase.FAILED, _STOPPED)
        if not was_over:
            yield Line(Topic.POD, now, pod.short_name, "Deleted", "is gone")

    def event(self, event: Event, now: datetime) -> Iterator[Line]:
        """What the controller says of the Framework, and what anybody warns of. Pods tell of their lives themselves."""
        involved = event.involved_object
        is_ours = involved.kind == names.KIND and involved.name == self._framework
        if event.reason == _COMPLETED or not (is_ours or event.type == _WARNING):
            return
        told = (involved.uid, event.message) if event.message else (involved.uid, event.reason)
        if told in self._events:
            return
        self._events.add(told)
        if is_ours:
            yield Line(Topic.FRAMEWORK, now, self._framework, event.reason, event.message)
            return
        topic = Topic.POD if involved.kind == "Pod" else Topic.NOTE
        name = self._short_names.get(involved.name, involved.name)
        yield Line(topic, now, name, event.reason, f"{event.reason}: {event.message}")

    def _container(self, uid: str, name: str, container: Container, now: datetime) -> Iterator[Line]:
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
    is_stopped = pod.status.phase == PodPhase.FAILED and bool(pod.metadata.deletion_timestamp)
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
    for container in pod.containers:
        ended = container.state.terminated
        if ended is not None and ended.exit_code:
            reason = f" ({ended.reason})" if ended.reason and ended.reason != "Error" else ""
            parts.append(f"container {container.name} ended with {ended.exit_code}{reason}")
    said = "; ".join(part for part in parts if part)
    return f": {said}" if said else ""
