"""Upload through a loader pod, in which shell scripts do what `local_target` does locally.

The image needs sh, tar, sha256sum, wc, head and df, as in busybox. API servers before Kubernetes 1.30 cannot close the
standard input of a command: each script gets the number of lines or bytes to read. Special characters in names are
encoded as octal digits.
"""

import asyncio
import os
import re
import tarfile
from collections.abc import AsyncIterator, Sequence

from windlass.client import exec as execution
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, RejectedError, TimedOutError, UnreachableError
from windlass.client.exec import Streams
from windlass.client.upload import loader_pod, transfer
from windlass.client.upload.items import Item, UploadItems, part_name
from windlass.client.upload.shares import Claim, Mounted
from windlass.client.upload.target import RESUME_HINT, Access, Checked, Found, Kind, Reading, blocking_reason
from windlass.client.upload.transfer import Uploaded, Watch
from windlass.kubeapi.errors import ApiError, NotFoundError

_PLAIN = re.compile(rb"[A-Za-z0-9_./-]")
_MAX_STDERR = 500
_END = 2 * tarfile.BLOCKSIZE

_BEGINNING = r"""
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
root=$1
"""

_LOOK = r"""
count=$2
while [ "$count" -gt 0 ]; do
    count=$((count - 1))
    read -r wanted name part || exit 90
    kind=nothing digest=- part_size=0 part_digest=-
    decode "$name"
    if [ -f "$decoded" ]; then
        kind=file
        if [ "$(size "$decoded")" = "$wanted" ]; then digest=$(sum "$decoded"); fi
    elif [ -d "$decoded" ]; then kind=folder
    elif [ -e "$decoded" ]; then kind=other
    fi
    decode "$part"
    if [ -f "$decoded" ]; then
        part_size=$(size "$decoded")
        if [ "$part_size" -gt 0 ] && [ "$part_size" -le "$wanted" ]; then part_digest=$(sum "$decoded"); fi
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
    if [ -d "$decoded" ]; then
        if [ -w "$decoded" ] && [ -x "$decoded" ]; then echo fine; else echo closed; fi
    elif [ -e "$decoded" ]; then echo taken
    else echo fine
    fi
done
"""

_ROOM = r"""
df -P -k "$2" 2>/dev/null | { read -r _; read -r _ _ _ free _; echo "${free:--}"; }
"""

_MAKE = r"""
mkdir -p "$root" || exit 91
count=$2
while [ "$count" -gt 0 ]; do
    count=$((count - 1))
    read -r name || exit 90
    decode "$name"
    mkdir -p "$decoded" || exit 91
done
"""

_WRITE = r"""
decode "$2"
if [ "$3" = 0 ]; then
    : > "$decoded" || exit 91
elif [ "$(size "$decoded")" != "$3" ]; then
    echo "another process writes to $decoded" >&2
    exit 92
fi
head -c "$4" | cat >> "$decoded"  # busybox's head would not say that the disk is full
"""

_UNPACK = r"""
head -c "$2" | tar -x -m -o -f - -C "$root"
"""

_SETTLE = r"""
count=$2
while [ "$count" -gt 0 ]; do
    count=$((count - 1))
    read -r wanted mode name part || exit 90
    decode "$part"; from=$decoded
    decode "$name"
    if [ -f "$from" ] && [ "$(sum "$from")" = "$wanted" ]; then
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
    share: Mounted,
    cargo: UploadItems,
    *,
    name: str,
    job: str = "",
    image: str = loader_pod.IMAGE,
    timeout: float | None = None,
    watch: Watch | None = None,
) -> Uploaded:
    """Upload through a pod with this name and job label. Raises ClientError.

    `timeout` limits the start of the pod and, after that, the time without progress.
    """
    progress = watch or Watch()
    opened = loader_pod.opened(
        connection, share, name=name, job=job or name, image=image, timeout=timeout, noted=progress.noted
    )
    async with opened as pod:
        return await transfer.upload(PodTarget(connection, pod, share, timeout), cargo, progress)


class PodTarget:
    def __init__(self, connection: Connection, pod: str, share: Mounted, stall_seconds: float | None) -> None:
        self._connection = connection
        self._pod = pod
        self._share = share
        self._stall_seconds = stall_seconds
        folder = share.folder if isinstance(share, Claim) else ""
        self._mounted = loader_pod.MOUNTED
        self._root = f"{self._mounted}/{folder}".rstrip("/")

    @property
    def where(self) -> str:
        return str(self._share)

    async def file_states(self, items: Sequence[Item]) -> Sequence[Found]:
        lines = [f"{item.size} {encoded(item.name)} {encoded(part_name(item.name))}" for item in items]
        return [_found(line) for line in await self._answers(_LOOK, lines, is_slow=True)]

    async def blocking_reasons(self, folders: Sequence[str]) -> Sequence[str]:
        answers = await self._answers(_ACCESS, [encoded(folder or ".") for folder in folders])
        said = (
            blocking_reason(self.where, folder, Access(answer))
            for folder, answer in zip(folders, answers, strict=True)
        )
        return [each for each in said if each is not None]

    async def free_space(self) -> int | None:
        """Return the free space of the volume, since the directory in it may not exist yet."""
        said = (
            await self._run(_ROOM, (self._mounted,), _lines(()), stall_seconds=self._stall_seconds)
        ).strip()
        return int(said) * 1024 if said.isdecimal() else None

    async def create_folders(self, folders: Sequence[str]) -> None:
        lines = _lines([encoded(folder) for folder in folders])
        await self._run(_MAKE, (str(len(folders)),), lines, stall_seconds=self._stall_seconds)

    async def write(self, reading: Reading) -> None:
        arguments = (encoded(part_name(reading.item.name)), str(reading.at), str(reading.left))
        await self._run(_WRITE, arguments, reading.pieces(), stall_seconds=self._stall_seconds)

    async def write_batch(self, readings: Sequence[Reading]) -> None:
        size = str(packed_size(readings))
        await self._run(_UNPACK, (size,), packed(readings), stall_seconds=self._stall_seconds)

    async def finish(self, checked: Sequence[Checked]) -> Sequence[bool]:
        lines = [
            f"{each.digest} {each.item.mode:o} {encoded(each.item.name)} {encoded(part_name(each.item.name))}"
            for each in checked
        ]
        answers = await self._answers(_SETTLE, lines, is_slow=True)
        return [answer == "right" for answer in answers]

    async def _answers(self, script: str, lines: Sequence[str], *, is_slow: bool = False) -> list[str]:
        """Return one line of output per input line. Checksums of large files take long without any output."""
        if not lines:
            return []
        stall_seconds = None if is_slow else self._stall_seconds
        written = await self._run(script, (str(len(lines)),), _lines(lines), stall_seconds=stall_seconds)
        found = written.splitlines()
        if len(found) != len(lines):
            raise RejectedError(
                f"{self.where}: received {len(found)} answers for {len(lines)} files. {RESUME_HINT}"
            )
        return found

    async def _run(
        self,
        script: str,
        arguments: Sequence[str],
        sent: AsyncIterator[bytes],
        *,
        stall_seconds: float | None,
    ) -> str:
        """Return the output of the script. Raises ClientError."""
        out, err = bytearray(), bytearray()
        command = ("sh", "-c", _BEGINNING + script, "sh", self._root, *arguments)
        streams = Streams(stdout=out.extend, stderr=err.extend)
        try:
            code = await self._execute(command, streams, sent, stall_seconds)
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
        reason = (
            stderr[-_MAX_STDERR:].removesuffix(".") or f"a command in the loader pod exited with code {code}"
        )
        return f"{self.where}: {reason}. {RESUME_HINT}"

    async def _execute(
        self,
        command: Sequence[str],
        streams: Streams,
        sent: AsyncIterator[bytes],
        stall_seconds: float | None,
    ) -> int:
        """Return the exit code. If the input cannot be read, the command is cancelled, since it would wait for more."""
        input_errors: list[ClientError] = []
        try:
            async with asyncio.timeout(stall_seconds) as deadline:

                async def stdin() -> AsyncIterator[bytes]:
                    try:
                        async for piece in sent:
                            yield piece
                            if stall_seconds is not None:
                                deadline.reschedule(asyncio.get_running_loop().time() + stall_seconds)
                    except ClientError as error:
                        input_errors.append(error)
                        executing.cancel()

                executing = asyncio.create_task(self._in_pod(command, streams, stdin()))
                try:
                    return await executing
                finally:
                    executing.cancel()
                    await asyncio.gather(executing, return_exceptions=True)
        except TimeoutError as late:
            raise TimedOutError(
                f"{self.where}: no progress for {stall_seconds:g} s: {loader_pod.describe_share(self._share)} does not "
                f"respond. {RESUME_HINT}"
            ) from late
        except asyncio.CancelledError:
            if input_errors:
                raise input_errors[0] from None
            raise

    async def _in_pod(self, command: Sequence[str], streams: Streams, stdin: AsyncIterator[bytes]) -> int:
        with_input = Streams(stdout=streams.stdout, stderr=streams.stderr, stdin=stdin)
        return await execution.in_pod(self._connection, self._pod, loader_pod.CONTAINER, command, with_input)


def encoded(name: str) -> str:
    """Encode a name for a line of words and for `printf %b`."""
    return "".join(
        chr(byte) if _PLAIN.match(bytes((byte,))) else f"\\0{byte:03o}" for byte in os.fsencode(name)
    )


async def packed(readings: Sequence[Reading]) -> AsyncIterator[bytes]:
    """Yield a tar archive of the partial files, without owners."""
    for reading in readings:
        yield _header(reading)
        async for piece in reading.pieces():
            yield piece
        if padding := -reading.left % tarfile.BLOCKSIZE:
            yield bytes(padding)
    yield bytes(_END)


def packed_size(readings: Sequence[Reading]) -> int:
    contents = sum(reading.left + -reading.left % tarfile.BLOCKSIZE for reading in readings)
    return sum(len(_header(reading)) for reading in readings) + contents + _END


def _header(reading: Reading) -> bytes:
    entry = tarfile.TarInfo(part_name(reading.item.name))
    entry.size = reading.left
    entry.mode = 0o600
    return entry.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _found(line: str) -> Found:
    kind, digest, part_size, part_digest = line.split()
    return Found(Kind(kind), digest.strip("-"), int(part_size), part_digest.strip("-"))


async def _lines(lines: Sequence[str]) -> AsyncIterator[bytes]:
    if lines:
        yield "".join(f"{line}\n" for line in lines).encode()
