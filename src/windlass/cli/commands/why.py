"""The command `windlass why`. `windlass.client.explain` creates the explanation."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, json_output, name_completion, parameters
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.commands import events as event_lines
from windlass.model import untrusted_text

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.explain.explanation import Explanation
    from windlass.client.explain.failures import Failure
    from windlass.client.explain.retries import Retries


@click.command()
@click.argument("name", required=False, shell_complete=name_completion.jobs)
@click.option(
    "--lines",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of log lines to show.",
)
@parameters.output("text", "json")
@cluster_options.options
def why(name: str | None, lines: int, output: str, cluster: ClusterOptions) -> None:
    """Explain why the job NAME (default: the latest) failed: the verdict, the last log lines of the first failed task,
    and the retries.

    For a job that has not completed, show what it is waiting for. The explanation remains available after the pods
    are deleted, from the status of the job, and after the job is deleted if its attempts are recorded.

    \b
        windlass why digits
    """
    found = cluster_options.run(cluster, _read, name, lines)
    if output == "json":
        click.echo(json_output.encode(found))
        return
    for line in text_lines(found, datetime.now(UTC)):
        click.echo(untrusted_text.escaped(line))


async def _read(connection: "Connection", name: str | None, lines: int) -> "Explanation":
    # Slow imports are here, so that `windlass --help` stays fast.
    from windlass.client.explain import explanation as client_explain

    return await client_explain.read(
        connection, await cluster_options.job_name(connection, name), lines=lines
    )


def text_lines(found: "Explanation", now: datetime) -> Iterator[str]:
    """Yield the verdict, the last frames of the traceback, the history, and the details."""
    from windlass.client.explain import pending
    from windlass.client.views import JobState
    from windlass.model import verdict

    duration = verdict.format_duration((now - found.since).total_seconds()) if found.since else ""
    continues = found.state in (JobState.PENDING, JobState.RUNNING)
    when = f"for {duration}" if continues else f"{duration} ago"
    yield f"{found.message} ({when})" if duration else found.message
    failure = found.failure
    if failure is not None and failure.hint:
        yield f"Hint: {failure.hint}"
    if found.advice:
        yield found.advice
    if failure is not None:
        yield from _last_lines(failure)
    yield from _history(found, now)
    if found.waits:
        yield from ("", "Pending")
        for wait in found.waits:
            yield f"  {pending.shorten_names(wait.tasks)}: {wait.reason}"
    if failure is not None:
        yield from _details(failure, found)
    elif found.outcome is not None and found.outcome.because:
        yield from ("", "Details", f"  cause     {found.outcome.because}")


def _last_lines(failure: "Failure") -> Iterator[str]:
    if not failure.lines:
        yield from ("", "  no log lines available")
        return
    source = "log" if failure.lines_from == "log" else "log, as recorded in the status of the job"
    yield from ("", f"Last lines of {failure.task} ({source})")
    for line in failure.lines:
        yield f"  {line}"


def _details(failure: "Failure", found: "Explanation") -> Iterator[str]:
    from windlass.client.explain import failures

    yield from ("", "Details")
    of_job = f" (in attempt {found.attempt} of the job)" if found.attempt else ""
    yield f"  task      {failure.task}, attempt {failure.attempt}{of_job}"
    yield f"  code      {failure.code} {failure.phrase}"
    yield f"  class     {failure.failure_class}: {failures.meaning_of(failure.failure_class)}"
    if failure.container:
        details = [failure.container_reason] if failure.container_reason not in ("", "Error") else []
        details += [f"signal {failure.signal}"] if failure.signal else []
        yield f"  container {failure.container}" + (f" ({', '.join(details)})" if details else "")
    if failure.node:
        yield f"  node      {failure.node}"
    if failure.at is not None:
        yield f"  ended     {event_lines.format_local_time(failure.at)}"
    if failure.diagnostics and not failure.container:
        yield f"  message   {failure.diagnostics}"
    if found.outcome is not None and found.outcome.because:
        yield f"  cause     {found.outcome.because}"


def _history(found: "Explanation", now: datetime) -> Iterator[str]:
    """Yield the earlier attempts and the retries; nothing if no attempt has ended."""
    retries = list(_retries(found, now))
    if found.history or retries:
        yield from ("", "History")
    for event in found.history:
        yield f"  {event_lines.format_text(event)}"
    yield from retries


def _retries(found: "Explanation", now: datetime) -> Iterator[str]:
    """Yield the retries; nothing if no attempt has ended and none was retried."""
    task = found.failure.task if found.failure is not None else ""
    yield from _retry_lines(found.task_retries, "task", task, now)
    yield from _retry_lines(found.job_retries, "job", found.job, now)


def _retry_lines(retries: "Retries | None", label: str, subject: str, now: datetime) -> list[str]:
    from windlass.client.explain import retries as explain_retries
    from windlass.model import verdict

    if retries is None or (retries.follows is None and not retries.total):
        return []
    lines = [f"  {label:<9} {explain_retries.describe_counts(retries)}"]
    if retries.follows is not None:
        at = ""
        if retries.at is not None:
            left = (retries.at - now).total_seconds()
            when = f"in {verdict.format_duration(left)}" if left > 0 else "now"
            at = f", at {event_lines.format_local_time(retries.at)} ({when})"
        lines.append(f"  {'':<9} {explain_retries.describe_decision(retries, subject)}{at}")
    return lines
