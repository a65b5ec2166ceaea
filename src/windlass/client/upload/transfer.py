"""Upload files to any `UploadTarget`: compare checksums, send missing and changed files, and resume partial ones."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from windlass.client.errors import ClientError, ObjectNotFoundError, RejectedError
from windlass.client.submit import code_archive
from windlass.client.upload.items import Item, UploadItems
from windlass.client.upload.local_target import LocalTarget
from windlass.client.upload.shares import LocalShare
from windlass.client.upload.target import Access, FileState, FileTransfer, PathType, UploadTarget, hasher_of

SRC, DATA = "src", "data"
"""The top directories of a share, each with one directory per project."""
MAX_BATCH_FILES = 500
MAX_BATCH_BYTES = 16 << 20
MAX_COMPARED = 500
"""Maximum number of files per call of `file_states`."""
_MAX_SHOWN = 3


class Uploaded(msgspec.Struct, frozen=True):
    files: int
    """Number of all files: sent, skipped and resumed."""
    sent: int
    """Number of files sent from the start."""
    skipped: int
    """Number of files that existed with the same checksum."""
    resumed: int
    """Number of partial files that were continued."""
    bytes: int
    """Number of bytes sent."""
    size: int
    """Size of all files in bytes."""


class ProgressCallbacks(msgspec.Struct, frozen=True):
    on_compared: Callable[[int, int], None] = lambda *_: None
    """Called with the number of compared files and the total."""
    on_planned: Callable[[int], None] = lambda _: None
    """Called with the number of bytes to send."""
    on_sent: Callable[[str, int], None] = lambda *_: None
    """Called with the name of a file and the number of further bytes sent."""
    on_warning: Callable[[str], None] = lambda _: None
    """Called with a message about a delay, or about a loader pod that cannot be deleted."""


def project_sources(project: str, code: Sequence[Path], data: Sequence[Path]) -> Mapping[str, Sequence[Path]]:
    """Return the paths to upload by target directory, as job templates expect them, for `items.gather`."""
    sources = {f"{SRC}/{project}": tuple(code), f"{DATA}/{project}": tuple(data)}
    return {folder: paths for folder, paths in sources.items() if paths}


async def to_folder(
    share: LocalShare, items: UploadItems, callbacks: ProgressCallbacks | None = None
) -> Uploaded:
    """Upload to a local directory. Raises ClientError."""
    root = Path(share.path)
    if not root.exists():
        # Otherwise an unmounted share would be written to the local disk.
        raise ObjectNotFoundError(
            f"{root} does not exist. Mount the share there, or create the directory if it is a local one."
        )
    return await upload(LocalTarget(root), items, callbacks or ProgressCallbacks())


async def upload(target: UploadTarget, items: UploadItems, callbacks: ProgressCallbacks) -> Uploaded:
    """Upload all files. Partial files are kept on an error, for the next upload. Raises ClientError."""
    folders = ("", *items.folders)
    _raise_problems(
        target.where, _folder_problems(target.where, folders, await target.folder_access(folders))
    )
    states = await _compare(target, items.items, callbacks)
    _raise_problems(target.where, _file_problems(target.where, items.items, states))
    transfers = []
    for item, state in zip(items.items, states, strict=True):
        transfer = await asyncio.to_thread(_transfer, item, state, callbacks.on_sent)
        transfers += [transfer] if transfer is not None else []
    size = sum(each.bytes_to_send for each in transfers)
    _require_space(target.where, size, await target.free_space())
    callbacks.on_planned(size)
    await target.create_folders(items.folders)
    failed = await _send(target, transfers)
    if failed:
        retries = [
            FileTransfer(await asyncio.to_thread(_refreshed, item), callbacks.on_sent) for item in failed
        ]
        size += sum(each.bytes_to_send for each in retries)
        failed = await _send(target, retries)
    if failed:
        raise ClientError(
            f"cannot upload {_shorten_list([str(item.path) for item in failed])}: the checksums differed twice. "
            "Another process writes to the file during the upload, or the share loses data."
        )
    resumed = sum(each.offset > 0 for each in transfers)
    return Uploaded(
        files=len(items.items),
        sent=len(transfers) - resumed,
        skipped=len(items.items) - len(transfers),
        resumed=resumed,
        bytes=size,
        size=items.size,
    )


# State of the target


async def _compare(
    target: UploadTarget, items: Sequence[Item], callbacks: ProgressCallbacks
) -> list[FileState]:
    states: list[FileState] = []
    for begin in range(0, len(items), MAX_COMPARED):
        states += await target.file_states(items[begin : begin + MAX_COMPARED])
        callbacks.on_compared(len(states), len(items))
    return states


def _folder_problems(where: str, folders: Sequence[str], found: Sequence[Access]) -> Iterator[str]:
    for folder, access in zip(folders, found, strict=True):
        path = f"{where}/{folder}".rstrip("/")
        if access is Access.NOT_A_DIRECTORY:
            yield f"{path} must be a directory, but it is not. Move it away."
        elif access is Access.LINK:
            yield f"{path} must be a directory, but it is a link. Replace it with a directory."
        elif access is Access.NOT_WRITABLE:
            yield f"{path} is not writable. Ask its owner for permission, or choose another share."


def _file_problems(where: str, items: Sequence[Item], states: Sequence[FileState]) -> Iterator[str]:
    for item, state in zip(items, states, strict=True):
        if state.path_type in (PathType.FOLDER, PathType.OTHER):
            kind = "a directory" if state.path_type is PathType.FOLDER else "not a regular file"
            yield f"{where}/{item.name} is {kind}, so {item.path} cannot replace it. Move it away."


def _raise_problems(where: str, problems: Iterator[str]) -> None:
    """Raise RejectedError if there are problems."""
    if found := list(problems):
        raise RejectedError(f"cannot upload to {where}: {_shorten_list(found)}")


def _require_space(where: str, size: int, free_space: int | None) -> None:
    if free_space is not None and size > free_space:
        raise RejectedError(
            f"cannot upload to {where}: {code_archive.format_size(size)} needed, "
            f"{code_archive.format_size(free_space)} free. Free some space, or choose another share."
        )


# Transfer


def _transfer(item: Item, state: FileState, on_sent: Callable[[str, int], None]) -> FileTransfer | None:
    """Return the transfer of a file; None if the target has the same content. Raises ClientError.

    A partial file on the target that equals the start of the source is resumed.
    """
    try:
        if state.digest and state.digest == hasher_of(str(item.path)).hexdigest():
            return None
        if state.part_digest and 0 < state.part_size <= item.size:
            hasher = hasher_of(str(item.path), state.part_size)
            if hasher.hexdigest() == state.part_digest:
                return FileTransfer(item, on_sent, state.part_size, hasher)
    except OSError as error:
        raise ClientError(f"cannot read {item.path}: {error.strerror or error}. Nothing was sent.") from error
    return FileTransfer(item, on_sent)


def _refreshed(item: Item) -> Item:
    try:
        return item.refreshed()
    except OSError as error:
        raise ClientError(
            f"cannot upload {item.path}: it disappeared during the upload: {error.strerror or error}"
        ) from error


async def _send(target: UploadTarget, transfers: Sequence[FileTransfer]) -> list[Item]:
    """Send the files. Return those that changed during the upload, or whose checksums differ."""
    failed: list[Item] = []
    for batch in _batches(transfers):
        to_write = [each for each in batch if each.bytes_to_send or not each.offset]
        if batch[0].is_sent_alone:
            await target.write(batch[0])
        elif to_write:
            await target.write_batch(to_write)
        for each in to_write:
            await each.conclude()
        unchanged = [each for each in batch if not each.has_changed]
        are_correct = await target.finish(unchanged)
        failed += [each.item for each in batch if each.has_changed]
        failed += [
            each.item for each, is_correct in zip(unchanged, are_correct, strict=True) if not is_correct
        ]
    return failed


def _batches(transfers: Sequence[FileTransfer]) -> Iterator[list[FileTransfer]]:
    """Yield large and resumed files alone, and small or already complete files in batches."""
    batch: list[FileTransfer] = []
    size = 0
    for each in transfers:
        if each.is_sent_alone:
            yield [each]
            continue
        is_full = len(batch) == MAX_BATCH_FILES or size + each.bytes_to_send > MAX_BATCH_BYTES
        if batch and is_full:
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += each.bytes_to_send
    if batch:
        yield batch


def _shorten_list(entries: Sequence[str]) -> str:
    more = len(entries) - _MAX_SHOWN
    return "; ".join(entries[:_MAX_SHOWN]) + (f"; and {more} more" if more > 0 else "")
