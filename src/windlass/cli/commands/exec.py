"""The command `windlass exec`."""

import sys
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, name_completion, parameters
from windlass.cli.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from windlass.client.connection import Connection


@click.command("exec")
@click.option("--stdin", "-i", "has_stdin", is_flag=True, help="Forward standard input to the command.")
@click.option("--tty", "-t", is_flag=True, help="Allocate a terminal for the command.")
@parameters.container
@cluster_options.options
@click.argument("task", metavar="NAME/ROLE-INDEX", shell_complete=name_completion.tasks)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(
    has_stdin: bool, tty: bool, container: str, task: str, command: tuple[str, ...], cluster: ClusterOptions
) -> None:
    """Run COMMAND in the container of a task, e.g. digits/worker-1, and return its exit code. Arguments after -- belong
    to the command.

    \b
        windlass exec digits/worker-1 -- nvidia-smi
        windlass exec -it digits/worker-1 -- bash
    """
    # Slow imports are local, so that `windlass --help` stays fast.
    from windlass.cli.terminal import streams
    from windlass.client import exec as client_exec
    from windlass.client import tasks

    try:
        job, parsed_task = tasks.parse_task(task)
    except ValueError as error:
        raise click.UsageError(str(error)) from error

    async def run(connection: "Connection") -> int:
        with streams.local_streams(has_stdin=has_stdin, tty=tty) as local:
            return await client_exec.execute(connection, job, parsed_task, command, local, container)

    sys.exit(cluster_options.run(cluster, run))


exec = execute  # noqa: A001 — the name of the command
