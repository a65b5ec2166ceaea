"""A Framework as a cluster is given it: in a namespace. Whoever runs, submits or plans jobs has them in this form."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from windlass.model import names
from windlass.model.base import Json


class Manifest(msgspec.Struct, frozen=True):
    framework: Json
    """As it was written, with its namespace."""

    @property
    def name(self) -> str:
        name: str = self.framework["metadata"]["name"]
        return name

    @property
    def namespace(self) -> str:
        namespace: str = self.framework["metadata"]["namespace"]
        return namespace

    @property
    def group(self) -> str:
        return names.group_of(self.framework["apiVersion"])

    @property
    def key(self) -> tuple[str, str]:
        """Two that have the same are one to a cluster, whatever their groups."""
        return self.namespace, self.name

    @property
    def roles(self) -> dict[str, int]:
        """How many tasks each has."""
        roles = self.framework["spec"].get("taskRoles") or ()
        return {role["name"]: role.get("taskNumber") or 0 for role in roles}

    @property
    def task_names(self) -> tuple[str, ...]:
        """What its pods are called for short: `worker-0`."""
        return tuple(
            names.host_name(role, index) for role, number in self.roles.items() for index in range(number)
        )


M = TypeVar("M", bound=Manifest)


def in_namespace(framework: Json, namespace: str) -> Json:
    """`namespace` is for one that leaves it open. A null is an absent field to Kubernetes, also here."""
    metadata = framework["metadata"]
    return {**framework, "metadata": {**metadata, "namespace": metadata.get("namespace") or namespace}}


def twice(manifests: Iterable[M]) -> M | None:
    """The first whose name in its namespace was taken by one before it."""
    seen = set()
    for manifest in manifests:
        if manifest.key in seen:
            return manifest
        seen.add(manifest.key)
    return None
