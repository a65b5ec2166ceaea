"""`windlass submit --companions-only`: see `windlass.client.companions.standalone`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from windlass.cli import created_objects
from windlass.runner import exit_codes

if TYPE_CHECKING:
    from windlass.client.companions.standalone import Plan, Started
    from windlass.client.connection import Connection
    from windlass.client.submit.sources import Source
    from windlass.model.base import Json

_SERVER = "Deployment"
_NAME = "deployment.apps"


async def submit(connection: "Connection", sources: "Sequence[Source]", form: str, *, is_dry: bool) -> int:
    """Everything is planned before anything is created. Gives what to exit with."""
    from windlass.client.companions import standalone

    plans = [await standalone.plan(connection, source) for source in sources]
    if is_dry:
        _show(plans, form)
        return exit_codes.SUCCESS

    def tell(line: str) -> None:
        click.echo(line, err=form != "text")

    servers: list[Json] = []
    async for started in standalone.carry_out(connection, plans, tell):
        servers += [each.body for each in started.servers]
        if form == "text":
            _say(started)
    if form == "json":
        click.echo(created_objects.as_one(servers))
    elif form == "name":
        _name(servers)
    return exit_codes.SUCCESS


def _say(started: "Started") -> None:
    from windlass.model import names

    for each in started.servers:
        companion = each.body["metadata"]["labels"][names.COMPANION_LABEL]
        click.echo(created_objects.door(companion, started.job, started.namespace))


def _show(plans: "Sequence[Plan]", form: str) -> None:
    objects = [each for plan in plans for each in plan.objects]
    if form == "json":
        click.echo(created_objects.as_one(objects))
    elif form == "name":
        _name([each for each in objects if each["kind"] == _SERVER])
    else:
        click.echo("---\n".join(map(created_objects.as_yaml, objects)), nl=False)


def _name(servers: "Sequence[Json]") -> None:
    for each in servers:
        click.echo(f"{_NAME}/{each['metadata']['name']}")
