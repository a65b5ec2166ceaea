"""The guarantees, played: many small worlds in which much goes wrong, each from one seed.

`make simulate SEEDS=n` plays any number. What each run checks stands in windlass.testing.guarantees: statement 40,
no pod before its stored intent, retry limits, monotony, decisions that are fixed points, an end that is reached, and
nothing left behind.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import pytest

from windlass.decide import (
    attempt,
    completion,
    deadlines,
    decide,
    deletion,
    follow,
    holding,
    ownership,
    rescale,
    retry,
)
from windlass.decide.contract import Decision, DeleteConfigMap, DeletePod
from windlass.decide.draft import Draft
from windlass.model.completion import (
    CompletionCode,
    FrameworkAttemptCompletionStatus,
    framework_completion,
    task_completion,
)
from windlass.model.framework import CompletedPods, FrameworkSpec, RetryPolicySpec
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.states import State
from windlass.model.status import TaskStatus
from windlass.operate import cache, executor, record
from windlass.testing import builders, play, scenario, shrink
from windlass.testing.scenario import Event, EventKind, Faults, Scenario, Submission
from windlass.testing.simulation import Simulation

CHUNKS, SEEDS_PER_CHUNK = 40, 50


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_breaks_a_guarantee(chunk: int) -> None:
    first = chunk * SEEDS_PER_CHUNK
    broken = play.failures_in(range(first, first + SEEDS_PER_CHUNK))
    assert not broken, play.report(broken[0][0])


def test_a_seed_plays_the_same_twice() -> None:
    first, second = (Simulation(scenario.draw(7)).run() for _ in range(2))
    assert first.requests() == second.requests()
    assert first.server.frameworks == second.server.frameworks
    assert first.timeline.now == second.timeline.now


def test_every_kind_of_event_and_fault_is_drawn() -> None:
    drawn = [scenario.draw(seed) for seed in range(300)]
    assert {event.kind for world in drawn for event in world.events} == set(EventKind)
    for field in Faults.__struct_fields__:
        assert any(getattr(world.faults, field) for world in drawn), field


def test_a_crowd_comes_to_its_end() -> None:
    played = Simulation(scenario.crowd(seed=1, count=100)).run()
    assert len(played.server.frameworks) == 100


def parameter_server_job(completed_pods: CompletedPods) -> Scenario:
    job = builders.framework(
        "job",
        builders.role("ps", 2),
        builders.role("worker", 2, min_succeeded=2),
        completed_pods=completed_pods,
    )
    return Scenario(1, (Submission(10, job),), endless_roles=frozenset({"ps"}))


@pytest.mark.parametrize("completed_pods", CompletedPods)
def test_a_parameter_server_never_keeps_a_finished_job_alive(completed_pods: CompletedPods) -> None:
    """A2: pods that still run are deleted, and the Framework is Completed when they are gone."""
    played = Simulation(parameter_server_job(completed_pods)).run()
    (done,) = played.server.frameworks.values()
    assert done.status is not None
    assert done.status.state is State.COMPLETED
    assert not played.kubelets.is_anything_running
    kept = {pod.metadata.labels.role_name for pod in played.server.pods.values()}
    assert kept == ({"worker"} if completed_pods is CompletedPods.KEEP else set())


def test_kept_pods_that_run_on_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "is_our_pod", lambda *_: False)
    assert shrink.failure_of(parameter_server_job(CompletedPods.KEEP))


def stopped_while_blind(seed: int) -> Scenario:
    """Answers get lost, the watch of pods is silent, and the job is stopped just after its pod was made."""
    job = builders.framework("job", builders.role("worker", 1), completed_pods=CompletedPods.KEEP)
    return Scenario(
        seed,
        (Submission(6, job),),
        (Event(5, EventKind.STALL, number=2, lasts=60), Event(6.5, EventKind.STOP)),
        faults=Faults(error_after=0.5, duration=100),
        faults_end=30,
    )


def test_a_creation_without_an_answer_may_have_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    scenarios = [stopped_while_blind(seed) for seed in range(60)]
    assert not any(shrink.failure_of(blind) for blind in scenarios)
    monkeypatch.setattr(record.Record, "uncertain", _nothing)
    assert any(shrink.failure_of(blind) for blind in scenarios), "a mistake here would be found"


def config_map_deleted(seed: int) -> Scenario:
    policy = RetryPolicySpec(fancy_retry_policy=True)
    job = builders.framework("job", builders.role("worker", 1), retry_policy=policy)
    return Scenario(
        seed,
        (Submission(6, job),),
        (Event(10, EventKind.DELETE_CONFIG_MAP_FOREGROUND), Event(100, EventKind.STOP)),
        endless_roles=frozenset({"worker"}),
        is_lockstep=True,
    )


def test_a_config_map_that_is_deleted_costs_one_attempt() -> None:
    """The garbage collector, which removes it, may take along what has its name by then."""
    for seed in range(100):
        (job,) = Simulation(config_map_deleted(seed)).run().server.frameworks.values()
        assert job.status is not None
        assert job.status.retry_policy_status.total_retried_count == 1


# A simulation that cannot fail shows nothing: each of these mistakes must be found.


def _always(*_: Any, **__: Any) -> bool:
    return True


def _retry_always(*_: Any, **__: Any) -> retry.Verdict:
    return retry.Verdict(retries=True, is_counted=True, reason="planted")


def _forget_the_status(decide: Callable[..., Decision]) -> Callable[..., Decision]:
    """Actions without the status that they belong to."""

    def planted(*arguments: Any) -> Decision:
        decision = decide(*arguments)
        return msgspec.structs.replace(decision, status=arguments[0].status)

    return planted


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _put(module: Any, name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(module, name, value)


def _always_due(_draft: Draft, _since: datetime, _seconds: int) -> bool:
    return True


def _force_at_once(draft: Draft, pod: PodView) -> None:
    draft.act(DeletePod(pod.name, pod.uid, force=True))


def _config_map_first(draft: Draft, uid: str, config_map: ConfigMapView | None) -> None:
    if config_map is not None:
        draft.act(DeleteConfigMap(uid))


def _end_as_success(draft: Draft, role: str, task: TaskStatus) -> TaskStatus:
    return follow.end_attempt(draft, role, task, task_completion(CompletionCode.SUCCEEDED, "planted"))


def _first_task_decides(
    _spec: FrameworkSpec, censuses: tuple[completion.Census, ...]
) -> FrameworkAttemptCompletionStatus | None:
    is_any_completed = any(census.completed for census in censuses)
    return framework_completion(CompletionCode.SUCCEEDED, "planted") if is_any_completed else None


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "retries without end": _put(retry, "verdict", _retry_always),
    "never retries": _put(retry, "verdict", lambda *_: retry.Verdict(retries=False, reason="planted")),
    "strays are left alone": _put(deletion, "delete_strays", _nothing),
    "any pod of the name is adopted": _put(ownership, "is_pod_of_task_attempt", _always),
    "strangers are ours": _put(ownership, "is_our_pod", _always),
    "old watch events are believed": _put(cache, "version", lambda _: 0),
    "a list removes what is newer than it": _put(cache, "_is_as_old", _always),
    "actions come before their status": _put(executor, "decide", _forget_the_status(decide)),
    "a pod's end is not seen": _put(follow, "_by_phase", lambda _draft, _role, task, _pod: task),
    "a pod that vanished counts as success": _put(follow, "_after_pod_is_gone", _end_as_success),
    "every deadline has passed": _put(Draft, "is_due", _always_due),
    "pods are removed by force at once": _put(deletion, "delete_pod", _force_at_once),
    "the ConfigMap goes before its pods": _put(deletion, "remove_attempt", _config_map_first),
    "Stop is ignored": _put(attempt, "_stop", _nothing),
    "suspend is ignored": _put(holding, "suspension", _nothing),
    "deadlines are ignored": _put(deadlines, "active_deadline", _nothing),
    "rescale is ignored": _put(rescale, "mark", lambda _framework, roles, *_: roles),
    "scaled away tasks are never dropped": _put(rescale, "settle", lambda _framework, roles, *_: (roles, ())),
    "completion policies are ignored": _put(completion, "_rules_met", lambda *_: []),
    "the first task that completes decides": _put(completion, "evaluate", _first_task_decides),
    "completed Frameworks are never deleted": _put(attempt, "_expire", _nothing),
    "kept pods are deleted": _put(attempt, "_pods_of_completed_tasks", lambda _: set()),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[mistake](monkeypatch)
    assert any(shrink.failure_of(scenario.draw(seed)) for seed in range(600))


def test_a_failing_scenario_is_shrunk_to_what_matters() -> None:
    """Of a large scenario in which only one event matters, only that event is left."""
    large = scenario.draw(next(seed for seed in range(100) if len(scenario.draw(seed).events) > 6))
    culprit = Event(at=1.0, kind=EventKind.STOP, framework=0)
    large = msgspec.structs.replace(large, events=(*large.events, culprit))

    def fails(candidate: Scenario) -> bool:
        return culprit in candidate.events

    shortest = shrink.shrink(large, fails)
    assert shortest.events == (culprit,)
    assert len(shortest.submissions) == 1
    assert shortest.faults == scenario.QUIET
    (role,) = shortest.submissions[0].framework.spec.task_roles
    assert role.task_number <= 1


def test_a_report_names_the_seed_and_how_to_replay_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "verdict", _retry_always)
    seed = next(seed for seed in range(400) if shrink.failure_of(scenario.draw(seed)))
    report = play.report(seed)
    assert f"--first {seed} --seeds 1" in report
    assert f"seed {seed}" in report
    assert "shortest form" in report


def test_a_removed_submission_takes_its_events_along() -> None:
    world = Scenario(
        1,
        tuple(Submission(0, builders.framework(f"job{number}")) for number in range(3)),
        (Event(1, EventKind.STOP, 0), Event(2, EventKind.STOP, 1), Event(3, EventKind.STOP, 2)),
    )
    smaller = shrink._without_submission(world, 1)
    assert [event.framework for event in smaller.events] == [0, 1]
    assert [event.at for event in smaller.events] == [1, 3]
