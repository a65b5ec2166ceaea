"""`windlass run`: jobs on a cluster of their own, from a file to an exit code. What is in between: `runs`."""

import asyncio
import contextlib
import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass.cli import errors, fault_options, preflight_options, run_options, run_request
from windlass.cli.command_job import Asked
from windlass.cli.errors import CommandError
from windlass.cli.terminal import colours
from windlass.client import paths
from windlass.localcluster.kubelet.images import FILE as IMAGES
from windlass.localcluster.kubelet.images import Images
from windlass.model.companions import Companion
from windlass.runner import exit_codes, keep_cluster
from windlass.runner.local import data_folders
from windlass.runner.local.process import DaemonError
from windlass.runner.run_plan import Doors, Plan, Work

if TYPE_CHECKING:
    from windlass.runner.audience import Audience

_TRUSTED = "SSL_CERT_FILE"


class Look(StrEnum):
    """How a run is shown."""

    LIVE = "live"
    TEXT = "text"
    JSON = "json"


@click.command(
    cls=run_options.WithCommand,
    epilog="The exit code is 0 if all jobs succeeded, otherwise that of the first job in the file that failed: its "
    "completion code if that is between 1 and 255, else 125. It is 2 for an invalid file or command line, 124 after a "
    "timeout and 130 after Ctrl-C. The last line of --output json has the exact completion code.",
)
@run_options.all_of_them
def run(file: str | None, command: tuple[str, ...], asked: Asked, **options: Any) -> None:
    """Run the jobs in FILE, or a command, on a temporary cluster on this machine.

    FILE is YAML or JSON and contains one or more job files or Frameworks, preceded by the objects they need, e.g.
    ConfigMaps and Services. - reads standard input. A command becomes a job whose tasks all run it:

    \b
        windlass run job.yaml
        windlass run --ps 2 --workers 2 -- python train.py
        windlass run --inject 'kill worker-1 after 5s' job.yaml
        windlass run --companions-only job.yaml

    On a terminal, a live table shows the status of each task; --logs shows their log lines instead. The first Ctrl-C
    stops the jobs gracefully, the second one immediately.

    The companions of a job (TensorBoard, Jupyter, hub) start with it and are reachable on local ports. They end with
    the run; a companion with `keep: true` keeps the run open until Ctrl-C.
    """
    given = run_options.Given(**options)
    if given.companions_only:
        sys.exit(_companions_only(run_request.file_of_companions(file, command, asked, given), given))
    seconds = preflight_options.seconds(given.preflight_timeout, is_wanted=not given.no_preflight)
    work = run_request.with_config_maps(run_request.work(file, command, asked, seconds), given.config_maps)
    shown = look(given, is_terminal=sys.stdout.isatty(), environment=os.environ)
    plan = Plan(
        nodes=given.nodes,
        network=given.network,
        timeout=given.timeout,
        reads_logs=given.logs is not False,
        injections=fault_options.asked_for(given.injected, [job.roles for job in work.jobs]),
    )
    _log_to_stderr(is_wanted=given.verbose)
    start = _kept if given.keep else _alone
    sys.exit(start(work, plan, given, shown))


def companions_of(
    file: str,
    only: Companion | None = None,
    *,
    port: int | None = None,
    address: str = Doors().address,
    opens_browser: bool = False,
    timeout: float | None = None,
) -> int:
    """The companions of the jobs in the file, or one of them, until Ctrl-C: the exit code.

    `port` and `address` are those of this machine. Within `timeout` they have to be ready.
    """
    doors = Doors(address, port, opens_browser)
    return _companions_only(file, run_options.Given(timeout=timeout), only, doors)


def look(given: run_options.Given, *, is_terminal: bool, environment: Mapping[str, str]) -> Look:
    if given.form == Look.JSON:
        return Look.JSON
    can_draw = is_terminal and environment.get("TERM", "") not in ("", "dumb")
    wants_lines = given.logs is True or given.verbose
    return Look.LIVE if can_draw and not wants_lines else Look.TEXT


# How it is run


def _companions_only(
    file: str,
    given: run_options.Given,
    only: Companion | None = None,
    doors: Doors = Doors(),  # noqa: B008 — it is frozen
) -> int:
    work = run_request.with_config_maps(run_request.companions(file, only), given.config_maps)
    plan = Plan(nodes=given.nodes, network=given.network, timeout=given.timeout, has_jobs=False, doors=doors)
    _log_to_stderr(is_wanted=given.verbose)
    # There is nothing to make a table of.
    shown = Look.JSON if given.form == Look.JSON else Look.TEXT
    start = _kept if given.keep else _alone
    return start(work, plan, given, shown)


def _alone(work: Work, plan: Plan, given: run_options.Given, shown: Look) -> int:
    """On a cluster that ends with it."""
    with contextlib.ExitStack() as at_the_end:
        with _told_of_folders() as runs:
            data = at_the_end.enter_context(data_folders.for_one_run(runs))
        _bind_images(data, given.images)
        with _without_authorities():
            from windlass.runner import run as runner_run
        return _run(_audience(work, shown, given), lambda to: runner_run.run(work, plan, data, to))


def _kept(work: Work, plan: Plan, given: run_options.Given, shown: Look) -> int:
    """On a cluster that stays."""
    if plan.injections:
        raise click.UsageError(
            "--inject and --keep do not go together: faults are done by the process of the run"
        )
    with _told_of_folders() as runs:
        data = data_folders.to_keep(runs)
    try:
        _bind_images(data, given.images)
    except click.UsageError:
        data_folders.remove(data)
        raise
    try:
        record = keep_cluster.started(data, plan)
    except DaemonError as error:
        raise CommandError(str(error), exit_codes.NO_ANSWER) from error
    with _without_authorities():
        from windlass.runner import run as runner_run
    try:
        return _run(_audience(work, shown, given), lambda to: runner_run.run_on(work, plan, data, record, to))
    finally:
        for line in keep_cluster.how_to_go_on(
            record, data, work.jobs if plan.has_jobs else (), work.companions
        ):
            click.echo(line, err=True)


def _bind_images(data: Path, given: tuple[str, ...]) -> None:
    """Those of `windlass local image`, and those of this run before them."""
    kept = data_folders.default_data(os.environ) / IMAGES
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(kept, data / IMAGES)
    images = Images(data / IMAGES)
    for binding in given:
        name, equals, folder = binding.partition("=")
        if not equals:
            raise click.UsageError(f"--image: found {binding!r}, expected NAME=DIR")
        try:
            images.add(name, paths.expanded(folder).absolute())
        except ValueError as error:
            raise click.UsageError(f"--image: {error}") from error


@contextlib.contextmanager
def _told_of_folders() -> Iterator[Path]:
    runs = data_folders.state_folder(os.environ) / "runs"
    try:
        yield runs
    except OSError as error:
        if errors.is_for_want_of_room(error):
            raise CommandError(errors.of_the_system(error, runs)) from error
        raise click.UsageError(f"{runs} cannot be used: {error.strerror or error}") from error


def _audience(work: Work, shown: Look, given: run_options.Given) -> "Audience":
    from windlass.cli.terminal import live_terminal, output

    has_colours = colours.is_wanted(colours.AUTO, is_terminal=sys.stdout.isatty())
    tasks = tuple(name for job in work.jobs for name in job.tasks)
    style = output.Style(
        form=output.JSON if shown is Look.JSON else output.TEXT,
        width=max(map(len, work.objects)),
        colours=colours.of_tasks(tasks) if has_colours else {},
        shows_logs=given.logs is not False,
    )
    if shown is not Look.LIVE:
        return output.Output(sys.stdout.buffer, style)
    has_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return live_terminal.Screen(
        sys.stdout.buffer, work.jobs, style, has_colours=has_colours, has_utf8=has_utf8
    )


def _run(audience: "Audience", start: Any) -> int:
    try:
        code: int = asyncio.run(start(audience))
    except KeyboardInterrupt:  # before there was a loop to hear of it, or after
        return exit_codes.INTERRUPTED
    finally:
        audience.finish()
    return code


def _log_to_stderr(*, is_wanted: bool) -> None:
    if not is_wanted:
        # Without any handler, Python would show warnings.
        logging.getLogger().addHandler(logging.NullHandler())
        return
    from windlass.controller.observe import logs
    from windlass.model.settings import LogFormat

    logs.configure(LogFormat.TEXT, "INFO", sys.stderr)


@contextlib.contextmanager
def _without_authorities() -> Iterator[None]:
    """aiohttp reads all certificates that the system trusts when it is imported. Nothing here ever meets one of them,
    and it is a tenth of a second."""
    known = os.environ.get(_TRUSTED)
    os.environ[_TRUSTED] = os.devnull
    try:
        yield
    finally:
        del os.environ[_TRUSTED]
        if known is not None:
            os.environ[_TRUSTED] = known
