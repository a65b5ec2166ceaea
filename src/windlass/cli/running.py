"""`windlass run` from its first moment to its last: a cluster of its own, a session on it, and the last line."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from windlass.cli import run_report
from windlass.cli.interrupts import Interrupts
from windlass.cli.run_file import Job, Plan
from windlass.cli.run_output import Output
from windlass.cli.run_report import Line, Topic, Verdict
from windlass.localcluster.cluster import CannotStartError, ClusterOptions, LocalCluster

START_SECONDS = 60.0
"""For so long a cluster may take to answer."""


async def run(job: Job, plan: Plan, data: Path, output: Output) -> int:
    """The exit code. Everything that was started has ended when it returns."""
    interrupts = Interrupts()
    interrupts.listen()
    output.attach(asyncio.get_running_loop(), interrupts.request)
    options = ClusterOptions(nodes=plan.nodes, network=plan.network, is_ephemeral=True)
    cluster = LocalCluster(data, options)
    work = asyncio.create_task(_work(job, plan, cluster, interrupts, output))
    end = asyncio.create_task(interrupts.end.wait())
    try:
        await asyncio.wait({work, end}, timeout=plan.timeout, return_when=asyncio.FIRST_COMPLETED)
        is_over = work.done()
        for task in (work, end):
            task.cancel()
        await asyncio.gather(work, end, return_exceptions=True)
        if is_over:
            verdict = work.result()
        elif interrupts.end.is_set():
            verdict = _error(job, "ended at once", run_report.INTERRUPTED)
        else:
            verdict = _error(job, f"ended: not completed after {plan.timeout:g} s", run_report.NO_ANSWER)
        output.say(verdict)
        return verdict.exit
    finally:
        await cluster.stop()


async def _work(
    job: Job, plan: Plan, cluster: LocalCluster, interrupts: Interrupts, output: Output
) -> Verdict:
    starting = asyncio.create_task(cluster.start())
    try:
        await asyncio.sleep(0)
        # It brings the controller with it, which takes a while; so do the processes that the cluster has just begun.
        from windlass.cli import run_session

        async with asyncio.timeout(START_SECONDS):
            await starting
    except CannotStartError as error:
        return _error(job, f"the cluster cannot start: {error}", run_report.NO_ANSWER)
    except TimeoutError:
        return _error(job, f"the cluster did not start within {START_SECONDS:g} s", run_report.NO_ANSWER)
    for note in cluster.notes:
        output.say(Line(Topic.NOTE, datetime.now(UTC), "cluster", "Note", note))
    try:
        session = run_session.Session(job, cluster, interrupts, output, shows_logs=plan.shows_logs)
        return await session.run()
    except run_session.RefusedError as error:
        return _error(job, str(error), run_report.USAGE)
    except run_session.NoAnswerError as error:
        return _error(job, str(error), run_report.NO_ANSWER)


def _error(job: Job, message: str, code: int) -> Verdict:
    return Verdict(Topic.ERROR, datetime.now(UTC), job.name, message, exit=code)
