"""Creates or replaces objects. The spec is replaced as a whole, so fields that Windlass no longer sets are removed."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from enum import StrEnum

import msgspec

from windlass.install import kinds
from windlass.install.errors import InstallError, explain
from windlass.install.options import OWN_LABELS, is_created_by_install
from windlass.k8s.metadata import ObjectMeta, decode_meta
from windlass.kubeapi import errors, requests, resources
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import Resource
from windlass.model.base import Json
from windlass.wire.crd import installed

Send = Callable[[Request], Awaitable[bytes]]
Sleep = Callable[[float], Awaitable[None]]

FIELD_MANAGER = "windlass-install"

_MAX_ATTEMPTS = 5
"""Maximum number of attempts to apply an object that other clients change."""
_MAX_CHECKS = 60
"""Maximum number of checks, one per second, e.g. whether a definition is established or an object is deleted."""
_OPTIONAL_KINDS = (kinds.POD_DISRUPTION_BUDGETS,)
"""Kinds that some servers lack: releases before 1.21 and the embedded server."""


class Outcome(StrEnum):
    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    LEFT_UNCHANGED = "left unchanged"
    """The object was not created by `windlass install`."""
    SKIPPED = "skipped"


class ApplyResult(msgspec.Struct, frozen=True):
    subject: str
    outcome: Outcome
    note: str = ""

    def __str__(self) -> str:
        return f"{self.subject} {self.outcome}{self.note and f': {self.note}'}"


async def apply_all(send: Send, manifests: Iterable[Json], sleep: Sleep) -> AsyncIterator[ApplyResult]:
    """Apply manifests in order. Raise InstallError at the first failure; earlier objects are kept."""
    for manifest in manifests:
        yield await apply(send, manifest, sleep)
        if kinds.resource_of(manifest) == resources.CUSTOM_RESOURCE_DEFINITIONS:
            await wait_until_established(send, manifest["metadata"]["name"], sleep)


async def apply(send: Send, manifest: Json, sleep: Sleep) -> ApplyResult:
    """Create or replace an object. If an object of that name is being deleted, wait until it is deleted."""
    resource, subject = kinds.resource_of(manifest), _object_name(manifest)
    try:
        for _ in range(_MAX_ATTEMPTS):
            try:
                return await _apply_once(send, resource, manifest, sleep)
            except _BeingDeletedError as error:
                await _wait_until_deleted(send, resource, error.live, sleep)
            except (errors.ConflictError, _DeletedMeanwhileError):
                continue
    except errors.NotFoundError as error:
        return _not_found(error, resource, manifest)
    except errors.ApiError as error:
        raise explain(error, subject) from error
    raise InstallError(f"{subject}: another client keeps changing it. Run the command again.")


async def wait_until_established(send: Send, name: str, sleep: Sleep) -> None:
    subject = kinds.object_name(resources.CUSTOM_RESOURCE_DEFINITIONS, name)
    for _ in range(_MAX_CHECKS):
        try:
            answer = await send(requests.get(resources.CUSTOM_RESOURCE_DEFINITIONS, "", name))
        except errors.ApiError as error:
            raise explain(error, subject) from error
        definition = msgspec.json.decode(answer)
        if installed.is_established(definition):
            return
        await sleep(1)
    reason = installed.why_not_established(definition) or "the server gives no reason"
    raise InstallError(f"{subject}: not served after {_MAX_CHECKS} s: {reason}")


async def _wait_until_deleted(send: Send, resource: Resource, live: ObjectMeta, sleep: Sleep) -> None:
    for _ in range(_MAX_CHECKS):
        try:
            answer = await send(requests.get(resource, live.namespace, live.name))
        except errors.NotFoundError:
            return
        if decode_meta(answer).metadata.uid != live.uid:
            return
        await sleep(1)
    subject = kinds.object_name(resource, live.name, live.namespace)
    advice = "See its finalizers, and run the command again when it is deleted."
    raise InstallError(f"{subject}: still being deleted after {_MAX_CHECKS} s. {advice}")


class _BeingDeletedError(Exception):
    def __init__(self, live: ObjectMeta) -> None:
        super().__init__(live.name)
        self.live = live


class _DeletedMeanwhileError(Exception):
    """The object existed when Windlass tried to create it, and was deleted before the replacement."""


async def _apply_once(send: Send, resource: Resource, manifest: Json, sleep: Sleep) -> ApplyResult:
    try:
        await _create(send, resource, manifest, sleep)
    except errors.AlreadyExistsError:
        try:
            return await _replace(send, resource, manifest)
        except errors.NotFoundError:
            raise _DeletedMeanwhileError from None
    return ApplyResult(_object_name(manifest), Outcome.CREATED)


async def _create(send: Send, resource: Resource, manifest: Json, sleep: Sleep) -> None:
    """Create an object. If its namespace has replaced a deleted one, wait until the server knows the new one."""
    namespace = _namespace(manifest)
    request = requests.create(resource, namespace, msgspec.json.encode(manifest), FIELD_MANAGER)
    for _ in range(_MAX_CHECKS):
        try:
            await send(request)
        except errors.NamespaceTerminatingError:
            answer = await send(requests.get(resources.NAMESPACES, "", namespace))
            if decode_meta(answer).metadata.deletion_timestamp:
                raise
            await sleep(1)
        else:
            return
    raise InstallError(
        f"{_object_name(manifest)}: after {_MAX_CHECKS} s, the server still rejects it because an earlier namespace "
        f"{namespace} was deleted. Run the command again."
    )


async def _replace(send: Send, resource: Resource, manifest: Json) -> ApplyResult:
    subject, namespace, name = _object_name(manifest), _namespace(manifest), manifest["metadata"]["name"]
    answer = await send(requests.get(resource, namespace, name))
    live = msgspec.json.decode(answer)
    if live["metadata"].get("deletionTimestamp"):
        raise _BeingDeletedError(decode_meta(answer).metadata)
    is_definition = resource == resources.CUSTOM_RESOURCE_DEFINITIONS
    if not is_definition and not is_created_by_install(live["metadata"].get("labels") or {}):
        return _not_owned(resource, subject)
    body = msgspec.json.encode(_replacement(live, manifest))
    request = requests.replace(resource, namespace, name, body, field_manager=FIELD_MANAGER)
    stored = msgspec.json.decode(await send(request))
    # The server keeps the resourceVersion if nothing changes. A comparison here would have to apply the server's
    # defaults.
    is_unchanged = stored["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]
    outcome = Outcome.UNCHANGED if is_unchanged else Outcome.CONFIGURED
    return ApplyResult(subject, outcome, _migration_note(live, stored))


def _migration_note(live: Json, stored: Json) -> str:
    is_migrated = (
        stored["kind"] == "CustomResourceDefinition"
        and installed.has_status_subresource(stored)
        and not installed.has_status_subresource(live)
    )
    note = (
        "taken over from FrameworkController with its Frameworks. FrameworkController must not run any more"
    )
    return note if is_migrated else ""


def _not_owned(resource: Resource, subject: str) -> ApplyResult:
    if resource == resources.NAMESPACES:
        return ApplyResult(subject, Outcome.LEFT_UNCHANGED, "not created by windlass install")
    raise InstallError(
        f"{subject}: already exists, and was not created by windlass install. "
        "Delete it if it is not needed, or choose another --namespace."
    )


def _replacement(live: Json, manifest: Json) -> Json:
    """Return the manifest, with those labels (except OWN_LABELS), annotations and fields of the live object that the
    manifest does not set."""
    old, new = live["metadata"], manifest["metadata"]
    foreign = {key: value for key, value in (old.get("labels") or {}).items() if key not in OWN_LABELS}
    metadata = {
        **old,
        "labels": {**foreign, **new.get("labels", {})},
        "annotations": {**(old.get("annotations") or {}), **new.get("annotations", {})},
    }
    return {**live, **manifest, "metadata": metadata}


def _not_found(error: errors.NotFoundError, resource: Resource, manifest: Json) -> ApplyResult:
    subject, namespace = _object_name(manifest), _namespace(manifest)
    if namespace and f'namespaces "{namespace}" not found' in str(error):
        raise InstallError(f"{subject}: namespace {namespace} does not exist. Create it first.") from error
    if resource in _OPTIONAL_KINDS:
        note = f"this server does not serve {resource.plural} of {resource.group}/{resource.version}"
        return ApplyResult(subject, Outcome.SKIPPED, note)
    if resource in (kinds.POD_MONITORS, kinds.SERVICE_MONITORS):
        kind, option = (
            ("PodMonitors", "--pod-monitor")
            if resource == kinds.POD_MONITORS
            else ("ServiceMonitors", "--service-monitor")
        )
        advice = f"Install the Prometheus operator, or omit {option}. All other objects were applied."
        raise InstallError(f"{subject}: this cluster does not serve {kind}. {advice}") from error
    raise explain(error, subject) from error


def _object_name(manifest: Json) -> str:
    return kinds.object_name(kinds.resource_of(manifest), manifest["metadata"]["name"], _namespace(manifest))


def _namespace(manifest: Json) -> str:
    namespace: str = manifest["metadata"].get("namespace", "")
    return namespace
