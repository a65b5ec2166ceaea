"""Frameworks that the definition let through and nobody can read: told where their owners look, once.

The others go on. Nothing of such a Framework is touched but its condition, and it is taken up when it is mended.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from windlass.controller.engine.api_port import Send
from windlass.controller.engine.clock import Clock
from windlass.controller.engine.keys import FrameworkKey
from windlass.controller.engine.lease_guard import Gate
from windlass.controller.engine.port import PortError
from windlass.decide.types import Reason, ReasonKind
from windlass.k8s.metadata import ObjectMeta
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ApiError, ConflictError, NotFoundError
from windlass.kubeapi.resources import frameworks
from windlass.model import names
from windlass.model.framework import Framework
from windlass.wire import codec
from windlass.wire.codec import Unreadable

log = logging.getLogger(__name__)

ASK_AGAIN_SEC = 5.0


class Announcer(Protocol):
    def announced(self, framework: Framework, reasons: Sequence[Reason]) -> None: ...


class Complaints:
    def __init__(
        self,
        send: Send,
        gate: Gate,
        announcer: Announcer,
        clock: Clock,
        *,
        timeout: float,
        field_manager: str,
    ) -> None:
        self._send = send
        self._gate = gate
        self._announcer = announcer
        self._clock = clock
        self._timeout = timeout
        self._field_manager = field_manager
        self._pending: dict[FrameworkKey, Unreadable] = {}
        self._news = asyncio.Event()

    def about(self, unreadable: Unreadable) -> None:
        metadata = unreadable.metadata
        key = FrameworkKey(names.group_of(unreadable.api_version), metadata.namespace, metadata.name)
        self._pending[key] = unreadable
        self._news.set()

    async def run(self) -> None:
        """One after the other, until it is cancelled."""
        while True:
            while self._pending:
                key = next(iter(self._pending))
                if not await self._is_told(key, self._pending.pop(key)):
                    await asyncio.sleep(ASK_AGAIN_SEC)
            self._news.clear()
            await self._news.wait()

    async def _is_told(self, key: FrameworkKey, unreadable: Unreadable) -> bool:
        """Or need not be told any more."""
        patch = codec.invalid_status_patch(unreadable, self._clock.now())
        if patch is None:
            return True
        request = requests.merge_patch(
            frameworks(key.group),
            key.namespace,
            key.name,
            patch,
            subresource="status",
            field_manager=self._field_manager,
        )
        try:
            self._gate.check(self._timeout)
            await self._send(request, self._timeout)
        except (ConflictError, NotFoundError):
            # It has changed since, or is gone: the watch brings it again, if there is still something to tell.
            return True
        except (PortError, ApiError) as error:
            log.warning("%s is invalid, and cannot be told so: %s", key, error)
            self._pending.setdefault(key, unreadable)
            return False
        reason = Reason(ReasonKind.INVALID, unreadable.error, is_warning=True)
        self._announcer.announced(_named(unreadable), (reason,))
        return True


def _named(unreadable: Unreadable) -> Framework:
    """As much of a Framework as an event needs."""
    found = unreadable.metadata
    metadata = ObjectMeta(
        name=found.name,
        namespace=found.namespace,
        uid=found.uid,
        resource_version=found.resource_version,
    )
    return Framework(api_version=unreadable.api_version, kind=names.KIND, metadata=metadata)
