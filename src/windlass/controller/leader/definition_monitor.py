"""Checks whether the API server serves Frameworks, and installs their definitions if asked."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from windlass.controller import definitions
from windlass.controller.definitions import Problem
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ApiError, ForbiddenError, InvalidError, NotFoundError
from windlass.kubeapi.resources import frameworks
from windlass.model import names
from windlass.model.settings import Settings

log = logging.getLogger(__name__)

RETRY_SEC = 1.0

T = TypeVar("T")


class DefinitionMonitor:
    def __init__(self, send: definitions.Send, settings: Settings) -> None:
        self._send = send
        self._settings = settings
        self._reported: tuple[Problem, ...] = ()
        self.error = ""
        """Why no group of Frameworks is served; empty if at least one is."""

    async def install(self) -> None:
        """Create or update the definitions. Raise ForbiddenError or InvalidError; retry after other errors."""

        def manage() -> Awaitable[tuple[str, ...]]:
            return definitions.manage(
                self._send,
                self._settings.crd_established_check_interval_sec,
                self._settings.crd_established_check_timeout_sec,
                asyncio.sleep,
            )

        for change in await _retrying(manage, "update"):
            log.info("%s", change)

    async def served_groups(self) -> tuple[str, ...]:
        """Return the groups whose Frameworks are served. Log each new problem once."""
        try:
            problems = await _retrying(lambda: definitions.check(self._send), "read")
        except ForbiddenError:
            problems = await self._problems_by_listing()
        for problem in problems:
            if problem not in self._reported:
                log.warning("%s", problem.message, extra={"group": problem.group})
        self._reported = problems
        served = definitions.served_groups(problems)
        self.error = "" if served else " ".join(problem.message for problem in problems)
        return served

    async def _problems_by_listing(self) -> tuple[Problem, ...]:
        """Return the groups that cannot be listed, for a controller without permission to read the definitions."""
        found = []
        for group in names.GROUPS:
            namespace = next(iter(self._settings.namespaces), "")
            try:
                await self._send(requests.list_page(frameworks(group), namespace, limit=1))
            except NotFoundError as error:
                message = f"Frameworks of {group} are not served: {error}"
                found.append(Problem(group, definitions.Flaw.MISSING, message))
            except ApiError as error:
                log.info("cannot list Frameworks of %s: %s", group, error)
        return tuple(found)


async def _retrying(ask: Callable[[], Awaitable[T]], action: str) -> T:
    """Retry until there is an answer. Raise ForbiddenError and InvalidError."""
    while True:
        try:
            return await ask()
        except (ForbiddenError, InvalidError):
            raise
        except ApiError as error:
            log.warning("cannot %s the CustomResourceDefinitions of Frameworks: %s", action, error)
            await asyncio.sleep(RETRY_SEC)
