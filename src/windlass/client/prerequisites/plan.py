"""Plan the objects that must exist before a job starts: secrets, volumes, an NFS server, data, a preflight, companions.

`apply` creates them. Folders of `loadData` and password files are read here; no request is sent.
"""

import hashlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from windlass.client import paths
from windlass.client.companions import resolution
from windlass.client.errors import ClientError, InvalidJobError
from windlass.model.base import Json
from windlass.model.companions import Companion
from windlass.model.job import Job
from windlass.render import prerequisites
from windlass.render.companions.servers import ResolvedCompanions
from windlass.render.manifest_parts import COMPANIONS, Part, RenderedObject
from windlass.render.ssh import KeyPair
from windlass.render.storage import nfs_shares
from windlass.render.storage.load_data import Folder, LocalFolder
from windlass.render.storage.nfs_shares import Direct, Share

PREFLIGHT_SECONDS = 120.0
"""Default time limit of the search for required files."""

_JOB_PARTS = (Part.SSH, Part.LOAD_DATA, Part.PREFLIGHT)
"""Parts that companions alone do not need. Part.CODE is not listed: it is created together with the Framework."""
_SHARED_PARTS = (Part.SECRETS, Part.VOLUMES, Part.NFS, *COMPANIONS)


class Prerequisites(msgspec.Struct, frozen=True):
    """The planned prerequisites of one job."""

    job: Job
    """The job, with its namespace."""
    folders: Mapping[str, Folder] = {}
    """Folders of `loadData`, by the paths in the job file."""
    share: Share | None = None
    """The NFS share in an embedded cluster, which needs no NFS server.

    None: no share is needed, or its address is not known before the server exists.
    """
    preflight_seconds: float | None = PREFLIGHT_SECONDS
    """None: no preflight."""
    resolved: ResolvedCompanions = ResolvedCompanions()
    chosen_passwords: Mapping[Companion, str] = {}
    """Passwords from `passwordFrom`, which are compared with existing hashes."""
    companions_only: bool = False
    """Whether the job itself is not submitted."""

    def rendered_objects(
        self,
        share: Share | None = None,
        resolved: ResolvedCompanions | None = None,
        ssh_key: KeyPair | None = None,
    ) -> tuple[RenderedObject, ...]:
        """Render the objects in the order of their creation.

        `share` and `resolved` replace the planned values once the cluster has provided them. `ssh_key` is generated
        when the plan is applied, so that a dry run does not show it.
        """
        parts = {*_SHARED_PARTS, *(() if self.companions_only else _JOB_PARTS)}
        if self.preflight_seconds is None:
            parts.discard(Part.PREFLIGHT)
        rendered = prerequisites.objects_of(
            self.job,
            share=share or self.share,
            folders=self.folders,
            resolved=resolved or self.resolved,
            ssh_key=ssh_key,
        )
        return tuple(each for each in rendered if each.part in parts)

    @property
    def objects(self) -> tuple[Json, ...]:
        return tuple(rendered.body for rendered in self.rendered_objects())


def plan(
    job: Job,
    folder: Path,
    *,
    is_embedded: bool,
    preflight_seconds: float | None = PREFLIGHT_SECONDS,
    companions_only: bool = False,
) -> Prerequisites | None:
    """Plan the prerequisites of a job; None if it has none. Paths are relative to `folder`. Raises ClientError."""
    loaded = () if companions_only else _loaded_folders(job)
    chosen = resolution.chosen_passwords(job, folder, os.environ)
    planned = Prerequisites(
        job,
        {name: _folder(name, folder, is_embedded=is_embedded) for name in loaded},
        # In an embedded cluster, tasks use the claim of the NFS server directly.
        Direct(nfs_shares.server_name(job.name)) if is_embedded and job.nfs_server is not None else None,
        preflight_seconds,
        resolution.resolve(job, chosen, is_embedded=is_embedded),
        chosen,
        companions_only,
    )
    return planned if planned.rendered_objects() else None


def may_differ_if_embedded(job: Job) -> bool:
    """Return whether the prerequisites may be different on an embedded cluster."""
    return job.nfs_server is not None or bool(_loaded_folders(job)) or bool(job.companions)


def _loaded_folders(job: Job) -> Collection[str]:
    return dict.fromkeys(entry.folder for entry in job.load_data if entry.folder).keys()


def _folder(name: str, parent: Path, *, is_embedded: bool) -> Folder:
    path = Path(os.path.abspath(parent / paths.expanded(name)))  # noqa: PTH100 — symbolic links are not resolved
    if not path.exists():
        raise InvalidJobError(f"loadData: {path} does not exist. Expected a folder or a file.")
    if not is_embedded:
        return _packed(path)
    try:
        return LocalFolder(str(path), _fingerprint(path))
    except OSError as error:
        raise ClientError(
            f"loadData: cannot read {error.filename or path}: {error.strerror or error}"
        ) from error


def _packed(path: Path) -> bytes:
    # Imported here: the import is slow, and few jobs need it.
    from windlass.client.submit import code_archive

    try:
        return code_archive.pack(path, code_archive.FOLDER_LIMIT).data
    except ClientError as error:
        raise type(error)(f"loadData: {str(error).removeprefix('code: ')}") from error


def _fingerprint(path: Path) -> str:
    """Return a hash of names, sizes and times. Contents, which may be large, are not read."""
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(files):
            info = os.lstat(os.path.join(folder, name))  # noqa: PTH118 — creating a Path is slower than the call
            digest.update(
                repr((os.path.relpath(folder, path), name, info.st_size, info.st_mtime_ns)).encode()
            )
    if path.is_file():
        info = path.stat()
        digest.update(repr((info.st_size, info.st_mtime_ns)).encode())
    return digest.hexdigest()[:16]
