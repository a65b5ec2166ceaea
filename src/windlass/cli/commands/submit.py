"""`windlass submit`: submit jobs to a cluster. `windlass.client.submit` implements it."""

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from windlass.cli import cluster_options, errors, job_files, json_output, parameters
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.commands import wait
from windlass.cli.errors import CommandError
from windlass.jobfile.overrides import Overrides
from windlass.runner import exit_codes

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.submit.apply import AppliedJob
    from windlass.client.submit.plan import SubmitPlan
    from windlass.client.submit.progress import Progress
    from windlass.client.submit.sources import Source
    from windlass.model.base import Json
    from windlass.model.framework import Framework


@click.command(
    cls=parameters.WithArguments,
    epilog=f"With --wait, {wait.EXIT_CODE_HELP[0].lower()}{wait.EXIT_CODE_HELP[1:]}",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--rerun",
    is_flag=True,
    help="Replace a finished job of the same name. Fails if that job is still running.",
)
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
@parameters.overrides
@parameters.no_preflight
@parameters.preflight_timeout
@parameters.output("text", "json", "name")
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
    output: str,
    overrides: Overrides,
    cluster: ClusterOptions,
) -> None:
    """Submit the jobs in FILE to a cluster. If FILE is -, it is read from standard input.

    FILE contains one or more job files or Frameworks and the objects they need, e.g. ConfigMaps. The `code` of a
    job file is uploaded with the job. Before a job starts, Windlass loads its data, checks that its files exist
    and starts its companions (`tensorboard`, `jupyter`, `hub`).

    \b
        windlass submit job.yaml
        windlass submit job.yaml --wait           # return the job's exit code
        windlass submit job.yaml --rerun          # replace a finished job
        windlass submit job.yaml --dry-run        # print the objects only
        windlass submit job.yaml --set roles.worker.tasks=4 --env LR=0.1
        windlass submit job.yaml -- --steps 5     # append arguments to the command
        windlass submit job.yaml --companions-only
    """
    if companions_only and (rerun or waits):
        raise click.UsageError(
            f"--companions-only and {'--rerun' if rerun else '--wait'} are mutually exclusive: "
            "--companions-only submits no job"
        )
    seconds = parameters.preflight_seconds(preflight_timeout, is_skipped=no_preflight)
    sources = [_read(file, cluster.namespace, overrides, has_code=not companions_only) for file in files]

    async def use(connection: "Connection") -> int:
        from windlass.client.submit import node_capacity, submission
        from windlass.client.submit.plan import SubmitOptions

        options = SubmitOptions(is_rerun=rerun, preflight_seconds=seconds, companions_only=companions_only)
        plans = await submission.plan(connection, sources, options)
        for warning in await node_capacity.warnings(connection, plans):
            click.echo(f"warning: {warning}", err=True)
        if dry_run:
            _print_plans(plans, output)
            return exit_codes.SUCCESS
        created = await _submit(connection, plans, output)
        if waits:
            return await _follow(connection, created, output, timeout)
        if output == "text" and created:
            first = created[0]
            arguments = cluster.arguments(connection, first.namespace)
            click.echo(f"Follow it with: windlass attach {first.name}{arguments}", err=True)
        return exit_codes.SUCCESS

    sys.exit(cluster_options.run(cluster, use))


def _read(file: str, namespace: str, overrides: Overrides, *, has_code: bool) -> "Source":
    """Read a file. Raises CommandError, also if a job in it sets a namespace other than --namespace."""
    source = job_files.source(file, "", overrides, has_code=has_code)
    for submission in source.contents.submissions:
        job_files.require_namespace(file, submission, namespace)
    return source


async def _submit(connection: "Connection", plans: "Sequence[SubmitPlan]", output: str) -> "list[Framework]":
    """Apply the plans and return the created Frameworks."""
    from windlass.client import lookup
    from windlass.client.submit import apply

    def report(progress: "Progress") -> None:
        click.echo(str(progress), err=output != "text")

    jobs: list[AppliedJob] = []
    for plan in plans:
        async for applied in apply.apply(connection, plan, report):
            jobs.append(applied)
            _print_applied(applied, output)
    created = [applied.framework for applied in jobs if applied.framework is not None]
    deployments = [each.body for applied in jobs if applied.framework is None for each in applied.servers]
    if output == "json":
        bodies = [await lookup.read_raw(connection.at(each.namespace), each) for each in created]
        click.echo(_json([*map(msgspec.json.decode, bodies), *deployments]))
    elif output == "name":
        _print_deployments(deployments)
    return created


def _print_applied(applied: "AppliedJob", output: str) -> None:
    job, framework = applied.job, applied.framework
    if output == "text":
        if framework is not None:
            click.echo(f"{framework.name} submitted to namespace {framework.namespace}")
        for each in job.companions:
            command = f"windlass {each.companion} {job.name} -n {job.namespace}"
            click.echo(f"{job.name}: open {each.companion} with `{command}`")
    elif output == "name" and framework is not None:
        click.echo(f"framework.{framework.group}/{framework.name}")


def _print_deployments(deployments: "Sequence[Json]") -> None:
    for each in deployments:
        click.echo(f"deployment.apps/{each['metadata']['name']}")


def _print_plans(plans: "Sequence[SubmitPlan]", output: str) -> None:
    """Print the objects that would be created; with `-o name`, the names of Frameworks or Deployments."""
    if output == "json":
        click.echo(_json([each for plan in plans for each in plan.objects]))
    elif output == "text":
        click.echo("---\n".join(text for plan in plans for text in _yaml(plan)), nl=False)
    else:
        for plan in plans:
            if plan.companions_only:
                _print_deployments([each for each in plan.objects if each["kind"] == "Deployment"])
            else:
                for job in plan.jobs:
                    click.echo(f"framework.{job.group}/{job.name}")


def _json(bodies: "Sequence[Json]") -> bytes:
    """Return JSON: the object if there is only one, otherwise a List."""
    body = bodies[0] if len(bodies) == 1 else {"apiVersion": "v1", "kind": "List", "items": bodies}
    return json_output.indented(body)


def _yaml(plan: "SubmitPlan") -> list[str]:
    """Render the plan. Secrets and archives are shown by size; -o json has their contents."""
    from windlass.wire.yaml import dump as yaml_dump

    if plan.companions_only:
        return [yaml_dump.dump(_with_sizes(each)).decode() for each in plan.objects]
    texts = [yaml_dump.dump(_with_sizes(each)).decode() for each in plan.manifests]
    for job in plan.jobs:
        texts += [f"# replaces the finished job {old.metadata.name}\n" for old in job.replaced]
        if job.has_nfs_placeholder:
            texts.append(
                f"# the name of the Service {job.name}-nfs stands for its address, which is not known yet\n"
            )
        if job.prerequisites is not None:
            texts += [yaml_dump.dump(_with_sizes(each)).decode() for each in job.prerequisites.objects]
        texts.append(yaml_dump.dump(job.created_framework).decode())
        for config_map in job.config_maps():
            shown = {**config_map, "binaryData": dict.fromkeys(config_map["binaryData"], f"({job.archive})")}
            texts.append(yaml_dump.dump(shown).decode())
    return texts


def _with_sizes(body: "Json") -> "Json":
    """Replace the contents of Secrets and archives by their sizes. Values in a file of the user may be invalid."""

    def size(field: str, value: object) -> int:
        text = str(value)
        return len(text.encode()) if field == "stringData" else len(text.rstrip("=")) * 3 // 4

    fields = {"Secret": ("data", "stringData"), "ConfigMap": ("binaryData",)}.get(body["kind"], ())
    sizes = {
        field: {key: f"({size(field, value)} bytes)" for key, value in body[field].items()}
        for field in fields
        if isinstance(body.get(field), dict)
    }
    return {**body, **sizes}


async def _follow(
    connection: "Connection", created: "Sequence[Framework]", output: str, timeout: float | None
) -> int:
    """Wait for all jobs at the same time, and return the first exit code other than 0; 0 if there is none."""
    from windlass.client.errors import ClientError
    from windlass.client.wait import Until

    async def follow(framework: "Framework") -> int:
        try:
            return await wait.follow(
                connection.at(framework.namespace),
                framework,
                Until.COMPLETED,
                timeout,
                to_stderr=output != "text",
            )
        except (ClientError, CommandError) as error:
            # The other jobs are still reported.
            message, code = errors.describe_error(error)
            errors.note(message)
            return code

    codes = await asyncio.gather(*map(follow, created))
    return next((code for code in codes if code), exit_codes.SUCCESS)
