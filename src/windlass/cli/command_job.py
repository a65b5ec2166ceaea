"""Convert a command to a job: `windlass run --ps 2 --workers 2 -- python train.py`."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

import click
import msgspec

from windlass.cli import script_hints
from windlass.cli.script_hints import Hints
from windlass.model import names
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job, Role
from windlass.render import validation
from windlass.render.documents import Submission

_INVALID_CHARACTERS = re.compile(r"[^a-z0-9]+")
_MAX_NAME_LENGTH = 40
_INTERPRETERS = re.compile(r"(python[0-9.]*|sh|bash|torchrun|mpirun|mpiexec|uv|run|env)$")
_ROLES = {"chief": "chief", "ps": "ps", "workers": "worker"}
"""Roles by the option that sets their number of tasks."""


class JobOptions(msgspec.Struct, frozen=True):
    """Options of the job, with a command."""

    name: str = ""
    runtime: Runtime | None = None
    numbers: Mapping[str, int] = {}
    """Numbers of tasks by option."""
    roles: tuple[str, ...] = ()
    """NAME=N."""
    env: tuple[str, ...] = ()
    """NAME=VALUE."""
    has_barrier: bool = False

    @property
    def given(self) -> list[str]:
        """Names of the given options that require a command."""
        options = {
            "--name": bool(self.name),
            "--runtime": self.runtime is not None,
            **{f"--{option}": True for option in self.numbers},
            "--role": bool(self.roles),
            "--env": bool(self.env),
            "--barrier": self.has_barrier,
        }
        return [option for option, is_given in options.items() if is_given]


def submission(words: Sequence[str], options: JobOptions, folder: Path) -> Submission:
    """Return the job that runs the command in `folder`. Raises UsageError."""
    roles = _roles(options)
    job = Job(
        name=options.name or _name(words),
        runtime=options.runtime or _runtime(words, roles, folder),
        code=str(folder),
        command=tuple(words),
        roles={name: Role(tasks=tasks) for name, tasks in roles.items()},
        env=dict(_pair("--env", each, "NAME=VALUE") for each in options.env),
        barrier=options.has_barrier,
    )
    errors = [diagnostic for diagnostic in validation.diagnostics_of(job) if diagnostic.is_error]
    if errors:
        raise click.UsageError(f"{errors[0].path}: {errors[0].message}")
    return Submission(job=job)


def missing_script(words: Sequence[str], folder: Path) -> Path | None:
    """Return the path of the script if it does not exist; None if it exists or cannot be determined."""
    is_a_script = len(words) > 1 and words[1].endswith(".py")
    is_certain = is_a_script and re.fullmatch(r"python[0-9.]*", PurePath(words[0]).name) is not None
    return folder / words[1] if is_certain and not (folder / words[1]).exists() else None


def _roles(options: JobOptions) -> dict[str, int]:
    roles = {role: options.numbers[option] for option, role in _ROLES.items() if option in options.numbers}
    for each in options.roles:
        name, number = _pair("--role", each, "NAME=N, e.g. evaluator=1")
        if not re.fullmatch("[0-9]{1,5}", number):
            raise click.UsageError(f"--role: found {each!r}, expected NAME=N, e.g. evaluator=1")
        roles[name] = int(number)
    has_workers = bool(options.roles) or roles.keys() & {"chief", "worker"}
    return roles if has_workers else {**roles, "worker": 1}


def _pair(option: str, written: str, expected: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not name or not equals:
        raise click.UsageError(f"{option}: found {written!r}, expected {expected}")
    return name, value


def _name(words: Sequence[str]) -> str:
    """Return a job name from the name of the script or the program."""
    meant = next((PurePath(word).stem for word in words if word.endswith((".py", ".sh"))), "")
    if not meant:
        plain = (PurePath(word).name for word in words if not word.startswith("-"))
        meant = next((word for word in plain if not _INTERPRETERS.match(word)), "")
    label = _INVALID_CHARACTERS.sub("-", meant.lower())[:_MAX_NAME_LENGTH].strip("-")
    return label if re.match(names.DNS_LABEL_PATTERN, label) else "job"


# Runtime

_MAX_BYTES = 1024 * 1024


def _runtime(words: Sequence[str], roles: Mapping[str, int], folder: Path) -> Runtime:
    if "ps" in roles:
        return Runtime.TENSORFLOW
    meant = _hints(words, folder).runtime
    # With MPI, one task starts the others. This is used only if it is requested with --runtime.
    return meant if meant is not None and meant is not Runtime.MPI else Runtime.PLAIN


def missing_options(words: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return the options for peers that the script has and the command does not set, e.g. --ps_hosts=$(PS_HOSTS)."""
    given = {word.partition("=")[0].lstrip("-") for word in words}
    wanted = _hints(words, folder).arguments
    return tuple(each for each in wanted if each.partition("=")[0].lstrip("-") not in given)


def _hints(words: Sequence[str], folder: Path) -> Hints:
    script = next((word for word in words if word.endswith(".py")), None)
    return script_hints.inspect_script(_beginning(folder / script)) if script is not None else Hints()


def _beginning(script: Path) -> bytes:
    """Return the first bytes of the script; none if it cannot be read, which the command itself will report."""
    try:
        with script.open("rb") as stream:
            return stream.read(_MAX_BYTES)
    except OSError:
        return b""
