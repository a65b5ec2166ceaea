"""`windlass init`: write a job file, from options, from answers, and from what the script says, which is not run.

Or a template to begin with, as it is.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from windlass.cli import atomic_files, script_hints
from windlass.cli.errors import CommandError
from windlass.cli.script_hints import Hints
from windlass.jobfile import schema
from windlass.model.feature_annotations import Runtime
from windlass.render import templates
from windlass.runner import exit_codes
from windlass.wire.yaml import scalars

STDOUT = "-"
DEFAULT_FILE = "job.yaml"

_IMAGES = {
    Runtime.TENSORFLOW: "tensorflow/tensorflow:2.21.0",
    Runtime.PYTORCH: "pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime",
    Runtime.PLAIN: "python:3",
}
_TOLD = {
    Runtime.TENSORFLOW: "tasks are told of one another by TF_CONFIG, PS_HOSTS, WORKER_HOSTS",
    Runtime.PYTORCH: "tasks are told of one another by MASTER_ADDR, RANK, WORLD_SIZE",
    Runtime.JAX: "tasks are told of one another by JAX_COORDINATOR_ADDRESS, JAX_PROCESS_ID",
    Runtime.MPI: "mpirun finds the workers in a hostfile",
    Runtime.PLAIN: "tasks are told of one another by WORKER_HOSTS and nothing that a library takes for itself",
}
_DULL_NAMES = frozenset({"", "main", "run", "train", "src", "code", "app", "__main__"})
_LONGEST_NAME = 40
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9./_$](?:[\w./:=$(),@+-]| (?!#))*(?<![\s:])", re.ASCII)
_SSHD = "/usr/sbin/sshd -D"


class Plan(msgspec.Struct, frozen=True):
    """All that the file says."""

    name: str
    runtime: Runtime
    command: str
    code: str
    roles: dict[str, int]
    image: str = ""
    gpus: int = 0


class Wanted(msgspec.Struct, frozen=True):
    """What somebody said by options. None where they said nothing."""

    runtime: Runtime | None = None
    ps: int | None = None
    workers: int | None = None
    chief: int | None = None
    name: str | None = None
    image: str | None = None
    gpus: int | None = None

    @property
    def is_nothing(self) -> bool:
        return all(value is None for value in msgspec.structs.astuple(self))


_COUNT = click.IntRange(min=0)


@click.command()
@click.argument("script", metavar="[SCRIPT]", required=False)
@click.option(
    "--runtime",
    type=click.Choice([str(runtime) for runtime in Runtime]),
    help="Runtime of the script (default: by its imports).",
)
@click.option("--ps", type=_COUNT, metavar="N", help="Number of parameter servers.")
@click.option("--workers", type=_COUNT, metavar="N", help="Number of workers.")
@click.option("--chief", type=_COUNT, metavar="N", help="Number of chiefs.")
@click.option("--name", metavar="NAME", help="Name of the job (default: the name of the script).")
@click.option("--image", metavar="IMAGE", help="Container image for Kubernetes.")
@click.option("--gpus", type=_COUNT, metavar="N", help="Number of GPUs per worker or chief.")
@click.option(
    "--template",
    type=click.Choice([str(mode) for mode in templates.Mode]),
    help="Write a Jinja template for `windlass template` instead of a job file.",
)
@click.option(
    "--output-file",
    "--out",
    "-o",
    "out",
    metavar="FILE",
    help=f"Output file; - for standard output (default: {DEFAULT_FILE}, or the template's own name).",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--yes", "-y", is_flag=True, help="Do not prompt.")
def init(
    script: str | None,
    runtime: str | None,
    template: str | None,
    out: str | None,
    force: bool,
    yes: bool,
    **options: str | int | None,
) -> None:
    """Write a job file for SCRIPT.

    Values without an option are inferred from the script, which is read and not run. On a terminal, init prompts for
    confirmation.

    \b
        windlass init train.py
        windlass init --runtime tensorflow --ps 2 --workers 2 train.py
        windlass init -o - train.py               # print the job file
        windlass init --template single           # one TensorFlow task, for kubectl
    """
    known = Runtime(runtime) if runtime is not None else None
    wanted = msgspec.convert({"runtime": known, **options}, Wanted)
    if template is not None:
        if script is not None or not wanted.is_nothing:
            raise click.UsageError(
                "--template writes a template as it is: what a job is made of is edited in it"
            )
        _start_template(templates.Mode(template), out, may_replace=force)
        return
    out = out or DEFAULT_FILE
    target = Path(out)
    _insist_on_room(out, may_replace=force)
    hints = _hints(script)
    folder = target.parent if out != STDOUT else Path()
    plan = planned(wanted, hints, script, folder)
    is_asking = wanted.is_nothing and not yes and sys.stdin.isatty() and sys.stderr.isatty()
    if is_asking:
        plan = planned(_asked(plan), hints, script, folder)
    text = written(plan, out)
    _verify(text)
    _say(f"the job: {_in_words(plan)}")
    if out == STDOUT:
        click.echo(text, nl=False)
        return
    atomic_files.write(target, text, may_replace=force)
    _say(f"wrote {out}. Try it on this machine with: windlass run {shlex.quote(out)}")


def _insist_on_room(out: str, *, may_replace: bool) -> None:
    if out != STDOUT and not may_replace and Path(out).exists():
        raise CommandError(
            f"{out} is there already. Write to another file with -o, or replace it with --force.",
            exit_codes.USAGE,
        )


def _start_template(mode: templates.Mode, out: str | None, *, may_replace: bool) -> None:
    out = out or mode.file
    text = templates.starting(mode).decode()
    _insist_on_room(out, may_replace=may_replace)
    if out == STDOUT:
        click.echo(text, nl=False)
        return
    atomic_files.write(Path(out), text, may_replace=may_replace)
    numbers = " 1 2" if mode is templates.Mode.CLUSTER else ""
    command = f"windlass template {mode} {shlex.quote(out)} PROJECT{numbers} > job.yaml"
    _say(f"wrote {out}. Edit the lines that begin with set, then: {command}")


def _hints(script: str | None) -> Hints:
    if script is None:
        return Hints()
    path = Path(script)
    try:
        with path.open("rb") as stream:
            source = stream.read(script_hints.MAX_BYTES + 1)
    except IsADirectoryError as error:
        raise CommandError(
            f"{script} is a folder. Name the script in it that every task runs.", exit_codes.USAGE
        ) from error
    except OSError as error:
        raise CommandError(f"{script} cannot be read: {error.strerror or error}", exit_codes.USAGE) from error
    if path.suffix != ".py" and not source.startswith((b"#!/usr/bin/env python", b"#!/usr/bin/python")):
        _say(f"{script} is not a Python script: nothing is taken from it")
        return Hints()
    hints = script_hints.inspect_script(source)
    if hints.problem:
        _say(f"{script}: {hints.problem}; only its words were looked at")
    _say(
        f"{script} {_listed(hints.evidence)}"
        if hints.evidence
        else f"{script} does nothing that says how to run it"
    )
    if hints.runtime is not None and not hints.is_distributed:
        _say("nothing in it speaks to other processes, so there is one worker. More with --workers")
    return hints


def planned(wanted: Wanted, hints: Hints, script: str | None, folder: Path) -> Plan:
    """`folder` is where the job file will be: the code is named relative to it."""
    servers_are_wanted = bool(wanted.ps)
    runtime = wanted.runtime or (Runtime.TENSORFLOW if servers_are_wanted else hints.runtime) or Runtime.PLAIN
    code, file = _code(script, folder)
    gpus = wanted.gpus or 0
    return Plan(
        name=wanted.name if wanted.name is not None else _name(script),
        runtime=runtime,
        command=_command(file, runtime, hints, gpus),
        code=code,
        roles=_roles(wanted, runtime, hints),
        image=wanted.image if wanted.image is not None else _IMAGES.get(runtime, ""),
        gpus=gpus,
    )


def _roles(wanted: Wanted, runtime: Runtime, hints: Hints) -> dict[str, int]:
    workers = wanted.workers
    if workers is None:
        workers = 2 if hints.is_distributed or wanted.ps or runtime is Runtime.MPI else 1
    is_tensorflow = runtime is Runtime.TENSORFLOW
    ps = wanted.ps if wanted.ps is not None else int(hints.wants_servers and is_tensorflow)
    chief = wanted.chief if wanted.chief is not None else int(hints.wants_a_chief and is_tensorflow)
    roles = {"launcher": int(runtime is Runtime.MPI), "chief": chief, "ps": ps, "worker": workers}
    found = {role: tasks for role, tasks in roles.items() if tasks > 0}
    if not found or set(found) == {"ps"}:
        raise click.UsageError("nobody would train: ask for at least one of --workers and --chief")
    return found


def _code(script: str | None, folder: Path) -> tuple[str, str]:
    """The folder that travels with the job, and the script in it."""
    if script is None:
        return ".", "train.py"
    path = Path(script)
    code = os.path.relpath(path.resolve().parent, folder.resolve())
    return code if code.startswith(".") else f"./{code}", path.name


def _command(file: str, runtime: Runtime, hints: Hints, gpus: int) -> str:
    program = ["python3", file] if file.endswith(".py") else [f"./{file}"]
    if runtime is Runtime.PYTORCH and gpus > 1 and file.endswith(".py"):
        program = ["torchrun", f"--nproc-per-node={gpus}", file]
    arguments = hints.arguments if runtime is Runtime.TENSORFLOW else ()
    return " ".join((shlex.join(program), *arguments))


def _name(script: str | None) -> str:
    path = Path(script or "train.py").resolve()
    name = next((each for each in (path.stem, path.parent.name) if each not in _DULL_NAMES), "training")
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    # A Service is called the same, and its name begins with a letter.
    return label if label[:1].isalpha() else f"job-{label}".strip("-")


def _asked(plan: Plan) -> Wanted:
    """The few things that matter, each with what was found as the answer to take."""
    name = click.prompt("Name of the job", default=plan.name, err=True)
    runtimes = click.Choice([str(runtime) for runtime in Runtime])
    runtime = Runtime(click.prompt("Made with", default=str(plan.runtime), type=runtimes, err=True))
    ps = None
    if runtime is Runtime.TENSORFLOW:
        ps = click.prompt("Parameter servers", default=plan.roles.get("ps", 0), type=_COUNT, err=True)
    workers = click.prompt("Workers", default=plan.roles.get("worker", 1), type=_COUNT, err=True)
    gpus = click.prompt("GPUs of each worker", default=plan.gpus, type=_COUNT, err=True)
    return Wanted(runtime=runtime, ps=ps, workers=workers, name=name, gpus=gpus)


def written(plan: Plan, out: str) -> str:
    """The job file."""
    file = DEFAULT_FILE if out == STDOUT else out
    rows = [
        (f"name: {_text(plan.name)}", ""),
        (f"runtime: {plan.runtime}", _TOLD[plan.runtime]),
        _image_row(plan.image),
        (f"code: {_text(plan.code)}", "travels to every task: no image has to be built"),
    ]
    if plan.runtime is not Runtime.MPI:
        rows.append((f"command: {_text(plan.command)}", ""))
    rows += [("roles:", ""), *_role_rows(plan)]
    rows += [
        ('# env: {LEARNING_RATE: "0.001"}', ""),
        ("# volumes:", ""),
        ("#   data: {pvc: my-data, at: /data, readOnly: true}", "or nfs, cephfs, hostPath, emptyDir"),
        ("#   output: {pvc: my-output, at: /output}", ""),
        ("retry: {job: 3}", "all tasks begin anew when one has failed, at most so often"),
    ]
    head = [
        f"# yaml-language-server: $schema={_schema()}",
        f"# On this machine:   windlass run {file}",
        f"# On a Kubernetes:   windlass submit {file}",
    ]
    return "\n".join((*head, *(f"{text}  # {why}" if why else text for text, why in rows), ""))


def _schema() -> str:
    """Where editors of this machine find it."""
    return Path(schema.__file__).with_name(schema.FILE).as_uri()


def _image_row(image: str) -> tuple[str, str]:
    why = "for a Kubernetes; windlass run takes the programs of this machine"
    return (f"image: {_text(image)}", why) if image else ("# image: registry.example/my-image", why)


def _role_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """The tasks that hold what others train have no GPU."""
    leader = next(role for role in ("launcher", "chief", "worker") if role in plan.roles)
    for role, tasks in plan.roles.items():
        why = _MEANINGS[role] if role != leader else "the job has succeeded when they have, all of them"
        yield f"  {role}:", ""
        yield f"    tasks: {tasks}", why
        if plan.runtime is Runtime.MPI:
            is_leading = role == "launcher"
            command = f"mpirun {plan.command}" if is_leading else _SSHD
            yield f"    command: {_text(command)}", "" if is_leading else "mpirun reaches them by ssh"
        if role in ("worker", "chief"):
            some = f"    resources: {{gpus: {plan.gpus}}}"
            yield (
                (some, "of each task")
                if plan.gpus
                else ("    # resources: {cpus: 2, memory: 8Gi, gpus: 1}", "")
            )


_MEANINGS = {
    "launcher": "runs mpirun",
    "chief": "drives the others",
    "ps": "hold the variables, and never end by themselves",
    "worker": "do what the others ask, until the job ends",
}


def _verify(text: str) -> None:
    """What somebody said by options may make no job: lint says why."""
    from windlass.render import documents

    errors = documents.read(text.encode(), DEFAULT_FILE).errors
    if errors:
        raise click.UsageError(f"this makes no job: {errors[0].path}: {errors[0].message}")


def _text(text: str) -> str:
    """As YAML has it: in quotes where it would mean something else without."""
    is_plain = _PLAIN_TEXT.fullmatch(text) is not None and ": " not in text and scalars.is_string(text)
    return text if is_plain else msgspec.json.encode(text).decode()


def _in_words(plan: Plan) -> str:
    roles = ", ".join(f"{tasks} {role}" for role, tasks in plan.roles.items())
    return f"{plan.name}, {plan.runtime}, {roles}"


def _listed(phrases: tuple[str, ...]) -> str:
    return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def _say(message: str) -> None:
    click.echo(message, err=True)
