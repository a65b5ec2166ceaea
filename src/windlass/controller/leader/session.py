"""One term of leadership: from a fresh list of everything to the moment at which somebody else may lead.

A new leader knows nothing: its predecessor has written until a moment ago, so everything is listed after the lease is
held and before anything is done. When the term ends, all of it is thrown away.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from windlass.controller import definitions
from windlass.controller.engine.actions import ChoosePorts
from windlass.controller.engine.api_port import ApiPort
from windlass.controller.engine.cache import Cache
from windlass.controller.engine.clock import Clock
from windlass.controller.engine.executor import Executor
from windlass.controller.engine.informers import Hearers, HistoryError, Informers
from windlass.controller.engine.keys import FrameworkKey
from windlass.controller.engine.lease_guard import Gate
from windlass.controller.engine.queue import KeyedQueue
from windlass.controller.engine.worker_pool import Driver
from windlass.controller.observe.invalid_frameworks import Complaints
from windlass.controller.observe.observers import Observers
from windlass.controller.other_controllers import Rivals
from windlass.decide.types import Rules
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ApiError, ForbiddenError, InvalidError, NotFoundError
from windlass.kubeapi.following import Follower
from windlass.kubeapi.resources import frameworks
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.settings import Settings

log = logging.getLogger(__name__)

LOOK_AGAIN_SEC = 30.0
"""So often definitions that had to be complained about are looked at again."""
ASK_AGAIN_SEC = 1.0

T = TypeVar("T")


class Term:
    def __init__(
        self,
        settings: Settings,
        transport: Transport,
        gate: Gate,
        observers: Observers,
        clock: Clock,
        *,
        field_manager: str,
        choose_ports: ChoosePorts | None = None,
    ) -> None:
        self._settings = settings
        self._transport = transport
        self.cache = Cache()
        self.queue: KeyedQueue[FrameworkKey] = KeyedQueue()
        port = ApiPort(
            transport.send,
            gate,
            observers,
            timeout=settings.request_timeout_sec,
            field_manager=field_manager,
            compress=settings.large_framework_compression,
            monotonic=clock.monotonic,
        )
        executor = Executor(
            port,
            self.cache,
            self.queue,
            clock,
            Rules.from_settings(settings),
            barrier_image=settings.barrier_image,
            choose_ports=choose_ports,
        )
        self._driver = Driver(
            executor,
            self.queue,
            clock,
            at_a_time=settings.worker_number,
            observe_pass=observers.passed,
        )
        self._complaints = Complaints(
            transport.send,
            gate,
            observers,
            clock,
            timeout=settings.request_timeout_sec,
            field_manager=field_manager,
        )
        self._informers = Informers(
            transport,
            self.cache,
            Rivals(field_manager),
            Hearers(
                # Before everything is listed, nobody takes from the queue.
                changed=self._driver.changed,
                gone=observers.gone,
                unreadable=self._complaints.about,
                troubled=observers.troubled,
                snapshot=observers.snapshot,
            ),
            namespaces=settings.namespaces,
            wanted_snapshots=settings.log_object_snapshot,
        )
        self._is_listed = False
        self._told: tuple[definitions.Problem, ...] = ()
        self._unserved = ""
        """Why there are no Frameworks at all that could be run; empty when there may be."""

    @property
    def trouble(self) -> str:
        """Why it does not work; empty when it does."""
        return self._unserved or ("" if self._is_listed else "not everything is listed yet")

    @property
    def was_cut_short(self) -> bool:
        return self._driver.was_cut_short

    async def run(self) -> None:
        """Until it is cancelled. Raises HistoryError when what is known cannot be trusted any more."""
        if self._settings.manage_crds:
            await self._manage_definitions()
        try:
            await self._work()
        except BaseExceptionGroup as group:
            found = group.subgroup(HistoryError)
            if found is None:
                raise
            raise HistoryError(*found.exceptions[0].args) from group

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._complaints.run())
            missing = await self._follow_frameworks(tasks, names.GROUPS)
            await self._follow(tasks, self._informers.of_config_maps())
            await self._follow(tasks, self._informers.of_pods())
            self._is_listed = True
            self._driver.changed(self.cache.keys())
            tasks.create_task(self._driver.run())
            log.info("working", extra={"frameworks": len(tuple(self.cache.keys()))})
            while missing:
                await asyncio.sleep(LOOK_AGAIN_SEC)
                missing = await self._follow_frameworks(tasks, missing)

    async def _manage_definitions(self) -> None:
        """A refusal ends the controller; everything else passes."""

        def manage() -> Awaitable[tuple[str, ...]]:
            return definitions.manage(
                self._transport.send,
                self._settings.crd_established_check_interval_sec,
                self._settings.crd_established_check_timeout_sec,
                asyncio.sleep,
            )

        for done in await _insisting(manage, "managed"):
            log.info("%s", done)

    async def finish(self, timeout: float) -> None:
        """No new passes; those that run come to their end."""
        await self._driver.finish(timeout)

    async def _follow_frameworks(self, tasks: asyncio.TaskGroup, groups: Sequence[str]) -> tuple[str, ...]:
        """Those of the groups whose definition is as it should be. Returns the others."""
        problems = await self._problems()
        served = definitions.served_groups(problems)
        self._unserved = "" if served else " ".join(problem.message for problem in problems)
        for group in groups:
            if group in served:
                await self._follow(tasks, self._informers.of_frameworks(group))
        return tuple(group for group in groups if group not in served)

    async def _problems(self) -> tuple[definitions.Problem, ...]:
        """What is wrong with the definitions. One who may not read them finds out by listing Frameworks."""
        try:
            problems = await _insisting(lambda: definitions.check(self._transport.send), "read")
        except ForbiddenError:
            problems = await self._problems_by_listing()
        for problem in problems:
            if problem not in self._told:
                log.warning("%s", problem.message, extra={"group": problem.group})
        self._told = problems
        return problems

    async def _problems_by_listing(self) -> tuple[definitions.Problem, ...]:
        """For one who may not read the definitions: of a group that is not there nothing can be listed."""
        found = []
        for group in names.GROUPS:
            namespace = next(iter(self._settings.namespaces), "")
            try:
                await self._transport.send(requests.list_page(frameworks(group), namespace, limit=1))
            except NotFoundError as error:
                message = f"Frameworks of {group} are not served: {error}"
                found.append(definitions.Problem(group, definitions.Flaw.MISSING, message))
            except ApiError as error:
                log.info("Frameworks of %s cannot be listed: %s", group, error)
        return tuple(found)

    async def _follow(self, tasks: asyncio.TaskGroup, followers: list[Follower]) -> None:
        """Goes on when all of them have listed."""
        for follower in followers:
            tasks.create_task(follower.run())
        for follower in followers:
            await follower.listed.wait()


async def _insisting(ask: Callable[[], Awaitable[T]], what: str) -> T:
    """Asks about the definitions until there is an answer, or a refusal, which is raised."""
    while True:
        try:
            return await ask()
        except (ForbiddenError, InvalidError):
            raise
        except ApiError as error:
            log.warning("the definitions of Frameworks cannot be %s: %s", what, error)
            await asyncio.sleep(ASK_AGAIN_SEC)
