"""`windlass run`: one job on a cluster of its own, from a file to an exit code. What is in between: `running`."""

import asyncio
import contextlib
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from windlass.cli import config_map_files, data_folders, lint, run_file
from windlass.cli.run_file import Job, Plan
from windlass.cli.run_output import Output
from windlass.cli.run_report import INTERRUPTED, USAGE
from windlass.localcluster.kubelet.images import FILE as IMAGES
from windlass.localcluster.kubelet.images import Images

_TRUSTED = "SSL_CERT_FILE"


@click.command(
    epilog="Exits with 0 only for success, with the completion code if that is one of 1..255, with 125 for any other, "
    "with 2 if the file or the command is wrong, with 124 if there was no answer in time, and with 130 after Ctrl-C. "
    "The exact code is in the last line of --output json."
)
@click.argument("file", metavar="FILE")
@click.option("--nodes", type=click.IntRange(1, 100), default=1, show_default=True, help="Logical nodes.")
@click.option(
    "--network",
    type=click.Choice(["auto", "isolated", "shared"]),
    default="auto",
    show_default=True,
    help="Whether pods have a network of their own, or an address each on that of the machine.",
)
@click.option("--output", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Give up after so many seconds.")
@click.option("--image", "images", metavar="NAME=DIR", multiple=True, help="A local image. May be repeated.")
@click.option(
    "--config-map",
    "config_maps",
    metavar="NAME=PATH",
    multiple=True,
    help="A ConfigMap made from a file, or from the files of a folder. May be repeated.",
)
@click.option("--no-logs", is_flag=True, help="Without what the containers write.")
@click.option("--keep", is_flag=True, help="Keep the cluster's data, and say where they are.")
@click.option("--verbose", is_flag=True, help="Show what the cluster and the controller log, on stderr.")
def run(
    file: str,
    nodes: int,
    network: str,
    form: str,
    timeout: float | None,
    images: tuple[str, ...],
    config_maps: tuple[str, ...],
    no_logs: bool,
    keep: bool,
    verbose: bool,
) -> None:
    """Run the Framework in FILE, on a cluster that is there for it alone. FILE may be - for the standard input.

    FILE is YAML or JSON: one Framework, and before it what else it needs, such as ConfigMaps and Services. Ctrl-C stops
    it gracefully, a second Ctrl-C at once.
    """
    job = _with_config_maps(_job(file), config_maps)
    plan = Plan(nodes, network, timeout, shows_logs=not no_logs)
    _log_to_stderr(is_wanted=verbose)
    runs = data_folders.state_folder(os.environ) / "runs"
    with contextlib.ExitStack() as at_the_end:
        try:
            data = at_the_end.enter_context(data_folders.for_one_run(runs, is_kept=keep))
        except OSError as error:
            raise click.UsageError(f"{runs} cannot be used: {error.strerror or error}") from error
        _bind_images(data, images)
        if keep:
            click.echo(f"the data are kept in {data}", err=True)
        code = _run(job, plan, data, form)
    sys.exit(code)


def _job(file: str) -> Job:
    """Says what is wrong with the file, and goes no further if it is an error."""
    try:
        data = lint.read(file)
    except OSError as error:
        raise click.UsageError(f"{file}: cannot be read: {error.strerror or error}") from error
    found = run_file.read(data, lint.called(file))
    for fault in found.faults:
        click.echo(str(fault), err=True)
    if found.job is None:
        sys.exit(USAGE)
    return found.job


def _with_config_maps(job: Job, given: tuple[str, ...]) -> Job:
    made = []
    for wanted in given:
        name, _, path = wanted.partition("=")
        if not name or not path:
            raise click.UsageError(f"--config-map: found {wanted!r}, expected NAME=PATH")
        try:
            made.append(config_map_files.config_map(name, job.namespace, Path(path).expanduser()))
        except (OSError, ValueError) as error:
            raise click.UsageError(f"--config-map: {error}") from error
    return msgspec.structs.replace(job, others=(*job.others, *made))


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
            images.add(name, Path(folder).expanduser().absolute())
        except ValueError as error:
            raise click.UsageError(f"--image: {error}") from error


def _log_to_stderr(*, is_wanted: bool) -> None:
    if not is_wanted:
        # Without any handler, Python would show warnings.
        logging.getLogger().addHandler(logging.NullHandler())
        return
    from windlass.operate import logs
    from windlass.settings import LogFormat

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


def _run(job: Job, plan: Plan, data: Path, form: str) -> int:
    width = max(map(len, (job.name, *job.tasks)))
    output = Output(sys.stdout.buffer, form, width)
    try:
        with _without_authorities():
            from windlass.cli import running

        return asyncio.run(running.run(job, plan, data, output))
    except KeyboardInterrupt:  # before there was a loop to hear of it, or after
        return INTERRUPTED
    finally:
        output.finish()
