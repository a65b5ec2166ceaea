"""Deployments and Jobs that somebody waits for: until they are as wanted, or their pods come to nothing. By watch."""

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, Protocol, TypeVar

import msgspec

from windlass.client import pod_watcher, watch
from windlass.client.connection import Connection
from windlass.client.errors import GoneError, RefusedError, TimedOutError
from windlass.client.pod_watcher import PodWatcher
from windlass.client.pods import Condition, Pod
from windlass.k8s.metadata import ObjectMeta
from windlass.kubeapi import requests
from windlass.kubeapi.errors import AnsweredError
from windlass.kubeapi.following import Deleted, Listed
from windlass.kubeapi.resources import Resource
from windlass.model.base import Sparse

T = TypeVar("T")

LAST_LINES = 10
"""Of a log, in the message of a failure."""


class Wanted(Protocol):
    """Which one it is, by more than its name."""

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...


class Status(Sparse, frozen=True):
    observed_generation: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class Workload(Sparse, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: Status = Status()

    @property
    def is_available(self) -> bool:
        """With what was asked for last."""
        status = self.status
        is_seen = status.observed_generation >= self.metadata.generation
        return is_seen and status.updated_replicas > 0 and status.available_replicas > 0

    @property
    def is_complete(self) -> bool:
        return self._condition("Complete") is not None

    @property
    def failure(self) -> str | None:
        condition = self._condition("Failed")
        return None if condition is None else f"{condition.reason}: {condition.message}".strip(": ")

    def _condition(self, kind: str) -> Condition | None:
        conditions = self.status.conditions
        return next((each for each in conditions if each.type == kind and each.status == "True"), None)


_decode = msgspec.json.Decoder(Workload).decode


async def seen(
    connection: Connection, resource: Resource, wanted: Wanted, is_so: Callable[[Workload], bool]
) -> Workload:
    """As soon as it is so. One that has the same name later is another one. Raises GoneError and ApiError."""
    news = watch.watch_objects(connection, resource, field_selector=f"metadata.name={wanted.name}")
    async with contextlib.aclosing(news) as changes:
        async for change in changes:
            bodies = change.items if isinstance(change, Listed) else (change.object,)
            mine = [found for found in map(_decode, bodies) if found.metadata.uid == wanted.uid]
            is_gone = bool(mine) if isinstance(change, Deleted) else isinstance(change, Listed) and not mine
            if is_gone:
                break
            for found in mine:
                if is_so(found):
                    return found
    raise GoneError(f"somebody has deleted {wanted} meanwhile")


async def until(
    work: Coroutine[Any, Any, T],
    crew: PodWatcher,
    seconds: float | None,
    otherwise: str,
    *others: Coroutine[Any, Any, NoReturn],
    may_go_on: Callable[[], bool] = lambda: False,
) -> T:
    """What `work` gives. Raises RefusedError when its pods come to nothing, TimedOutError, and what `others` raise.

    `may_go_on` is asked when the time is over. `otherwise` is what is told then, with the reason.
    """

    async def give_up() -> NoReturn:
        raise RefusedError(f"{otherwise}: {await crew.until_hopeless()}")

    try:
        return await crew.watched(work, give_up(), *others, seconds=seconds, may_go_on=may_go_on)
    except TimeoutError as error:
        late, why = f"{otherwise}, after {seconds:g} s", crew.why()
        raise TimedOutError(f"{late}: {why}" if why else late) from error


async def last_lines(connection: Connection, pod: Pod) -> str:
    """The end of the log of the container that failed, as well as it can be had."""
    failed = pod_watcher.failed_container(pod)
    if failed is None:
        return ""
    is_over = failed.state.terminated is not None
    request = requests.log(
        connection.namespace,
        pod.name,
        container=failed.name,
        tailLines=str(LAST_LINES),
        previous="" if is_over else "true",
    )
    with contextlib.suppress(AnsweredError):
        return (await connection.send(request)).decode("utf-8", "replace").strip()
    return ""
