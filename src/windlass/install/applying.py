"""Creates or replaces objects. Replacing sends the whole object, so that what we no longer say is gone as well."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from enum import StrEnum

import msgspec

from windlass.install import kinds, plan
from windlass.install.refusals import InstallError, explained
from windlass.kubeapi import errors, requests, resources
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import Resource
from windlass.model.base import Json
from windlass.wire.crd import installed

Send = Callable[[Request], Awaitable[bytes]]
Sleep = Callable[[float], Awaitable[None]]

FIELD_MANAGER = "windlass-install"

_ATTEMPTS = 5
"""Others may write an object between our reading and our writing, but not for ever."""
_ESTABLISHED_CHECKS = 60
_CAN_BE_DONE_WITHOUT = (kinds.POD_DISRUPTION_BUDGETS,)
"""Servers that do not know the kind (releases before 1.21, the embedded one) run the controller all the same."""


class Outcome(StrEnum):
    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    LEFT = "left as it is"
    SKIPPED = "skipped"


class Applied(msgspec.Struct, frozen=True):
    what: str
    outcome: Outcome
    note: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.outcome}{self.note and f': {self.note}'}"


async def apply_all(send: Send, manifests: Iterable[Json], sleep: Sleep) -> AsyncIterator[Applied]:
    """In order. Raises InstallError at the first that cannot be had; the ones before it stay."""
    for manifest in manifests:
        yield await apply(send, manifest)
        if kinds.resource_of(manifest) == resources.CUSTOM_RESOURCE_DEFINITIONS:
            await wait_until_established(send, manifest["metadata"]["name"], sleep)


async def apply(send: Send, manifest: Json) -> Applied:
    resource, what = kinds.resource_of(manifest), _called(manifest)
    try:
        for _ in range(_ATTEMPTS):
            try:
                return await _apply_once(send, resource, manifest)
            except (errors.ConflictError, _GoneError):
                continue
    except errors.NotFoundError as unknown:
        return _not_found(unknown, resource, manifest)
    except errors.ApiError as refusal:
        raise explained(refusal, what) from refusal
    raise InstallError(f"{what}: somebody else kept writing it. Run the command again.")


async def wait_until_established(send: Send, name: str, sleep: Sleep) -> None:
    what = kinds.called(resources.CUSTOM_RESOURCE_DEFINITIONS, name)
    for _ in range(_ESTABLISHED_CHECKS):
        try:
            answer = await send(requests.get(resources.CUSTOM_RESOURCE_DEFINITIONS, "", name))
        except errors.ApiError as refusal:
            raise explained(refusal, what) from refusal
        definition = msgspec.json.decode(answer)
        if installed.is_established(definition):
            return
        await sleep(1)
    why = installed.why_not_established(definition) or "the server does not say why"
    raise InstallError(f"{what}: the server does not serve it after {_ESTABLISHED_CHECKS} s: {why}")


class _GoneError(Exception):
    """It was there when we wanted to create it, and is not there now."""


async def _apply_once(send: Send, resource: Resource, manifest: Json) -> Applied:
    what, namespace = _called(manifest), _namespace(manifest)
    try:
        await send(requests.create(resource, namespace, msgspec.json.encode(manifest), FIELD_MANAGER))
    except errors.AlreadyExistsError:
        try:
            return await _replace(send, resource, manifest)
        except errors.NotFoundError:
            raise _GoneError from None
    return Applied(what, Outcome.CREATED)


async def _replace(send: Send, resource: Resource, manifest: Json) -> Applied:
    what, namespace, name = _called(manifest), _namespace(manifest), manifest["metadata"]["name"]
    live = msgspec.json.decode(await send(requests.get(resource, namespace, name)))
    if live["metadata"].get("deletionTimestamp"):
        raise InstallError(f"{what}: it is being deleted. Wait until it is gone, and run the command again.")
    is_definition = resource == resources.CUSTOM_RESOURCE_DEFINITIONS
    if not is_definition and not plan.is_ours(live["metadata"].get("labels") or {}):
        return _of_somebody_else(resource, what)
    body = msgspec.json.encode(_over(live, manifest))
    stored = msgspec.json.decode(
        await send(requests.replace(resource, namespace, name, body, field_manager=FIELD_MANAGER))
    )
    # The server writes nothing that changes nothing, and it alone knows what its defaults come to.
    is_unchanged = stored["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]
    return Applied(what, Outcome.UNCHANGED if is_unchanged else Outcome.CONFIGURED, _takeover(live, stored))


def _takeover(live: Json, stored: Json) -> str:
    was_the_reference_s = (
        stored["kind"] == "CustomResourceDefinition"
        and installed.has_status_subresource(stored)
        and not installed.has_status_subresource(live)
    )
    if not was_the_reference_s:
        return ""
    return "it was FrameworkController's, and its Frameworks stay. FrameworkController must not run any more"


def _of_somebody_else(resource: Resource, what: str) -> Applied:
    if resource == resources.NAMESPACES:
        return Applied(what, Outcome.LEFT, "it was not made by windlass install")
    raise InstallError(
        f"{what}: there is one already that windlass install has not made. "
        "Delete it if nobody needs it, or choose another --namespace."
    )


def _over(live: Json, manifest: Json) -> Json:
    """Ours in place of what is there, except for what others may add: labels, annotations, fields that we never set."""
    old, new = live["metadata"], manifest["metadata"]
    foreign = {key: value for key, value in (old.get("labels") or {}).items() if key not in plan.OURS}
    metadata = {
        **old,
        "labels": {**foreign, **new.get("labels", {})},
        "annotations": {**(old.get("annotations") or {}), **new.get("annotations", {})},
    }
    return {**live, **manifest, "metadata": metadata}


def _not_found(unknown: errors.NotFoundError, resource: Resource, manifest: Json) -> Applied:
    what, namespace = _called(manifest), _namespace(manifest)
    if namespace and f'namespaces "{namespace}" not found' in str(unknown):
        raise InstallError(f"{what}: there is no namespace {namespace}. Create it first.") from unknown
    if resource in _CAN_BE_DONE_WITHOUT:
        version = f"{resource.group}/{resource.version}"
        return Applied(what, Outcome.SKIPPED, f"this server has no {resource.plural} in {version}")
    if resource == kinds.POD_MONITORS:
        raise InstallError(
            f"{what}: this cluster has no PodMonitors. Install the Prometheus operator, or leave --pod-monitor out; "
            "everything else is in place."
        ) from unknown
    raise explained(unknown, what) from unknown


def _called(manifest: Json) -> str:
    return kinds.called(kinds.resource_of(manifest), manifest["metadata"]["name"], _namespace(manifest))


def _namespace(manifest: Json) -> str:
    namespace: str = manifest["metadata"].get("namespace", "")
    return namespace
