"""A command as a job: `windlass run --ps 2 --workers 2 -- python train.py`."""

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

_NO_LABEL = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 40
_INTERPRETERS = re.compile(r"(python[0-9.]*|sh|bash|torchrun|mpirun|mpiexec|uv|run|env)$")
_ROLES = {"chief": "chief", "ps": "ps", "workers": "worker"}
"""Options, and the roles that they mean."""


class JobOptions(msgspec.Struct, frozen=True):
    """What the options say of the job."""

    name: str = ""
    runtime: Runtime | None = None
    numbers: Mapping[str, int] = {}
    """Of tasks, by the option's name."""
    roles: tuple[str, ...] = ()
    """NAME=N."""
    env: tuple[str, ...] = ()
    """NAME=VALUE."""
    has_barrier: bool = False

    @property
    def given(self) -> list[str]:
        """The options that only make sense for a command."""
        told = {
            "--name": bool(self.name),
            "--runtime": self.runtime is not None,
            **{f"--{option}": True for option in self.numbers},
            "--role": bool(self.roles),
            "--env": bool(self.env),
            "--barrier": self.has_barrier,
        }
        return [option for option, is_given in told.items() if is_given]


def submission(words: Sequence[str], options: JobOptions, folder: Path) -> Submission:
    """`folder` is where the command is meant to run. Raises UsageError."""
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
    errors = [fault for fault in validation.faults_of(job) if fault.is_error]
    if errors:
        raise click.UsageError(f"{errors[0].path}: {errors[0].message}")
    return Submission(job=job)


def missing(words: Sequence[str], folder: Path) -> Path | None:
    """The script, if it is certain which file is meant and it is not there: nothing need be started to see that."""
    is_a_script = len(words) > 1 and words[1].endswith(".py")
    is_certain = is_a_script and re.fullmatch(r"python[0-9.]*", PurePath(words[0]).name) is not None
    return folder / words[1] if is_certain and not (folder / words[1]).exists() else None


def _roles(options: JobOptions) -> dict[str, int]:
    roles = {role: options.numbers[option] for option, role in _ROLES.items() if option in options.numbers}
    for each in options.roles:
        name, number = _pair("--role", each, "NAME=N, such as evaluator=1")
        if not re.fullmatch("[0-9]{1,5}", number):
            raise click.UsageError(f"--role: found {each!r}, expected NAME=N, such as evaluator=1")
        roles[name] = int(number)
    is_anybody_told_to_work = bool(options.roles) or roles.keys() & {"chief", "worker"}
    return roles if is_anybody_told_to_work else {**roles, "worker": 1}


def _pair(option: str, written: str, expected: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not name or not equals:
        raise click.UsageError(f"{option}: found {written!r}, expected {expected}")
    return name, value


def _name(words: Sequence[str]) -> str:
    """Of the script, or of the program: as much of it as a name may be."""
    meant = next((PurePath(word).stem for word in words if word.endswith((".py", ".sh"))), "")
    if not meant:
        plain = (PurePath(word).name for word in words if not word.startswith("-"))
        meant = next((word for word in plain if not _INTERPRETERS.match(word)), "")
    label = _NO_LABEL.sub("-", meant.lower())[:_LONGEST_NAME].strip("-")
    return label if re.match(names.DNS_LABEL_PATTERN, label) else "job"


# Which runtime

_MOST_BYTES = 1024 * 1024


def _runtime(words: Sequence[str], roles: Mapping[str, int], folder: Path) -> Runtime:
    if "ps" in roles:
        return Runtime.TENSORFLOW
    meant = _hints(words, folder).runtime
    # Of MPI's tasks one is started, and starts the others: who wants that says so.
    return meant if meant is not None and meant is not Runtime.MPI else Runtime.PLAIN


def unanswered(words: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Options by which the script wants to be told of its peers, with what answers them, that the command does not
    give: --ps_hosts=$(PS_HOSTS) and the like."""
    given = {word.partition("=")[0].lstrip("-") for word in words}
    wanted = _hints(words, folder).arguments
    return tuple(each for each in wanted if each.partition("=")[0].lstrip("-") not in given)


def _hints(words: Sequence[str], folder: Path) -> Hints:
    script = next((word for word in words if word.endswith(".py")), None)
    return script_hints.inspect_script(_beginning(folder / script)) if script is not None else Hints()


def _beginning(script: Path) -> bytes:
    """What is not there, the command itself will say."""
    try:
        with script.open("rb") as stream:
            return stream.read(_MOST_BYTES)
    except OSError:
        return b""
