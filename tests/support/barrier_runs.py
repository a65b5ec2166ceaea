"""Run a barrier against a scripted API server, with a clock that advances only when the barrier sleeps."""

from typing import Any

import gang_objects
import msgspec
from barrier_api import Api, event

from windlass.barrier.api_client import ApiClient
from windlass.barrier.options import Options
from windlass.barrier.waiting import BarrierResult, GangWaiter
from windlass.model.framework import Framework
from windlass.model.gang import GangSpec
from windlass.wire import codec

OPTIONS = Options(
    "research",
    "digits",
    interval=7,
    gang=gang_objects.GANG,
    attempt=gang_objects.ATTEMPT,
    pod_uid="uid-worker-1",
    role="worker",
    index=1,
)
BY_FRAMEWORK = msgspec.structs.replace(OPTIONS, gang="")
OURS = gang_objects.gang()
FULL = gang_objects.framework()
GAPPED = gang_objects.framework({"ps": ["10.0.0.4"], "worker": ["10.0.0.5", ""]})


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        assert len(self.slept) < 5000, "it sleeps and sleeps"
        self.slept.append(seconds)
        self.now += max(seconds, 0.001)


class Run:
    """One barrier and its output."""

    def __init__(self, api: Api, options: Options = OPTIONS) -> None:
        self.messages: list[str] = []
        self.clock = Clock()
        server = ApiClient(api.url, None, lambda: {"Authorization": "Bearer secret"})
        self.waiting = GangWaiter(
            server, options, self.messages.append, monotonic=self.clock.monotonic, sleep=self.clock.sleep
        )

    def wait(self) -> BarrierResult:
        return self.waiting.wait()


def added(spec: GangSpec, **fields: Any) -> Any:
    return event("ADDED", gang_objects.stored(msgspec.structs.replace(spec, **fields)))


def written(framework: Framework) -> Any:
    return msgspec.json.decode(codec.encode_framework(framework))


def seen(kind: str, framework: Framework) -> Any:
    return event(kind, written(framework))
