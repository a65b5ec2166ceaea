"""The command `windlass ui`. `windlass.web` implements the server."""

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, errors
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.errors import CommandError
from windlass.model.settings import parse_address

if TYPE_CHECKING:
    from windlass.web.server import ServerOptions


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port on 127.0.0.1 (default: a free port).",
)
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Whether to open the link in a browser (default: if there is a display).",
)
@click.option(
    "--listen",
    default="",
    metavar="HOST:PORT",
    help="Address to listen on, with --token-login or --token-header.",
)
@click.option("--token-login", is_flag=True, help="Let each viewer log in with a token of the cluster.")
@click.option(
    "--token-header",
    default="",
    metavar="NAME",
    help="Header in which a proxy forwards each viewer's token, e.g. Authorization.",
)
@click.option(
    "--host",
    "hosts",
    metavar="HOST[:PORT]",
    multiple=True,
    help="Host name at which browsers reach the server; requests for others are rejected. Repeatable.",
)
@cluster_options.options
def ui(
    port: int,
    opens: bool | None,
    listen: str,
    token_login: bool,
    token_header: str,
    hosts: tuple[str, ...],
    cluster: ClusterOptions,
) -> None:
    """Open the dashboard of a cluster in a browser, until Ctrl-C.

    The server listens on 127.0.0.1 and uses the permissions of the kubeconfig. The printed link works once, within 5
    minutes. With --token-login or --token-header, each viewer has a token instead, and the server needs no permissions.

    \b
        windlass ui
        windlass ui --local --port 8080 --no-open
    """
    from windlass.web.schema import Mode
    from windlass.web.server import ServerOptions

    if token_login and token_header:
        raise click.UsageError("--token-login and --token-header are mutually exclusive")
    is_shared = token_login or bool(token_header)
    if listen and not is_shared:
        raise click.UsageError(
            "--listen requires --token-login or --token-header: everybody who reaches the server would need a login"
        )
    if listen and port:
        raise click.UsageError("--listen and --port are mutually exclusive")
    try:
        host, port = parse_address(listen) if listen else ("127.0.0.1", port)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--listen") from error
    mode = Mode.TOKEN if token_login else Mode.HEADER if token_header else Mode.LINK
    options = ServerOptions(
        mode=mode, token_header=token_header or "Authorization", hosts=tuple(each.lower() for each in hosts)
    )
    serve(cluster, options, host, port or 0, opens=opens)


def serve(
    cluster: ClusterOptions,
    options: "ServerOptions",
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    opens: bool | None = None,
) -> None:
    """Serve the dashboard until a signal. Raises ClientError and CommandError."""
    asyncio.run(_serve(cluster, options, host, port, opens=opens))


async def _serve(
    cluster: ClusterOptions, options: "ServerOptions", host: str, port: int, *, opens: bool | None
) -> None:
    import msgspec

    from windlass.client import connection
    from windlass.web import page
    from windlass.web.schema import Mode
    from windlass.web.server import Server

    end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    async with connection.connected(*cluster) as opened:
        if options.mode is Mode.LINK:
            options = msgspec.structs.replace(options, is_embedded=await opened.is_embedded())
        server = Server(opened, options)
        try:
            async with server.serving(host, port) as bound_port:
                address = f"http://{host or '0.0.0.0'}:{bound_port}"  # noqa: S104 — a message
                link = address + (server.login_path() if options.mode is Mode.LINK else "/")
                click.echo(link)
                errors.note(
                    "the dashboard is running until Ctrl-C"
                    + ("; the link works once" if options.mode is Mode.LINK else "")
                )
                if not page.is_built():
                    errors.note(page.NOT_BUILT)
                sys.stdout.flush()
                if opens or (opens is None and options.mode is Mode.LINK and _has_display()):
                    await asyncio.to_thread(_open, link)
                await end.wait()
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise CommandError(f"cannot listen on {host}:{port}: {reason}") from error


def _has_display() -> bool:
    has_desktop = sys.platform == "darwin" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    return has_desktop and sys.stdout.isatty()


def _open(link: str) -> None:
    import webbrowser

    webbrowser.open(link)
