"""The permissions of pods' service accounts on an embedded cluster."""

import contextlib
from collections.abc import Iterable
from typing import Final

import msgspec

from windlass.install import manifests
from windlass.install.options import InstallOptions
from windlass.kubeapi import requests
from windlass.kubeapi.errors import AlreadyExistsError
from windlass.kubeapi.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.base import Json, manifest

_RESOURCES = {"ClusterRole": CLUSTER_ROLES, "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS}
_RBAC: Final = "rbac.authorization.k8s.io"
_FRAMEWORK_READER: Final = "windlass-framework-reader"


async def create(transport: Transport) -> None:
    """Let barriers in all namespaces read Gangs, as `windlass install` does. Raises ApiError."""
    await _create(transport, manifests.barrier_access(InstallOptions()))


async def let_pods_read_frameworks(transport: Transport) -> None:
    """Let all service accounts read Frameworks. Raises ApiError.

    FrameworkController documents a role with these permissions for the service account of its barrier. On a cluster
    that `windlass run` has just started, nobody could have created it.
    """
    rule = {
        "apiGroups": list(names.GROUPS),
        "resources": [names.PLURAL],
        "verbs": ["get", "list", "watch"],
    }
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": _FRAMEWORK_READER}
    subject = {"apiGroup": _RBAC, "kind": "Group", "name": "system:serviceaccounts"}
    metadata = {"name": _FRAMEWORK_READER}
    await _create(
        transport,
        (
            manifest(f"{_RBAC}/v1", "ClusterRole", metadata, rules=[rule]),
            manifest(f"{_RBAC}/v1", "ClusterRoleBinding", metadata, roleRef=role, subjects=[subject]),
        ),
    )


async def _create(transport: Transport, objects: Iterable[Json]) -> None:
    for obj in objects:
        body = msgspec.json.encode(obj)
        with contextlib.suppress(AlreadyExistsError):
            await transport.send(requests.create(_RESOURCES[obj["kind"]], "", body))
