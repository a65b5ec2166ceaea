"""What somebody hands in: a file, a Job, or a mapping. All of them are read as a file is, and checked as one is."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from windlass.client import paths
from windlass.client.errors import FaultyJobError
from windlass.client.submit import templates
from windlass.model.job import Job
from windlass.render import documents
from windlass.render.code import InPlace
from windlass.render.documents import Contents, Submission
from windlass.wire.yaml import text

NO_JOB = "there is no job in it, only objects: make them with `windlass render` and `kubectl create`"
"""Of a config without a cluster."""

Given = Job | Mapping[str, Any] | str | Path


class Source(msgspec.Struct, frozen=True):
    contents: Contents
    """Without errors."""
    folder: Path
    """To which a relative `code` is relative."""

    def code_of(self, submission: Submission) -> Path | None:
        """Where the code of a job is, if it has any. Raises FaultyJobError."""
        if not submission.code:
            return None
        # Links may be there on purpose, and stay.
        path = Path(os.path.abspath(self.folder / paths.expanded(submission.code)))  # noqa: PTH100
        if not path.exists():
            raise FaultyJobError(f"code: there is no {path}. Expected a folder, or one file.")
        return path


def in_place(code: Path) -> InPlace:
    """For tasks on this machine, which sees the same files: they start where it is."""
    return InPlace(str(code if code.is_dir() else code.parent))


def read(given: Given, folder: str | Path | None = None) -> Source:
    """Raises FaultyJobError."""
    if isinstance(given, str | Path):
        return of_file(Path(given), folder)
    try:
        data = msgspec.json.encode(given)
    except (TypeError, ValueError) as error:
        raise FaultyJobError(f"the job cannot be written as JSON: {error}") from error
    return of_bytes(data, "job", Path(folder or "."))


def of_file(file: Path, folder: str | Path | None = None) -> Source:
    """Raises FaultyJobError."""
    try:
        with file.open("rb") as stream:
            # No more than is taken, so that an endless file ends.
            data = stream.read(text.MOST_BYTES + 1)
    except OSError as error:
        raise FaultyJobError(f"{file}: cannot be read: {error.strerror or error}") from error
    return of_bytes(data, str(file), Path(folder or file.parent))


def of_bytes(data: bytes, called: str, folder: Path) -> Source:
    """Raises FaultyJobError."""
    contents = documents.read(data, called, templates=templates.beside(data, folder))
    if contents.errors:
        raise FaultyJobError("\n".join(map(str, contents.errors)), contents.errors)
    if not contents.submissions:
        raise FaultyJobError(f"{called}: {NO_JOB}")
    return Source(contents, folder)


def load(file: str | Path) -> Job:
    """The job of a job file, to be looked at or changed before it is submitted. Raises FaultyJobError.

    Its `code` is made absolute, so that it does not matter from where the job is submitted.
    """
    source = of_file(Path(file))
    submission, *more = source.contents.submissions
    if more or source.contents.others or submission.job is None:
        raise FaultyJobError(f"{file}: expected one job file and nothing else")
    job = submission.job
    return msgspec.structs.replace(job, code=str(source.code_of(submission) or ""))
