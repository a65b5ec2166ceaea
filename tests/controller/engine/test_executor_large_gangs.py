"""A large gang is created by several passes, and not each of them stores what the last one did."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import cast

import builders
import msgspec
import pytest
from builders import NOW, at

from windlass.controller.engine.adaptive_batching import MIN_BATCH, TARGET_BATCH_SEC, AdaptiveBatching
from windlass.controller.engine.api import Api, RequestError
from windlass.controller.engine.cache import Cache
from windlass.controller.engine.executor import MIN_GANG_DELAY, Executor
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.engine.queue import KeyedQueue
from windlass.decide.types import Reason, Rules
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.status import FrameworkStatus

replace = msgspec.structs.replace


A_MOMENT = 0.1
"""News about many tasks are gathered for less than this."""


class Bench:
    """A server that takes as long for a slice as a pass may take, and notes what it is asked for; the clock besides."""

    def __init__(self, tasks: int, at_a_time: int = MIN_BATCH, store_seconds: float = 0.0) -> None:
        self.store_seconds = store_seconds
        self.log: list[str] = []
        self.seconds = 0.0
        self.version = 100
        self.cache = Cache()
        self.queue: KeyedQueue[FrameworkKey] = KeyedQueue()
        framework = builders.framework("job", builders.role("worker", tasks))
        self.key = key_of(framework)
        self.cache.put_framework(framework)
        api = cast("Api", self)
        self.executor = Executor(api, self.cache, self.queue, self, Rules(), AdaptiveBatching(at_a_time))

    def now(self) -> datetime:
        return at(self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def run(self) -> list[str]:
        """Passes, as long as there is something to do at once; what they did."""
        self.log.clear()
        self.seconds += A_MOMENT
        self.queue.add(self.key)
        while (key := self.queue.take(self.seconds)) is not None:
            asyncio.run(self.executor.run_pass(key))
            self.queue.done(key)
        return list(self.log)

    def run_when_due(self) -> list[str]:
        due = self.queue.next_time()
        assert due is not None
        self.seconds = max(self.seconds, due)
        return self.run()

    def show_config_map(self) -> None:
        found = self.cache.observe(self.key, NOW, 0.0).config_map
        assert found is not None
        self.cache.put(found)

    # The API

    def _stamped(self, manifest: Json) -> Json:
        self.version += 1
        metadata = manifest["metadata"]
        stamp = {"uid": f"uid-{metadata['name']}", "resourceVersion": str(self.version)}
        return {**manifest, "metadata": {**metadata, **stamp}}

    async def store_status(self, framework: Framework, status: FrameworkStatus) -> Framework:
        known = [task for task in status.attempt_status.roles[0].task_statuses if task.attempt_status.pod_uid]
        self.log.append(f"store {len(known)} pods")
        self.seconds += self.store_seconds
        self.version += 1
        return framework.with_status(status, str(self.version))

    async def create_config_map(self, namespace: str, manifest: Json) -> ConfigMapView:
        self.log.append("create ConfigMap")
        return msgspec.convert(self._stamped(manifest), ConfigMapView)

    async def create_pods(
        self, namespace: str, manifests: Sequence[Json]
    ) -> Sequence[PodView | RequestError]:
        self.log.append(f"create {len(manifests)} pods")
        self.seconds += TARGET_BATCH_SEC
        return [msgspec.convert(self._stamped(manifest), PodView) for manifest in manifests]

    def announce(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        self.log.extend(reason.kind for reason in reasons)


def test_gang_is_created_in_batches_and_stored_when_complete() -> None:
    bench = Bench(2 * MIN_BATCH + 20)
    assert bench.run() == ["create ConfigMap"]
    bench.show_config_map()
    assert bench.run() == [
        "store 0 pods",
        f"create {MIN_BATCH} pods",
        "AttemptStarted",
        f"create {MIN_BATCH} pods",
        "create 20 pods",
        f"store {2 * MIN_BATCH + 20} pods",
    ]
    assert bench.run() == []


def test_slow_gang_is_stored_before_it_is_complete() -> None:
    slices = 2 * int(MIN_GANG_DELAY / TARGET_BATCH_SEC)
    bench = Bench(slices * MIN_BATCH)
    bench.run()
    bench.show_config_map()
    log = bench.run()
    assert log.count(f"create {MIN_BATCH} pods") == slices
    stores = [entry for entry in log if entry.startswith("store")]
    assert stores[0] == "store 0 pods"
    assert 1 <= len(stores) - 1 <= 2, "as often as it takes longest, and not at each slice"
    assert all(int(entry.split()[1]) % MIN_BATCH == 0 for entry in stores)


@pytest.mark.parametrize(("store_seconds", "on_the_way"), [(0.05, 1), (1.0, 0)])
def test_slow_status_is_stored_less_often(store_seconds: float, on_the_way: int) -> None:
    at_a_time = 400
    slices = int(1.5 * MIN_GANG_DELAY / TARGET_BATCH_SEC)
    bench = Bench(slices * at_a_time, at_a_time, store_seconds)
    bench.run()
    bench.show_config_map()
    log = bench.run()
    stores = [entry for entry in log if entry.startswith("store")]
    assert stores[0] == "store 0 pods"
    assert len(stores) - 1 == on_the_way
    assert bench.run_when_due() == [f"store {slices * at_a_time} pods"]
