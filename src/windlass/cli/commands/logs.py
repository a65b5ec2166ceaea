"""The command `windlass logs`."""

import contextlib
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, BinaryIO

import click

from windlass.cli import cluster_options, errors, json_output, name_completion, parameters
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.terminal import colours
from windlass.cli.terminal import text as terminal_text

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.logs.lines import Line
    from windlass.client.tasks import TaskSelector
    from windlass.model.framework import Framework

MAX_LABEL_WIDTH = 40


def _attempt(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:  # noqa: ARG001
    """Parse `all` as -1, `client.logs.earlier.ALL_ATTEMPTS`."""
    if value is None or value == "all":
        return None if value is None else -1
    if not value.isdecimal():
        raise click.BadParameter(f"found {value!r}, expected a number or all")
    return int(value)


@click.command()
@click.argument("name", required=False, shell_complete=name_completion.jobs)
@click.argument("task", default="", shell_complete=name_completion.tasks_of_job)
@click.option("--follow", "-f", is_flag=True, help="Follow the logs until the job has completed.")
@click.option(
    "--previous", "-p", is_flag=True, help="Show the logs of the previous run of a restarted container."
)
@click.option(
    "--attempt",
    callback=_attempt,
    metavar="N",
    help="Attempt of the job: a number from 0, or all. Works for deleted jobs too (default: the current attempt).",
)
@click.option(
    "--since",
    callback=parameters.positive_duration,
    metavar="DURATION",
    help="Maximum age of lines, e.g. 5m or 1h30m (default: no limit).",
)
@click.option(
    "--tail",
    type=click.IntRange(min=0),
    metavar="N",
    help="Number of last lines per container (default: all).",
)
@click.option("--timestamps", is_flag=True, help="Show the time of each line.")
@click.option(
    "--container", "-c", default="", metavar="NAME", help="Container (default: all except init containers)."
)
@parameters.output("text", "json")
@colours.option
@cluster_options.options
def logs(
    name: str | None,
    task: str,
    follow: bool,
    previous: bool,
    attempt: int | None,
    since: float | None,
    tail: int | None,
    timestamps: bool,
    container: str,
    output: str,
    color: str,
    cluster: ClusterOptions,
) -> None:
    """Show the logs of the job NAME (default: the latest). TASK is a task, e.g. worker-1, or a role, e.g. worker
    (default: all tasks).

    Each line starts with the name of its task, and of its container if a pod has several, unless TASK is a task with
    one container. With --output json, each line is an object with time, task, attempt, container and line, and with
    partial: true if the line continues in the next object.

    \b
        windlass logs -f digits                  # all tasks, until the job completes
        windlass logs digits worker-1 --tail 20
        windlass logs digits --attempt all       # all attempts, also after the job is deleted
    """
    # Slow imports are here, so that `windlass --help` stays fast.
    from windlass.client import history, jobs, tasks
    from windlass.client.logs import earlier, reader
    from windlass.client.logs.container_log import LogOptions

    if follow and previous:
        raise click.UsageError("--previous and --follow are mutually exclusive")
    if follow and attempt is not None:
        raise click.UsageError("--attempt and --follow are mutually exclusive")
    try:
        job, selector = (None, tasks.TaskSelector()) if name is None else tasks.parse_selector(name, task)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    is_json = output == "json"
    options = LogOptions(
        follow=follow,
        previous=previous,
        since_seconds=since,
        tail=tail,
        has_timestamps=timestamps or is_json,
        container=container,
    )
    is_terminal = sys.stdout.isatty()
    is_coloured = colours.is_enabled(color, is_terminal=is_terminal)

    async def show(connection: "Connection") -> None:
        name_of_job = await cluster_options.job_name(connection, job)
        found = (
            history.JobHistory(await jobs.find(connection, name_of_job), (), is_deleted=False)
            if attempt is None
            else await history.find(connection, name_of_job)
        )
        framework = found.framework
        width = _label_width(framework, selector)
        task_colours = colours.assign(tasks.task_names(framework)) if is_coloured else {}
        format_line = (
            _format_json
            if is_json
            else _text_formatter(
                selector, width, task_colours, has_timestamps=timestamps, is_terminal=is_terminal
            )
        )
        batches = (
            reader.read_batches(connection, framework, selector, options, note=errors.note)
            if attempt is None
            else earlier.read_batches(connection, found, attempt, selector, options, errors.note)
        )
        async with contextlib.aclosing(batches):
            await _write(batches, format_line, sys.stdout.buffer, is_live=follow)

    with cluster_options.naming_kept_output(job):
        cluster_options.run(cluster, show)


async def _write(
    batches: "AsyncGenerator[list[Line], None]",
    format_line: "Callable[[Line], bytes]",
    out: BinaryIO,
    *,
    is_live: bool,
) -> None:
    async for batch in batches:
        out.write(b"".join(map(format_line, batch)))
        if is_live:
            out.flush()
    out.flush()


def _label_width(framework: "Framework", selector: "TaskSelector") -> int:
    """Return the width of the label column: the length of the longest task name, at most MAX_LABEL_WIDTH."""
    widths = [
        len(f"{role.name}-{max(role.task_number - 1, 0)}")
        for role in framework.spec.task_roles
        if selector.role in ("", role.name)
    ]
    return min(MAX_LABEL_WIDTH, max(widths, default=0))


def _format_json(line: "Line") -> bytes:
    fields = {
        "time": line.time,
        "task": line.task,
        "attempt": line.attempt,
        "container": line.container,
        "line": line.text,
    }
    if not line.is_ended:
        fields["partial"] = True
    return json_output.encode(fields) + b"\n"


def _text_formatter(
    selector: "TaskSelector",
    width: int,
    task_colours: Mapping[str, int],
    *,
    has_timestamps: bool,
    is_terminal: bool,
) -> "Callable[[Line], bytes]":
    """Return a formatter of text lines. On a terminal, it removes control sequences from log lines, except colours, and
    all control sequences from container names."""

    @lru_cache(maxsize=256)
    def label(text: str, task: str) -> bytes:
        text = terminal_text.printable(text) if is_terminal else text
        return colours.colour(f"{text:<{width}} |", task_colours.get(task)).encode() + b" "

    def format_line(line: "Line") -> bytes:
        is_single = selector.selects_one_task and line.label == line.task
        time = f"{line.time} ".encode() if has_timestamps and line.time else b""
        data = terminal_text.safe_log_lines(line.data) if is_terminal else line.data
        if is_single:
            return time + data + (b"\n" if line.is_ended else b"")
        return label(line.label, line.task) + time + data + b"\n"

    return format_line
