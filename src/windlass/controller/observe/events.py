"""Kubernetes events: what was decided about a Framework, and why, where `kubectl describe` shows it.

Best effort, and bounded in memory and in requests: nothing here holds up a decision, makes one fail, or raises into
whoever records. The manifest is a pure function; the Recorder posts it later.

Events never cost a second request. What repeats within ten minutes is not sent again; the next event of it after that
says how often it happened since the last one, and since when.
"""

import asyncio
import contextlib
import logging
import secrets
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

import msgspec

from windlass.controller.engine.clock import Clock
from windlass.decide.types import Reason, ReasonKind
from windlass.k8s.times import format_time
from windlass.kubeapi import requests, resources
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.requests import Request
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework

logger = logging.getLogger(__name__)

COMPONENT = "windlass"
LONGEST_MESSAGE = 1024
"""Bytes: the API's limit."""
LONGEST_NAME = 253
_CUT = "…"

MOST_PENDING = 1000
AT_ONCE = 4
POST_TIMEOUT = 10.0
"""Seconds."""
REPEATED_WITHIN = 600.0
"""Seconds in which the same thing about the same Framework is told once."""
BURST = 25
"""So many events may one Framework have at once."""
KEPT_FOR_THE_FRAMEWORK = 5
"""Of these, so many are for what concerns the whole of it: a gang that falls must not use up the words for why."""
REFILL_SECONDS = 60.0
"""One more event each."""
MOST_REMEMBERED = 4096
"""So many repetitions and budgets are remembered; the oldest are forgotten first, and then start afresh."""


class Outcome(StrEnum):
    """What became of something that could have been told."""

    SENT = "sent"
    REPEATED = "repeated"
    """Told a moment ago: counted for the next event of its sort."""
    DROPPED = "dropped"
    """Its Framework had used up its events, or too many were waiting."""
    FAILED = "failed"
    """Posted, and refused or not answered."""


class Send(Protocol):
    def __call__(self, request: Request, timeout: float = ...) -> Awaitable[bytes]: ...


class Occurrences(NamedTuple):
    """For how many of them an event stands, and when the first one was."""

    first: datetime
    times: int


def manifest(
    framework: Framework,
    reason: Reason,
    now: datetime,
    suffix: str,
    instance: str,
    told: Occurrences | None = None,
) -> Json:
    """The core/v1 Event. Its name is unique if the suffix is."""
    first, times = told or (now, 1)
    metadata: Json = {"name": _name(framework.name, suffix), "namespace": framework.namespace}
    task = {names.TASKROLE_NAME: reason.role, names.TASK_INDEX: str(reason.index)}
    if reason.role and reason.index >= 0:
        metadata["annotations"] = task
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": {
            "apiVersion": framework.api_version,
            "kind": framework.kind,
            "namespace": framework.namespace,
            "name": framework.name,
            "uid": framework.uid,
            "resourceVersion": framework.metadata.resource_version,
        },
        "type": "Warning" if reason.is_warning else "Normal",
        "reason": reason.kind.value,
        "message": _cut(reason.message),
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": instance,
        "firstTimestamp": format_time(first),
        "lastTimestamp": format_time(now),
        "count": times,
    }


def _worth_telling(reasons: Sequence[Reason]) -> list[Reason]:
    """That an attempt ends well goes without saying where the same breath says that all has ended."""
    is_all_over = any(reason.kind is ReasonKind.FRAMEWORK_COMPLETED for reason in reasons)
    return [
        reason
        for reason in reasons
        if reason.kind is not ReasonKind.ATTEMPT_ENDING or reason.is_warning or not is_all_over
    ]


def _name(framework: str, suffix: str) -> str:
    return f"{framework[: LONGEST_NAME - len(suffix) - 1].rstrip('-.')}.{suffix}"


def _cut(message: str) -> str:
    encoded = message.encode("utf-8", "replace")
    if len(encoded) <= LONGEST_MESSAGE:
        return encoded.decode()
    return encoded[: LONGEST_MESSAGE - len(_CUT.encode())].decode("utf-8", "ignore") + _CUT


class Recorder:
    def __init__(
        self,
        send: Send,
        clock: Clock,
        *,
        instance: str,
        count: Callable[[Outcome], None],
        unique: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._send = send
        self._clock = clock
        self._instance = instance
        self._count = count
        self._unique = unique
        self._pending: deque[Request] = deque()
        self._under_way = 0
        self._has_pending = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._repetitions = _Repetitions()
        self._budgets = _Budgets()

    def record(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        """Returns at once, and never raises."""
        try:
            for reason in _worth_telling(reasons):
                self._record(framework, reason)
        except Exception:
            logger.warning("An event could not be made", exc_info=True)

    async def run(self) -> None:
        """Posts what is recorded, until it is cancelled."""
        async with asyncio.TaskGroup() as posts:
            for _ in range(AT_ONCE):
                posts.create_task(self._serve())

    async def flush(self, timeout: float) -> None:
        """Before the end: what is recorded is posted, as far as the time allows, whether `run` still runs or not."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await asyncio.gather(self._is_idle.wait(), *(self._post_pending() for _ in range(AT_ONCE)))
        while self._pending:
            self._pending.popleft()
            self._count(Outcome.DROPPED)
        self._look_if_idle()

    def _record(self, framework: Framework, reason: Reason) -> None:
        now, monotonic = self._clock.now(), self._clock.monotonic()
        what = hash((framework.uid, reason.kind, reason.message))
        if self._repetitions.is_told(what, monotonic):
            self._repetitions.again(what, now)
            self._count(Outcome.REPEATED)
            return
        # It comes once: the last word about a Framework is never lost to what was said before.
        is_last_word = reason.kind is ReasonKind.FRAMEWORK_COMPLETED
        kept = KEPT_FOR_THE_FRAMEWORK if reason.role else 0
        if not is_last_word and not self._budgets.take(framework.uid, monotonic, kept):
            self._count(Outcome.DROPPED)
            return
        told = self._repetitions.tell(what, now, monotonic)
        event = manifest(framework, reason, now, self._unique(), self._instance, told)
        self._append(
            requests.create(resources.EVENTS, framework.namespace, msgspec.json.encode(event), COMPONENT)
        )

    def _append(self, request: Request) -> None:
        if len(self._pending) >= MOST_PENDING:
            self._pending.popleft()
            self._count(Outcome.DROPPED)
        self._pending.append(request)
        self._is_idle.clear()
        self._has_pending.set()

    async def _serve(self) -> None:
        while True:
            await self._post_pending()
            self._has_pending.clear()
            await self._has_pending.wait()

    async def _post_pending(self) -> None:
        while self._pending:
            request = self._pending.popleft()
            self._under_way += 1
            try:
                await self._post(request)
            finally:
                self._under_way -= 1
                self._look_if_idle()

    def _look_if_idle(self) -> None:
        if not self._pending and not self._under_way:
            self._is_idle.set()

    async def _post(self, request: Request) -> None:
        outcome = Outcome.FAILED
        try:
            await self._send(request, timeout=POST_TIMEOUT)
            outcome = Outcome.SENT
        except ApiError as error:
            logger.debug("An event was not taken: %s", error)
        except Exception:
            logger.warning("An event could not be posted", exc_info=True)
        finally:
            self._count(outcome)


class _Told(NamedTuple):
    at: float
    untold: int = 0
    since: datetime | None = None
    """When the first one was that was not told."""


class _Repetitions:
    """What was told when, and how often it happened since."""

    def __init__(self) -> None:
        self._told: OrderedDict[int, _Told] = OrderedDict()

    def is_told(self, what: int, monotonic: float) -> bool:
        told = self._told.get(what)
        return told is not None and monotonic < told.at + REPEATED_WITHIN

    def again(self, what: int, now: datetime) -> None:
        told = self._told[what]
        self._told[what] = _Told(told.at, told.untold + 1, told.since or now)

    def tell(self, what: int, now: datetime, monotonic: float) -> Occurrences:
        before = self._told.pop(what, None)
        self._told[what] = _Told(monotonic)
        if len(self._told) > MOST_REMEMBERED:
            self._told.popitem(last=False)
        if before is None:
            return Occurrences(now, 1)
        return Occurrences(before.since or now, before.untold + 1)


class _Budgets:
    """How many events each Framework may still have. One of which nothing is known has all of them."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By UID: how many were left, and as of when."""

    def take(self, uid: str, monotonic: float, kept: int) -> bool:
        left, as_of = self._left.pop(uid, (float(BURST), monotonic))
        left = min(BURST, left + (monotonic - as_of) / REFILL_SECONDS)
        is_granted = left >= 1 + kept
        self._left[uid] = (left - 1 if is_granted else left, monotonic)
        if len(self._left) > MOST_REMEMBERED:
            self._left.popitem(last=False)
        return is_granted
