"""Files of this machine onto a share: what is there stays, what was cut goes on, and checksums say that it is so.

One engine for every place (`upload_places.Place`). It looks at both sides first, and then sends what is missing.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from windlass.client.errors import ClientError, RefusedError
from windlass.client.submit import code_archive
from windlass.client.upload.items import Cargo, Item
from windlass.client.upload.local_target import FolderPlace
from windlass.client.upload.shares import OnDisk
from windlass.client.upload.target import Checked, Found, Kind, Place, Reading, digest_of

if TYPE_CHECKING:
    from hashlib import _Hash

SRC, DATA = "src", "data"
"""The folders of a share, each with one folder per project."""
SMALL = 1 << 20
"""Files of less than this many bytes go together."""
MOST_TOGETHER = 500
MOST_BYTES_TOGETHER = 16 << 20
MOST_LOOKED_AT = 500
_SHOWN = 3


class Uploaded(msgspec.Struct, frozen=True):
    files: int
    """All of them: sent, skipped and resumed."""
    sent: int
    """As a whole."""
    skipped: int
    """They were there, with the same checksum."""
    resumed: int
    """From where they had been cut."""
    bytes: int
    """That were sent."""
    size: int
    """Of all files, in bytes."""


class Step(msgspec.Struct, frozen=True):
    """What becomes of one file that is not there."""

    item: Item
    at: int = 0
    """So many bytes are there."""
    hasher: "_Hash | None" = None
    """Over those."""

    @property
    def left(self) -> int:
        return self.item.size - self.at

    @property
    def goes_alone(self) -> bool:
        return self.left > 0 and (self.item.size >= SMALL or self.at > 0)


class Plan(msgspec.Struct, frozen=True):
    steps: tuple[Step, ...]
    skipped: int

    @property
    def left(self) -> int:
        """Bytes to send."""
        return sum(step.left for step in self.steps)

    @property
    def resumed(self) -> int:
        return sum(step.at > 0 for step in self.steps)


class Watch(msgspec.Struct, frozen=True):
    """Is told how it goes. Nothing here waits."""

    compared: Callable[[int, int], None] = lambda *_: None
    """So many files of so many have been looked at on both sides."""
    planned: Callable[[Plan], None] = lambda _: None
    moved: Callable[[str, int], None] = lambda *_: None
    """So many bytes more of that file have gone."""
    noted: Callable[[str], None] = lambda _: None
    """What holds it up, in words."""


def project_sources(
    project: str, sent_code: Sequence[Path], data: Sequence[Path]
) -> Mapping[str, Sequence[Path]]:
    """Where job templates expect the files of a project. For `upload_items.gather`."""
    wanted = {f"{SRC}/{project}": tuple(sent_code), f"{DATA}/{project}": tuple(data)}
    return {folder: paths for folder, paths in wanted.items() if paths}


async def to_folder(share: OnDisk, cargo: Cargo, watch: Watch | None = None) -> Uploaded:
    """Onto a share that this machine has itself. Raises ClientError."""
    place = FolderPlace(Path(share.path))
    place.check()
    return await upload(place, cargo, watch or Watch())


async def upload(place: Place, cargo: Cargo, watch: Watch) -> Uploaded:
    """Raises ClientError. What has arrived by then stays, for the next time."""
    _refuse(place.where, await place.blocking_reasons(("", *cargo.folders)))
    found = await _look(place, cargo.items, watch)
    _refuse(place.where, list(_conflicts(place.where, cargo.items, found)))
    plan = await _planned(cargo.items, found)
    _insist_on_room(place.where, plan, await place.room())
    watch.planned(plan)
    await place.make(cargo.folders)
    sender = _Sender(place, watch)
    again = await sender.send(plan.steps)
    if again:
        again = await sender.send([Step(await asyncio.to_thread(_looked_at, item)) for item in again])
    if again:
        raise ClientError(
            f"{_listed([str(item.path) for item in again])}: the checksum there is another than here, twice. Something "
            "writes to it while it is sent, or the share loses data: it is not there under its name."
        )
    resumed = plan.resumed
    return Uploaded(
        files=len(cargo.items),
        sent=len(plan.steps) - resumed,
        skipped=plan.skipped,
        resumed=resumed,
        bytes=sender.bytes,
        size=cargo.size,
    )


# What is there


async def _look(place: Place, items: Sequence[Item], watch: Watch) -> list[Found]:
    found: list[Found] = []
    for begin in range(0, len(items), MOST_LOOKED_AT):
        found += await place.look(items[begin : begin + MOST_LOOKED_AT])
        watch.compared(len(found), len(items))
    return found


def _conflicts(where: str, items: Sequence[Item], found: Sequence[Found]) -> Iterator[str]:
    for item, seen in zip(items, found, strict=True):
        if seen.kind in (Kind.FOLDER, Kind.OTHER):
            what = "a folder" if seen.kind is Kind.FOLDER else "no file"
            yield f"{where}/{item.name} is {what}, and {item.path} is to have its place: move it away"


def _refuse(where: str, faults: Sequence[str]) -> None:
    """Raises RefusedError if there is one."""
    if faults:
        raise RefusedError(f"nothing is sent to {where}: {_listed(faults)}")


def _insist_on_room(where: str, plan: Plan, room: int | None) -> None:
    if room is not None and plan.left > room:
        raise RefusedError(
            f"nothing is sent to {where}: there is room for {code_archive.shown_size(room)}, and "
            f"{code_archive.shown_size(plan.left)} are to be sent. Make room, or choose another share."
        )


# What is to be done


async def _planned(items: Sequence[Item], found: Sequence[Found]) -> Plan:
    steps = [await asyncio.to_thread(_step, item, seen) for item, seen in zip(items, found, strict=True)]
    missing = tuple(step for step in steps if step is not None)
    return Plan(missing, len(steps) - len(missing))


def _step(item: Item, found: Found) -> Step | None:
    """None for a file that is there. What has arrived of it counts only if it is the beginning of this very file."""
    try:
        if found.digest and found.digest == digest_of(str(item.path)).hexdigest():
            return None
        if found.part_digest and 0 < found.part_size <= item.size:
            hasher = digest_of(str(item.path), found.part_size)
            if hasher.hexdigest() == found.part_digest:
                return Step(item, found.part_size, hasher)
    except OSError as error:
        raise ClientError(
            f"{item.path} cannot be read: {error.strerror or error}. Nothing was sent."
        ) from error
    return Step(item)


def _looked_at(item: Item) -> Item:
    try:
        return item.looked_at_again()
    except OSError as error:
        raise ClientError(
            f"{item.path} went away while it was sent: {error.strerror or error}. It is not there under its name."
        ) from error


class _Sender:
    def __init__(self, place: Place, watch: Watch) -> None:
        self._place = place
        self._watch = watch
        self.bytes = 0

    async def send(self, steps: Sequence[Step]) -> list[Item]:
        """Those that did not arrive as they are."""
        again: list[Item] = []
        for group in together(steps):
            readings = [Reading(step.item, step.at, step.hasher, self._moved) for step in group]
            unsent = [reading for reading in readings if reading.left or not reading.at]
            if group[0].goes_alone:
                await self._place.write(readings[0])
            elif unsent:
                await self._place.write_together(unsent)
            for reading in unsent:
                await reading.conclude()
            again += await self._settled(readings)
        return again

    async def _settled(self, readings: Sequence[Reading]) -> list[Item]:
        whole = [reading for reading in readings if not reading.has_changed]
        are_right = await self._place.settle([Checked(reading.item, reading.digest) for reading in whole])
        changed = [reading.item for reading in readings if reading.has_changed]
        return changed + [
            reading.item for reading, is_right in zip(whole, are_right, strict=True) if not is_right
        ]

    def _moved(self, name: str, size: int) -> None:
        self.bytes += size
        self._watch.moved(name, size)


def together(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Large files alone, in their order; small ones, and those of which only the checksum is missing, in groups."""
    group: list[Step] = []
    size = 0
    for step in steps:
        if step.goes_alone:
            yield [step]
            continue
        is_full = len(group) == MOST_TOGETHER or size + step.left > MOST_BYTES_TOGETHER
        if group and is_full:
            yield group
            group, size = [], 0
        group.append(step)
        size += step.left
    if group:
        yield group


def _listed(said: Sequence[str]) -> str:
    more = len(said) - _SHOWN
    return "; ".join(said[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
