"""The controller: waits for its turn to lead, leads, and steps down."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import TextIO

from windlass import __version__
from windlass.controller.engine.actions import ChoosePorts
from windlass.controller.engine.clock import Clock
from windlass.controller.engine.informers import HistoryError
from windlass.controller.engine.lease_guard import Gate, always_open
from windlass.controller.leader.election import Timings
from windlass.controller.leader.lease import Elector, LostError
from windlass.controller.leader.server_clock import ServerClock
from windlass.controller.leader.session import Term
from windlass.controller.observe import endpoints
from windlass.controller.observe.events import Recorder
from windlass.controller.observe.metrics import CONTENT_TYPE, Metrics
from windlass.controller.observe.observers import Observers
from windlass.kubeapi.access import Access
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.rate_limit import RateLimit
from windlass.kubeapi.transport import Transport
from windlass.model.framework import Framework
from windlass.model.settings import Settings

log = logging.getLogger(__name__)

FIELD_MANAGER = "windlass"
STEP_DOWN_SEC = 5.0
"""For so long passes may come to their end when the controller is asked to stop."""
LAST_WORDS_SEC = 2.0
"""For so long events may still be posted."""


class Operator:
    """One replica, from its start to its stop."""

    def __init__(
        self,
        settings: Settings,
        access: Access,
        machine_clock: Clock,
        *,
        identity: str,
        stream: TextIO | None,
        choose_ports: ChoosePorts | None = None,
    ) -> None:
        self._settings = settings
        self._choose_ports = choose_ports
        clock = self._clock = ServerClock(machine_clock)
        self._identity = identity
        self._lease_namespace = settings.lease_namespace or access.namespace
        self._term: Term | None = None
        self._metrics = Metrics(
            clock,
            frameworks=self._frameworks,
            queue_depth=self._queue_depth,
            is_leader=lambda: self._term is not None,
        )
        user_agent = f"windlass-controller/{__version__} ({identity})"
        self._transport = Transport(
            access,
            user_agent=user_agent,
            rate_limit=_rate_limit(settings),
            observe=self._metrics.observe_request,
            hear_time=clock.heard,
        )
        # A lease that waits behind a thousand pods is a lease that is lost.
        self._lease_transport = Transport(
            access,
            user_agent=user_agent,
            observe=self._metrics.observe_request,
            hear_time=clock.heard,
        )
        self._recorder = (
            Recorder(self._transport.send, clock, instance=identity, count=self._metrics.event)
            if settings.events
            else None
        )
        self._observers = Observers(
            self._metrics, self._recorder, settings.log_object_snapshot, stream, clock
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Until it is asked to stop. Raises what it cannot go on after."""
        async with self._transport, self._lease_transport, self._answering(), self._recording():
            while not stop.is_set():
                if not self._settings.leader_election:
                    await self._lead(None, stop)
                    continue
                elector = self._new_elector()
                if await _is_first(elector.acquire(), stop):
                    await self._lead(elector, stop)
                else:
                    # There may be a claim under way whose answer nobody has waited for.
                    await elector.release()

    async def _lead(self, elector: Elector | None, stop: asyncio.Event) -> None:
        """One term, until it is lost or the controller stops."""
        gate = always_open()
        if elector is not None:
            gate = Gate()
            gate.open(elector)
        log.info("leading", extra={"identity": self._identity})
        term = self._term = Term(
            self._settings,
            self._transport,
            gate,
            self._observers,
            self._clock,
            field_manager=self._manager(),
            choose_ports=self._choose_ports,
        )
        tasks = {
            asyncio.create_task(term.run()),
            asyncio.create_task(stop.wait()),
            asyncio.create_task(elector.keep() if elector is not None else asyncio.Event().wait()),
        }
        is_lost = False
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                await term.finish(STEP_DOWN_SEC)
            for task in done:
                task.result()
        except LostError as lost:
            is_lost = True
            log.warning("not leading any more: %s", lost)
        except HistoryError as error:
            log.warning("everything is looked at afresh: %s", error)
        finally:
            gate.close()
            self._term = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # A request that was cut short may still arrive: then the lease has to run out by itself.
            if elector is not None and not is_lost and not term.was_cut_short:
                await elector.release()

    def _manager(self) -> str:
        """Two installations that do not know of each other are told apart, and do not both go on (A8)."""
        return f"{FIELD_MANAGER}-{self._lease_namespace}" if self._settings.leader_election else FIELD_MANAGER

    def _new_elector(self) -> Elector:
        settings = self._settings

        def troubled(error: ApiError) -> None:
            log.warning("the lease cannot be had: %s", error)

        return Elector(
            self._lease_transport.send,
            namespace=self._lease_namespace,
            name=settings.lease_name,
            identity=self._identity,
            timings=Timings(
                settings.lease_duration_sec,
                settings.lease_renew_deadline_sec,
                settings.lease_retry_period_sec,
            ),
            monotonic=self._clock.monotonic,
            now=self._clock.now,
            sleep=asyncio.sleep,
            troubled=troubled,
        )

    # What others see of it

    @contextlib.asynccontextmanager
    async def _answering(self) -> AsyncIterator[None]:
        listener = self._settings.metrics_listener
        host, port = (listener.host, listener.port) if listener is not None else ("", None)
        async with endpoints.serving(
            host,
            port,
            metrics=self._metrics.exposition,
            content_type=CONTENT_TYPE,
            alive=lambda: "",
            ready=self._trouble,
        ) as listening:
            if listening is not None:
                log.info("serving", extra={"address": f"{host or '0.0.0.0'}:{listening}"})  # noqa: S104
            yield

    @contextlib.asynccontextmanager
    async def _recording(self) -> AsyncIterator[None]:
        if self._recorder is None:
            yield
            return
        posting = asyncio.create_task(self._recorder.run())
        try:
            yield
            await self._recorder.flush(LAST_WORDS_SEC)
        finally:
            posting.cancel()
            await asyncio.gather(posting, return_exceptions=True)

    def _trouble(self) -> str:
        """One that waits for its turn is as ready as can be."""
        return "" if self._term is None else self._term.trouble

    def _frameworks(self) -> Iterable[Framework]:
        if self._term is None:
            return ()
        cache = self._term.cache
        return [found for key in cache.keys() if (found := cache.framework(key)) is not None]  # noqa: SIM118

    def _queue_depth(self) -> int:
        return 0 if self._term is None else len(self._term.queue)


def _rate_limit(settings: Settings) -> RateLimit | None:
    if not settings.kube_client_qps:
        return None
    return RateLimit(settings.kube_client_qps, settings.client_burst)


async def _is_first(acquiring: Coroutine[None, None, None], stop: asyncio.Event) -> bool:
    """Whether it came to its end before the stop."""
    acquired = asyncio.create_task(acquiring)
    tasks = {acquired, asyncio.create_task(stop.wait())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if acquired.done():
            acquired.result()
        return not stop.is_set()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
