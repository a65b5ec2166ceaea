"""The pod that mounts a share for an upload. It is deleted at the end of the upload.

It is a plain pod, so that an upload does not require the CustomResourceDefinition of Frameworks.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec

from windlass.client import pods
from windlass.client.connection import Connection
from windlass.client.errors import (
    ClientError,
    ObjectDeletedError,
    ObjectNotFoundError,
    RejectedError,
    TimedOutError,
)
from windlass.client.pod_watcher import PodWatcher
from windlass.client.pods import Pod
from windlass.client.upload.shares import Claim, MountedShare, Nfs
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
MOUNT_PATH = "/windlass/share"
IMAGE = "busybox:stable"
MAX_LIFETIME_SECONDS = 86400
"""Maximum lifetime of the pod, in case a killed upload leaves it behind."""


def manifest(name: str, job: str, image: str, share: MountedShare) -> Json:
    mounting = Job(name=job, volumes={VOLUME: _volume(share)})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {names.JOB_LABEL: job}},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": MAX_LIFETIME_SECONDS,
            # sleep runs as PID 1, which ignores SIGTERM.
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [
                {
                    "name": CONTAINER,
                    "image": image,
                    "command": ["sleep", str(MAX_LIFETIME_SECONDS)],
                    "volumeMounts": volumes.job_file_mounts(mounting),
                }
            ],
            "volumes": volumes.job_file_volumes(mounting),
        },
    }


@contextlib.asynccontextmanager
async def started(
    connection: Connection,
    share: MountedShare,
    *,
    name: str,
    job: str,
    image: str = IMAGE,
    timeout: float | None = None,
    on_warning: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[None]:
    """Run a pod with the share at MOUNT_PATH during the block, and delete it at the end.

    `timeout` limits its start. `on_warning` receives messages about delays, and about a failed deletion. Raises
    ClientError and ApiError.
    """
    if isinstance(share, Claim):
        await _require_claim(connection, share.claim)
    body = msgspec.json.encode(manifest(name, job, image, share))
    try:
        created = pods.decode(await connection.send(requests.create(PODS, connection.namespace, body)))
    except asyncio.CancelledError:
        # The pod may have been created although the request was cancelled.
        await _delete(connection, name, on_warning)
        raise
    try:
        await _wait_until_running(connection, created, share, timeout, on_warning)
        yield
    finally:
        await _delete(connection, name, on_warning)


async def _delete(connection: Connection, name: str, on_warning: Callable[[str], None]) -> None:
    """Delete the pod. Errors are only reported, so that they do not hide an earlier one."""
    try:
        await connection.send(requests.delete(PODS, connection.namespace, name))
    except NotFoundError:
        return
    except (ApiError, ClientError) as error:
        on_warning(f"cannot delete pod {name} in the namespace {connection.namespace}: {error}")


def describe_share(share: MountedShare) -> str:
    return preflight.place_of(_volume(share), VOLUME)


def _volume(share: MountedShare) -> Volume:
    match share:
        case Nfs(server=server, path=path):
            return Volume(at=MOUNT_PATH, nfs=NfsVolume(server=server.strip("[]"), path=path))
        case Claim(claim=claim):
            return Volume(at=MOUNT_PATH, pvc=claim)


async def _require_claim(connection: Connection, claim: str) -> None:
    """Raise ObjectNotFoundError if the claim does not exist, since the pod would stay pending."""
    try:
        await connection.send(requests.get(PERSISTENT_VOLUME_CLAIMS, connection.namespace, claim))
    except ForbiddenError:
        return
    except NotFoundError as error:
        raise ObjectNotFoundError(
            f"there is no PersistentVolumeClaim {claim} in the namespace {connection.namespace}. "
            "List the claims with `kubectl get pvc`."
        ) from error


# Start of the pod


async def _wait_until_running(
    connection: Connection,
    pod: Pod,
    share: MountedShare,
    timeout: float | None,
    on_warning: Callable[[str], None],
) -> None:
    watcher = PodWatcher(connection, name=pod.name)
    reported: set[str] = set()

    def has_started() -> bool:
        for reason in watcher.blocking_messages:
            if reason not in reported:
                reported.add(reason)
                on_warning(f"cannot mount {describe_share(share)} yet: {reason}")
        return _has_started(watcher, share)

    try:
        await watcher.run_while_watching(watcher.wait_until(has_started), seconds=timeout)
    except TimeoutError as error:
        reason = (
            watcher.blocking_messages[-1] if watcher.blocking_messages else "the cluster reports no reason"
        )
        raise TimedOutError(
            f"cannot mount {describe_share(share)} within {timeout:g} s: {reason}. "
            "Check its name, and that the nodes of the cluster can reach it."
        ) from error


def _has_started(watcher: PodWatcher, share: MountedShare) -> bool:
    """Return whether the container runs. Raises ClientError if it never will."""
    if watcher.had_no_pod or any(pod.is_deleting for pod in watcher.pods):
        raise ObjectDeletedError(
            f"the loader pod for {describe_share(share)} was deleted. Run the command again."
        )
    for pod in watcher.pods:
        status = pod.status_of(CONTAINER)
        if pod.is_over:
            ended = None if status is None else status.state.terminated
            reason = pod.status.message or pod.status.reason
            if ended is not None:
                reason = f"it exited with code {ended.exit_code}: {ended.message or ended.reason}"
            raise RejectedError(
                f"the loader pod for {describe_share(share)} failed: {reason or 'unknown reason'}"
            )
        if status is not None and status.is_running:
            return True
    return False
