"""One term of leadership: from a fresh list of all objects to the moment when another replica may lead.

A new leader starts with an empty cache, because the previous leader may have written until a moment ago. So it lists
all objects after it has acquired the lease and before it acts. When the term ends, the session is discarded.
"""

import asyncio
import logging
from collections.abc import Sequence

from windlass.controller.definitions import DefinitionMonitor
from windlass.controller.engine.actions import ChoosePorts
from windlass.controller.engine.cache import Cache
from windlass.controller.engine.clock import Clock
from windlass.controller.engine.executor import Executor
from windlass.controller.engine.http_api import HttpApi
from windlass.controller.engine.informers import HistoryError, InformerHandlers, Informers
from windlass.controller.engine.keys import FrameworkKey
from windlass.controller.engine.lease_guard import LeaseGuard
from windlass.controller.engine.queue import KeyedQueue
from windlass.controller.engine.worker_pool import WorkerPool
from windlass.controller.leader.container_logs import ContainerLogs
from windlass.controller.leader.records import Records
from windlass.controller.observe.invalid_frameworks import InvalidFrameworkReporter
from windlass.controller.observe.observers import Observers
from windlass.controller.other_controllers import OtherControllers
from windlass.decide.types import Rules
from windlass.kubeapi.reflector import Reflector
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.settings import Settings
from windlass.objects.pod import PodOptions

log = logging.getLogger(__name__)

RECHECK_SEC = 30.0
"""Interval of checks for API groups of Frameworks that the server does not serve yet."""


class LeaderSession:
    def __init__(
        self,
        settings: Settings,
        transport: Transport,
        guard: LeaseGuard,
        observers: Observers,
        clock: Clock,
        *,
        field_manager: str,
        choose_ports: ChoosePorts | None = None,
        has_entrypoints: bool = True,
        expects_all_definitions: bool = True,
    ) -> None:
        self.cache = Cache()
        self.queue: KeyedQueue[FrameworkKey] = KeyedQueue()
        timeout = settings.request_timeout_sec
        self._records = (
            Records(
                transport.send,
                guard,
                clock,
                settings.history,
                observers.on_record,
                namespaces=settings.namespaces,
                timeout=timeout,
            )
            if settings.history.enabled
            else None
        )
        self._container_logs = (
            ContainerLogs(
                transport.send,
                guard,
                find_pod_uid=self.cache.pod_uid,
                on_resized=self._records.put,
                timeout=timeout,
                monotonic=clock.monotonic,
            )
            if self._records is not None and settings.history.read_logs
            else None
        )
        api = HttpApi(
            transport.send,
            guard,
            observers,
            timeout=timeout,
            field_manager=field_manager,
            compress=settings.large_framework_compression,
            monotonic=clock.monotonic,
            records=self._records,
            logs=self._container_logs,
        )
        executor = Executor(
            api,
            self.cache,
            self.queue,
            clock,
            Rules.from_settings(settings),
            pod_options=PodOptions(settings.barrier_image, has_entrypoints),
            choose_ports=choose_ports,
            on_stored=None if self._container_logs is None else self._container_logs.on_failures,
        )
        # Before everything is listed, the pool does not run and nothing is taken from the queue.
        self._workers = WorkerPool(
            executor, self.queue, clock, workers=settings.worker_number, observe_pass=observers.on_pass_end
        )
        self._invalid_frameworks = InvalidFrameworkReporter(
            transport.send, guard, observers.on_reasons, clock, timeout=timeout, field_manager=field_manager
        )
        self._informers = Informers(
            transport,
            self.cache,
            OtherControllers(field_manager),
            InformerHandlers(
                on_change=self._workers.enqueue,
                on_deletion=observers.on_deletion,
                on_invalid=self._invalid_frameworks.report,
                on_error=observers.on_watch_error,
                write_snapshot=observers.write_snapshot,
            ),
            namespaces=settings.namespaces,
            snapshot_settings=settings.log_object_snapshot,
        )
        self._definition_monitor = DefinitionMonitor(
            transport.send, settings, expects_all=expects_all_definitions
        )
        self._manages_definitions = settings.manage_crds
        self._are_objects_listed = False

    @property
    def not_ready_reason(self) -> str:
        """Why the controller is not ready; empty if it is."""
        starting_reason = "" if self._are_objects_listed else "the objects are not listed yet"
        return self._definition_monitor.error or starting_reason

    @property
    def was_interrupted(self) -> bool:
        return self._workers.was_interrupted

    async def run(self) -> None:
        """Run until cancelled.

        Raises HistoryError if the API server was restored from a backup, and the errors of `DefinitionMonitor.install`.
        """
        if self._manages_definitions:
            await self._definition_monitor.install()
        try:
            await self._run_tasks()
        except BaseExceptionGroup as group:
            found = group.subgroup(HistoryError)
            if found is None:
                raise
            raise HistoryError(*found.exceptions[0].args) from group

    async def finish(self, timeout: float) -> None:
        """Start no new passes, and wait up to `timeout` seconds for the running ones to end."""
        await self._workers.finish(timeout)

    async def _run_tasks(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._invalid_frameworks.run())
            missing = await self._watch_frameworks(tasks, names.GROUPS)
            await self._watch(tasks, self._informers.for_config_maps())
            await self._watch(tasks, self._informers.for_pods())
            if self._records is not None:
                await self._records.load()
                tasks.create_task(self._records.run())
            if self._container_logs is not None:
                tasks.create_task(self._container_logs.run())
            self._are_objects_listed = True
            self._workers.enqueue(self.cache.keys())
            tasks.create_task(self._workers.run())
            tasks.create_task(self._load_completed([group for group in names.GROUPS if group not in missing]))
            log.info("controller is working", extra={"frameworks": len(tuple(self.cache.keys()))})
            while missing:
                await asyncio.sleep(RECHECK_SEC)
                before, missing = missing, await self._watch_frameworks(tasks, missing)
                if found := [group for group in before if group not in missing]:
                    tasks.create_task(self._load_completed(found))

    async def _load_completed(self, groups: Sequence[str]) -> None:
        for group in groups:
            await self._informers.load_completed(group, lambda: len(self.queue) > 0)

    async def _watch_frameworks(self, tasks: asyncio.TaskGroup, groups: Sequence[str]) -> tuple[str, ...]:
        """Watch the Frameworks of the groups that are served. Return the other groups."""
        served = await self._definition_monitor.served_groups()
        for group in groups:
            if group in served:
                await self._watch(tasks, self._informers.for_frameworks(group))
        return tuple(group for group in groups if group not in served)

    async def _watch(self, tasks: asyncio.TaskGroup, reflectors: list[Reflector]) -> None:
        """Start the reflectors and return when all of them have listed their objects."""
        for reflector in reflectors:
            tasks.create_task(reflector.run())
        for reflector in reflectors:
            await reflector.listed.wait()
