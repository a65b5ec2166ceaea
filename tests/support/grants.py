"""The permissions that requests need, and those that the roles of the controller grant."""

from collections.abc import Collection, Iterable
from urllib.parse import unquote

import msgspec

from windlass.install import roles
from windlass.k8s.metadata import decode_owners
from windlass.kubeapi.requests import Request, Verb
from windlass.model.settings import Settings


class Grant(msgspec.Struct, frozen=True, order=True):
    """One verb on one resource, granted by a role or needed by a request."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    """Granted: the only namespace; empty: all. Needed: the namespace of the request; empty: all, or cluster-scoped."""
    name: str = ""
    """Granted: the only object; empty: any. Needed: the object that the request names."""

    def allows(self, needed: "Grant") -> bool:
        return (
            (self.group, self.resource, self.verb) == (needed.group, needed.resource, needed.verb)
            and self.namespace in ("", needed.namespace)
            and self.name in ("", needed.name)
        )


def granted(namespace: str, settings: Settings) -> frozenset[Grant]:
    """Return all permissions of a controller in a namespace with these settings."""
    found = roles.namespaces(namespace, settings)
    return frozenset(
        Grant(permission.group, permission.resource, verb, namespace, name)
        for permission in roles.permissions(settings)
        for namespace in found[permission.scope]
        for verb in permission.verbs
        for name in permission.names or ("",)
    )


def needed_by(request: Request) -> Grant:
    resource = request.resource.plural
    if request.subresource:
        resource = f"{resource}/{request.subresource}"
    return Grant(request.resource.group, resource, request.verb, request.namespace, _name_in(request))


def needed_for_owners(request: Request) -> frozenset[Grant]:
    """Return what the admission plugin OwnerReferencesPermissionEnforcement requires in addition.

    Creating an object that blocks the deletion of its owner requires permission to set the owner's finalizers.
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


def missing(granted: Collection[Grant], needed: Iterable[Grant]) -> frozenset[Grant]:
    """Return what is needed and not granted."""
    return frozenset(need for need in needed if not any(grant.allows(need) for grant in granted))


def unused(granted: Iterable[Grant], needed: Collection[Grant]) -> frozenset[Grant]:
    """Return what is granted and not needed."""
    return frozenset(grant for grant in granted if not any(grant.allows(need) for need in needed))


def _name_in(request: Request) -> str:
    """Return the name in the path. The server authorizes a creation before it reads the object's name."""
    if request.verb == Verb.CREATE:
        return ""
    rest = request.path.removeprefix(request.resource.path(request.namespace)).strip("/")
    return unquote(rest.partition("/")[0])
