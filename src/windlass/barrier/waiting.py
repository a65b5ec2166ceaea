"""Waits for the gang: by a watch on the Gang where there is one, else on the Framework itself."""

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import msgspec

from windlass.barrier.options import Options
from windlass.barrier.server import AnsweredError, NoAnswerError, Server
from windlass.discovery import gangs
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.gang import Gang, GangSpec

if TYPE_CHECKING:
    from windlass.wire.codec import InvalidFramework

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
_GONE, _TOO_OLD, _DENIED = 404, 410, (403, 404, 405)

Say = Callable[[str], None]


class TimedOutError(Exception):
    """Not everybody had an address in time."""


class NoFrameworkError(Exception):
    """There is no such Framework, or none any more."""


class NotAllowedError(Exception):
    """Neither the Gang nor the Framework may be read."""


class Passed(msgspec.Struct, frozen=True):
    gang: GangSpec
    framework: Json | None = None
    """The Framework as it is stored, if it was read."""


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct, frozen=True):
    """What comes with an event of the type ERROR."""

    code: int = 500
    message: str = ""


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_gang = msgspec.json.Decoder(Gang).decode
_decode_status = msgspec.json.Decoder(_Status).decode
_NOT_DECODABLE = (msgspec.DecodeError, ValueError, RecursionError)

T = TypeVar("T")


def _read(decode: Callable[[bytes], T], data: bytes | msgspec.Raw) -> T:
    try:
        return decode(bytes(data))
    except _NOT_DECODABLE as error:
        raise NoAnswerError(f"what the API server sends cannot be read: {error}") from error


class Waiting:
    def __init__(
        self,
        server: Server,
        options: Options,
        say: Say,
        *,
        monotonic: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._server = server
        self._options = options
        self._say = say
        self._monotonic = monotonic
        self._sleep = sleep
        self._until = monotonic() + options.timeout

    def wait(self) -> Passed:
        """Raises TimedOutError, NoFrameworkError and NotAllowedError."""
        if self._options.gang:
            passed = self._insisting(self._watch_gang)
            if passed is not None:
                return passed
            self._say(f"the Gang {self._options.gang} may not be read: the Framework is read instead")
        passed = self._insisting(self._watch_framework)
        if passed is None:
            raise NotAllowedError(
                f"neither the Gang nor the Framework {self._options.called} may be read. `windlass install` lets "
                f"service accounts read Gangs; a Framework has one with the annotation {names.BARRIER_ANNOTATION}."
            )
        return passed

    def _insisting(self, attempt: Callable[[], Passed | None]) -> Passed | None:
        """Again and again, until it passed; None if it is not allowed. A server that is away comes back."""
        is_told, tries = False, 0
        while self._left > 0:
            began = self._monotonic()
            trouble = ""
            try:
                if (passed := attempt()) is not None:
                    return passed
                # The watch has come to its end, as watches do.
            except AnsweredError as refused:
                if refused.code in _DENIED:
                    return None
                trouble = f"the API server answers {refused}"
            except NoAnswerError as error:
                trouble = str(error)
            if trouble and not is_told:
                self._say(f"{trouble}; trying on for {self._left:.0f} s")
            is_told = bool(trouble)
            # Whoever is sent away at once comes back ever more slowly, whether there was a reason given or not.
            tries = 0 if self._monotonic() - began > LONGEST_PAUSE else tries + 1
            self._pause(tries)
        raise TimedOutError

    # By the Gang

    def _watch_gang(self) -> Passed | None:
        """One watch: it begins with what is there."""
        path = _path(names.GANG_GROUP, names.GANG_PLURAL, self._options.namespace)
        for event in self._events(path, fieldSelector=f"metadata.name={self._options.gang}"):
            gang = _read(_decode_gang, event.object).spec
            if event.type != "DELETED" and self._is_ours(gang):
                return Passed(gang)
        return None

    def _is_ours(self, gang: GangSpec) -> bool:
        """Another attempt's addresses are nobody's any more, and a list without us is older than we are."""
        wanted = self._options
        return wanted.attempt in ("", gang.attempt_instance_uid) and (
            not wanted.pod_uid or gang.has_member(wanted.pod_uid)
        )

    # By the Framework

    def _watch_framework(self) -> Passed | None:
        """It is read first, for a watch says nothing of what is not there. Rights on one of the groups are enough."""
        denied: AnsweredError | None = None
        for group in names.GROUPS:
            path = _path(group, names.PLURAL, self._options.namespace)
            try:
                body = self._server.get(f"{path}/{quote(self._options.framework, safe='')}")
            except AnsweredError as refused:
                if refused.code not in _DENIED:
                    raise
                denied = denied if refused.code == _GONE else refused
                continue
            found = _read(_read_framework, body)
            passed = self._judged(found, body)
            return self._follow_framework(path, found.metadata.resource_version) if passed is None else passed
        if denied is not None:
            raise denied
        raise NoFrameworkError(
            f"there is no Framework {self._options.framework} in the namespace {self._options.namespace}"
        )

    def _follow_framework(self, path: str, version: str) -> Passed | None:
        selected = {"fieldSelector": f"metadata.name={self._options.framework}", "resourceVersion": version}
        try:
            for event in self._events(path, **selected):
                if event.type == "DELETED":
                    raise NoFrameworkError(f"the Framework {self._options.called} was deleted")
                found = _read(_read_framework, event.object)
                if (passed := self._judged(found, event.object)) is not None:
                    return passed
        except AnsweredError as refused:
            if refused.code == _TOO_OLD:
                return None
            if refused.code not in _DENIED:
                raise
            # One who may read it and may not watch it looks again, as the reference does.
            self._sleep(min(self._options.interval, max(self._left, 0)))
        return None

    def _judged(self, found: "Framework | InvalidFramework", body: bytes | msgspec.Raw) -> Passed | None:
        gang = gangs.gang_of(found) if isinstance(found, Framework) else None
        if gang is None or not self._is_ours(gang):
            return None
        return Passed(gang, _expanded(msgspec.json.decode(body)))

    # Either way

    def _events(self, path: str, **query: str) -> Iterator[_Event]:
        """Of objects. An ERROR is raised as what the server would have answered."""
        for line in self._server.watch(path, self._left, **query):
            event = _read(_decode_event, line)
            if event.type == "ERROR":
                status = _read(_decode_status, event.object)
                raise AnsweredError(status.code, status.message)
            if event.type != "BOOKMARK":
                yield event

    @property
    def _left(self) -> float:
        return self._until - self._monotonic()

    def _pause(self, tries: int) -> None:
        longest = min(FIRST_PAUSE * 2 ** min(max(tries - 1, 0), 10), LONGEST_PAUSE)
        self._sleep(min(longest * random.uniform(0.5, 1), max(self._left, 0)))  # noqa: S311


def _path(group: str, plural: str, namespace: str) -> str:
    return f"/apis/{group}/{names.VERSION}/namespaces/{quote(namespace, safe='')}/{plural}"


# What takes longer to import than most barriers wait is imported by those who read a Framework.


def _read_framework(data: bytes) -> "Framework | InvalidFramework":
    from windlass.wire import codec

    return codec.read_framework(data)


def _expanded(framework: Json) -> Json:
    """With its task statuses where readers look for them, also where they are stored compressed."""
    from windlass.wire import codec

    attempt = framework["status"]["attemptStatus"]
    if not attempt.get("taskRoleStatuses") and (compressed := attempt.pop("taskRoleStatusesCompressed", "")):
        attempt["taskRoleStatuses"] = codec.expanded_roles(compressed)
    return framework
