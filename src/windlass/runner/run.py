"""Run jobs from the start of a cluster to the exit code.

The run either starts its own cluster, which ends with it, or uses the cluster of a daemon, which keeps running.
"""

import asyncio
import os
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.client.errors import ClientError
from windlass.client.submit.plan import SubmitPlan
from windlass.localcluster.cluster import CannotStartError, ClusterOptions, LocalCluster
from windlass.model import names
from windlass.runner import exit_codes, gpus, verdict
from windlass.runner.interrupts import Interrupts
from windlass.runner.job_reports import ReportWriter
from windlass.runner.local import data_folders
from windlass.runner.local.records import Record
from windlass.runner.options import RunOptions
from windlass.runner.report import Line, Reporter, Topic, Verdict, now

if TYPE_CHECKING:
    from windlass.runner.session import RunCluster

START_SECONDS = 60.0
"""Time limit for the start of a cluster."""


async def run(plan: SubmitPlan, options: RunOptions, data: Path, reporter: Reporter) -> int:
    """Run the plan on a new cluster, stop the cluster, and return the exit code."""
    interrupts = _listen_for_interrupts(reporter)
    cluster_options = ClusterOptions(
        nodes=options.nodes,
        network=options.network,
        fake_gpus=options.fake_gpus,
        is_ephemeral=True,
        hidden_folders=data_folders.hidden_folders(os.environ),
    )
    cluster = LocalCluster(data, cluster_options)
    try:
        work = _run_on_new_cluster(plan, options, cluster, interrupts, reporter)
        writer = ReportWriter(plan, options.report, cluster.socket, interrupts, reporter)
        return await run_with_timeout(work, plan, options, interrupts, reporter, writer)
    finally:
        await cluster.stop()


async def run_on_daemon(
    plan: SubmitPlan, options: RunOptions, data: Path, record: Record, reporter: Reporter
) -> int:
    """Run the plan on the cluster of a daemon, which keeps running, and return the exit code."""
    from windlass.runner.session import RunCluster

    interrupts = _listen_for_interrupts(reporter)
    _report_notes(_notes(record.notes, record.network, options, plan, record.idle_gpus), reporter)
    cluster = RunCluster(
        data, Path(record.socket), record.network == "shared", has_controller=True, notes=record.notes
    )
    supported_plan = plan if record.has_mounts else plan.without_own_mounts()
    work = _run_session(supported_plan, options, cluster, interrupts, reporter)
    writer = ReportWriter(plan, options.report, cluster.socket, interrupts, reporter)
    return await run_with_timeout(work, plan, options, interrupts, reporter, writer)


def _listen_for_interrupts(reporter: Reporter) -> Interrupts:
    interrupts = Interrupts()
    interrupts.listen()
    reporter.attach(asyncio.get_running_loop(), interrupts.hang_up)
    return interrupts


async def run_with_timeout(
    work: Coroutine[Any, Any, list[Verdict]],
    plan: SubmitPlan,
    options: RunOptions,
    interrupts: Interrupts,
    reporter: Reporter,
    writer: ReportWriter | None = None,
) -> int:
    """Wait for the results, an immediate end by Ctrl-C, or the timeout; report the results and return the exit code."""
    task = asyncio.create_task(work)
    end = asyncio.create_task(interrupts.end.wait())
    without_timeout = asyncio.create_task(interrupts.without_timeout.wait())
    tasks = (task, end, without_timeout)
    await asyncio.wait(tasks, timeout=options.timeout, return_when=asyncio.FIRST_COMPLETED)
    if without_timeout.done():
        await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
    is_done = task.done()
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if is_done:
        verdicts = task.result()
    elif interrupts.end.is_set():
        reporter.abandon()
        verdicts = [verdict.stopped(plan.name, now())]
    else:
        state = "ready" if plan.companions_only else "completed"
        verdicts = [verdict.timed_out(plan.name, f"not {state} after {options.timeout:g} s", now())]
    if writer is not None:
        await writer.write(verdicts)
    if len(verdicts) > 1:
        verdicts.append(verdict.of_all(plan.name, verdicts, now()))
    for result in verdicts:
        reporter.report(result)
    return verdicts[-1].exit


async def _run_on_new_cluster(
    plan: SubmitPlan, options: RunOptions, cluster: LocalCluster, interrupts: Interrupts, reporter: Reporter
) -> list[Verdict]:
    starting = asyncio.create_task(cluster.start())
    try:
        await asyncio.sleep(0)
        # Imported while the cluster starts its processes: the controller takes a while to import.
        from windlass.runner.session import RunCluster

        async with asyncio.timeout(START_SECONDS):
            await starting
    except CannotStartError as error:
        return [_error(plan, f"the cluster cannot start: {error}", exit_codes.TIMED_OUT)]
    except TimeoutError:
        message = f"the cluster did not start within {START_SECONDS:g} s"
        return [_error(plan, message, exit_codes.TIMED_OUT)]

    _report_notes(_notes(cluster.notes, cluster.network, options, plan, cluster.idle_gpus), reporter)
    return await _run_session(
        plan if cluster.has_mounts else plan.without_own_mounts(),
        options,
        RunCluster(
            cluster.data,
            cluster.socket,
            cluster.network == "shared",
            fault_target=cluster,
            notes=cluster.notes,
        ),
        interrupts,
        reporter,
    )


async def _run_session(
    plan: SubmitPlan,
    options: RunOptions,
    cluster: "RunCluster",
    interrupts: Interrupts,
    reporter: Reporter,
) -> list[Verdict]:
    """Return the results of the jobs, or an error as the only result."""
    from windlass.client.submit.apply import ManifestRejectedError
    from windlass.runner.session import ClusterFailedError, Session, run_companions

    try:
        if not cluster.is_ephemeral and not plan.companions_only:
            await _delete_finished_jobs(plan, cluster, reporter)
        if plan.companions_only:
            return await run_companions(plan, cluster, interrupts, reporter, options.forward)
        return await Session(plan, options, cluster, interrupts, reporter).run()
    except ManifestRejectedError as error:
        return [_error(plan, str(error), exit_codes.USAGE)]
    except ClusterFailedError as error:
        return [_error(plan, str(error), exit_codes.TIMED_OUT)]
    except ClientError as error:
        return [_error(plan, str(error), exit_codes.of_client_error(error))]


def _notes(
    limits: tuple[str, ...], network: str, options: RunOptions, plan: SubmitPlan, idle_gpus: Sequence[str]
) -> tuple[str, ...]:
    """Return the notes for the start of a run. Limits of the machine matter only if a task fails because of them."""
    own = "the host network" if network == "shared" else "a network of their own"
    about_network = (*limits,) or (f"pods use {own}",)
    return (*(about_network if options.is_verbose else ()), *gpus.idle_notes(plan, idle_gpus))


async def _delete_finished_jobs(plan: SubmitPlan, cluster: "RunCluster", reporter: Reporter) -> None:
    """Delete finished jobs with the names of the plan's jobs. Raises ObjectExistsError if one is running."""
    from windlass.client import delete, lookup
    from windlass.client.connection import Connection
    from windlass.client.submit import apply, submission
    from windlass.kubeapi import access
    from windlass.kubeapi.transport import Transport

    async with Transport(access.unix(cluster.socket), user_agent="windlass-run") as transport:
        connection = Connection(transport, names.DEFAULT_NAMESPACE, has_answered=True)
        with connection.converting_errors():
            for job in plan.jobs:
                at = connection.at(job.namespace)
                for old in await lookup.find_all(at, job.name):
                    submission.require_replaceable(old, job.namespace, is_rerun=True)
                    message = "replacing the finished job"
                    reporter.report(Line(Topic.FRAMEWORK, now(), job.name, "Preparing", message))
                    await delete.delete_framework(at, old)
                    await delete.wait_for_framework_deletion(at, old, apply.REPLACING_SECONDS)


def _report_notes(notes: tuple[str, ...], reporter: Reporter) -> None:
    for note in notes:
        reporter.report(Line(Topic.NOTE, now(), "cluster", "Note", note))


def _error(plan: SubmitPlan, message: str, code: int) -> Verdict:
    return verdict.failed(plan.name, message, code, now())
