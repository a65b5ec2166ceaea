"""Waits for the gang: watches the Gang if the pod has one and may read it, otherwise the Framework."""

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import msgspec

from windlass.barrier.api_client import ApiClient, NoResponseError, ResponseError
from windlass.barrier.options import Options
from windlass.discovery import gangs
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.gang import Gang, GangSpec

if TYPE_CHECKING:
    from windlass.wire.codec import InvalidFramework

MIN_PAUSE, MAX_PAUSE = 0.2, 5.0
_NOT_FOUND, _EXPIRED, _DENIED = 404, 410, (403, 404, 405)

Log = Callable[[str], None]


class TimedOutError(Exception):
    """The timeout expired before all tasks were known to have addresses."""


class FrameworkNotFoundError(Exception):
    """The Framework does not exist or was deleted."""


class ForbiddenError(Exception):
    """Neither the Framework nor its Gang, if it has one, may be read."""


class BarrierResult(msgspec.Struct, frozen=True):
    gang: GangSpec
    framework: Json | None = None
    """The stored Framework with decompressed task statuses, if it was read."""


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
_DECODE_ERRORS = (msgspec.DecodeError, ValueError, RecursionError)

T = TypeVar("T")


def _decode(decode: Callable[[bytes], T], data: bytes | msgspec.Raw) -> T:
    """Decode a response. Raises NoResponseError if it is invalid."""
    try:
        return decode(bytes(data))
    except _DECODE_ERRORS as error:
        raise NoResponseError(f"invalid response of the API server: {error}") from error


class GangWaiter:
    def __init__(
        self,
        server: ApiClient,
        options: Options,
        log: Log,
        *,
        monotonic: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._server = server
        self._options = options
        self._log = log
        self._monotonic = monotonic
        self._sleep = sleep
        self._deadline = monotonic() + options.timeout

    def wait(self) -> BarrierResult:
        """Wait until all tasks have addresses. Raises TimedOutError, FrameworkNotFoundError and ForbiddenError."""
        if self._options.gang:
            result = self._retry_until_timeout(self._watch_gang)
            if result is not None:
                return result
            self._log(f"cannot read Gang {self._options.gang}; reading the Framework instead")
        result = self._retry_until_timeout(self._watch_framework)
        if result is None:
            raise ForbiddenError(
                f"not allowed to read Framework {self._options.qualified_name} or its Gang. `windlass install` allows "
                f"service accounts to read Gangs; the annotation {names.BARRIER_ANNOTATION} requests a Gang."
            )
        return result

    def _retry_until_timeout(self, watch: Callable[[], BarrierResult | None]) -> BarrierResult | None:
        """Repeat `watch` until it returns a result. Return None after an error of `_DENIED`. Raises TimedOutError."""
        is_reported, tries = False, 0
        while self._remaining > 0:
            start = self._monotonic()
            problem = ""
            try:
                if (result := watch()) is not None:
                    return result
                # The watch ended without a result; start another one.
            except ResponseError as error:
                if error.code in _DENIED:
                    return None
                problem = f"the API server responded with {error}"
            except NoResponseError as error:
                problem = str(error)
            if problem and not is_reported:
                self._log(f"{problem}; retrying for {self._remaining:.0f} s")
            is_reported = bool(problem)
            # Back off if the watch ended quickly, with or without an error.
            tries = 0 if self._monotonic() - start > MAX_PAUSE else tries + 1
            self._pause(tries)
        raise TimedOutError

    # The Gang

    def _watch_gang(self) -> BarrierResult | None:
        """Watch the Gang, beginning with its current state. Return it once it is ours, or None if the watch ends."""
        path = _path(names.GANG_GROUP, names.GANG_PLURAL, self._options.namespace)
        for event in self._events(path, fieldSelector=f"metadata.name={self._options.gang}"):
            gang = _decode(_decode_gang, event.object).spec
            if event.type != "DELETED" and self._is_ours(gang):
                return BarrierResult(gang)
        return None

    def _is_ours(self, gang: GangSpec) -> bool:
        """Return whether the Gang belongs to our attempt and contains our pod. Otherwise it is outdated."""
        options = self._options
        return options.attempt in ("", gang.attempt_instance_uid) and (
            not options.pod_uid or gang.has_member(options.pod_uid)
        )

    # The Framework

    def _watch_framework(self) -> BarrierResult | None:
        """Read the Framework and, if not all tasks of our attempt have addresses yet, watch it: a watch alone does not
        report that the Framework does not exist. Permission for one of the API groups is sufficient."""
        denied: ResponseError | None = None
        for group in names.GROUPS:
            path = _path(group, names.PLURAL, self._options.namespace)
            try:
                body = self._server.get(f"{path}/{quote(self._options.framework, safe='')}")
            except ResponseError as error:
                if error.code not in _DENIED:
                    raise
                denied = denied if error.code == _NOT_FOUND else error
                continue
            framework = _decode(_read_framework, body)
            result = self._result_of(framework, body)
            return (
                self._watch_changes(path, framework.metadata.resource_version) if result is None else result
            )
        if denied is not None:
            raise denied
        raise FrameworkNotFoundError(
            f"Framework {self._options.framework} not found in namespace {self._options.namespace}"
        )

    def _watch_changes(self, path: str, version: str) -> BarrierResult | None:
        query = {"fieldSelector": f"metadata.name={self._options.framework}", "resourceVersion": version}
        try:
            for event in self._events(path, **query):
                if event.type == "DELETED":
                    raise FrameworkNotFoundError(f"Framework {self._options.qualified_name} was deleted")
                framework = _decode(_read_framework, event.object)
                if (result := self._result_of(framework, event.object)) is not None:
                    return result
        except ResponseError as error:
            if error.code == _EXPIRED:
                return None
            if error.code not in _DENIED:
                raise
            # Watching is forbidden: poll, as FrameworkController's barrier does.
            self._sleep(min(self._options.interval, max(self._remaining, 0)))
        return None

    def _result_of(
        self, framework: "Framework | InvalidFramework", body: bytes | msgspec.Raw
    ) -> BarrierResult | None:
        gang = gangs.gang_of(framework) if isinstance(framework, Framework) else None
        if gang is None or not self._is_ours(gang):
            return None
        return BarrierResult(gang, _expanded(msgspec.json.decode(body)))

    # Both

    def _events(self, path: str, **query: str) -> Iterator[_Event]:
        """Yield the events except bookmarks. Raises ResponseError for an ERROR event."""
        for line in self._server.watch(path, self._remaining, **query):
            event = _decode(_decode_event, line)
            if event.type == "ERROR":
                status = _decode(_decode_status, event.object)
                raise ResponseError(status.code, status.message)
            if event.type != "BOOKMARK":
                yield event

    @property
    def _remaining(self) -> float:
        return self._deadline - self._monotonic()

    def _pause(self, tries: int) -> None:
        max_pause = min(MIN_PAUSE * 2 ** min(max(tries - 1, 0), 10), MAX_PAUSE)
        self._sleep(min(max_pause * random.uniform(0.5, 1), max(self._remaining, 0)))  # noqa: S311


def _path(group: str, plural: str, namespace: str) -> str:
    return f"/apis/{group}/{names.VERSION}/namespaces/{quote(namespace, safe='')}/{plural}"


# The codec is imported only when a Framework is read: the import takes longer than most barriers wait.


def _read_framework(data: bytes) -> "Framework | InvalidFramework":
    from windlass.wire import codec

    return codec.read_framework(data)


def _expanded(framework: Json) -> Json:
    """Decompress the task statuses if they are stored compressed."""
    from windlass.wire import codec

    status = framework["status"]["attemptStatus"]
    if not status.get("taskRoleStatuses") and (compressed := status.pop("taskRoleStatusesCompressed", "")):
        status["taskRoleStatuses"] = codec.expanded_roles(compressed)
    return framework
