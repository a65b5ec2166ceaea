"""The permissions of the controller, each with its reason. Roles are generated from this list.

Tests compare the list with the requests of the controller: all are allowed, and no permission is unused.
"""

from collections.abc import Iterable
from enum import StrEnum
from itertools import groupby

import msgspec

from windlass.kubeapi.requests import Verb
from windlass.model import names
from windlass.model.base import Json
from windlass.model.settings import Settings
from windlass.wire.crd import manifests

DEFINITIONS = tuple(definition["metadata"]["name"] for definition in manifests.definitions())

_CORE = ""
_EXTENSIONS = "apiextensions.k8s.io"
_COORDINATION = "coordination.k8s.io"


class Scope(StrEnum):
    WATCHED = "where Frameworks are watched"
    OWN = "in the controller's own namespace"
    CLUSTER = "cluster-wide"


class Permission(msgspec.Struct, frozen=True):
    scope: Scope
    group: str
    resource: str
    """A resource or a subresource, e.g. `frameworks/status`."""
    verbs: tuple[Verb, ...]
    reason: str
    names: tuple[str, ...] = ()
    """The objects to which the permission is limited; empty: all."""


def permissions(settings: Settings) -> tuple[Permission, ...]:
    """Return the permissions that a controller with these settings needs."""
    return (
        *(permission for group in names.GROUPS for permission in _framework_permissions(group)),
        *_OBJECT_PERMISSIONS,
        *(_EVENT_PERMISSIONS if settings.events else ()),
        *(_lease_permissions(settings.lease_name) if settings.leader_election else ()),
        *_DEFINITION_PERMISSIONS,
        *(_MANAGED_DEFINITION_PERMISSIONS if settings.manage_crds else ()),
    )


def _framework_permissions(group: str) -> tuple[Permission, ...]:
    def on(resource: str, verbs: tuple[Verb, ...], reason: str) -> Permission:
        return Permission(Scope.WATCHED, group, resource, verbs, reason)

    plural = names.PLURAL
    return (
        on(plural, (Verb.LIST, Verb.WATCH), "to find Frameworks"),
        on(plural, (Verb.GET,), "to read a Framework after a status update that got no response"),
        on(plural, (Verb.DELETE,), "to delete a Framework when its TTL after completion has expired"),
        on(f"{plural}/status", (Verb.PATCH,), "to update the status"),
        on(
            f"{plural}/finalizers",
            (Verb.UPDATE,),
            "to create ConfigMaps that block the deletion of their Framework, if the admission plugin "
            "OwnerReferencesPermissionEnforcement is enabled",
        ),
    )


_OBJECT_PERMISSIONS = (
    Permission(
        Scope.WATCHED,
        _CORE,
        "configmaps",
        (Verb.LIST, Verb.WATCH, Verb.CREATE, Verb.DELETE),
        "one for each attempt; only those with the label FC_FRAMEWORK_NAME are listed",
    ),
    Permission(
        Scope.WATCHED,
        _CORE,
        "configmaps/finalizers",
        (Verb.UPDATE,),
        "to create pods that block the deletion of their ConfigMap, as above",
    ),
    Permission(
        Scope.WATCHED,
        _CORE,
        "pods",
        (Verb.LIST, Verb.WATCH, Verb.CREATE, Verb.DELETE, Verb.DELETE_COLLECTION),
        "to run tasks; only those with the label FC_FRAMEWORK_NAME are listed, and those of an attempt are deleted in "
        "one request",
    ),
    Permission(
        Scope.WATCHED,
        _CORE,
        "services",
        (Verb.CREATE, Verb.GET),
        "to give tasks DNS names if the Framework requests it, and to check the owner of an existing Service",
    ),
    Permission(
        Scope.WATCHED,
        names.GANG_GROUP,
        names.GANG_PLURAL,
        (Verb.CREATE, Verb.PATCH),
        "to publish the addresses of tasks to barriers, if the Framework requests it",
    ),
)

GANG_PERMISSIONS = (
    Permission(
        Scope.WATCHED,
        names.GANG_GROUP,
        names.GANG_PLURAL,
        (Verb.GET, Verb.LIST, Verb.WATCH),
        "for the barrier in a pod, with any service account: a Gang contains only addresses",
    ),
)
"""Permissions of the service accounts of the watched namespaces."""

_EVENT_PERMISSIONS = (
    Permission(Scope.WATCHED, _CORE, "events", (Verb.CREATE,), "to report what happens to Frameworks"),
)


def _lease_permissions(name: str) -> tuple[Permission, ...]:
    return (
        Permission(
            Scope.OWN,
            _COORDINATION,
            "leases",
            (Verb.CREATE,),
            "to create the Lease; creation cannot be limited to a name",
        ),
        Permission(
            Scope.OWN,
            _COORDINATION,
            "leases",
            (Verb.GET, Verb.UPDATE),
            "to elect a leader, so that one replica acts at a time",
            names=(name,),
        ),
    )


_DEFINITION_PERMISSIONS = (
    Permission(
        Scope.CLUSTER,
        _EXTENSIONS,
        "customresourcedefinitions",
        (Verb.GET,),
        "to report missing or outdated definitions at the start",
        names=DEFINITIONS,
    ),
)

_MANAGED_DEFINITION_PERMISSIONS = (
    Permission(
        Scope.CLUSTER,
        _EXTENSIONS,
        "customresourcedefinitions",
        (Verb.UPDATE,),
        "with `--manage-crds` only: to update them",
        names=DEFINITIONS,
    ),
    Permission(
        Scope.CLUSTER,
        _EXTENSIONS,
        "customresourcedefinitions",
        (Verb.CREATE,),
        "with `--manage-crds` only: to create them; creation cannot be limited to a name",
    ),
)


def namespaces(namespace: str, settings: Settings) -> dict[Scope, tuple[str, ...]]:
    """Return the namespaces of each scope for a controller in a namespace. An empty one means the whole cluster."""
    return {
        Scope.WATCHED: settings.namespaces or ("",),
        Scope.OWN: (settings.lease_namespace or namespace,),
        Scope.CLUSTER: ("",),
    }


def rules(granted: Iterable[Permission]) -> list[Json]:
    """Return the rules of a Role. Permissions that differ in their verbs only become one rule."""

    def target(permission: Permission) -> tuple[str, str, tuple[str, ...]]:
        return permission.group, permission.resource, permission.names

    return [
        {
            "apiGroups": [group],
            "resources": [resource],
            **({"resourceNames": list(only)} if only else {}),
            "verbs": [str(verb) for permission in alike for verb in permission.verbs],
        }
        for (group, resource, only), alike in groupby(granted, target)
    ]
