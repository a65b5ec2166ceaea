"""The JSON of the API, from which its OpenAPI document is generated.

Times are RFC 3339 strings with milliseconds, in bars and points milliseconds since 1970. Durations are seconds.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum

import msgspec


def stamp(time: datetime | None) -> str | None:
    if time is None:
        return None
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(time: datetime | None) -> int | None:
    return None if time is None else int(time.timestamp() * 1000)


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class Mode(StrEnum):
    LINK = "link"
    """The viewer opened the one-time link of `windlass ui`. Requests have the identity of its kubeconfig."""
    TOKEN = "token"  # noqa: S105 — a mode
    """The viewer logged in with a token."""
    HEADER = "header"
    """A proxy forwards the token of the viewer with each request."""


class ErrorBody(Answer, frozen=True, kw_only=True, omit_defaults=True):
    code: str
    message: str
    """What failed, why, and what to do."""
    mode: Mode | None = None
    """How viewers log in, with status 401."""
    line: int | None = None
    """Line of the viewer's file."""


class Error(Answer, frozen=True, kw_only=True):
    error: ErrorBody


# Sessions


class ClusterInfo(Answer, frozen=True, kw_only=True):
    name: str
    kind: str
    """`embedded` or `kubernetes`."""
    server: str


class SessionInfo(Answer, frozen=True, kw_only=True):
    user: str
    cluster: ClusterInfo
    namespace: str
    csrf_token: str
    """The value of the header X-Windlass-CSRF that POST and DELETE require."""
    expires_at: str | None
    version: str
    mode: Mode


class Login(Answer, frozen=True, kw_only=True):
    token: str


class Namespaces(Answer, frozen=True, kw_only=True):
    items: Sequence[str]
    all: bool
    """Whether the viewer may list the jobs of all namespaces."""


# Jobs


class RoleCounts(Answer, frozen=True, kw_only=True):
    name: str
    tasks: int
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    waiting: int = 0


class RetryCounts(Answer, frozen=True, kw_only=True):
    total: int = 0
    by_class: Mapping[str, int] = {}


class Progress(Answer, frozen=True, kw_only=True):
    value: float | None
    text: str


class Resources(Answer, frozen=True, kw_only=True):
    cpu: float = 0
    """Cores."""
    memory: int = 0
    """Bytes."""
    gpus: int = 0


class JobRow(Answer, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str
    state: str
    verdict: str
    """The state in one word, e.g. `failed`."""
    message: str
    roles: Sequence[RoleCounts] = ()
    retries: RetryCounts = RetryCounts()
    created: str | None = None
    started: str | None = None
    finished: str | None = None
    duration_seconds: float | None = None
    """Duration of a finished job. That of a running one counts from `started`."""
    progress: Progress | None = None
    resources: Resources = Resources()
    attempt: int = 0
    suspended: bool = False
    exists: bool = True
    """False: the job was deleted, and its records are left."""


class JobList(Answer, frozen=True, kw_only=True):
    items: Sequence[JobRow]
    total: int
    counts: Mapping[str, int]
    """Number of jobs by state, before the filter by state."""
    page: int
    size: int


class JobKey(Answer, frozen=True, kw_only=True):
    namespace: str
    name: str


class JobRows(Answer, frozen=True, kw_only=True):
    upserts: Sequence[JobRow]
    deleted: Sequence[JobKey]


class Action(StrEnum):
    STOP = "stop"
    SUSPEND = "suspend"
    RESUME = "resume"
    DELETE = "delete"
    RUN_AGAIN = "run-again"


class ActionRequest(Answer, frozen=True, kw_only=True):
    action: Action
    jobs: Sequence[JobKey]


class ActionResult(JobKey, frozen=True, kw_only=True):
    ok: bool
    message: str
    created_name: str | None = None


class ActionResults(Answer, frozen=True, kw_only=True):
    results: Sequence[ActionResult]


class TaskRow(Answer, frozen=True, kw_only=True):
    role: str
    index: int
    state: str
    node: str
    pod_name: str
    message: str


class Permissions(Answer, frozen=True, kw_only=True):
    stop: bool
    suspend: bool
    resume: bool
    delete: bool
    run_again: bool
    logs: bool


class NamespacePermissions(Permissions, frozen=True, kw_only=True):
    submit: bool


class JobDetail(JobRow, frozen=True, kw_only=True):
    why: Sequence[str]
    """Paragraphs, which may have several lines."""
    facts: Mapping[str, str]
    spec: str
    """The Framework as YAML."""
    tasks: Sequence[TaskRow]
    """The first 1,000 tasks."""
    permissions: Permissions
    attempts: Sequence[int]
    outputs: str = ""


# Timeline

BAR_COLUMNS = (
    "role",
    "index",
    "attempt",
    "taskAttempt",
    "node",
    "created",
    "scheduled",
    "pulling",
    "pulled",
    "started",
    "finished",
    "outcome",
    "exitCode",
    "class",
    "ending",
)


class JobAttempt(Answer, frozen=True, kw_only=True):
    attempt: int
    started: int | None
    finished: int | None
    outcome: str
    reason: str


class EventTick(Answer, frozen=True, kw_only=True):
    time: int
    reason: str
    message: str
    object: str
    type: str


class TimelineAnswer(Answer, frozen=True, kw_only=True):
    now: int
    start: int
    end: int
    columns: Sequence[str]
    bars: Sequence[Sequence[str | int | None]]
    """Attempts of tasks, with the values of `columns`."""
    job_attempts: Sequence[JobAttempt]
    events: Sequence[EventTick]
    truncated: int = 0
    """Number of further bars."""


class StateTime(Answer, frozen=True, kw_only=True):
    state: str
    time: str | None


class ContainerExit(Answer, frozen=True, kw_only=True):
    container: str
    code: int
    signal: int
    reason: str


class TaskAttemptDetail(Answer, frozen=True, kw_only=True):
    task: str
    attempt: int
    task_attempt: int
    node: str
    pod_name: str
    times: Sequence[StateTime]
    exit_codes: Sequence[ContainerExit]
    class_: str = msgspec.field(name="class")
    decision: str
    decision_reason: str
    last_lines: Sequence[str]


# Logs


class LogLine(Answer, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    task: str
    """The task, and the container if its pod has several."""
    attempt: int
    """Attempt of the task."""
    time: str
    text: str
    more: bool = False
    """Whether the line continues in the next object of the task."""


class LogGap(Answer, frozen=True, kw_only=True):
    gap: str
    """Why lines are missing."""


# Metrics and cluster

Point = tuple[int, float]


class UsageSeries(Answer, frozen=True, kw_only=True):
    task: str
    """The task; the role if the job has so many tasks that only the mean of each role is kept."""
    metric: str
    unit: str
    points: Sequence[Point]


class UsageAnswer(Answer, frozen=True, kw_only=True):
    available: bool
    reason: str
    series: Sequence[UsageSeries]


class ValueSeries(Answer, frozen=True, kw_only=True):
    task: str
    name: str
    points: Sequence[Point]


class MetricsAnswer(Answer, frozen=True, kw_only=True):
    usage: UsageAnswer
    values: Sequence[ValueSeries]
    tasks: int


class NodeResources(Resources, frozen=True, kw_only=True):
    pods: int | None = None


class NodeAnswer(Answer, frozen=True, kw_only=True):
    name: str
    ready: bool
    capacity: NodeResources
    requested: NodeResources | None
    used: NodeResources | None
    pods: int | None


class PendingTask(Answer, frozen=True, kw_only=True):
    namespace: str
    job: str
    task: str
    since: str | None
    reason: str


class ClusterAnswer(Answer, frozen=True, kw_only=True):
    nodes: Sequence[NodeAnswer] | None
    pending: Sequence[PendingTask]
    metrics_available: bool
    reasons: Sequence[str]
    """Why the viewer does not see some parts."""


# Files


class LintRequest(Answer, frozen=True, kw_only=True):
    text: str
    name: str = ""


class Diagnostic(Answer, frozen=True, kw_only=True):
    severity: str
    line: int
    column: int
    message: str


class LintAnswer(Answer, frozen=True, kw_only=True):
    jobs: Sequence[str]
    diagnostics: Sequence[Diagnostic]


class PlanRequest(Answer, frozen=True, kw_only=True):
    text: str
    faults: Sequence[str] = ()
    """Faults as in `windlass plan --inject`."""
    namespace: str = ""
    """Where the viewer may submit jobs. Default: the namespace of the session."""
    job: str = ""
    """Which of the file's jobs to simulate. Default: the first one."""


class PlanAnswer(Answer, frozen=True, kw_only=True):
    verdict: str
    timeline: TimelineAnswer
    requests: Resources
    """What all tasks of the job request together."""


class SubmitRequest(Answer, frozen=True, kw_only=True):
    text: str
    namespace: str = ""
    rerun: bool = False
    """Replace a finished job of the same name."""


class SubmitAnswer(Answer, frozen=True, kw_only=True):
    created: Sequence[JobKey]
    messages: Sequence[str]
