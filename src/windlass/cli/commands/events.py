"""The command `windlass events`."""

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, errors, json_output, name_completion, parameters
from windlass.cli.cluster_options import ClusterOptions
from windlass.model import untrusted_text

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.events import Event


@click.command()
@click.argument("name", shell_complete=name_completion.jobs)
@click.option("--watch", "-w", is_flag=True, help="Watch for new and repeated events until Ctrl-C.")
@parameters.output("text", "json")
@cluster_options.options
def events(name: str, watch: bool, output: str, cluster: ClusterOptions) -> None:
    """Show the events of the job NAME and its pods, oldest first. Repeated events are shown once with their count.

    A cluster keeps events for about an hour. Older events about attempts are read from the records of the attempts,
    also after the job is deleted. With --output json, each line is one event.

    \b
        windlass events digits
        windlass events -w digits
    """
    # Slow imports are here, so that `windlass --help` stays fast.
    from windlass.client import events as client_events
    from windlass.client import history

    async def show(connection: "Connection") -> None:
        job = await history.find(connection, name)
        if watch:
            async with contextlib.aclosing(client_events.follow(connection, job.framework)) as changes:
                async for event in changes:
                    click.echo(_format(event, output))
            return
        found = history.with_recorded(await client_events.read(connection, job.framework), job.records)
        for event in found:
            click.echo(_format(event, output))
        if not found and output == "text":
            errors.note(f"no recent events of {name}")

    cluster_options.run(cluster, show)


def _format(event: "Event", output: str) -> str:
    return json_output.encode(event).decode() if output == "json" else format_text(event)


def format_text(event: "Event") -> str:
    """Format an event as one line with the local time."""
    times = f" (x{event.count})" if event.count > 1 else ""
    mark = "!" if event.is_warning else " "
    message = untrusted_text.escaped(event.message)
    return f"{format_local_time(event.last)} {mark} {event.object:<12} {event.reason}{times}: {message}"


def format_local_time(moment: datetime) -> str:
    """Return the local time, with the date if it is not today."""
    local, now = moment.astimezone(), datetime.now(UTC).astimezone()
    return local.strftime("%H:%M:%S" if local.date() == now.date() else "%Y-%m-%d %H:%M:%S")
