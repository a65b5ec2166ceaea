"""Render the prerequisites of a job: secrets, storage, code, data, preflight and companions."""

import base64
from collections.abc import Iterable, Iterator, Mapping

from windlass.model.base import Json, manifest
from windlass.model.job import Job
from windlass.render import code, helper_pods, ssh
from windlass.render.companions import hub, jupyter, tensorboard
from windlass.render.companions.servers import ResolvedCompanions
from windlass.render.framework import pods
from windlass.render.manifest_parts import Part, RenderedObject
from windlass.render.ssh import KeyPair
from windlass.render.storage import load_data, preflight, servers
from windlass.render.storage.load_data import Folder
from windlass.render.storage.nfs_shares import Share


def objects_of(
    job: Job,
    *,
    archive: bytes | None = None,
    share: Share | None = None,
    folders: Mapping[str, Folder] | None = None,
    resolved: ResolvedCompanions | None = None,
    ssh_key: KeyPair | None = None,
) -> tuple[RenderedObject, ...]:
    """Return the objects in the order of their creation.

    `archive` contains the code. `share` is the job's own NFS server (by
    default, it is addressed by its DNS name). `folders` are those of `loadData`, by the paths in the job file.
    `ssh_key` is the key of an MPI job; a plan has none.
    """
    bodies: dict[Part, Iterable[Json]] = {
        Part.SECRETS: _secrets(job),
        Part.SSH: (ssh.secret(job, ssh_key),) if ssh.has_key(job) else (),
        Part.VOLUMES: servers.volumes(job),
        Part.NFS: servers.server(job, share),
        Part.CODE: _code(job, archive),
        Part.LOAD_DATA: load_data.objects(job, folders or {}, share),
        Part.PREFLIGHT: (preflight.pod(job, share),) if preflight.is_needed(job) else (),
    }
    resolved = resolved or ResolvedCompanions()
    if job.tensorboard is not None:
        bodies[Part.TENSORBOARD] = tensorboard.objects(job, job.tensorboard, resolved, share)
    if job.jupyter is not None:
        bodies[Part.JUPYTER] = jupyter.objects(job, job.jupyter, resolved, share)
    if job.hub is not None:
        bodies[Part.HUB] = hub.objects(job, job.hub, resolved, share)
    return tuple(RenderedObject(part, body) for part, part_bodies in bodies.items() for body in part_bodies)


def _secrets(job: Job) -> Iterator[Json]:
    if job.secrets:
        metadata = helper_pods.metadata(job, pods.secret_name(job.name))
        data = {name: _encoded(value.encode()) for name, value in sorted(job.secrets.items())}
        yield manifest("v1", "Secret", metadata, type="Opaque", data=data)


def _code(job: Job, archive: bytes | None) -> Iterator[Json]:
    if archive is not None:
        for name, key, part in code.parts_of(job.name, archive):
            metadata = helper_pods.metadata(job, name)
            yield manifest("v1", "ConfigMap", metadata, binaryData={key: _encoded(part)})


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
