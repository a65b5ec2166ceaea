"""Acquires, renews and releases the Lease, as decided by `election`.

Once per retry period, the leader writes the Lease and each other candidate reads it. Clocks, sleep, randomness and the
transport are arguments, so that tests can simulate them.
"""

import math
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import NoReturn, Protocol

import msgspec

from windlass.controller.leader import election
from windlass.controller.leader.election import LeaseRecord, ObservedLease, Timings
from windlass.kubeapi import requests
from windlass.kubeapi.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
    NoValidResponseError,
)
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import LEASES


class Send(Protocol):
    async def __call__(self, request: Request, timeout: float) -> bytes:
        """Return the body of a successful answer. Raise an ApiError within `timeout` seconds otherwise."""


class LostError(Exception):
    """The lease is no longer held. The message says why."""


class Elector:
    """One candidate for one Lease. Call `acquire`, then `keep`, then `release`; never two of them at the same time."""

    def __init__(
        self,
        send: Send,
        *,
        namespace: str,
        name: str,
        identity: str,
        timings: Timings,
        monotonic: Callable[[], float],
        now: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]],
        jitter: Callable[[], float] = random.random,
        on_error: Callable[[ApiError], None] = lambda _: None,
    ) -> None:
        self._send = send
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._timings = timings
        self._monotonic = monotonic
        self._now = now
        self._sleep = sleep
        self._jitter = jitter
        self._on_error = on_error
        self._observed = ObservedLease()
        self._own_lease: LeaseRecord | None = None
        """The Lease as this candidate last wrote it; None if it wrote none or the Lease may have changed since."""
        self._tried_at = -math.inf
        self._renewed_at: float | None = None
        """When the last successful write was sent; None if this candidate does not lead."""

    def remaining(self) -> float:
        """Return the seconds for which no other candidate can lead; 0 if this one does not lead."""
        if self._renewed_at is None:
            return 0.0
        return max(0.0, self._renewed_at + self._timings.duration - self._monotonic())

    async def acquire(self) -> None:
        """Return when this candidate leads."""
        while not await self._try_to_acquire():
            await self._sleep(self._timings.retry_period * (1 + election.JITTER * self._jitter()))

    async def keep(self) -> NoReturn:
        """Renew the lease. Raise LostError when that fails for too long or another candidate holds the lease."""
        while True:
            if self._renewed_at is None:
                raise LostError("the lease is not held")
            due = self._tried_at + self._timings.retry_period
            deadline = self._renewed_at + self._timings.renew_deadline
            now = self._monotonic()
            if now >= deadline:
                self._raise_lost(f"the lease was not renewed for {self._timings.renew_deadline:g} s")
            if now < due:
                await self._sleep(min(due, deadline) - now)
            else:
                await self._renew(deadline)

    async def release(self) -> bool:
        """Release the lease if it is held, so that another candidate can lead at once. Return whether it was released.

        The caller must have stopped all work of the leader before.
        """
        self._renewed_at = None
        deadline = self._monotonic() + self._timings.renew_deadline
        try:
            if self._own_lease is not None:
                with suppress(ConflictError, NotFoundError):
                    await self._write(self._own_lease.without_holder(self._now()), deadline)
                    return True
            record = await self._read(deadline)
            if record is None or record.holder_identity != self._identity:
                return False
            await self._write(record.without_holder(self._now()), deadline)
        except ApiError as error:
            self._on_error(error)
            return False
        return True

    async def _try_to_acquire(self) -> bool:
        try:
            return await self._acquire_or_renew(deadline=math.inf)
        except (ConflictError, AlreadyExistsError):
            return False
        except ApiError as error:
            self._on_error(error)
            return False

    async def _renew(self, deadline: float) -> None:
        try:
            is_ours = await self._acquire_or_renew(deadline)
        except ApiError as error:
            self._on_error(error)
            return
        if not is_ours:
            self._raise_lost(f"the lease is held by {self._observed.holder}")

    def _raise_lost(self, reason: str) -> NoReturn:
        self._renewed_at = None
        self._own_lease = None
        raise LostError(reason)

    async def _acquire_or_renew(self, deadline: float) -> bool:
        """Acquire or renew the lease. Return False if another candidate holds it."""
        self._tried_at = self._monotonic()
        if self._own_lease is not None:
            # These errors show only that the Lease was changed or deleted. Its holder has to be read.
            with suppress(ConflictError, NotFoundError):
                await self._claim(self._own_lease, deadline)
                return True
        record = await self._read(deadline)
        if not self._observed.is_free_for(self._identity, self._monotonic()):
            return False
        await self._claim(record, deadline)
        return True

    async def _read(self, deadline: float) -> LeaseRecord | None:
        try:
            body = await self._request(requests.get(LEASES, self._namespace, self._name), deadline)
        except NotFoundError:
            record = None
        else:
            record = _decode(body)
        # The time of the answer counts, because the lease may have been renewed after the request was sent.
        self._observed = self._observed.with_record(record, self._monotonic(), self._timings.duration)
        return record

    async def _claim(self, record: LeaseRecord | None, deadline: float) -> None:
        sent_at = self._monotonic()
        seconds, now = self._timings.duration_seconds, self._now()
        if record is None:
            claim = election.new_lease(self._namespace, self._name, self._identity, seconds, now)
        else:
            claim = record.with_holder(self._identity, seconds, now)
        self._own_lease = await self._write(claim, deadline)
        self._renewed_at = sent_at

    async def _write(self, record: LeaseRecord, deadline: float) -> LeaseRecord:
        # Until the answer arrives it is unknown whether the Lease was written.
        self._own_lease = None
        body = election.encode(record)
        if record.resource_version:
            request = requests.replace(LEASES, self._namespace, self._name, body)
        else:
            request = requests.create(LEASES, self._namespace, body)
        return _decode(await self._request(request, deadline))

    async def _request(self, request: Request, deadline: float) -> bytes:
        """Send a request that ends by the deadline and, to allow a retry, takes at most half of the renew deadline."""
        remaining = deadline - self._monotonic()
        if remaining <= 0:
            raise NoValidResponseError("no time left to request the lease")
        return await self._send(request, timeout=min(remaining, self._timings.renew_deadline / 2))


def _decode(body: bytes) -> LeaseRecord:
    try:
        return election.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NoValidResponseError(f"the response is not a Lease: {error}") from error
