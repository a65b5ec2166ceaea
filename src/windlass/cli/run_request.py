"""What `windlass run` is given → what it runs: the jobs of a file, a command, or companions alone."""

from pathlib import Path

import click
import msgspec

from windlass.cli import command_job, config_map_files, errors, fault_options, job_files, run_options
from windlass.cli.command_job import Asked
from windlass.cli.errors import CommandError
from windlass.client import paths
from windlass.client.errors import ClientError
from windlass.client.prerequisites import plan as prerequisites_plan
from windlass.client.prerequisites.plan import Preparation
from windlass.client.submit import sources
from windlass.client.submit.sources import Source
from windlass.model import names
from windlass.model.base import Json
from windlass.model.companions import Companion
from windlass.render.code import Code, InPlace
from windlass.render.documents import Submission
from windlass.runner import exit_codes, run_plan
from windlass.runner.run_plan import Work


def work(file: str | None, command: tuple[str, ...], asked: Asked, preflight_seconds: float | None) -> Work:
    if command:
        if file is not None:
            raise click.UsageError(f"found both the file {file} and a command after --: expected one of them")
        folder = Path.cwd()
        missing = command_job.missing(command, folder)
        if missing is not None:
            raise CommandError(f"there is no script {missing}: nothing was started", exit_codes.USAGE)
        unanswered = command_job.unanswered(command, folder)
        if unanswered:
            words = " ".join(f"'{word}'" for word in unanswered)
            click.echo(f"the script asks for its peers, and the command does not say: add {words}", err=True)
        return run_plan.of([(command_job.submission(command, asked, folder), InPlace(str(folder)))], ())
    if file is None:
        raise click.UsageError("Missing argument 'FILE': a job file, a Framework, or a command after --")
    if asked.given:
        raise click.UsageError(f"{asked.given[0]} is for a command after --; {file} says this itself")
    return _work_of_file(file, preflight_seconds)


def _work_of_file(file: str, preflight_seconds: float | None) -> Work:
    """Says what is wrong with the file, and goes no further if it is an error."""
    source = job_files.source(file, names.DEFAULT_NAMESPACE)
    try:
        placed = [(each, _code(source, each)) for each in source.contents.submissions]
        prepared = [_preparation(source, each, preflight_seconds) for each in source.contents.submissions]
    except ClientError as error:
        raise CommandError(f"{job_files.called(file)}: {error}", exit_codes.USAGE) from error
    contents = source.contents
    return run_plan.of(placed, contents.others, contents.shown).with_preparations(prepared)


def _preparation(
    source: Source, submission: Submission, seconds: float | None, *, companions_only: bool = False
) -> Preparation | None:
    if submission.job is None:
        return None
    return prerequisites_plan.planned(
        submission.job,
        names.DEFAULT_NAMESPACE,
        source.folder,
        is_one_machine=True,
        preflight_seconds=seconds,
        companions_only=companions_only,
    )


def _code(source: Source, submission: Submission) -> Code | None:
    path = source.code_of(submission)
    return sources.in_place(path) if path is not None else None


def file_of_companions(
    file: str | None, command: tuple[str, ...], asked: Asked, given: run_options.Given
) -> str:
    """Raises UsageError where something else is asked for that needs a job."""
    others = {
        "a command after --": command,
        **dict.fromkeys(asked.given, True),
        fault_options.OPTION: given.injected,
        "--logs": given.logs,
    }
    for other, is_given in others.items():
        if is_given:
            raise click.UsageError(
                f"{other} is for jobs, and --companions-only starts none: leave one of them out"
            )
    if file is None:
        raise click.UsageError("Missing argument 'FILE': a job file that has companions")
    return file


def companions(file: str, only: Companion | None) -> Work:
    """Their jobs are known and not run. Raises CommandError."""
    source = job_files.source(file, names.DEFAULT_NAMESPACE)
    kept = tuple(Companion) if only is None else (only,)
    wanted = [
        msgspec.structs.replace(each, job=each.job.with_companions(kept)) if each.job is not None else each
        for each in source.contents.submissions
    ]
    try:
        prepared = [_preparation(source, each, None, companions_only=True) for each in wanted]
    except ClientError as error:
        raise CommandError(f"{job_files.called(file)}: {error}", exit_codes.USAGE) from error
    contents = source.contents
    placed = [(each, None) for each in wanted]
    made = run_plan.of(placed, contents.others, contents.shown).with_preparations(prepared)
    is_there = any(each.companion in kept for each in made.companions)
    if not is_there:
        raise CommandError(
            f"{job_files.called(file)}: {prerequisites_plan.no_companions(kept)}", exit_codes.USAGE
        )
    return made


def with_config_maps(work: Work, given: tuple[str, ...]) -> Work:
    made: list[Json] = []
    namespaces = dict.fromkeys(job.namespace for job in work.jobs)
    for wanted in given:
        name, _, path = wanted.partition("=")
        if not name or not path:
            raise click.UsageError(f"--config-map: found {wanted!r}, expected NAME=PATH")
        try:
            folder = paths.expanded(path)
            made.extend(config_map_files.config_map(name, namespace, folder) for namespace in namespaces)
        except OSError as error:
            raise click.UsageError(f"--config-map: {errors.of_the_system(error, path)}") from error
        except ValueError as error:
            raise click.UsageError(f"--config-map: {error}") from error
    return msgspec.structs.replace(work, others=(*work.others, *made))
