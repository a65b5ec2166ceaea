"""`windlass events`: what happened to a job and to its pods. `windlass.client.events` reads it."""

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec

from windlass.cli import cluster_options, name_completion
from windlass.cli.cluster_options import Where

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.events import Event

_encode = msgspec.json.Encoder().encode


@click.command()
@click.argument("name", shell_complete=name_completion.jobs)
@click.option("--watch", "-w", is_flag=True, help="Watch for new events until Ctrl-C.")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True)
@cluster_options.options
def events(name: str, watch: bool, output: str, where: Where) -> None:
    """Show the events of the job NAME and its pods, oldest first. Repeated events are shown once with their count.

    A cluster keeps events for about an hour. With --output json, each line is one event.

    \b
        windlass events digits
        windlass events -w digits
    """
    # What is heavy is imported here: `windlass --help` must not pay for it.
    from windlass.client import events as reading
    from windlass.client import lookup

    async def show(connection: "Connection") -> None:
        framework = await lookup.find(connection, name)
        if watch:
            async with contextlib.aclosing(reading.follow(connection, framework)) as coming:
                async for event in coming:
                    click.echo(_said(event, output))
            return
        found = await reading.read(connection, framework)
        for event in found:
            click.echo(_said(event, output))
        if not found and output == "text":
            click.echo(f"windlass: nothing is known to have happened to {name} lately", err=True)

    cluster_options.run(where, show)


def _said(event: "Event", output: str) -> str:
    if output == "json":
        return _encode(event).decode()
    return text(event)


_CONTROL_CHARACTERS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code != 0x09}


def escaped(text: str) -> str:
    """Part of what is told comes from other people's containers: a line stays a line, and drives no terminal."""
    return text.translate(_CONTROL_CHARACTERS)


def text(event: "Event") -> str:
    """One line. The time is that of the person who looks on."""
    times = f" (x{event.count})" if event.count > 1 else ""
    mark = "!" if event.is_warning else " "
    return f"{clock(event.last)} {mark} {event.object:<12} {event.reason}{times}: {escaped(event.message)}"


def clock(moment: datetime) -> str:
    """With the day where that is not today's."""
    local, now = moment.astimezone(), datetime.now(UTC).astimezone()
    return local.strftime("%H:%M:%S" if local.date() == now.date() else "%Y-%m-%d %H:%M:%S")
