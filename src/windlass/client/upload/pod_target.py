"""Upload through a loader pod, in which shell scripts do what `local_target` does locally.

The image needs sh and common commands of busybox, e.g. tar, sha256sum, head and df. API servers before Kubernetes 1.30
cannot close the standard input of a command, so scripts get the number of lines or bytes to read. Special characters in
names are encoded as octal escapes.
"""

import asyncio
import os
import re
import secrets
import tarfile
from collections.abc import AsyncIterator, Sequence

import msgspec

from windlass.client import exec as execution
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, RejectedError, TimedOutError, UnreachableError
from windlass.client.exec import Streams
from windlass.client.upload import loader_pod, transfer
from windlass.client.upload.items import Item, UploadItems, part_name
from windlass.client.upload.shares import Claim, MountedShare
from windlass.client.upload.target import RESUME_HINT, Access, FileState, FileTransfer, PathType
from windlass.client.upload.transfer import ProgressCallbacks, Uploaded
from windlass.kubeapi.errors import ApiError, NotFoundError

_UNENCODED = re.compile(rb"[A-Za-z0-9_./-]")
_MAX_STDERR_LENGTH = 500
_ARCHIVE_END_BYTES = 2 * tarfile.BLOCKSIZE

_PRELUDE = r"""
LC_ALL=C; export LC_ALL
decode() {
    case $1 in
        .) decoded=$root ;;
        *\\*) decoded=$(printf '%b_' "$1"); decoded=$root/${decoded%_} ;;
        *) decoded=$root/$1 ;;
    esac
}
sum() { set -- $(sha256sum < "$1"); printf %s "${1:--}"; }
size() { set -- $(wc -c < "$1"); printf %s "${1:-0}"; }
# Whether only this user, or root on an NFS share with root_squash, can have written a file.
is_own() {
    [ -f "$1" ] && [ ! -L "$1" ] || return 1
    set -- $(ls -ldn "$1")
    [ "$2" = 1 ] && { [ "$3" = "$uid" ] || [ "$uid-$3" = 0-65534 ]; }
}
# Other users of a share could redirect the upload by links.
refuse_links() {
    path=$1
    while [ "$path" != "$root" ]; do
        if [ -L "$path" ]; then
            echo "$path is a link, expected a directory. Remove it" >&2
            exit 92
        fi
        path=${path%/*}
    done
}
root=$1
uid=$(id -u)
"""

_COMPARE = r"""
count=$2
while [ "$count" -gt 0 ]; do
    count=$((count - 1))
    read -r expected_size name part || exit 90
    kind=nothing digest=- part_size=0 part_digest=-
    decode "$name"
    if [ -f "$decoded" ]; then
        kind=file
        if [ ! -L "$decoded" ] && [ "$(size "$decoded")" = "$expected_size" ]; then digest=$(sum "$decoded"); fi
    elif [ -d "$decoded" ]; then kind=folder
    elif [ -e "$decoded" ]; then kind=other
    fi
    decode "$part"
    if is_own "$decoded"; then
        part_size=$(size "$decoded")
        if [ "$part_size" -gt 0 ] && [ "$part_size" -le "$expected_size" ]; then part_digest=$(sum "$decoded"); fi
    fi
    echo "$kind $digest $part_size $part_digest"
done
"""

_ACCESS = r"""
count=$2
while [ "$count" -gt 0 ]; do
    count=$((count - 1))
    read -r name || exit 90
    decode "$name"
    if [ -L "$decoded" ] && [ "$name" != . ]; then echo link
    elif [ -d "$decoded" ]; then
        if [ -w "$decoded" ] && [ -x "$decoded" ]; then echo usable; else echo not-writable; fi
    elif [ -e "$decoded" ]; then echo not-a-directory
    else echo usable
    fi
done
"""

_FREE_SPACE = r"""
df -P -k "$2" 2>/dev/null | { read -r _; read -r _ _ _ free _; echo "${free:--}"; }
"""

_CREATE_FOLDERS = r"""
mkdir -p "$root" || exit 91
count=$2
while [ "$count" -gt 0 ]; do
    count=$((count - 1))
    read -r name || exit 90
    decode "$name"
    refuse_links "$decoded"
    mkdir -p "$decoded" || exit 91
done
"""

_APPEND = r"""
decode "$2"
refuse_links "${decoded%/*}"
if [ "$3" = 0 ]; then
    rm -f "$decoded"
    set -C  # create the file, do not open an existing one
    : > "$decoded" || exit 91
elif ! is_own "$decoded"; then
    echo "$decoded belongs to another user or is a link. Remove it" >&2
    exit 92
elif [ "$(size "$decoded")" != "$3" ]; then
    echo "another process writes to $decoded" >&2
    exit 92
fi
head -c "$4" | cat >> "$decoded"  # busybox's head would not say that the disk is full
"""

_UNPACK = r"""
head -c "$2" | tar -x -m -o -f - -C "$root"
"""

_FINISH = r"""
count=$2
while [ "$count" -gt 0 ]; do
    count=$((count - 1))
    read -r expected_sum mode name part || exit 90
    decode "$part"; from=$decoded
    decode "$name"
    refuse_links "${decoded%/*}"
    if [ -f "$from" ] && [ ! -L "$from" ] && [ "$(sum "$from")" = "$expected_sum" ]; then
        chmod "$mode" "$from" 2>/dev/null
        mv -f "$from" "$decoded" || exit 91
        echo right
    else
        rm -f "$from"
        echo wrong
    fi
done
"""


async def upload(
    connection: Connection,
    share: MountedShare,
    items: UploadItems,
    *,
    name: str = "",
    job: str = "",
    image: str = loader_pod.IMAGE,
    timeout: float | None = None,
    callbacks: ProgressCallbacks | None = None,
) -> Uploaded:
    """Upload through a pod with this name (default: a random one) and job label (default: its name).

    `timeout` limits the start of the pod and, after that, the time without progress, except while checksums are
    computed. Raises ClientError and ApiError.
    """
    callbacks = callbacks or ProgressCallbacks()
    name = name or f"upload-{secrets.token_hex(4)}"
    pod = loader_pod.started(
        connection,
        share,
        name=name,
        job=job or name,
        image=image,
        timeout=timeout,
        on_warning=callbacks.on_warning,
    )
    async with pod:
        return await transfer.upload(PodTarget(connection, name, share, timeout), items, callbacks)


class PodTarget:
    def __init__(
        self, connection: Connection, pod: str, share: MountedShare, stall_seconds: float | None
    ) -> None:
        self._connection = connection
        self._pod = pod
        self._share = share
        self._stall_seconds = stall_seconds
        folder = share.folder if isinstance(share, Claim) else ""
        self._mount_path = loader_pod.MOUNT_PATH
        self._root = f"{self._mount_path}/{folder}".rstrip("/")

    @property
    def where(self) -> str:
        return str(self._share)

    async def file_states(self, items: Sequence[Item]) -> Sequence[FileState]:
        lines = [f"{item.size} {encoded(item.name)} {encoded(part_name(item.name))}" for item in items]
        return [_file_state(line) for line in await self._answers(_COMPARE, lines, is_slow=True)]

    async def folder_access(self, folders: Sequence[str]) -> Sequence[Access]:
        return [
            Access(line)
            for line in await self._answers(_ACCESS, [encoded(folder or ".") for folder in folders])
        ]

    async def free_space(self) -> int | None:
        """Return the free space of the volume, since the directory in it may not exist yet."""
        output = (await self._run(_FREE_SPACE, (self._mount_path,), _lines(()))).strip()
        return int(output) * 1024 if output.isdecimal() else None

    async def create_folders(self, folders: Sequence[str]) -> None:
        lines = _lines([encoded(folder) for folder in folders])
        await self._run(_CREATE_FOLDERS, (str(len(folders)),), lines)

    async def write(self, transfer: FileTransfer) -> None:
        arguments = (
            encoded(part_name(transfer.item.name)),
            str(transfer.offset),
            str(transfer.bytes_to_send),
        )
        await self._run(_APPEND, arguments, transfer.chunks())

    async def write_batch(self, transfers: Sequence[FileTransfer]) -> None:
        await self._run(_UNPACK, (str(packed_size(transfers)),), packed(transfers))

    async def finish(self, transfers: Sequence[FileTransfer]) -> Sequence[bool]:
        lines = [
            f"{each.digest} {each.item.mode:o} {encoded(each.item.name)} {encoded(part_name(each.item.name))}"
            for each in transfers
        ]
        return [line == "right" for line in await self._answers(_FINISH, lines, is_slow=True)]

    async def _answers(self, script: str, lines: Sequence[str], *, is_slow: bool = False) -> list[str]:
        """Return one line of output per input line."""
        if not lines:
            return []
        output = await self._run(script, (str(len(lines)),), _lines(lines), is_slow=is_slow)
        answers = output.splitlines()
        if len(answers) != len(lines):
            raise RejectedError(
                f"{self.where}: received {len(answers)} answers for {len(lines)} files or directories. {RESUME_HINT}"
            )
        return answers

    async def _run(
        self, script: str, arguments: Sequence[str], stdin: AsyncIterator[bytes], *, is_slow: bool = False
    ) -> str:
        """Return the output of the script. Raises ClientError.

        A slow script has no time limit: checksums of large files take long without any output.
        """
        out, err = bytearray(), bytearray()
        command = ("sh", "-c", _PRELUDE + script, "sh", self._root, *arguments)
        streams = Streams(stdout=out.extend, stderr=err.extend, stdin=stdin)
        try:
            code = await self._execute(command, streams, None if is_slow else self._stall_seconds)
        except NotFoundError as error:
            raise UnreachableError(f"{self.where}: the loader pod was deleted. {RESUME_HINT}") from error
        except ApiError as error:
            raise UnreachableError(
                f"{self.where}: lost the connection to the loader pod: {error}. {RESUME_HINT}"
            ) from error
        if code:
            raise RejectedError(self._error_message(code, err.decode("utf-8", "replace").strip()))
        return out.decode("utf-8", "replace")

    def _error_message(self, code: int, stderr: str) -> str:
        if "No space left" in stderr or "Disk quota" in stderr:
            return f"{self.where}: no space left. Partial files are kept. Free some space. {RESUME_HINT}"
        reason = stderr[-_MAX_STDERR_LENGTH:].removesuffix(".")
        return (
            f"{self.where}: {reason or f'a command in the loader pod exited with code {code}'}. {RESUME_HINT}"
        )

    async def _execute(self, command: Sequence[str], streams: Streams, stall_seconds: float | None) -> int:
        """Return the exit code. If the input cannot be read, the command is cancelled, since it would keep waiting."""
        input_errors: list[ClientError] = []
        try:
            async with asyncio.timeout(stall_seconds) as deadline:

                async def stdin() -> AsyncIterator[bytes]:
                    try:
                        async for chunk in streams.stdin or _lines(()):
                            yield chunk
                            if stall_seconds is not None:
                                deadline.reschedule(asyncio.get_running_loop().time() + stall_seconds)
                    except ClientError as error:
                        input_errors.append(error)
                        executing.cancel()

                with_deadline = msgspec.structs.replace(streams, stdin=stdin())
                executing = asyncio.create_task(self._in_pod(command, with_deadline))
                try:
                    return await executing
                finally:
                    executing.cancel()
                    await asyncio.gather(executing, return_exceptions=True)
        except TimeoutError as error:
            raise TimedOutError(
                f"{self.where}: no progress for {stall_seconds:g} s: {loader_pod.describe_share(self._share)} does not "
                f"respond. {RESUME_HINT}"
            ) from error
        except asyncio.CancelledError:
            if input_errors:
                raise input_errors[0] from None
            raise

    async def _in_pod(self, command: Sequence[str], streams: Streams) -> int:
        return await execution.in_pod(self._connection, self._pod, loader_pod.CONTAINER, command, streams)


def encoded(name: str) -> str:
    """Encode a name as one word without special characters, which `printf %b` decodes."""
    return "".join(
        chr(byte) if _UNENCODED.match(bytes((byte,))) else f"\\0{byte:03o}" for byte in os.fsencode(name)
    )


async def packed(transfers: Sequence[FileTransfer]) -> AsyncIterator[bytes]:
    """Yield a tar archive of the partial files, without owners."""
    for each in transfers:
        yield _header(each)
        async for chunk in each.chunks():
            yield chunk
        if padding := -each.bytes_to_send % tarfile.BLOCKSIZE:
            yield bytes(padding)
    yield bytes(_ARCHIVE_END_BYTES)


def packed_size(transfers: Sequence[FileTransfer]) -> int:
    contents = sum(each.bytes_to_send + -each.bytes_to_send % tarfile.BLOCKSIZE for each in transfers)
    return sum(len(_header(each)) for each in transfers) + contents + _ARCHIVE_END_BYTES


def _header(transfer: FileTransfer) -> bytes:
    entry = tarfile.TarInfo(part_name(transfer.item.name))
    entry.size = transfer.bytes_to_send
    entry.mode = 0o600
    return entry.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _file_state(line: str) -> FileState:
    path_type, digest, part_size, part_digest = line.split()
    return FileState(PathType(path_type), digest.strip("-"), int(part_size), part_digest.strip("-"))


async def _lines(lines: Sequence[str]) -> AsyncIterator[bytes]:
    if lines:
        yield "".join(f"{line}\n" for line in lines).encode()
