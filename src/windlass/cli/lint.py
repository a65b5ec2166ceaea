"""`windlass lint`: print what is wrong with files, and exit accordingly. What is wrong is found by `windlass.wire`."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from windlass.wire import documents, text
from windlass.wire.faults import Fault, Rule, Severity

CLEAN, FAULTY, UNREADABLE = 0, 1, 2
STDIN = "-"


class Report(msgspec.Struct, frozen=True):
    """What `--output json` prints."""

    files: int
    errors: int
    warnings: int
    unreadable: tuple[str, ...]
    """A message for each file that could not be read."""
    faults: tuple[Fault, ...]

    def exit_code(self, *, is_strict: bool) -> int:
        if self.unreadable:
            return UNREADABLE
        is_faulty = self.errors > 0 or (is_strict and self.warnings > 0)
        return FAULTY if is_faulty else CLEAN

    @property
    def summary(self) -> str:
        parts = [
            _counted(self.files, "file"),
            _counted(self.errors, "error"),
            _counted(self.warnings, "warning"),
        ]
        if self.unreadable:
            parts.append(f"{len(self.unreadable)} not readable")
        return ", ".join(parts)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def lint(files: tuple[str, ...], strict: bool, output: str) -> None:
    """Say what is wrong with files of Frameworks, in YAML or JSON. FILE may be - for the standard input.

    Exits with 0 if there is nothing but warnings, 1 if there are errors, 2 if a file cannot be read.
    """
    report = inspect(files)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        for fault in report.faults:
            click.echo(str(fault))
        for message in report.unreadable:
            click.echo(message, err=True)
        click.echo(report.summary)
    sys.exit(report.exit_code(is_strict=strict))


def inspect(files: Sequence[str]) -> Report:
    faults: list[Fault] = []
    unreadable: list[str] = []
    for file in files:
        try:
            faults.extend(
                _as_lint_sees_it(fault) for fault in documents.load(read(file), called(file)).faults
            )
        except OSError as refused:
            unreadable.append(f"{file}: cannot be read: {refused.strerror or refused}")
    errors = sum(fault.is_error for fault in faults)
    return Report(len(files), errors, len(faults) - errors, tuple(unreadable), tuple(faults))


def _as_lint_sees_it(fault: Fault) -> Fault:
    """A misspelt field keeps no Framework from running, but whoever asks for faults should not get past this one."""
    return fault.with_severity(Severity.ERROR) if fault.rule == Rule.MISSPELT_FIELD else fault


def read(file: str) -> bytes:
    """No more than `wire` takes, so that an endless file ends."""
    limit = text.MOST_BYTES + 1
    if file == STDIN:
        return sys.stdin.buffer.read(limit)
    with Path(file).open("rb") as stream:
        return stream.read(limit)


def called(file: str) -> str:
    return "<stdin>" if file == STDIN else file


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
