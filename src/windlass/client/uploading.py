"""Files of this machine into a volume of the cluster: a job that mounts it, waits, and is told to unpack them.

They go as they are read, as a tar stream: nothing is held in memory, and there is no limit to their size.
"""

import asyncio
import contextlib
import os
import tarfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from windlass.client import deleting, sources, submitting, waiting, why
from windlass.client import exec as running
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, FaultyJobError, NotThereError, RefusedError, TimedOutError
from windlass.client.exec import Streams
from windlass.client.pods import Task
from windlass.client.waiting import Until
from windlass.kubeapi import requests
from windlass.kubeapi.errors import NotFoundError
from windlass.kubeapi.resources import Resource
from windlass.model.job import Job, Role, Volume

_CLAIMS = Resource("", "v1", "persistentvolumeclaims")
_ROLE = "upload"
_MOUNTED = "/windlass/volume"
_PIECE = 256 * 1024
_LIFE = "86400"
"""Seconds. Who is killed while files go leaves a job behind, which ends by itself then."""
# An archive says itself where it ends: tar does not wait for the end of the stream, which old servers cannot tell.
_UNPACK = 'mkdir -p "$1" && tar -x -f - -C "$1"'


class Target(msgspec.Struct, frozen=True):
    claim: str
    """The name of a PersistentVolumeClaim."""
    folder: str = ""
    """In the volume."""

    @classmethod
    def parse(cls, written: str) -> "Target":
        """CLAIM or CLAIM:FOLDER. Raises ValueError."""
        claim, _, folder = written.partition(":")
        inside = folder.strip("/")
        leads_out = ".." in inside.split("/")
        if not claim or leads_out:
            raise ValueError(f"found {written!r}, expected CLAIM or CLAIM:FOLDER, such as my-data:digits")
        return cls(claim, inside)

    def __str__(self) -> str:
        return f"{self.claim}:/{self.folder}"


class Uploaded(msgspec.Struct, frozen=True):
    files: int
    size: int
    """In bytes."""


async def upload(
    connection: Connection,
    source: Path,
    target: Target,
    *,
    name: str,
    image: str,
    timeout: float | None = None,
    say: Callable[[bytes], None] = lambda _: None,
) -> Uploaded:
    """What is in a folder, or one file. Raises ClientError.

    `name` is that of the job, which is deleted in the end, and `image` one that has sh and tar; `timeout` is for its
    start; `say` is told what tar complains of.
    """
    if not source.exists():
        raise FaultyJobError(f"there is no {source}: expected a folder, or one file")
    await _insist_on_claim(connection, target.claim)
    await submitting.submit(connection, sources.read(_job(name, image, target.claim)))
    try:
        await _wait_until_running(connection, name, timeout)
        return await _send(connection, source, target, name, say)
    finally:
        with contextlib.suppress(NotThereError):
            await deleting.delete(connection, name, waits=False)


def _job(name: str, image: str, claim: str) -> Job:
    return Job(
        name=name,
        description="Made by windlass upload, and deleted when all files are there",
        image=image,
        command=("sleep", _LIFE),
        roles={_ROLE: Role(tasks=1)},
        volumes={"target": Volume(pvc=claim, at=_MOUNTED)},
        ttl="1h",
        # It is the first process of its container, which hears no SIGTERM, and has nothing to lose.
        pod={"spec": {"terminationGracePeriodSeconds": 1}},
    )


async def _insist_on_claim(connection: Connection, claim: str) -> None:
    """A pod would wait for it without end."""
    try:
        await connection.send(requests.get(_CLAIMS, connection.namespace, claim))
    except NotFoundError as error:
        raise NotThereError(
            f"there is no PersistentVolumeClaim {claim} in the namespace {connection.namespace}: "
            "`kubectl get pvc` lists those that are there"
        ) from error


async def _wait_until_running(connection: Connection, name: str, timeout: float | None) -> None:
    try:
        await waiting.wait(connection, name, Until.RUNNING, timeout)
    except TimedOutError as late:
        found = await why.read(connection, name)
        waits = "".join(f"; {wait.reason}" for wait in found.waits)
        raise TimedOutError(f"the volume could not be had in time: {found.summary}{waits}") from late


async def _send(
    connection: Connection, source: Path, target: Target, job: str, say: Callable[[bytes], None]
) -> Uploaded:
    packed = _Packed(source)
    folder = f"{_MOUNTED}/{target.folder}".rstrip("/")
    here = Streams(stdout=say, stderr=say, stdin=packed.pieces())
    code = await running.execute(connection, job, Task(_ROLE, 0), ("sh", "-c", _UNPACK, "sh", folder), here)
    if packed.trouble is not None:
        raise ClientError(f"{source} cannot be read: {packed.trouble}") from packed.trouble
    if code:
        raise RefusedError(f"not all files are in {target}: tar ended with {code}")
    return Uploaded(packed.files, packed.size)


class _Packed:
    """A tar stream, written by a thread into a pipe."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self.files = 0
        self.size = 0
        self.trouble: OSError | None = None

    async def pieces(self) -> AsyncIterator[bytes]:
        reader, writer = os.pipe()
        writing = asyncio.create_task(asyncio.to_thread(self._write, writer))
        try:
            while piece := await asyncio.to_thread(os.read, reader, _PIECE):
                yield piece
        finally:
            # Whoever still writes is told by that.
            os.close(reader)
            await writing

    def _write(self, descriptor: int) -> None:
        try:
            with os.fdopen(descriptor, "wb") as stream, tarfile.open(mode="w|", fileobj=stream) as archive:
                inside = "." if self._source.is_dir() else self._source.name
                archive.add(self._source, inside, filter=self._counted)
        except BrokenPipeError:
            pass
        except OSError as error:
            self.trouble = error

    def _counted(self, entry: tarfile.TarInfo) -> tarfile.TarInfo:
        """Whose the files are here means nothing there."""
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        if entry.isfile():
            self.files += 1
            self.size += entry.size
        return entry
