"""The permissions that a request needs, derived from its method and path as in the API server."""

import json

from grants import Grant
from operated.proxy import ProxiedRequest

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def needed_by(asked: ProxiedRequest) -> Grant:
    group, parts = _group_of(asked.path)
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = (*parts, "", "")[:3]
    resource = f"{plural}/{subresource}" if subresource else plural
    return Grant(group, resource, _verb(asked, name), namespace, "" if asked.method == "POST" else name)


def needed_for_owners(asked: ProxiedRequest) -> set[Grant]:
    """The permission that OwnerReferencesPermissionEnforcement requires: to update the finalizers of the owner."""
    if asked.method != "POST":
        return set()
    namespace = needed_by(asked).namespace
    owners = json.loads(asked.body)["metadata"].get("ownerReferences") or []
    return {
        Grant(
            owner["apiVersion"].rpartition("/")[0],
            f"{owner['kind'].lower()}s/finalizers",
            "update",
            namespace,
            owner["name"],
        )
        for owner in owners
        if owner.get("blockOwnerDeletion")
    }


def _group_of(path: str) -> tuple[str, list[str]]:
    """/api/v1/… or /apis/GROUP/v1/…"""
    parts = path.strip("/").split("/")
    return ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])


def _verb(asked: ProxiedRequest, name: str) -> str:
    if asked.is_watch:
        return "watch"
    if asked.method == "GET":
        return "get" if name else "list"
    if asked.method == "DELETE" and not name:
        return "deletecollection"
    return VERBS[asked.method]
