"""The Simulation: many small worlds in which much goes wrong, each drawn from one seed.

A run checks the invariants of `simulate.invariants`: statement 40, no pod before its stored intent, retry limits,
monotony, decisions that are fixed points, an end that is reached, and nothing left behind. `make simulate SEEDS=n`
plays any number of seeds. `make mutate` shows that planted mistakes violate an invariant.
"""

from collections.abc import Callable
from typing import Any

import builders
import many_frameworks
import msgspec
import pytest

from windlass.decide import completion, deletion, rescale, retry
from windlass.model.completion import FrameworkAttemptCompletionStatus
from windlass.model.framework import CompletedPods, FrameworkSpec, RetryPolicySpec
from windlass.model.states import State
from windlass.model.status import TaskRoleStatus
from windlass.simulate import play, scenario
from windlass.simulate.scenario import Event, EventType, Faults, Occurrence, Scenario, Submission
from windlass.simulate.simulation import Simulation

SEEDS = 300
"""The seeds of `make mutate`. `make simulate` plays more."""


@pytest.mark.parametrize("first", range(0, SEEDS, 100))
def test_no_seed_violates_an_invariant(first: int) -> None:
    broken = play.first_failure_in(range(first, first + 100))
    assert broken is None, play.report(broken[0])


@pytest.mark.parametrize("seed", range(7, 12))
def test_seed_is_deterministic(seed: int) -> None:
    first, second = (Simulation(scenario.draw(seed)).run() for _ in range(2))
    assert first.requests() == second.requests()
    assert first.server.frameworks == second.server.frameworks
    assert first.timeline.now == second.timeline.now
    assert len(first.controllers) == len(second.controllers)


def test_every_kind_of_event_and_fault_is_drawn() -> None:
    drawn = [scenario.draw(seed) for seed in range(SEEDS)]
    assert {event.type for world in drawn for event in world.events} == set(EventType)
    for field in Faults.__struct_fields__:
        assert any(getattr(world.faults, field) for world in drawn), field


@pytest.fixture(scope="module")
def occurred() -> set[Occurrence]:
    """The situations that the first scenarios lead to, until all were seen."""
    found: set[Occurrence] = set()
    for seed in range(SEEDS):
        found |= Simulation(scenario.draw(seed)).run().server.occurred
        if found == set(Occurrence):
            break
    return found


@pytest.mark.parametrize("situation", Occurrence)
def test_drawn_scenarios_lead_to_each_situation(situation: Occurrence, occurred: set[Occurrence]) -> None:
    assert situation in occurred


def test_hundred_frameworks_complete() -> None:
    played = Simulation(many_frameworks.draw(seed=1, count=100)).run()
    assert len(played.server.frameworks) == 100


@pytest.mark.parametrize("completed_pods", CompletedPods)
def test_parameter_server_does_not_keep_a_finished_job_alive(completed_pods: CompletedPods) -> None:
    """A2: pods that still run are deleted, and the Framework is Completed when they are gone."""
    job = builders.framework(
        "job",
        builders.role("ps", 2),
        builders.role("worker", 2, min_succeeded=2),
        completed_pods=completed_pods,
    )
    played = Simulation(Scenario(1, (Submission(10, job),), endless_roles=frozenset({"ps"}))).run()
    (done,) = played.server.frameworks.values()
    assert done.status is not None
    assert done.status.state is State.COMPLETED
    assert not played.kubelets.is_anything_running
    kept = {pod.metadata.labels.role_name for pod in played.server.pods.values()}
    assert kept == ({"worker"} if completed_pods is CompletedPods.KEEP else set())


def stopped_while_blind(seed: int) -> Scenario:
    """Lose answers, silence the watch of pods, and stop the job just after its pod was created."""
    job = builders.framework("job", builders.role("worker", 1), completed_pods=CompletedPods.KEEP)
    return Scenario(
        seed,
        (Submission(6, job),),
        (Event(5, EventType.STALL, number=2, lasts=60), Event(6.5, EventType.STOP)),
        faults=Faults(error_after=0.5, duration=100),
        faults_end=30,
    )


def test_pod_created_without_an_answer_does_not_outlive_its_stopped_job() -> None:
    for seed in range(60):
        assert play.failure_of(stopped_while_blind(seed)) is None, seed


def config_map_deleted(seed: int) -> Scenario:
    policy = RetryPolicySpec(fancy_retry_policy=True)
    job = builders.framework("job", builders.role("worker", 1), retry_policy=policy)
    return Scenario(
        seed,
        (Submission(6, job),),
        (Event(10, EventType.DELETE_CONFIG_MAP_FOREGROUND), Event(100, EventType.STOP)),
        endless_roles=frozenset({"worker"}),
        is_lockstep=True,
    )


def test_a_deleted_config_map_costs_one_attempt() -> None:
    """The garbage collector removes it by name, and must not find the ConfigMap of the next attempt."""
    for seed in range(50):
        (job,) = Simulation(config_map_deleted(seed)).run().server.frameworks.values()
        assert job.status is not None
        assert job.status.retry_policy_status.total_retried_count == 1, seed


def clock_stepped_while_a_pod_terminates(seed: int) -> Scenario:
    """Lose all nodes, stop the job, and set the clock forward by an hour while its pod terminates."""
    job = builders.framework("job", builders.role("worker", 1, graceful_timeout=60))
    return Scenario(
        seed,
        (Submission(6, job),),
        (
            *(Event(12, EventType.LOSE_NODE, number=number, lasts=300) for number in range(1, 4)),
            Event(15, EventType.STOP),
            Event(30, EventType.STEP_CLOCK, number=1, lasts=60),
            *(Event(30 + tenth / 10, EventType.EDIT, number=6 * tenth) for tenth in range(1, 20)),
        ),
        endless_roles=frozenset({"worker"}),
        faults_end=40,
    )


def test_clock_that_is_set_forward_does_not_delete_a_pod_by_force_too_early() -> None:
    for seed in range(20):
        assert play.failure_of(clock_stepped_while_a_pod_terminates(seed)) is None, seed


# The Simulation can fail. `make mutate` checks that with many more mistakes.


def _retry_always(*_: object) -> retry.RetryDecision:
    return retry.RetryDecision(should_retry=True, is_counted=True, reason="planted")


def _keep_timeouts(_: FrameworkSpec, roles: tuple[TaskRoleStatus, ...]) -> tuple[TaskRoleStatus, ...]:
    return roles


def _do_nothing(*_: object, **__: object) -> None:
    return None


_evaluate = completion.evaluate


def _name_another_trigger(spec: FrameworkSpec, *args: Any) -> FrameworkAttemptCompletionStatus | None:
    """Name the first task of the role as the trigger instead of the k-th that completed."""
    ended = _evaluate(spec, *args)
    if ended is None or ended.trigger is None:
        return ended
    return msgspec.structs.replace(ended, trigger=msgspec.structs.replace(ended.trigger, task_index=0))


@pytest.mark.parametrize(
    ("module", "name", "mistake"),
    [
        (retry, "decide_retry", _retry_always),
        (deletion, "delete_unclaimed_pods", _do_nothing),
        (deletion, "force_delete_if_overdue", _do_nothing),
        (completion, "evaluate", _name_another_trigger),
        (rescale, "copy_timeouts", _keep_timeouts),
    ],
    ids=[
        "retries without end",
        "strays are left alone",
        "pods are never deleted by force",
        "the first task is the trigger",
        "timeouts are never copied",
    ],
)
def test_planted_bug_violates_an_invariant(
    module: object, name: str, mistake: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, mistake)
    assert play.first_failure_in(range(SEEDS)) is not None


def test_failing_scenario_is_shrunk() -> None:
    """A large scenario in which one event matters is reduced to that event."""
    large = scenario.draw(next(seed for seed in range(100) if len(scenario.draw(seed).events) > 6))
    culprit = Event(at=1.0, type=EventType.STOP, framework=0)
    large = msgspec.structs.replace(large, events=(*large.events, culprit))

    def fails(candidate: Scenario) -> bool:
        return culprit in candidate.events

    shortest = play.shrink(large, fails)
    assert shortest.events == (culprit,)
    assert len(shortest.submissions) == 1
    assert shortest.faults == scenario.QUIET
    (role,) = shortest.submissions[0].framework.spec.task_roles
    assert role.task_number <= 1


def test_report_has_the_seed_and_the_replay_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "decide_retry", _retry_always)
    broken = play.first_failure_in(range(SEEDS))
    assert broken is not None
    report = play.report(broken[0])
    assert f"--first {broken[0]} --seeds 1" in report
    assert f"seed {broken[0]}" in report
    assert "minimal scenario" in report


@pytest.mark.parametrize(
    ("is_broken", "code", "printed"),
    [(False, 0, "20 scenarios simulated, 0 violated an invariant"), (True, 1, "seed 3: planted")],
    ids=["all pass", "one fails"],
)
def test_fail_fast_stops_at_the_first_violation(
    is_broken: bool,
    code: int,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def failure_of(world: Scenario) -> str | None:
        return "planted" if is_broken and world.seed >= 3 else None

    monkeypatch.setattr(play, "failure_of", failure_of)
    monkeypatch.setattr("sys.argv", ["play", "--fail-fast", "--seeds", "20"])
    assert play.main() == code
    assert capsys.readouterr().out.strip() == printed


def test_removed_submission_removes_its_events() -> None:
    world = Scenario(
        1,
        tuple(Submission(0, builders.framework(f"job{number}")) for number in range(3)),
        (Event(1, EventType.STOP, 0), Event(2, EventType.STOP, 1), Event(3, EventType.STOP, 2)),
    )
    smaller = play._without_submission(world, 1)
    assert [event.framework for event in smaller.events] == [0, 1]
    assert [event.at for event in smaller.events] == [1, 3]


# Requests of a job that succeeds, if its pods are created, start and end in three bursts

SIZES = [1, 2, 50, 300]


def requests_of_success(tasks: int, completed_pods: CompletedPods) -> dict[str, int]:
    job = builders.framework("job", builders.role("worker", tasks), completed_pods=completed_pods)
    result = Simulation(Scenario(seed=1, submissions=(Submission(10, job),), is_lockstep=True)).run()
    (done,) = result.server.frameworks.values()
    assert done.status is not None
    assert done.status.state is State.COMPLETED
    assert done.status.summary.succeeded == tasks
    return result.requests()


@pytest.mark.parametrize("tasks", SIZES)
def test_success_with_kept_pods_costs_five_requests_and_one_per_pod(tasks: int) -> None:
    assert requests_of_success(tasks, CompletedPods.KEEP) == {
        "create_config_map": 1,
        "create_pod": tasks,
        "store_status": 4,
    }


@pytest.mark.parametrize("tasks", SIZES)
def test_success_with_removal_costs_eight_requests_and_one_per_pod(tasks: int) -> None:
    assert requests_of_success(tasks, CompletedPods.DELETE) == {
        "create_config_map": 1,
        "create_pod": tasks,
        "store_status": 5,
        "delete_pods_of_attempt": 1,
        "delete_config_map": 1,
    }
