"""The command `windlass events`."""

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec

from windlass.cli import cluster_options, errors, name_completion, parameters
from windlass.cli.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.events import Event

_encode = msgspec.json.Encoder().encode


@click.command()
@click.argument("name", shell_complete=name_completion.jobs)
@click.option("--watch", "-w", is_flag=True, help="Watch for new and repeated events until Ctrl-C.")
@parameters.output("text", "json")
@cluster_options.options
def events(name: str, watch: bool, output: str, cluster: ClusterOptions) -> None:
    """Show the events of the job NAME and its pods, oldest first. Repeated events are shown once with their count.

    A cluster keeps events for about an hour. With --output json, each line is one event.

    \b
        windlass events digits
        windlass events -w digits
    """
    # Slow imports are here, so that `windlass --help` stays fast.
    from windlass.client import events as client_events
    from windlass.client import lookup

    async def show(connection: "Connection") -> None:
        framework = await lookup.find(connection, name)
        if watch:
            async with contextlib.aclosing(client_events.follow(connection, framework)) as changes:
                async for event in changes:
                    click.echo(_format(event, output))
            return
        found = await client_events.read(connection, framework)
        for event in found:
            click.echo(_format(event, output))
        if not found and output == "text":
            errors.note(f"no recent events of {name}")

    cluster_options.run(cluster, show)


def _format(event: "Event", output: str) -> str:
    return _encode(event).decode() if output == "json" else format_text(event)


_CONTROL_CHARACTERS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code != 0x09}


def escaped(text: str) -> str:
    """Escape control characters other than tabs, since messages may contain output of containers."""
    return text.translate(_CONTROL_CHARACTERS)


def format_text(event: "Event") -> str:
    """Format an event as one line with the local time."""
    times = f" (x{event.count})" if event.count > 1 else ""
    mark = "!" if event.is_warning else " "
    return f"{format_local_time(event.last)} {mark} {event.object:<12} {event.reason}{times}: {escaped(event.message)}"


def format_local_time(moment: datetime) -> str:
    """Return the local time, with the date if it is not today."""
    local, now = moment.astimezone(), datetime.now(UTC).astimezone()
    return local.strftime("%H:%M:%S" if local.date() == now.date() else "%Y-%m-%d %H:%M:%S")
