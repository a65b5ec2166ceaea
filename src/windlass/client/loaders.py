"""The pod through which files go onto a share that only the cluster can reach. It lives as long as the upload.

It is a pod and no job: whoever uploads needs none of our definitions in the cluster.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec

from windlass.client import pods
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, GoneError, NotThereError, RefusedError, TimedOutError
from windlass.client.pods import Pod
from windlass.client.upload_shares import Claim, Mounted, Nfs
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ApiError, ForbiddenError, NotFoundError, UnauthorizedError
from windlass.kubeapi.following import Changed, Deleted, Follower, Listed, News
from windlass.kubeapi.resources import EVENTS, PODS, Resource
from windlass.model import names
from windlass.model.base import Json, Sparse

CONTAINER = "loader"
MOUNTED = "/windlass/share"
IMAGE = "busybox:stable"
LIFE_SECONDS = 86400
"""Who is killed while files go leaves a pod behind, which ends by itself then."""
_CLAIMS = Resource("", "v1", "persistentvolumeclaims")


def manifest(name: str, job: str, image: str, share: Mounted) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {names.JOB_LABEL: job}},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LIFE_SECONDS,
            # It is the first process of its container, which hears no SIGTERM, and has nothing to lose.
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [
                {
                    "name": CONTAINER,
                    "image": image,
                    "command": ["sleep", str(LIFE_SECONDS)],
                    "volumeMounts": [{"name": "share", "mountPath": MOUNTED}],
                }
            ],
            "volumes": [{"name": "share", **_source(share)}],
        },
    }


@contextlib.asynccontextmanager
async def opened(
    connection: Connection,
    share: Mounted,
    *,
    name: str,
    job: str,
    image: str = IMAGE,
    timeout: float | None = None,
    noted: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[str]:
    """The name of the pod, which runs and has the share at MOUNTED. It is deleted in the end, whatever happens.

    `timeout` is for its start; `noted` is told what holds it up. Raises ClientError.
    """
    if isinstance(share, Claim):
        await _insist_on_claim(connection, share.claim)
    body = msgspec.json.encode(manifest(name, job, image, share))
    try:
        created = pods.decode(await connection.send(requests.create(PODS, connection.namespace, body)))
    except asyncio.CancelledError:
        # Somebody pressed Ctrl-C in this moment: it may have been made all the same.
        await _remove(connection, name, noted)
        raise
    try:
        await _wait_until_running(connection, created, share, timeout, noted)
        yield created.name
    finally:
        await _remove(connection, name, noted)


async def _remove(connection: Connection, name: str, noted: Callable[[str], None]) -> None:
    """What goes wrong here is only told: there may be something worse that leaves."""
    try:
        await connection.send(requests.delete(PODS, connection.namespace, name))
    except NotFoundError:
        return
    except (ApiError, ClientError) as error:
        noted(f"the pod {name} of the namespace {connection.namespace} could not be deleted: {error}")


def said(share: Mounted) -> str:
    """For messages."""
    match share:
        case Nfs(server=server, path=path):
            return f"the folder {path} of the NFS server {server}"
        case Claim(claim=claim):
            return f"the volume of the PersistentVolumeClaim {claim}"


def _source(share: Mounted) -> Json:
    match share:
        case Nfs(server=server, path=path):
            return {"nfs": {"server": server.strip("[]"), "path": path}}
        case Claim(claim=claim):
            return {"persistentVolumeClaim": {"claimName": claim}}


async def _insist_on_claim(connection: Connection, claim: str) -> None:
    """A pod would wait for it without end. Who may not look at claims may still have one."""
    try:
        await connection.send(requests.get(_CLAIMS, connection.namespace, claim))
    except ForbiddenError:
        return
    except NotFoundError as error:
        raise NotThereError(
            f"there is no PersistentVolumeClaim {claim} in the namespace {connection.namespace}: "
            "`kubectl get pvc` lists those that are there"
        ) from error


# Until it runs


async def _wait_until_running(
    connection: Connection,
    pod: Pod,
    share: Mounted,
    timeout: float | None,
    noted: Callable[[str], None],
) -> None:
    hindrances = _Hindrances(lambda reason: noted(f"{said(share)} cannot be had yet: {reason}"))
    pod_news: asyncio.Queue[Pod | ApiError | None] = asyncio.Queue()
    following = [
        asyncio.create_task(follower.run())
        for follower in (
            _follower(
                connection, PODS, f"metadata.name={pod.name}", lambda news: _receive(news, pod_news), pod_news
            ),
            _follower(connection, EVENTS, f"involvedObject.uid={pod.uid}", hindrances.receive, None),
        )
    ]
    try:
        async with asyncio.timeout(timeout):
            while not _has_begun(seen := await pod_news.get(), share):
                hindrances.look_at(seen)
    except TimeoutError as late:
        raise TimedOutError(
            f"{said(share)} could not be had within {timeout:g} s: "
            f"{hindrances.last or 'the cluster does not say why'}. "
            "Check its name, and that the nodes of the cluster can reach it."
        ) from late
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


def _follower(
    connection: Connection,
    resource: Resource,
    selector: str,
    receive: Callable[[News], None],
    refused: "asyncio.Queue[Pod | ApiError | None] | None",
) -> Follower:
    def troubled(error: ApiError) -> None:
        is_hopeless = isinstance(error, ForbiddenError | UnauthorizedError)
        if is_hopeless and refused is not None:
            refused.put_nowait(error)

    return Follower(
        connection.transport,
        resource,
        namespace=connection.namespace,
        field_selector=selector,
        receive=receive,
        troubled=troubled,
    )


def _receive(news: News, seen: "asyncio.Queue[Pod | ApiError | None]") -> None:
    match news:
        case Listed(items=items):
            seen.put_nowait(pods.decode(items[0]) if items else None)
        case Changed(object=body):
            seen.put_nowait(pods.decode(body))
        case Deleted():
            seen.put_nowait(None)


def _has_begun(found: Pod | ApiError | None, share: Mounted) -> bool:
    """Raises ClientError when it never will."""
    if isinstance(found, ApiError):
        raise found
    if found is None or found.is_deleting:
        raise GoneError(f"the pod that was to mount {said(share)} was deleted by somebody: run it again")
    status = found.status_of(CONTAINER)
    if found.is_over:
        ended = None if status is None else status.state.terminated
        why = found.status.message or found.status.reason
        if ended is not None:
            why = f"it ended with {ended.exit_code}: {ended.message or ended.reason}"
        raise RefusedError(f"the pod that was to mount {said(share)} did not run: {why or 'nobody says why'}")
    return status is not None and status.is_running


# Why it does not


class _Event(Sparse, frozen=True):
    type: str = ""
    message: str = ""


_decode_event = msgspec.json.Decoder(_Event).decode


class _Hindrances:
    """What the cluster says of a pod that does not begin. Each is told once."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()
        self.last = ""

    def receive(self, news: News) -> None:
        """Events of the pod."""
        match news:
            case Listed(items=items):
                found = [_decode_event(item) for item in items]
            case Changed(object=body):
                found = [_decode_event(body)]
            case Deleted():
                found = []
        for event in found:
            if event.type == "Warning":
                self._add(event.message)

    def look_at(self, pod: Pod | ApiError | None) -> None:
        """An image that cannot be had, or no node that takes it."""
        if not isinstance(pod, Pod):
            return
        status = pod.status_of(CONTAINER)
        if status is not None and status.state.waiting is not None:
            self._add(status.state.waiting.message)
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                self._add(condition.message)

    def _add(self, message: str) -> None:
        reason = message.strip().removesuffix(".")
        if not reason:
            return
        self.last = reason
        if reason not in self._told:
            self._told.add(reason)
            self._tell(reason)
