"""What the controller may do, as data, each with the reason. This is the one list: roles are made from it.

A permission stands here because some request of the controller needs it. `needed_by` says what a request needs, so that
a test can hold the requests against the list: nothing is refused, and nothing is granted that nobody uses.
"""

from collections.abc import Collection, Iterable
from enum import StrEnum
from itertools import groupby
from urllib.parse import unquote

import msgspec

from windlass.k8s.metadata import decode_owners
from windlass.kubeapi.requests import Request, Verb
from windlass.model import names
from windlass.model.base import Json
from windlass.model.settings import Settings
from windlass.wire.crd import manifests

DEFINITIONS = tuple(definition["metadata"]["name"] for definition in manifests.definitions())

_CORE = ""
_EXTENSIONS = "apiextensions.k8s.io"
_COORDINATION = "coordination.k8s.io"


class Where(StrEnum):
    WATCHED = "where Frameworks are watched"
    """Every namespace, or those that were named."""
    OWN = "in the controller's own namespace"
    CLUSTER = "in the cluster as a whole"
    """Of what is in no namespace."""


class Permission(msgspec.Struct, frozen=True):
    where: Where
    group: str
    resource: str
    """With its subresource, if one is meant: `frameworks/status`."""
    verbs: tuple[Verb, ...]
    reason: str
    names: tuple[str, ...] = ()
    """Of these objects only."""


class Grant(msgspec.Struct, frozen=True, order=True):
    """One verb on one resource: what is granted, or what a request needs."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    """Granted: in this one only; empty: in all. Needed: where the request goes; empty: to all, or to none."""
    name: str = ""
    """Granted: this object only; empty: any. Needed: the object that the request names."""

    def allows(self, needed: "Grant") -> bool:
        return (
            (self.group, self.resource, self.verb) == (needed.group, needed.resource, needed.verb)
            and self.namespace in ("", needed.namespace)
            and self.name in ("", needed.name)
        )


def permissions(settings: Settings) -> tuple[Permission, ...]:
    """What a controller with these settings needs."""
    return (
        *(permission for group in names.GROUPS for permission in _on_frameworks(group)),
        *_ON_THEIR_OBJECTS,
        *(_ON_EVENTS if settings.events else ()),
        *(_on_the_lease(settings.lease_name) if settings.leader_election else ()),
        *_ON_DEFINITIONS,
        *(_ON_MANAGED_DEFINITIONS if settings.manage_crds else ()),
    )


def _on_frameworks(group: str) -> tuple[Permission, ...]:
    def on(resource: str, verbs: tuple[Verb, ...], reason: str) -> Permission:
        return Permission(Where.WATCHED, group, resource, verbs, reason)

    plural = names.PLURAL
    return (
        on(plural, (Verb.LIST, Verb.WATCH), "to hear of Frameworks"),
        on(plural, (Verb.GET,), "to read one again when a write of its status was not answered"),
        on(plural, (Verb.DELETE,), "to delete one whose time after completion is over"),
        on(f"{plural}/status", (Verb.PATCH,), "to write down what became of one"),
        on(
            f"{plural}/finalizers",
            (Verb.UPDATE,),
            "to make a ConfigMap that holds up the deletion of its Framework, where "
            "OwnerReferencesPermissionEnforcement asks who may do that",
        ),
    )


_ON_THEIR_OBJECTS = (
    Permission(
        Where.WATCHED,
        _CORE,
        "configmaps",
        (Verb.LIST, Verb.WATCH, Verb.CREATE, Verb.DELETE),
        "one stands for each attempt; only those with the label FC_FRAMEWORK_NAME are asked for",
    ),
    Permission(
        Where.WATCHED,
        _CORE,
        "configmaps/finalizers",
        (Verb.UPDATE,),
        "to make pods that hold up the deletion of their ConfigMap, as above",
    ),
    Permission(
        Where.WATCHED,
        _CORE,
        "pods",
        (Verb.LIST, Verb.WATCH, Verb.CREATE, Verb.DELETE, Verb.DELETE_COLLECTION),
        "tasks run in them; only those with the label FC_FRAMEWORK_NAME are asked for, and those of an attempt are "
        "removed in one request",
    ),
    Permission(
        Where.WATCHED,
        _CORE,
        "services",
        (Verb.CREATE, Verb.GET),
        "to give the tasks of a Framework names, if it asks for that, and to see whose a Service is that is there",
    ),
    Permission(
        Where.WATCHED,
        names.GANG_GROUP,
        names.GANG_PLURAL,
        (Verb.CREATE, Verb.PATCH),
        "to tell the barriers of a Framework where its tasks are, if it asks for that",
    ),
)

ON_GANGS = (
    Permission(
        Where.WATCHED,
        names.GANG_GROUP,
        names.GANG_PLURAL,
        (Verb.GET, Verb.LIST, Verb.WATCH),
        "for the barrier in a pod, whatever service account that has: a Gang holds addresses and nothing else",
    ),
)
"""What the service accounts of the watched namespaces may do."""

_ON_EVENTS = (
    Permission(
        Where.WATCHED, _CORE, "events", (Verb.CREATE,), "to tell the owners of Frameworks what happens"
    ),
)


def _on_the_lease(name: str) -> tuple[Permission, ...]:
    return (
        Permission(
            Where.OWN,
            _COORDINATION,
            "leases",
            (Verb.CREATE,),
            "to make the Lease; creation cannot be limited to a name",
        ),
        Permission(
            Where.OWN,
            _COORDINATION,
            "leases",
            (Verb.GET, Verb.UPDATE),
            "to contend for the Lease, so that one replica acts at a time",
            names=(name,),
        ),
    )


_ON_DEFINITIONS = (
    Permission(
        Where.CLUSTER,
        _EXTENSIONS,
        "customresourcedefinitions",
        (Verb.GET,),
        "to say at the start what is missing or out of date",
        names=DEFINITIONS,
    ),
)

_ON_MANAGED_DEFINITIONS = (
    Permission(
        Where.CLUSTER,
        _EXTENSIONS,
        "customresourcedefinitions",
        (Verb.UPDATE,),
        "with `--manage-crds` only: to bring them up to date",
        names=DEFINITIONS,
    ),
    Permission(
        Where.CLUSTER,
        _EXTENSIONS,
        "customresourcedefinitions",
        (Verb.CREATE,),
        "with `--manage-crds` only: to make them; creation cannot be limited to a name",
    ),
)


def places(namespace: str, settings: Settings) -> dict[Where, tuple[str, ...]]:
    """The namespaces that are meant, if the controller is in that one. The empty one stands for the cluster."""
    return {
        Where.WATCHED: settings.namespaces or ("",),
        Where.OWN: (settings.lease_namespace or namespace,),
        Where.CLUSTER: ("",),
    }


def rules(granted: Iterable[Permission]) -> list[Json]:
    """As a Role has them: what differs only in the verb is one rule."""

    def what(permission: Permission) -> tuple[str, str, tuple[str, ...]]:
        return permission.group, permission.resource, permission.names

    return [
        {
            "apiGroups": [group],
            "resources": [resource],
            **({"resourceNames": list(only)} if only else {}),
            "verbs": [str(verb) for permission in alike for verb in permission.verbs],
        }
        for (group, resource, only), alike in groupby(granted, what)
    ]


def granted(namespace: str, settings: Settings) -> frozenset[Grant]:
    """All that a controller in that namespace, with these settings, may do."""
    found = places(namespace, settings)
    return frozenset(
        Grant(permission.group, permission.resource, verb, place, name)
        for permission in permissions(settings)
        for place in found[permission.where]
        for verb in permission.verbs
        for name in permission.names or ("",)
    )


def needed_by(request: Request) -> Grant:
    resource = request.resource.plural
    if request.subresource:
        resource = f"{resource}/{request.subresource}"
    return Grant(request.resource.group, resource, request.verb, request.namespace, _name_in(request))


def needed_for_owners(request: Request) -> frozenset[Grant]:
    """What the admission plugin OwnerReferencesPermissionEnforcement wants of a request besides.

    Whoever makes an object that holds up its owner's deletion must be allowed to set the owner's finalizers.
    """
    if request.verb != Verb.CREATE:
        return frozenset()
    created = decode_owners(request.body)
    return frozenset(
        Grant(
            owner.api_version.rpartition("/")[0],
            f"{owner.kind.lower()}s/finalizers",
            Verb.UPDATE,
            request.namespace,
            owner.name,
        )
        for owner in created.metadata.owner_references
        if owner.block_owner_deletion
    )


def refused(granted: Collection[Grant], needed: Iterable[Grant]) -> frozenset[Grant]:
    """What is needed and not allowed."""
    return frozenset(need for need in needed if not any(grant.allows(need) for grant in granted))


def unused(granted: Iterable[Grant], needed: Collection[Grant]) -> frozenset[Grant]:
    """What is allowed and not needed."""
    return frozenset(grant for grant in granted if not any(grant.allows(need) for need in needed))


def _name_in(request: Request) -> str:
    """The server does not read the name of an object that is to be created before it asks whether that is allowed."""
    if request.verb == Verb.CREATE:
        return ""
    rest = request.path.removeprefix(request.resource.path(request.namespace)).strip("/")
    return unquote(rest.partition("/")[0])
