"""A replica of the controller in the Simulation: it acquires the lease with the real Elector, leads, and stops."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from windlass.controller.engine.lease_guard import LeaseGuard
from windlass.controller.leader.election import Timings
from windlass.controller.leader.lease import Elector, LostError
from windlass.kubeapi import errors
from windlass.kubeapi.errors import ApiError, NoValidResponseError
from windlass.kubeapi.requests import Request, Verb
from windlass.simulate.controllers import SimulatedController
from windlass.simulate.machines import Machine
from windlass.simulate.scenario import Occurrence
from windlass.simulate.virtual_time import Resume, Task, Wait

TIMINGS = Timings(duration=30.0, renew_deadline=22.0, retry_period=10.0)
"""Longer than the defaults: renewals of the Lease would be most of the work of a simulation."""
FINISH_SEC = 5.0
"""Time for running passes to end when a replica stops."""
LEASE_OUTAGE_SEC = 35.0
"""Longer than the lease, so that it expires."""


class LeaseServer:
    """The Lease in the API server."""

    def __init__(self) -> None:
        self._lease: dict[str, Any] = {}
        self._version = 0
        self.holder = ""
        """The identity of the leader; empty if there is none."""

    def answer(self, request: Request) -> bytes | ApiError:
        """Perform a GET, POST or PUT, and return the Lease or an error."""
        if request.verb is Verb.CREATE and self._lease:
            return _error(409, "AlreadyExists")
        if request.verb is not Verb.CREATE and not self._lease:
            return _error(404, "NotFound")
        if request.verb is not Verb.GET:
            lease = msgspec.json.decode(request.body)
            if lease["metadata"].get("resourceVersion", "0") != str(self._version):
                return _error(409, "Conflict")
            self._version += 1
            lease["metadata"]["resourceVersion"] = str(self._version)
            self._lease, self.holder = lease, lease["spec"]["holderIdentity"]
        return msgspec.json.encode(self._lease)


def _error(code: int, reason: str) -> ApiError:
    return errors.from_response(code, {}, msgspec.json.encode({"kind": "Status", "reason": reason}))


class Replica:
    """One process of the controller, from start to stop or crash.

    `new_session` starts the work of a leader. Its arguments are the lease guard and a function that returns whether
    another replica holds the lease.
    """

    def __init__(
        self,
        machine: Machine,
        lease: LeaseServer,
        new_session: Callable[[LeaseGuard, Callable[[], bool]], SimulatedController],
        identity: str,
        occurred: set[Occurrence],
    ) -> None:
        self.machine = machine
        self._lease = lease
        self._new_session = new_session
        self._identity = identity
        self._occurred = occurred
        self.session: SimulatedController | None = None
        """The work of the leader; None if this replica does not lead."""
        self._lease_outage_ends = machine.now
        self._elector = self._new_elector()
        self._election = Task(self._run())
        self._election.start()

    async def _run(self) -> None:
        """Acquire the lease, lead until it is lost, and start again, like `Operator.run`."""
        while True:
            await self._elector.acquire()
            guard = LeaseGuard(self._elector.remaining)
            self.session = self._new_session(guard, self._has_other_leader)
            try:
                await self._elector.keep()
            except LostError:
                self._occurred.add(Occurrence.LEASE_LOST)
            self._end_session()
            self._elector = self._new_elector()

    def _new_elector(self) -> Elector:
        clock = self.machine.clock
        return Elector(
            self._send,
            namespace="windlass",
            name="windlass-controller",
            identity=self._identity,
            timings=TIMINGS,
            monotonic=clock.monotonic,
            now=clock.now,
            sleep=self.machine.sleep,
            jitter=self.machine.random.random,
        )

    def _has_other_leader(self) -> bool:
        return self._lease.holder not in ("", self._identity)

    def _end_session(self) -> None:
        if self.session is not None:
            self.session.end()
            self.session = None

    def crash(self) -> None:
        self._election.close()
        self._end_session()

    def stop(self) -> None:
        """Let running passes end and release the lease. If they do not end in time, the lease expires."""
        if self.session is not None:
            self.session.is_stopping = True
        self._finish(self.machine.now + timedelta(seconds=FINISH_SEC))

    def _finish(self, deadline: datetime) -> None:
        is_interrupted = self.session is not None and self.session.is_busy
        if is_interrupted and self.machine.now < deadline:
            self.machine.later(0.5, partial(self._finish, deadline))
            return
        self.crash()
        if not is_interrupted:
            self._occurred.add(Occurrence.LEASE_RELEASED)
            Task(self._elector.release()).start()

    def lose_lease(self) -> None:
        """Let requests for the Lease fail until it has expired."""
        self._lease_outage_ends = self.machine.now + timedelta(seconds=LEASE_OUTAGE_SEC)

    async def _send(self, request: Request, timeout: float) -> bytes:
        """Return the answer to a request for the Lease, or raise an ApiError, within `timeout` seconds."""
        sent_at = self.machine.clock.monotonic()
        answer: bytes | ApiError = await Wait(partial(self._transmit, request, timeout))
        if isinstance(answer, ApiError):
            raise answer
        self.machine.record_date(sent_at)
        return answer

    def _transmit(self, request: Request, timeout: float, resume: Resume) -> None:
        """Send the request, and resume with its answer or an error. A failed write may be stored nevertheless."""
        machine = self.machine
        there, back = machine.latency(), machine.latency()
        is_outage = machine.now < self._lease_outage_ends
        is_failure = is_outage or machine.random.random() < machine.faults().lease_error
        is_answered = not is_failure and there + back < timeout

        def arrive() -> None:
            answer = self._lease.answer(request)
            if is_answered:
                machine.later(back, partial(resume, answer))

        if not is_outage and (is_answered or machine.random.random() < 0.5):
            machine.later(there, arrive)
        if not is_answered:
            machine.later(min(there + back, timeout), partial(resume, NoValidResponseError("no answer")))
