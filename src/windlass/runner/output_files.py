"""Keep the output of the tasks of a run in files, because their logs are deleted with the cluster of the run."""

import contextlib
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from windlass.kubeapi import local_cluster
from windlass.localcluster.file_trees import remove
from windlass.localcluster.private_files import ForeignFileError, check, make_folder

MAX_KEPT_RUNS = 20
"""Number of runs whose output is kept."""
_TAIL_BYTES = 16 * 1024


def default_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder that keeps the output of tasks; None if the user has no home directory."""
    with contextlib.suppress(RuntimeError):
        return local_cluster.state_folder(environment) / "output"
    return None


def latest(parent: Path | None, name: str | None = None) -> Path | None:
    """Return the folder of the last run of a name, or of any name if it is None; None if there is none."""
    if parent is None:
        return None
    is_of_name = re.compile(rf"{'.+' if name is None else re.escape(name)}-[0-9a-f]{{4}}").fullmatch
    with contextlib.suppress(OSError):
        found = [each for each in parent.iterdir() if is_of_name(each.name)]
        return max(found, key=lambda each: each.stat().st_mtime, default=None)
    return None


class OutputFiles:
    """The files of one run: `NAME-ID/worker-0.log`, or `NAME-ID/JOB/worker-0.log` with several jobs.

    The folder is created with the first output. If a file cannot be written, e.g. because the disk is full, the rest of
    the output is not kept; the run continues.
    """

    def __init__(self, parent: Path | None, name: str) -> None:
        """`parent` is None to keep nothing."""
        self._parent = parent
        self._name = name
        self._folder: Path | None = None
        self._has_failed = False

    def write(self, task: str, data: bytes) -> None:
        """Append output to the file of a task."""
        if self._parent is None or self._has_failed:
            return
        try:
            if self._folder is None:
                self._folder = _create(self._parent, self._name)
            path = self._path(self._folder, task)
            if "/" in task:
                path.parent.mkdir(mode=0o700, exist_ok=True)
            with path.open("ab") as file:
                file.write(data)
        except (OSError, ForeignFileError):
            self._has_failed = True

    def last_lines(self, task: str) -> list[str]:
        """Return the last lines of a task; none if its output is not kept."""
        if self._folder is None:
            return []
        with contextlib.suppress(OSError), self._path(self._folder, task).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()
        return []

    def path_of(self, task: str) -> str:
        """Return the path of the file of a task, or of the folder if the task has none. Empty if nothing is kept."""
        if self._folder is None or self._has_failed:
            return ""
        path = self._path(self._folder, task)
        return str(path if task and path.exists() else self._folder)

    def _path(self, folder: Path, task: str) -> Path:
        return folder / f"{task}.log"


def _create(parent: Path, name: str) -> Path:
    """Create a folder for a run, and delete those of the oldest runs."""
    make_folder(parent)
    check(parent)
    old = sorted((each for each in parent.iterdir() if each.is_dir()), key=lambda each: each.stat().st_mtime)
    for each in old[: max(0, len(old) + 1 - MAX_KEPT_RUNS)]:
        with contextlib.suppress(OSError):
            remove(each)
    folder = parent / f"{name}-{secrets.token_hex(2)}"
    folder.mkdir(mode=0o700)
    return folder
