"""Free space and inodes of a disk, and their usage by the files of pods."""

import os
import stat
from pathlib import Path
from typing import Self

import msgspec

from windlass.localcluster import file_trees

MIN_FREE_BYTES = 4 * 1024**2
MIN_FREE_INODES = 256
_BLOCK_BYTES = 512


class Usage(msgspec.Struct, frozen=True):
    bytes: int = 0
    inodes: int = 0

    def __add__(self, other: Self) -> "Usage":
        return Usage(self.bytes + other.bytes, self.inodes + other.inodes)


class Shortage(msgspec.Struct, frozen=True):
    """A resource of which less than the required amount is free. It has the name that Kubernetes uses in messages."""

    resource: str
    required: int
    free: int

    def used(self, usage: Usage) -> int:
        return usage.inodes if self.resource == "inodes" else usage.bytes

    def is_covered_by(self, usage: Usage) -> bool:
        """Return whether the shortage would end if the files with this usage were deleted."""
        return self.free + self.used(usage) >= self.required

    @property
    def message(self) -> str:
        available = self.free if self.resource == "inodes" else f"{self.free // 1024}Ki"
        return (
            f"The node was low on resource: {self.resource}."
            f" Threshold quantity: {self.required}, available: {available}."
        )


def shortage(folder: Path) -> Shortage | None:
    """Return the shortage of the directory's disk; None if there is none, or the disk cannot be read."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    if (free := found.f_bavail * found.f_frsize) < MIN_FREE_BYTES:
        return Shortage("ephemeral-storage", MIN_FREE_BYTES, free)
    # Some file systems have no limit of inodes, and report 0.
    if found.f_files and found.f_favail < MIN_FREE_INODES:
        return Shortage("inodes", MIN_FREE_INODES, found.f_favail)
    return None


def usage(folder: Path) -> Usage:
    """Return the disk usage of the files in a directory. This reads all subdirectories."""
    total_bytes = inodes = 0
    # Files with several hard links.
    seen: set[tuple[int, int]] = set()
    for status in file_trees.statuses(folder):
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            identity = (status.st_dev, status.st_ino)
            if identity in seen:
                continue
            seen.add(identity)
        total_bytes += status.st_blocks * _BLOCK_BYTES
        inodes += 1
    return Usage(total_bytes, inodes)
