"""Read jobs from a file, a Job or a mapping. All of them are decoded and checked in the same way."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from windlass.client import paths
from windlass.client.errors import InvalidJobError
from windlass.client.submit import file_checks
from windlass.client.submit.file_checks import FileChecks
from windlass.jobfile.overrides import Overrides
from windlass.model.companions import PasswordFrom, password_source
from windlass.model.job import Job
from windlass.render import documents
from windlass.render.code import InPlace
from windlass.render.documents import Contents, Submission
from windlass.wire.yaml import text

NO_JOB = "it has no job, only other objects: create them with `windlass render` and `kubectl create`"
"""Error message for a file without a job, e.g. a config without a cluster."""

JobInput = Job | Mapping[str, Any] | str | Path


class Source(msgspec.Struct, frozen=True):
    contents: Contents
    folder: Path
    """Folder in which relative paths, e.g. `code`, are resolved."""

    def absolute(self, path: str) -> Path:
        return paths.absolute(path, self.folder)

    def code_of(self, submission: Submission) -> Path | None:
        """Return the path of a job's code; None if it has none. Raises InvalidJobError."""
        if not submission.code:
            return None
        return file_checks.code_path(submission.code, self.folder)


def in_place(code: Path) -> InPlace:
    """Return the code for tasks on this machine, which start in the folder of the code."""
    return InPlace(str(code if code.is_dir() else code.parent))


def read(job: JobInput, folder: str | Path | None = None) -> Source:
    """Read and check a job file, a Job or a mapping. Raises InvalidJobError."""
    if isinstance(job, str | Path):
        return read_file(Path(job), folder)
    try:
        data = msgspec.json.encode(job)
    except (TypeError, ValueError) as error:
        raise InvalidJobError(f"the job cannot be converted to JSON: {error}") from error
    return _checked(data, "job", Path(folder or "."))


def read_file(file: Path, folder: str | Path | None = None) -> Source:
    """Read and check a job file. Raises InvalidJobError."""
    return _checked(_read_bytes(file), str(file), Path(folder or file.parent))


def decode(
    data: bytes,
    name: str,
    folder: Path,
    namespace: str = "",
    overrides: Overrides = Overrides(),  # noqa: B008 — Overrides is frozen
    checks: FileChecks | None = None,
) -> Source:
    """Return a source that may have errors. `name` is the file name for messages.

    `namespace` is the namespace of jobs that do not set one, if it is known. `checks` are those of the files that jobs
    name. Raises InvalidJobError if a template cannot be read.
    """
    contents = documents.read(data, name, namespace, read_templates(data, folder), overrides, checks)
    return Source(contents, folder)


def decode_remote(data: bytes, name: str) -> Source:
    """Return a source from another machine, whose jobs read nothing of this one. It may have errors.

    Raises InvalidJobError for a job that names files or variables of the machine that submits it.
    """
    source = Source(documents.read(data, name), Path("/nonexistent"))
    for submission in source.contents.submissions:
        field = _local_field(submission)
        if field:
            raise InvalidJobError(
                f"{submission.name}: {field} is read on the machine that submits the job, which is not yours here. "
                f"Submit the file with `windlass submit`, or omit {field}."
            )
    return source


def _local_field(submission: Submission) -> str:
    """Return the first field that names a file or a variable of the submitting machine; empty if there is none."""
    job = submission.job
    if submission.code:
        return "code"
    if job is None:
        return ""
    if any(each.folder for each in job.load_data):
        return "loadData.folder"
    passwords = [password_source(each) for each in job.companions.values()]
    return "passwordFrom" if any(each.env or each.file for each in passwords) else ""


def load(file: str | Path) -> Job:
    """Return the job of a job file, to be inspected or changed before it is submitted. Its paths are made absolute.

    Raises InvalidJobError.
    """
    source = read_file(Path(file))
    submission, *more = source.contents.submissions
    if more or source.contents.extra_manifests or submission.job is None:
        raise InvalidJobError(f"{file}: expected one job and nothing else")
    job, replace = submission.job, msgspec.structs.replace
    companions = {
        companion.value: replace(spec, password_from=PasswordFrom(file=str(source.absolute(password.file))))
        for companion, spec in job.companions.items()
        if (password := password_source(spec)).file
    }
    load_data = tuple(
        replace(each, folder=str(source.absolute(each.folder))) if each.folder else each
        for each in job.load_data
    )
    return replace(job, code=str(source.code_of(submission) or ""), load_data=load_data, **companions)


def read_templates(data: bytes, folder: Path) -> dict[str, str]:
    """Return the texts of the existing files that a config imports, by path. Raises InvalidJobError."""
    files = {path: folder / path for path in documents.template_paths(data)}
    return {path: _read_template(folder, file) for path, file in files.items() if file.is_file()}


def _checked(data: bytes, name: str, folder: Path) -> Source:
    source = decode(data, name, folder, checks=FileChecks(folder))
    contents = source.contents
    if contents.errors:
        raise InvalidJobError("\n".join(map(str, contents.errors)), contents.errors)
    if not contents.submissions:
        raise InvalidJobError(f"{name}: {NO_JOB}")
    return source


def _read_template(folder: Path, file: Path) -> str:
    """Return the text of a template. Raise InvalidJobError for a link to a file outside the folder: its text would
    appear in the output."""
    target = file.resolve()
    if not target.is_relative_to(folder.resolve()):
        raise InvalidJobError(
            f"{file} is a link to {target}, which is outside the folder of the config: replace it with a copy"
        )
    try:
        return text.decode(_read_bytes(file))
    except text.ParseError as error:
        raise InvalidJobError(f"{file}:{error.diagnostic.line}:{error.diagnostic.column}: {error}") from error


def _read_bytes(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            # Reading is limited because the file may be endless.
            return stream.read(text.MAX_BYTES + 1)
    except OSError as error:
        raise InvalidJobError(f"{file}: cannot be read: {error.strerror or error}") from error
