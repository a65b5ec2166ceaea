"""The permissions of pods' service accounts on an embedded cluster, as `windlass install` grants them on others."""

import contextlib

import msgspec

from windlass.install import manifests
from windlass.install.options import InstallOptions
from windlass.kubeapi import requests
from windlass.kubeapi.errors import AlreadyExistsError
from windlass.kubeapi.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from windlass.kubeapi.transport import Transport

_RESOURCES = {"ClusterRole": CLUSTER_ROLES, "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS}


async def create(transport: Transport) -> None:
    """Let barriers in all namespaces read Gangs. Raises ApiError."""
    for obj in manifests.barrier_access(InstallOptions()):
        body = msgspec.json.encode(obj)
        with contextlib.suppress(AlreadyExistsError):
            await transport.send(requests.create(_RESOURCES[obj["kind"]], "", body))
