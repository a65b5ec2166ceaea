"""The commands of `windlass local`, which manage a persistent cluster on this machine.

`windlass.runner.local` implements the daemon, and starts and stops it.
"""

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from windlass.cli import errors, json_output, parameters
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.errors import CommandError
from windlass.cli.run_options import MAX_FAKE_GPUS
from windlass.localcluster.kubelet.images import FILE as IMAGES
from windlass.localcluster.kubelet.images import Images
from windlass.model.settings import LogFormat, LogLevel, parse_address
from windlass.runner.local import data_folders, process, records
from windlass.runner.local.data_folders import InUseError, Lock
from windlass.runner.local.records import Answer, DaemonOptions, Record

NOT_RUNNING = 3

F = TypeVar("F", bound=Callable[..., Any])


def data_dir_option(command: F) -> F:
    return click.option(
        "--data-dir",
        "data",
        type=click.Path(file_okay=False, path_type=Path),
        callback=lambda _context, _parameter, path: _data_folder(path),
        help="Data directory of the cluster (default: $XDG_STATE_HOME/windlass/local).",
    )(command)


def _data_folder(path: Path | None) -> Path:
    """Return the absolute path of the data directory (None: the default). Raises UsageError or ForeignFileError."""
    folder = _absolute_path(path or data_folders.default_data(os.environ))
    data_folders.check(folder)
    return folder


def _absolute_path(path: Path) -> Path:
    """Make the path absolute. Raises UsageError."""
    try:
        path = path.expanduser()
    except RuntimeError as error:
        raise click.UsageError(f'no such user: "{path.parts[0]}". Write the path without `~`.') from error
    return Path(os.path.abspath(path))  # noqa: PTH100 — symbolic links are kept


@click.group()
def local() -> None:
    """Manage a cluster on this machine, without Docker or root.

    \b
        eval "$(windlass local up)"
        windlass submit job.yaml
        kubectl get pods
        windlass local down
    """


@local.command()
@data_dir_option
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:0",
    help="Loopback address to listen on (default: 127.0.0.1 and the last used port).",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Number of logical nodes (default: as last time, else 1).",
)
@click.option(
    "--network",
    type=click.Choice(["auto", "isolated", "shared"]),
    help="Network of the pods: their own (isolated) or the host's, with one address per pod (shared) "
    "(default: as last time, else auto).",
)
@click.option(
    "--fake-gpus",
    type=click.IntRange(0, MAX_FAKE_GPUS),
    metavar="N",
    help="Number of simulated GPUs that replace those of the machine, to test scheduling. Programs cannot use them. 0: "
    "the GPUs of the machine (default: as last time, else 0).",
)
@click.option(
    "--with-controller/--no-controller",
    default=True,
    show_default=True,
    help="Whether to run the controller.",
)
@click.option(
    "--foreground", is_flag=True, help="Run in the foreground until Ctrl-C. Pods keep running after that."
)
@click.option(
    "--ui", "has_ui", is_flag=True, help="Then open the dashboard, until Ctrl-C. The cluster keeps running."
)
@click.option("--ready-descriptor", type=int, hidden=True)
def up(
    data: Path,
    listen: str,
    nodes: int | None,
    network: str | None,
    fake_gpus: int | None,
    with_controller: bool,
    foreground: bool,
    has_ui: bool,
    ready_descriptor: int | None,
) -> None:
    """Start the cluster in the background, or print the address of the running one.

    Standard output contains the shell command that sets KUBECONFIG, for eval "$(windlass local up)".
    """
    if has_ui and foreground:
        raise click.UsageError("--ui and --foreground are mutually exclusive")
    try:
        host, port = parse_address(listen)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--listen") from error
    # Default to the nodes and the network of the previous daemon, whose pods may still be running.
    last = records.read(data)
    options = DaemonOptions(
        data,
        host or "127.0.0.1",
        port,
        nodes or (last.nodes if last is not None else 1),
        network or (last.wanted_network if last is not None else "auto"),
        with_controller,
        fake_gpus if fake_gpus is not None else (last.fake_gpus if last is not None else 0),
    )
    try:
        if foreground:
            data_folders.claim(data)
            _run_in_foreground(options, ready_descriptor)
            return
        record, is_new = started(options)
    except OSError as error:
        raise CommandError(errors.os_error_message(error, data)) from error
    _print_address(record, options, is_new=is_new)
    if has_ui:
        from windlass.cli.commands import ui
        from windlass.web.server import ServerOptions

        ui.serve(ClusterOptions(record.kubeconfig), ServerOptions())


def started(options: DaemonOptions) -> tuple[Record, bool]:
    """Return the running cluster, or start it, and whether it is new. Raises LocalClusterError and OSError."""
    data_folders.claim(options.data)
    with Lock.take(options.data / records.COMMANDS_LOCK):
        running = process.running(options.data)
        return running or process.start(options), running is None


def _run_in_foreground(options: DaemonOptions, descriptor: int | None) -> None:
    """Run the daemon in this process. With a descriptor, report to the parent process whether it started."""
    from windlass.controller.observe import logs
    from windlass.runner.local import daemon
    from windlass.runner.local.daemon import CannotStartError

    logs.configure(LogFormat.TEXT, LogLevel.INFO, sys.stderr)
    if descriptor is not None:
        os.set_inheritable(descriptor, False)

    def ready(record: Record) -> None:
        if descriptor is None:
            _print_address(record, options, is_new=True)
        else:
            process.send_answer(descriptor, Answer(record))

    try:
        daemon.serve(options, ready)
    except (CannotStartError, InUseError) as error:
        if descriptor is None:
            raise CommandError(str(error)) from error
        process.send_answer(descriptor, Answer(error=str(error)))
        sys.exit(1)


def _print_address(record: Record, options: DaemonOptions, *, is_new: bool) -> None:
    nodes = "1 node" if record.nodes == 1 else f"{record.nodes} nodes"
    state = "is running" if is_new else "is already running"
    click.echo(f"the cluster {state}: {record.url}, {nodes}, {record.network} network", err=True)
    for note in record.notes:
        click.echo(note, err=True)
    if not is_new and (differences := records.differences(record, options)):
        click.echo(
            f"the cluster was started with {' '.join(differences)}. To change that, run `windlass local down` first.",
            err=True,
        )
    click.echo(f"pod logs: {options.data / 'pods'}, cluster log: {options.data / records.LOG}", err=True)
    click.echo(f"export KUBECONFIG={shlex.quote(record.kubeconfig)}")


@local.command()
@data_dir_option
def down(data: Path) -> None:
    """Stop the cluster and its pods. The stored objects are kept for the next `up`."""
    click.echo(_stop_cluster(data))


def _stop_cluster(data: Path, *, is_reset: bool = False) -> str:
    """Stop the cluster and return a message. With `is_reset`, kill pods that cannot be stopped, e.g. because the
    database is damaged."""
    if not data_folders.is_ours(data):
        return "the cluster is not running"
    with Lock.take(data / records.COMMANDS_LOCK):
        record = process.running(data)
        if record is not None:
            process.stop(data, record.pid)
            return "the cluster has stopped"
        if process.has_pods(data):
            from windlass.runner.local import daemon

            try:
                daemon.end_pods(data)
            except Exception as error:
                if is_reset:
                    daemon.kill_pods(data)
                elif isinstance(error, daemon.CannotStartError):
                    raise CommandError(f"cannot stop the pods: {error}") from error
                else:
                    raise
            return "the cluster was not running; its remaining pods were stopped"
    return "the cluster is not running"


@local.command()
@data_dir_option
@click.option("--yes", "-y", is_flag=True, help="Do not prompt for confirmation.")
def reset(data: Path, yes: bool) -> None:
    """Stop the cluster and delete its data: objects, logs, volumes and local images."""
    if not data.exists():
        click.echo(f"{data} does not exist")
        return
    if not data_folders.is_ours(data):
        raise CommandError(f"{data} is not a data directory of Windlass: nothing was deleted")
    if not yes:
        click.confirm(f"Stop the cluster and delete {data} with all its contents?", abort=True)
    click.echo(_stop_cluster(data, is_reset=True))
    try:
        data_folders.remove(data)
    except OSError as error:
        raise CommandError(f"cannot delete {data}: {error}") from error
    click.echo(f"{data} deleted")


@local.command()
@data_dir_option
@parameters.output("text", "json")
def status(data: Path, output: str) -> None:
    """Show the status of the cluster. The exit code is 0 if it is running, and 3 if it is not."""
    from windlass.runner.local import status as local_status

    found = local_status.read(data)
    if output == "json":
        click.echo(json_output.indented(found))
    else:
        click.echo("\n".join(local_status.lines(found)))
    sys.exit(0 if found.running else NOT_RUNNING)


@local.command()
@data_dir_option
@click.option("--off", is_flag=True, help="Use the cluster of the kubeconfig again.")
def use(data: Path, off: bool) -> None:
    """Use this cluster for all commands from now on, even if KUBECONFIG or ~/.kube/config exists.

    By default, commands use this cluster only with --local, or if there is neither KUBECONFIG nor ~/.kube/config. The
    options --kubeconfig and --context of a command select another cluster.
    """
    if off:
        data_folders.stop_using(os.environ)
        click.echo("commands use the cluster of KUBECONFIG or ~/.kube/config")
        return
    data_folders.use(data, os.environ)
    click.echo(f"commands use the cluster in {data}. To use those of kubectl again: windlass local use --off")


@local.group()
def image() -> None:
    """Manage local images.

    A local image binds an image name to a directory DIR. The file DIR/a/b appears as /a/b in containers of that image.
    """


@image.command()
@click.argument("name")
@click.argument("folder", metavar="DIR")
@data_dir_option
def add(name: str, folder: str, data: Path) -> None:
    """Bind the image NAME to the directory DIR, for containers that start from now on."""
    path = _absolute_path(Path(folder))
    data_folders.claim(data)
    with _raising_command_errors():
        Images(data / IMAGES).add(name, path)
    click.echo(f"{name} is {path}")


@image.command(name="list")
@data_dir_option
@parameters.output("text", "json")
def list_(data: Path, output: str) -> None:
    """List the local images and their directories."""
    with _raising_command_errors():
        images = Images(data / IMAGES).all()
    if output == "json":
        click.echo(json_output.indented(images))
        return
    width = max(map(len, images), default=0)
    for name, folder in images.items():
        click.echo(f"{name:<{width}}  {folder}")


@image.command()
@click.argument("name")
@data_dir_option
def remove(name: str, data: Path) -> None:
    """Remove the image NAME. Its directory is kept."""
    if not data_folders.is_ours(data):
        raise CommandError(f"{data} has no local images")
    with _raising_command_errors():
        Images(data / IMAGES).remove(name)
    click.echo(f"{name} removed; its directory is kept")


@contextlib.contextmanager
def _raising_command_errors() -> Iterator[None]:
    """Raise the ValueError of an invalid or unknown image, or of an invalid image list, as CommandError."""
    try:
        yield
    except ValueError as error:
        raise CommandError(str(error)) from error
