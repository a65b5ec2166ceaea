"""`windlass run`: run jobs on a temporary cluster, and return an exit code. `windlass.runner` implements it."""

import asyncio
import contextlib
import logging
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass.cli import cluster_options, errors, fault_options, parameters, run_options, run_request
from windlass.cli.command_job import JobOptions
from windlass.cli.errors import CommandError
from windlass.cli.run_options import RunArguments
from windlass.cli.terminal import colours
from windlass.client import paths
from windlass.client.submit.plan import SubmitOptions, SubmitPlan
from windlass.localcluster.kubelet.images import FILE as IMAGES
from windlass.localcluster.kubelet.images import Images
from windlass.model import names
from windlass.model.companions import Companion
from windlass.model.settings import LogFormat, LogLevel
from windlass.runner import exit_codes, interrupts
from windlass.runner.local import data_folders, process, records
from windlass.runner.local.process import DaemonError
from windlass.runner.local.records import DaemonOptions, Record
from windlass.runner.options import ForwardOptions, RunOptions

if TYPE_CHECKING:
    from windlass.runner.report import Reporter


class OutputMode(StrEnum):
    LIVE = "live"
    TEXT = "text"
    JSON = "json"


@click.command(
    cls=run_options.WithCommand,
    epilog="The exit code is 0 if all jobs succeeded, otherwise that of the first job in the file that failed: its "
    "completion code if that is between 1 and 255, else 125. It is 1 if a prerequisite fails, 2 for an invalid file or "
    "command line, 124 after a timeout or if the cluster fails, and 130 after Ctrl-C. With --output json, the "
    "last line of each job has the exact completion code.",
)
@run_options.add_options
def run(file: str | None, command: tuple[str, ...], job_options: JobOptions, **options: Any) -> None:
    """Run the jobs in FILE, or a command, on a temporary cluster on this machine.

    FILE is YAML or JSON and contains job files or Frameworks and the objects they need, e.g. ConfigMaps and Services.
    If FILE is -, it is read from standard input. ARGUMENTS are appended to the command of the job. Without FILE,
    COMMAND becomes a job in which every task runs it:

    \b
        windlass run job.yaml
        windlass run job.yaml -- --steps 5
        windlass run --set roles.worker.tasks=4 --env LR=0.1 job.yaml
        windlass run --ps 2 --workers 2 -- python train.py
        windlass run --inject 'kill worker-1 after 5s' job.yaml
        windlass run --companions-only job.yaml

    On a terminal, a live table shows the status of each task; --logs shows their log lines instead. The first Ctrl-C
    stops the jobs gracefully, the second one immediately.

    The companions of a job (TensorBoard, Jupyter, hub) start with it and are reachable on local ports. They end with
    the run; a companion with `keep: true` keeps the run open until Ctrl-C.
    """
    arguments = RunArguments(**options)
    if arguments.companions_only:
        file = run_request.companions_file(file, command, job_options, arguments)
        sys.exit(run_companions(file, arguments))
    seconds = parameters.preflight_seconds(arguments.preflight_timeout, is_skipped=arguments.no_preflight)
    source = run_request.source(file, command, job_options, arguments.fake_gpus, arguments.fields)
    submit_options = SubmitOptions(preflight_seconds=seconds)
    plan = run_request.plan(
        source, submit_options, arguments.config_maps, arguments.images, is_local=arguments.is_local
    )
    run_request.require_capacity(plan, arguments)
    for note in run_request.notes(source[0], plan, is_verbose=arguments.verbose):
        click.echo(note, err=True)
    run_settings = RunOptions(
        nodes=arguments.nodes,
        network=arguments.network,
        fake_gpus=arguments.fake_gpus,
        timeout=arguments.timeout,
        reads_logs=arguments.logs is not False,
        outputs=_outputs_folder(),
        report=_report_file(arguments.report),
        is_verbose=arguments.verbose,
        injections=fault_options.parse(arguments.injected, [job.roles for job in plan.jobs]),
    )
    mode = output_mode(arguments, is_terminal=sys.stdout.isatty(), environment=os.environ)
    sys.exit(_run(plan, run_settings, arguments, mode))


def output_mode(arguments: RunArguments, *, is_terminal: bool, environment: Mapping[str, str]) -> OutputMode:
    if arguments.output == OutputMode.JSON:
        return OutputMode.JSON
    wants_lines = arguments.logs is True or arguments.verbose
    can_draw = _can_draw(environment, is_terminal=is_terminal)
    return OutputMode.LIVE if can_draw and not wants_lines else OutputMode.TEXT


def _can_draw(environment: Mapping[str, str], *, is_terminal: bool) -> bool:
    return is_terminal and environment.get("TERM", "") not in ("", "dumb")


def run_companions(
    file: str,
    arguments: RunArguments,
    companions: tuple[Companion, ...] = tuple(Companion),
    forward: ForwardOptions = ForwardOptions(),  # noqa: B008 — ForwardOptions is frozen
) -> int:
    """Run companions of the jobs in a file until Ctrl-C, and return the exit code.

    `arguments.timeout` is the time limit until the companions are ready.
    """
    options = SubmitOptions(preflight_seconds=None, companions=companions, companions_only=True)
    source = run_request.source(file, fields=arguments.fields, has_code=False)
    plan = run_request.plan(source, options, arguments.config_maps)
    run_settings = RunOptions(
        nodes=arguments.nodes,
        network=arguments.network,
        fake_gpus=arguments.fake_gpus,
        timeout=arguments.timeout,
        is_verbose=arguments.verbose,
        forward=forward,
    )
    # The live table is not used, since there are no tasks.
    return _run(plan, run_settings, arguments, OutputMode(arguments.output))


def _run(plan: SubmitPlan, options: RunOptions, arguments: RunArguments, mode: OutputMode) -> int:
    if arguments.verbose:
        from windlass.controller.observe import logs

        logs.configure(LogFormat.TEXT, LogLevel.INFO, sys.stderr)
    else:
        # Without a handler, Python prints logged warnings to stderr.
        logging.getLogger().addHandler(logging.NullHandler())
    if arguments.keep and arguments.is_local:
        raise click.UsageError(
            "--keep and --local are mutually exclusive: the cluster of --local is kept anyway"
        )
    if options.injections and (arguments.keep or arguments.is_local):
        option = "--keep" if arguments.keep else "--local"
        raise click.UsageError(
            f"{fault_options.OPTION} and {option} are mutually exclusive: with {option}, the cluster runs in a "
            "separate process"
        )
    run_plan = _run_on_kept_cluster if arguments.keep else _run_on_temporary_cluster
    run_plan = _run_on_local_cluster if arguments.is_local else run_plan
    with interrupts.as_keyboard_interrupts():
        return run_plan(plan, options, arguments, mode)


def _run_on_temporary_cluster(
    plan: SubmitPlan, options: RunOptions, arguments: RunArguments, mode: OutputMode
) -> int:
    with contextlib.ExitStack() as stack:
        with _runs_folder() as runs:
            try:
                data = stack.enter_context(data_folders.temporary_run_folder(runs))
            except data_folders.ForeignFileError:
                # E.g. root in a container whose home folder belongs to another user.
                private = stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-"))
                data = stack.enter_context(data_folders.temporary_run_folder(Path(private)))
        _bind_images(data, arguments.images)
        # Imported here: the import is slow, and not needed for reporting an invalid file.
        from windlass.runner import run as runner_run

        reporter = new_reporter(plan, mode, arguments)
        return _run_and_finish(reporter, lambda: runner_run.run(plan, options, data, reporter))


def _run_on_kept_cluster(
    plan: SubmitPlan, options: RunOptions, arguments: RunArguments, mode: OutputMode
) -> int:
    with _runs_folder() as runs:
        data = data_folders.create_kept_folder(runs)
    try:
        _bind_images(data, arguments.images)
    except (click.UsageError, OSError):
        data_folders.remove(data)
        raise
    try:
        daemon_options = DaemonOptions(
            data, nodes=options.nodes, network=options.network, fake_gpus=options.fake_gpus
        )
        record = process.start_or_clean_up(daemon_options)
    except DaemonError as error:
        raise CommandError(str(error), exit_codes.TIMED_OUT) from error
    from windlass.runner import run as runner_run

    try:
        reporter = new_reporter(plan, mode, arguments)
        return _run_and_finish(
            reporter, lambda: runner_run.run_on_daemon(plan, options, data, record, reporter)
        )
    finally:
        click.echo("\n".join(_instructions(plan, record, data)), err=True)


def _run_on_local_cluster(
    plan: SubmitPlan, options: RunOptions, arguments: RunArguments, mode: OutputMode
) -> int:
    from windlass.cli.commands import local
    from windlass.runner import run as runner_run

    data = data_folders.chosen_data(os.environ)
    wanted = DaemonOptions(data, nodes=options.nodes, network=options.network, fake_gpus=options.fake_gpus)
    try:
        record, is_new = local.started(wanted)
    except OSError as error:
        raise CommandError(errors.os_error_message(error, data)) from error
    differences = records.differences(record, wanted)
    if not record.has_controller or (differences and wanted != DaemonOptions(data)):
        raise CommandError(
            f"the cluster of `windlass local` was started with {' '.join(differences)}. To change that, run "
            "`windlass local down` first."
        )
    cluster_options.announcer()(f"{record.url} of {record.kubeconfig}{' (started)' if is_new else ''}")
    reporter = new_reporter(plan, mode, arguments)
    return _run_and_finish(reporter, lambda: runner_run.run_on_daemon(plan, options, data, record, reporter))


def _instructions(plan: SubmitPlan, record: Record, data: Path) -> Iterator[str]:
    """Yield the last lines of output: how to use the cluster, and how to stop it."""
    directory = shlex.quote(str(data))
    yield "The cluster keeps running. To use it, and to end it:"
    yield f"  export KUBECONFIG={shlex.quote(record.kubeconfig)}"
    for job in () if plan.companions_only else plan.jobs:
        yield f"  windlass why {job.name}{_namespace_option(job.namespace)}"
    for each in plan.companions:
        yield f"  windlass {each.companion} {each.job}{_namespace_option(each.namespace)}"
    yield f"  windlass local down --data-dir {directory}"
    yield f"  windlass local reset --data-dir {directory}    # also deletes its data"


def _namespace_option(namespace: str) -> str:
    return f" --namespace {namespace}" if namespace != names.DEFAULT_NAMESPACE else ""


def _bind_images(data: Path, bindings: tuple[str, ...]) -> None:
    """Copy the bindings of `windlass local image`, and add those of `--image`."""
    default_data = data_folders.default_data(os.environ)
    if (default_data / IMAGES).exists():
        data_folders.check(default_data)
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(default_data / IMAGES, data / IMAGES)
    images = Images(data / IMAGES)
    for binding in bindings:
        name, equals, folder = binding.partition("=")
        if not equals:
            raise click.UsageError(f"--image: found {binding!r}, expected NAME=DIR")
        try:
            images.add(name, paths.expanded(folder).absolute())
        except ValueError as error:
            raise click.UsageError(f"--image: {error}") from error


@contextlib.contextmanager
def _runs_folder() -> Iterator[Path]:
    """Yield the directory that contains the data directories of runs. Raises CommandError or UsageError for an OSError
    in the block."""
    runs = data_folders.state_folder(os.environ) / "runs"
    try:
        yield runs
    except OSError as error:
        if errors.is_disk_full(error):
            raise CommandError(errors.os_error_message(error, runs)) from error
        raise click.UsageError(f"cannot use {runs}: {error.strerror or error}") from error


def _outputs_folder() -> Path | None:
    """Return the folder that keeps the output of tasks; None if the user has no home directory."""
    with contextlib.suppress(RuntimeError):
        return data_folders.state_folder(os.environ) / "output"
    return None


def _report_file(path: Path | None) -> Path | None:
    """Return the absolute path of the report. Raises UsageError if its folder does not exist."""
    if path is not None and not path.absolute().parent.is_dir():
        raise click.UsageError(f"--report: the folder {path.parent} does not exist")
    return None if path is None else path.absolute()


def new_reporter(
    plan: SubmitPlan, mode: OutputMode, arguments: RunArguments, start: datetime | None = None
) -> "Reporter":
    """Return the reporter of a run, or of a job that was created at `start`."""
    from windlass.cli.terminal import live_terminal, output, unfinished_lines

    has_colours = colours.is_enabled(colours.AUTO, is_terminal=sys.stdout.isatty())
    tasks = tuple(name for job in plan.jobs for name in job.display_names)
    style = output.Style(
        is_json=mode is OutputMode.JSON,
        width=max(map(len, plan.display_names)),
        colours=colours.assign(tasks) if has_colours else {},
        shows_logs=arguments.logs is not False,
        is_terminal=sys.stdout.isatty(),
    )
    if mode is not OutputMode.LIVE:
        can_redraw = mode is OutputMode.TEXT and _can_draw(os.environ, is_terminal=sys.stdout.isatty())
        columns = lambda: live_terminal.terminal_size(sys.stdout.buffer).columns  # noqa: E731
        lines = unfinished_lines.UnfinishedLines(columns, time.monotonic) if can_redraw else None
        return output.Output(sys.stdout.buffer, style, lines)
    has_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return live_terminal.Screen(
        sys.stdout.buffer, plan.jobs, style, has_colours=has_colours, has_utf8=has_utf8, start=start
    )


def _run_and_finish(reporter: "Reporter", start: Callable[[], Coroutine[Any, Any, int]]) -> int:
    try:
        try:
            return asyncio.run(start())
        finally:
            reporter.finish()
    except KeyboardInterrupt:  # before the event loop handles signals, or after it has ended
        return exit_codes.INTERRUPTED
