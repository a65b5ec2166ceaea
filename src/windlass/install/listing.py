"""What is in the cluster already: our objects, Frameworks that have not ended, and who else lives in a namespace."""

from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec

from windlass.install import kinds, plan
from windlass.install.applying import Send
from windlass.k8s.metadata import ObjectMeta, decode_meta
from windlass.kubeapi import answers, errors, requests, resources
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import Resource
from windlass.model import states
from windlass.model.base import Sparse

_ENOUGH = 3
"""So many others are named."""
_MADE_FOR_EVERY_NAMESPACE = {("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")}
_TOKEN_OF_OLD_RELEASES = "default-token-"  # noqa: S105 — the beginning of a name
_SAY_NOTHING = ("events", "metrics.k8s.io")
"""Of resources or groups: their objects tell of other objects."""


class _Status(Sparse, frozen=True):
    state: str = ""


class ListedFramework(Sparse, frozen=True):
    metadata: ObjectMeta
    status: _Status | None = None

    @property
    def is_live(self) -> bool:
        return self.status is None or self.status.state != states.COMPLETED


async def objects(
    send: Send, resource: Resource, namespace: str = "", label_selector: str = ""
) -> AsyncIterator[ObjectMeta]:
    async for item in _items(send, resource, namespace, label_selector, requests.METADATA_ONLY):
        yield decode_meta(item).metadata


async def frameworks(send: Send, group: str) -> list[ListedFramework]:
    """Of all namespaces; none where the group is not served."""
    try:
        items = _items(send, resources.frameworks(group))
        return [msgspec.json.decode(item, type=ListedFramework) async for item in items]
    except errors.NotFoundError:
        return []


async def others_in(send: Send, namespace: str) -> list[str]:
    """Some of what is in a namespace and neither ours nor in every namespace. It asks for every kind there is.

    A kind whose definition went a moment ago may still be published: then it is not found, and has no objects.
    """
    found: list[str] = []
    for resource in await _namespaced(send):
        with suppress(errors.NotFoundError):
            async for one in objects(send, resource, namespace):
                if not _goes_with_us(resource, one):
                    found.append(kinds.called(resource, one.name))
                if len(found) == _ENOUGH:
                    return found
    return found


def _goes_with_us(resource: Resource, one: ObjectMeta) -> bool:
    is_everywhere = (resource.plural, one.name) in _MADE_FOR_EVERY_NAMESPACE or (
        resource.plural == "secrets" and one.name.startswith(_TOKEN_OF_OLD_RELEASES)
    )
    return is_everywhere or plan.is_ours(one.labels) or one.deletion_timestamp is not None


async def _items(
    send: Send, resource: Resource, namespace: str = "", label_selector: str = "", accept: str = requests.JSON
) -> AsyncIterator[msgspec.Raw]:
    token = ""
    while True:
        request = requests.list_page(resource, namespace, label_selector, continue_token=token)
        page = answers.decode_page(await send(request.with_accept(accept)))
        for item in page.objects:
            yield item
        token = page.metadata.continue_
        if not token:
            return


class _Served(Sparse, frozen=True):
    name: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _ServedResources(Sparse, frozen=True):
    resources: tuple[_Served, ...] = ()


class _Preferred(Sparse, frozen=True):
    group_version: str


class _Group(Sparse, frozen=True):
    preferred_version: _Preferred


class _Groups(Sparse, frozen=True):
    groups: tuple[_Group, ...] = ()


async def _namespaced(send: Send) -> list[Resource]:
    """Every kind whose objects are in namespaces and can be listed, each in one version."""
    groups = msgspec.json.decode(await send(_discovery("/apis")), type=_Groups).groups
    paths = ["/api/v1", *(f"/apis/{group.preferred_version.group_version}" for group in groups)]
    found: list[Resource] = []
    for path in paths:
        with suppress(errors.NotFoundError):
            found += _resources(path, await send(_discovery(path)))
    return found


def _resources(path: str, answer: bytes) -> list[Resource]:
    group, _, version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
    return [
        Resource(group, version, one.name)
        for one in msgspec.json.decode(answer, type=_ServedResources).resources
        if one.namespaced and Verb.LIST in one.verbs and not {one.name, group} & {*_SAY_NOTHING}
    ]


def _discovery(path: str) -> Request:
    return Request(Verb.GET, "GET", Resource("", "v1", ""), path)
