"""A Framework in its namespace, and the names of its tasks in output."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from windlass.model import names
from windlass.model.base import Json


class Manifest(msgspec.Struct, frozen=True):
    framework: Json
    """The Framework, with its namespace."""
    display_prefix: str = ""
    """Prefix of its task names in output, if there are several jobs."""

    @property
    def name(self) -> str:
        return str(self.framework["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.framework["metadata"].get("namespace") or "")

    @property
    def group(self) -> str:
        return names.group_of(self.framework["apiVersion"])

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name, which identify a job whatever its group."""
        return self.namespace, self.name

    @property
    def roles(self) -> dict[str, int]:
        """Number of tasks by role."""
        roles = self.framework["spec"].get("taskRoles") or ()
        return {role["name"]: role.get("taskNumber") or 0 for role in roles}

    @property
    def display_names(self) -> tuple[str, ...]:
        """Names of its tasks in output: `worker-0`, or `digits/worker-0` if there are several jobs."""
        return tuple(
            f"{self.display_prefix}{names.host_name(role, index)}"
            for role, number in self.roles.items()
            for index in range(number)
        )


M = TypeVar("M", bound=Manifest)


def with_default_namespace(framework: Json, namespace: str) -> Json:
    """Set the namespace of a Framework whose namespace is missing, null or empty, which Kubernetes treats alike."""
    metadata = framework["metadata"]
    namespace = metadata.get("namespace") or namespace
    return {**framework, "metadata": {**metadata, "namespace": namespace}} if namespace else framework


def first_duplicate(manifests: Iterable[M]) -> M | None:
    """Return the first manifest that has the name and namespace of an earlier one."""
    keys = set()
    for manifest in manifests:
        if manifest.key in keys:
            return manifest
        keys.add(manifest.key)
    return None
