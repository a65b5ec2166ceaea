"""Uninstalls the controller: deletes the objects of its installation and, on request, the CustomResourceDefinitions."""

import contextlib
import re
from collections.abc import AsyncIterator, Collection, Sequence

import msgspec

from windlass.install import apply, deployment, inventory, kinds, manifests
from windlass.install.apply import Send, Sleep
from windlass.install.errors import explain
from windlass.install.inventory import FrameworkSummary
from windlass.install.options import (
    CONFIG_MAP_NAME,
    DEFAULT_NAMESPACE,
    INSTANCE,
    OWN_LABELS,
    InstallOptions,
    is_created_by_install,
)
from windlass.k8s.metadata import ObjectMeta, decode_meta
from windlass.kubeapi import errors, requests, resources
from windlass.kubeapi.resources import Resource
from windlass.model import names
from windlass.model.base import Json, Sparse
from windlass.model.settings import Settings
from windlass.wire.crd import manifests as crd_manifests
from windlass.wire.diagnostics import InvalidFileError
from windlass.wire.settings import file as settings_file

_MAX_NAMED = 10
"""Maximum number of Frameworks that a message names."""


class _ConfigMap(Sparse, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


class UninstallOptions(msgspec.Struct, frozen=True):
    """The namespace of the installation, and what to do in addition to deleting the controller and its roles."""

    namespace: str = DEFAULT_NAMESPACE
    deleted_groups: tuple[str, ...] = ()
    """The API groups whose CustomResourceDefinitions are deleted, with all their Frameworks."""
    restores_frameworkcontroller: bool = False
    """Whether the CustomResourceDefinition of FrameworkController is restored."""


async def live_frameworks(send: Send, groups: Collection[str]) -> list[str]:
    """Return the Frameworks that have not completed, as `namespace/name (group)`."""
    try:
        return [
            f"{_full_name(framework)} ({group})"
            for group in groups
            for framework in await inventory.frameworks(send, group)
            if framework.is_live
        ]
    except errors.ApiError as error:
        raise explain(error, "Frameworks") from error


def describe_live_frameworks(live: Sequence[str]) -> str:
    count = "1 Framework has" if len(live) == 1 else f"{len(live)} Frameworks have"
    return f"{count} not completed: {_joined(live)}"


async def remove(send: Send, options: UninstallOptions, sleep: Sleep) -> AsyncIterator[str]:
    """Delete the objects, restore FrameworkController's definition if requested, and yield lines about the results.

    Objects that do not exist are skipped.
    """
    lease = await _lease(send, options.namespace)
    for resource in kinds.UNINSTALL_ORDER:
        for meta in await _owned_objects(send, resource, options.namespace):
            if await _delete(send, resource, meta):
                yield f"{kinds.object_name(resource, meta.name, meta.namespace)} deleted"
    if await _delete(send, resources.LEASES, lease):
        yield f"{kinds.object_name(resources.LEASES, lease.name, lease.namespace)} deleted"
    if options.restores_frameworkcontroller:
        async for line in _restore_frameworkcontroller(send, sleep):
            yield line
    definitions = {f"{names.PLURAL}.{group}": ", with all its Frameworks" for group in options.deleted_groups}
    if definitions:
        definitions[resources.GANGS.full_name] = ""
        definitions[resources.ATTEMPT_RECORDS.full_name] = ", with all records of attempts"
    resource = resources.CUSTOM_RESOURCE_DEFINITIONS
    for name, note in definitions.items():
        # The UID is sent too, so that a delayed request cannot delete the definition of a later installation.
        definition = await _metadata(send, resource, "", name)
        if definition is not None and await _delete(send, resource, definition):
            yield f"{kinds.object_name(resource, name)} deleted{note}"
    async for line in _remove_namespace(send, options.namespace):
        yield line


async def remove_obsolete(send: Send, namespace: str, manifests: Collection[Json]) -> AsyncIterator[str]:
    """Delete objects of an earlier installation in the namespace that are not among the manifests."""
    metadata = ((kinds.resource_of(manifest), manifest["metadata"]) for manifest in manifests)
    current = {(resource, meta.get("namespace", ""), meta["name"]) for resource, meta in metadata}
    for resource in kinds.UNINSTALL_ORDER:
        for meta in await _owned_objects(send, resource, namespace):
            is_current = (resource, meta.namespace, meta.name) in current
            if not is_current and await _delete(send, resource, meta):
                yield f"{kinds.object_name(resource, meta.name, meta.namespace)} deleted: no longer needed"


async def _owned_objects(send: Send, resource: Resource, namespace: str) -> list[ObjectMeta]:
    """Find the objects of an installation by their labels, or by their names if listing is forbidden."""
    selector = ",".join(f"{key}={value}" for key, value in {**OWN_LABELS, INSTANCE: namespace}.items())
    try:
        return [meta async for meta in inventory.object_metadata(send, resource, label_selector=selector)]
    except errors.NotFoundError:
        return []
    except errors.ForbiddenError:
        return await _owned_objects_by_name(send, resource, namespace)
    except errors.ApiError as error:
        raise explain(error, resource.full_name) from error


async def _owned_objects_by_name(send: Send, resource: Resource, namespace: str) -> list[ObjectMeta]:
    options = InstallOptions(
        namespace=namespace,
        configuration="any",
        has_pod_monitor=True,
        has_service_monitor=True,
        has_network_policy=True,
        has_ui=True,
    )
    metadata = [
        await _metadata(
            send, resource, manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]
        )
        for manifest in manifests.all_of(options)
        if kinds.resource_of(manifest) == resource
    ]
    return [meta for meta in metadata if meta is not None and is_created_by_install(meta.labels)]


async def _metadata(send: Send, resource: Resource, namespace: str, name: str) -> ObjectMeta | None:
    """Return the metadata of an object, or None if it does not exist."""
    try:
        return decode_meta(await send(requests.get(resource, namespace, name))).metadata
    except errors.NotFoundError:
        return None
    except errors.ApiError as error:
        raise explain(error, kinds.object_name(resource, name, namespace)) from error


async def _lease(send: Send, namespace: str) -> ObjectMeta:
    """Return the name and namespace of the Lease, whether it exists or not. The configuration may set the name.

    A Lease in another namespace is kept, because other installations may use it.
    """
    settings = Settings()
    with contextlib.suppress(errors.ApiError, InvalidFileError):
        response = await send(requests.get(resources.CONFIG_MAPS, namespace, CONFIG_MAP_NAME))
        config_map = msgspec.json.decode(response, type=_ConfigMap)
        if is_created_by_install(config_map.metadata.labels):
            text = config_map.data.get(deployment.CONFIGURATION_FILE, "")
            settings = settings_file.load_settings(text.encode(), CONFIG_MAP_NAME)
    return ObjectMeta(settings.lease_name, namespace)


async def _delete(send: Send, resource: Resource, meta: ObjectMeta) -> bool:
    """Delete an object. Return False if it does not exist."""
    try:
        await send(
            requests.delete(resource, meta.namespace, meta.name, uid=meta.uid, propagation="Background")
        )
    except errors.NotFoundError:
        return False
    except errors.ApiError as error:
        raise explain(error, kinds.object_name(resource, meta.name, meta.namespace)) from error
    return True


async def _restore_frameworkcontroller(send: Send, sleep: Sleep) -> AsyncIterator[str]:
    definition = crd_manifests.reference_crd()
    result = await apply.apply(send, definition, sleep)
    await apply.wait_until_established(send, definition["metadata"]["name"], sleep)
    yield f"{result}: returned to FrameworkController with its Frameworks"
    unsupported = [
        _full_name(framework)
        for framework in await inventory.frameworks(send, names.CONTROLLER_GROUP)
        if not re.fullmatch(crd_manifests.REFERENCE_NAME_PATTERN, framework.metadata.name)
    ]
    if unsupported:
        message = "FrameworkController does not support hyphens in names. It cannot update these Frameworks"
        yield f"{message}: {_joined(unsupported)}"


async def _remove_namespace(send: Send, name: str) -> AsyncIterator[str]:
    subject = kinds.object_name(resources.NAMESPACES, name)
    namespace = await _metadata(send, resources.NAMESPACES, "", name)
    if namespace is None:
        return
    if not is_created_by_install(namespace.labels):
        yield f"{subject} left unchanged: not created by windlass install"
        return
    try:
        foreign = await inventory.foreign_objects(send, name)
    except errors.ApiError as error:
        yield f"{subject} left unchanged: its objects cannot be listed ({error})"
        return
    if foreign:
        yield f"{subject} left unchanged: it contains other objects, e.g. {', '.join(foreign)}"
    elif await _delete(send, resources.NAMESPACES, namespace):
        yield f"{subject} deleted"


def _full_name(framework: FrameworkSummary) -> str:
    return f"{framework.metadata.namespace}/{framework.metadata.name}"


def _joined(items: Sequence[str]) -> str:
    more = f" and {len(items) - _MAX_NAMED} more" if len(items) > _MAX_NAMED else ""
    return f"{', '.join(items[:_MAX_NAMED])}{more}"
