"""Options, connection and error handling of commands that use a cluster."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import click

from windlass.cli import parameters

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


class ClusterOptions(NamedTuple):
    """The selected cluster and namespace. Empty values mean the defaults of kubectl."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig, --context and --namespace, which the command receives as `cluster`."""

    @kubeconfig_option
    @context_option
    @click.option(
        "--namespace",
        "-n",
        default="",
        metavar="NAME",
        callback=parameters.namespace,
        help="Namespace (default: the namespace of the current context).",
    )
    @functools.wraps(command)
    def with_cluster(kubeconfig: str, context: str, namespace: str, **arguments: Any) -> Any:
        return command(cluster=ClusterOptions(kubeconfig, context, namespace), **arguments)

    return with_cluster


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
        async with connection.connected(*cluster) as open_connection:
            return await use(open_connection, *args, **kwargs)

    return asyncio.run(connected())
