"""All that there is to see of a job: the Framework, its pods, its companions and its events."""

import msgspec

from windlass.client import events, lookup, tasks
from windlass.client.companions import status as companion_status
from windlass.client.companions.status import CompanionView
from windlass.client.connection import Connection
from windlass.client.events import Event
from windlass.client.pods import Pod
from windlass.kubeapi.errors import ForbiddenError
from windlass.model.framework import Framework


class Description(msgspec.Struct, frozen=True):
    framework: Framework
    pods: tuple[Pod, ...] = ()
    companions: tuple[CompanionView, ...] = ()
    events: tuple[Event, ...] = ()
    unseen: tuple[str, ...] = ()
    """What may not be read, and why."""


async def describe(connection: Connection, name: str) -> Description:
    """Raises what `finding.find` raises. Who may see the job but not its pods is told so."""
    framework = await lookup.find(connection, name)
    unseen: list[str] = []
    pods: list[Pod] = []
    happened: list[Event] = []
    try:
        pods = await tasks.list_pods(connection, framework)
    except ForbiddenError as error:
        unseen.append(f"pods: {error.failure.message}")
    notes: list[str] = []
    beside = await companion_status.read(connection, name, notes.append)
    unseen.extend(dict.fromkeys(notes if beside else ()))
    try:
        happened = await events.read(connection, framework)
    except ForbiddenError as error:
        unseen.append(f"events: {error.failure.message}")
    return Description(framework, tuple(pods), beside, tuple(happened), tuple(unseen))
