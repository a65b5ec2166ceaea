"""Until what a job needs before it starts is there: its NFS server, its data, an answer of its preflight. By watch.

A pod that comes to nothing is given up before its time is over, where that can be known; `crews` says why.
"""

import contextlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NoReturn, TypeVar

import msgspec

from windlass.client import crews, listing, pods, watching
from windlass.client.connection import Connection
from windlass.client.crews import Crew, Places
from windlass.client.errors import GoneError, RefusedError, TimedOutError
from windlass.client.pods import Condition, Pod
from windlass.client.preparing_objects import Object
from windlass.kubeapi import requests
from windlass.kubeapi.errors import AnsweredError
from windlass.kubeapi.following import Deleted, Listed
from windlass.kubeapi.resources import PODS
from windlass.model.base import Sparse
from windlass.model.pods import PodPhase

T = TypeVar("T")

SERVER_SECONDS = 300.0
"""For so long an NFS server may take to answer: its image comes over the network, and its disk from somewhere."""
START_SECONDS = 300.0
"""For so long data may take until it begins to be loaded. How long that takes then is nobody's to say."""
WITHOUT = "which --no-preflight, in Python preflight=False, leaves out"
LAST_LINES = 10
"""Of a log, in the message of a failure."""


async def until_served(connection: Connection, deployment: Object) -> None:
    """The NFS server can be mounted. Raises ClientError."""
    crew = Crew(connection, {}, label_selector=_selector(deployment))
    try:
        await _until(
            _seen(connection, deployment, lambda found: found.is_available),
            crew,
            SERVER_SECONDS,
            f"the NFS server {deployment.name} does not answer",
        )
    except TimedOutError as error:
        said = await _log(connection, crew.pods[-1]) if crew.pods else ""
        raise TimedOutError(f"{error}\n{said}" if said else str(error)) from error


async def until_loaded(connection: Connection, job: Object, places: Places) -> None:
    """The Job has succeeded. Raises ClientError, with the last lines of what failed."""
    crew = Crew(connection, places, label_selector=_selector(job))
    ended = await _until(
        _seen(connection, job, lambda found: found.is_complete or found.failure is not None),
        crew,
        START_SECONDS,
        "its data cannot be loaded",
        may_go_on=lambda: crew.has_begun,
    )
    if not ended.is_complete:
        said = await _last_words(connection, job) or ended.failure or "the Job does not say why"
        raise RefusedError(f"its data could not be loaded: {said}")


async def until_checked(connection: Connection, pod: Object, places: Places, seconds: float) -> None:
    """Every file is where it is needed. Raises ClientError, which says what is not there."""
    crew = Crew(connection, places, name=pod.name)
    ended = await _until(
        crew.until_over(),
        crew,
        seconds,
        f"the preflight ({WITHOUT}) has no answer",
        may_go_on=lambda: crew.is_pulling,
    )
    if ended.status.phase != PodPhase.SUCCEEDED:
        said = crews.last_words(ended) or await _log(connection, ended)
        raise RefusedError(f"the preflight has failed: {said or 'it does not say why'}")


async def _until(
    work: Coroutine[Any, Any, T],
    crew: Crew,
    seconds: float,
    otherwise: str,
    may_go_on: Callable[[], bool] = lambda: False,
) -> T:
    """What `work` gives. Raises RefusedError when its pods come to nothing, and TimedOutError.

    `may_go_on` is asked when the time is over. `otherwise` is what is told then, with the reason.
    """

    async def give_up() -> NoReturn:
        raise RefusedError(f"{otherwise}: {await crew.until_hopeless()}")

    try:
        return await crew.watched(work, give_up(), seconds=seconds, may_go_on=may_go_on)
    except TimeoutError as error:
        late, why = f"{otherwise}, after {seconds:g} s", crew.why()
        raise TimedOutError(f"{late}: {why}" if why else late) from error


# What is read of Deployments and Jobs


class _Metadata(Sparse, frozen=True):
    uid: str = ""
    generation: int = 0


class _Status(Sparse, frozen=True):
    observed_generation: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class _Workload(Sparse, frozen=True):
    metadata: _Metadata = _Metadata()
    status: _Status = _Status()

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


_decode = msgspec.json.Decoder(_Workload).decode


async def _seen(connection: Connection, wanted: Object, is_so: Callable[[_Workload], bool]) -> _Workload:
    """As soon as it is so. Raises GoneError and ApiError."""
    news = watching.news(
        connection, wanted.belonging.kind.resource, field_selector=f"metadata.name={wanted.name}"
    )
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
    raise GoneError(f"somebody has deleted the {wanted} meanwhile")


def _selector(workload: Object) -> str:
    """Of a Job, the API server has chosen it."""
    labels: Mapping[str, str] = workload.body["spec"]["selector"]["matchLabels"]
    return ",".join(f"{name}={value}" for name, value in labels.items())


# What was said at last


async def _last_words(connection: Connection, job: Object) -> str:
    """Of the newest pod that has failed: in which container, and what that wrote."""
    listed = await listing.objects(connection, PODS, connection.namespace, _selector(job))
    failed = [pod for pod in map(pods.decode, listed) if pod.status.phase == PodPhase.FAILED]
    if not failed:
        return ""
    pod = max(failed, key=lambda each: str(each.metadata.creation_timestamp))
    said = await _log(connection, pod) or crews.last_words(pod)
    container = crews.failed_container(pod)
    ended = container.state.terminated if container is not None else None
    if container is None or ended is None:
        return said
    return f"its step {container.name} ended with {ended.exit_code}{':' if said else ''} {said}".strip()


async def _log(connection: Connection, pod: Pod) -> str:
    """The end of that of the container that failed, as well as it can be had."""
    failed = crews.failed_container(pod)
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
