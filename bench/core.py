"""Measure the core: decoding, encoding, deciding, and simulating ten thousand Frameworks.

Values are CPU time, with a ratio if there is a reference in the same run.
"""

import asyncio
import gc
import json
import time
from datetime import datetime
from pathlib import Path
from typing import cast

import builders
import many_frameworks
import msgspec
from builders import at

from figures import Sheet, argument_parser  # next to this file
from timing import timed
from windlass.controller.engine.api import Api
from windlass.controller.engine.cache import Cache
from windlass.controller.engine.executor import Executor
from windlass.controller.engine.informers import InformerHandlers, Informers
from windlass.controller.engine.keys import FrameworkKey
from windlass.controller.engine.queue import KeyedQueue
from windlass.controller.engine.worker_pool import WorkerPool
from windlass.controller.other_controllers import OtherControllers
from windlass.decide import decide
from windlass.decide.types import Observed, Rules
from windlass.kubeapi.requests import Request
from windlass.kubeapi.transport import Transport
from windlass.model.framework import CompletedPods, Framework
from windlass.model.pods import ConfigMapView, PodPhase, PodView
from windlass.model.settings import LogObjectSnapshot, Settings
from windlass.model.states import State
from windlass.model.status import TaskStatus
from windlass.objects.pod import PodFactory
from windlass.simulate import scenario
from windlass.simulate.simulation import Simulation
from windlass.wire import codec

World = tuple[Framework, Observed]


def running(tasks: int) -> World:
    """Return a Framework whose tasks are all running, and the observed objects."""
    framework = builders.framework(
        "job",
        builders.role("worker", tasks),
        completed_pods=CompletedPods.KEEP,
        active_deadline_seconds=86_400,
    )
    config_map = builders.config_map(framework)
    observed = Observed(config_map=config_map, known={config_map.uid})
    framework = stored(framework, observed, 0)
    pods = all_pods(framework, PodPhase.RUNNING)
    observed = observed_around(config_map, pods)
    return stored(framework, observed, 1), observed


def all_pods(framework: Framework, phase: PodPhase) -> dict[str, PodView]:
    return {
        task.attempt_status.pod_name: builders.pod(
            framework, task, phase=phase, exit_code={PodPhase.SUCCEEDED: 0, PodPhase.FAILED: 1}.get(phase)
        )
        for task in tasks_of(framework)
    }


def tasks_of(framework: Framework) -> tuple[TaskStatus, ...]:
    assert framework.status is not None
    return framework.status.attempt_status.roles[0].task_statuses


def observed_around(config_map: ConfigMapView, pods: dict[str, PodView]) -> Observed:
    return Observed(
        config_map=config_map, pods=pods, known={config_map.uid, *(pod.uid for pod in pods.values())}
    )


def stored(framework: Framework, observed: Observed, seconds: float) -> Framework:
    decision = decide(framework, observed, at(seconds))
    assert decision.status is not None
    return framework.with_status(decision.status, str(int(framework.metadata.resource_version) + 1))


def codec_figures(sheet: Sheet, tasks: int) -> None:
    framework, _ = running(tasks)
    data = codec.encode_framework(framework)
    plain = json.loads(data)
    assert framework.status is not None
    status = framework.status
    decode, plainly = timed(lambda: codec.decode_framework(data)), timed(lambda: json.loads(data))
    note = f"{plainly.median_ms / decode.median_ms:.1f} × as fast as json.loads, {len(data):,} bytes"
    sheet.add(f"{tasks:,} tasks: decode a Framework", decode.median_ms, "ms", aim=15, note=note)
    encode, plainly = timed(lambda: codec.encode_framework(framework)), timed(lambda: json.dumps(plain))
    note = f"{plainly.median_ms / encode.median_ms:.1f} × as fast as json.dumps"
    sheet.add(f"{tasks:,} tasks: encode a Framework", encode.median_ms, "ms", aim=15, note=note)
    compress = timed(lambda: msgspec.json.encode(codec.compress_status(status)))
    note = f"{len(msgspec.json.encode(codec.compress_status(status))):,} bytes"
    what = f"{tasks:,} tasks: encode a status as it is stored (A7)"
    sheet.add(what, compress.median_ms, "ms", aim=15, note=note)


def decision_figures(sheet: Sheet, tasks: int, aim: float) -> None:
    framework, observed = running(tasks)
    quiet = timed(lambda: decide(framework, observed, at(2)))
    sheet.add(f"{tasks:,} tasks: decide, nothing new", quiet.median_ms, "ms", aim=aim)
    config_map = observed.config_map
    assert config_map is not None
    ended = observed_around(config_map, all_pods(framework, PodPhase.SUCCEEDED))
    all_end = timed(lambda: decide(framework, ended, at(2)))
    sheet.add(f"{tasks:,} tasks: decide, all have just succeeded", all_end.median_ms, "ms", aim=aim)
    failed = observed_around(config_map, all_pods(framework, PodPhase.FAILED))
    all_fail = timed(lambda: decide(framework, failed, at(2)))
    sheet.add(f"{tasks:,} tasks: decide, all have just failed alike", all_fail.median_ms, "ms", aim=aim)
    fresh = builders.framework("job", builders.role("worker", tasks))
    first = stored(fresh, Observed(config_map=config_map, known={config_map.uid}), 0)
    pending = observed_around(config_map, all_pods(first, PodPhase.PENDING))
    all_start = timed(lambda: decide(first, pending, at(2)))
    sheet.add(f"{tasks:,} tasks: decide, all pods have just appeared", all_start.median_ms, "ms", aim=aim)


def pod_figures(sheet: Sheet, tasks: int) -> None:
    framework, _ = running(tasks)

    def build() -> list[object]:
        factory = PodFactory(framework)
        return [factory.pod("worker", index) for index in range(tasks)]

    built = timed(build, rounds=5)
    sheet.add(f"{tasks:,} tasks: build the manifests of their pods", built.median_ms, "ms", aim=0.05 * tasks)


class FinishedFrameworks:
    """An API server with many copies of a completed Framework, and nothing else."""

    def __init__(self, count: int, page_size: int = 500) -> None:
        framework, observed = running(2)
        config_map = observed.config_map
        assert config_map is not None
        framework = stored(framework, observed_around(config_map, all_pods(framework, PodPhase.SUCCEEDED)), 2)
        assert framework.status is not None
        assert framework.status.state is State.COMPLETED
        self.group = framework.group
        self._pattern = msgspec.to_builtins(framework)
        self._pages = [range(start, min(start + page_size, count)) for start in range(0, count, page_size)]
        self.bytes = len(self._item(0))
        self.preparation = 0.0
        """Processor time that the server itself has taken, in seconds."""

    async def send(self, request: Request, timeout: float) -> bytes:
        del timeout
        began = time.process_time()
        position = int(dict(request.query).get("continue", 0))
        items = b",".join(map(self._item, self._pages[position]))
        more = str(position + 1) if position + 1 < len(self._pages) else ""
        page = b'{"metadata":{"resourceVersion":"9","continue":"%s"},"items":[%s]}' % (more.encode(), items)
        self.preparation += time.process_time() - began
        return page

    def _item(self, number: int) -> bytes:
        metadata = {**self._pattern["metadata"], "name": f"job-{number}", "uid": f"{number:036}"}
        return msgspec.json.encode({**self._pattern, "metadata": metadata})


class FixedClock:
    def now(self) -> datetime:
        return at(60)

    def monotonic(self) -> float:
        return time.monotonic()


async def read_finished(server: FinishedFrameworks) -> Cache:
    """Read all completed Frameworks as a restarted controller does, and run their passes."""
    cache: Cache = Cache()
    queue: KeyedQueue[FrameworkKey] = KeyedQueue()
    clock = FixedClock()
    no_requests = cast("Api", None)
    executor = Executor(no_requests, cache, queue, clock, Rules())
    pool = WorkerPool(executor, queue, clock, workers=Settings().worker_number, observe_pass=lambda _: None)
    handlers = InformerHandlers(
        pool.enqueue, lambda _: None, lambda _: None, lambda _, __: None, lambda _: None
    )
    informers = Informers(
        cast("Transport", server),
        cache,
        OtherControllers("windlass"),
        handlers,
        namespaces=(),
        snapshot_settings=LogObjectSnapshot(),
    )
    running_passes = asyncio.create_task(pool.run())
    await informers.load_completed(server.group, lambda: len(queue) > 0)
    running_passes.cancel()
    await asyncio.gather(running_passes, return_exceptions=True)
    return cache


def finished_figures(sheet: Sheet, count: int) -> None:
    server = FinishedFrameworks(count)
    gc.collect()
    before, began = resident_megabytes(), time.process_time()
    cache = asyncio.run(read_finished(server))
    took = time.process_time() - began - server.preparation
    gc.collect()
    grown = resident_megabytes() - before
    assert cache.finished_counts()[0] == count
    note = f"{server.bytes:,} bytes each"
    sheet.add(f"{count:,} finished Frameworks: read after a restart", took, "s", aim=count * 2e-4, note=note)
    sheet.add(f"{count:,} finished Frameworks: memory", grown, "MB", aim=400)


def resident_megabytes() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def simulation_figures(sheet: Sheet, count: int) -> None:
    started = time.process_time()
    played = Simulation(many_frameworks.draw(seed=1, count=count)).run()
    took = time.process_time() - started
    virtual = (played.timeline.now - builders.NOW).total_seconds()
    sheet.title("Playing two-task Frameworks with faults, on one core:")
    note = f"{virtual:,.0f} s of virtual time"
    sheet.add(f"{count:,} Frameworks: play them", took, "s", aim=60 * count / 10_000, note=note)
    sheet.add(f"{count:,} Frameworks: passes", played.passes, "")
    sheet.add(f"{count:,} Frameworks: requests", sum(played.requests().values()), "")


def budget_figures(sheet: Sheet) -> None:
    sheet.title("Requests of a success whose pods are created, start and end in three bursts:")
    for tasks in (2, 50, 300):
        for completed_pods, most in ((CompletedPods.KEEP, 6), (CompletedPods.DELETE, 9)):
            job = builders.framework("job", builders.role("worker", tasks), completed_pods=completed_pods)
            played = Simulation(scenario.Scenario(1, (scenario.Submission(10, job),), is_lockstep=True)).run()
            total = sum(played.requests().values())
            sheet.add(f"{tasks} tasks: requests, completedPods {completed_pods}", total, "", aim=tasks + most)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--frameworks", type=int, default=10_000, help="number of Frameworks to simulate")
    parser.add_argument("--finished", type=int, default=100_000, help="number of finished Frameworks to read")
    arguments = parser.parse_args()
    sheet = Sheet("core")
    sheet.title(f"Processor time of the core, with msgspec {msgspec.__version__}:")
    finished_figures(sheet, arguments.finished)
    codec_figures(sheet, 1_000)
    decision_figures(sheet, 1_000, 15)
    decision_figures(sheet, 10_000, 150)
    pod_figures(sheet, 1_000)
    budget_figures(sheet)
    simulation_figures(sheet, arguments.frameworks)
    if arguments.save:
        sheet.save()


if __name__ == "__main__":
    main()
