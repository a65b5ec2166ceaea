"""Uninstall the controller: delete the objects of an installation, and no others."""

import contextlib
import re
from collections.abc import AsyncIterator, Collection, Sequence

import msgspec

from windlass.install import apply, deployment, inventory, kinds, manifests
from windlass.install.apply import Send, Sleep
from windlass.install.errors import explain
from windlass.install.inventory import FrameworkSummary
from windlass.install.options import (
    CONFIGURATION,
    DEFAULT_NAMESPACE,
    INSTANCE,
    OWN_LABELS,
    InstallOptions,
    is_owned,
)
from windlass.k8s.metadata import ObjectMeta, decode_meta
from windlass.kubeapi import errors, requests, resources
from windlass.kubeapi.resources import Resource
from windlass.model import names
from windlass.model.base import Json, Sparse
from windlass.model.settings import Settings
from windlass.wire.crd import reference
from windlass.wire.diagnostics import InvalidFileError
from windlass.wire.settings import file as settings_file

_MAX_NAMED = 10


class _Configuration(Sparse, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


class UninstallOptions(msgspec.Struct, frozen=True):
    """What to delete besides the controller and its roles."""

    namespace: str = DEFAULT_NAMESPACE
    definitions: tuple[str, ...] = ()
    """The groups whose definitions are deleted, with all their Frameworks."""
    restores_reference: bool = False


async def live_frameworks(send: Send, groups: Collection[str]) -> list[str]:
    """Return the Frameworks that have not completed, as `namespace/name (group)`."""
    try:
        found = [(group, one) for group in groups for one in await inventory.frameworks(send, group)]
    except errors.ApiError as error:
        raise explain(error, "Frameworks") from error
    return [f"{_named(one)} ({group})" for group, one in found if one.is_live]


def describe_live_frameworks(live: Sequence[str]) -> str:
    count = "1 Framework has" if len(live) == 1 else f"{len(live)} Frameworks have"
    return f"{count} not completed: {_listed(live)}"


async def remove(send: Send, options: UninstallOptions, sleep: Sleep) -> AsyncIterator[str]:
    """Delete the objects, and yield a line about each. Objects that do not exist are skipped."""
    lease = await _lease(send, options.namespace)
    for resource in kinds.UNINSTALL_ORDER:
        for one in await _owned_objects(send, resource, options.namespace):
            if await _delete(send, resource, one):
                yield f"{kinds.object_name(resource, one.name, one.namespace)} deleted"
    if await _delete(send, resources.LEASES, lease):
        yield f"{kinds.object_name(resources.LEASES, lease.name, lease.namespace)} deleted"
    if options.restores_reference:
        async for line in _restore_reference(send, sleep):
            yield line
    for group in options.definitions:
        if what := await _delete_definition(send, f"{names.PLURAL}.{group}"):
            yield f"{what} deleted, with all its Frameworks"
    if options.definitions and (what := await _delete_definition(send, resources.GANGS.full_name)):
        yield f"{what} deleted"
    async for line in _remove_namespace(send, options.namespace):
        yield line


async def remove_obsolete(send: Send, namespace: str, manifests: Collection[Json]) -> AsyncIterator[str]:
    """Delete objects of an earlier installation in the namespace that are not among the manifests."""
    kept = {_key(kinds.resource_of(one), one["metadata"]) for one in manifests}
    for resource in kinds.UNINSTALL_ORDER:
        for one in await _owned_objects(send, resource, namespace):
            is_kept = _key(resource, {"name": one.name, "namespace": one.namespace}) in kept
            if not is_kept and await _delete(send, resource, one):
                yield f"{kinds.object_name(resource, one.name, one.namespace)} deleted: no longer needed"


def _key(resource: Resource, metadata: Json) -> tuple[Resource, str, str]:
    return resource, metadata.get("namespace", ""), metadata["name"]


async def _owned_objects(send: Send, resource: Resource, namespace: str) -> list[ObjectMeta]:
    """Return the objects of an installation by their labels, or by their names if listing is forbidden."""
    selector = ",".join(f"{key}={value}" for key, value in {**OWN_LABELS, INSTANCE: namespace}.items())
    try:
        return [one async for one in inventory.objects(send, resource, label_selector=selector)]
    except errors.NotFoundError:
        return []
    except errors.ForbiddenError:
        return await _owned_objects_by_name(send, resource, namespace)
    except errors.ApiError as error:
        raise explain(error, resource.full_name) from error


async def _owned_objects_by_name(send: Send, resource: Resource, namespace: str) -> list[ObjectMeta]:
    options = InstallOptions(namespace=namespace, configuration="any", has_pod_monitor=True)
    found = []
    for manifest in manifests.all_of(options):
        if kinds.resource_of(manifest) != resource:
            continue
        name, place = manifest["metadata"]["name"], manifest["metadata"].get("namespace", "")
        try:
            answer = await send(requests.get(resource, place, name))
        except errors.NotFoundError:
            continue
        except errors.ApiError as error:
            raise explain(error, kinds.object_name(resource, name, place)) from error
        found.append(decode_meta(answer).metadata)
    return [one for one in found if is_owned(one.labels)]


async def _lease(send: Send, namespace: str) -> ObjectMeta:
    """Return the Lease, whose name may be in the configuration. A Lease in another namespace may be shared: keep it."""
    settings = Settings()
    with contextlib.suppress(errors.ApiError, InvalidFileError):
        answer = await send(requests.get(resources.CONFIG_MAPS, namespace, CONFIGURATION))
        found = msgspec.json.decode(answer, type=_Configuration)
        if is_owned(found.metadata.labels):
            text = found.data.get(deployment.CONFIGURATION_FILE, "")
            settings = settings_file.load_settings(text.encode(), CONFIGURATION)
    return ObjectMeta(settings.lease_name, namespace)


async def _delete(send: Send, resource: Resource, one: ObjectMeta) -> bool:
    """Return False if the object does not exist."""
    try:
        await send(requests.delete(resource, one.namespace, one.name, uid=one.uid, propagation="Background"))
    except errors.NotFoundError:
        return False
    except errors.ApiError as error:
        raise explain(error, kinds.object_name(resource, one.name, one.namespace)) from error
    return True


async def _delete_definition(send: Send, name: str) -> str:
    """Delete a definition by name and UID, so that a delayed request cannot delete the one of a later installation.

    Return what was deleted; empty if the definition does not exist.
    """
    resource = resources.CUSTOM_RESOURCE_DEFINITIONS
    what = kinds.object_name(resource, name)
    try:
        found = decode_meta(await send(requests.get(resource, "", name))).metadata
    except errors.NotFoundError:
        return ""
    except errors.ApiError as error:
        raise explain(error, what) from error
    return what if await _delete(send, resource, found) else ""


async def _restore_reference(send: Send, sleep: Sleep) -> AsyncIterator[str]:
    wanted = reference.reference_crd()
    applied = await apply.apply(send, wanted)
    await apply.wait_until_established(send, wanted["metadata"]["name"], sleep)
    yield f"{applied}: returned to FrameworkController with its Frameworks"
    kept = await inventory.frameworks(send, names.CONTROLLER_GROUP)
    unsupported = [one for one in kept if not re.fullmatch(reference.NAME_PATTERN, one.metadata.name)]
    if unsupported:
        shown = _listed([_named(one) for one in unsupported])
        yield f"FrameworkController does not support hyphens in names. It cannot update these Frameworks: {shown}"


async def _remove_namespace(send: Send, name: str) -> AsyncIterator[str]:
    what = kinds.object_name(resources.NAMESPACES, name)
    try:
        answer = await send(requests.get(resources.NAMESPACES, "", name))
    except errors.NotFoundError:
        return
    except errors.ApiError as error:
        raise explain(error, what) from error
    found = decode_meta(answer).metadata
    if not is_owned(found.labels):
        yield f"{what} left unchanged: not created by windlass install"
        return
    try:
        others = await inventory.foreign_objects(send, name)
    except errors.ApiError as error:
        yield f"{what} left unchanged: its objects cannot be listed ({error})"
        return
    if others:
        yield f"{what} left unchanged: it contains other objects, e.g. {', '.join(others)}"
    elif await _delete(send, resources.NAMESPACES, found):
        yield f"{what} deleted"


def _named(framework: FrameworkSummary) -> str:
    return f"{framework.metadata.namespace}/{framework.metadata.name}"


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _MAX_NAMED} more" if len(items) > _MAX_NAMED else ""
    return f"{', '.join(items[:_MAX_NAMED])}{more}"
