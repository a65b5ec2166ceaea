"""Reads the ends of the logs of failed containers for the records of attempts, in namespaces that allow it.

Reading never delays a decision: a record is written with the text that was read by then, and patched once if more
arrives later. If a log cannot be read, the record has the termination message of the container, as without this module.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from windlass.controller.engine.lease_guard import LeaseGuard, NotLeadingError
from windlass.decide.types import Reason
from windlass.k8s import metadata
from windlass.k8s.metadata import ObjectMeta
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ApiError, ForbiddenError
from windlass.kubeapi.requests import METADATA_ONLY, Request
from windlass.kubeapi.resources import ATTEMPT_RECORDS, NAMESPACES
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.history import AttemptRecord, ContainerLog, record_name
from windlass.wire import attempt_records

log = logging.getLogger(__name__)

MAX_LINES = 100
"""Number of last lines of a log that are read."""
MAX_READ_BYTES = 256 * 1024
MAX_BYTES = 16 * 1024
"""Number of last bytes of these lines that a record contains."""
MAX_CONTAINERS = 16
"""Number of logs per Framework attempt."""
MAX_ATTEMPTS = 1000
"""Number of Framework attempts whose logs are in memory. The oldest ones are dropped."""
MAX_CONCURRENT = 8
NAMESPACE_SEC = 60.0
"""Time for which the annotation of a namespace, or a missing permission, is remembered."""

Send = Callable[[Request, float], Awaitable[bytes]]


class _Source(msgspec.Struct, frozen=True):
    """A failed container."""

    namespace: str
    framework: str
    pod_name: str
    pod_uid: str
    role: str
    index: int
    attempt: int
    container: str

    @property
    def request(self) -> Request:
        parameters = {"tailLines": str(MAX_LINES), "limitBytes": str(MAX_READ_BYTES), "uid": self.pod_uid}
        return requests.log(self.namespace, self.pod_name, container=self.container, **parameters)


class _Attempt(msgspec.Struct):
    """The logs of one Framework attempt."""

    sources: set[_Source] = msgspec.field(default_factory=set)
    unread: int = 0
    found: list[ContainerLog] = msgspec.field(default_factory=list)
    record: AttemptRecord | None = None
    """The record, once it is written."""


class ContainerLogs:
    def __init__(
        self,
        send: Send,
        guard: LeaseGuard,
        *,
        find_pod_uid: Callable[[str, str, str], str],
        on_resized: Callable[[ObjectMeta], None],
        timeout: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._send = send
        self._guard = guard
        self._find_pod_uid = find_pod_uid
        self._on_resized = on_resized
        self._timeout = timeout
        self._monotonic = monotonic
        self._attempts: dict[str, _Attempt] = {}
        """By the name of the record."""
        self._queue: asyncio.Queue[tuple[str, _Source]] = asyncio.Queue()
        self._allowed: dict[str, tuple[bool, float]] = {}
        """Whether a namespace allows reading, and until when this is known."""
        self._checking = asyncio.Lock()
        self._warned: set[tuple[str, str]] = set()

    def on_failures(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        """Start to read the logs of the failed containers. Their pods may be deleted soon."""
        if framework.status is None:
            return
        name = record_name(framework.uid, framework.status.attempt_status.id)
        for reason in reasons:
            for source in _failed_containers(framework, reason):
                self._enqueue(name, source)

    def _enqueue(self, name: str, source: _Source) -> None:
        attempt = self._attempts.setdefault(name, _Attempt())
        if source in attempt.sources or len(attempt.sources) >= MAX_CONTAINERS:
            return
        attempt.sources.add(source)
        attempt.unread += 1
        self._queue.put_nowait((name, source))
        if len(self._attempts) > MAX_ATTEMPTS:
            self._attempts.pop(next(iter(self._attempts)))

    def add_to(self, record: AttemptRecord) -> AttemptRecord:
        """Return the record with the text that was read so far."""
        attempt = self._attempts.get(record.name)
        return record if attempt is None or not attempt.found else _with_logs(record, attempt)

    def on_written(self, record: AttemptRecord) -> None:
        attempt = self._attempts.get(record.name)
        if attempt is not None and attempt.unread:
            attempt.record = record
        else:
            self._attempts.pop(record.name, None)

    async def run(self) -> None:
        """Read logs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(MAX_CONCURRENT):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            name, source = await self._queue.get()
            try:
                await self._process(name, source)
            except Exception:
                log.warning("internal error while reading a log", exc_info=True)

    async def _process(self, name: str, source: _Source) -> None:
        text = await self._read(source)
        attempt = self._attempts.get(name)
        if attempt is None:
            return
        attempt.unread -= 1
        if text:
            found = ContainerLog(
                role=source.role,
                index=source.index,
                attempt=source.attempt,
                container=source.container,
                text=text,
            )
            attempt.found.append(found)
        if attempt.record is not None and not attempt.unread:
            del self._attempts[name]
            if len(attempt.found) > len(attempt.record.spec.container_logs):
                await self._patch(_with_logs(attempt.record, attempt))

    async def _read(self, source: _Source) -> str:
        """Return the end of the log; empty if it cannot or must not be read."""
        if not await self._is_allowed(source.namespace):
            return ""
        try:
            body = await self._send(source.request, self._timeout)
        except ApiError as error:
            self._warn(source.namespace, "read the logs of failed containers", error)
            if isinstance(error, ForbiddenError):
                self._remember(source.namespace, is_allowed=False)
            return ""
        # The pod of the next attempt has the same name: the log may be its log.
        is_replaced = self._find_pod_uid(source.namespace, source.framework, source.pod_name) not in (
            source.pod_uid,
            "",
        )
        return "" if is_replaced else _end_of(body)

    async def _is_allowed(self, namespace: str) -> bool:
        async with self._checking:
            is_allowed, until = self._allowed.get(namespace, (False, 0.0))
            if self._monotonic() < until:
                return is_allowed
            request = requests.get(NAMESPACES, namespace, namespace).with_accept(METADATA_ONLY)
            try:
                found = metadata.decode_meta(await self._send(request, self._timeout)).metadata
            except ApiError as error:
                self._warn(namespace, "read the annotations of the namespace", error)
                return self._remember(namespace, is_allowed=False)
            return self._remember(
                namespace, is_allowed=found.annotations.get(names.READ_LOGS_ANNOTATION) == "true"
            )

    def _remember(self, namespace: str, *, is_allowed: bool) -> bool:
        self._allowed[namespace] = is_allowed, self._monotonic() + NAMESPACE_SEC
        return is_allowed

    async def _patch(self, record: AttemptRecord) -> None:
        """Replace the logs in the stored record."""
        manifest = attempt_records.encode(record)
        spec = {"containerLogs": manifest["spec"].container_logs}
        body = msgspec.json.encode(
            {"metadata": {"annotations": manifest["metadata"]["annotations"]}, "spec": spec}
        )
        request = requests.merge_patch(ATTEMPT_RECORDS, record.namespace, record.name, body)
        try:
            self._guard.check(self._timeout)
            answer = await self._send(request.with_accept(METADATA_ONLY), self._timeout)
        except (ApiError, NotLeadingError) as error:
            self._warn(record.namespace, "add the logs of failed containers to records", error)
            return
        self._on_resized(metadata.decode_meta(answer).metadata)

    def _warn(self, namespace: str, action: str, error: Exception) -> None:
        """Log a warning, once per namespace and action."""
        if (namespace, action) not in self._warned:
            self._warned.add((namespace, action))
            log.warning("cannot %s: %s", action, error, extra={"namespace": namespace})


def _failed_containers(framework: Framework, reason: Reason) -> list[_Source]:
    """Return the failed containers of a task; none if its pod did not end by itself."""
    attempt = reason.failed_attempt
    completion = None if attempt is None else attempt.completion_status
    if attempt is None or completion is None or completion.pod is None:
        return []
    return [
        _Source(
            framework.namespace,
            framework.name,
            attempt.pod_name,
            attempt.pod_uid or "",
            reason.role,
            reason.index,
            attempt.id,
            container.name,
        )
        for container in completion.pod.containers
        if container.code
    ]


def _with_logs(record: AttemptRecord, attempt: _Attempt) -> AttemptRecord:
    spec = msgspec.structs.replace(record.spec, container_logs=tuple(attempt.found))
    return msgspec.structs.replace(record, spec=spec)


def _end_of(body: bytes) -> str:
    """Return the last MAX_BYTES, from the start of a line if they contain one."""
    if len(body) > MAX_BYTES:
        body = body[-MAX_BYTES:]
        body = body.partition(b"\n")[2] or body
    return body.decode(errors="replace")
