"""The command `windlass init`: write a job file from options, prompts and the script, or write an example template."""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from windlass.cli import atomic_files, command_job, script_hints
from windlass.cli.errors import CommandError
from windlass.cli.script_hints import Hints
from windlass.jobfile import schema
from windlass.model import verdict
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
_DISCOVERY = {
    Runtime.TENSORFLOW: "tasks find each other by TF_CONFIG, PS_HOSTS, WORKER_HOSTS",
    Runtime.PYTORCH: "tasks find each other by MASTER_ADDR, RANK, WORLD_SIZE",
    Runtime.JAX: "tasks find each other by JAX_COORDINATOR_ADDRESS, JAX_PROCESS_ID",
    Runtime.MPI: "mpirun finds the workers in a hostfile",
    Runtime.PLAIN: "tasks find each other by WORKER_HOSTS; no library-specific variables",
}
_GENERIC_NAMES = frozenset({"", "main", "run", "train", "src", "code", "app", "__main__"})
_MAX_NAME_LENGTH = 40
_SCHEMA_FILE = ".windlass.schema.json"
"""The schema next to the job file: a path that is valid on every machine with a copy of the folder."""
_PLAIN_SCALAR = re.compile(r"[A-Za-z0-9./_$](?:[\w./:=$(),@+-]| (?!#))*(?<![\s:])", re.ASCII)


class JobDraft(msgspec.Struct, frozen=True):
    """The contents of the job file."""

    name: str
    runtime: Runtime
    command: str
    code: str
    roles: dict[str, int]
    image: str = ""
    gpus: int = 0


class InitOptions(msgspec.Struct, frozen=True):
    """Values of options and answers; None if not given."""

    runtime: Runtime | None = None
    ps: int | None = None
    workers: int | None = None
    chief: int | None = None
    name: str | None = None
    image: str | None = None
    gpus: int | None = None

    @property
    def is_empty(self) -> bool:
        return all(value is None for value in msgspec.structs.astuple(self))


_COUNT = click.IntRange(min=0)


@click.command()
@click.argument("script", metavar="[SCRIPT]", required=False)
@click.option(
    "--runtime",
    type=click.Choice([str(runtime) for runtime in Runtime]),
    help="Runtime of the script (default: tensorflow with --ps, else inferred from the script).",
)
@click.option("--ps", type=_COUNT, metavar="N", help="Number of parameter servers.")
@click.option("--workers", type=_COUNT, metavar="N", help="Number of workers.")
@click.option("--chief", type=_COUNT, metavar="N", help="Number of chiefs.")
@click.option("--name", metavar="NAME", help="Name of the job (default: from the path of the script).")
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
    **values: str | int | None,
) -> None:
    """Write a job file for SCRIPT.

    Values without an option are inferred from the script, which is read and not run, or have defaults. On a terminal,
    if no option sets a value of the job, init prompts for the most important values.

    \b
        windlass init train.py
        windlass init --runtime tensorflow --ps 2 --workers 2 train.py
        windlass init -o - train.py               # print the job file
        windlass init --template single           # one TensorFlow task, for kubectl
    """
    options = msgspec.convert({"runtime": runtime, **values}, InitOptions)
    if template is not None:
        if script is not None or not options.is_empty:
            raise click.UsageError(
                "--template cannot be combined with SCRIPT or options of the job: edit the template instead"
            )
        _write_template(templates.Mode(template), out, may_replace=force)
        return
    out = out or DEFAULT_FILE
    target = Path(out)
    _require_free_path(out, may_replace=force)
    hints = _hints(script)
    folder = target.parent if out != STDOUT else Path()
    draft = draft_job(options, hints, script, folder)
    if options.is_empty and not yes and sys.stdin.isatty() and sys.stderr.isatty():
        draft = draft_job(_prompt(draft), hints, script, folder)
    text = job_file_text(draft, out)
    _require_valid(text)
    for warning in _warnings(hints, draft, script) if script is not None and script.endswith(".py") else ():
        _print(f"warning: {warning}")
    roles = ", ".join(verdict.count(role, tasks) for role, tasks in draft.roles.items())
    _print(f"the job: {draft.name}, {draft.runtime}, {roles}")
    if out == STDOUT:
        click.echo(text, nl=False)
        return
    atomic_files.write(target, text, may_replace=force)
    _write_schema(target.parent)
    _print(f"wrote {out}. Run it on this machine with: windlass run {shlex.quote(out)}")


def _write_schema(folder: Path) -> None:
    """Write the schema next to the job file, for editors. It is not part of the code that is sent to tasks."""
    try:
        atomic_files.create(folder / _SCHEMA_FILE, schema.read_published(), may_replace=True)
    except OSError as error:
        raise CommandError(f"cannot write {folder / _SCHEMA_FILE}: {error.strerror or error}") from error


def _require_free_path(out: str, *, may_replace: bool) -> None:
    if out != STDOUT and not may_replace and Path(out).exists():
        raise CommandError(
            f"{out} already exists. Choose another file with -o, or replace it with --force.",
            exit_codes.USAGE,
        )


def _write_template(mode: templates.Mode, out: str | None, *, may_replace: bool) -> None:
    out = out or mode.file
    text = templates.shipped_template(mode).decode()
    _require_free_path(out, may_replace=may_replace)
    if out == STDOUT:
        click.echo(text, nl=False)
        return
    atomic_files.write(Path(out), text, may_replace=may_replace)
    numbers = " 1 2" if mode is templates.Mode.CLUSTER else ""
    command = f"windlass template {mode} {shlex.quote(out)} PROJECT{numbers} > job.yaml"
    _print(f"wrote {out}. Edit the values of the {{% set %}} lines, then run: {command}")


def _hints(script: str | None) -> Hints:
    if script is None:
        return Hints()
    path = Path(script)
    try:
        with path.open("rb") as stream:
            source = stream.read(script_hints.MAX_BYTES + 1)
    except IsADirectoryError as error:
        raise CommandError(
            f"{script} is a directory. Give the script in it that every task runs.", exit_codes.USAGE
        ) from error
    except FileNotFoundError as error:
        raise CommandError(
            f"the script {script} does not exist. Check its path, or write a job file without it: `windlass init`.",
            exit_codes.USAGE,
        ) from error
    except OSError as error:
        raise CommandError(f"cannot read {script}: {error.strerror or error}", exit_codes.USAGE) from error
    if path.suffix != ".py" and not source.startswith((b"#!/usr/bin/env python", b"#!/usr/bin/python")):
        _print(f"{script} is not a Python script and was not inspected")
        return Hints()
    hints = script_hints.inspect_script(source, path.parent)
    if hints.problem:
        _print(f"{script}: {hints.problem}")
    *phrases, last = hints.evidence or ("contains no hints about how to run it",)
    _print(f"{script} {', '.join(phrases)} and {last}" if phrases else f"{script} {last}")
    return hints


def _warnings(hints: Hints, draft: "JobDraft", script: str) -> Iterator[str]:
    """Yield what the user has to change in the script or the job file."""
    missing = ", ".join(each.name for each in hints.required)
    if missing:
        yield f"{script} requires arguments: add {missing} to the command in the job file"
    tasks = sum(tasks for role, tasks in draft.roles.items() if role != "launcher")
    if not hints.is_distributed and not hints.problem:
        copies = (
            f"its {tasks} tasks do the same work, and overwrite each other's files"
            if tasks > 1
            else ("more tasks would do the same work, and overwrite each other's files")
        )
        yield f"{script} does not distribute its work: {copies}"
    yield from (command_job.overwriting_message(script, each) for each in hints.overwritten)


def draft_job(options: InitOptions, hints: Hints, script: str | None, folder: Path) -> JobDraft:
    """Combine options and hints. `folder` contains the job file: the path of the code is relative to it."""
    runtime = options.runtime or (Runtime.TENSORFLOW if options.ps else hints.runtime) or Runtime.PLAIN
    code, file = _code(script, folder)
    gpus = options.gpus or 0
    return JobDraft(
        name=options.name if options.name is not None else _name(script),
        runtime=runtime,
        command=_command(file, runtime, hints, gpus),
        code=code,
        roles=_roles(options, runtime, hints),
        image=options.image if options.image is not None else _IMAGES.get(runtime, ""),
        gpus=gpus,
    )


def _roles(options: InitOptions, runtime: Runtime, hints: Hints) -> dict[str, int]:
    workers = options.workers
    if workers is None:
        workers = 2 if hints.is_distributed or options.ps or runtime is Runtime.MPI else 1
    is_tensorflow = runtime is Runtime.TENSORFLOW
    ps = options.ps if options.ps is not None else int(hints.uses_servers and is_tensorflow)
    chief = options.chief if options.chief is not None else int(hints.has_chief and is_tensorflow)
    roles = {"launcher": int(runtime is Runtime.MPI), "chief": chief, "ps": ps, "worker": workers}
    found = {role: tasks for role, tasks in roles.items() if tasks > 0}
    if not found or set(found) == {"ps"}:
        raise click.UsageError("no task would train: set --workers or --chief to at least 1")
    return found


def _code(script: str | None, folder: Path) -> tuple[str, str]:
    """Return the code directory of the job, and the script in it."""
    if script is None:
        return ".", "train.py"
    path = Path(script)
    # A home folder is not sent to tasks, but a single file in it is.
    is_in_home = path.resolve().parent in (Path.home().resolve(), Path("/"))
    code = os.path.relpath(path.resolve() if is_in_home else path.resolve().parent, folder.resolve())
    return code if code.startswith(".") else f"./{code}", path.name


def _command(file: str, runtime: Runtime, hints: Hints, gpus: int) -> str:
    program = ["python3", file] if file.endswith(".py") else [f"./{file}"]
    if runtime is Runtime.PYTORCH and gpus > 1 and file.endswith(".py"):
        program = ["torchrun", f"--nproc-per-node={gpus}", file]
    sets_ranks = program[0] == "torchrun" or runtime is not hints.runtime
    return " ".join((shlex.join(program), *(() if sets_ranks else hints.arguments)))


def _name(script: str | None) -> str:
    path = Path(script or "train.py").resolve()
    name = next((each for each in (path.stem, path.parent.name) if each not in _GENERIC_NAMES), "training")
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_MAX_NAME_LENGTH].strip("-")
    # The Service of the job has the same name, which must start with a letter.
    return label if label[:1].isalpha() else f"job-{label}".strip("-")


def _prompt(draft: JobDraft) -> InitOptions:
    """Prompt for the most important values, with those of the draft as defaults."""
    name = click.prompt("Name of the job", default=draft.name, err=True)
    runtimes = click.Choice([str(runtime) for runtime in Runtime])
    runtime = Runtime(click.prompt("Runtime", default=str(draft.runtime), type=runtimes, err=True))
    ps = None
    if runtime is Runtime.TENSORFLOW:
        ps = click.prompt("Parameter servers", default=draft.roles.get("ps", 0), type=_COUNT, err=True)
    workers = click.prompt("Workers", default=draft.roles.get("worker", 1), type=_COUNT, err=True)
    gpus = click.prompt("GPUs per worker", default=draft.gpus, type=_COUNT, err=True)
    return InitOptions(runtime=runtime, ps=ps, workers=workers, name=name, gpus=gpus)


def job_file_text(draft: JobDraft, out: str) -> str:
    """Return the text of the job file."""
    file = DEFAULT_FILE if out == STDOUT else out
    image = f"image: {_yaml_scalar(draft.image)}" if draft.image else "# image: registry.example/my-image"
    rows = [
        (f"name: {_yaml_scalar(draft.name)}", ""),
        (f"runtime: {draft.runtime}", _DISCOVERY[draft.runtime]),
        (image, "for Kubernetes; windlass run uses the programs of this machine"),
        (f"code: {_yaml_scalar(draft.code)}", "uploaded to every task, no image build needed"),
    ]
    if draft.runtime is not Runtime.MPI:
        rows.append((f"command: {_yaml_scalar(draft.command)}", ""))
    rows += [("roles:", ""), *_role_rows(draft)]
    rows += [
        ('# env: {LEARNING_RATE: "0.001"}', ""),
        ("# volumes:", ""),
        ("#   data: {pvc: my-data, at: /data, readOnly: true}", "or nfs, cephfs, hostPath, emptyDir"),
        ("#   output: {pvc: my-output, at: /output}", ""),
        ("# retry: {job: 3}", "restart all tasks when one has failed, at most 3 times"),
    ]
    head = [
        *([f"# yaml-language-server: $schema={_SCHEMA_FILE}"] if out != STDOUT else ()),
        f"# On this machine:   windlass run {file}",
        f"# On Kubernetes:     windlass submit {file}",
    ]
    return "\n".join((*head, *(f"{text}  # {comment}" if comment else text for text, comment in rows), ""))


def _role_rows(draft: JobDraft) -> Iterator[tuple[str, str]]:
    """Yield the lines of the roles with comments. Only workers and chiefs get GPUs."""
    deciding_role = next(role for role in ("launcher", "chief", "worker") if role in draft.roles)
    for role, tasks in draft.roles.items():
        comment = (
            _ROLE_COMMENTS[role]
            if role != deciding_role
            else "the job succeeds when all of them have succeeded"
        )
        yield f"  {role}:", ""
        yield f"    tasks: {tasks}", comment
        if role == "launcher":
            yield f"    command: {_yaml_scalar(f'mpirun {draft.command}')}", ""
        if role in ("worker", "chief"):
            if draft.gpus:
                yield f"    resources: {{gpus: {draft.gpus}}}", "per task"
            else:
                yield "    # resources: {gpus: 1}", "GPUs per task; also cpus: 2 and memory: 8Gi"


_ROLE_COMMENTS = {
    "launcher": "runs mpirun",
    "chief": "coordinates the other tasks",
    "ps": "parameter servers, which run until the job ends",
    "worker": "run the operations of the other tasks until the job ends",
}


def _require_valid(text: str) -> None:
    """Raise UsageError if the options result in an invalid job."""
    from windlass.render import documents

    errors = documents.read(text.encode(), DEFAULT_FILE).errors
    if errors:
        raise click.UsageError(
            f"these options result in an invalid job: {errors[0].path}: {errors[0].message}"
        )


def _yaml_scalar(text: str) -> str:
    """Return the text as YAML, quoted if necessary."""
    is_plain = _PLAIN_SCALAR.fullmatch(text) is not None and ": " not in text and scalars.is_string(text)
    return text if is_plain else msgspec.json.encode(text).decode()


def _print(message: str) -> None:
    click.echo(message, err=True)
