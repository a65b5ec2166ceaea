"""An HttpApi with a scripted server and a recording observer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import builders
import msgspec

from windlass.controller.engine.api import RequestError
from windlass.controller.engine.http_api import HttpApi
from windlass.controller.engine.lease_guard import LeaseGuard, unrestricted
from windlass.decide import initial_status
from windlass.decide.types import Reason
from windlass.kubeapi import errors
from windlass.kubeapi.requests import Request
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.names import CONTROLLER_GROUP
from windlass.model.states import State
from windlass.model.status import FrameworkStatus

TIMEOUT = 7.0


def revoked_guard() -> LeaseGuard:
    guard = unrestricted()
    guard.revoke()
    return guard


def stored(group: str = CONTROLLER_GROUP) -> Framework:
    made = builders.framework("job", group=group, namespace="team", uid="fw-1", resource_version="17")
    return made.with_status(initial_status.framework_status(made, builders.NOW))


JOB = stored()
FRAMEWORKS = f"/apis/{CONTROLLER_GROUP}/v1/namespaces/team/frameworks"
POD: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job-worker-0"}}
CONFIG_MAP: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "job-attempt"}}

Act = Callable[[HttpApi], Awaitable[Any]]
Answer = bytes | Exception


def next_status() -> FrameworkStatus:
    assert JOB.status is not None
    return msgspec.structs.replace(JOB.status, state=State.ATTEMPT_CREATION_REQUESTED)


def failure(code: int, reason: str = "", message: str = "no") -> errors.ResponseError:
    body = {"kind": "Status", "reason": reason, "message": message, "code": code}
    return errors.from_response(code, {}, msgspec.json.encode(body))


def with_version(manifest: Json, uid: str, version: str) -> bytes:
    metadata = {**manifest["metadata"], "uid": uid, "resourceVersion": version}
    return msgspec.json.encode({**manifest, "metadata": metadata})


def page(*items: bytes, version: str = "50", token: str = "") -> bytes:
    metadata = {"resourceVersion": version, "continue": token}
    return msgspec.json.encode({"metadata": metadata, "items": [msgspec.Raw(item) for item in items] or None})


STORED = with_version({"kind": "PartialObjectMetadata", "metadata": {"name": "job"}}, "fw-1", "18")


class Bench:
    """An HttpApi with scripted answers, a recording observer and a manual clock."""

    def __init__(self, *answers: Answer, guard: LeaseGuard | None = None) -> None:
        self.answers = list(answers)
        self.sent: list[Request] = []
        self.timeouts: set[float] = set()
        self.seconds = 100.0
        self.heard: list[tuple[object, ...]] = []
        self.api = HttpApi(
            self.send,
            guard or unrestricted(),
            self,
            timeout=TIMEOUT,
            field_manager="windlass-test",
            compress=True,
            monotonic=lambda: self.seconds,
        )

    async def send(self, request: Request, timeout: float) -> bytes:
        self.sent.append(request)
        self.timeouts.add(timeout)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self, act: Act) -> Any:
        async def wait() -> Any:
            return await act(self.api)

        return asyncio.run(wait())

    # The observer

    def on_reasons(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        self.heard.append(("announced", framework.uid, *reasons))

    def on_stored(self, before: Framework, after: Framework) -> None:
        self.heard.append(("stored", before.metadata.resource_version, after.metadata.resource_version))

    def on_lost_record(self, framework: Framework, attempt_id: int, error: RequestError) -> None:
        self.heard.append(("lost record", attempt_id, str(error)))

    def on_status_subresource_missing(self, group: str) -> None:
        self.heard.append(("status is missing", group))

    def on_failure(self, framework: Framework, action: str, error: RequestError) -> None:
        self.heard.append(("failed", framework.name, action, error))


def store(api: HttpApi) -> Awaitable[Framework]:
    return api.store_status(JOB, next_status())
