"""Takes an installation away again: what it made, and nothing of anybody else's."""

import contextlib
import re
from collections.abc import AsyncIterator, Collection, Sequence

import msgspec

from windlass.install import applying, deployment, kinds, listing, manifests, plan
from windlass.install.applying import Send, Sleep
from windlass.install.listing import ListedFramework
from windlass.install.plan import Plan
from windlass.install.refusals import explained
from windlass.k8s.metadata import ObjectMeta, decode_meta
from windlass.kubeapi import errors, requests, resources
from windlass.kubeapi.resources import Resource
from windlass.model import names
from windlass.model.base import Json, Sparse
from windlass.model.settings import Settings
from windlass.wire.crd import reference
from windlass.wire.diagnostics import InvalidFileError
from windlass.wire.settings import file as settings_file

_SHOWN = 10


class _Configuration(Sparse, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


class Removal(msgspec.Struct, frozen=True):
    """What is to go besides the controller, its roles and what belongs to them."""

    namespace: str = plan.DEFAULT_NAMESPACE
    definitions: tuple[str, ...] = ()
    """Groups whose definitions go, and all Frameworks with them."""
    restores_reference: bool = False


async def live_frameworks(send: Send, groups: Collection[str]) -> list[str]:
    """Those that have not completed, as `namespace/name (group)`."""
    try:
        found = [(group, one) for group in groups for one in await listing.frameworks(send, group)]
    except errors.ApiError as refusal:
        raise explained(refusal, "Frameworks") from refusal
    return [f"{_named(one)} ({group})" for group, one in found if one.is_live]


def in_words(live: Sequence[str]) -> str:
    count = "1 Framework has" if len(live) == 1 else f"{len(live)} Frameworks have"
    return f"{count} not completed: {_listed(live)}"


async def remove(send: Send, removal: Removal, sleep: Sleep) -> AsyncIterator[str]:
    """Says, line by line, what has been done. What is not there is passed over."""
    lease = await _lease(send, removal.namespace)
    for resource in kinds.REMOVED_IN_ORDER:
        for one in await _ours(send, resource, removal.namespace):
            if await _delete(send, resource, one):
                yield f"{kinds.called(resource, one.name, one.namespace)} deleted"
    if await _delete(send, resources.LEASES, lease):
        yield f"{kinds.called(resources.LEASES, lease.name, lease.namespace)} deleted"
    if removal.restores_reference:
        async for line in _restore_reference(send, sleep):
            yield line
    for group in removal.definitions:
        definition = ObjectMeta(f"{names.PLURAL}.{group}")
        if await _delete(send, resources.CUSTOM_RESOURCE_DEFINITIONS, definition):
            what = kinds.called(resources.CUSTOM_RESOURCE_DEFINITIONS, definition.name)
            yield f"{what} deleted, and its Frameworks with it"
    gangs = ObjectMeta(resources.GANGS.full_name)
    if removal.definitions and await _delete(send, resources.CUSTOM_RESOURCE_DEFINITIONS, gangs):
        yield f"{kinds.called(resources.CUSTOM_RESOURCE_DEFINITIONS, gangs.name)} deleted"
    async for line in _remove_namespace(send, removal.namespace):
        yield line


async def remove_unwanted(send: Send, namespace: str, wanted: Collection[Json]) -> AsyncIterator[str]:
    """What an earlier installation in that namespace had and this one has not, such as rights in other namespaces."""
    kept = {_key(kinds.resource_of(one), one["metadata"]) for one in wanted}
    for resource in kinds.REMOVED_IN_ORDER:
        for one in await _ours(send, resource, namespace):
            is_kept = _key(resource, {"name": one.name, "namespace": one.namespace}) in kept
            if not is_kept and await _delete(send, resource, one):
                yield f"{kinds.called(resource, one.name, one.namespace)} deleted: it is not wanted any more"


def _key(resource: Resource, metadata: Json) -> tuple[Resource, str, str]:
    return resource, metadata.get("namespace", ""), metadata["name"]


async def _ours(send: Send, resource: Resource, namespace: str) -> list[ObjectMeta]:
    """By their labels, wherever they are; where that may not be asked, by the names that installing gives."""
    selector = ",".join(f"{key}={value}" for key, value in {**plan.OURS, plan.INSTANCE: namespace}.items())
    try:
        return [one async for one in listing.objects(send, resource, label_selector=selector)]
    except errors.NotFoundError:
        return []
    except errors.ForbiddenError:
        return await _by_name(send, resource, namespace)
    except errors.ApiError as refusal:
        raise explained(refusal, resource.full_name) from refusal


async def _by_name(send: Send, resource: Resource, namespace: str) -> list[ObjectMeta]:
    whole = Plan(namespace=namespace, configuration="any", has_pod_monitor=True)
    found = []
    for manifest in manifests.all_of(whole):
        if kinds.resource_of(manifest) != resource:
            continue
        name, place = manifest["metadata"]["name"], manifest["metadata"].get("namespace", "")
        try:
            answer = await send(requests.get(resource, place, name))
        except errors.NotFoundError:
            continue
        except errors.ApiError as refusal:
            raise explained(refusal, kinds.called(resource, name, place)) from refusal
        found.append(decode_meta(answer).metadata)
    return [one for one in found if plan.is_ours(one.labels)]


async def _lease(send: Send, namespace: str) -> ObjectMeta:
    """Its name is the configuration's to choose; where that cannot be had, it is the usual one. A Lease in another
    namespace may have other holders, and stays."""
    settings = Settings()
    with contextlib.suppress(errors.ApiError, InvalidFileError):
        answer = await send(requests.get(resources.CONFIG_MAPS, namespace, plan.CONFIGURATION))
        found = msgspec.json.decode(answer, type=_Configuration)
        if plan.is_ours(found.metadata.labels):
            text = found.data.get(deployment.CONFIGURATION_FILE, "")
            settings = settings_file.load_settings(text.encode(), plan.CONFIGURATION)
    return ObjectMeta(settings.lease_name, namespace)


async def _delete(send: Send, resource: Resource, one: ObjectMeta) -> bool:
    """False if it is gone already."""
    try:
        await send(requests.delete(resource, one.namespace, one.name, uid=one.uid, propagation="Background"))
    except errors.NotFoundError:
        return False
    except errors.ApiError as refusal:
        raise explained(refusal, kinds.called(resource, one.name, one.namespace)) from refusal
    return True


async def _restore_reference(send: Send, sleep: Sleep) -> AsyncIterator[str]:
    wanted = reference.reference_crd()
    applied = await applying.apply(send, wanted)
    await applying.wait_until_established(send, wanted["metadata"]["name"], sleep)
    yield f"{applied}: it is FrameworkController's again, and its Frameworks stay"
    kept = await listing.frameworks(send, names.CONTROLLER_GROUP)
    refused = [one for one in kept if not re.fullmatch(reference.NAME_PATTERN, one.metadata.name)]
    if refused:
        shown = _listed([_named(one) for one in refused])
        yield f"FrameworkController takes no hyphens in names, and will not be able to write these: {shown}"


async def _remove_namespace(send: Send, name: str) -> AsyncIterator[str]:
    what = kinds.called(resources.NAMESPACES, name)
    try:
        answer = await send(requests.get(resources.NAMESPACES, "", name))
    except errors.NotFoundError:
        return
    except errors.ApiError as refusal:
        raise explained(refusal, what) from refusal
    found = decode_meta(answer).metadata
    if not plan.is_ours(found.labels):
        yield f"{what} left as it is: it was not made by windlass install"
        return
    try:
        others = await listing.others_in(send, name)
    except errors.ApiError as refusal:
        yield f"{what} left as it is: what is in it cannot be seen ({refusal})"
        return
    if others:
        yield f"{what} left as it is: others live in it, such as {', '.join(others)}"
    elif await _delete(send, resources.NAMESPACES, found):
        yield f"{what} deleted"


def _named(framework: ListedFramework) -> str:
    return f"{framework.metadata.namespace}/{framework.metadata.name}"


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return f"{', '.join(items[:_SHOWN])}{more}"
