"""Leader election in virtual time: an in-memory server, an unreliable network, and no real waiting."""

import heapq
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import coroutine
from typing import Any, NamedTuple

import msgspec

from windlass.controller.leader.election import Timings
from windlass.controller.leader.lease import Elector, LostError
from windlass.kubeapi import errors
from windlass.kubeapi.errors import ApiError, NoValidResponseError
from windlass.kubeapi.requests import Request, Verb

Running = Coroutine[Any, Any, None]


@coroutine
def pause(seconds: float) -> Generator[float, None, None]:
    yield seconds


class World:
    """The virtual time and the waiting tasks. A step takes no time."""

    def __init__(self, check: Callable[[], None] = lambda: None) -> None:
        self.now = 1000.0
        self._check = check
        self._due: list[tuple[float, int, Running]] = []
        self._serial = 0

    def spawn(self, running: Running) -> None:
        self._go_on(running, 0)

    def _go_on(self, running: Running, after: float) -> None:
        self._serial += 1
        heapq.heappush(self._due, (self.now + after, self._serial, running))

    def kill(self, running: Running) -> None:
        self._due = [entry for entry in self._due if entry[2] is not running]
        heapq.heapify(self._due)
        running.close()

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            self.now, _, running = heapq.heappop(self._due)
            with suppress(StopIteration):
                self._go_on(running, running.send(None))
            self._check()
        self.now = end


class Fate(NamedTuple):
    """Faults of the network and the server."""

    there: float = 0.01
    back: float = 0.01
    arrives: bool = True
    answers: bool = True
    code: int = 0
    """The status code of a rejection before the request is processed."""


class Server:
    """One Lease, as an API server stores it."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self._version = 0

    def store(self, lease: dict[str, Any]) -> None:
        self._version += 1
        lease["metadata"]["resourceVersion"] = str(self._version)
        self.lease = lease

    def touch(self) -> None:
        """Change the Lease without changing the holder, e.g. set a label."""
        if self.lease is not None:
            changed: dict[str, Any] = copy_of(self.lease)
            changed["metadata"]["labels"] = {"touched": str(self._version)}
            self.store(changed)

    def holder(self) -> str | None:
        return None if self.lease is None else self.lease["spec"]["holderIdentity"]

    def answer(self, request: Request) -> bytes | ApiError:
        if request.verb is Verb.CREATE:
            if self.lease is not None:
                return _refusal(409, "AlreadyExists")
            self.store(msgspec.json.decode(request.body))
        elif self.lease is None:
            return _refusal(404, "NotFound")
        elif request.verb is Verb.UPDATE:
            sent = msgspec.json.decode(request.body)
            if sent["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                return _refusal(409, "Conflict")
            if sent != self.lease:
                self.store(sent)
        return msgspec.json.encode(self.lease)


def copy_of(lease: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(lease))


def _refusal(code: int, reason: str) -> ApiError:
    body = {"kind": "Status", "code": code, "reason": reason, "message": "no"}
    return errors.from_response(code, {}, msgspec.json.encode(body))


class Sent(NamedTuple):
    at: float
    by: str
    verb: Verb
    timeout: float


class Cluster:
    """A server, and candidates that reach it over a network."""

    def __init__(self, fate: Callable[[Request], Fate] = lambda _: Fate()) -> None:
        self.world = World(self._check)
        self.server = Server()
        self.fate = fate
        self.electors: list[Elector] = []
        self.sent: list[Sent] = []
        self.troubles: list[ApiError] = []
        self.led: list[str] = []
        self.lost: list[str] = []

    def _check(self) -> None:
        leaders = [elector for elector in self.electors if elector.remaining() > 0]
        assert len(leaders) <= 1, f"{len(leaders)} leaders at {self.world.now}"

    def elector(
        self,
        identity: str,
        timings: Timings = Timings(),  # noqa: B008
        now: Callable[[], datetime] | None = None,
        stall: Callable[[], float] = lambda: 0.0,
        jitter: Callable[[], float] = lambda: 0.5,
    ) -> Elector:
        async def send(request: Request, timeout: float) -> bytes:
            self.sent.append(Sent(self.world.now, identity, request.verb, timeout))
            return await self._send(request, timeout, stall)

        async def sleep(seconds: float) -> None:
            assert seconds > 0
            await pause(seconds + stall())

        offset = 10_000.0 * len(self.electors)
        new_elector = Elector(
            send,
            namespace="system",
            name="windlass",
            identity=identity,
            timings=timings,
            monotonic=lambda: self.world.now + offset,
            now=now or (lambda: datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=self.world.now)),
            sleep=sleep,
            jitter=jitter,
            on_error=self.troubles.append,
        )
        self.electors.append(new_elector)
        return new_elector

    async def _send(self, request: Request, timeout: float, stall: Callable[[], float]) -> bytes:
        fate = self.fate(request)
        answers: list[bytes | ApiError] = []

        async def arrive() -> None:
            await pause(fate.there)
            answers.append(_refusal(fate.code, "") if fate.code else self.server.answer(request))

        if fate.arrives:
            self.world.spawn(arrive())
        is_answered = fate.arrives and fate.answers and fate.there + fate.back < timeout
        await pause(fate.there + fate.back + stall() if is_answered else timeout + stall())
        if not is_answered:
            raise NoValidResponseError("no answer")
        if isinstance(answers[0], ApiError):
            raise answers[0]
        return answers[0]

    async def term(self, elector: Elector, identity: str) -> None:
        await elector.acquire()
        self.led.append(identity)
        try:
            await elector.keep()
        except LostError as error:
            self.lost.append(str(error))

    async def life(self, elector: Elector, identity: str) -> None:
        while True:
            await self.term(elector, identity)

    def start(self, identity: str, **options: Any) -> tuple[Elector, Running]:
        elector = self.elector(identity, **options)
        running = self.life(elector, identity)
        self.world.spawn(running)
        return elector, running

    def requests(self, identity: str) -> list[Verb]:
        return [sent.verb for sent in self.sent if sent.by == identity]
