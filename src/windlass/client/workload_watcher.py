"""Wait for Deployments and Jobs until a condition holds or their pods fail permanently."""

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, Protocol, TypeVar

import msgspec

from windlass.client import pod_watcher, watch
from windlass.client.connection import Connection
from windlass.client.errors import ObjectDeletedError, RejectedError, TimedOutError
from windlass.client.pod_watcher import PodWatcher
from windlass.client.pods import Condition, Pod
from windlass.k8s.metadata import ObjectMeta
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ResponseError
from windlass.kubeapi.resources import Resource
from windlass.model.base import Sparse

T = TypeVar("T")

LAST_LINES = 10
"""Number of log lines in an error message."""


class WorkloadRef(Protocol):
    """Identifies a workload by name and UID."""

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
        """Whether the latest generation has replicas, and any replica is available."""
        status = self.status
        is_current = status.observed_generation >= self.metadata.generation
        return is_current and status.updated_replicas > 0 and status.available_replicas > 0

    @property
    def is_complete(self) -> bool:
        return self._condition("Complete") is not None

    @property
    def failure(self) -> str | None:
        condition = self._condition("Failed")
        return None if condition is None else f"{condition.reason}: {condition.message}".strip(": ")

    def _condition(self, condition_type: str) -> Condition | None:
        conditions = self.status.conditions
        return next(
            (each for each in conditions if each.type == condition_type and each.status == "True"), None
        )


_decode = msgspec.json.Decoder(Workload).decode


async def wait_until(
    connection: Connection, resource: Resource, ref: WorkloadRef, is_met: Callable[[Workload], bool]
) -> Workload:
    """Return the workload when the condition holds. A later workload of the same name is ignored.

    Raises ObjectDeletedError and ApiError.
    """
    found = watch.watch_object(connection, resource, ref.name, ref.uid, _decode)
    async with contextlib.aclosing(found) as changes:
        async for workload in changes:
            if workload is not None and is_met(workload):
                return workload
    raise ObjectDeletedError(f"{ref} was deleted meanwhile")


async def run_with_pods(
    work: Coroutine[Any, Any, T],
    pods: PodWatcher,
    seconds: float | None,
    failure: str,
    *checks: Coroutine[Any, Any, NoReturn],
    may_continue: Callable[[], bool] = lambda: False,
) -> T:
    """Run `work` while watching `pods`, and return its result.

    After the timeout, `may_continue` decides whether to wait without a limit. `failure` begins the error message.
    Raises RejectedError if the pods fail permanently, TimedOutError, and the errors of `work`, `checks` and watches.
    """

    async def fail() -> NoReturn:
        raise RejectedError(f"{failure}: {await pods.wait_until_unrecoverable()}")

    try:
        return await pods.run_while_watching(
            work, fail(), *checks, seconds=seconds, may_continue=may_continue
        )
    except TimeoutError as error:
        message, reason = f"{failure} within {seconds:g} s", pods.pending_reason()
        raise TimedOutError(f"{message}: {reason}" if reason else message) from error


async def last_lines(connection: Connection, pod: Pod) -> str:
    """Return the end of the log of the failed container; empty if none failed, or the server rejects the request."""
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
    with contextlib.suppress(ResponseError):
        return (await connection.send(request)).decode("utf-8", "replace").strip()
    return ""
