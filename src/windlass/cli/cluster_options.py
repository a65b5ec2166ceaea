"""Options, connection and error handling of commands that use a cluster."""

import asyncio
import contextlib
import functools
import os
import shlex
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import click

from windlass.cli import errors, parameters
from windlass.model import names

if TYPE_CHECKING:
    from windlass.client.connection import Connection

P = ParamSpec("P")
T = TypeVar("T")

kubeconfig_option = click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="Path of the kubeconfig (default: the one that kubectl uses).",
)
context_option = click.option(
    "--context", default="", metavar="NAME", help="Context of the kubeconfig (default: the current context)."
)

local_option = click.option(
    "--local",
    "is_local",
    is_flag=True,
    help="Use the cluster of `windlass local`, instead of the kubeconfig.",
)


def selected_kubeconfig(kubeconfig: str, context: str, *, is_local: bool) -> str:
    """Return the path of the kubeconfig; empty for the default. Raises UsageError and NoClusterError."""
    if not is_local:
        return kubeconfig
    if kubeconfig or context:
        option = "--kubeconfig" if kubeconfig else "--context"
        raise click.UsageError(f"--local and {option} are mutually exclusive")
    from windlass.client import paths

    return paths.local_kubeconfig()


def announcer() -> Callable[[str], None]:
    """Return a function that prints the name of the cluster that is changed, once."""
    return functools.cache(lambda where: click.echo(f"cluster: {where}", err=True))


class ClusterOptions(NamedTuple):
    """The selected cluster and namespace. Empty values mean the defaults of kubectl."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""

    def arguments(self, connection: "Connection", namespace: str) -> str:
        """Return the options with which another command uses the same cluster, and this namespace."""
        default = connection.transport.access.namespace or names.DEFAULT_NAMESPACE
        given = {
            "--kubeconfig": self.kubeconfig,
            "--context": self.context,
            "-n": namespace if namespace != default else "",
        }
        return "".join(f" {name} {shlex.quote(value)}" for name, value in given.items() if value)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig, --context, --local and --namespace, which the command receives as `cluster`."""

    @kubeconfig_option
    @context_option
    @local_option
    @click.option(
        "--namespace",
        "-n",
        default="",
        metavar="NAME",
        callback=parameters.namespace,
        help="Namespace (default: the namespace of the current context).",
    )
    @functools.wraps(command)
    def with_cluster(kubeconfig: str, context: str, is_local: bool, namespace: str, **arguments: Any) -> Any:
        path = selected_kubeconfig(kubeconfig, context, is_local=is_local)
        return command(cluster=ClusterOptions(path, context, namespace), **arguments)

    return with_cluster


async def job_name(connection: "Connection", name: str | None) -> str:
    """Return `name` or, if it is None, the name of the latest job, and print that to stderr. Raises ClientError."""
    if name is not None:
        return name
    from windlass.client import jobs

    found, number = await jobs.latest(connection)
    which = "the only job" if number == 1 else f"the latest of {number} jobs"
    errors.note(f"{found} is {which} in the namespace {connection.namespace}")
    return found


@contextlib.contextmanager
def naming_kept_output(name: str | None) -> Iterator[None]:
    """Add the folder with the output of the last `windlass run` to the error that the job or its cluster does not
    exist: both are deleted at the end of a run."""
    from windlass.client.errors import JobNotFoundError, NoClusterError

    try:
        yield
    except (JobNotFoundError, NoClusterError) as error:
        folder = kept_output(name)
        if not folder:
            raise
        of_run = f"`windlass run`{f' of {name}' if name else ''}"
        raise type(error)(
            f"{str(error).rstrip('.')}.\nThe cluster of the last {of_run} was deleted with its job; the output of the "
            f"tasks is in {folder}. `windlass run --keep` keeps the cluster."
        ) from error


def kept_output(name: str | None) -> str:
    """Return the folder with the output of the last `windlass run` of a job, or of any job without a name.

    Empty if there is none.
    """
    from windlass.client import paths
    from windlass.runner import output_files

    folder = output_files.latest(output_files.default_folder(os.environ), name)
    return paths.with_tilde(str(folder)) if folder is not None else ""


def run(
    cluster: ClusterOptions,
    use: "Callable[Concatenate[Connection, P], Coroutine[Any, Any, T]]",
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Connect to the cluster, call `use` with the connection and the arguments, and return its result. Raises
    ClientError."""
    # Slow imports are here, so that `windlass --help` stays fast.
    from windlass.client import connection

    async def connected() -> T:
        async with connection.connected(*cluster, announcer()) as open_connection:
            return await use(open_connection, *args, **kwargs)

    return asyncio.run(connected())
