"""Copy files between this machine and a task, as a tar archive through a command in its container.

If the task does not run any more, files of its persistent volumes are read through a loader pod, as uploads use.

An archive from a task is unpacked into a temporary folder and checked before its files are moved to the target: it may
contain only files, directories and links within itself.
"""

import asyncio
import contextlib
import os
import posixpath
import secrets
import tarfile
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import msgspec

from windlass.client import exec as execution
from windlass.client import jobs
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, InvalidJobError, ObjectNotFoundError, RejectedError
from windlass.client.exec import Streams
from windlass.client.pods import Container, PodSpec, Task
from windlass.client.upload import items as upload_items
from windlass.client.upload import loader_pod
from windlass.client.upload.shares import Claim, MountedShare, Nfs
from windlass.model.framework import Framework
from windlass.wire import diagnostics

_CHUNK_BYTES = 64 * 1024
_MAX_STDERR_LENGTH = 500
_NO_TAR_CODES = (126, 127)
START_SECONDS = 300.0
"""Time limit for the start of a loader pod."""

_decode_spec = msgspec.json.Decoder(PodSpec).decode


class Output(msgspec.Struct, frozen=True):
    """A volume that keeps what the tasks of a role write."""

    task: Task
    """The first task that mounts it."""
    path: str
    """Path in the container."""
    place: str
    """The volume in words, e.g. `claim results`, or a folder of the node."""
    share: MountedShare | None = None
    """The volume for a loader pod; None for a folder of a node."""

    def describe(self, job: str) -> str:
        """Return where the files are and, for a volume, the command that copies them."""
        if self.share is None:
            return f"{self.path} is {self.place}"
        return f"{self.path} is in the {self.place}: {self.copy_command(job)}"

    def copy_command(self, job: str) -> str:
        folder = posixpath.basename(self.path.rstrip("/")) or "output"
        return f"windlass cp {job}/{self.task}:{self.path} ./{folder}"


class Copied(msgspec.Struct, frozen=True):
    files: int
    size: int


# Volumes


def outputs(framework: Framework) -> tuple[Output, ...]:
    """Return the volumes that keep the files of the job, each once."""
    found: dict[tuple[str, str], Output] = {}
    for role in framework.spec.task_roles:
        if not role.task_number:
            continue
        for each in _role_outputs(framework, Task(role.name, 0)):
            found.setdefault((each.path, each.place), each)
    return tuple(found.values())


def _role_outputs(framework: Framework, task: Task, container: str = "") -> Iterator[Output]:
    """Yield the persistent volumes that a container of the task can write, as its pod template has them."""
    role = framework.spec.role(task.role)
    body = (role.task.pod.get("spec") or {}) if role is not None else {}
    spec = _decode_spec(msgspec.json.encode(body))
    volumes = {each.name: each for each in spec.volumes}
    main = _container(spec.containers, container)
    for mount in main.volume_mounts if main is not None else ():
        volume = volumes.get(mount.name)
        if volume is None or mount.read_only:
            continue
        if volume.persistent_volume_claim is not None and not volume.persistent_volume_claim.read_only:
            claim = volume.persistent_volume_claim.claim_name
            yield Output(task, mount.mount_path, f"claim {claim}", Claim(claim, mount.sub_path))
        elif volume.nfs is not None and not volume.nfs.read_only:
            share = Nfs(volume.nfs.server, posixpath.join(volume.nfs.path, mount.sub_path).rstrip("/"))
            yield Output(task, mount.mount_path, str(share), share)
        elif volume.host_path is not None:
            folder = posixpath.join(volume.host_path.path, mount.sub_path).rstrip("/")
            yield Output(task, mount.mount_path, folder)


def _container(containers: Sequence[Container], name: str) -> Container | None:
    return next((each for each in containers if name in ("", each.name)), None)


def _is_below(path: str, mount: str) -> bool:
    return f"{path}/".startswith(f"{mount.rstrip('/')}/")


# Download


async def download(
    connection: Connection, job: str, task: Task, path: str, target: Path, container: str = ""
) -> Copied:
    """Copy a file or directory of a task to `target`, or into `target` if that is a directory and the source a file.

    Raises ClientError and ApiError.
    """
    if not hasattr(tarfile, "data_filter"):
        raise ClientError("copying files from a task requires Python 3.11.4 or later: upgrade Python")
    path = posixpath.normpath(path)
    command = _tar_command(path)

    def in_task(local: Streams) -> Awaitable[int]:
        return execution.execute(connection, job, task, command, local, container)

    try:
        return await _receive(in_task, target, path)
    except ObjectNotFoundError:
        framework = await jobs.find(connection, job)
        outputs_above = [
            each for each in _role_outputs(framework, task, container) if _is_below(path, each.path)
        ]
        volume = max(outputs_above, key=lambda each: len(each.path), default=None)
        if volume is None or volume.share is None:
            raise
    pod = f"copy-{secrets.token_hex(4)}"
    folder = volume.share.folder if isinstance(volume.share, Claim) else ""
    below = posixpath.relpath(path, volume.path)
    inner = posixpath.normpath(posixpath.join(loader_pod.MOUNT_PATH, folder, below))

    def in_loader(local: Streams) -> Awaitable[int]:
        return execution.in_pod(connection, pod, loader_pod.CONTAINER, _tar_command(inner), local)

    async with loader_pod.started(connection, volume.share, name=pod, job=pod, timeout=START_SECONDS):
        return await _receive(in_loader, target, path)


def _tar_command(path: str) -> Sequence[str]:
    folder, name = posixpath.split(path)
    return "tar", "-cf", "-", "-C", folder or ".", f"./{name}"


async def _receive(run: Callable[[Streams], Awaitable[int]], target: Path, path: str) -> Copied:
    """Unpack the output of a command that packs `path`, and move it to the target. Raises ClientError."""
    if not target.parent.is_dir():
        raise InvalidJobError(f"{target.parent} does not exist: expected a directory")
    stderr = bytearray()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".windlass-") as folder:
        unpacked = Path(folder) / "unpacked"
        read_end, write_end = os.pipe()
        unpacking = asyncio.create_task(asyncio.to_thread(_unpack, read_end, unpacked))

        def write(data: bytes) -> None:
            # A full pipe delays the command. After an error of the archive, its rest is dropped.
            with contextlib.suppress(BrokenPipeError):
                view = memoryview(data)
                while view:
                    view = view[os.write(write_end, view) :]

        try:
            code = await run(Streams(stdout=write, stderr=stderr.extend))
        except BaseException:
            os.close(write_end)
            await asyncio.gather(unpacking, return_exceptions=True)
            raise
        os.close(write_end)
        (result,) = await asyncio.gather(unpacking, return_exceptions=True)
        if code:
            raise RejectedError(_command_error(code, stderr, path))
        if isinstance(result, BaseException):
            raise result
        await asyncio.to_thread(
            _move,
            unpacked,
            target / posixpath.basename(path) if target.is_dir() and unpacked.is_file() else target,
        )
        return result


def _unpack(descriptor: int, target: Path) -> Copied:
    """Unpack an archive of one file or directory as `target`. Raises ClientError."""
    files = size = 0
    try:
        with (
            open(descriptor, "rb") as stream,
            tarfile.open(fileobj=stream, mode="r|") as archive,
        ):
            for member in archive:
                member = _checked(member, target)
                archive.extract(member, target.parent, filter="data")
                files += member.isreg()
                size += member.size
    except tarfile.TarError as error:
        raise ClientError(f"cannot unpack the files of the task: {error}. Nothing was copied.") from error
    return Copied(files, size)


def _checked(member: tarfile.TarInfo, target: Path) -> tarfile.TarInfo:
    """Return the member with its name below `target`. Raises ClientError for members other than files, directories and
    links within the archive."""

    def below_target(name: str) -> str:
        parts = posixpath.normpath(name).split("/")
        if name.startswith("/") or ".." in parts or not name.isprintable():
            raise ClientError(
                f"the task sent the invalid path {diagnostics.quoted(name)}. Nothing was copied."
            )
        return "/".join((target.name, *parts[1:]))

    name = below_target(member.name)
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        raise ClientError(
            f"{diagnostics.quoted(member.name)} is a device, a pipe or a socket. Nothing was copied."
        )
    if member.issym():
        leads_to = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
        if member.linkname.startswith("/") or not _is_below(leads_to, target.name):
            raise ClientError(
                f"{diagnostics.quoted(member.name)} is a link to {diagnostics.quoted(member.linkname)}, outside of the "
                "copied directory. Nothing was copied."
            )
        return member.replace(name=name, deep=False)
    return member.replace(
        name=name, linkname=below_target(member.linkname) if member.islnk() else "", deep=False
    )


def _move(source: Path, target: Path) -> None:
    """Move a file or directory. A directory is merged with an existing one, but not through links in it."""
    if not source.is_dir() or source.is_symlink():
        source.replace(target)
        return
    target.mkdir(exist_ok=True)
    for entry in sorted(source.iterdir()):
        place = target / entry.name
        is_directory = entry.is_dir() and not entry.is_symlink()
        if is_directory and place.is_symlink():
            raise ClientError(f"{place} is a link, expected a directory. Remove it.")
        _move(entry, place)


# Upload


async def upload(
    connection: Connection, source: Path, job: str, task: Task, path: str, container: str = ""
) -> Copied:
    """Copy a local file or directory to a path of a task, or below it if it ends with a slash. Raises ClientError and
    ApiError."""
    folder, name = posixpath.split(posixpath.normpath(path))
    if path.endswith("/"):
        folder, name = posixpath.normpath(path), source.resolve().name
    items = await asyncio.to_thread(upload_items.gather, {"": (source,)})
    stderr = bytearray()
    with tempfile.TemporaryFile() as archive:
        size = await asyncio.to_thread(_pack, archive, source, name)
        # API servers before Kubernetes 1.30 cannot close the standard input of a command.
        script = f'mkdir -p "$1" && head -c {size} | tar -x -m -o -f - -C "$1"'
        command = ("sh", "-c", script, "sh", folder or ".")
        streams = Streams(stdout=lambda _: None, stderr=stderr.extend, stdin=_chunks(archive))
        code = await execution.execute(connection, job, task, command, streams, container)
    if code:
        raise RejectedError(_command_error(code, stderr))
    return Copied(len(items.items), items.size)


def _pack(archive: IO[bytes], source: Path, name: str) -> int:
    """Write a tar archive without owners, with the targets of links, and return its size. Raises ClientError."""

    def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    try:
        with tarfile.open(fileobj=archive, mode="w|", format=tarfile.GNU_FORMAT, dereference=True) as packed:
            packed.add(source, name, filter=anonymous)
    except OSError as error:
        raise ClientError(f"cannot read {error.filename or source}: {error.strerror or error}") from error
    return archive.tell()


async def _chunks(archive: IO[bytes]) -> AsyncIterator[bytes]:
    archive.seek(0)
    while chunk := await asyncio.to_thread(archive.read, _CHUNK_BYTES):
        yield chunk


def _command_error(code: int, stderr: bytearray, path: str = "") -> str:
    """Return the message about a failed copy. `path` is the source in the task."""
    message = stderr.decode("utf-8", "replace").strip()[-_MAX_STDERR_LENGTH:]
    if code in _NO_TAR_CODES:
        return f"copying requires tar in the image of the task: {message or f'exit code {code}'}"
    folder, name = posixpath.split(path)
    first_line = message.partition("\n")[0]
    names_path = any(f" {each}: " in first_line for each in (path, f"./{name}", folder))
    if path and names_path and first_line.endswith("No such file or directory"):
        return f"there is no file or directory {path} in the task"
    return f"the task cannot copy the files: {message or f'tar exited with code {code}'}"
