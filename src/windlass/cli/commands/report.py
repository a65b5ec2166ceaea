"""The command `windlass report`. `windlass.client.report` writes the report."""

import sys
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, name_completion
from windlass.cli.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.report.writing import Format

FORMATS = ("html", "json", "markdown")


@click.command()
@click.argument("name", metavar="[NAME]", required=False, shell_complete=name_completion.jobs)
@click.option(
    "--format",
    "-f",
    "format_name",
    type=click.Choice(FORMATS),
    default="html",
    show_default=True,
    help="Format of the report.",
)
@click.option(
    "--logs", "has_all_logs", is_flag=True, help="Include the logs of all attempts, not only of failed ones."
)
@cluster_options.options
def report(name: str | None, format_name: str, has_all_logs: bool, cluster: ClusterOptions) -> None:
    """Write a report about the job NAME (default: the latest) to standard output: the verdict, all attempts on a
    timeline, failures, events, logs of failed attempts, environment, spec and versions.

    The report is one HTML page that needs no network. It also works after the job is deleted, from the records of its
    attempts. With --format markdown, it is short enough for an issue on GitHub, and contains only the last lines of
    the first failed task.

    Values of environment variables that may be secret are masked, but logs are not: check them before you publish a
    report.

    \b
        windlass report digits > report.html
        windlass report digits --logs > report.html
        windlass report digits --format markdown
    """
    from windlass.client.report.writing import Format

    report_format = Format(format_name)
    if report_format is Format.HTML and sys.stdout.isatty():
        raise click.UsageError("redirect the page to a file, e.g. `windlass report NAME > report.html`")
    cluster_options.run(cluster, _write, name, report_format, has_all_logs=has_all_logs)


async def _write(
    connection: "Connection", name: str | None, report_format: "Format", *, has_all_logs: bool
) -> None:
    from windlass.cli.terminal import safe_streams
    from windlass.client.report import writing

    name = await cluster_options.job_name(connection, name)
    await writing.write(connection, name, safe_streams.write_data, report_format, has_all_logs=has_all_logs)
