"""Post Kubernetes events about decisions of the controller, for `kubectl describe`.

Recording an event never waits, raises or affects a decision; memory and requests are bounded. `manifest` is a pure
function, and the Recorder posts its result later.

An event is never updated. A repetition within ten minutes is counted but not posted. The first repetition after that
time is posted, with the number of repetitions and the time of the first one.
"""

import asyncio
import contextlib
import logging
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from windlass.controller.engine.clock import Clock
from windlass.controller.engine.http_api import Send
from windlass.decide.types import Reason, ReasonKind
from windlass.k8s.times import format_time
from windlass.kubeapi import requests, resources
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.requests import Request
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import ALWAYS_RETRY, Framework

logger = logging.getLogger(__name__)

COMPONENT = "windlass"
MAX_MESSAGE_BYTES = 1024
"""The limit of the API."""
MAX_NAME_LENGTH = 253
_ELLIPSIS = "…"

MAX_PENDING = 1000
MAX_PARALLEL_POSTS = 4
POST_TIMEOUT_SEC = 10.0
REPEAT_AFTER_SEC = 600.0
"""The same event of the same Framework is posted once within this time."""
BURST = 25
"""Maximum number of events of one Framework in a burst: the size of its token bucket."""
RESERVED_FOR_FRAMEWORK = 5
"""Number of events in BURST that are reserved for the Framework itself: events about its tasks cannot use them."""
REFILL_SEC = 60.0
"""Interval after which a Framework may post one more event."""
MAX_REMEMBERED = 4096
"""Limit of remembered events, and of remembered budgets; the oldest are forgotten first."""


class Outcome(StrEnum):
    """The outcome of recording an event."""

    SENT = "sent"
    REPEATED = "repeated"
    """The same event was posted recently: this one is only counted, and the next post reports the count."""
    DROPPED = "dropped"
    """Over the limit of its Framework or of pending events, or still pending at shutdown."""
    FAILED = "failed"
    """Rejected or not answered."""


class Occurrences(NamedTuple):
    """The occurrences of an event since it was last posted: the time of the first one, and their number."""

    first: datetime
    number: int


def manifest(
    framework: Framework,
    reason: Reason,
    now: datetime,
    suffix: str,
    instance: str,
    occurrences: Occurrences | None = None,
) -> Json:
    """Return a core/v1 Event. Its name is unique if the suffix is."""
    first, number = occurrences or (now, 1)
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
        "message": _truncated(reason.message),
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": instance,
        "firstTimestamp": format_time(first),
        "lastTimestamp": format_time(now),
        "count": number,
    }


def _without_redundant(framework: Framework, reasons: Sequence[Reason]) -> list[Reason]:
    """Return the reasons without the end of a successful attempt, unless the Framework is retried after a success:
    otherwise its completion follows, with the same message."""
    if framework.spec.retry_policy.max_retry_count == ALWAYS_RETRY:
        return list(reasons)
    return [reason for reason in reasons if reason.kind is not ReasonKind.ATTEMPT_ENDING or reason.is_warning]


def _name(framework: str, suffix: str) -> str:
    return f"{framework[: MAX_NAME_LENGTH - len(suffix) - 1].rstrip('-.')}.{suffix}"


def _truncated(message: str) -> str:
    encoded = message.encode("utf-8", "replace")
    if len(encoded) <= MAX_MESSAGE_BYTES:
        return encoded.decode()
    return encoded[: MAX_MESSAGE_BYTES - len(_ELLIPSIS.encode())].decode("utf-8", "ignore") + _ELLIPSIS


class Recorder:
    def __init__(
        self,
        send: Send,
        clock: Clock,
        *,
        instance: str,
        count_outcome: Callable[[Outcome], None],
        new_suffix: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._send = send
        self._clock = clock
        self._instance = instance
        self._count_outcome = count_outcome
        self._new_suffix = new_suffix
        self._pending: deque[Request] = deque()
        self._in_progress = 0
        self._has_pending = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._repetitions = _Repetitions()
        self._budgets = _Budgets()

    def record(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        """Queue events. Never waits or raises."""
        try:
            for reason in _without_redundant(framework, reasons):
                self._record(framework, reason)
        except Exception:
            logger.warning("internal error while recording an event", exc_info=True)

    async def run(self) -> None:
        """Post recorded events until cancelled."""
        async with asyncio.TaskGroup() as posts:
            for _ in range(MAX_PARALLEL_POSTS):
                posts.create_task(self._post_forever())

    async def flush(self, timeout: float) -> None:
        """Post the recorded events within the timeout, whether `run` is still running or not. Drop the rest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await asyncio.gather(
                    self._is_idle.wait(), *(self._post_pending() for _ in range(MAX_PARALLEL_POSTS))
                )
        while self._pending:
            self._pending.popleft()
            self._count_outcome(Outcome.DROPPED)
        self._set_idle_if_empty()

    def _record(self, framework: Framework, reason: Reason) -> None:
        now, monotonic = self._clock.now(), self._clock.monotonic()
        event_id = hash((framework.uid, reason.kind, reason.message))
        if self._repetitions.was_posted_recently(event_id, monotonic):
            self._repetitions.count_repetition(event_id, now)
            self._count_outcome(Outcome.REPEATED)
            return
        # The completion is exempt from the limit: it happens once and matters most.
        is_completion = reason.kind is ReasonKind.FRAMEWORK_COMPLETED
        reserved = RESERVED_FOR_FRAMEWORK if reason.role else 0
        if not is_completion and not self._budgets.take(framework.uid, monotonic, reserved):
            self._count_outcome(Outcome.DROPPED)
            return
        occurrences = self._repetitions.record_post(event_id, now, monotonic)
        event = manifest(framework, reason, now, self._new_suffix(), self._instance, occurrences)
        self._append(requests.create_object(resources.EVENTS, framework.namespace, event, COMPONENT))

    def _append(self, request: Request) -> None:
        if len(self._pending) >= MAX_PENDING:
            self._pending.popleft()
            self._count_outcome(Outcome.DROPPED)
        self._pending.append(request)
        self._is_idle.clear()
        self._has_pending.set()

    async def _post_forever(self) -> None:
        while True:
            await self._post_pending()
            self._has_pending.clear()
            await self._has_pending.wait()

    async def _post_pending(self) -> None:
        while self._pending:
            request = self._pending.popleft()
            self._in_progress += 1
            try:
                await self._post(request)
            finally:
                self._in_progress -= 1
                self._set_idle_if_empty()

    def _set_idle_if_empty(self) -> None:
        if not self._pending and not self._in_progress:
            self._is_idle.set()

    async def _post(self, request: Request) -> None:
        outcome = Outcome.FAILED
        try:
            await self._send(request, POST_TIMEOUT_SEC)
            outcome = Outcome.SENT
        except ApiError as error:
            logger.debug("cannot post an event: %s", error)
        except Exception:
            logger.warning("internal error while posting an event", exc_info=True)
        finally:
            self._count_outcome(outcome)


class _Posted(NamedTuple):
    at: float
    repetitions: int = 0
    first_repetition: datetime | None = None


class _Repetitions:
    """When each event was last posted, and how often it was repeated since."""

    def __init__(self) -> None:
        self._posted: OrderedDict[int, _Posted] = OrderedDict()

    def was_posted_recently(self, event_id: int, monotonic: float) -> bool:
        posted = self._posted.get(event_id)
        return posted is not None and monotonic < posted.at + REPEAT_AFTER_SEC

    def count_repetition(self, event_id: int, now: datetime) -> None:
        posted = self._posted[event_id]
        first = posted.first_repetition or now
        self._posted[event_id] = _Posted(posted.at, posted.repetitions + 1, first)

    def record_post(self, event_id: int, now: datetime, monotonic: float) -> Occurrences:
        before = self._posted.pop(event_id, None)
        self._posted[event_id] = _Posted(monotonic)
        if len(self._posted) > MAX_REMEMBERED:
            self._posted.popitem(last=False)
        if before is None:
            return Occurrences(now, 1)
        return Occurrences(before.first_repetition or now, before.repetitions + 1)


class _Budgets:
    """A token bucket for each Framework: the number of events that it may still post. It starts with BURST."""

    def __init__(self) -> None:
        self._remaining: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The remaining number and the time of the last change, by UID."""

    def take(self, uid: str, monotonic: float, reserved: int) -> bool:
        remaining, as_of = self._remaining.pop(uid, (float(BURST), monotonic))
        remaining = min(BURST, remaining + (monotonic - as_of) / REFILL_SEC)
        is_granted = remaining >= 1 + reserved
        self._remaining[uid] = (remaining - 1 if is_granted else remaining, monotonic)
        if len(self._remaining) > MAX_REMEMBERED:
            self._remaining.popitem(last=False)
        return is_granted
