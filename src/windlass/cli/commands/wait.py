"""The command `windlass wait`."""

import sys
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, name_completion, parameters
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.errors import CommandError
from windlass.cli.terminal import tables
from windlass.runner import exit_codes

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.views import JobView
    from windlass.client.wait import Until
    from windlass.model.framework import Framework

EXIT_CODE_HELP = (
    "The exit code is 0 if the job succeeded, otherwise its completion code if that is between 1 and 255, else 125 "
    "(also if the job was deleted). It is 124 after --timeout."
)


@click.command(epilog=f"{EXIT_CODE_HELP} With --for running or deleted, it is 0 if the condition is met.")
@click.argument("name", metavar="NAME", shell_complete=name_completion.jobs)
@click.option(
    "--for",
    "until",
    type=click.Choice(["completed", "running", "deleted"]),
    default="completed",
    show_default=True,
    help="Condition to wait for. running: all tasks have run in this attempt.",
)
@parameters.timeout
@cluster_options.options
def wait(name: str, until: str, timeout: float | None, cluster: ClusterOptions) -> None:
    """Wait until a job has completed, or until the condition of --for is met, and return an exit code. Status changes
    are printed.

    \b
        windlass wait digits
        windlass wait digits --for running --timeout 10m
    """
    sys.exit(cluster_options.run(cluster, _wait, name, until, timeout))


async def _wait(connection: "Connection", name: str, until: str, timeout: float | None) -> int:
    from windlass.client import jobs
    from windlass.client.errors import NotInstalledError, ObjectNotFoundError
    from windlass.client.wait import Until

    try:
        framework = await jobs.find(connection, name)
    except NotInstalledError:
        raise
    except ObjectNotFoundError as error:
        if until != Until.DELETED:
            raise
        click.echo(str(error))
        return exit_codes.SUCCESS
    return await follow(connection, framework, Until(until), timeout)


async def follow(
    connection: "Connection",
    framework: "Framework",
    until: "Until",
    timeout: float | None,
    *,
    to_stderr: bool = False,
) -> int:
    """Wait for a Framework, print its changes, and return the exit code. Raises ClientError and CommandError."""
    from windlass.client import task_files, wait
    from windlass.client.errors import CompletedError, ObjectDeletedError
    from windlass.client.wait import Until

    last_line = ""

    def print_change(view: "JobView") -> None:
        nonlocal last_line
        line = status_line(view)
        if line != last_line:
            click.echo(line, err=to_stderr)
        last_line = line

    try:
        view = await wait.wait_for(connection, framework, until, timeout, print_change)
    except ObjectDeletedError as error:
        raise CommandError(str(error), exit_codes.OTHER_CODE) from error
    except CompletedError as error:
        raise CommandError(str(error), exit_codes.of_job(error.code, has_succeeded=False)) from error
    if until is Until.DELETED:
        click.echo(f"{framework.name} deleted")
    if until is Until.COMPLETED:
        for output in task_files.outputs(framework):
            click.echo(f"output: {output.describe(view.name)}", err=to_stderr)
        return exit_codes.of_job(view.code, has_succeeded=view.has_succeeded)
    return exit_codes.SUCCESS


def status_line(view: "JobView") -> str:
    """Return the status of a job, or the verdict about a completed one, in one line."""
    from windlass.model import verdict

    if view.is_completed:
        return view.message
    counts = tables.task_counts(view.running, view.succeeded, view.failed, view.total, view.retrying)
    counts = verdict.count("task", view.total) if counts == str(view.total) else counts
    attempt = f", attempt {view.attempt}" if view.attempt else ""
    blocked = f": {view.reason}" if view.reason and not view.running else ""
    return f"{view.name}: {view.state} ({counts}{attempt}){blocked}"
