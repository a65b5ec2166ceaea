"""Waits for the gang: watches the Gang if there is one, otherwise the Framework."""

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
    """Not all tasks had addresses in time."""


class NoFrameworkError(Exception):
    """The Framework does not exist or was deleted."""


class NotAllowedError(Exception):
    """Reading the Gang and the Framework is forbidden."""


class Passed(msgspec.Struct, frozen=True):
    gang: GangSpec
    framework: Json | None = None
    """The stored Framework, if it was read."""


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct, frozen=True):
    """The object of an event of type ERROR."""

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
        """Wait until all tasks have addresses. Raises TimedOutError, NoFrameworkError and NotAllowedError."""
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
        """Repeat the attempt until it succeeds; return None if it is forbidden. Connection errors are retried."""
        is_told, tries = False, 0
        while self._left > 0:
            began = self._monotonic()
            trouble = ""
            try:
                if (passed := attempt()) is not None:
                    return passed
                # The server ended the watch; start another one.
            except AnsweredError as refused:
                if refused.code in _DENIED:
                    return None
                trouble = f"the API server answers {refused}"
            except NoAnswerError as error:
                trouble = str(error)
            if trouble and not is_told:
                self._say(f"{trouble}; trying on for {self._left:.0f} s")
            is_told = bool(trouble)
            # Back off if the attempt ended quickly, with or without an error.
            tries = 0 if self._monotonic() - began > LONGEST_PAUSE else tries + 1
            self._pause(tries)
        raise TimedOutError

    # The Gang

    def _watch_gang(self) -> Passed | None:
        """Watch the Gang. The watch begins with the current state."""
        path = _path(names.GANG_GROUP, names.GANG_PLURAL, self._options.namespace)
        for event in self._events(path, fieldSelector=f"metadata.name={self._options.gang}"):
            gang = _read(_decode_gang, event.object).spec
            if event.type != "DELETED" and self._is_ours(gang):
                return Passed(gang)
        return None

    def _is_ours(self, gang: GangSpec) -> bool:
        """Return whether the Gang is of our attempt and contains our pod: otherwise it is outdated."""
        wanted = self._options
        return wanted.attempt in ("", gang.attempt_instance_uid) and (
            not wanted.pod_uid or gang.has_member(wanted.pod_uid)
        )

    # The Framework

    def _watch_framework(self) -> Passed | None:
        """Read the Framework, then watch it: a watch does not report that it does not exist. Permission for one of
        the API groups is sufficient."""
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
            # Watching is forbidden: poll, as the reference does.
            self._sleep(min(self._options.interval, max(self._left, 0)))
        return None

    def _judged(self, found: "Framework | InvalidFramework", body: bytes | msgspec.Raw) -> Passed | None:
        gang = gangs.gang_of(found) if isinstance(found, Framework) else None
        if gang is None or not self._is_ours(gang):
            return None
        return Passed(gang, _expanded(msgspec.json.decode(body)))

    # Both

    def _events(self, path: str, **query: str) -> Iterator[_Event]:
        """Yield the events of objects. An ERROR event is raised as an error."""
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


# Imported only when a Framework is read: the import takes longer than most barriers wait.


def _read_framework(data: bytes) -> "Framework | InvalidFramework":
    from windlass.wire import codec

    return codec.read_framework(data)


def _expanded(framework: Json) -> Json:
    """Decompress the task statuses if they are stored compressed."""
    from windlass.wire import codec

    attempt = framework["status"]["attemptStatus"]
    if not attempt.get("taskRoleStatuses") and (compressed := attempt.pop("taskRoleStatusesCompressed", "")):
        attempt["taskRoleStatuses"] = codec.expanded_roles(compressed)
    return framework
