"""Forward a local port to a companion of a job, for `windlass tensorboard`, `jupyter` and `hub`."""

import asyncio
import contextlib
import functools
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from windlass.cli import cluster_options, name_completion, parameters
from windlass.cli.cluster_options import ClusterOptions
from windlass.cli.errors import note
from windlass.model.companions import Companion

if TYPE_CHECKING:
    from windlass.client.companions.status import CompanionView
    from windlass.client.connection import Connection


class ForwardRequest(NamedTuple):
    companion: Companion
    name: str
    """Name of a job, or path of a file."""
    port: int | None
    address: str
    opens_browser: bool
    timeout: float
    cluster: ClusterOptions

    @property
    def is_file(self) -> bool:
        return "." in self.name or "/" in self.name


BeforeReady = Callable[["Connection", "CompanionView"], Coroutine[Any, Any, None]]
"""Called before waiting until the companion is ready. May raise ClientError."""
WhileForwarding = Callable[[str, "CompanionView"], Coroutine[Any, Any, None]]
"""Receives the URL and the companion, and runs while the port is forwarded."""


def options(companion: Companion) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add NAME|FILE and the options that all companion commands have. The command receives them as `request`."""

    def add_options(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.argument("name", metavar="NAME|FILE", shell_complete=name_completion.jobs)
        @click.option(
            "--port",
            type=click.IntRange(0, 65535),
            metavar="PORT",
            help="Local port (default: the companion's port, or the next free one).",
        )
        @click.option(
            "--address",
            default="127.0.0.1",
            show_default=True,
            metavar="ADDRESS",
            help="Local address to listen on. 0.0.0.0 accepts connections from other machines.",
        )
        @click.option("--browser", "opens_browser", is_flag=True, help="Open the URL in a browser.")
        @click.option(
            "--timeout",
            default="5m",
            show_default=True,
            metavar="DURATION",
            callback=parameters.positive_duration,
            help="How long to wait until the companion responds.",
        )
        @cluster_options.options
        @functools.wraps(command)
        def with_request(**options: Any) -> Any:
            values = {name: options.pop(name) for name in ForwardRequest._fields if name in options}
            return command(request=ForwardRequest(companion=companion, **values), **options)

        return with_request

    return add_options


def open_companion(
    request: ForwardRequest,
    before_ready: BeforeReady | None = None,
    while_forwarding: WhileForwarding | None = None,
) -> None:
    """Forward a port to the companion until Ctrl-C. For a file, run the companion on this machine instead.

    Raises ClientError, CommandError and SystemExit.
    """
    if request.is_file:
        sys.exit(_run_file(request))
    cluster_options.run(request.cluster, _open, request, before_ready, while_forwarding)


def print_line(message: str) -> None:
    """Print and flush, for programs that read the output."""
    click.echo(message)
    sys.stdout.flush()


def password_renewal(user: str = "") -> BeforeReady:
    """Return a callback that changes the password of a JupyterHub user or of JupyterLab, and prints it."""

    async def renew(connection: "Connection", view: "CompanionView") -> None:
        from windlass.client.companions import passwords, resolution

        password = await passwords.renew(connection, view, user)
        print_line(resolution.password_notice(f"new password of {user or view.companion}", password))

    return renew


def _run_file(request: ForwardRequest) -> int:
    from windlass.cli.commands import run
    from windlass.cli.run_options import RunArguments
    from windlass.runner.options import ForwardOptions

    forward = ForwardOptions(request.address, request.port, request.opens_browser)
    arguments = RunArguments(timeout=request.timeout)
    return run.run_companions(request.name, arguments, (request.companion,), forward)


async def _open(
    connection: "Connection",
    request: ForwardRequest,
    before_ready: BeforeReady | None,
    while_forwarding: WhileForwarding | None,
) -> None:
    from windlass.client.companions import status as companion_status
    from windlass.client.companions.status import State
    from windlass.runner import companions as runner_companions

    view = await companion_status.find(connection, request.name, request.companion, note)
    if before_ready is not None:
        await before_ready(connection, view)
    if view.state is not State.RUNNING:
        note(
            f"waiting until {request.companion} of {request.name} is ready{f': {view.reason}' if view.reason else ''}"
        )
    view = await companion_status.until_ready(connection, request.name, request.companion, request.timeout)
    forwarding = companion_status.forward(
        connection, view, port=request.port, address=request.address, note=note
    )
    with _interrupt_event() as interrupted:
        async with forwarding as forward:
            hint = f"Ctrl-C stops forwarding, not the {request.companion}"
            print_line(f"{request.companion} of {request.name}: {forward.url}  ({hint})")
            if request.opens_browser:
                await runner_companions.open_browser(forward.url, note)
            tasks = (
                [asyncio.create_task(while_forwarding(forward.url, view))]
                if while_forwarding is not None
                else []
            )
            try:
                await interrupted.wait()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _interrupt_event() -> Iterator[asyncio.Event]:
    """Yield an event that SIGINT and SIGTERM set."""
    loop, interrupted = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    try:
        yield interrupted
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
