"""Checks the CustomResourceDefinitions of Frameworks and Gangs, and creates or updates them on request.

See statements 1 and A8 of docs/behaviours.md.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import TypeVar

import msgspec

from windlass.k8s.metadata import decode_version
from windlass.kubeapi import errors, requests
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import CUSTOM_RESOURCE_DEFINITIONS, frameworks
from windlass.model import names
from windlass.model.base import Json
from windlass.model.settings import Settings
from windlass.wire.crd import installed, manifests

log = logging.getLogger(__name__)

Send = Callable[[Request], Awaitable[bytes]]
Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")

FIELD_MANAGER = "windlass"
RETRY_SEC = 1.0
_UNCHANGED = "unchanged"

_MAX_SHOWN_FIELDS = 3
_CONSEQUENCES = {
    **dict.fromkeys(names.GROUPS, "Frameworks of this group cannot be created"),
    names.GANG_GROUP: "jobs with a barrier never start",
}
_RECORDS_CONSEQUENCE = "attempts are not recorded"
_REMEDY = "Run `windlass install --crds-only --apply`, or start the controller with --manage-crds."


class Flaw(StrEnum):
    MISSING = "Missing"
    DELETING = "Deleting"
    NOT_ESTABLISHED = "NotEstablished"
    NOT_SERVED = "NotServed"
    NO_STATUS_SUBRESOURCE = "NoStatusSubresource"
    DROPS_STATUS = "DropsStatus"
    DROPS_FIELDS = "DropsFields"


class Problem(msgspec.Struct, frozen=True):
    group: str
    flaw: Flaw
    message: str
    """The problem, usually with its consequence and the remedy."""

    @property
    def is_blocking(self) -> bool:
        """Whether the objects of this group cannot be used."""
        return self.flaw != Flaw.DROPS_FIELDS


class NotEstablishedError(Exception):
    """The API server did not serve a definition in time. The message names the definition and the reason."""


async def check(send: Send, *, has_records: bool = False) -> tuple[Problem, ...]:
    """Return at most one problem per definition. Raise ApiError if the definitions cannot be read."""
    expected_definitions = manifests.definitions(has_records=has_records)
    found = [_problem(expected, await _read(send, _name(expected))) for expected in expected_definitions]
    return tuple(problem for problem in found if problem is not None)


def served_groups(problems: Iterable[Problem]) -> tuple[str, ...]:
    """Return the groups whose Frameworks can be run."""
    blocked = {problem.group for problem in problems if problem.is_blocking}
    return tuple(group for group in names.GROUPS if group not in blocked)


async def manage(
    send: Send, interval: float, timeout: float, sleep: Sleep, *, has_records: bool = False
) -> tuple[str, ...]:
    """Create or update the definitions, and wait until they are served. Return messages about the changes.

    A definition of a newer release, which has more fields, is not changed. Raises ApiError and NotEstablishedError.
    """
    changes = []
    for expected in manifests.definitions(has_records=has_records):
        changes += await _manage(send, expected, interval, timeout, sleep)
    return tuple(changes)


async def _manage(send: Send, expected: Json, interval: float, timeout: float, sleep: Sleep) -> list[str]:
    """Manage one definition. Another replica may do the same, so the definition is read again after a conflict."""
    changes: list[str] = []
    is_written = False
    for _ in range(max(1, round(timeout / interval))):
        live = await _read(send, _name(expected))
        outcome = None if is_written else await _create_or_update(send, live, expected)
        if outcome is not None:
            is_written = True
            if outcome != _UNCHANGED:
                changes.append(f"{outcome} CustomResourceDefinition {_name(expected)}")
            continue
        # A definition that was just written is not compared: an old API server drops fields that it does not know.
        is_current = live is not None and (is_written or installed.contains_spec(live, expected))
        if live is not None and is_current and _is_served(live):
            return changes
        await sleep(interval)
    raise NotEstablishedError(
        f"the API server does not serve CustomResourceDefinition {_name(expected)} after {timeout:g} s: "
        + (installed.why_not_established(live or {}) or "no reason given")
    )


async def _create_or_update(send: Send, live: Json | None, expected: Json) -> str | None:
    """Create or update the definition. Return the outcome; None if nothing was written.

    The outcome is `_UNCHANGED` if an old API server has dropped all fields that the definition lacks.
    """
    try:
        if live is None:
            body = msgspec.json.encode(expected)
            await send(requests.create(CUSTOM_RESOURCE_DEFINITIONS, "", body, FIELD_MANAGER))
            return "created"
        if installed.is_deleting(live) or installed.contains_spec(live, expected):
            return None
        body = msgspec.json.encode({**live, "spec": expected["spec"]})
        name = _name(expected)
        answer = await send(
            requests.replace(CUSTOM_RESOURCE_DEFINITIONS, "", name, body, field_manager=FIELD_MANAGER)
        )
    except (errors.AlreadyExistsError, errors.ConflictError, errors.NotFoundError):
        return None
    is_changed = decode_version(answer).metadata.resource_version != live["metadata"].get("resourceVersion")
    return "updated" if is_changed else _UNCHANGED


async def _read(send: Send, name: str) -> Json | None:
    try:
        answer = await send(requests.get(CUSTOM_RESOURCE_DEFINITIONS, "", name))
    except errors.NotFoundError:
        return None
    definition: Json = msgspec.json.decode(answer)
    return definition


def _problem(expected: Json, definition: Json | None) -> Problem | None:
    group, name = expected["spec"]["group"], _name(expected)
    if definition is None:
        is_of_records = expected["spec"]["names"]["kind"] == names.RECORD_KIND
        consequence = _RECORDS_CONSEQUENCE if is_of_records else _CONSEQUENCES[group]
        message = f"CustomResourceDefinition {name} is missing: {consequence}. {_REMEDY}"
        return Problem(group, Flaw.MISSING, message.replace("--apply", "--history --apply", is_of_records))
    found = _flaw(definition, expected)
    if found is None:
        return None
    flaw, text = found
    return Problem(group, flaw, f"CustomResourceDefinition {name} {text}")


def _flaw(definition: Json, expected: Json) -> tuple[Flaw, str] | None:
    plural = f"{expected['spec']['names']['kind']}s"
    if installed.is_deleting(definition):
        return Flaw.DELETING, (
            f"is being deleted, together with all {plural}. "
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
    expects_status = "subresources" in expected["spec"]["versions"][0]
    if expects_status and not installed.has_status_subresource(definition):
        return Flaw.NO_STATUS_SUBRESOURCE, (
            "has no status subresource, like the one that FrameworkController installs: Windlass cannot store a "
            f"status and ignores the Frameworks of this group. Stop FrameworkController first. {_REMEDY}"
        )
    return _dropped_fields_flaw(installed.dropped_fields(definition, expected), plural)


def _dropped_fields_flaw(dropped: tuple[str, ...], plural: str) -> tuple[Flaw, str] | None:
    if not dropped:
        return None
    shown = ", ".join(dropped[:_MAX_SHOWN_FIELDS]) + (
        " and others" if len(dropped) > _MAX_SHOWN_FIELDS else ""
    )
    status_fields = [field for field in dropped if field.startswith("status")]
    if status_fields:
        return Flaw.DROPS_STATUS, f"is older than this release: a status would lose {shown}. {_REMEDY}"
    return Flaw.DROPS_FIELDS, f"is older than this release: {plural} cannot use {shown}. {_REMEDY}"


def _is_served(definition: Json) -> bool:
    return installed.is_established(definition) and not installed.is_deleting(definition)


def _name(definition: Json) -> str:
    name: str = definition["metadata"]["name"]
    return name


class DefinitionMonitor:
    def __init__(self, send: Send, settings: Settings, *, expects_all: bool = True) -> None:
        """`expects_all` is False if missing definitions are not needed, so that there is no warning about them."""
        self._send = send
        self._expects_all = expects_all
        self._settings = settings
        self._logged: tuple[Problem, ...] = ()
        self.error = ""
        """Why no Frameworks can be run; empty if those of at least one group can."""

    async def install(self) -> None:
        """Create or update the definitions.

        Raises ForbiddenError, InvalidError and NotEstablishedError. Other API errors are retried.
        """
        interval = self._settings.crd_established_check_interval_sec
        timeout = self._settings.crd_established_check_timeout_sec
        has_records = self._settings.history.enabled
        changes = await _retrying(
            lambda: manage(self._send, interval, timeout, asyncio.sleep, has_records=has_records), "update"
        )
        for change in changes:
            log.info("%s", change)

    async def served_groups(self) -> tuple[str, ...]:
        """Return the groups whose Frameworks can be run. Log each new problem once."""
        try:
            problems = await _retrying(
                lambda: check(self._send, has_records=self._settings.history.enabled), "read"
            )
        except errors.ForbiddenError:
            problems = await self._problems_by_listing()
        for problem in problems:
            is_expected = problem.flaw is Flaw.MISSING and not self._expects_all
            if problem not in self._logged and not is_expected:
                log.warning("%s", problem.message, extra={"group": problem.group})
        self._logged = problems
        served = served_groups(problems)
        self.error = "" if served else " ".join(problem.message for problem in problems)
        return served

    async def _problems_by_listing(self) -> tuple[Problem, ...]:
        """Return a problem for each group that is not served, for a controller that may not read the definitions."""
        found = []
        for group in names.GROUPS:
            namespace = next(iter(self._settings.namespaces), "")
            try:
                await self._send(requests.list_page(frameworks(group), namespace, limit=1))
            except errors.NotFoundError as error:
                message = f"Frameworks of {group} are not served: {error}"
                found.append(Problem(group, Flaw.MISSING, message))
            except errors.ApiError as error:
                log.info("cannot list Frameworks of %s: %s", group, error)
        return tuple(found)


async def _retrying(call: Callable[[], Awaitable[T]], action: str) -> T:
    """Repeat the call after each ApiError other than ForbiddenError and InvalidError."""
    while True:
        try:
            return await call()
        except (errors.ForbiddenError, errors.InvalidError):
            raise
        except errors.ApiError as error:
            log.warning("cannot %s the CustomResourceDefinitions: %s", action, error)
            await asyncio.sleep(RETRY_SEC)
