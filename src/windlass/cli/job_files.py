"""Files with jobs, as somebody names them on the command line: read, and what is wrong with them said."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from windlass.cli.errors import CommandError
from windlass.runner import exit_codes
from windlass.wire.yaml import text

if TYPE_CHECKING:
    from windlass.client.submit.sources import Source

STDIN = "-"


def source(file: str, namespace: str = "", *, needs_a_job: bool = True) -> "Source":
    """Says what is wrong with the file, and goes no further if it is an error. Raises CommandError.

    `namespace` is where jobs go that leave it open, if that is known.
    """
    from windlass.client.submit.sources import NO_JOB, Source
    from windlass.render import documents

    if file.endswith(".py"):
        advice = (
            f"run it with `windlass run -- python {file}`, or have a job file with `windlass init {file}`"
        )
        raise CommandError(f"{file} is a program and no job: {advice}", exit_codes.USAGE)
    try:
        data = read(file)
    except OSError as error:
        message = f"{file}: cannot be read: {error.strerror or error}"
        raise CommandError(message, exit_codes.USAGE) from error
    found = documents.read(data, called(file), namespace, templates(file, data))
    for fault in found.diagnostics:
        click.echo(str(fault), err=True)
    if found.errors:
        sys.exit(exit_codes.USAGE)
    if needs_a_job and not found.submissions:
        raise CommandError(f"{called(file)}: {NO_JOB}", exit_codes.USAGE)
    return Source(found, Path(file).parent)


def templates(file: str, data: bytes) -> dict[str, str]:
    """Those that lie beside a config, by path. Raises CommandError."""
    from windlass.render import documents

    if not documents.template_paths(data):
        return {}
    from windlass.client.errors import FaultyJobError
    from windlass.client.submit import templates as lying

    try:
        return lying.beside(data, Path(file).parent)
    except FaultyJobError as error:
        raise CommandError(str(error), exit_codes.USAGE) from error


def read(file: str) -> bytes:
    """No more than `wire` takes, so that an endless file ends. Raises OSError."""
    limit = text.MOST_BYTES + 1
    if file == STDIN:
        return sys.stdin.buffer.read(limit)
    with Path(file).open("rb") as stream:
        return stream.read(limit)


def check_out(file: str, out: str) -> None:
    """What is read is not written over. Raises UsageError."""
    here, there = Path(file), Path(out)
    is_read = file != STDIN and here.exists() and there.exists() and here.samefile(there)
    if is_read:
        raise click.UsageError(f"--out is the file that is read, {file}: write to another one.")


def called(file: str) -> str:
    """In messages."""
    return "<stdin>" if file == STDIN else file
