"""Convert a command to a job: `windlass run --ps 2 --workers 2 -- python train.py`."""

import contextlib
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
_MAX_BYTES = 1024 * 1024
"""Number of bytes at the beginning of a script that are inspected."""
_INTERPRETERS = re.compile(r"(python[0-9.]*|sh|bash|torchrun|mpirun|mpiexec|uv|run|env)$")
_ROLES = {"chief": "chief", "ps": "ps", "workers": "worker"}
"""Roles by the option that sets their number of tasks."""


class JobOptions(msgspec.Struct, frozen=True):
    """Options of `windlass run` that describe the job. They require a command."""

    name: str = ""
    runtime: Runtime | None = None
    numbers: Mapping[str, int] = {}
    """Numbers of tasks by option."""
    roles: tuple[str, ...] = ()
    """Additional roles and their numbers of tasks, as NAME=N."""
    env: tuple[str, ...] = ()
    """Environment variables, as NAME=VALUE."""
    has_barrier: bool = False

    @property
    def given_options(self) -> list[str]:
        """Names of the options that are set. They require a command."""
        options = {
            "--name": self.name,
            "--runtime": self.runtime is not None,
            **{f"--{option}": True for option in self.numbers},
            "--role": self.roles,
            "--env": self.env,
            "--barrier": self.has_barrier,
        }
        return [option for option, value in options.items() if value]


def submission(command: Sequence[str], options: JobOptions, folder: Path) -> Submission:
    """Return the job that runs the command in `folder`. Raises UsageError."""
    roles = _roles(options)
    job = Job(
        name=options.name or _name(command),
        runtime=options.runtime or _runtime(command, roles, folder),
        code=str(folder),
        command=tuple(command),
        roles={name: Role(tasks=tasks) for name, tasks in roles.items()},
        env=dict(_pair("--env", each, "NAME=VALUE") for each in options.env),
        barrier=options.has_barrier,
    )
    errors = [diagnostic for diagnostic in validation.diagnostics_of(job) if diagnostic.is_error]
    if errors:
        raise click.UsageError(f"{errors[0].path}: {errors[0].message}")
    return Submission(job=job)


def missing_script(command: Sequence[str], folder: Path) -> Path | None:
    """Return the path of the script if it does not exist; None if it exists or cannot be determined."""
    runs_script = len(command) > 1 and command[1].endswith(".py")
    if not runs_script or re.fullmatch(r"python[0-9.]*", PurePath(command[0]).name) is None:
        return None
    return None if (folder / command[1]).exists() else folder / command[1]


def _roles(options: JobOptions) -> dict[str, int]:
    roles = {role: options.numbers[option] for option, role in _ROLES.items() if option in options.numbers}
    for each in options.roles:
        name, number = _pair("--role", each, "NAME=N, e.g. evaluator=1")
        if not re.fullmatch("[0-9]{1,5}", number):
            raise click.UsageError(f"--role: found {each!r}, expected NAME=N, e.g. evaluator=1")
        roles[name] = int(number)
    needs_worker = not options.roles and not roles.keys() & {"chief", "worker"}
    return {**roles, "worker": 1} if needs_worker else roles


def _pair(option: str, text: str, expected: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f"{option}: found {text!r}, expected {expected}")
    return name, value


def _name(command: Sequence[str]) -> str:
    """Return a job name from the name of the script or the program, else `job`."""
    name = next((PurePath(word).stem for word in command if word.endswith((".py", ".sh"))), "")
    if not name:
        programs = (PurePath(word).name for word in command if not word.startswith("-"))
        name = next((program for program in programs if not _INTERPRETERS.match(program)), "")
    label = _INVALID_CHARACTERS.sub("-", name.lower())[:_MAX_NAME_LENGTH].strip("-")
    return label if re.match(names.DNS_LABEL_PATTERN, label) else "job"


def _runtime(command: Sequence[str], roles: Mapping[str, int], folder: Path) -> Runtime:
    if "ps" in roles:
        return Runtime.TENSORFLOW
    runtime = _hints(command, folder).runtime
    # With MPI, one task starts the processes of the others, so MPI is used only if --runtime requests it.
    return runtime if runtime is not None and runtime is not Runtime.MPI else Runtime.PLAIN


def missing_options(command: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return the options for peer discovery that the script defines and the command does not set, e.g.
    --ps_hosts=$(PS_HOSTS)."""

    def name(argument: str) -> str:
        return argument.partition("=")[0].lstrip("-")

    names_set = set(map(name, command))
    return tuple(each for each in _hints(command, folder).arguments if name(each) not in names_set)


def _hints(command: Sequence[str], folder: Path) -> Hints:
    """Return the hints in the first Python script of the command; none if it cannot be read: the command will report
    that error."""
    for script in [word for word in command if word.endswith(".py")][:1]:
        with contextlib.suppress(OSError), (folder / script).open("rb") as stream:
            return script_hints.inspect_script(stream.read(_MAX_BYTES))
    return Hints()
