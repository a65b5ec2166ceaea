"""Ask the API server who the user is and what the user may do: SelfSubjectReview and SelfSubjectAccessReview."""

import contextlib

import msgspec

from windlass.client import lookup
from windlass.client.connection import Connection
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ForbiddenError, NotFoundError
from windlass.kubeapi.resources import NAMESPACES, PODS, Resource, frameworks
from windlass.model import names
from windlass.model.base import manifest

_SELF_REVIEW_VERSIONS = ("v1", "v1beta1")
_ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", is_namespaced=False)


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    allowed: bool = False
    user_info: _User = _User()


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


async def user_name(connection: Connection) -> str:
    """Return the name of the user; empty if the server, older than Kubernetes 1.27, cannot tell.

    Raises UnauthorizedError for invalid credentials, and the errors of `Connection.send`.
    """
    for version in _SELF_REVIEW_VERSIONS:
        resource = Resource("authentication.k8s.io", version, "selfsubjectreviews", is_namespaced=False)
        review = manifest(f"authentication.k8s.io/{version}", "SelfSubjectReview", {})
        with contextlib.suppress(NotFoundError, ForbiddenError):
            return (await _send(connection, resource, review)).status.user_info.username
    # Every authenticated user may send this review.
    await may(connection, "get", NAMESPACES)
    return ""


async def may(
    connection: Connection, verb: str, resource: Resource, namespace: str = "", subresource: str = ""
) -> bool:
    """Return whether the user may do this in a namespace, or in all of them if it is empty."""
    attributes = {
        "verb": verb,
        "group": resource.group,
        "version": resource.version,
        "resource": resource.plural,
        "subresource": subresource,
        "namespace": namespace,
    }
    spec = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    review = manifest("authorization.k8s.io/v1", "SelfSubjectAccessReview", {}, spec=spec)
    return (await _send(connection, _ACCESS_REVIEWS, review)).status.allowed


async def may_use_jobs(connection: Connection, verb: str, namespace: str = "") -> bool:
    """Return whether the user may do this to Frameworks of job files."""
    return await may(connection, verb, frameworks(names.CONTROLLER_GROUP), namespace)


async def may_list_jobs(connection: Connection, namespace: str = "") -> bool:
    """Return whether the user may list the Frameworks of an API group that `JobWatch` watches."""
    for group in lookup.GROUPS:
        if await may(connection, "list", frameworks(group), namespace):
            return True
    return False


async def may_read_logs(connection: Connection, namespace: str) -> bool:
    return await may(connection, "get", PODS, namespace, "log")


async def _send(connection: Connection, resource: Resource, review: object) -> _Review:
    request = requests.create(resource, "", msgspec.json.encode(review))
    return msgspec.json.decode(await connection.send(request), type=_Review)
