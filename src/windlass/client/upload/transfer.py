"""Upload files to any `UploadTarget`: compare checksums first, then send missing files and resume partial ones."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from windlass.client.errors import ClientError, RejectedError
from windlass.client.submit import code_archive
from windlass.client.upload.items import Item, UploadItems
from windlass.client.upload.local_target import LocalTarget
from windlass.client.upload.shares import OnDisk
from windlass.client.upload.target import Checked, Found, Kind, Reading, UploadTarget, digest_of

if TYPE_CHECKING:
    from hashlib import _Hash

SRC, DATA = "src", "data"
"""The top directories of a share, each with one directory per project."""
SMALL_BYTES = 1 << 20
"""Files smaller than this are sent in batches."""
MAX_BATCH_FILES = 500
MAX_BATCH_BYTES = 16 << 20
MAX_COMPARED = 500
_MAX_LISTED = 3


class Uploaded(msgspec.Struct, frozen=True):
    files: int
    """Number of all files: sent, skipped and resumed."""
    sent: int
    """Number of files sent completely."""
    skipped: int
    """Number of files that existed with the same checksum."""
    resumed: int
    """Number of partial files that were continued."""
    bytes: int
    """Number of bytes sent."""
    size: int
    """Size of all files in bytes."""


class Step(msgspec.Struct, frozen=True):
    """The transfer of one missing file."""

    item: Item
    at: int = 0
    """Number of bytes that the target already has."""
    hasher: "_Hash | None" = None
    """Checksum of these bytes."""

    @property
    def left(self) -> int:
        return self.item.size - self.at

    @property
    def is_sent_alone(self) -> bool:
        return self.left > 0 and (self.item.size >= SMALL_BYTES or self.at > 0)


class UploadPlan(msgspec.Struct, frozen=True):
    steps: tuple[Step, ...]
    skipped: int

    @property
    def left(self) -> int:
        """Number of bytes to send."""
        return sum(step.left for step in self.steps)

    @property
    def resumed(self) -> int:
        return sum(step.at > 0 for step in self.steps)


class Watch(msgspec.Struct, frozen=True):
    """Callbacks for progress."""

    compared: Callable[[int, int], None] = lambda *_: None
    """Called with the number of compared files and the total."""
    planned: Callable[[UploadPlan], None] = lambda _: None
    moved: Callable[[str, int], None] = lambda *_: None
    """Called with the name of a file and the number of further bytes sent."""
    noted: Callable[[str], None] = lambda _: None
    """Called with a message about a delay."""


def project_sources(
    project: str, sent_code: Sequence[Path], data: Sequence[Path]
) -> Mapping[str, Sequence[Path]]:
    """Return the sources by target directory, as job templates expect them. For `items.gather`."""
    wanted = {f"{SRC}/{project}": tuple(sent_code), f"{DATA}/{project}": tuple(data)}
    return {folder: paths for folder, paths in wanted.items() if paths}


async def to_folder(share: OnDisk, items: UploadItems, watch: Watch | None = None) -> Uploaded:
    """Upload to a local directory. Raises ClientError."""
    target = LocalTarget(Path(share.path))
    target.check()
    return await upload(target, items, watch or Watch())


async def upload(target: UploadTarget, items: UploadItems, watch: Watch) -> Uploaded:
    """Upload all files. Partial files are kept on an error, for the next upload. Raises ClientError."""
    _require_none(target.where, await target.blocking_reasons(("", *items.folders)))
    found = await _compare(target, items.items, watch)
    _require_none(target.where, list(_conflicts(target.where, items.items, found)))
    plan = await _plan(items.items, found)
    _require_space(target.where, plan, await target.free_space())
    watch.planned(plan)
    await target.create_folders(items.folders)
    sender = _Sender(target, watch)
    again = await sender.send(plan.steps)
    if again:
        again = await sender.send([Step(await asyncio.to_thread(_refreshed, item)) for item in again])
    if again:
        raise ClientError(
            f"cannot upload {_listed([str(item.path) for item in again])}: the checksums differed twice. "
            "Another process writes to the file during the upload, or the share loses data."
        )
    resumed = plan.resumed
    return Uploaded(
        files=len(items.items),
        sent=len(plan.steps) - resumed,
        skipped=plan.skipped,
        resumed=resumed,
        bytes=sender.bytes,
        size=items.size,
    )


# State of the target


async def _compare(target: UploadTarget, items: Sequence[Item], watch: Watch) -> list[Found]:
    found: list[Found] = []
    for begin in range(0, len(items), MAX_COMPARED):
        found += await target.file_states(items[begin : begin + MAX_COMPARED])
        watch.compared(len(found), len(items))
    return found


def _conflicts(where: str, items: Sequence[Item], found: Sequence[Found]) -> Iterator[str]:
    for item, seen in zip(items, found, strict=True):
        if seen.kind in (Kind.FOLDER, Kind.OTHER):
            kind = "a directory" if seen.kind is Kind.FOLDER else "not a regular file"
            yield f"{where}/{item.name} is {kind}, so {item.path} cannot replace it. Move it away."


def _require_none(where: str, problems: Sequence[str]) -> None:
    """Raises RejectedError if there are problems."""
    if problems:
        raise RejectedError(f"cannot upload to {where}: {_listed(problems)}")


def _require_space(where: str, plan: UploadPlan, free_space: int | None) -> None:
    if free_space is not None and plan.left > free_space:
        raise RejectedError(
            f"cannot upload to {where}: {code_archive.shown_size(plan.left)} needed, "
            f"{code_archive.shown_size(free_space)} free. Free some space, or choose another share."
        )


# Transfer


async def _plan(items: Sequence[Item], found: Sequence[Found]) -> UploadPlan:
    steps = [await asyncio.to_thread(_step, item, seen) for item, seen in zip(items, found, strict=True)]
    missing = tuple(step for step in steps if step is not None)
    return UploadPlan(missing, len(steps) - len(missing))


def _step(item: Item, found: Found) -> Step | None:
    """Return the transfer of a file; None if it is up to date. A partial file must match the start of the file."""
    try:
        if found.digest and found.digest == digest_of(str(item.path)).hexdigest():
            return None
        if found.part_digest and 0 < found.part_size <= item.size:
            hasher = digest_of(str(item.path), found.part_size)
            if hasher.hexdigest() == found.part_digest:
                return Step(item, found.part_size, hasher)
    except OSError as error:
        raise ClientError(f"cannot read {item.path}: {error.strerror or error}. Nothing was sent.") from error
    return Step(item)


def _refreshed(item: Item) -> Item:
    try:
        return item.refreshed()
    except OSError as error:
        raise ClientError(
            f"cannot upload {item.path}: it disappeared during the upload: {error.strerror or error}"
        ) from error


class _Sender:
    def __init__(self, target: UploadTarget, watch: Watch) -> None:
        self._target = target
        self._watch = watch
        self.bytes = 0

    async def send(self, steps: Sequence[Step]) -> list[Item]:
        """Send the files and return those whose checksums differ."""
        again: list[Item] = []
        for group in batches(steps):
            readings = [Reading(step.item, step.at, step.hasher, self._moved) for step in group]
            unsent = [reading for reading in readings if reading.left or not reading.at]
            if group[0].is_sent_alone:
                await self._target.write(readings[0])
            elif unsent:
                await self._target.write_batch(unsent)
            for reading in unsent:
                await reading.conclude()
            again += await self._finish_files(readings)
        return again

    async def _finish_files(self, readings: Sequence[Reading]) -> list[Item]:
        unchanged = [reading for reading in readings if not reading.has_changed]
        are_right = await self._target.finish(
            [Checked(reading.item, reading.digest) for reading in unchanged]
        )
        changed = [reading.item for reading in readings if reading.has_changed]
        return changed + [
            reading.item for reading, is_right in zip(unchanged, are_right, strict=True) if not is_right
        ]

    def _moved(self, name: str, size: int) -> None:
        self.bytes += size
        self._watch.moved(name, size)


def batches(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Yield batches: large files alone, in their order, and small or already complete files batches."""
    group: list[Step] = []
    size = 0
    for step in steps:
        if step.is_sent_alone:
            yield [step]
            continue
        is_full = len(group) == MAX_BATCH_FILES or size + step.left > MAX_BATCH_BYTES
        if group and is_full:
            yield group
            group, size = [], 0
        group.append(step)
        size += step.left
    if group:
        yield group


def _listed(said: Sequence[str]) -> str:
    more = len(said) - _MAX_LISTED
    return "; ".join(said[:_MAX_LISTED]) + (f"; and {more} more" if more > 0 else "")
