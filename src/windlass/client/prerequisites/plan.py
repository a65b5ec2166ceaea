"""What a job needs before it starts, as a value: its secrets, its volumes, an NFS server, its data, a preflight, its
companions.

How it is carried out is in `preparing`. Folders that are loaded are read here.
"""

import hashlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from windlass.client import paths
from windlass.client.companions import resolution
from windlass.client.errors import ClientError, FaultyJobError
from windlass.model.base import Json
from windlass.model.companions import Companion
from windlass.model.job import Job
from windlass.render import prerequisites
from windlass.render.companions.resolved import Settled
from windlass.render.manifest_parts import COMPANIONS, Part, Piece
from windlass.render.storage import nfs_shares
from windlass.render.storage.load_data import Folder, Here
from windlass.render.storage.nfs_shares import Direct, Share

PREFLIGHT_SECONDS = 120.0
"""For so long files may take to be found where a job needs them."""

_OF_THE_JOB = (Part.LOAD_DATA, Part.PREFLIGHT)
"""Companions alone need neither. The code is brought with the Framework."""
_OF_BOTH = (Part.SECRETS, Part.VOLUMES, Part.NFS, *COMPANIONS)


class Preparation(msgspec.Struct, frozen=True):
    """What is planned. Nothing was asked for it."""

    job: Job
    """In its namespace."""
    folders: Mapping[str, Folder] = {}
    """Those that are loaded, by the names that the job has for them."""
    share: Share | None = None
    """Where this is known before its NFS server is there: on one machine, which needs none."""
    preflight_seconds: float | None = PREFLIGHT_SECONDS
    """None: nobody looks whether the files are there."""
    settled: Settled = Settled()
    """Of its companions."""
    given: Mapping[Companion, str] = {}
    """Their passwords, where somebody has chosen them: whether one is that of before is only to be seen from it."""
    companions_only: bool = False
    """There will be no Framework."""

    def pieces(self, share: Share | None = None, settled: Settled | None = None) -> tuple[Piece, ...]:
        """In the order in which they are made. `settled` is what has become of it since."""
        known = share or self.share
        wanted = {*_OF_BOTH, *(() if self.companions_only else _OF_THE_JOB)}
        if self.preflight_seconds is None:
            wanted.discard(Part.PREFLIGHT)
        made = prerequisites.preparations(
            self.job, share=known, folders=self.folders, settled=settled or self.settled
        )
        return tuple(piece for piece in made if piece.part in wanted)

    @property
    def objects(self) -> tuple[Json, ...]:
        return tuple(piece.body for piece in self.pieces())


def planned(
    job: Job,
    namespace: str,
    folder: Path,
    *,
    is_one_machine: bool,
    preflight_seconds: float | None = PREFLIGHT_SECONDS,
    companions_only: bool = False,
) -> Preparation | None:
    """None for a job that needs nothing of it. `folder` is that of the job file. Raises ClientError."""
    loaded = () if companions_only else _folders_of(job)
    given = resolution.given(job, folder, os.environ)
    made = Preparation(
        msgspec.structs.replace(job, namespace=job.namespace or namespace),
        {name: _folder(name, folder, is_one_machine=is_one_machine) for name in loaded},
        share_of(job) if is_one_machine else None,
        preflight_seconds,
        resolution.settled(job, given, is_one_machine=is_one_machine),
        given,
        companions_only,
    )
    return made if made.pieces() else None


def no_companions(wanted: Collection[Companion] = tuple(Companion)) -> str:
    """What is told of a file in which there is none of these."""
    what = "companion" if len(wanted) > 1 else ", ".join(wanted)
    fields = " or ".join(f"`{each}: {{}}`" for each in wanted)
    return f"there is no {what} in it: write {fields} into the job"


def share_of(job: Job) -> Share | None:
    """On one machine."""
    return Direct(nfs_shares.server_name(job.name)) if job.nfs_server is not None else None


def depends_on_the_machine(job: Job) -> bool:
    """Whether it is prepared otherwise where its tasks run on this machine."""
    return job.nfs_server is not None or bool(_folders_of(job)) or bool(job.companions)


def _folders_of(job: Job) -> Collection[str]:
    return dict.fromkeys(entry.folder for entry in job.load_data if entry.folder).keys()


def _folder(name: str, beside: Path, *, is_one_machine: bool) -> Folder:
    path = Path(os.path.abspath(beside / paths.expanded(name)))  # noqa: PTH100 — links may be there on purpose
    if not path.exists():
        raise FaultyJobError(f"loadData: there is no {path}. Expected a folder, or one file.")
    if not is_one_machine:
        return _packed(path)
    try:
        return Here(str(path), _version(path))
    except OSError as error:
        raise ClientError(
            f"loadData: {error.filename or path} cannot be read: {error.strerror or error}"
        ) from error


def _packed(path: Path) -> bytes:
    # It takes a while, and few jobs need it.
    from windlass.client.submit import code_archive

    try:
        return code_archive.pack(path).data
    except ClientError as error:
        raise type(error)(f"loadData: {str(error).removeprefix('code: ')}") from error


def _version(path: Path) -> str:
    """Another one when a file has come, gone or changed. Nothing is read: there may be much of it."""
    seen = hashlib.sha256()
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(files):
            found = os.lstat(os.path.join(folder, name))  # noqa: PTH118 — a path costs more than the look
            seen.update(
                repr((os.path.relpath(folder, path), name, found.st_size, found.st_mtime_ns)).encode()
            )
    if path.is_file():
        found = path.stat()
        seen.update(repr((found.st_size, found.st_mtime_ns)).encode())
    return seen.hexdigest()[:16]
