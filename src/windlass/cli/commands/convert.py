"""The command `windlass convert`: print the job file that a job of another system is converted to."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, job_files, parameters
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.errors import CommandError
from windlass.runner import exit_codes

if TYPE_CHECKING:
    from windlass.client.submit.sources import Source
    from windlass.render.documents import Contents

JOB_FILE, FRAMEWORK = "job", "framework"


@click.command()
@click.argument("file", metavar="[FILE]", required=False)
@click.option(
    "--to",
    type=click.Choice([JOB_FILE, FRAMEWORK]),
    default=JOB_FILE,
    show_default=True,
    help="Output: the job file, or the Framework that is rendered from it.",
)
@click.option(
    "--from-cluster",
    default="",
    metavar="TYPE/NAME",
    help="Job to read from the cluster instead of a file, e.g. tfjob/digits.",
)
@parameters.out
@cluster_options.options
def convert(file: str | None, to: str, from_cluster: str, out: str | None, cluster: ClusterOptions) -> None:
    """Convert jobs of other systems, e.g. TFJobs, to job files. If FILE is -, it is read from standard input.

    The objects that the other system would have created, and the other objects of the file, follow the job file. A
    summary of the fields is printed to standard error. `windlass run`, `submit`, `lint`, `plan` and `render` accept
    these jobs without this command.

    \b
        windlass convert tfjob.yaml --out job.yaml
        windlass convert tfjob.yaml --to framework
        windlass convert --from-cluster tfjob/digits -n team-a
    """
    if bool(file) == bool(from_cluster):
        raise click.UsageError("expected FILE or --from-cluster TYPE/NAME, and not both")
    if file is not None:
        job_files.check_output_path(file, out)
    source = _live(from_cluster, cluster) if from_cluster else job_files.source(file or "", cluster.namespace)
    name = from_cluster or job_files.display_name(file or "")
    if not source.contents.conversions:
        raise CommandError(
            f"{name}: nothing to convert: the file has no job of another system, only jobs of Windlass",
            exit_codes.USAGE,
        )
    data = _job_files(source.contents) if to == JOB_FILE else _frameworks(source, name, cluster.namespace)
    _print_summary(source.contents)
    job_files.write_output(data, out)


def _live(reference: str, cluster: ClusterOptions) -> "Source":
    import msgspec

    from windlass.client import live_jobs
    from windlass.client.submit import sources

    body = cluster_options.run(cluster, live_jobs.read, reference)
    found = sources.decode(msgspec.json.encode(body), reference, Path())
    return job_files.checked(found)


def _job_files(contents: "Contents") -> bytes:
    from windlass.convert import writing
    from windlass.wire.yaml import dump

    job_file_texts = [writing.job_file(conversion) for conversion in contents.conversions]
    return b"---\n".join([*map(dump.dump, contents.manifests), *job_file_texts])


def _frameworks(source: "Source", name: str, namespace: str) -> bytes:
    from windlass.cli.commands import render

    return render.rendered_yaml(source, render.RenderArguments(name, render.FRAMEWORK, namespace, ""))


def _print_summary(contents: "Contents") -> None:
    from windlass.convert import writing

    for conversion in contents.conversions:
        for line in writing.summary(conversion):
            click.echo(line, err=True)
    names = {conversion.document.get("name") for conversion in contents.conversions}
    for submission in contents.submissions:
        if submission.name not in names:
            click.echo(f"left out: {submission.name}, which needs no conversion", err=True)
