"""The faults of `--inject`, done to the pods of the embedded cluster. Which pods, and when: `injection_aims`.

injector = Injector(injections, cluster, transport, tell)     # before there is a pod
injector.on_pod(body)                                         # whenever a pod is seen, as the API shows it
await injector.finish()                                       # when the job is over
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import click
import msgspec

from windlass.cli.injection_aims import Aims, Hit, Pod
from windlass.cli.run_report import Line, Topic
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ApiError, ConflictError, NotFoundError
from windlass.kubeapi.resources import PODS
from windlass.model.base import Json
from windlass.wire import injections
from windlass.wire.injections import Injection, What

if TYPE_CHECKING:
    from windlass.kubeapi.transport import Transport

OPTION = "--inject"
_decode = msgspec.json.Decoder(Pod).decode

option = click.option(
    OPTION,
    "injected",
    metavar="FAULT",
    multiple=True,
    help="A fault for a task, such as 'kill worker-1 after 5s', 'exit 3 worker-0', 'delete ps-0' or "
    "'delay worker-1 by 30s'. May be repeated.",
)


class Cluster(Protocol):
    """What a `LocalCluster` lets be done to its pods."""

    def end_container(
        self, namespace: str, pod: str, *, uid: str = "", container: str = "", code: int = injections.KILLED
    ) -> bool: ...

    def delay_pods(self, seconds_of: Callable[[Json], float]) -> None: ...


def asked_for(written: Iterable[str], tasks: Mapping[str, int]) -> tuple[Injection, ...]:
    """`tasks`: how many of them each role has. Raises UsageError for what cannot be done to any of them."""
    try:
        found = tuple(map(injections.parse, written))
        injections.insist_on_tasks(found, tasks)
    except injections.InjectionError as error:
        raise click.UsageError(f"{OPTION}: {error}") from error
    return found


def tasks_of(frameworks: Iterable[Json]) -> dict[str, int]:
    """By role, the most that one of these Frameworks has."""
    tasks: dict[str, int] = {}
    for framework in frameworks:
        for role in framework["spec"].get("taskRoles") or ():
            tasks[role["name"]] = max(role.get("taskNumber") or 0, tasks.get(role["name"], 0))
    return tasks


class Injector:
    """Within an event loop. Each fault that is done is told in a line, and each that never was when all is over."""

    def __init__(
        self,
        wanted: Iterable[Injection],
        cluster: Cluster,
        transport: "Transport",
        tell: Callable[[Line], None],
    ) -> None:
        self._wanted = tuple(wanted)
        self._aims = Aims(self._wanted)
        self._cluster = cluster
        self._transport = transport
        self._tell = tell
        self._done: set[Injection] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._deletions: set[asyncio.Task[None]] = set()
        if any(injection.what is What.DELAY for injection in self._wanted):
            cluster.delay_pods(self._delay_of)

    def on_pod(self, body: bytes | msgspec.Raw) -> None:
        loop = asyncio.get_running_loop()
        for hit in self._aims.hits(_decode(body)):
            self._timers.add(loop.call_later(hit.injection.seconds, self._do, hit))

    async def finish(self) -> None:
        for timer in self._timers:
            timer.cancel()
        for task in self._deletions:
            task.cancel()
        await asyncio.gather(*self._deletions, return_exceptions=True)
        for injection in dict.fromkeys(self._wanted):
            if injection not in self._done:
                message = f"not injected: {injection}: the task was over before it could be, or never ran"
                self._tell(Line(Topic.NOTE, _now(), injection.task, "NotInjected", message))

    def _delay_of(self, pod: Json) -> float:
        hits = self._aims.delays(msgspec.convert(pod, Pod))
        for hit in hits:
            self._say(hit)
        return sum(hit.injection.seconds for hit in hits)

    def _do(self, hit: Hit) -> None:
        if hit.injection.what is What.DELETE:
            deletion = asyncio.create_task(self._delete(hit))
            self._deletions.add(deletion)
            deletion.add_done_callback(self._deletions.discard)
        elif self._cluster.end_container(hit.namespace, hit.pod, uid=hit.uid, code=hit.injection.code):
            self._say(hit)

    async def _delete(self, hit: Hit) -> None:
        try:
            await self._transport.send(requests.delete(PODS, hit.namespace, hit.pod, uid=hit.uid))
        except (NotFoundError, ConflictError):
            return
        except ApiError as error:
            message = f"not injected: {hit.said}: {error}"
            self._tell(Line(Topic.NOTE, _now(), hit.task, "NotInjected", message))
            return
        self._say(hit)

    def _say(self, hit: Hit) -> None:
        self._done.add(hit.injection)
        self._tell(Line(Topic.NOTE, _now(), hit.task, "Injected", f"injected: {hit.said}"))


def _now() -> datetime:
    return datetime.now(UTC)
