"""Find and delete the objects of a job other than its Framework, by their label.

Kinds that the user may not list are skipped. Storage and the NFS server are found too but are kept: files outlive the
jobs that wrote them.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from windlass.client import lifecycle, lookup
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, RejectedError
from windlass.k8s.metadata import OwnedObjectMeta
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ConflictError, ForbiddenError, NotFoundError, ResponseError
from windlass.kubeapi.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from windlass.model import names
from windlass.render.storage import nfs_shares
from windlass.wire import diagnostics

FOREGROUND = "Foreground"
MAX_LABEL_LENGTH = 63


class Kind(msgspec.Struct, frozen=True):
    name: str
    resource: Resource
    runs_pods: bool = False
    """Whether the objects are or create pods. They are deleted in the foreground: after their pods."""


JOB = Kind("Job", JOBS, runs_pods=True)
RBAC_KINDS = (
    Kind("RoleBinding", ROLE_BINDINGS),
    Kind("Role", ROLES),
    Kind("ServiceAccount", SERVICE_ACCOUNTS),
)
"""Created for companions. Users who may not list these kinds have usually not created any."""
DELETED_KINDS = (
    JOB,
    Kind("StatefulSet", STATEFUL_SETS, runs_pods=True),
    Kind("Deployment", DEPLOYMENTS, runs_pods=True),
    Kind("Pod", PODS, runs_pods=True),
    Kind("Service", SERVICES),
    Kind("ConfigMap", CONFIG_MAPS),
    Kind("Secret", SECRETS),
    *RBAC_KINDS,
)
"""In the order of deletion: workloads before the objects that they use."""
STORAGE_KINDS = (
    Kind("PersistentVolumeClaim", PERSISTENT_VOLUME_CLAIMS),
    Kind("PersistentVolume", PERSISTENT_VOLUMES),
)
_NFS_SERVER_KINDS = ("Deployment", "Service", "ConfigMap")


class _Claim(msgspec.Struct, frozen=True):
    namespace: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    claim_ref: _Claim | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: OwnedObjectMeta
    spec: _Spec | None = None

    @property
    def claim_namespace(self) -> str:
        """The namespace of the claim of a PersistentVolume; empty without one."""
        claim = self.spec.claim_ref if self.spec is not None else None
        return claim.namespace if claim is not None else ""

    @property
    def job(self) -> str:
        """The name of the job in the label; empty without a label."""
        return self.metadata.labels.get(names.JOB_LABEL, "")


_decode = msgspec.json.Decoder(_Object).decode


class OwnedObject(msgspec.Struct, frozen=True):
    kind: Kind
    name: str
    uid: str
    companion: str = ""
    """The companion that the object belongs to; empty for an object of the job itself."""
    is_owned_by_framework: bool = False

    def __str__(self) -> str:
        return f"{self.kind.name} {self.name}"

    @property
    def for_kubectl(self) -> str:
        return f"{self.kind.name.lower()}/{self.name}"


class OwnedObjects(msgspec.Struct, frozen=True):
    deletable: tuple[OwnedObject, ...] = ()
    kept: tuple[OwnedObject, ...] = ()
    """Storage and the NFS server of the job."""
    unlistable: tuple[str, ...] = ()
    """Plural names of the kinds to delete that the user may not list, other than RBAC_KINDS."""


async def find(connection: Connection, name: str) -> OwnedObjects:
    """Return the objects with the label of this job, except those that have a controller.

    Raises the errors of `Connection.send`, except ForbiddenError and NotFoundError.
    """
    if len(name) > MAX_LABEL_LENGTH:
        return OwnedObjects()
    kinds = (*DELETED_KINDS, *STORAGE_KINDS)
    listed = await asyncio.gather(*(_labelled(connection, kind, name) for kind in kinds))
    by_kind = dict(zip(kinds, listed, strict=True))
    found = [
        OwnedObject(
            kind,
            each.metadata.name,
            each.metadata.uid,
            each.metadata.labels.get(names.COMPANION_LABEL, ""),
            any(owner.kind == names.KIND for owner in each.metadata.owner_references),
        )
        for kind, objects in by_kind.items()
        for each in objects or ()
    ]
    return OwnedObjects(
        deletable=tuple(each for each in found if not _is_kept(each, name)),
        kept=tuple(each for each in found if _is_kept(each, name)),
        unlistable=tuple(
            kind.resource.plural for kind in DELETED_KINDS if by_kind[kind] is None and kind not in RBAC_KINDS
        ),
    )


def _is_kept(each: OwnedObject, job: str) -> bool:
    is_nfs_server = each.kind.name in _NFS_SERVER_KINDS and each.name == nfs_shares.server_name(job)
    return each.kind in STORAGE_KINDS or is_nfs_server


async def _labelled(connection: Connection, kind: Kind, name: str) -> list[_Object] | None:
    """Return the objects with the label of the job that have no controller; None if the user may not list the kind.

    A kind that is not served has no objects. PersistentVolumes of claims in other namespaces are left out.
    """
    selector = f"{names.JOB_LABEL}={name}"
    try:
        listed = await lookup.list_objects(connection, kind.resource, connection.namespace, selector)
    except NotFoundError:
        return []
    except ForbiddenError:
        return None
    return [
        each
        for each in map(_decode, listed)
        # An object with a controller is deleted together with it.
        if not any(owner.controller for owner in each.metadata.owner_references)
        and (kind.resource.is_namespaced or each.claim_namespace in ("", connection.namespace))
    ]


async def find_job(connection: Connection, name: str) -> OwnedObject | None:
    """Return the Job of that name, labelled or not; None if it does not exist or may not be read.

    Raises ClientError if it belongs to another job.
    """
    try:
        found = _decode(await connection.send(requests.get(JOB.resource, connection.namespace, name)))
    except (NotFoundError, ForbiddenError):
        return None
    if found.job not in ("", name):
        raise ClientError(
            f"{name} belongs to the job {found.job}. Delete that job with "
            f"`windlass delete {found.job} -n {connection.namespace}`."
        )
    return OwnedObject(JOB, name, found.metadata.uid)


async def list_job_names(connection: Connection) -> set[str]:
    """Return the job in the label of each Job, or the name of a Job without this label; none if listing Jobs fails."""
    try:
        listed = await lookup.list_objects(connection, JOB.resource, connection.namespace)
    except ResponseError:
        return set()
    return {each.job or each.metadata.name for each in map(_decode, listed)}


async def remove_owner_references(connection: Connection, kept: Iterable[OwnedObject]) -> None:
    """Remove the owner references of objects that a Framework owns, so that they outlive it. Raises RejectedError."""
    for each in kept:
        if not each.is_owned_by_framework:
            continue
        change = {"metadata": {"uid": each.uid, "ownerReferences": None}}
        try:
            await lifecycle.merge_patch(connection, each.kind.resource, each.name, change)
        except (NotFoundError, ConflictError):
            continue  # already deleted
        except ResponseError as error:
            raise RejectedError(
                f"cannot keep {each} on {connection.where}: {error.failure.message}"
            ) from error


async def delete_objects(connection: Connection, objects: Iterable[OwnedObject]) -> None:
    """Request the deletion of each object, even if other requests fail. Raises RejectedError."""
    errors = []
    for each in objects:
        request = requests.delete(
            each.kind.resource,
            connection.namespace,
            each.name,
            uid=each.uid,
            propagation=FOREGROUND if each.kind.runs_pods else "",
        )
        try:
            await connection.send(request)
        except (NotFoundError, ConflictError):
            continue  # already deleted
        except ResponseError as error:
            errors.append(f"{each}: {error.failure.message}")
    if errors:
        raise RejectedError(
            f"cannot delete all objects on {connection.where}: {'; '.join(map(diagnostics.truncate, errors))}"
        )
