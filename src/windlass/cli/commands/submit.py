"""`windlass submit`: see `windlass.client.submit.submission`."""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from windlass.cli import (
    cluster_options,
    created_objects,
    job_files,
    parameters,
    preflight_options,
    submit_companions,
)
from windlass.cli.cluster_options import Where
from windlass.cli.commands import wait
from windlass.cli.errors import CommandError
from windlass.runner import exit_codes

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.submit.sources import Source
    from windlass.client.submit.submission import Plan
    from windlass.model.framework import Framework


@click.command(epilog=f"With --wait, {wait.EXITS[0].lower()}{wait.EXITS[1:]}")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--rerun", is_flag=True, help="Replace a finished job of the same name. A running job is kept.")
@click.option(
    "--wait", "waits", is_flag=True, help="Wait until the job has completed and return its exit code."
)
@click.option(
    "--timeout",
    metavar="DURATION",
    callback=parameters.duration,
    help="How long to wait with --wait, e.g. 90s or 10m (default: no limit).",
)
@click.option(
    "--companions-only",
    is_flag=True,
    help="Start only the jobs' companions (TensorBoard, Jupyter, hub).",
)
@click.option("--dry-run", is_flag=True, help="Print the objects without creating them.")
@preflight_options.no_preflight
@preflight_options.preflight_timeout
@click.option(
    "--output", "-o", "form", type=click.Choice(["text", "json", "name"]), default="text", show_default=True
)
@cluster_options.options
def submit(
    files: tuple[str, ...],
    rerun: bool,
    waits: bool,
    timeout: float | None,
    companions_only: bool,
    dry_run: bool,
    no_preflight: bool,
    preflight_timeout: float | None,
    form: str,
    where: Where,
) -> None:
    """Submit the jobs in FILE to a cluster. - reads standard input.

    FILE contains one or more job files or Frameworks and the objects they need, e.g. ConfigMaps. The directory `code`
    of a job file is uploaded with the job. Before a job starts, Windlass loads its data, checks that its files exist
    and starts its companions (`tensorboard`, `jupyter`, `hub`).

    \b
        windlass submit job.yaml
        windlass submit job.yaml --wait           # return the job's exit code
        windlass submit job.yaml --rerun          # replace a finished job
        windlass submit job.yaml --dry-run        # print the objects only
        windlass submit job.yaml --companions-only
    """
    if companions_only and (rerun or waits):
        raise click.UsageError(
            f"--companions-only and {'--rerun' if rerun else '--wait'} do not go together: no job is submitted"
        )
    seconds = preflight_options.seconds(preflight_timeout, is_wanted=not no_preflight)
    sources = [_read(file, where.namespace) for file in files]

    async def use(connection: "Connection") -> int:
        from windlass.client.submit import submission as submit_submission

        if companions_only:
            return await submit_companions.submit(connection, sources, form, is_dry=dry_run)
        plans = await submit_submission.plans(connection, sources, is_rerun=rerun, preflight_seconds=seconds)
        if dry_run:
            return _show(plans, form)
        created = await _submit(connection, plans, form)
        return await _follow(connection, created, form, timeout) if waits else exit_codes.SUCCESS

    sys.exit(cluster_options.run(where, use))


def _read(file: str, namespace: str) -> "Source":
    """As `job_files.source` does. Raises CommandError besides."""
    source = job_files.source(file)
    for submission in source.contents.submissions:
        if namespace and submission.namespace not in ("", namespace):
            raise CommandError(
                f"{job_files.called(file)}: the job {submission.name} is for the namespace {submission.namespace}, "
                f"and --namespace says {namespace}: leave one of them out",
                exit_codes.USAGE,
            )
    return source


async def _submit(connection: "Connection", plans: "Sequence[Plan]", form: str) -> "list[Framework]":
    """Everything was planned before anything is created."""
    from windlass.client.submit import submission as submit_submission

    def tell(line: str) -> None:
        click.echo(line, err=form != "text")

    created: list[Framework] = []
    for plan in plans:
        async for framework in submit_submission.carry_out(connection, plan, tell):
            created.append(framework)
            if form == "text":
                click.echo(f"{framework.name} is submitted to the namespace {framework.namespace}")
                for line in _doors(plan, framework):
                    click.echo(line)
            elif form == "name":
                click.echo(f"framework.{framework.group}/{framework.name}")
    if form == "json":
        await _print_json(connection, created)
    return created


def _doors(plan: "Plan", framework: "Framework") -> "Iterator[str]":
    """How its companions are opened."""
    for job in plan.jobs:
        if job.preparation is not None and (job.name, job.namespace) == (framework.name, framework.namespace):
            for companion in job.preparation.job.companions:
                yield created_objects.door(companion, framework.name, framework.namespace)


async def _print_json(connection: "Connection", created: "Sequence[Framework]") -> None:
    import msgspec

    from windlass.client import lookup

    bodies = [await lookup.read_raw(connection.at(each.namespace), each) for each in created]
    click.echo(created_objects.as_one([msgspec.json.decode(body) for body in bodies]))


def _show(plans: "Sequence[Plan]", form: str) -> int:
    """What the same way would create, up to the point where it would."""
    if form == "json":
        click.echo(created_objects.as_one([each for plan in plans for each in plan.objects]))
    elif form == "name":
        for job in (job for plan in plans for job in plan.jobs):
            click.echo(f"framework.{job.group}/{job.name}")
    else:
        click.echo("---\n".join(text for plan in plans for text in _yaml(plan)), nl=False)
    return exit_codes.SUCCESS


def _yaml(plan: "Plan") -> list[str]:
    """Secrets and archives are told by their sizes: nobody reads them here, and -o json has them."""
    from windlass.wire.yaml import dump as yaml_dump

    texts = [yaml_dump.dump(each).decode() for each in plan.others]
    for job in plan.jobs:
        texts += [f"# {old.metadata.name} is there, and goes before\n" for old in job.replaced]
        if job.has_placeholder:
            texts.append(
                f"# the address of the Service {job.name}-nfs takes the place of its name, once it has one\n"
            )
        if job.preparation is not None:
            texts += map(created_objects.as_yaml, job.preparation.objects)
        texts.append(yaml_dump.dump(job.framework).decode())
        config_map = job.config_map()
        if config_map is not None:
            shown = {**config_map, "binaryData": dict.fromkeys(config_map["binaryData"], f"({job.archive})")}
            texts.append(yaml_dump.dump(shown).decode())
    return texts


async def _follow(
    connection: "Connection", created: "Sequence[Framework]", form: str, timeout: float | None
) -> int:
    """All of them to their ends; the first that did not succeed says what to exit with."""
    from windlass.client.wait import Until

    codes = [
        await wait.follow(
            connection.at(each.namespace), each, Until.COMPLETED, timeout, to_stderr=form != "text"
        )
        for each in created
    ]
    return next((code for code in codes if code), exit_codes.SUCCESS)
