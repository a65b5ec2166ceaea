"""Run jobs from the start of a cluster to the exit code.

The run either starts its own cluster, which ends with it, or uses the cluster of a daemon, which keeps running.
"""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.client.errors import ClientError
from windlass.client.submit.plan import SubmitPlan
from windlass.localcluster.cluster import CannotStartError, ClusterOptions, LocalCluster
from windlass.runner import exit_codes, verdict
from windlass.runner.interrupts import Interrupts
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
    cluster = LocalCluster(
        data, ClusterOptions(nodes=options.nodes, network=options.network, is_ephemeral=True)
    )
    try:
        work = _run_on_new_cluster(plan, options, cluster, interrupts, reporter)
        return await run_with_timeout(work, plan, options, interrupts, reporter)
    finally:
        await cluster.stop()


async def run_on_daemon(
    plan: SubmitPlan, options: RunOptions, data: Path, record: Record, reporter: Reporter
) -> int:
    """Run the plan on the cluster of a daemon, which keeps running, and return the exit code."""
    from windlass.runner.session import RunCluster

    interrupts = _listen_for_interrupts(reporter)
    _report_notes(record.notes, reporter)
    cluster = RunCluster(data, Path(record.socket), record.network == "shared", has_controller=True)
    supported_plan = plan if record.has_mounts else plan.without_own_mounts()
    work = _run_session(supported_plan, options, cluster, interrupts, reporter)
    return await run_with_timeout(work, plan, options, interrupts, reporter)


def _listen_for_interrupts(reporter: Reporter) -> Interrupts:
    interrupts = Interrupts()
    interrupts.listen()
    reporter.attach(asyncio.get_running_loop(), interrupts.interrupt)
    return interrupts


async def run_with_timeout(
    work: Coroutine[Any, Any, list[Verdict]],
    plan: SubmitPlan,
    options: RunOptions,
    interrupts: Interrupts,
    reporter: Reporter,
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
        verdicts = [_error(plan, "ended at once", exit_codes.INTERRUPTED)]
    else:
        state = "ready" if plan.companions_only else "completed"
        message = f"timed out: not {state} after {options.timeout:g} s"
        verdicts = [_error(plan, message, exit_codes.TIMED_OUT)]
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

    _report_notes(cluster.notes, reporter)
    return await _run_session(
        plan if cluster.has_mounts else plan.without_own_mounts(),
        options,
        RunCluster(cluster.data, cluster.socket, cluster.network == "shared", fault_target=cluster),
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
        if plan.companions_only:
            return await run_companions(plan, cluster, interrupts, reporter, options.forward)
        return await Session(plan, options, cluster, interrupts, reporter).run()
    except ManifestRejectedError as error:
        return [_error(plan, str(error), exit_codes.USAGE)]
    except ClusterFailedError as error:
        return [_error(plan, str(error), exit_codes.TIMED_OUT)]
    except ClientError as error:
        return [_error(plan, str(error), exit_codes.of_client_error(error))]


def _report_notes(notes: tuple[str, ...], reporter: Reporter) -> None:
    for note in notes:
        reporter.report(Line(Topic.NOTE, now(), "cluster", "Note", note))


def _error(plan: SubmitPlan, message: str, code: int) -> Verdict:
    return Verdict(Topic.ERROR, now(), plan.name, message, exit=code)
