"""Check a job against the files of this machine: its code, the scripts of its commands and the folders to load.

`lint`, `run`, `submit`, `render` and the SDK use these checks. The plan of a submission uses `code_path` and
`code_archive` again.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath, PurePosixPath

import msgspec

from windlass.client import paths
from windlass.client.errors import ClientError, InvalidJobError
from windlass.jobfile import volumes
from windlass.model.job import Command, Job, Role
from windlass.render import code
from windlass.render.framework import pods
from windlass.render.validation import FileProblem
from windlass.wire import commands

_INTERPRETER = re.compile(r"(python[0-9.]*|torchrun|accelerate|deepspeed|horovodrun|mpirun|mpiexec|bash|sh)$")
_SCRIPT = re.compile(r"[\w./+-]+\.(?:py|sh)")
_PREPARATION = re.compile(r"\b(?:cd|git|curl|wget|cp|mv|ln|cat|tar|unzip|pip|pushd)\b|>")
"""Shell commands after which a file may be somewhere else, or exist."""
_SEPARATOR = re.compile(r"[;&|\n]+")


def code_path(written: str, folder: Path) -> Path:
    """Return the path of the code of a job file in `folder`. Raises InvalidJobError."""
    path = paths.absolute(written, folder)
    if not path.exists():
        raise InvalidJobError(f"code: {path} does not exist. Expected a folder or a file.")
    forbidden = {Path("/"): "the root folder", Path.home().resolve(): "your home folder"}
    name = forbidden.get(path.resolve())
    if name is not None:
        raise InvalidJobError(
            f"code: {path} is {name}, which is not code: move the job file and its scripts to a folder of their own, "
            "or name a single file, such as code: ./train.py"
        )
    return path


class FileChecks(msgspec.Struct, frozen=True):
    """The checks of the jobs of a file."""

    folder: Path
    """Folder of the file."""
    is_in_place: bool = False
    """Whether tasks run on this machine, and start in the folder of the job file if it has no code."""
    packs_code: bool = False
    """Whether to pack the code, in order to check its size."""
    has_code: bool = True
    """Whether the code is used. False if only companions are started."""

    def __call__(self, job: Job) -> Iterator[FileProblem]:
        for index, entry in enumerate(job.load_data):
            path = paths.absolute(entry.folder, self.folder)
            if entry.folder and not path.exists():
                message = f"{path} does not exist. Expected a folder or a file."
                yield FileProblem(("loadData", str(index), "folder"), message)
        if not self.has_code:
            return
        files: frozenset[str] | None = None
        try:
            if job.code:
                path = code_path(job.code, self.folder)
                files = self._packed_files(path)
        except ClientError as error:
            yield FileProblem(("code",), str(error).removeprefix("code: "))
            return
        yield from self._script_problems(job, files)

    def _packed_files(self, path: Path) -> frozenset[str] | None:
        """Return the names of the files that tasks get; None if tasks use the folder itself. Raises ClientError."""
        if self.is_in_place or not self.packs_code:
            return None
        # Imported here: the import is slow, and `windlass run` does not need it.
        from windlass.client.submit import code_archive

        code_archive.pack(path)
        return code_archive.file_names(path)

    def _script_problems(self, job: Job, files: frozenset[str] | None) -> Iterator[FileProblem]:
        """Yield a problem for each script that a command names and that is not there."""
        folder = paths.absolute(job.code, self.folder) if job.code else paths.absolute(".", self.folder)
        folder = folder.parent if folder.is_file() else folder
        reported: set[tuple[str, ...]] = set()
        for name, role in job.roles.items():
            command = pods.command_of(job, role)
            keys = ("roles", name, "command") if role.command is not None else ("command",)
            if (
                command is None
                or role.tasks == 0
                or keys in reported
                or _may_start_elsewhere(job, role, folder)
            ):
                continue
            reported.add(keys)
            for script in dict.fromkeys(scripts_of(command)):
                problem = self._script_problem(job, role, folder, script, files)
                if problem:
                    is_certain = self.is_in_place and not _needs_shell(command)
                    yield FileProblem(keys, problem, is_error=is_certain)

    def _script_problem(
        self, job: Job, role: Role, folder: Path, script: str, files: frozenset[str] | None
    ) -> str:
        """Return what is wrong with a script; empty if nothing is, or if the image may contain it."""
        exists = (folder / script).exists()
        if self.is_in_place:
            return "" if exists else f"there is no file {script} in {folder}, where the tasks start"
        if job.code:
            if exists and (files is None or PurePosixPath(script).as_posix() in files):
                return ""
            if exists:
                return f"{script} is not sent to the tasks: an ignore file in {folder} excludes it. Remove the pattern"
            return f"there is no file {script} in {folder}, the code of the job"
        if exists:
            return (
                f"{script} is next to the job file, but the job has no code: on Kubernetes, its tasks do not get the "
                "file. Add `code: .`"
            )
        if role.image or job.image:
            return ""
        return f"there is no file {script} in {folder}: add `code` with the folder that has it, or an image"


def scripts_of(command: Command) -> Iterator[str]:
    """Yield the relative paths of the scripts that a command runs, as far as they can be recognised."""
    text = command if isinstance(command, str) else shlex.join(command)
    words = list(command) if not isinstance(command, str) else []
    if words[:2] in (["sh", "-c"], ["bash", "-c"], ["/bin/sh", "-c"], ["/bin/bash", "-c"]) and len(words) > 2:
        text = words[2]
    if _PREPARATION.search(text):
        return
    for part in _SEPARATOR.split(text):
        try:
            script = _script_of(shlex.split(part))
        except ValueError:
            continue
        if script:
            yield script


def _script_of(words: Sequence[str]) -> str:
    """Return the script of a simple command: an argument of an interpreter, or the program itself."""
    if words and _is_relative_script(words[0]) and "/" in words[0]:
        return words[0]
    is_after_interpreter = False
    for word in words:
        if is_after_interpreter and _is_relative_script(word):
            return word
        if word in ("-m", "-c", "--module"):
            return ""
        is_after_interpreter = is_after_interpreter or bool(_INTERPRETER.match(PurePath(word).name))
    return ""


def _is_relative_script(word: str) -> bool:
    return _SCRIPT.fullmatch(word) is not None and not word.startswith(("/", "-", "~"))


def _needs_shell(command: Command) -> bool:
    arguments = commands.container_arguments(command)
    return PurePath(arguments[0]).name in ("sh", "bash")


def _may_start_elsewhere(job: Job, role: Role, folder: Path) -> bool:
    """Return whether `pod` sets the working directory, or a volume hides the files in it."""
    containers = [
        container
        for pod in (job.pod, role.pod)
        for container in (pod.get("spec") or {}).get("containers") or ()
        if isinstance(container, dict)
    ]
    mounts = [PurePosixPath(volumes.normalize(volume.at)) for volume in job.volumes.values()]
    starts = (PurePosixPath(code.FOLDER), PurePosixPath(folder))
    is_hidden = any(
        mount.is_relative_to(start) or start.is_relative_to(mount) for mount in mounts for start in starts
    )
    return is_hidden or any("workingDir" in container for container in containers)
