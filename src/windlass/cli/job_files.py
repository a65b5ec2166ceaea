"""Read the job files that are named on the command line, and print their diagnostics."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from windlass.cli import atomic_files, errors
from windlass.cli.errors import CommandError
from windlass.cli.terminal import safe_streams
from windlass.jobfile.overrides import Overrides
from windlass.runner import exit_codes
from windlass.wire.yaml import text

if TYPE_CHECKING:
    from windlass.client.submit.sources import Source
    from windlass.model.job import Job
    from windlass.render.documents import Submission

STDIN = "-"


def source(
    file: str,
    namespace: str = "",
    overrides: Overrides = Overrides(),  # noqa: B008 — Overrides is frozen
    *,
    needs_a_job: bool = True,
    checks_files: bool = True,
    is_in_place: bool = False,
    packs_code: bool = False,
    has_code: bool = True,
) -> "Source":
    """Return the contents of a file with the overrides. Print its diagnostics, and exit if it has errors.

    `namespace` is the namespace of jobs that do not set one, if it is known. `checks_files` and the following arguments
    are for the checks of the files that jobs name, see `FileChecks`. Raises CommandError and ClientError.
    """
    from windlass.client.submit import sources
    from windlass.client.submit.file_checks import FileChecks

    require_job_file(file)
    try:
        folder = Path(file).parent
        checks = FileChecks(folder, is_in_place, packs_code, has_code) if checks_files else None
        found = sources.decode(read(file), display_name(file), folder, namespace, overrides, checks)
    except OSError as error:
        message = f"{file}: cannot be read: {error.strerror or error}"
        if isinstance(error, FileNotFoundError):
            message += ". Write a job file for a script with `windlass init SCRIPT`."
        raise CommandError(message, exit_codes.USAGE) from error
    checked(found)
    if needs_a_job and not found.contents.submissions:
        raise CommandError(f"{display_name(file)}: {sources.NO_JOB}", exit_codes.USAGE)
    for submission in found.contents.submissions if checks_files else ():
        if submission.job is not None and submission.job.inherited:
            _warn_about_inherited(display_name(file), submission.job, is_in_place=is_in_place)
    return found


def checked(found: "Source") -> "Source":
    """Return the source. Print its diagnostics, and exit if it has errors."""
    for diagnostic in found.contents.diagnostics:
        click.echo(str(diagnostic), err=True)
    if found.contents.errors:
        sys.exit(exit_codes.USAGE)
    return found


def require_job_file(file: str) -> None:
    """Raise CommandError if a file is a Python program that exists, or does not exist and is a command."""
    if "/" not in file and file != STDIN and not Path(file).exists() and shutil.which(file) is not None:
        raise CommandError(
            f"{file} is a command, not a job file: run it on this machine with `windlass run -- {file} …`, or write a "
            "job file with `windlass init SCRIPT` and submit that",
            exit_codes.USAGE,
        )
    if file.endswith(".py") and Path(file).exists():
        raise CommandError(
            f"{file} is a program, not a job file: run it with `windlass run -- python {file}`, or write a job file "
            f"with `windlass init {file}`",
            exit_codes.USAGE,
        )


def _warn_about_inherited(file: str, job: "Job", *, is_in_place: bool) -> None:
    """Print a warning about the variables of the shell that the tasks do not get."""
    missing = [name for name in job.inherited if not is_in_place or name not in os.environ]
    if missing and is_in_place:
        click.echo(f"{file}: warning: env.inherit: not set in this shell: {', '.join(missing)}", err=True)
    elif missing:
        click.echo(
            f"{file}: warning: env.inherit is for `windlass run`: the tasks of {job.name} do not get "
            f"{', '.join(missing)}. Set them in `env` or `secrets`.",
            err=True,
        )


def require_namespace(file: str, submission: "Submission", namespace: str) -> None:
    """Raise CommandError if a job sets a namespace other than that of the option --namespace."""
    if namespace and submission.namespace not in ("", namespace):
        raise CommandError(
            f"{display_name(file)}: the job {submission.name} has the namespace {submission.namespace}, and "
            f"--namespace is {namespace}: remove one of them",
            exit_codes.USAGE,
        )


def templates(file: str, data: bytes) -> dict[str, str]:
    """Return the sources of the templates that a config imports, by path. Raises InvalidJobError."""
    from windlass.render import documents

    if not documents.template_paths(data):
        return {}
    from windlass.client.submit import sources

    return sources.read_templates(data, Path(file).parent)


def read(file: str) -> bytes:
    """Read a file, which may be endless, up to one byte more than the size limit. Raises OSError."""
    limit = text.MAX_BYTES + 1
    if file == STDIN:
        return sys.stdin.buffer.read(limit)
    with Path(file).open("rb") as stream:
        return stream.read(limit)


def check_output_path(file: str, out: str | None) -> None:
    """Raise UsageError if the output would overwrite the input."""
    if out is None:
        return
    source, target = Path(file), Path(out)
    is_input = file != STDIN and source.exists() and target.exists() and source.samefile(target)
    if is_input:
        raise click.UsageError(f"--out is the input file {file}: choose another one.")


def write_output(data: bytes, out: str | None) -> None:
    """Write the data to the file of the option --out, or to standard output. Raises CommandError."""
    if out is None:
        safe_streams.write_data(data)
        return
    try:
        atomic_files.create(Path(out), data, may_replace=True)
    except OSError as error:
        raise CommandError(f"--out: {errors.os_error_message(error, out)}") from error


def display_name(file: str) -> str:
    return "<stdin>" if file == STDIN else file
