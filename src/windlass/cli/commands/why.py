"""The command `windlass why`. `windlass.client.explain` creates the explanation."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec

from windlass.cli import cluster_options, name_completion, parameters
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.commands import events as event_lines

if TYPE_CHECKING:
    from windlass.client.explain.explanation import Explanation
    from windlass.client.explain.failures import Failure
    from windlass.client.explain.retries import Retries


@click.command()
@click.argument("name", shell_complete=name_completion.jobs)
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
def why(name: str, lines: int, output: str, cluster: ClusterOptions) -> None:
    """Explain why the job NAME failed: the first failed task, its exit code, its last log lines, and the retries.

    For a job that has not completed, show what it is waiting for. The explanation remains available after the pods
    are deleted, from the status of the job.

    \b
        windlass why digits
    """
    # Slow imports are here, so that `windlass --help` stays fast.
    from windlass.client.explain import explanation as client_explain

    found = cluster_options.run(cluster, client_explain.read, name, lines=lines)
    if output == "json":
        click.echo(msgspec.json.encode(found))
        return
    for line in text_lines(found, datetime.now(UTC)):
        click.echo(event_lines.escaped(line))


def text_lines(found: "Explanation", now: datetime) -> Iterator[str]:
    from windlass.client.explain import explanation as client_explain
    from windlass.client.explain import pending

    ago = f" ({client_explain.duration((now - found.since).total_seconds())} ago)" if found.since else ""
    yield f"{found.summary}{ago}"
    if found.advice:
        yield found.advice
    if found.failure is not None:
        yield from _failure(found.failure, found)
    if found.outcome is not None and found.outcome.because:
        yield from ("", f"  cause     {found.outcome.because}")
    yield from _retries(found, now)
    if found.waits:
        yield from ("", "Pending")
        for wait in found.waits:
            yield f"  {pending.shorten_names(wait.tasks)}: {wait.reason}"
    if found.history:
        yield from ("", "Earlier attempts")
        for event in found.history:
            yield f"  {event_lines.format_text(event)}"


def _failure(failure: "Failure", found: "Explanation") -> Iterator[str]:
    from windlass.client.explain import failures

    yield ""
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
    if failure.lines:
        source = "its log" if failure.lines_from == "log" else "its log, as recorded in the status of the job"
        yield f"  last lines of {source}:"
        for line in failure.lines:
            yield f"    {line}"
    else:
        yield "  no log lines available"


def _retries(found: "Explanation", now: datetime) -> Iterator[str]:
    """Yield the retries; nothing if no attempt has ended and none was retried."""
    lines = [
        *_retry_lines(
            found.task_retries, "task", found.failure.task if found.failure is not None else "", now
        ),
        *_retry_lines(found.job_retries, "job", found.job, now),
    ]
    if lines:
        yield from ("", "Retries", *lines)


def _retry_lines(retries: "Retries | None", label: str, subject: str, now: datetime) -> list[str]:
    from windlass.client.explain import explanation as client_explain
    from windlass.client.explain import retries as explain_retries

    if retries is None or (retries.follows is None and not retries.total):
        return []
    lines = [f"  {label:<9} {explain_retries.describe_counts(retries)}"]
    if retries.follows is not None:
        at = ""
        if retries.at is not None:
            left = (retries.at - now).total_seconds()
            when = f"in {client_explain.duration(left)}" if left > 0 else "now"
            at = f", at {event_lines.format_local_time(retries.at)} ({when})"
        lines.append(f"  {'':<9} {explain_retries.describe_decision(retries, subject)}{at}")
    return lines
