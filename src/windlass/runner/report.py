"""The lines of a run: `LineGenerator` derives those about changes of objects, a `Reporter` shows all lines."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol

import msgspec

from windlass.client import waiting as pod_waiting
from windlass.client.pods import ContainerStatus, Pod
from windlass.client.submit.plan import CompanionRef
from windlass.client.usage import Usage
from windlass.model import names, start_errors, verdict
from windlass.model.base import Sparse
from windlass.model.framework import Framework
from windlass.model.pods import TERMINAL_PHASES, PodPhase
from windlass.render.manifest import Manifest
from windlass.wire.progress import Progress

_WARNING = "Warning"
_SCHEDULED, _STOPPED = "Scheduled", "Stopped"
_COMPLETED = "FrameworkCompleted"
_START_ERROR = ": could not start: "
_FAILED_TO_START = "Failed"
"""Reason of events about an image or a container that cannot be started."""
_REASONS_OF_STARTING = ("Unhealthy", "BackOff")
"""Reasons of warnings about a companion that starts. If it cannot start, an error with its last lines follows."""


class Topic(StrEnum):
    """Subject of a line: the `event` of `--output json`."""

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
    """Display name of a task (`worker-0`, or `digits/worker-0` with several jobs), name of a job, companion or other
    object, or `cluster`."""
    reason: str
    """CamelCase reason, as in Kubernetes events."""
    message: str


class DetailLine(Line, frozen=True):
    """A line that text output omits, because another line says the same in fewer words."""


class CompanionReadyLine(Line, frozen=True):
    """A line about a companion that is now reachable on a local port."""

    url: str


class LogLines(msgspec.Struct, frozen=True):
    """Lines that a container wrote one after another. They are reported together, because containers may write fast."""

    event: Topic
    time: datetime
    object: str
    container: str
    data: bytes
    """The lines as the container wrote them. If the data does not end with a newline, the last line is incomplete."""
    pod: str = ""
    """UID of the pod."""
    is_init: bool = False
    """Whether an init container wrote them."""


class UnfinishedLine(msgspec.Struct, frozen=True):
    """The current state of an incomplete line with carriage returns, e.g. of a progress bar. Only terminals show it:
    the complete line follows in `LogLines`."""

    event: Topic
    time: datetime
    object: str
    container: str
    state: bytes
    """Empty if the line is complete."""
    pod: str = ""
    is_init: bool = False


class Source(StrEnum):
    """Where a task reported its progress."""

    LOG = "log"
    FILE = "file"


class ProgressLine(msgspec.Struct, frozen=True):
    """Progress that a task reported."""

    event: Topic
    time: datetime
    object: str
    step: int
    total: int
    values: Mapping[str, str]
    source: Source
    remaining: float | None = None
    """Estimated remaining seconds."""

    @property
    def progress(self) -> Progress:
        return Progress(self.step, self.total, self.values)


class Verdict(msgspec.Struct, frozen=True):
    """The last line of a job, or of the run: the result or an error. The message names the job."""

    event: Topic
    time: datetime
    object: str
    message: str
    exit: int
    code: int | None = None
    phrase: str = ""
    type: str = ""
    state: str = ""
    verdict: str = ""
    """The result in one word, e.g. `failed`."""
    output: str = ""
    """The folder with the output of the tasks, or the file with that of the failed task; empty if there is none."""


Lasting = Line | LogLines | ProgressLine | Verdict
Reported = Lasting | UnfinishedLine


class Reporter(Protocol):
    """Shows a run. `cli.terminal` implements it."""

    shows_usage: bool
    """Whether it shows the CPU and memory usage of tasks."""
    shows_unfinished_lines: bool
    """Whether it shows incomplete lines, e.g. progress bars."""

    def attach(self, loop: asyncio.AbstractEventLoop, when_closed: Callable[[], None]) -> None:
        """Connect the reporter to the event loop. It calls `when_closed` when the reader closes the stream."""

    def report(self, item: Reported) -> None:
        """Report without blocking."""

    def update_status(self, job: Manifest, framework: Framework) -> None: ...

    def update_usage(self, usage: Mapping[tuple[str, str], Usage]) -> None:
        """Update the usage of pods. `usage` is keyed by namespace and pod name."""

    async def wait_for_reader(self) -> None:
        """Wait until the reader of the stream has caught up."""

    def abandon(self) -> None:
        """Do not wait for the reader any more, because the run ends at once."""

    def finish(self) -> None:
        """Wait until everything is written. Raises OSError if that fails."""


def now() -> datetime:
    return datetime.now(UTC)


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


class LineGenerator:
    """Yields lines about changes of objects. A state or event that was reported before yields no line."""

    def __init__(self, jobs: Sequence[Manifest], companions: Sequence[CompanionRef] = ()) -> None:
        self._jobs = {job.key: job for job in jobs}
        self._companions = companions
        # If there is only one job, the verdict reports its completion.
        self._skipped_reasons = (_COMPLETED,) if len(jobs) == 1 else ()
        self._stages: dict[str, str] = {}
        self._waiting_messages: dict[tuple[str, str], str] = {}
        self._restarts: dict[tuple[str, str], int] = {}
        self._display_names: dict[tuple[str, str], str] = {}
        self._seen_events: set[tuple[str, str]] = set()
        self._submitted: set[tuple[str, str]] = set()
        self.is_shared = False
        """Whether the cluster has other jobs, whose warnings are not reported."""

    def name_of(self, pod: Pod) -> str:
        """Return the display name of a pod."""
        name = str(pod.task) if pod.is_task else pod.name
        job = self._jobs.get(pod.job_key)
        return f"{job.display_prefix}{name}" if job is not None else name

    def submitted_lines(self, job: tuple[str, str], now: datetime) -> Iterator[Line]:
        """Yield the line about the submission of a job when it is first called for the job, by namespace and name. The
        watch may report changes of a job before the request that submits it has returned."""
        if job in self._jobs and job not in self._submitted:
            self._submitted.add(job)
            yield Line(Topic.FRAMEWORK, now, job[1], "Submitted", "submitted")

    def pod_lines(self, pod: Pod, now: datetime) -> Iterator[Line]:
        """Yield lines about changes of a pod."""
        yield from self.submitted_lines(pod.job_key, now)
        uid, name = pod.metadata.uid, self.name_of(pod)
        self._display_names[pod.metadata.namespace, pod.metadata.name] = name
        for container in pod.container_statuses:
            yield from self._container_lines(uid, name, container, now)
        stage = _stage(pod)
        if stage is None or self._stages.get(uid) == stage:
            return
        self._stages[uid] = stage
        yield Line(Topic.POD, now, name, stage, _pod_message(pod, stage))

    def deleted_pod_lines(self, pod: Pod, now: datetime) -> Iterator[Line]:
        if self._stages.pop(pod.metadata.uid, "") not in (*TERMINAL_PHASES, _STOPPED):
            yield Line(Topic.POD, now, self.name_of(pod), "Deleted", "deleted")

    def event_lines(self, event: Event, now: datetime) -> Iterator[Line]:
        """Yield a line about a new event of a job, or a new warning about another object.

        Failed probes and restarts of companions are skipped, and the completion of the job if the run has only one.
        """
        involved = event.involved_object
        is_ours = involved.kind == names.KIND and (involved.namespace, involved.name) in self._jobs
        if event.reason in self._skipped_reasons or not (is_ours or event.type == _WARNING):
            return
        companion = self._companion_name(involved)
        is_known = companion or (involved.namespace, involved.name) in self._display_names
        is_of_another_job = self.is_shared and not is_ours and not is_known
        if is_of_another_job or (companion and event.reason in _REASONS_OF_STARTING):
            return
        key = (involved.uid, event.message or event.reason)
        if key in self._seen_events:
            return
        self._seen_events.add(key)
        if is_ours:
            yield from self.submitted_lines((involved.namespace, involved.name), now)
            kind = DetailLine if _is_detail(event) else Line
            yield kind(Topic.FRAMEWORK, now, involved.name, event.reason, event.message)
            return
        is_pod = involved.kind == "Pod"
        name = companion or self._display_names.get((involved.namespace, involved.name), involved.name)
        # The line about the container says the same.
        kind = DetailLine if is_pod and event.reason == _FAILED_TO_START else Line
        topic = Topic.POD if is_pod else Topic.NOTE
        yield kind(topic, now, name, event.reason, pod_waiting.describe(event.reason, event.message).text)

    def ignore(self, event: Event) -> None:
        """Yield no line about this event later."""
        self._seen_events.add((event.involved_object.uid, event.message or event.reason))

    def _companion_name(self, involved: Involved) -> str:
        """Return the display name of the companion that a pod belongs to. Empty for any other object."""
        for each in self._companions if involved.kind == "Pod" else ():
            if involved.namespace == each.namespace and involved.name.startswith(f"{each.server}-"):
                return each.name
        return ""

    def _container_lines(
        self, uid: str, name: str, container: ContainerStatus, now: datetime
    ) -> Iterator[Line]:
        key = (uid, container.name)
        if container.restart_count > self._restarts.get(key, 0):
            self._restarts[key] = container.restart_count
            times = f" ({container.restart_count} times)" if container.restart_count > 1 else ""
            yield Line(Topic.POD, now, name, "Restarted", f"container {container.name} restarted{times}")
        waiting = container.state.waiting
        message = ""
        if waiting is not None and waiting.message:
            message = pod_waiting.describe(waiting.reason, waiting.message).text
        if message and self._waiting_messages.get(key) != message:
            yield Line(Topic.POD, now, name, "Waiting", f"container {container.name} is waiting: {message}")
        self._waiting_messages[key] = message


def _is_detail(event: Event) -> bool:
    """Return whether the lines about the pod, a retry or the result say the same: a retry is one line."""
    match event.reason:
        case "TaskFailed":
            # Without a pod there is no line about the pod.
            return verdict.REJECTED_POD not in event.message
        case "AttemptEnding":
            return True
        case "AttemptStarted":
            return event.message != verdict.FIRST_START
        case "FrameworkRetried" | "TaskRetried":
            return verdict.is_announced_retry(event.message)
    return False


def _stage(pod: Pod) -> str | None:
    if pod.status.phase == PodPhase.FAILED and pod.is_deleting:
        # A pod that is deleted while it runs may end in this phase.
        return _STOPPED
    if pod.status.phase != PodPhase.PENDING:
        return pod.status.phase
    return _SCHEDULED if pod.spec.node_name else None


def _pod_message(pod: Pod, stage: str) -> str:
    if stage == PodPhase.RUNNING:
        return f"running at {pod.status.pod_ip}" if pod.status.pod_ip else "running"
    cause = _cause(pod)
    if stage == PodPhase.FAILED and cause.startswith(_START_ERROR):
        return cause.removeprefix(": ")
    messages = {
        _SCHEDULED: f"scheduled to {pod.spec.node_name}",
        PodPhase.SUCCEEDED: "succeeded",
        PodPhase.FAILED: f"failed{cause}",
        _STOPPED: f"stopped{cause}",
    }
    return messages.get(stage, stage)


def _cause(pod: Pod) -> str:
    status = pod.status
    parts = [": ".join(part for part in (status.reason, status.message) if part)]
    for container in pod.container_statuses:
        ended = container.state.terminated
        if ended is not None and ended.reason in start_errors.START_REASONS:
            parts.append(f"could not start: {start_errors.describe(ended.reason, ended.message).text}")
        elif ended is not None and ended.exit_code:
            reason = f" ({ended.reason})" if ended.reason and ended.reason != "Error" else ""
            parts.append(f"container {container.name} exited with code {ended.exit_code}{reason}")
    cause = "; ".join(part for part in parts if part)
    return f": {cause}" if cause else ""
