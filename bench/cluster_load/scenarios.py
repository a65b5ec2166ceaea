"""The scenarios. Each has a time limit; jobs unfinished by then do not count."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from typing import NamedTuple

from cluster_load import driver as drivers
from cluster_load import requests_made, workloads
from cluster_load.contenders import USER, WARM_UP_TASKS, Contender, Load
from cluster_load.driver import Driver
from cluster_load.processes import Measured
from cluster_load.requests_made import AuditedRequest
from cluster_load.results import Result, quantile
from cluster_load.stages import Stage
from cluster_load.workloads import FOREVER, Pods
from windlass.kubeapi.resources import JOBS

WARM_UP_SECONDS = 120.0
SETTLING_SECONDS = 5.0
IDLE_CHECK_SECONDS = 5.0
IDLE_SHARE = 0.05
"""A controller that uses less of a core is idle."""
IDLE_SECONDS = 60.0
SECONDS_TO_NOTE = 1.0
LONGEST_SECONDS_TO_NOTE = 30.0
STATUS = f"{workloads.FRAMEWORKS.plural}/status"


class NotServedError(Exception):
    """No controller handles the jobs, or it is too slow to measure."""


class Scenario(NamedTuple):
    name: str
    jobs: int
    tasks: int
    seconds: float
    """The time limit."""
    measure: "Callable[[Scenario, Stage, Contender, Pods], Coroutine[object, object, Result]]"
    has_floor: bool = True
    pods: tuple[Pods, ...] = (Pods.KEPT,)

    def run(self, stage: Stage, contender: Contender, pods: Pods) -> Result:
        return asyncio.run(self.measure(self, stage, contender, pods))


async def until_done(scenario: Scenario, stage: Stage, contender: Contender, pods: Pods) -> Result:
    """Submit all jobs at once; they end by themselves."""
    load = Load(scenario.tasks, pods)
    async with drivers.driving(str(stage.api.kubeconfig), contender.resource) as driver:
        with contender.start(stage.api, load, stage.folder) as measured:
            await _warm_up(driver, stage, contender, load)
            costs = Costs(stage, measured)
            names = _names(scenario.jobs)
            began = time.monotonic()
            await driver.submit({name: contender.body(name, load, stage.api.version) for name in names})
            await driver.wait(lambda: driver.done.keys() >= set(names), scenario.seconds)
            ended = max((driver.done[name] for name in names if name in driver.done), default=began)
            taken = await costs.taken()
            return _result(scenario, contender, pods, driver, names, ended - began, taken)


async def _warm_up(driver: Driver, stage: Stage, contender: Contender, load: Load) -> None:
    """Run one job, so that the contender has started, leads and has its connections."""
    load = load._replace(tasks=WARM_UP_TASKS)
    await driver.submit({"warm-up": contender.body("warm-up", load, stage.api.version)})
    if not await driver.wait(lambda: "warm-up" in driver.done, WARM_UP_SECONDS):
        raise NotServedError(
            f"{contender.name} does not complete one job within {WARM_UP_SECONDS:.0f} s. {stage.end_of_log()}"
        )
    driver.forget("warm-up")


async def idle_then_deleted(scenario: Scenario, stage: Stage, contender: Contender, pods: Pods) -> Result:
    """Run endless jobs: idle for one minute, then delete all at once."""
    async with drivers.driving(str(stage.api.kubeconfig), contender.resource) as driver:
        with contender.start(stage.api, Load(scenario.tasks, pods), stage.folder) as measured:
            names = await _all_running(scenario, driver, stage, contender, pods)
            costs = Costs(stage, measured)
            await asyncio.sleep(IDLE_SECONDS)
            idle = await costs.taken()
            began = time.monotonic()
            costs = Costs(stage, measured)
            await driver.delete(names)
            is_gone = await driver.wait(lambda: not driver.jobs and not driver.pods, scenario.seconds)
            if contender.resource != JOBS:
                is_gone = is_gone and await driver.wait_for_config_maps(scenario.seconds)
            seconds = time.monotonic() - began
            deleting = await costs.taken()
    gone = scenario.jobs if is_gone else 0
    return Result(
        scenario.name,
        contender.name,
        pods,
        jobs=scenario.jobs,
        tasks=scenario.tasks,
        done=gone,
        seconds=round(seconds, 2),
        jobs_per_second=_per_second(gone, seconds),
        cpu_percent=_rounded(idle.cpu_seconds, 100 / IDLE_SECONDS, 3),
        cpu_ms_per_job=_rounded(deleting.cpu_seconds, 1000 / scenario.jobs, 2),
        peak_mb=_rounded(deleting.peak_mb, 1, 1),
        requests=idle.requests(),
        requests_per_job=_rounded(deleting.counted(), 1 / scenario.jobs, 2),
        conflicts=deleting.conflicts(),
    )


async def restarted(scenario: Scenario, stage: Stage, contender: Contender, pods: Pods) -> Result:
    """Stop the contender and start it again. It has processed all jobs once a job submitted meanwhile, the last by
    name, is handled."""
    load = Load(scenario.tasks, pods)
    async with drivers.driving(str(stage.api.kubeconfig), contender.resource) as driver:
        with contender.start(stage.api, load, stage.folder):
            await _all_running(scenario, driver, stage, contender, pods)
        last = "zz-last"
        await driver.submit({last: contender.body(last, load, stage.api.version)})
        began = time.monotonic()
        with contender.start(stage.api, load, stage.folder) as measured:
            costs = Costs(stage, measured, is_new=True)
            is_seen = await driver.wait(lambda: last in driver.first_pod, scenario.seconds)
            seconds = driver.first_pod.get(last, time.monotonic()) - began
            await driver.wait(lambda: last in driver.done, scenario.seconds)
            taken = await costs.taken()
    return _restart_result(scenario, contender, pods, taken, seconds, is_done=is_seen)


async def restarted_beside_finished(
    scenario: Scenario, stage: Stage, contender: Contender, pods: Pods
) -> Result:
    """Stop the contender, create finished jobs by copying one, and start it again: until it has created a pod of a job
    submitted meanwhile. The memory is measured after it has read all jobs."""
    if stage.api.etcd_url is None:
        raise NotServedError("finished jobs are written into etcd, which is not accessible with KUBECONFIG")
    load = Load(scenario.tasks, pods)
    async with drivers.driving(str(stage.api.kubeconfig), contender.resource) as driver:
        with contender.start(stage.api, load, stage.folder):
            await _warm_up(driver, stage, contender, load)
            await driver.submit({"new-0": contender.body("new-0", load, stage.api.version)})
            await driver.wait(lambda: "new-0" in driver.done, scenario.seconds)
            alone = driver.done["new-0"] - driver.submitted["new-0"]
        names = _names(scenario.jobs)
        await driver.copy("warm-up", names, stage.api.etcd_url)
        await driver.wait(lambda: driver.jobs >= set(names), scenario.seconds)
        await driver.submit({"new-1": contender.body("new-1", load, stage.api.version)})
        began = time.monotonic()
        with contender.start(stage.api, load, stage.folder) as measured:
            costs = Costs(stage, measured, is_new=True)
            await driver.wait(lambda: "new-1" in driver.first_pod, scenario.seconds)
            seconds = driver.first_pod.get("new-1", time.monotonic()) - began
            idle_after = await _until_idle(measured, scenario.seconds) - began
            await driver.submit({"new-2": contender.body("new-2", load, stage.api.version)})
            await driver.wait(lambda: {"new-1", "new-2"} <= driver.done.keys(), scenario.seconds)
            taken = await costs.taken()
    is_done = {"new-1", "new-2"} <= driver.done.keys()
    beside = driver.done["new-2"] - driver.submitted["new-2"] if is_done else 0.0
    notes = {
        "new_job_seconds": round(beside, 3),
        "new_job_seconds_alone": round(alone, 3),
        "idle_after_seconds": round(idle_after, 1),
    }
    return _restart_result(scenario, contender, pods, taken, seconds, is_done=is_done, notes=notes)


async def _until_idle(measured: Measured | None, seconds: float) -> float:
    """Wait until the contender is idle, and return when it was busy for the last time."""
    busy_at, used = time.monotonic(), math.inf
    until = busy_at + seconds
    while measured is not None and used > IDLE_SHARE * IDLE_CHECK_SECONDS and time.monotonic() < until:
        busy_at, before = time.monotonic(), measured.cpu_seconds()
        await asyncio.sleep(IDLE_CHECK_SECONDS)
        used = measured.cpu_seconds() - before
    return busy_at


async def _all_running(
    scenario: Scenario, driver: Driver, stage: Stage, contender: Contender, pods: Pods
) -> list[str]:
    load = Load(scenario.tasks, pods, FOREVER)
    driver.tasks = scenario.tasks
    names = _names(scenario.jobs)
    await driver.submit({name: contender.body(name, load, stage.api.version) for name in names})
    if not await driver.wait(lambda: driver.running >= set(names), scenario.seconds):
        raise NotServedError(
            f"{contender.name}: only {len(driver.running)} of {scenario.jobs} jobs run after "
            f"{scenario.seconds:.0f} s. {stage.end_of_log()}"
        )
    await asyncio.sleep(SETTLING_SECONDS)
    return names


def _names(count: int) -> list[str]:
    return [f"job-{number:05}" for number in range(count)]


# Costs


class Taken(NamedTuple):
    cpu_seconds: float | None
    peak_mb: float | None
    audited: list[AuditedRequest] | None

    def requests(self) -> dict[str, int]:
        return {} if self.audited is None else requests_made.by_kind(self.audited, USER)

    def counted(self) -> int | None:
        return None if self.audited is None else requests_made.counted(self.audited, USER)

    def conflicts(self) -> int | None:
        return None if self.audited is None else requests_made.conflicts(self.audited, USER)


class Costs:
    """The costs since its creation."""

    def __init__(self, stage: Stage, measured: Measured | None, *, is_new: bool = False) -> None:
        self._audit = stage.audit
        self._measured = measured
        if self._audit is not None:
            self._audit.new()
        self._cpu_before = 0.0 if measured is None or is_new else measured.cpu_seconds()

    async def taken(self) -> Taken:
        if self._measured is None:
            return Taken(None, None, await self._read_audit_log())
        cpu_seconds, peak = self._measured.cpu_seconds() - self._cpu_before, self._measured.peak_megabytes()
        return Taken(cpu_seconds, peak, await self._read_audit_log())

    async def _read_audit_log(self) -> list[AuditedRequest] | None:
        """Read the audit log until it no longer grows: entries follow the responses."""
        if self._audit is None:
            return None
        audited: list[AuditedRequest] = []
        until = time.monotonic() + LONGEST_SECONDS_TO_NOTE
        is_quiet = False
        while not is_quiet and time.monotonic() < until:
            await asyncio.sleep(SECONDS_TO_NOTE)
            new = self._audit.new()
            is_quiet = not requests_made.counted(new, USER)
            audited += new
        return audited


def _result(
    scenario: Scenario,
    contender: Contender,
    pods: Pods,
    driver: Driver,
    names: list[str],
    seconds: float,
    taken: Taken,
) -> Result:
    done = [driver.done[name] - driver.submitted[name] for name in names if name in driver.done]
    first = [driver.first_pod[name] - driver.submitted[name] for name in names if name in driver.first_pod]
    notes: dict[str, float] = {}
    if taken.audited is not None and contender.resource != JOBS:
        notes["status_writes_seconds"] = round(requests_made.seconds_of(taken.audited, USER, STATUS), 3)
    return Result(
        scenario.name,
        contender.name,
        pods,
        jobs=scenario.jobs,
        tasks=scenario.tasks,
        done=len(done),
        seconds=round(seconds, 2),
        jobs_per_second=_per_second(len(done), seconds),
        done_p50=round(quantile(done, 0.5), 3),
        done_p99=round(quantile(done, 0.99), 3),
        first_pod_p50=round(quantile(first, 0.5), 3),
        first_pod_p99=round(quantile(first, 0.99), 3),
        cpu_ms_per_job=_rounded(taken.cpu_seconds, 1000 / scenario.jobs, 2),
        cpu_percent=_rounded(taken.cpu_seconds, 100 / seconds if seconds else 0, 1),
        peak_mb=_rounded(taken.peak_mb, 1, 1),
        requests_per_job=_rounded(taken.counted(), 1 / scenario.jobs, 2),
        conflicts=taken.conflicts(),
        requests=taken.requests(),
        notes=notes,
    )


def _restart_result(
    scenario: Scenario,
    contender: Contender,
    pods: Pods,
    taken: Taken,
    seconds: float,
    *,
    is_done: bool,
    notes: dict[str, float] | None = None,
) -> Result:
    return Result(
        scenario.name,
        contender.name,
        pods,
        jobs=scenario.jobs,
        tasks=scenario.tasks,
        done=scenario.jobs if is_done else 0,
        seconds=round(seconds, 2),
        cpu_ms_per_job=_rounded(taken.cpu_seconds, 1000 / scenario.jobs, 2),
        peak_mb=_rounded(taken.peak_mb, 1, 1),
        requests=taken.requests(),
        conflicts=taken.conflicts(),
        notes=notes or {},
    )


def _per_second(jobs: int, seconds: float) -> float:
    """Return the value rounded to four significant digits."""
    return float(f"{jobs / seconds:.4g}") if seconds else 0.0


def _rounded(value: float | None, factor: float, digits: int) -> float | None:
    return None if value is None else round(value * factor, digits)


BOTH = (Pods.KEPT, Pods.REMOVED)
ALL = (
    Scenario("burst of 100", 100, 2, 120, until_done, pods=BOTH),
    Scenario("burst of 500", 500, 2, 240, until_done, pods=BOTH),
    Scenario("burst of 2000", 2000, 2, 600, until_done, pods=BOTH),
    Scenario("one of 500 tasks", 1, 500, 120, until_done),
    Scenario("one of 2000 tasks", 1, 2000, 240, until_done),
    Scenario("one of 10000 tasks", 1, 10_000, 900, until_done),
    Scenario("1000 idle, then deleted", 1000, 2, 300, idle_then_deleted, has_floor=False),
    Scenario("restart under 1000", 1000, 2, 300, restarted, has_floor=False),
    Scenario(
        "restart beside 100000 finished", 100_000, 2, 900, restarted_beside_finished, False, (Pods.REMOVED,)
    ),
)
