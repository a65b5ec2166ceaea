"""The command `windlass attach`. `windlass.runner.attach` implements it."""

import os
import sys
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, name_completion, parameters
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.run_options import RunArguments

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.model.framework import Framework


@click.command(
    epilog="The exit code is that of `windlass wait`: 0 if the job succeeded, otherwise its completion code if that is "
    "between 1 and 255, else 125. It is 130 after Ctrl-C."
)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=name_completion.jobs)
@click.option(
    "--logs/--no-logs",
    default=None,
    help="Show the tasks' log lines instead of the live table, or hide them.",
)
@parameters.output("text", "json")
@cluster_options.options
def attach(name: str | None, logs: bool | None, output: str, cluster: ClusterOptions) -> None:
    """Show the live table of a submitted job (default: the latest) until it ends, as `windlass run` does.

    Ctrl-C detaches: the job continues.

    \b
        windlass attach digits
        windlass attach digits --logs
    """
    # Slow imports are here, so that `windlass --help` stays fast.
    from windlass.cli.commands import run
    from windlass.runner import attach as runner_attach

    framework = cluster_options.run(cluster, _find, name)
    arguments = RunArguments(logs=logs, output=output)
    mode = run.output_mode(arguments, is_terminal=sys.stdout.isatty(), environment=os.environ)
    plan = runner_attach.plan_of(framework)
    start = framework.metadata.creation_timestamp
    reporter = run.new_reporter(plan, mode, arguments, start)

    try:
        reads_logs = logs is not False
        code = cluster_options.run(cluster, runner_attach.attach, framework, reporter, reads_logs=reads_logs)
    finally:
        reporter.finish()
    sys.exit(code)


async def _find(connection: "Connection", name: str | None) -> "Framework":
    from windlass.client import jobs, plain_jobs
    from windlass.client.errors import ClientError

    framework = await jobs.find(connection, await cluster_options.job_name(connection, name))
    if plain_jobs.is_plain(framework):
        raise ClientError(
            f"{framework.name} has no Framework, so there is no live table. Use `windlass status -w {framework.name}` "
            f"or `windlass logs -f {framework.name}`."
        )
    return framework
