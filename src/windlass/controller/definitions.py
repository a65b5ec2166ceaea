"""Checks the CustomResourceDefinitions of Frameworks, and creates or updates them if asked (1, A8)."""

from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum

import msgspec

from windlass.kubeapi import errors, requests
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import CUSTOM_RESOURCE_DEFINITIONS
from windlass.model import names
from windlass.model.base import Json
from windlass.wire.crd import installed, manifests

Send = Callable[[Request], Awaitable[bytes]]
Sleep = Callable[[float], Awaitable[None]]

FIELD_MANAGER = "windlass"

_SHOWN = 3
_MEANING = {
    **dict.fromkeys(names.GROUPS, "Frameworks of this group cannot be created"),
    names.GANG_GROUP: "jobs with a barrier never start",
}
_REMEDY = "Run `windlass install --crds-only --apply`, or start the controller with --manage-crds."


class Flaw(StrEnum):
    MISSING = "Missing"
    GOING = "Going"
    NOT_ESTABLISHED = "NotEstablished"
    NOT_SERVED = "NotServed"
    NO_STATUS_SUBRESOURCE = "NoStatusSubresource"
    DROPS_STATUS = "DropsStatus"
    DROPS_FIELDS = "DropsFields"


class Problem(msgspec.Struct, frozen=True):
    group: str
    flaw: Flaw
    message: str
    """What is wrong, what it means, and what to do."""

    @property
    def is_blocking(self) -> bool:
        """Whether the Frameworks of this group cannot be run."""
        return self.flaw != Flaw.DROPS_FIELDS


class NotEstablishedError(Exception):
    """The API server did not serve a definition in time. The message says which, and why."""


async def check(send: Send) -> tuple[Problem, ...]:
    """Return at most one problem per definition. Raise ApiError if they cannot be read."""
    found = [_problem(wanted, await _read(send, _name(wanted))) for wanted in manifests.definitions()]
    return tuple(problem for problem in found if problem is not None)


def served_groups(problems: Iterable[Problem]) -> tuple[str, ...]:
    """Return the groups whose Frameworks can be run."""
    without = {problem.group for problem in problems if problem.is_blocking}
    return tuple(group for group in names.GROUPS if group not in without)


async def manage(send: Send, interval: float, timeout: float, sleep: Sleep) -> tuple[str, ...]:
    """Create or update the definitions, and wait until they are served. Return messages about the changes.

    A definition of a newer release, which has more fields, is not changed. Raises ApiError and NotEstablishedError.
    """
    done = []
    for wanted in manifests.definitions():
        done += await _manage(send, wanted, interval, timeout, sleep)
    return tuple(done)


async def _manage(send: Send, wanted: Json, interval: float, timeout: float, sleep: Sleep) -> list[str]:
    """Manage one definition. Another replica may do the same, so it is read again after a conflict."""
    done: list[str] = []
    for _ in range(max(1, round(timeout / interval))):
        live = await _read(send, _name(wanted))
        did = "" if done else await _create_or_update(send, live, wanted)
        if did:
            done.append(f"{did} CustomResourceDefinition {_name(wanted)}")
            continue
        # A written definition is not compared: an old API server drops fields that it does not know.
        is_right = live is not None and (bool(done) or installed.contains_spec(live, wanted))
        if live is not None and is_right and _is_served(live):
            return done
        await sleep(interval)
    raise NotEstablishedError(
        f"the API server does not serve CustomResourceDefinition {_name(wanted)} after {timeout:g} s: "
        + (installed.why_not_established(live or {}) or "no reason given")
    )


async def _create_or_update(send: Send, live: Json | None, wanted: Json) -> str:
    """Return what was done, or an empty string."""
    try:
        if live is None:
            body = msgspec.json.encode(wanted)
            await send(requests.create(CUSTOM_RESOURCE_DEFINITIONS, "", body, FIELD_MANAGER))
            return "created"
        if installed.is_deleting(live) or installed.contains_spec(live, wanted):
            return ""
        body = msgspec.json.encode({**live, "spec": wanted["spec"]})
        name = _name(wanted)
        await send(requests.replace(CUSTOM_RESOURCE_DEFINITIONS, "", name, body, field_manager=FIELD_MANAGER))
    except (errors.AlreadyExistsError, errors.ConflictError, errors.NotFoundError):
        return ""
    return "updated"


async def _read(send: Send, name: str) -> Json | None:
    try:
        answer = await send(requests.get(CUSTOM_RESOURCE_DEFINITIONS, "", name))
    except errors.NotFoundError:
        return None
    definition: Json = msgspec.json.decode(answer)
    return definition


def _problem(wanted: Json, definition: Json | None) -> Problem | None:
    group, name = wanted["spec"]["group"], _name(wanted)
    if definition is None:
        return Problem(
            group, Flaw.MISSING, f"CustomResourceDefinition {name} is missing: {_MEANING[group]}. {_REMEDY}"
        )
    what = _flaw(definition, wanted)
    if what is None:
        return None
    flaw, meaning = what
    return Problem(group, flaw, f"CustomResourceDefinition {name} {meaning}")


def _flaw(definition: Json, wanted: Json) -> tuple[Flaw, str] | None:
    kinds = f"{wanted['spec']['names']['kind']}s"
    if installed.is_deleting(definition):
        return Flaw.GOING, (
            f"is being deleted, together with all {kinds}. "
            "After it is deleted, run `windlass install --crds-only --apply`."
        )
    if not installed.serves_version(definition):
        return (
            Flaw.NOT_SERVED,
            f"does not serve version {names.VERSION}, the only version that Windlass supports. {_REMEDY}",
        )
    if not installed.is_established(definition):
        why = installed.why_not_established(definition) or "no reason given"
        return Flaw.NOT_ESTABLISHED, f"is not served by the API server: {why}."
    if _has_status(wanted) and not installed.has_status_subresource(definition):
        return Flaw.NO_STATUS_SUBRESOURCE, (
            "has no status subresource, as FrameworkController installs it: Windlass cannot store a status and "
            f"ignores its Frameworks. Stop FrameworkController first. {_REMEDY}"
        )
    return _dropping(installed.dropped_fields(definition, wanted), kinds)


def _has_status(wanted: Json) -> bool:
    return "subresources" in wanted["spec"]["versions"][0]


def _dropping(dropped: tuple[str, ...], kinds: str) -> tuple[Flaw, str] | None:
    if not dropped:
        return None
    shown = ", ".join(dropped[:_SHOWN]) + (" and others" if len(dropped) > _SHOWN else "")
    of_status = [field for field in dropped if field.startswith("status")]
    if of_status:
        return Flaw.DROPS_STATUS, f"is older than this release: a status would lose {shown}. {_REMEDY}"
    return Flaw.DROPS_FIELDS, f"is older than this release: {kinds} cannot use {shown}. {_REMEDY}"


def _is_served(definition: Json) -> bool:
    return installed.is_established(definition) and not installed.is_deleting(definition)


def _name(definition: Json) -> str:
    name: str = definition["metadata"]["name"]
    return name
