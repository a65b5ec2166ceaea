"""Options, connection and error handling of commands that use a cluster."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from windlass.cli import parameters
from windlass.cli.errors import CommandError
from windlass.runner import exit_codes

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.errors import ClientError

T = TypeVar("T")


class ClusterOptions(NamedTuple):
    """The selected cluster and namespace. Empty values mean the defaults of kubectl."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig, --context and --namespace, which the command receives as `cluster`."""

    def with_cluster(kubeconfig: str, context: str, namespace: str, **others: Any) -> Any:
        return command(cluster=ClusterOptions(kubeconfig, context, namespace), **others)

    with_cluster.__name__, with_cluster.__doc__ = command.__name__, command.__doc__
    with_cluster.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for add in (
        click.option(
            "--namespace",
            "-n",
            default="",
            metavar="NAME",
            callback=parameters.namespace,
            help="Namespace (default: the namespace of the current context).",
        ),
        click.option(
            "--context",
            default="",
            metavar="NAME",
            help="Context of the kubeconfig (default: the current context).",
        ),
        click.option(
            "--kubeconfig",
            default="",
            metavar="FILE",
            help="Path of the kubeconfig (default: the one that kubectl uses).",
        ),
    ):
        add(with_cluster)
    return with_cluster


def run(cluster: ClusterOptions, use: "Callable[[Connection], Coroutine[Any, Any, T]]") -> T:
    """Return the result of a use case. Raises CommandError."""
    # Slow imports are here, so that `windlass --help` stays fast.
    from windlass.client import connection, errors

    async def connected() -> T:
        async with connection.connected(cluster.kubeconfig, cluster.context, cluster.namespace) as found:
            return await use(found)

    try:
        return asyncio.run(connected())
    except errors.ClientError as error:
        raise command_error(error) from error


def command_error(error: "ClientError") -> CommandError:
    """Return the same message with its exit code."""
    return CommandError(str(error), exit_codes.of_client_error(error))
