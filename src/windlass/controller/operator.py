"""One replica of the controller: acquires the lease, leads, and releases the lease."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import TextIO

from windlass import __version__
from windlass.controller.engine import http_api
from windlass.controller.engine.actions import ChoosePorts
from windlass.controller.engine.clock import Clock
from windlass.controller.engine.informers import HistoryError
from windlass.controller.engine.lease_guard import LeaseGuard, unrestricted
from windlass.controller.engine.system_clock import ServerClock
from windlass.controller.leader.election import Timings
from windlass.controller.leader.lease import Elector, LostError
from windlass.controller.leader.session import LeaderSession
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
FINISH_SEC = 5.0
"""Time for running reconciliations to end when the controller stops."""
CONNECTIONS = 2 * http_api.MAX_PARALLEL_REQUESTS
"""Maximum number of concurrent requests, without watches and the lease. More would not increase the throughput of an
API server, and the TLS handshake of each connection costs both sides more CPU time than a request."""
FLUSH_EVENTS_SEC = 2.0
"""Time to post the remaining events when the controller stops."""


class Operator:
    """One replica, from start to stop."""

    def __init__(
        self,
        settings: Settings,
        access: Access,
        machine_clock: Clock,
        *,
        identity: str,
        snapshot_stream: TextIO | None,
        choose_ports: ChoosePorts | None = None,
        has_entrypoints: bool = True,
        expects_all_definitions: bool = True,
    ) -> None:
        self._settings = settings
        self._choose_ports = choose_ports
        self._has_entrypoints = has_entrypoints
        self._expects_all_definitions = expects_all_definitions
        clock = self._clock = ServerClock(machine_clock)
        self._identity = identity
        self._lease_namespace = settings.lease_namespace or access.namespace
        self._session: LeaderSession | None = None
        self._metrics = Metrics(
            clock,
            frameworks=self._frameworks,
            queue_depth=self._queue_depth,
            is_leader=lambda: self._session is not None,
            finished_counts=lambda: (
                (0, 0) if self._session is None else self._session.cache.finished_counts()
            ),
        )
        user_agent = f"windlass-controller/{__version__} ({identity})"
        self._transport = Transport(
            access,
            connections=CONNECTIONS,
            user_agent=user_agent,
            rate_limit=_rate_limit(settings),
            observe=self._metrics.observe_request,
            on_date=clock.record_date,
        )
        # The lease has a transport of its own, so that its renewal does not wait behind other requests.
        self._lease_transport = Transport(
            access,
            user_agent=user_agent,
            observe=self._metrics.observe_request,
            on_date=clock.record_date,
        )
        self._recorder = (
            Recorder(self._transport.send, clock, instance=identity, count_outcome=self._metrics.on_event)
            if settings.events
            else None
        )
        self._observers = Observers(
            self._metrics, self._recorder, settings.log_object_snapshot, snapshot_stream, clock
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Raise errors that cannot be retried."""
        async with self._transport, self._lease_transport, self._serving_endpoints(), self._posting_events():
            while not stop.is_set():
                if not self._settings.leader_election:
                    await self._lead(None, stop)
                    continue
                elector = self._new_elector()
                if await _ends_before_stop(elector.acquire(), stop):
                    await self._lead(elector, stop)
                else:
                    # A request to acquire the lease may have been sent, and its response not read.
                    await elector.release()

    async def _lead(self, elector: Elector | None, stop: asyncio.Event) -> None:
        """Lead until the lease is lost, the API server was restored from a backup, or the controller stops."""
        guard = unrestricted() if elector is None else LeaseGuard(elector.remaining)
        log.info("started leading", extra={"identity": self._identity})
        session = self._session = LeaderSession(
            self._settings,
            self._transport,
            guard,
            self._observers,
            self._clock,
            field_manager=self._field_manager(),
            choose_ports=self._choose_ports,
            has_entrypoints=self._has_entrypoints,
            expects_all_definitions=self._expects_all_definitions,
        )
        tasks = {
            asyncio.create_task(session.run()),
            asyncio.create_task(stop.wait()),
            asyncio.create_task(elector.keep() if elector is not None else asyncio.Event().wait()),
        }
        is_lost = False
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                await session.finish(FINISH_SEC)
            for task in done:
                task.result()
        except LostError as lost:
            is_lost = True
            log.warning("stopped leading: %s", lost)
        except HistoryError as error:
            log.warning("listing all objects again: %s", error)
        finally:
            guard.revoke()
            self._session = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # The API server may still process a cancelled request. In that case, the lease is not released but expires.
            if elector is not None and not is_lost and not session.was_interrupted:
                await elector.release()

    def _field_manager(self) -> str:
        """Return a name that differs between lease namespaces, so that installations detect each other (A8). Without
        leader election, all have the same name."""
        return f"{FIELD_MANAGER}-{self._lease_namespace}" if self._settings.leader_election else FIELD_MANAGER

    def _new_elector(self) -> Elector:
        settings = self._settings

        def on_error(error: ApiError) -> None:
            log.warning("cannot acquire, renew or release the lease: %s", error)

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
            on_error=on_error,
        )

    # Endpoints and events

    @contextlib.asynccontextmanager
    async def _serving_endpoints(self) -> AsyncIterator[None]:
        listener = self._settings.metrics_listener
        host, port = (listener.host, listener.port) if listener is not None else ("", None)
        async with endpoints.serving(
            host,
            port,
            metrics=self._metrics.exposition,
            content_type=CONTENT_TYPE,
            check_liveness=lambda: "",
            check_readiness=self._not_ready_reason,
        ) as bound_port:
            if bound_port is not None:
                address = f"{host or '0.0.0.0'}:{bound_port}"  # noqa: S104
                log.info("serving metrics and health checks", extra={"address": address})
            yield

    @contextlib.asynccontextmanager
    async def _posting_events(self) -> AsyncIterator[None]:
        if self._recorder is None:
            yield
            return
        posting = asyncio.create_task(self._recorder.run())
        try:
            yield
            await self._recorder.flush(FLUSH_EVENTS_SEC)
        finally:
            posting.cancel()
            await asyncio.gather(posting, return_exceptions=True)

    def _not_ready_reason(self) -> str:
        """Return why the replica is not ready, or an empty string. A replica that waits for the lease is ready."""
        return "" if self._session is None else self._session.not_ready_reason

    def _frameworks(self) -> Iterable[Framework]:
        if self._session is None:
            return ()
        cache = self._session.cache
        return [found for key in cache.keys() if (found := cache.framework(key)) is not None]  # noqa: SIM118

    def _queue_depth(self) -> int:
        return 0 if self._session is None else len(self._session.queue)


def _rate_limit(settings: Settings) -> RateLimit | None:
    if not settings.kube_client_qps:
        return None
    return RateLimit(settings.kube_client_qps, settings.client_burst)


async def _ends_before_stop(acquiring: Coroutine[None, None, None], stop: asyncio.Event) -> bool:
    """Wait until the coroutine ends or `stop` is set, then cancel the coroutine. Return whether `stop` is not set."""
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
