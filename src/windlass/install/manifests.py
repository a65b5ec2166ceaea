"""All objects of an installation, in the order in which they can be created, and as YAML."""

from collections.abc import Iterable

from windlass.install import dashboard, deployment, roles
from windlass.install.options import CONTROLLER_NAME, OWN_LABELS, InstallOptions
from windlass.install.roles import Permission, Scope
from windlass.model.base import Json, manifest
from windlass.wire.crd import manifests as crd_manifests
from windlass.wire.yaml import dump as yaml_dump

_RBAC = "rbac.authorization.k8s.io"
_ROLE_SUFFIXES = {Scope.CLUSTER: "definitions", Scope.WATCHED: "frameworks", Scope.LEASE: "lease"}
_GANGS_SUFFIX = "gangs"
"""The suffix of the role that lets the barriers in pods read Gangs."""


def all_of(options: InstallOptions) -> list[Json]:
    return [
        *definitions(options),
        *deployment.namespace(options),
        *access(options),
        *deployment.workload(options),
        *dashboard.objects(options),
    ]


def definitions(options: InstallOptions) -> list[Json]:
    """Return the CustomResourceDefinitions. All installations share them, so they have no instance label."""
    return [
        {**definition, "metadata": {**definition["metadata"], "labels": dict(OWN_LABELS)}}
        for definition in crd_manifests.definitions(has_records=options.settings.history.enabled)
    ]


def dump(manifests: Iterable[Json]) -> bytes:
    return b"---\n".join(yaml_dump.dump(manifest) for manifest in manifests)


def access(options: InstallOptions) -> list[Json]:
    """Return the service account, and each role followed by its binding."""
    needed = roles.permissions(options.settings)
    namespaces = roles.namespaces(options.namespace, options.settings)
    controller = {"kind": "ServiceAccount", "name": CONTROLLER_NAME, "namespace": options.namespace}
    metadata = options.metadata(CONTROLLER_NAME)
    result = [manifest("v1", "ServiceAccount", metadata, automountServiceAccountToken=False)]
    for scope, suffix in _ROLE_SUFFIXES.items():
        granted = tuple(permission for permission in needed if permission.scope == scope)
        for namespace in namespaces[scope] if granted else ():
            result += _role_and_binding(options, suffix, namespace, granted, controller)
    return [*result, *barrier_access(options)]


def barrier_access(options: InstallOptions) -> list[Json]:
    """Return the roles, each followed by its binding, that let the barriers in pods read Gangs."""
    result: list[Json] = []
    for namespace in roles.namespaces(options.namespace, options.settings)[Scope.WATCHED]:
        # All service accounts of the namespace, or of all namespaces.
        group = f"system:serviceaccounts:{namespace}" if namespace else "system:serviceaccounts"
        subject = {"apiGroup": _RBAC, "kind": "Group", "name": group}
        result += _role_and_binding(options, _GANGS_SUFFIX, namespace, roles.GANG_PERMISSIONS, subject)
    return result


def _role_and_binding(
    options: InstallOptions, suffix: str, namespace: str, granted: tuple[Permission, ...], subject: Json
) -> tuple[Json, Json]:
    """Return a role and its binding for the namespace, or for all namespaces if it is empty."""
    kind, name = "Role" if namespace else "ClusterRole", options.qualified_name(suffix)
    metadata, role = options.metadata(name, namespace), {"apiGroup": _RBAC, "kind": kind, "name": name}
    return (
        manifest(f"{_RBAC}/v1", kind, metadata, rules=roles.rules(granted)),
        manifest(f"{_RBAC}/v1", f"{kind}Binding", metadata, roleRef=role, subjects=[subject]),
    )
