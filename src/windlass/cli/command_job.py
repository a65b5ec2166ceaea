"""Convert a command to a job: `windlass run --ps 2 --workers 2 -- python train.py`."""

import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

import click
import msgspec

from windlass.cli import script_arguments, script_hints
from windlass.cli.script_environment import Overwritten
from windlass.cli.script_hints import Hints
from windlass.model import names
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job, Role
from windlass.model.resources import NVIDIA_GPU, Gpus, Resources
from windlass.render import validation
from windlass.render.documents import Submission

_INVALID_CHARACTERS = re.compile(r"[^a-z0-9]+")
_MAX_NAME_LENGTH = 40
_MAX_BYTES = 1024 * 1024
"""Number of bytes at the beginning of a script that are inspected."""
_INTERPRETERS = re.compile(r"(python[0-9.]*|sh|bash|torchrun|mpirun|mpiexec|uv|run|env)$")
ALL_GPUS = -1
"""Value of `--gpus all`."""
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
    gpus: int | None = None
    """Number of GPUs per task, or ALL_GPUS."""
    cpus: str = ""
    memory: str = ""
    has_barrier: bool = False

    @property
    def given_options(self) -> list[str]:
        """Names of the options that are set and require a command."""
        options = {
            "--name": self.name,
            "--runtime": self.runtime is not None,
            **{f"--{option}": True for option in self.numbers},
            "--role": self.roles,
            "--gpus": self.gpus is not None,
            "--cpus": self.cpus,
            "--memory": self.memory,
            "--barrier": self.has_barrier,
        }
        return [option for option, value in options.items() if value]


def submission(
    command: Sequence[str], options: JobOptions, folder: Path, machine_gpus: Mapping[str, int] | None = None
) -> Submission:
    """Return the job that runs the command in `folder`. `machine_gpus` are the GPUs that tasks may use, by resource.
    Raises UsageError."""
    roles = _roles(options)
    job = Job(
        name=options.name or _name(command),
        runtime=options.runtime or _runtime(command, roles, folder),
        command=tuple(command),
        roles={
            name: Role(tasks=tasks, resources=_resources(name, roles, options, machine_gpus))
            for name, tasks in roles.items()
        },
        env=dict(_pair("--env", each, "NAME=VALUE") for each in options.env),
        barrier=options.has_barrier,
    )
    errors = [diagnostic for diagnostic in validation.diagnostics_of(job) if diagnostic.is_error]
    if errors:
        raise click.UsageError(f"{errors[0].path}: {errors[0].message}")
    return Submission(job=job)


def missing_script(command: Sequence[str], folder: Path) -> Path | None:
    """Return the path of the script if it does not exist; None if it exists or cannot be determined."""
    words = command[1:] if _is_python(command) else command
    script = words[0] if words and words[0].endswith(".py") else ""
    is_on_path = words is command and script and "/" not in script and shutil.which(script) is not None
    return None if not script or is_on_path or (folder / script).exists() else folder / script


def lacks_interpreter(command: Sequence[str], folder: Path) -> bool:
    """Return whether the command is a Python script in the folder that cannot be executed by itself."""
    script = command[0]
    if not script.endswith(".py") or not (folder / script).is_file():
        return False
    return not os.access(folder / script, os.X_OK) if "/" in script else shutil.which(script) is None


def _roles(options: JobOptions) -> dict[str, int]:
    roles = {role: options.numbers[option] for option, role in _ROLES.items() if option in options.numbers}
    for each in options.roles:
        name, number = _pair("--role", each, "NAME=N, e.g. evaluator=1")
        if not re.fullmatch("[0-9]{1,5}", number):
            raise click.UsageError(f"--role: found {each!r}, expected NAME=N, e.g. evaluator=1")
        roles[name] = int(number)
    needs_worker = not options.roles and not roles.keys() & {"chief", "worker"}
    return {**roles, "worker": 1} if needs_worker else roles


def _resources(
    role: str, roles: Mapping[str, int], options: JobOptions, machine_gpus: Mapping[str, int] | None
) -> Resources | None:
    """Return the resources of each task of a role. Parameter servers get no GPUs."""
    has_gpus = options.gpus is not None and role != "ps"
    gpus = _gpus(roles, options.gpus or 0, machine_gpus or {}) if has_gpus else 0
    if not (gpus or options.cpus or options.memory):
        return None
    return Resources(cpus=options.cpus or None, memory=options.memory or None, gpus=gpus)


def _gpus(roles: Mapping[str, int], number: int, machine_gpus: Mapping[str, int]) -> int | Gpus:
    """Return the GPUs of each task: a number or, with ALL_GPUS, an equal share of the machine's most frequent kind."""
    resource = max(machine_gpus, key=lambda name: machine_gpus[name], default=NVIDIA_GPU)
    if number == ALL_GPUS:
        tasks = sum(count for role, count in roles.items() if role != "ps")
        available = machine_gpus.get(resource, 0)
        number = available // tasks if tasks else 0
        if not number:
            raise click.UsageError(
                f"--gpus all: this machine has {available} GPUs, too few for {tasks} tasks that each need one: request "
                "fewer tasks, or leave out --gpus"
            )
    return number if resource == NVIDIA_GPU else Gpus(count=number, resource=resource)


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
    --ps_hosts=$(PS_HOSTS). None with a launcher such as torchrun, which sets the ranks of its processes."""
    if not _is_python(command):
        return ()

    def name(argument: str) -> str:
        return argument.partition("=")[0].lstrip("-")

    names_set = set(map(name, command))
    return tuple(each for each in _hints(command, folder).arguments if name(each) not in names_set)


def warnings(command: Sequence[str], options: JobOptions, folder: Path) -> Iterator[str]:
    """Yield why the tasks may not do what the user means, according to the script. `command` is that of each task."""
    hints, script = _hints(command, folder), _script(command)
    tasks = sum(_roles(options).values())
    if not script or not _is_python(command):
        return
    words = list(command)[list(command).index(script) + 1 :]
    missing = ", ".join(each.name for each in script_arguments.missing(hints.required, words))
    if missing:
        yield f"{script} requires arguments that the command lacks: {missing}"
    if tasks < 2 or hints.problem:
        return
    uses_peers = any("$(" in word for word in command)
    if hints.runtime is Runtime.MPI:
        yield (
            f"{script} uses MPI, and without mpirun its {tasks} tasks do not find each other: use `windlass run "
            f"--runtime mpi --role launcher=1 --workers {tasks} -- mpirun {shlex.join(command)}`"
        )
    elif not hints.is_distributed and not uses_peers:
        yield (
            f"{script} does not distribute its work: its {tasks} tasks do the same work, and overwrite each other's "
            "files. Use one task, or distribute the work, e.g. by the variable TASK_INDEX"
        )
    yield from (overwriting_message(script, each) for each in hints.overwritten)


def overwriting_message(script: str, overwritten: Overwritten) -> str:
    return (
        f"{script}:{overwritten.line} sets {overwritten.name}, which Windlass sets for each task: the tasks do not "
        "find each other. Set it only if it is missing, e.g. with os.environ.setdefault"
    )


def _is_python(command: Sequence[str]) -> bool:
    return re.fullmatch(r"python[0-9.]*", PurePath(command[0]).name) is not None


def _script(command: Sequence[str]) -> str:
    """Return the first Python script of the command; empty if there is none."""
    return next((word for word in command if word.endswith(".py")), "")


def _hints(command: Sequence[str], folder: Path) -> Hints:
    """Return the hints in the first Python script of the command; none if it cannot be read: the command will report
    that error."""
    path = folder / _script(command)
    if path != folder:
        with contextlib.suppress(OSError), path.open("rb") as stream:
            return script_hints.inspect_script(stream.read(_MAX_BYTES), path.parent)
    return Hints()
