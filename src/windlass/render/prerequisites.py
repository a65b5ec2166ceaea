"""Render the prerequisites of a job: secrets, storage, code, data, preflight and companions."""

import base64
from collections.abc import Iterator, Mapping

from windlass.model.base import Json
from windlass.model.job import Job
from windlass.render import code, helper_pods
from windlass.render.companions import hub, jupyter, tensorboard
from windlass.render.companions.servers import ResolvedCompanions
from windlass.render.framework import pods
from windlass.render.manifest_parts import Part, Piece
from windlass.render.storage import load_data, preflight, servers
from windlass.render.storage.load_data import Folder
from windlass.render.storage.nfs_shares import Share


def objects_of(
    job: Job,
    *,
    namespace: str = "",
    archive: bytes | None = None,
    share: Share | None = None,
    folders: Mapping[str, Folder] | None = None,
    resolved: ResolvedCompanions | None = None,
) -> tuple[Piece, ...]:
    """Return the objects in the order of their creation.

    `namespace` is for a job that names none. `archive` is the code. `share` is the job's own NFS server (default: by
    its DNS name). `folders` are those of `loadData`, by the paths in the job file.
    """
    made: dict[Part, Iterator[Json]] = {
        Part.SECRETS: _secrets(job, namespace),
        Part.VOLUMES: servers.volumes(job, namespace),
        Part.NFS: servers.server(job, namespace, share),
        Part.CODE: _code(job, namespace, archive),
        Part.LOAD_DATA: load_data.objects(job, folders or {}, share, namespace),
        Part.PREFLIGHT: _preflight(job, namespace, share),
    }
    before = (Piece(part, body) for part, bodies in made.items() for body in bodies)
    return (*before, *_companions(job, resolved or ResolvedCompanions(), share, namespace))


def _secrets(job: Job, namespace: str) -> Iterator[Json]:
    if job.secrets:
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": helper_pods.metadata(job, pods.secret_name(job.name), namespace),
            "type": "Opaque",
            "data": {name: _encoded(value.encode()) for name, value in sorted(job.secrets.items())},
        }


def _code(job: Job, namespace: str, archive: bytes | None) -> Iterator[Json]:
    if archive is not None:
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": helper_pods.metadata(job, code.config_map_name(job.name), namespace),
            "binaryData": {code.ARCHIVE: _encoded(archive)},
        }


def _preflight(job: Job, namespace: str, share: Share | None) -> Iterator[Json]:
    if preflight.is_needed(job):
        yield preflight.pod(job, share, namespace)


def _companions(
    job: Job, resolved: ResolvedCompanions, share: Share | None, namespace: str
) -> Iterator[Piece]:
    if job.tensorboard is not None:
        for body in tensorboard.objects(job, job.tensorboard, resolved, share, namespace):
            yield Piece(Part.TENSORBOARD, body)
    if job.jupyter is not None:
        for body in jupyter.objects(job, job.jupyter, resolved, share, namespace):
            yield Piece(Part.JUPYTER, body)
    if job.hub is not None:
        for body in hub.objects(job, job.hub, resolved, share, namespace):
            yield Piece(Part.HUB, body)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
