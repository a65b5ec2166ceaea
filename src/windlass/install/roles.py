"""The permissions of the controller and of barriers, each with its reason. Roles are generated from these lists.

Tests compare the controller's permissions with its requests: every request is allowed, and every permission is used.
"""

import functools
from collections.abc import Iterable
from enum import StrEnum
from itertools import groupby

import msgspec

from windlass.kubeapi.requests import Verb
from windlass.model import names
from windlass.model.base import Json
from windlass.model.settings import Settings
from windlass.wire.crd import manifests


def _definition_names(settings: Settings) -> tuple[str, ...]:
    definitions = manifests.definitions(has_records=settings.history.enabled)
    return tuple(definition["metadata"]["name"] for definition in definitions)


_CORE = ""


class Scope(StrEnum):
    WATCHED = "where Frameworks are watched"
    LEASE = "in the namespace of the Lease (default: the controller's)"
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


_watched = functools.partial(Permission, Scope.WATCHED)
_leases = functools.partial(Permission, Scope.LEASE, "coordination.k8s.io", "leases")
_definitions = functools.partial(
    Permission, Scope.CLUSTER, "apiextensions.k8s.io", "customresourcedefinitions"
)


def permissions(settings: Settings) -> tuple[Permission, ...]:
    """Return the permissions that a controller with these settings needs."""
    needed = [permission for group in names.GROUPS for permission in _framework_permissions(group)]
    needed += _OBJECT_PERMISSIONS
    if settings.events:
        needed.append(_watched(_CORE, "events", (Verb.CREATE,), "to report what happens to Frameworks"))
    if settings.leader_election:
        needed += (
            _leases((Verb.CREATE,), "to create the Lease; creation cannot be limited to a name"),
            _leases(
                (Verb.GET, Verb.UPDATE),
                "to elect a leader, so that one replica acts at a time",
                names=(settings.lease_name,),
            ),
        )
    if settings.history.enabled:
        needed.append(_RECORD_PERMISSION)
    if settings.history.enabled and settings.history.read_logs:
        needed += _LOG_PERMISSIONS
    reason, definition_names = "to report missing or outdated definitions", _definition_names(settings)
    needed.append(_definitions((Verb.GET,), reason, names=definition_names))
    if settings.manage_crds:
        needed += (
            _definitions((Verb.UPDATE,), "with `--manage-crds` only: to update them", names=definition_names),
            _definitions(
                (Verb.CREATE,),
                "with `--manage-crds` only: to create them; creation cannot be limited to a name",
            ),
        )
    return tuple(needed)


def _framework_permissions(group: str) -> tuple[Permission, ...]:
    on_group, plural = functools.partial(_watched, group), names.PLURAL
    return (
        on_group(plural, (Verb.LIST, Verb.WATCH), "to find Frameworks"),
        on_group(plural, (Verb.GET,), "to read a Framework after a status update that got no response"),
        on_group(plural, (Verb.DELETE,), "to delete a Framework when its TTL after completion has expired"),
        on_group(f"{plural}/status", (Verb.PATCH,), "to update the status"),
        on_group(
            f"{plural}/finalizers",
            (Verb.UPDATE,),
            "to create ConfigMaps that block the deletion of their Framework, if the admission plugin "
            "OwnerReferencesPermissionEnforcement is enabled",
        ),
    )


_OBJECT_PERMISSIONS = (
    _watched(
        _CORE,
        "configmaps",
        (Verb.LIST, Verb.WATCH, Verb.CREATE, Verb.DELETE),
        "to create and delete the ConfigMap of each attempt; only those with the label FC_FRAMEWORK_NAME are listed",
    ),
    _watched(
        _CORE,
        "configmaps/finalizers",
        (Verb.UPDATE,),
        "to create pods that block the deletion of their ConfigMap, if that admission plugin is enabled",
    ),
    _watched(
        _CORE,
        "pods",
        (Verb.LIST, Verb.WATCH, Verb.CREATE, Verb.DELETE, Verb.DELETE_COLLECTION),
        "to run tasks; only those with the label FC_FRAMEWORK_NAME are listed, and those of an attempt are deleted in "
        "one request",
    ),
    _watched(
        _CORE,
        "services",
        (Verb.CREATE, Verb.GET),
        "to give tasks DNS names if the Framework requests it, and to check the owner of an existing Service",
    ),
    _watched(
        names.GANG_GROUP,
        names.GANG_PLURAL,
        (Verb.CREATE, Verb.PATCH),
        "to publish the addresses of tasks to barriers, if the Framework requests it",
    ),
)

_RECORD_PERMISSION = _watched(
    names.GANG_GROUP,
    names.RECORD_PLURAL,
    (Verb.CREATE, Verb.LIST, Verb.DELETE),
    "with `history` only: to write a record of each finished attempt, and to delete those beyond the limits",
)

_LOG_PERMISSIONS = (
    _watched(
        names.GANG_GROUP,
        names.RECORD_PLURAL,
        (Verb.PATCH,),
        "with `history.readLogs` only: to add lines that are read after the record is written",
    ),
    _watched(
        _CORE,
        "namespaces",
        (Verb.GET,),
        f"with `history.readLogs` only: to check if a namespace has the annotation {names.READ_LOGS_ANNOTATION}",
    ),
    _watched(
        _CORE,
        "pods/log",
        (Verb.GET,),
        "with `history.readLogs` only: to read the last lines of failed containers in namespaces with that annotation",
    ),
)

GANG_PERMISSIONS = (
    _watched(
        names.GANG_GROUP,
        names.GANG_PLURAL,
        (Verb.GET, Verb.LIST, Verb.WATCH),
        "to let the barrier of a pod read its Gang under any service account; a Gang contains only addresses",
    ),
)
"""Permissions of the service accounts of the watched namespaces."""


def namespaces(namespace: str, settings: Settings) -> dict[Scope, tuple[str, ...]]:
    """Return the namespaces of each scope for a controller in a namespace. An empty string means the whole cluster."""
    return {
        Scope.WATCHED: settings.namespaces or ("",),
        Scope.LEASE: (settings.lease_namespace or namespace,),
        Scope.CLUSTER: ("",),
    }


def rules(granted: Iterable[Permission]) -> list[Json]:
    """Return the rules of a Role. Consecutive permissions for the same resource and names become one rule."""

    def target(permission: Permission) -> tuple[str, str, tuple[str, ...]]:
        return permission.group, permission.resource, permission.names

    return [
        {
            "apiGroups": [group],
            "resources": [resource],
            **({"resourceNames": list(object_names)} if object_names else {}),
            "verbs": [str(verb) for permission in same_target for verb in permission.verbs],
        }
        for (group, resource, object_names), same_target in groupby(granted, target)
    ]
