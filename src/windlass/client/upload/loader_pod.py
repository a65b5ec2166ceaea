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
from windlass.client.pod_watcher import PodWatcher
from windlass.client.pods import Pod
from windlass.client.upload.shares import Claim, Mounted, Nfs
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ApiError, ForbiddenError, NotFoundError
from windlass.kubeapi.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from windlass.model import names
from windlass.model.base import Json
from windlass.model.job import Job, Volume
from windlass.model.job import Nfs as NfsVolume
from windlass.render.storage import preflight, volumes

CONTAINER = "loader"
VOLUME = "share"
MOUNTED = "/windlass/share"
IMAGE = "busybox:stable"
LIFE_SECONDS = 86400
"""Who is killed while files go leaves a pod behind, which ends by itself then."""


def manifest(name: str, job: str, image: str, share: Mounted) -> Json:
    mounting = Job(name=job, volumes={VOLUME: _volume(share)})
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
                    "volumeMounts": volumes.own_mounts(mounting),
                }
            ],
            "volumes": volumes.own_volumes(mounting),
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
    return preflight.place_of(_volume(share), VOLUME)


def _volume(share: Mounted) -> Volume:
    match share:
        case Nfs(server=server, path=path):
            return Volume(at=MOUNTED, nfs=NfsVolume(server=server.strip("[]"), path=path))
        case Claim(claim=claim):
            return Volume(at=MOUNTED, pvc=claim)


async def _insist_on_claim(connection: Connection, claim: str) -> None:
    """A pod would wait for it without end. Who may not look at claims may still have one."""
    try:
        await connection.send(requests.get(PERSISTENT_VOLUME_CLAIMS, connection.namespace, claim))
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
    crew = PodWatcher(connection, {}, name=pod.name)
    told: set[str] = set()

    def has_begun() -> bool:
        for reason in crew.blocking_reasons:
            if reason not in told:
                told.add(reason)
                noted(f"{said(share)} cannot be had yet: {reason}")
        return _has_begun(crew, share)

    try:
        await crew.watched(crew.until(has_begun), seconds=timeout)
    except TimeoutError as late:
        why = crew.blocking_reasons[-1] if crew.blocking_reasons else "the cluster does not say why"
        raise TimedOutError(
            f"{said(share)} could not be had within {timeout:g} s: {why}. "
            "Check its name, and that the nodes of the cluster can reach it."
        ) from late


def _has_begun(crew: PodWatcher, share: Mounted) -> bool:
    """Raises ClientError when it never will."""
    if crew.is_lost or any(pod.is_deleting for pod in crew.pods):
        raise GoneError(f"the pod that was to mount {said(share)} was deleted by somebody: run it again")
    for pod in crew.pods:
        status = pod.status_of(CONTAINER)
        if pod.is_over:
            ended = None if status is None else status.state.terminated
            why = pod.status.message or pod.status.reason
            if ended is not None:
                why = f"it ended with {ended.exit_code}: {ended.message or ended.reason}"
            raise RefusedError(
                f"the pod that was to mount {said(share)} did not run: {why or 'nobody says why'}"
            )
        if status is not None and status.is_running:
            return True
    return False
