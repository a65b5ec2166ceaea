"""Options, connection and error handling of commands that use a cluster."""

import asyncio
import functools
import shlex
from collections.abc import Callable, Coroutine
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
