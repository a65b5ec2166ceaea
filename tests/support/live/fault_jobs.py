"""Jobs of many kinds that run during a fault, their expected results, and the actual ones."""

import contextlib
import http.client
import json
from collections.abc import Callable
from typing import Any, Final

import msgspec
from live.place import SECONDS, Place
from live.task_records import FOREVER, Records
from operated.jobs import framework
from operated.place import completion_of, state_of

from conformance.client import Json
from conformance.waiting import wait_for

ONCE: Final = {"fancyRetryPolicy": True, "maxRetryCount": 0}
TRANSIENT: Final = {"fancyRetryPolicy": True, "maxRetryCount": 3}
"""Faults of the platform are retried without counting. A few counted retries are allowed, because a kubelet whose
runtime was killed may report a failed pod without a reason."""

GONE: Final = "gone"
HALF_AN_HOUR: Final = 1800


class Job(msgspec.Struct, frozen=True):
    framework: Json
    code: int | None = 0
    """The expected exit code. None: the job is deleted."""

    @property
    def name(self) -> str:
        return str(self.framework["metadata"]["name"])

    @property
    def tasks(self) -> int:
        return sum(role["taskNumber"] for role in self.framework["spec"]["taskRoles"])


def job(name: str, *roles: Json, code: int | None = 0, **spec: Any) -> Job:
    return Job(framework(name, *roles, **{"retryPolicy": TRANSIENT, **spec}), code)


class FaultReport(msgspec.Struct, frozen=True):
    jobs: int
    tasks: int
    runs: int
    twice: list[str]
    lost: list[str]
    left_over: list[str]
    log: str

    def __str__(self) -> str:
        return (
            f"{self.jobs} jobs, {self.tasks} tasks in {self.runs} runs, {len(self.twice)} twice, "
            f"{len(self.lost)} lost, {len(self.left_over)} left over"
        )

    def require_perfect(self) -> None:
        assert not self.twice, f"ran twice at once: {self.twice}\n{self.log}"
        assert not self.lost, f"lost: {self.lost}\n{self.log}"
        assert not self.left_over, f"left over: {self.left_over}"


class FaultJobs:
    def __init__(
        self,
        place: Place,
        records: Records,
        pod_spec: Json = None,
        restart_exited: Callable[[], None] = lambda: None,
    ) -> None:
        """`restart_exited` restarts components that exited by themselves."""
        self.place = place
        self._restart_exited = restart_exited
        self.records = records
        self._pod_spec = pod_spec or {}
        self._jobs: dict[str, Job] = {}
        self._runs_told = 0

    # Jobs

    def role(self, name: str = "worker", tasks: int = 1, script: str = "true", **more: Any) -> Json:
        given = {"retry": TRANSIENT, **more}
        return self.records.role(name, tasks, script, pod_spec=self._pod_spec, **given)

    def short(self, name: str) -> Job:
        return job(name, self.role(tasks=2, script="sleep 0.3"))

    def failing(self, name: str) -> Job:
        """Return a job that fails at every attempt."""
        return job(name, self.role(script="exit 3", retry=ONCE), code=3)

    def retried(self, name: str) -> Job:
        """Return a job whose task fails twice before it succeeds."""
        script = "[ $FC_TASK_ATTEMPT_ID -ge 2 ]"
        return job(name, self.role(script=script, retry={"fancyRetryPolicy": True, "maxRetryCount": 5}))

    def retried_as_a_whole(self, name: str) -> Job:
        """Return a job whose first attempt fails."""
        script = "[ $FC_FRAMEWORK_ATTEMPT_ID -ge 1 ]"
        policy = {"fancyRetryPolicy": True, "maxRetryCount": 4}
        return job(name, self.role(tasks=2, script=script, retry=ONCE), retryPolicy=policy)

    def training(self, name: str, gate: str) -> Job:
        """Return a job with an endless ps, and workers that end when the gate is open."""
        workers = self.role("worker", 2, self.records.until_open(gate), min_succeeded=2)
        return job(name, self.role("ps", 1, FOREVER), workers)

    def long(self, name: str, gate: str, **spec: Any) -> Job:
        return job(name, self.role(tasks=2, script=self.records.until_open(gate)), **spec)

    def delayed(self, name: str, seconds: int) -> Job:
        """Return a job whose task fails once and is retried after a delay."""
        backoff = {"initialSec": seconds, "maxSec": seconds}
        retry = {"fancyRetryPolicy": True, "maxRetryCount": 1, "retryBackoff": backoff}
        return job(name, self.role(script="[ $FC_TASK_ATTEMPT_ID -ge 1 ]", retry=retry))

    def slow_to_end(self, name: str) -> Job:
        """Return a job whose first attempt takes a while to end."""
        script = "[ $FC_TASK_ATTEMPT_ID -ge 1 ] && exit 0\ntrap 'sleep 3; exit 143' TERM\nwhile :; do sleep 0.2; done"
        spec = {**self._pod_spec, "terminationGracePeriodSeconds": 60}
        role = self.records.role(script=script, retry=TRANSIENT, graceful_timeout=HALF_AN_HOUR, pod_spec=spec)
        return job(name, role)

    def timed(self, prefix: str) -> list[Job]:
        """Return the jobs that depend on the time."""
        short = self.role(script="sleep 0.3")
        nowhere = {"container": {"image": "windlass/nowhere:1"}}
        later = HALF_AN_HOUR
        return [
            self.delayed(f"{prefix}-delayed", 2),
            job(f"{prefix}-in-time", short, activeDeadlineSeconds=later, pendingDeadlineSeconds=later),
            job(f"{prefix}-kept", short, ttlSecondsAfterFinished=later),
            job(f"{prefix}-removed", short, ttlSecondsAfterFinished=1, code=None),
            job(f"{prefix}-overdue", self.role(script=FOREVER), activeDeadlineSeconds=3, code=-250),
            job(f"{prefix}-stuck", self.records.role(pod_spec=nowhere), pendingDeadlineSeconds=3, code=-240),
        ]

    def some(self, prefix: str) -> list[Job]:
        """Return one job of each kind that ends by itself."""
        sorts = (self.short, self.failing, self.retried, self.retried_as_a_whole)
        return [sort(f"{prefix}-{sort.__name__.replace('_', '-')}") for sort in sorts]

    # Actions

    def submit(self, *jobs: Job) -> None:
        """Submit jobs, with retries because the API server may be down."""
        for each in jobs:
            self._jobs[each.name] = each
            self.place.wait_for(f"{each.name} to be taken", lambda: self._is_taken(each.framework))  # noqa: B023

    def _is_taken(self, framework: Json) -> bool:
        client = self.place.client
        try:
            answer = client.post(self.place.framework_path(), framework)
        except (OSError, http.client.HTTPException):
            client.close()
            return False
        # A request may have succeeded although its response was lost.
        return answer.code in (201, 409)

    def settle(self) -> FaultReport:
        """Wait for the jobs to end, delete them, and wait for their deletion."""
        evidence = self._evidence(_until_empty(self._unfinished))
        lost = self._lost()
        for name in self._frameworks():
            self.place.delete(name)
        left_over = _until_empty(lambda: [*self._frameworks(), *self.place.pods(), *self.place.config_maps()])
        runs = len(self.records.starts(self.place.name))
        account = FaultReport(
            jobs=len(self._jobs),
            tasks=sum(each.tasks for each in self._jobs.values()),
            runs=runs - self._runs_told,
            twice=self.records.concurrent_runs(),
            lost=lost,
            left_over=left_over,
            log=f"{self.records.log()}\n{evidence}",
        )
        self._jobs.clear()
        self._runs_told = runs
        return account

    def _unfinished(self) -> list[str]:
        """Return the jobs that have not ended or not been deleted."""
        self._restart_exited()
        found = self._frameworks()
        return [
            name
            for name, each in self._jobs.items()
            if name in found and (each.code is None or state_of(found[name]) != "Completed")
        ]

    def _evidence(self, names: list[str]) -> str:
        """Return pods and events of these jobs."""
        if not names:
            return ""
        events = self.place.client.get(self.place.path("events")).expect(200).body["items"]
        lines = [
            f"{event.get('lastTimestamp')} {event['involvedObject']['name']}: {event['reason']}: {event.get('message')}"
            for event in events
        ]
        pods = {name: self.place.pods(name) for name in names}
        return "\n".join(
            [json.dumps(pods, indent=1), *(line for line in lines if any(name in line for name in names))]
        )

    def _lost(self) -> list[str]:
        """Return the jobs without the expected result."""
        found = self._frameworks()
        ends = {name: (_end_of(found.get(name)), _expected_end(each)) for name, each in self._jobs.items()}
        return [
            f"{name}: {end} instead of {expected}"
            for name, (end, expected) in ends.items()
            if end != expected
        ]

    def _frameworks(self) -> dict[str, Json]:
        items = self.place.client.get(self.place.framework_path()).expect(200).body["items"]
        return {item["metadata"]["name"]: item for item in items}


def _expected_end(expected: Job) -> str:
    return GONE if expected.code is None else str(expected.code)


def _end_of(framework: Json) -> str:
    if framework is None:
        return GONE
    if state_of(framework) != "Completed":
        return state_of(framework) or "not looked at"
    return str(completion_of(framework)["code"])


def _until_empty(look: Callable[[], list[str]]) -> list[str]:
    """Return what still exists at the timeout."""
    with contextlib.suppress(AssertionError):
        wait_for("nothing", lambda: not look(), SECONDS)
    return look()
