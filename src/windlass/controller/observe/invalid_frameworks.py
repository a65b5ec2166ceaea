"""Reports Frameworks that pass the CRD schema but cannot be decoded: by a condition, an event and a log line.

Such a Framework is not changed otherwise. It runs as soon as a user has corrected it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from windlass.controller.engine.api import RequestError
from windlass.controller.engine.clock import Clock
from windlass.controller.engine.http_api import Send
from windlass.controller.engine.keys import FrameworkKey
from windlass.controller.engine.lease_guard import LeaseGuard
from windlass.decide.types import Reason, ReasonKind
from windlass.k8s.metadata import ObjectMeta
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ApiError, ConflictError, NotFoundError
from windlass.kubeapi.resources import frameworks
from windlass.model import names
from windlass.model.framework import Framework
from windlass.wire import codec
from windlass.wire.codec import InvalidFramework

log = logging.getLogger(__name__)

RETRY_SEC = 5.0


class InvalidFrameworkReporter:
    def __init__(
        self,
        send: Send,
        guard: LeaseGuard,
        on_reasons: Callable[[Framework, Sequence[Reason]], None],
        clock: Clock,
        *,
        timeout: float,
        field_manager: str,
    ) -> None:
        self._send = send
        self._guard = guard
        self._on_reasons = on_reasons
        self._clock = clock
        self._timeout = timeout
        self._field_manager = field_manager
        self._pending: dict[FrameworkKey, InvalidFramework] = {}
        self._has_pending = asyncio.Event()

    def report(self, invalid: InvalidFramework) -> None:
        metadata = invalid.metadata
        key = FrameworkKey(names.group_of(invalid.api_version), metadata.namespace, metadata.name)
        self._pending[key] = invalid
        self._has_pending.set()

    async def run(self) -> None:
        """Report one Framework after the other until cancelled."""
        while True:
            while self._pending:
                key = next(iter(self._pending))
                if not await self._report(key, self._pending.pop(key)):
                    await asyncio.sleep(RETRY_SEC)
            self._has_pending.clear()
            await self._has_pending.wait()

    async def _report(self, key: FrameworkKey, invalid: InvalidFramework) -> bool:
        """Report the Framework. Return False if that failed and must be retried."""
        patch = codec.invalid_status_patch(invalid, self._clock.now())
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
            self._guard.check(self._timeout)
            await self._send(request, self._timeout)
        except (ConflictError, NotFoundError):
            # The Framework was changed or deleted. If it is still invalid, the watch reports it again.
            return True
        except (RequestError, ApiError) as error:
            log.warning("cannot report that %s is invalid, will retry: %s", key, error)
            self._pending.setdefault(key, invalid)
            return False
        reason = Reason(ReasonKind.INVALID, invalid.error, is_warning=True)
        self._on_reasons(_framework_for_event(invalid), (reason,))
        return True


def _framework_for_event(invalid: InvalidFramework) -> Framework:
    """Return a Framework with the fields that an event needs."""
    found = invalid.metadata
    metadata = ObjectMeta(
        name=found.name,
        namespace=found.namespace,
        uid=found.uid,
        resource_version=found.resource_version,
    )
    return Framework(api_version=invalid.api_version, kind=names.KIND, metadata=metadata)
