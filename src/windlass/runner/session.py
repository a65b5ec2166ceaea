"""Run jobs, or only their companions, on a cluster that has started: controller, submission, observation, result."""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from windlass.client.connection import Connection
from windlass.client.submit import apply
from windlass.client.submit.plan import PlannedJob, SubmitPlan
from windlass.client.submit.progress import PasswordGenerated, Progress
from windlass.controller.engine.system_clock import SystemClock
from windlass.controller.leader import election
from windlass.controller.operator import Operator
from windlass.kubeapi import access, requests
from windlass.kubeapi.errors import AlreadyExistsError, ApiError
from windlass.kubeapi.resources import CUSTOM_RESOURCE_DEFINITIONS, frameworks
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.feature_annotations import requested_features
from windlass.model.framework import ExecutionType
from windlass.model.settings import OFF, History, Settings
from windlass.render.manifest import Manifest
from windlass.runner import exit_codes, free_ports, grants, verdict
from windlass.runner.companions import Companions
from windlass.runner.fault_injector import Cluster, Injector
from windlass.runner.interrupts import Interrupts
from windlass.runner.options import ForwardOptions, RunOptions
from windlass.runner.output_files import OutputFiles
from windlass.runner.report import Line, Reporter, Topic, Verdict, now
from windlass.runner.watcher import WatchedJob, Watcher
from windlass.wire.crd import manifests

NOTICE_SECONDS = 60.0
"""Time limit for the controller to notice all Frameworks: to write their first status."""

_USER_AGENT = "windlass-run"


class RunCluster(msgspec.Struct, frozen=True):
    """The cluster of a run."""

    data: Path
    socket: Path
    is_network_shared: bool
    has_controller: bool = False
    """Whether a daemon runs a controller on it. Otherwise a `Session` runs one."""
    fault_target: Cluster | None = None
    """The cluster itself, for injecting faults. None if a daemon runs it."""
    notes: tuple[str, ...] = ()
    """Limits of pods on this machine."""

    @property
    def is_ephemeral(self) -> bool:
        """Whether it ends with the run, unlike the cluster of a daemon."""
        return not self.has_controller


class ClusterFailedError(Exception):
    """The cluster or the controller failed."""


class Session:
    def __init__(
        self,
        plan: SubmitPlan,
        options: RunOptions,
        cluster: RunCluster,
        interrupts: Interrupts,
        reporter: Reporter,
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        self._interrupts = interrupts
        self._access = access.unix(cluster.socket)
        self._transport = Transport(self._access, user_agent=_USER_AGENT)
        self._outputs = OutputFiles(options.outputs if options.reads_logs else None, plan.name)
        self._watcher = Watcher(
            plan, self._transport, reporter, cluster.data, self._outputs, reads_logs=options.reads_logs
        )
        self._report = reporter.report
        self._companions = Companions(self._transport, self._report, ForwardOptions())
        self._injector: Injector | None = None
        if options.injections and cluster.fault_target is not None:
            prefixes = {job.key: job.display_prefix for job in plan.jobs}
            self._injector = Injector(
                options.injections, cluster.fault_target, self._transport, self._report, prefixes
            )
            self._watcher.on_pod = self._injector.on_pod
        self._stop_controller = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()
        """Tasks that must not end as long as they are in this set."""

    async def run(self) -> list[Verdict]:
        """Run the jobs, and return their results. Raises ClusterFailedError and ClientError.

        Return when all jobs have completed or were deleted, and no companion keeps the run open.
        """
        try:
            async with self._transport:
                try:
                    return await self._run()
                finally:
                    await self._end_all()
        except ApiError as error:
            raise ClusterFailedError(f"the cluster failed: {error}") from error

    async def _run(self) -> list[Verdict]:
        await _create_definitions(self._transport, self._plan)
        if self._cluster.is_ephemeral and any(map(_may_have_own_barrier, self._plan.jobs)):
            await grants.let_pods_read_frameworks(self._transport)
        controller = None if self._cluster.has_controller else self._start(self._run_controller())
        if not self._cluster.is_ephemeral:
            await self._watcher.ignore_existing_events()
        for coroutine in self._watcher.watch_coroutines():
            self._start(coroutine)
        await _submit(
            self._transport,
            self._plan,
            self._companions,
            self._report,
            self._watcher.report_submitted,
            is_ephemeral=self._cluster.is_ephemeral,
        )
        self._interrupts.can_be_graceful = True
        await self._wait_for_jobs()
        if self._injector is not None:
            await self._injector.finish()
        if controller is not None:
            self._background.discard(controller)
            self._stop_controller.set()
            await controller
        # The timeout does not apply to the remaining output, which is written as fast as it is read.
        self._interrupts.without_timeout.set()
        await self._watcher.drain()
        verdicts = [self._verdict(watched) for watched in self._watcher.jobs.values()]
        await self._stay_open(verdicts)
        self._companions.report_not_ready()
        return verdicts

    async def _end_all(self) -> None:
        await self._companions.close()
        await _cancel({*self._background, *self._watcher.log_tasks})
        if self._injector is not None:
            await self._injector.stop()

    async def _wait_for_jobs(self) -> None:
        watcher = self._watcher
        if not await self._wait_for_any(watcher.all_have_status, seconds=NOTICE_SECONDS):
            message = f"the controller did not notice all Frameworks within {NOTICE_SECONDS:g} s"
            raise ClusterFailedError(message)
        await self._wait_for_any(watcher.all_are_over, self._interrupts.stop)
        if not watcher.all_are_over.is_set():
            for watched in watcher.jobs.values():
                if not watched.is_over:
                    await self._stop_job(watched)
            await self._wait_for_any(watcher.all_are_over)
        self._interrupts.can_be_graceful = False

    async def _stay_open(self, verdicts: Sequence[Verdict]) -> None:
        """Keep an ephemeral cluster running until all companions that outlive the jobs have failed, or until Ctrl-C."""
        was_stopped = self._interrupts.stop.is_set()
        if was_stopped or not self._cluster.is_ephemeral or not self._companions.is_any_kept:
            return
        self._interrupts.can_be_graceful = True
        message = verdict.companions_running_message(verdicts, self._companions.urls)
        self._report(Line(Topic.COMPANION, now(), self._plan.name, "KeptRunning", message))
        await _wait_for_first(
            self._companions.wait_until_all_failed(only_kept=True), self._interrupts.stop.wait()
        )

    async def _stop_job(self, watched: WatchedJob) -> None:
        job = watched.job
        watched.was_stopped = True
        message = "stopping; pods have their grace period. Press Ctrl-C again to end them at once"
        self._report(Line(Topic.FRAMEWORK, now(), job.name, "Stopping", message))
        body = msgspec.json.encode({"spec": {"executionType": ExecutionType.STOP}})
        await self._transport.send(requests.merge_patch(frameworks(job.group), job.namespace, job.name, body))

    def _verdict(self, watched: WatchedJob) -> Verdict:
        task = verdict.failed_task(watched.framework)
        name = f"{watched.job.display_prefix}{task}"
        log = self._outputs.last_lines(name) if task else []
        hint = verdict.network_hint(
            log, self._cluster.notes, is_network_shared=self._cluster.is_network_shared
        )
        if hint:
            self._report(Line(Topic.NOTE, now(), "cluster", "Hint", hint))
        if advice := verdict.advice(watched.framework):
            self._report(Line(Topic.NOTE, now(), name, "Hint", advice))
        return verdict.of_job(
            watched.framework,
            watched.job.name,
            now(),
            was_interrupted=watched.was_stopped,
            log=log,
            output=self._outputs.path_of(name if task else ""),
        )

    # Background tasks

    async def _run_controller(self) -> None:
        settings = Settings(leader_election=False, metrics_address=OFF, history=History(enabled=True))
        identity = election.identity(socket.gethostname(), secrets.token_hex(8))
        operator = Operator(
            settings,
            self._access,
            SystemClock(),
            identity=identity,
            snapshot_stream=None,
            choose_ports=free_ports.choose if self._cluster.is_network_shared else None,
            has_entrypoints=False,
            # `_create_definitions` creates only those that the jobs need.
            expects_all_definitions=False,
        )
        await operator.run(self._stop_controller)

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._background.add(task)
        return task

    async def _wait_for_any(self, *events: asyncio.Event, seconds: float | None = None) -> bool:
        """Return whether one of the events was set in time. Raises ClusterFailedError if a background task ends."""
        waiting = {asyncio.create_task(event.wait()) for event in events}
        try:
            done, _ = await asyncio.wait(
                {*waiting, *self._background}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            await _cancel(waiting)
        for task in done & self._background:
            raise ClusterFailedError("the controller or a watch ended unexpectedly") from task.exception()
        return bool(done)


async def run_companions(
    plan: SubmitPlan,
    cluster: RunCluster,
    interrupts: Interrupts,
    reporter: Reporter,
    options: ForwardOptions,
) -> list[Verdict]:
    """Run companions without their jobs until Ctrl-C, or until all have failed.

    On a cluster that outlives the run, return as soon as each companion is ready or has failed. Raises the same
    errors as `Session.run`.
    """
    interrupts.can_be_graceful = True
    try:
        async with Transport(access.unix(cluster.socket), user_agent=_USER_AGENT) as transport:
            companions = Companions(transport, reporter.report, options)

            async def start_and_wait() -> None:
                # Even without a controller, a notebook may list Frameworks.
                await _create_definitions(transport, plan)
                await _submit(
                    transport, plan, companions, reporter.report, _ignore, is_ephemeral=cluster.is_ephemeral
                )
                await companions.wait_until_ready_or_failed()
                if cluster.is_ephemeral:
                    interrupts.without_timeout.set()
                    await companions.wait_until_all_failed()

            try:
                await _wait_for_first(start_and_wait(), interrupts.stop.wait())
                return [_companion_verdict(plan.name, companions, was_stopped=interrupts.stop.is_set())]
            finally:
                await companions.close()
    except ApiError as error:
        raise ClusterFailedError(f"the cluster failed: {error}") from error


def _companion_verdict(name: str, companions: Companions, *, was_stopped: bool) -> Verdict:
    if was_stopped:
        return Verdict(Topic.COMPANION, now(), name, "companions stopped", exit=exit_codes.SUCCESS)
    if companions.urls:
        return Verdict(Topic.COMPANION, now(), name, "companions are running", exit=exit_codes.SUCCESS)
    return Verdict(Topic.ERROR, now(), name, "all companions failed", exit=exit_codes.FAILED)


# Submission


async def _create_definitions(transport: Transport, plan: SubmitPlan) -> None:
    """Create the CustomResourceDefinitions that the jobs need and, with Gangs, the permission to read them.

    Others are not created, since each takes about 50 ms. Raises ApiError.
    """
    groups = dict.fromkeys(job.group for job in plan.jobs)
    gangs = (manifests.gang_crd(),) if any(map(_uses_gang, plan.jobs)) else ()
    for definition in (*map(manifests.framework_crd, groups), manifests.record_crd(), *gangs):
        body = msgspec.json.encode(definition)
        # The controller of the cluster may have created it already.
        with contextlib.suppress(AlreadyExistsError):
            await transport.send(requests.create(CUSTOM_RESOURCE_DEFINITIONS, "", body))
    if gangs:
        await grants.create(transport)


def _uses_gang(job: Manifest) -> bool:
    return requested_features(job.framework["metadata"].get("annotations") or {}).uses_gang


def _may_have_own_barrier(job: PlannedJob) -> bool:
    """Return whether a Framework was written by hand, perhaps with a barrier that reads the Framework."""
    return job.submission.framework is not None and not _uses_gang(job)


async def _submit(
    transport: Transport,
    plan: SubmitPlan,
    companions: Companions,
    report: Callable[[Line], None],
    report_submitted: Callable[[Manifest], None],
    *,
    is_ephemeral: bool,
) -> None:
    """Apply the plan, and forward a port to each companion as soon as it is ready. Raises ClientError."""

    def report_progress(progress: Progress) -> None:
        line = _progress_line(plan, progress)
        if line is not None:
            report(line)

    connection = Connection(transport, names.DEFAULT_NAMESPACE, has_answered=True)
    await apply.apply_manifests(connection, plan, report_progress, creates_namespaces=True)
    companions.open(plan.manifest_companions)
    async for applied in apply.apply_jobs(connection, plan, report_progress, is_ephemeral=is_ephemeral):
        if applied.framework is not None:
            report_submitted(applied.job)
        companions.open(applied.job.companions)


def _ignore(_: Manifest) -> None:
    pass


def _progress_line(plan: SubmitPlan, progress: Progress) -> Line | None:
    match progress:
        case PasswordGenerated(companion=""):
            name = next(each.name for each in plan.manifest_companions if each.job == progress.job)
            return Line(Topic.COMPANION, now(), name, "Password", progress.message)
        case PasswordGenerated():
            return Line(Topic.COMPANION, now(), progress.job, "Password", progress.message)
        case Progress(job=""):
            return None
    return Line(Topic.FRAMEWORK, now(), progress.job, "Preparing", progress.message)


# asyncio tasks


async def _wait_for_first(*coroutines: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of the coroutines ends, and cancel the others. Raises the exception of the one that ended."""
    tasks = {asyncio.create_task(each) for each in coroutines}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await _cancel(tasks)


async def _cancel(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
