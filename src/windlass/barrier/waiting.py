"""Waits for the gang: by a watch on the Gang where there is one, else on the Framework itself."""

import itertools
import random
from collections.abc import Callable, Iterator

import msgspec

from windlass.barrier.options import Options
from windlass.barrier.server import AnsweredError, NoAnswerError, Server
from windlass.discovery import gangs
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.gang import Gang, GangSpec

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


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_gang = msgspec.json.Decoder(Gang).decode


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
        is_told = False
        for tries in itertools.count():
            if self._left <= 0:
                raise TimedOutError
            try:
                passed = attempt()
            except AnsweredError as refused:
                if refused.code in _DENIED:
                    return None
                trouble = str(refused)
            except (NoAnswerError, msgspec.DecodeError) as error:
                trouble = str(error)
            else:
                if passed is not None:
                    return passed
                trouble = ""  # the watch has come to its end, as watches do
            if trouble and not is_told:
                self._say(f"{trouble}; trying on for {self._left:.0f} s")
            is_told = bool(trouble)
            self._pause(tries if trouble else 0)
        raise AssertionError

    # By the Gang

    def _watch_gang(self) -> Passed | None:
        """One watch: it begins with what is there."""
        path = _path(names.GANG_GROUP, names.GANG_PLURAL, self._options.namespace)
        for body in self._changes(path, fieldSelector=f"metadata.name={self._options.gang}"):
            gang = _decode_gang(body).spec
            if self._is_ours(gang):
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
        """It is read first, for a watch says nothing of what is not there."""
        for group in names.GROUPS:
            path = _path(group, names.PLURAL, self._options.namespace)
            try:
                body = self._server.get(f"{path}/{self._options.framework}")
            except AnsweredError as refused:
                if refused.code == _GONE:
                    continue
                raise
            if (passed := self._judged(body)) is not None:
                return passed
            return self._follow_framework(path, body)
        raise NoFrameworkError(
            f"there is no Framework {self._options.framework} in the namespace {self._options.namespace}"
        )

    def _follow_framework(self, path: str, body: bytes) -> Passed | None:
        version = msgspec.json.decode(body)["metadata"].get("resourceVersion", "")
        selected = {"fieldSelector": f"metadata.name={self._options.framework}", "resourceVersion": version}
        try:
            for changed in self._changes(path, **selected):
                if (passed := self._judged(changed)) is not None:
                    return passed
        except AnsweredError as refused:
            if refused.code not in (*_DENIED, _TOO_OLD):
                raise
            # One who may read it and may not watch it looks again, as the reference does.
            self._sleep(min(self._options.interval, max(self._left, 0)))
        return None

    def _judged(self, body: bytes) -> Passed | None:
        from windlass.wire import codec

        found = codec.read_framework(body)
        gang = gangs.gang_of(found) if isinstance(found, Framework) else None
        if gang is None or not self._is_ours(gang):
            return None
        return Passed(gang, msgspec.json.decode(body))

    # Either way

    def _changes(self, path: str, **query: str) -> Iterator[bytes]:
        for line in self._server.watch(path, self._left, **query):
            event = _decode_event(line)
            if event.type in ("ADDED", "MODIFIED"):
                yield bytes(event.object)
            elif event.type == "DELETED" and names.GANG_PLURAL not in path:
                raise NoFrameworkError(f"the Framework {self._options.called} was deleted")
            elif event.type == "ERROR":
                return

    @property
    def _left(self) -> float:
        return self._until - self._monotonic()

    def _pause(self, tries: int) -> None:
        longest = min(FIRST_PAUSE * 2 ** min(tries, 10), LONGEST_PAUSE)
        self._sleep(min(longest * random.uniform(0.5, 1), max(self._left, 0)))  # noqa: S311


def _path(group: str, plural: str, namespace: str) -> str:
    return f"/apis/{group}/{names.VERSION}/namespaces/{namespace}/{plural}"
