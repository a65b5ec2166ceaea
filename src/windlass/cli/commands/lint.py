"""The command `windlass lint`. `windlass.render.documents` checks files, `windlass.wire.lint.fixes` fixes them."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from windlass.cli import job_files, json_output, parameters
from windlass.cli.errors import CommandError
from windlass.client.errors import InvalidJobError
from windlass.render import documents
from windlass.runner import exit_codes
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.lint import fixes
from windlass.wire.lint.fixes import Fixed, FixResult
from windlass.wire.yaml import text

if TYPE_CHECKING:
    from windlass.model.job import Job
    from windlass.render.validation import FileCheck, FileProblem

CLEAN, FAULTY, UNREADABLE = exit_codes.SUCCESS, exit_codes.FAILED, exit_codes.USAGE
_NOT_FIXED = " (not fixed automatically: edit the file)"


class Report(msgspec.Struct, frozen=True):
    """The result of the checks, as `--output json` prints it."""

    files: int
    errors: int
    warnings: int
    unreadable: tuple[str, ...]
    """Messages about files that could not be read."""
    unwritable: tuple[str, ...]
    """Messages about files that could not be written and are unchanged."""
    fixed: tuple[Fixed, ...]
    faults: tuple[Diagnostic, ...]
    """The remaining diagnostics."""

    def exit_code(self, *, is_strict: bool) -> int:
        if self.unreadable:
            return UNREADABLE
        is_faulty = self.errors > 0 or bool(self.unwritable) or (is_strict and self.warnings > 0)
        return FAULTY if is_faulty else CLEAN

    @property
    def summary(self) -> str:
        parts = [
            _count(self.files, "file"),
            _count(self.errors, "error"),
            _count(self.warnings, "warning"),
        ]
        if self.fixed:
            parts.append(f"{len(self.fixed)} fixed")
        if self.unreadable:
            parts.append(f"{len(self.unreadable)} not readable")
        if self.unwritable:
            parts.append(f"{len(self.unwritable)} not writable")
        return ", ".join(parts)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--fix", is_flag=True, help="Fix errors and warnings that have only one possible fix.")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@parameters.output("text", "json")
def lint(files: tuple[str, ...], fix: bool, strict: bool, output: str) -> None:
    """Check job files and Frameworks, in YAML or JSON. If FILE is -, it is read from standard input.

    `windlass lint --fix -` prints the fixed text to standard output and the diagnostics to standard error.

    \b
        windlass lint job.yaml framework.yaml
        windlass lint --fix job.yaml

    The exit code is 0 if there are no errors, 1 if there are errors or a file cannot be written, and 2 if a file cannot
    be read.
    """
    prints_text = fix and job_files.STDIN in files
    if prints_text and output == "json":
        raise click.UsageError(
            "--output json cannot be combined with --fix and -, which print the fixed text"
        )
    report = check_files(files, is_fixing=fix)
    if output == "json":
        click.echo(json_output.indented(report))
    else:
        _print_report(report, is_fixing=fix, to_stderr=prints_text)
    sys.exit(report.exit_code(is_strict=strict))


def _print_report(report: Report, *, is_fixing: bool, to_stderr: bool) -> None:
    for fixed in report.fixed:
        click.echo(str(fixed), err=to_stderr)
    for fault in report.faults:
        is_unfixed = is_fixing and fault.fix is not None and not report.unwritable
        click.echo(f"{fault}{_NOT_FIXED if is_unfixed else ''}", err=to_stderr)
    for message in (*report.unreadable, *report.unwritable):
        click.echo(message, err=True)
    click.echo(report.summary, err=to_stderr)


def check_files(files: Sequence[str], *, is_fixing: bool) -> Report:
    """Check the files, after fixing them if `is_fixing`. A file is written completely or left unchanged."""
    findings = _Findings()
    for file in files:
        findings.check(file, is_fixing=is_fixing)
    return findings.report(len(files))


def diagnose(
    data: bytes,
    name: str,
    templates: Mapping[str, str] | None = None,
    check_files: "FileCheck | None" = None,
) -> tuple[Diagnostic, ...]:
    return documents.read(data, name, templates=templates, check_files=check_files).diagnostics


class _Findings:
    def __init__(self) -> None:
        self.faults: list[Diagnostic] = []
        self.fixed: list[Fixed] = []
        self.unreadable: list[str] = []
        self.unwritable: list[str] = []

    def check(self, file: str, *, is_fixing: bool) -> None:
        name = job_files.display_name(file)

        def check_files(job: "Job") -> "Iterator[FileProblem]":
            # Imported here, because the check of a Framework should be quick.
            from windlass.client.submit.file_checks import FileChecks

            return FileChecks(Path(file).parent, packs_code=True)(job)

        try:
            job_files.require_job_file(file)
            data = job_files.read(file)
            templates = job_files.templates(file, data)
        except OSError as error:
            self.unreadable.append(f"cannot read {file}: {error.strerror or error}")
            return
        except (CommandError, InvalidJobError) as error:
            self.unreadable.append(str(error))
            return
        if is_fixing:
            result = fixes.fix_file(data, lambda changed: diagnose(changed, name, templates, check_files))
            try:
                _write_fixed(file, data, result)
                data = result.data
                self.fixed.extend(result.fixed)
            except OSError as error:
                self.unwritable.append(
                    f"cannot write {file}: {error.strerror or error}. The file is unchanged."
                )
        self.faults.extend(diagnose(data, name, templates, check_files))

    def report(self, files: int) -> Report:
        errors = sum(fault.is_error for fault in self.faults)
        return Report(
            files=files,
            errors=errors,
            warnings=len(self.faults) - errors,
            unreadable=tuple(self.unreadable),
            unwritable=tuple(self.unwritable),
            fixed=tuple(self.fixed),
            faults=tuple(self.faults),
        )


def _write_fixed(file: str, data: bytes, result: FixResult) -> None:
    is_complete = len(data) <= text.MAX_BYTES
    if file == job_files.STDIN and is_complete:
        from windlass.cli.terminal import safe_streams

        safe_streams.write_data(result.data)
    elif result.fixed:
        from windlass.cli import atomic_files

        atomic_files.replace(Path(file), result.data)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
