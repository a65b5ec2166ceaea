"""All objects of an installation, in the order in which they can be created, and as YAML."""

from collections.abc import Iterable

from windlass.install import deployment, roles
from windlass.install.options import CONTROLLER, OWN_LABELS, InstallOptions
from windlass.install.roles import Permission, Scope
from windlass.model.base import Json
from windlass.wire.crd import manifests as crd_manifests
from windlass.wire.yaml import dump as yaml_dump

_RBAC = "rbac.authorization.k8s.io"
_ROLE_SUFFIXES = {Scope.CLUSTER: "definitions", Scope.WATCHED: "frameworks", Scope.OWN: "lease"}
_GANGS_SUFFIX = "gangs"
"""The suffix of the role that lets the barriers in pods read Gangs."""


def all_of(options: InstallOptions) -> list[Json]:
    return [
        *definitions(),
        *deployment.namespace(options),
        *access(options),
        *deployment.workload(options),
    ]


def definitions() -> list[Json]:
    """Return the CustomResourceDefinitions. All installations share them, so they have no instance label."""
    return [_labeled(definition) for definition in crd_manifests.definitions()]


def dump(manifests: Iterable[Json]) -> bytes:
    return b"---\n".join(yaml_dump.dump(manifest) for manifest in manifests)


def _labeled(definition: Json) -> Json:
    return {**definition, "metadata": {**definition["metadata"], "labels": dict(OWN_LABELS)}}


def access(options: InstallOptions) -> list[Json]:
    """Return the service account, and each role followed by its binding."""
    needed = roles.permissions(options.settings)
    namespaces = roles.namespaces(options.namespace, options.settings)
    controller = {"kind": "ServiceAccount", "name": CONTROLLER, "namespace": options.namespace}
    result = [_service_account(options)]
    for scope, suffix in _ROLE_SUFFIXES.items():
        granted = tuple(permission for permission in needed if permission.scope == scope)
        for namespace in namespaces[scope] if granted else ():
            result += _role_and_binding(options, suffix, namespace, granted, controller)
    for namespace in namespaces[Scope.WATCHED]:
        subject = _all_service_accounts(namespace)
        result += _role_and_binding(options, _GANGS_SUFFIX, namespace, roles.GANG_PERMISSIONS, subject)
    return result


def _all_service_accounts(namespace: str) -> Json:
    """Return the group of the service accounts of a namespace, or of all namespaces."""
    group = f"system:serviceaccounts:{namespace}" if namespace else "system:serviceaccounts"
    return {"apiGroup": _RBAC, "kind": "Group", "name": group}


def _service_account(options: InstallOptions) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": options.metadata(CONTROLLER),
        "automountServiceAccountToken": False,
    }


def _role_and_binding(
    options: InstallOptions, suffix: str, namespace: str, granted: tuple[Permission, ...], subject: Json
) -> tuple[Json, Json]:
    """Return them in a namespace, or for the whole cluster if it is empty."""
    kind, name = "Role" if namespace else "ClusterRole", options.qualified_name(suffix)
    role = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": options.metadata(name, namespace),
        "rules": roles.rules(granted),
    }
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": options.metadata(name, namespace),
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [subject],
    }
    return role, binding
