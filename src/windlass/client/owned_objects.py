"""What was made for a job beside its Framework, or in place of one: found by its label, with the rights that there are.

Storage is found too, and never deleted: files outlive the jobs that wrote them.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from windlass.client import lifecycle, lookup
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, RefusedError
from windlass.k8s.metadata import OwnedObjectMeta
from windlass.kubeapi import requests
from windlass.kubeapi.errors import AnsweredError, ConflictError, ForbiddenError, NotFoundError
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
LONGEST_LABEL = 63


class Kind(msgspec.Struct, frozen=True):
    name: str
    resource: Resource
    runs_pods: bool = False
    """It is gone only when they are."""


JOB = Kind("Job", JOBS, runs_pods=True)
RBAC_KINDS = (
    Kind("RoleBinding", ROLE_BINDINGS),
    Kind("Role", ROLES),
    Kind("ServiceAccount", SERVICE_ACCOUNTS),
)
"""Of companions. Many people may not see them, who have made none then."""
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
"""In this order: what runs goes before that with which it runs."""
STORAGE_KINDS = (
    Kind("PersistentVolumeClaim", PERSISTENT_VOLUME_CLAIMS),
    Kind("PersistentVolume", PERSISTENT_VOLUMES),
)
_OF_A_SERVER = ("Deployment", "Service", "ConfigMap")


class _Claim(msgspec.Struct, frozen=True):
    namespace: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    claim_ref: _Claim | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: OwnedObjectMeta
    spec: _Spec | None = None

    @property
    def has_a_controller(self) -> bool:
        """It goes when that does."""
        return any(owner.controller for owner in self.metadata.owner_references)

    @property
    def goes_with_a_framework(self) -> bool:
        return any(owner.kind == names.KIND for owner in self.metadata.owner_references)

    @property
    def job(self) -> str:
        """That for which it was made; empty where nobody says so."""
        return self.metadata.labels.get(names.JOB_LABEL, "")

    @property
    def companion(self) -> str:
        return self.metadata.labels.get(names.COMPANION_LABEL, "")


_decode = msgspec.json.Decoder(_Object).decode


class OwnedObject(msgspec.Struct, frozen=True):
    kind: Kind
    name: str
    uid: str
    companion: str = ""
    """Of which it is a part; empty for what is the job's own."""
    goes_with_a_framework: bool = False

    def __str__(self) -> str:
        return f"{self.kind.name} {self.name}"

    @property
    def for_kubectl(self) -> str:
        return f"{self.kind.name.lower()}/{self.name}"


class OwnedObjects(msgspec.Struct, frozen=True):
    going: tuple[OwnedObject, ...] = ()
    staying: tuple[OwnedObject, ...] = ()
    """Files, and the server of them."""
    hidden: tuple[str, ...] = ()
    """Kinds of which nobody may say whether there are any."""


async def find(connection: Connection, name: str) -> OwnedObjects:
    """All that carries the label of this job. Raises what `Connection.send` raises, but for refusals."""
    if len(name) > LONGEST_LABEL:
        return OwnedObjects()
    kinds = (*DELETED_KINDS, *STORAGE_KINDS)
    listed = await asyncio.gather(*(_labelled(connection, kind, name) for kind in kinds))
    by_kind = dict(zip(kinds, listed, strict=True))
    found = [
        OwnedObject(
            kind,
            each.metadata.name,
            each.metadata.uid,
            each.companion,
            each.goes_with_a_framework,
        )
        for kind, objects in by_kind.items()
        for each in objects or ()
    ]
    return OwnedObjects(
        going=tuple(each for each in found if not _holds_files(each, name)),
        staying=tuple(each for each in found if _holds_files(each, name)),
        hidden=tuple(
            kind.resource.plural for kind in DELETED_KINDS if by_kind[kind] is None and kind not in RBAC_KINDS
        ),
    )


def _holds_files(each: OwnedObject, job: str) -> bool:
    is_of_the_server = each.kind.name in _OF_A_SERVER and each.name == nfs_shares.server_name(job)
    return each.kind in STORAGE_KINDS or is_of_the_server


async def _labelled(connection: Connection, kind: Kind, name: str) -> list[_Object] | None:
    """None where nobody may know. A kind that is not served has no objects."""
    selector = f"{names.JOB_LABEL}={name}"
    try:
        listed = await lookup.list_objects(connection, kind.resource, connection.namespace, selector)
    except NotFoundError:
        return []
    except ForbiddenError:
        return None
    found = [each for each in map(_decode, listed) if not each.has_a_controller]
    return [each for each in found if kind.resource.is_namespaced or _is_of(each, connection.namespace)]


def _is_of(volume: _Object, namespace: str) -> bool:
    """Volumes are in no namespace: that of the claim says whose they are."""
    claim = volume.spec.claim_ref if volume.spec is not None else None
    return claim is None or claim.namespace == namespace


async def find_job(connection: Connection, name: str) -> OwnedObject | None:
    """The Job of that name, labelled or not. Raises ClientError for one that is a part of something else."""
    try:
        found = _decode(await connection.send(requests.get(JOB.resource, connection.namespace, name)))
    except (NotFoundError, ForbiddenError):
        return None
    if found.job not in ("", name):
        raise ClientError(
            f"{name} is a part of the job {found.job}: `windlass delete {found.job} -n {connection.namespace}` "
            "deletes all of it."
        )
    return OwnedObject(JOB, name, found.metadata.uid)


async def list_job_names(connection: Connection) -> set[str]:
    """By which Jobs can be deleted. None where they are not to be seen."""
    try:
        listed = await lookup.list_objects(connection, JOB.resource, connection.namespace)
    except AnsweredError:
        return set()
    return {each.job or each.metadata.name for each in map(_decode, listed)}


async def remove_owner_references(connection: Connection, staying: Iterable[OwnedObject]) -> None:
    """They do not go with their Framework. Raises RefusedError."""
    for each in staying:
        if not each.goes_with_a_framework:
            continue
        change = {"metadata": {"uid": each.uid, "ownerReferences": None}}
        try:
            await lifecycle.merge_patch(connection, each.kind.resource, each.name, change)
        except (NotFoundError, ConflictError):
            continue  # it is gone already
        except AnsweredError as error:
            raise RefusedError(
                f"{connection.where} does not let {each} stay: {error.failure.message}"
            ) from error


async def delete_objects(connection: Connection, going: Iterable[OwnedObject]) -> None:
    """Each of them is asked to go, whatever becomes of the others. Raises RefusedError."""
    refusals = []
    for each in going:
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
            continue  # it is gone already
        except AnsweredError as error:
            refusals.append(f"{each}: {error.failure.message}")
    if refusals:
        raise RefusedError(
            f"{connection.where} does not let go of {'; '.join(map(diagnostics.cut, refusals))}"
        )
