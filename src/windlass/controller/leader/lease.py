"""Holds the Lease, or waits for it: sends what `election` decides.

While it leads, a candidate writes once per retry period; while it waits, it reads once. Clocks, sleep and chance come
in from outside, as does the way to the server, so a simulation can run this very file.
"""

import math
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import NoReturn, Protocol

import msgspec

from windlass.controller.leader import election
from windlass.controller.leader.election import LeaseRecord, Seen, Timings
from windlass.kubeapi import requests
from windlass.kubeapi.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
    UnansweredError,
)
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import LEASES


class Send(Protocol):
    async def __call__(self, request: Request, timeout: float) -> bytes:
        """The body of a good answer; an ApiError within `timeout` seconds otherwise."""


class LostError(Exception):
    """The lease is no longer held. The message says why."""


class Elector:
    """One candidate for one Lease: `acquire`, then `keep`, and `release` at the end, one at a time."""

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
        troubled: Callable[[ApiError], None] = lambda _: None,
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
        self._troubled = troubled
        self._seen = Seen()
        self._ours: LeaseRecord | None = None
        """What our last write left behind; None when it is not known that it still stands so."""
        self._tried_at = -math.inf
        self._term_began: float | None = None
        """The moment before the last successful write was sent; None: we do not lead."""

    def remaining(self) -> float:
        """For so many seconds from now nobody else can lead; 0 when we do not."""
        if self._term_began is None:
            return 0.0
        return max(0.0, self._term_began + self._timings.duration - self._monotonic())

    async def acquire(self) -> None:
        """Returns when we lead."""
        while not await self._could_take():
            await self._sleep(self._timings.retry_period * (1 + election.JITTER * self._jitter()))

    async def keep(self) -> NoReturn:
        """Renews until that fails for too long or somebody else holds the lease; then raises LostError."""
        while True:
            if self._term_began is None:
                raise LostError("the lease is not held")
            due = self._tried_at + self._timings.retry_period
            deadline = self._term_began + self._timings.renew_deadline
            now = self._monotonic()
            if now >= deadline:
                self._lose(f"the lease was not renewed for {self._timings.renew_deadline:g} s")
            if now < due:
                await self._sleep(min(due, deadline) - now)
            else:
                await self._renew(deadline)

    async def release(self) -> bool:
        """Lets somebody else lead at once, if we still hold the lease. Everything else must have stopped before."""
        self._term_began = None
        deadline = self._monotonic() + self._timings.renew_deadline
        try:
            if self._ours is not None:
                with suppress(ConflictError, NotFoundError):
                    await self._write(self._ours.without_holder(self._now()), deadline)
                    return True
            record = await self._look(deadline)
            if record is None or record.holder_identity != self._identity:
                return False
            await self._write(record.without_holder(self._now()), deadline)
        except ApiError as error:
            self._troubled(error)
            return False
        return True

    async def _could_take(self) -> bool:
        try:
            return await self._attempt(deadline=math.inf)
        except (ConflictError, AlreadyExistsError):
            return False
        except ApiError as error:
            self._troubled(error)
            return False

    async def _renew(self, deadline: float) -> None:
        try:
            is_ours = await self._attempt(deadline)
        except ApiError as error:
            self._troubled(error)
            return
        if not is_ours:
            self._lose(f"the lease is held by {self._seen.holder}")

    def _lose(self, reason: str) -> NoReturn:
        self._term_began = None
        self._ours = None
        raise LostError(reason)

    async def _attempt(self, deadline: float) -> bool:
        """Takes or renews the lease; False when somebody else holds it."""
        self._tried_at = self._monotonic()
        if self._ours is not None:
            # Refused when somebody has written since; that does not say who leads now.
            with suppress(ConflictError, NotFoundError):
                await self._claim(self._ours, deadline)
                return True
        record = await self._look(deadline)
        if not self._seen.is_free_for(self._identity, self._monotonic()):
            return False
        await self._claim(record, deadline)
        return True

    async def _look(self, deadline: float) -> LeaseRecord | None:
        try:
            body = await self._ask(requests.get(LEASES, self._namespace, self._name), deadline)
        except NotFoundError:
            record = None
        else:
            record = _decoded(body)
        # Not the moment of asking: the lease may have been renewed between that and the answer.
        self._seen = self._seen.with_look(record, self._monotonic(), self._timings.duration)
        return record

    async def _claim(self, record: LeaseRecord | None, deadline: float) -> None:
        began = self._monotonic()
        seconds, now = self._timings.duration_seconds, self._now()
        if record is None:
            claim = election.new_lease(self._namespace, self._name, self._identity, seconds, now)
        else:
            claim = record.with_holder(self._identity, seconds, now)
        self._ours = await self._write(claim, deadline)
        self._term_began = began

    async def _write(self, record: LeaseRecord, deadline: float) -> LeaseRecord:
        # Without an answer it may have been written or not, so until there is one nothing is known.
        self._ours = None
        body = election.encode(record)
        if record.resource_version:
            request = requests.replace(LEASES, self._namespace, self._name, body)
        else:
            request = requests.create(LEASES, self._namespace, body)
        return _decoded(await self._ask(request, deadline))

    async def _ask(self, request: Request, deadline: float) -> bytes:
        """Never beyond the deadline; and one lost answer leaves time for another try before it."""
        left = deadline - self._monotonic()
        if left <= 0:
            raise UnansweredError("there was no time left to ask for the lease")
        return await self._send(request, timeout=min(left, self._timings.renew_deadline / 2))


def _decoded(body: bytes) -> LeaseRecord:
    try:
        return election.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnansweredError(f"the answer is no Lease: {error}") from error
