"""Render the prerequisites of a job: secrets, storage, code, data, preflight and companions."""

import base64
from collections.abc import Iterable, Iterator, Mapping

from windlass.model.base import Json, manifest
from windlass.model.job import Job
from windlass.render import code, helper_pods
from windlass.render.companions import hub, jupyter, tensorboard
from windlass.render.companions.servers import ResolvedCompanions
from windlass.render.framework import pods
from windlass.render.manifest_parts import Part, RenderedObject
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
) -> tuple[RenderedObject, ...]:
    """Return the objects in the order of their creation.

    `namespace` is for a job that names none. `archive` contains the code. `share` is the job's own NFS server (by
    default, it is addressed by its DNS name). `folders` are those of `loadData`, by the paths in the job file.
    """
    bodies: dict[Part, Iterable[Json]] = {
        Part.SECRETS: _secrets(job, namespace),
        Part.VOLUMES: servers.volumes(job, namespace),
        Part.NFS: servers.server(job, namespace, share),
        Part.CODE: _code(job, namespace, archive),
        Part.LOAD_DATA: load_data.objects(job, folders or {}, share, namespace),
        Part.PREFLIGHT: (preflight.pod(job, share, namespace),) if preflight.is_needed(job) else (),
    }
    resolved = resolved or ResolvedCompanions()
    if job.tensorboard is not None:
        bodies[Part.TENSORBOARD] = tensorboard.objects(job, job.tensorboard, resolved, share, namespace)
    if job.jupyter is not None:
        bodies[Part.JUPYTER] = jupyter.objects(job, job.jupyter, resolved, share, namespace)
    if job.hub is not None:
        bodies[Part.HUB] = hub.objects(job, job.hub, resolved, share, namespace)
    return tuple(RenderedObject(part, body) for part, part_bodies in bodies.items() for body in part_bodies)


def _secrets(job: Job, namespace: str) -> Iterator[Json]:
    if job.secrets:
        metadata = helper_pods.metadata(job, pods.secret_name(job.name), namespace)
        data = {name: _encoded(value.encode()) for name, value in sorted(job.secrets.items())}
        yield manifest("v1", "Secret", metadata, type="Opaque", data=data)


def _code(job: Job, namespace: str, archive: bytes | None) -> Iterator[Json]:
    if archive is not None:
        metadata = helper_pods.metadata(job, code.config_map_name(job.name), namespace)
        yield manifest("v1", "ConfigMap", metadata, binaryData={code.ARCHIVE: _encoded(archive)})


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
