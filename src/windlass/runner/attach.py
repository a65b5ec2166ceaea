"""Follow a job that was submitted earlier, as a run follows its own jobs."""

import asyncio
import os
from pathlib import Path

import msgspec

from windlass.client import task_files
from windlass.client.connection import Connection
from windlass.client.submit.plan import PlannedJob, SubmitPlan
from windlass.model.framework import Framework
from windlass.runner import exit_codes, verdict
from windlass.runner.interrupts import Interrupts
from windlass.runner.output_files import OutputFiles
from windlass.runner.report import Line, Reporter, Topic, now
from windlass.runner.watcher import Watcher
from windlass.wire import codec


def plan_of(framework: Framework) -> SubmitPlan:
    """Return the plan of a job that exists."""
    return SubmitPlan((PlannedJob(msgspec.json.decode(codec.encode_framework(framework))),))


async def attach(
    connection: Connection, framework: Framework, reporter: Reporter, *, reads_logs: bool
) -> int:
    """Report the job until it ends, and return its exit code. An interrupt ends only the report. Raises ApiError."""
    interrupts = Interrupts()
    interrupts.listen()
    interrupts.can_be_graceful = True
    reporter.attach(asyncio.get_running_loop(), interrupts.hang_up)
    plan = plan_of(framework)
    # Without a data directory, a log that was deleted with its pod cannot be read.
    watcher = Watcher(
        plan,
        connection.transport,
        reporter,
        Path(os.devnull),
        OutputFiles(None, framework.name),
        reads_logs=reads_logs,
        namespace=connection.namespace,
    )
    await watcher.ignore_existing_events(framework.uid)
    watching = {asyncio.create_task(each) for each in watcher.watch_coroutines()}
    ends = {
        asyncio.create_task(each.wait()) for each in (watcher.all_are_over, interrupts.stop, interrupts.end)
    }
    try:
        done, _ = await asyncio.wait({*watching, *ends}, return_when=asyncio.FIRST_COMPLETED)
        for task in done & watching:
            task.result()
        if not watcher.all_are_over.is_set():
            message = f"detached; the job continues. Attach again with `windlass attach {framework.name}`"
            reporter.report(Line(Topic.FRAMEWORK, now(), framework.name, "Detached", message))
            return exit_codes.INTERRUPTED
        drain = asyncio.create_task(watcher.drain())
        await asyncio.wait(
            {drain, *(task for task in ends if not task.done())}, return_when=asyncio.FIRST_COMPLETED
        )
        if drain.done():
            drain.result()
        drain.cancel()
    finally:
        tasks = {*watching, *ends, *watcher.log_tasks}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    (watched,) = watcher.jobs.values()
    result = verdict.of_job(
        watched.framework, framework.name, now(), was_interrupted=False, output=_output(framework)
    )
    reporter.report(result)
    return result.exit


def _output(framework: Framework) -> str:
    """Return the place of the files that the job keeps: a folder, or the command that copies them. Empty if unknown."""
    found = next(iter(task_files.outputs(framework)), None)
    if found is None or found.share is None:
        return found.place if found is not None else ""
    return found.copy_command(framework.name)
