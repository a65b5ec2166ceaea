"""Plan a run from the arguments of `windlass run`: the jobs of a file, a command, or only companions."""

import base64
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from windlass.cli import command_job, errors, fault_options, job_files, parameters
from windlass.cli.command_job import JobOptions
from windlass.cli.errors import CommandError
from windlass.cli.run_options import RunArguments
from windlass.client import paths
from windlass.client.errors import ClientError
from windlass.client.submit import plan as planner
from windlass.client.submit import shell_variables
from windlass.client.submit.plan import SubmitOptions, SubmitPlan, Target
from windlass.client.submit.sources import Source
from windlass.jobfile.overrides import Override, Overrides
from windlass.model import names
from windlass.model.base import Json
from windlass.render.documents import Contents
from windlass.runner import exit_codes, gpus, host_environment
from windlass.runner.local import data_folders

MAX_CONFIG_MAP_BYTES = 1024 * 1024

_is_valid_key = re.compile(r"[-._a-zA-Z0-9]{1,253}").fullmatch


def source(
    file: str | None,
    command: tuple[str, ...] = (),
    job_options: JobOptions | None = None,
    fake_gpus: int = 0,
    fields: tuple[Override, ...] = (),
    *,
    has_code: bool = True,
) -> tuple[Source, str]:
    """Return the decoded file or command, and its name for messages. With a file, `command` has the arguments to
    append. `has_code`: whether the code of jobs is used. Raises UsageError, CommandError and ClientError."""
    if command and file is None:
        if fields:
            raise click.UsageError(f"{fields[0].source} requires a job file: a command has no fields")
        return _command_source(command, job_options or JobOptions(), fake_gpus), "command"
    if file is None:
        raise click.UsageError("Missing argument 'FILE': a job file, a Framework, or a command after --")
    if job_options is not None and job_options.given_options:
        is_program = file.endswith(".py")
        advice = f"write `-- python {file}` at the end" if is_program else f"set it in {file} instead"
        raise click.UsageError(f"{job_options.given_options[0]} requires a command after --: {advice}")
    variables = tuple(map(parameters.env_override, job_options.env if job_options is not None else ()))
    changes = Overrides((*fields, *variables), command)
    source = job_files.source(file, names.DEFAULT_NAMESPACE, changes, is_in_place=True, has_code=has_code)
    return source, job_files.display_name(file)


def plan(
    named_source: tuple[Source, str],
    options: SubmitOptions,
    config_maps: tuple[str, ...],
    images: tuple[str, ...] = (),
    *,
    is_local: bool = False,
) -> SubmitPlan:
    """Plan a run on a cluster of this machine. `images` are the options `--image`; `is_local`: whether it runs on the
    cluster of `windlass local`. Raises UsageError and CommandError."""
    source, name = named_source
    target = Target(
        is_embedded=True,
        starts_in_folder=True,
        local_images=host_environment.bound_images(source, images, os.environ),
        shell=os.environ,
        programs=host_environment.program_variables(os.environ) if is_local else {},
    )
    try:
        planned = planner.plan(source, target, options)
    except ClientError as error:
        raise CommandError(f"{name}: {error}", exit_codes.USAGE) from error
    namespaces = tuple(dict.fromkeys(job.namespace for job in planned.jobs))
    return planned.with_manifests(
        [body for option in config_maps for body in _config_maps(option, namespaces)]
    )


def require_capacity(plan: SubmitPlan, arguments: RunArguments) -> None:
    """Raise CommandError if a task can never fit this machine."""
    # Imported here: the import is slow, and not needed for reporting an invalid file.
    from windlass.runner import capacity

    problems = capacity.problems(
        plan, data_folders.state_folder(os.environ), node_count=arguments.nodes, fake_gpus=arguments.fake_gpus
    )
    if problems:
        raise CommandError("\n".join(problems), exit_codes.USAGE)


def notes(source: Source, plan: SubmitPlan, *, is_verbose: bool) -> Iterator[str]:
    """Yield what the tasks get from the user's shell: another Python than Windlass's own, and variables."""
    yield from host_environment.notes(plan, os.environ)
    names_of_shell = dict.fromkeys(
        name
        for submission in source.contents.submissions
        if submission.job is not None
        for name in (*shell_variables.training_variables(os.environ), *submission.job.inherited)
        if name in os.environ
    )
    if is_verbose and names_of_shell:
        yield f"variables of the shell that tasks get: {', '.join(names_of_shell)}"


def companions_file(
    file: str | None, command: tuple[str, ...], job_options: JobOptions, arguments: RunArguments
) -> str:
    """Return the file. Raise UsageError if it is not given, or if a command or an option for a job is given."""
    job_arguments = {
        "a command after --": command,
        **dict.fromkeys(job_options.given_options, True),
        "--env": job_options.env,
        fault_options.OPTION: arguments.injected,
        "--logs": arguments.logs,
        "--report": arguments.report,
    }
    for name, is_set in job_arguments.items():
        if is_set:
            raise click.UsageError(f"--companions-only and {name} are mutually exclusive: no job is started")
    if file is None:
        raise click.UsageError("Missing argument 'FILE': a job file that has companions")
    return file


def _command_source(command: tuple[str, ...], job_options: JobOptions, fake_gpus: int) -> Source:
    folder = Path.cwd()
    missing = command_job.missing_script(command, folder)
    if missing is not None:
        raise CommandError(f"the script {missing} does not exist", exit_codes.USAGE)
    if command_job.lacks_interpreter(command, folder):
        raise CommandError(
            f"{command[0]} is not executable: start it with Python, `windlass run -- python {shlex.join(command)}`",
            exit_codes.USAGE,
        )
    missing_options = command_job.missing_options(command, folder)
    if missing_options:
        options = " ".join(f"'{option}'" for option in missing_options)
        click.echo(f"added the script's options for peer discovery: {options}", err=True)
        command = (*command, *missing_options)
    for warning in command_job.warnings(command, job_options, folder):
        click.echo(f"warning: {warning}", err=True)
    machine_gpus = gpus.by_resource(fake_gpus) if job_options.gpus else {}
    submission = command_job.submission(command, job_options, folder, machine_gpus)
    return Source(Contents((submission,), (), ()), folder)


def _config_maps(option: str, namespaces: tuple[str, ...]) -> list[Json]:
    """Return the ConfigMaps of an option `--config-map`, one for each namespace."""
    name, _, path = option.partition("=")
    if not name or not path:
        raise click.UsageError(f"--config-map: found {option!r}, expected NAME=PATH")
    try:
        expanded = paths.expanded(path)
        return [config_map(name, namespace, expanded) for namespace in namespaces]
    except OSError as error:
        raise click.UsageError(f"--config-map: {errors.os_error_message(error, path)}") from error
    except ValueError as error:
        raise click.UsageError(f"--config-map: {error}") from error


def config_map(name: str, namespace: str, path: Path) -> Json:
    """Return a ConfigMap with a file or the files of a directory, like `kubectl create configmap --from-file`.

    Raises OSError and ValueError.
    """
    candidates = [path] if path.is_file() else sorted(each for each in path.iterdir() if each.is_file())
    files = [file for file in candidates if _is_valid_key(file.name)]
    if not files:
        raise ValueError(f"{path} contains no file whose name is valid in a ConfigMap")
    # Checked before anything is read: the directory may contain training data.
    size = sum(file.stat().st_size for file in files)
    if size > MAX_CONFIG_MAP_BYTES:
        raise ValueError(
            f"{path} has {size} bytes, but a ConfigMap has at most {MAX_CONFIG_MAP_BYTES}: use a volume instead"
        )
    metadata = {"name": name, "namespace": namespace}
    body: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    for file in files:
        content = file.read_bytes()
        try:
            body.setdefault("data", {})[file.name] = content.decode()
        except UnicodeDecodeError:
            body.setdefault("binaryData", {})[file.name] = base64.b64encode(content).decode()
    return body
