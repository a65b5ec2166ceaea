"""What the core costs: decoding, encoding, deciding, and playing ten thousand Frameworks.

Prints milliseconds of processor time, the aim, and, where there is something to compare with in the same run, a ratio.
"""

import argparse
import json
import time

import msgspec

from timing import timed  # beside this file
from windlass.decide import decide
from windlass.decide.contract import Observed
from windlass.model.framework import CompletedPods, Framework
from windlass.model.pods import ConfigMapView, PodPhase, PodView
from windlass.model.status import TaskStatus
from windlass.objects.pod import PodFactory
from windlass.testing import builders, scenario
from windlass.testing.builders import at
from windlass.testing.simulation import Simulation
from windlass.wire import codec

World = tuple[Framework, Observed]


def running(tasks: int) -> World:
    """A Framework all of whose tasks run, and what is observed around it."""
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


def show(what: str, milliseconds: float, aim: float, note: str = "") -> None:
    mark = "" if milliseconds <= aim else "  MISSED"
    print(f"  {what:<58} {milliseconds:9.2f} ms   aim ≤ {aim:g} ms{mark}{note}")


def codec_figures(tasks: int) -> None:
    framework, _ = running(tasks)
    data = codec.encode_framework(framework)
    plain = json.loads(data)
    assert framework.status is not None
    status = framework.status
    decode, plainly = timed(lambda: codec.decode_framework(data)), timed(lambda: json.loads(data))
    ratio = f"   {plainly.median_ms / decode.median_ms:.1f} × as fast as json.loads ({len(data):,} bytes)"
    show(f"decode a Framework of {tasks:,} tasks", decode.median_ms, 15, ratio)
    encode, plainly = timed(lambda: codec.encode_framework(framework)), timed(lambda: json.dumps(plain))
    ratio = f"   {plainly.median_ms / encode.median_ms:.1f} × as fast as json.dumps"
    show(f"encode a Framework of {tasks:,} tasks", encode.median_ms, 15, ratio)
    compress = timed(lambda: codec.encode_status(status, compress=True))
    size = f"   {len(codec.encode_status(status, compress=True)):,} bytes stored"
    show(f"encode its status as it is stored (A7), {tasks:,} tasks", compress.median_ms, 15, size)


def decision_figures(tasks: int, aim: float) -> None:
    framework, observed = running(tasks)
    quiet = timed(lambda: decide(framework, observed, at(2)))
    show(f"decide, {tasks:,} tasks, nothing new", quiet.median_ms, aim)
    config_map = observed.config_map
    assert config_map is not None
    ended = observed_around(config_map, all_pods(framework, PodPhase.SUCCEEDED))
    all_end = timed(lambda: decide(framework, ended, at(2)))
    show(f"decide, {tasks:,} tasks, all have just succeeded", all_end.median_ms, aim)
    failed = observed_around(config_map, all_pods(framework, PodPhase.FAILED))
    all_fail = timed(lambda: decide(framework, failed, at(2)))
    show(f"decide, {tasks:,} tasks, all have just failed alike", all_fail.median_ms, aim)
    fresh = builders.framework("job", builders.role("worker", tasks))
    first = stored(fresh, Observed(config_map=config_map, known={config_map.uid}), 0)
    pending = observed_around(config_map, all_pods(first, PodPhase.PENDING))
    all_start = timed(lambda: decide(first, pending, at(2)))
    show(f"decide, {tasks:,} tasks, all pods have just appeared", all_start.median_ms, aim)


def pod_figures(tasks: int) -> None:
    framework, _ = running(tasks)

    def build() -> list[object]:
        factory = PodFactory(framework)
        return [factory.pod("worker", index) for index in range(tasks)]

    show(f"build the manifests of {tasks:,} pods", timed(build, rounds=5).median_ms, 0.05 * tasks)


def simulation_figures(count: int) -> None:
    started = time.process_time()
    played = Simulation(scenario.crowd(seed=1, count=count)).run()
    took = time.process_time() - started
    show(f"play {count:,} two-task Frameworks with faults, one core", took * 1000, 60_000 * count / 10_000)
    requests = sum(played.requests().values())
    virtual = (played.timeline.now - builders.NOW).total_seconds()
    print(f"    {played.passes:,} passes, {requests:,} requests, {virtual:,.0f} s of virtual time")


def budget_figures() -> None:
    print("Requests of a success whose pods are created, start and end in three bursts:")
    for tasks in (2, 50, 300):
        for completed_pods, most in ((CompletedPods.KEEP, 6), (CompletedPods.DELETE, 9)):
            job = builders.framework("job", builders.role("worker", tasks), completed_pods=completed_pods)
            played = Simulation(scenario.Scenario(1, (scenario.Submission(10, job),), is_lockstep=True)).run()
            total = sum(played.requests().values())
            print(f"  {tasks:4} tasks, completedPods {completed_pods:<6}  {total:4} (budget {tasks + most})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frameworks", type=int, default=10_000, help="how many to play")
    arguments = parser.parse_args()
    print(f"msgspec {msgspec.__version__}")
    codec_figures(1_000)
    decision_figures(1_000, 15)
    decision_figures(10_000, 150)
    pod_figures(1_000)
    budget_figures()
    simulation_figures(arguments.frameworks)


if __name__ == "__main__":
    main()
