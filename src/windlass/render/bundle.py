"""All objects of a job in one file: its prerequisites, and its Framework or plain objects."""

from collections.abc import Iterator, Mapping

import msgspec

from windlass.discovery import ports
from windlass.model import names
from windlass.model.base import Json
from windlass.model.job import Job
from windlass.render import code, prerequisites
from windlass.render.companions.servers import ResolvedCompanions
from windlass.render.framework import pods
from windlass.render.manifest_parts import Part, RenderedObject
from windlass.render.plain import manifests, unsupported
from windlass.render.ssh import KeyPair
from windlass.render.storage.load_data import Folder
from windlass.render.storage.nfs_shares import Share


def errors(job: Job, *, is_plain: bool, prefix: str | None = None) -> Iterator[str]:
    """Yield the reasons why a job cannot be rendered. `prefix` is the prefix of task names in plain objects."""
    templates = {name: pods.template(job, role, None) for name, role in job.roles.items() if role.tasks > 0}
    for conflict in port_conflicts(templates):
        yield f"the job {job.name}: {conflict}"
    if is_plain:
        yield from unsupported.errors(job, prefix)


def port_conflicts(templates: Mapping[str, Json]) -> Iterator[str]:
    """Yield a message for each port that a role on the host network and an earlier one both declare."""
    owners: dict[tuple[int, str], str] = {}
    for role, template in templates.items():
        for port in _host_ports(template):
            owner = owners.setdefault(port, role)
            if owner != role:
                yield (
                    f"the roles {owner} and {role} both use port {port[0]} of their node (hostNetwork), which only one "
                    "pod can use. Set another port for one of them"
                )


def _host_ports(template: Json) -> dict[tuple[int, str], None]:
    """Return the ports and protocols that a template declares on the host network, without duplicates."""
    if (template.get("spec") or {}).get("hostNetwork") is not True:
        return {}
    return {
        (port.get("containerPort"), port.get("protocol") or "TCP"): None
        for container in ports.containers(template)
        for port in container.get("ports") or ()
    }


def warnings(job: Job, *, is_plain: bool) -> Iterator[str]:
    """Yield warnings about features that plain objects lack, and about PersistentVolumes of a job without a
    namespace."""
    has_cephfs_volumes = any(volume.cephfs is not None for volume in job.volumes.values())
    if has_cephfs_volumes and not job.namespace:
        yield (
            f"the job {job.name} has no namespace, so its PersistentVolumes are for claims in the namespace "
            f"{names.DEFAULT_NAMESPACE} only. Set another namespace with --namespace"
        )
    if is_plain:
        yield from unsupported.warnings(job)


def objects(
    job: Job,
    *,
    framework: Json | None,
    archive: bytes | None = None,
    share: Share | None = None,
    folders: Mapping[str, Folder] | None = None,
    prefix: str | None = None,
    resolved: ResolvedCompanions | None = None,
    ssh_key: KeyPair | None = None,
) -> tuple[RenderedObject, ...]:
    """Return all objects of a job in the order of their creation.

    `framework` is its rendered Framework. None: the job becomes plain objects, whose task names begin with `prefix`.
    """
    resolved = msgspec.structs.replace(
        resolved or ResolvedCompanions(), is_plain=framework is None, prefix=prefix
    )
    before = prerequisites.objects_of(
        job, archive=archive, share=share, folders=folders, resolved=resolved, ssh_key=ssh_key
    )
    if framework is not None:
        return (*before, RenderedObject(Part.FRAMEWORK, framework))
    packed = None if archive is None else code.packed(job.name, archive)
    return (*before, *manifests.plain(job, packed, share, folders=folders, prefix=prefix))
