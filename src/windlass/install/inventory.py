"""Lists objects of the cluster: objects by label, Frameworks, and foreign objects in a namespace."""

from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec

from windlass.install import kinds
from windlass.install.apply import Send
from windlass.install.options import is_created_by_install
from windlass.k8s.metadata import ObjectMeta, decode_meta
from windlass.kubeapi import errors, requests, resources, responses
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import Resource
from windlass.model import states
from windlass.model.base import Sparse

_MAX_FOREIGN = 3
"""Maximum number of foreign objects that a message names."""
_DEFAULT_OBJECTS = {("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")}
_DEFAULT_TOKEN_PREFIX = "default-token-"  # noqa: S105 — a prefix of names
_IGNORED = {"events", "metrics.k8s.io"}
"""Resources and groups whose objects only describe other objects."""


class _Status(Sparse, frozen=True):
    state: str = ""


class FrameworkSummary(Sparse, frozen=True):
    metadata: ObjectMeta
    status: _Status | None = None

    @property
    def is_live(self) -> bool:
        return self.status is None or self.status.state != states.COMPLETED


async def object_metadata(
    send: Send, resource: Resource, namespace: str = "", label_selector: str = ""
) -> AsyncIterator[ObjectMeta]:
    async for item in _items(send, resource, namespace, label_selector, requests.METADATA_ONLY):
        yield decode_meta(item).metadata


async def frameworks(send: Send, group: str) -> list[FrameworkSummary]:
    """Return the Frameworks of all namespaces; none if the group is not served."""
    try:
        items = _items(send, resources.frameworks(group))
        return [msgspec.json.decode(item, type=FrameworkSummary) async for item in items]
    except errors.NotFoundError:
        return []


async def foreign_objects(send: Send, namespace: str) -> list[str]:
    """Return the names of a few objects of a namespace, of any kind, that neither `windlass install` nor Kubernetes
    itself created, and that are not being deleted.

    A kind whose definition was just deleted may still be in the discovery document. Listing it then fails with
    404, which is ignored.
    """
    found: list[str] = []
    for resource, kind in (await _namespaced_resources(send)).items():
        with suppress(errors.NotFoundError):
            async for meta in object_metadata(send, resource, namespace):
                if _is_foreign(resource, meta):
                    found.append(kinds.object_name(resource, meta.name, kind=kind))
                if len(found) == _MAX_FOREIGN:
                    return found
    return found


def _is_foreign(resource: Resource, meta: ObjectMeta) -> bool:
    is_default = (resource.plural, meta.name) in _DEFAULT_OBJECTS or (
        resource.plural == "secrets" and meta.name.startswith(_DEFAULT_TOKEN_PREFIX)
    )
    return not (is_default or is_created_by_install(meta.labels) or meta.deletion_timestamp is not None)


async def _items(
    send: Send, resource: Resource, namespace: str = "", label_selector: str = "", accept: str = requests.JSON
) -> AsyncIterator[msgspec.Raw]:
    token = ""
    while True:
        request = requests.list_page(resource, namespace, label_selector, continue_token=token)
        page = responses.decode_page(await send(request.with_accept(accept)))
        for item in page.objects:
            yield item
        token = page.metadata.continue_
        if not token:
            return


class _ServedResource(Sparse, frozen=True):
    name: str
    kind: str = ""
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _ServedResources(Sparse, frozen=True):
    resources: tuple[_ServedResource, ...] = ()


class _PreferredVersion(Sparse, frozen=True):
    group_version: str


class _Group(Sparse, frozen=True):
    preferred_version: _PreferredVersion


class _Groups(Sparse, frozen=True):
    groups: tuple[_Group, ...] = ()


async def _namespaced_resources(send: Send) -> dict[Resource, str]:
    """Return the namespaced resources that can be listed, in the preferred version of each group, without _IGNORED,
    and their kinds."""
    groups = msgspec.json.decode(await send(_discovery("/apis")), type=_Groups).groups
    paths = ["/api/v1", *(f"/apis/{group.preferred_version.group_version}" for group in groups)]
    found: dict[Resource, str] = {}
    for path in paths:
        with suppress(errors.NotFoundError):
            found |= _resources(path, await send(_discovery(path)))
    return found


def _resources(path: str, response: bytes) -> dict[Resource, str]:
    group, _, version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
    return {
        Resource(group, version, served.name): served.kind
        for served in msgspec.json.decode(response, type=_ServedResources).resources
        if served.namespaced and Verb.LIST in served.verbs and not {served.name, group} & _IGNORED
    }


def _discovery(path: str) -> Request:
    return Request(Verb.GET, "GET", Resource("", "v1", ""), path)
