"""The records of finished attempts in the cluster: which exist, and the deletion of those beyond the limits.

A leader lists the metadata of all records once and then follows its own writes. Retention therefore costs no request
per record, except its deletion, and a new leader does not write the records of completed Frameworks again.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from windlass.controller.engine.clock import Clock
from windlass.controller.engine.lease_guard import LeaseGuard, NotLeadingError
from windlass.controller.observe.metrics import RecordOutcome
from windlass.decide import retention
from windlass.decide.retention import RecordEntry
from windlass.k8s import metadata
from windlass.k8s.metadata import ObjectMeta
from windlass.kubeapi import requests, responses
from windlass.kubeapi.errors import ApiError, NotFoundError
from windlass.kubeapi.requests import METADATA_ONLY, Request
from windlass.kubeapi.resources import ATTEMPT_RECORDS
from windlass.model import names
from windlass.model.history import AttemptRecord
from windlass.model.settings import History

log = logging.getLogger(__name__)

MAX_DELETIONS = 50
"""Maximum number of records deleted per round."""
ROUND_SEC = 10.0
"""Minimum time between two rounds of deletions."""
MAX_WAIT_SEC = 3600.0
"""Interval of rounds without new records: records expire by age."""

Send = Callable[[Request, float], Awaitable[bytes]]


class Records:
    def __init__(
        self,
        send: Send,
        guard: LeaseGuard,
        clock: Clock,
        limits: History,
        count: Callable[[RecordOutcome, int], None],
        *,
        namespaces: tuple[str, ...],
        timeout: float,
    ) -> None:
        self._send = send
        self._guard = guard
        self._clock = clock
        self._limits = limits
        self._count = count
        self._namespaces = namespaces or ("",)
        self._timeout = timeout
        self._entries: dict[tuple[str, str], RecordEntry] = {}
        self._has_new_records = asyncio.Event()

    async def load(self) -> None:
        """List the existing records. Without them, the controller works too: an error is only logged."""
        for namespace in self._namespaces:
            try:
                await self._load(namespace)
            except ApiError as error:
                log.warning("cannot list the records of attempts: %s", error, extra={"namespace": namespace})
        if self._entries:
            self._has_new_records.set()

    async def _load(self, namespace: str) -> None:
        token = ""
        while True:
            request = requests.list_page(ATTEMPT_RECORDS, namespace, continue_token=token)
            page = responses.decode_page(await self._send(request.with_accept(METADATA_ONLY), self._timeout))
            for item in page.objects:
                self.put(metadata.decode_meta(item).metadata)
            token = page.metadata.continue_
            if not token:
                return

    def is_written_or_expired(self, record: AttemptRecord) -> bool:
        """Return whether the record exists, or would be deleted at once by the retention limits."""
        if (record.namespace, record.name) in self._entries:
            return True
        new = RecordEntry(
            record.namespace, record.name, "", record.spec.framework_name, record.spec.completion_time, 0
        )
        of_namespace = [entry for entry in self._entries.values() if entry.namespace == record.namespace]
        return new in retention.expired([*of_namespace, new], self._limits, self._clock.now())

    def add(self, found: ObjectMeta) -> None:
        """Record a record that was just created."""
        self.put(found)
        self._count(RecordOutcome.WRITTEN, 1)
        self._has_new_records.set()

    def put(self, found: ObjectMeta) -> None:
        """Remember a record, or its new size."""
        size = found.annotations.get(names.RECORD_BYTES_ANNOTATION, "")
        self._entries[found.namespace, found.name] = RecordEntry(
            found.namespace,
            found.name,
            found.uid,
            found.labels.get(names.FRAMEWORK_NAME, ""),
            found.creation_timestamp or self._clock.now(),
            int(size) if size.isdecimal() else 0,
        )

    async def run(self) -> None:
        """Delete the records beyond the limits, oldest first, whenever there are new ones."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_new_records.wait(), MAX_WAIT_SEC)
            self._has_new_records.clear()
            if await self.delete_expired() >= MAX_DELETIONS:
                self._has_new_records.set()
            await asyncio.sleep(ROUND_SEC)

    async def delete_expired(self) -> int:
        """Delete at most MAX_DELETIONS records. Return how many were deleted."""
        found = retention.expired(self._entries.values(), self._limits, self._clock.now())[:MAX_DELETIONS]
        deleted = 0
        for entry in found:
            request = requests.delete(ATTEMPT_RECORDS, entry.namespace, entry.name, uid=entry.uid)
            try:
                self._guard.check(self._timeout)
                await self._send(request, self._timeout)
            except NotFoundError:
                pass
            except (ApiError, NotLeadingError) as error:
                log.warning("cannot delete old records of attempts: %s", error)
                break
            self._entries.pop((entry.namespace, entry.name), None)
            deleted += 1
        if deleted:
            self._count(RecordOutcome.DELETED, deleted)
        return deleted
