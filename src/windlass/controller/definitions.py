"""Whether the definitions of Frameworks are what the controller needs, and their upkeep, if it was told so (1, A8)."""

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
    **dict.fromkeys(names.GROUPS, "there are no Frameworks of this group"),
    names.GANG_GROUP: "Frameworks that ask for a barrier wait in vain",
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
    """What is the matter, what it means, and what to do."""

    @property
    def keeps_from_serving(self) -> bool:
        """Whether the Frameworks of this group have to be left alone."""
        return self.flaw != Flaw.DROPS_FIELDS


class NotEstablishedError(Exception):
    """The server did not come to serve a definition in time. The message says which, and why."""


async def check(send: Send) -> tuple[Problem, ...]:
    """What is the matter with the definitions, at most one problem each. Changes nothing. Raises ApiError."""
    found = [_problem(wanted, await _read(send, _name(wanted))) for wanted in manifests.definitions()]
    return tuple(problem for problem in found if problem is not None)


def served_groups(problems: Iterable[Problem]) -> tuple[str, ...]:
    """The groups whose Frameworks can be run. One of the two is enough."""
    without = {problem.group for problem in problems if problem.keeps_from_serving}
    return tuple(group for group in names.GROUPS if group not in without)


async def manage(send: Send, interval: float, timeout: float, sleep: Sleep) -> tuple[str, ...]:
    """Makes what is missing, mends what is not as it should be, and waits until it is served.

    Returns what was done, in words. A definition of a newer release, which says more than ours, is left as it is.
    Raises ApiError if it may not, and NotEstablishedError.
    """
    done = []
    for wanted in manifests.definitions():
        done += await _manage(send, wanted, interval, timeout, sleep)
    return tuple(done)


async def _manage(send: Send, wanted: Json, interval: float, timeout: float, sleep: Sleep) -> list[str]:
    """Another replica may be doing the same: whoever comes second looks again."""
    done: list[str] = []
    for _ in range(max(1, round(timeout / interval))):
        live = await _read(send, _name(wanted))
        did = "" if done else await _mend(send, live, wanted)
        if did:
            done.append(f"the definition {_name(wanted)} was {did}")
            continue
        # What we have written is not compared: an old server drops what it does not know.
        is_right = live is not None and (bool(done) or installed.says_what(live, wanted))
        if live is not None and is_right and _is_served(live):
            return done
        await sleep(interval)
    raise NotEstablishedError(
        f"the API server does not serve the definition {_name(wanted)} after {timeout:g} s: "
        + (installed.why_not_established(live or {}) or "it does not say why")
    )


async def _mend(send: Send, live: Json | None, wanted: Json) -> str:
    """What was done, if something was."""
    try:
        if live is None:
            body = msgspec.json.encode(wanted)
            await send(requests.create(CUSTOM_RESOURCE_DEFINITIONS, "", body, FIELD_MANAGER))
            return "created"
        if installed.is_going(live) or installed.says_what(live, wanted):
            return ""
        body = msgspec.json.encode({**live, "spec": wanted["spec"]})
        name = _name(wanted)
        await send(requests.replace(CUSTOM_RESOURCE_DEFINITIONS, "", name, body, field_manager=FIELD_MANAGER))
    except (errors.AlreadyExistsError, errors.ConflictError, errors.NotFoundError):
        return ""
    return "brought up to date"


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
        return Problem(group, Flaw.MISSING, f"The definition {name} is missing: {_MEANING[group]}. {_REMEDY}")
    what = _flaw(definition, wanted)
    if what is None:
        return None
    flaw, meaning = what
    return Problem(group, flaw, f"The definition {name} {meaning}")


def _flaw(definition: Json, wanted: Json) -> tuple[Flaw, str] | None:
    kinds = f"{wanted['spec']['names']['kind']}s"
    if installed.is_going(definition):
        return Flaw.GOING, (
            f"is being deleted, and all its {kinds} with it. "
            "Once it is gone, run `windlass install --crds-only --apply`."
        )
    if not installed.serves_our_version(definition):
        return (
            Flaw.NOT_SERVED,
            f"does not serve the version {names.VERSION}, the only one there is. {_REMEDY}",
        )
    if not installed.is_established(definition):
        why = installed.why_not_established(definition) or "it does not say why"
        return Flaw.NOT_ESTABLISHED, f"is not served by the API server: {why}."
    if _has_status(wanted) and not installed.has_status_subresource(definition):
        return Flaw.NO_STATUS_SUBRESOURCE, (
            "has no status subresource, as FrameworkController installs it: no status can be written, and its "
            f"Frameworks are left alone. See that FrameworkController does not run any more. {_REMEDY}"
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
    return Flaw.DROPS_FIELDS, f"is older than this release: {kinds} cannot have {shown}. {_REMEDY}"


def _is_served(definition: Json) -> bool:
    return installed.is_established(definition) and not installed.is_going(definition)


def _name(definition: Json) -> str:
    name: str = definition["metadata"]["name"]
    return name
