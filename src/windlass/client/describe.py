"""Read everything about a job: the Framework, its pods, its companions and its events."""

import msgspec

from windlass.client import events, jobs, tasks, views
from windlass.client.companions import status as companion_status
from windlass.client.companions.status import CompanionView
from windlass.client.connection import Connection
from windlass.client.events import Event
from windlass.client.explain import pending
from windlass.client.pods import Pod
from windlass.client.views import JobView
from windlass.kubeapi.errors import ForbiddenError
from windlass.model.framework import Framework


class Description(msgspec.Struct, frozen=True):
    framework: Framework
    view: JobView
    pods: tuple[Pod, ...] = ()
    companions: tuple[CompanionView, ...] = ()
    events: tuple[Event, ...] = ()
    unreadable: tuple[str, ...] = ()
    """The parts that the user may not read, each with the error."""


async def describe(connection: Connection, name: str) -> Description:
    """Return the parts of the job that the user may read. Raises the errors of `jobs.find`."""
    framework = await jobs.find(connection, name)
    unreadable: list[str] = []
    pods: list[Pod] = []
    found_events: list[Event] = []
    try:
        pods = await tasks.list_pods(connection, framework)
    except ForbiddenError as error:
        unreadable.append(f"pods: {error.failure.message}")
    notes: list[str] = []
    companions = await companion_status.read(connection, name, notes.append)
    unreadable.extend(dict.fromkeys(notes if companions else ()))
    try:
        found_events = await events.read(connection, framework)
    except ForbiddenError as error:
        unreadable.append(f"events: {error.failure.message}")
    (view,) = await pending.with_reasons(connection, [(framework, views.job_view(framework))])
    return Description(framework, view, tuple(pods), companions, tuple(found_events), tuple(unreadable))
