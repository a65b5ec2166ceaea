"""Properties of the core contract, in small random worlds with any events between two passes."""

from collections.abc import Callable
from datetime import timedelta

import builders
import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st
from tests.decide.invariants import tasks_of
from tests.decide.worlds import World

from windlass.decide import decide
from windlass.model import names
from windlass.model.completion import CompletionCode, CompletionTypeName
from windlass.model.framework import (
    CompletedPods,
    ExecutionType,
    Framework,
    RetryBackoff,
    RetryPolicySpec,
    TaskRoleSpec,
)
from windlass.model.pods import PodView
from windlass.model.states import State
from windlass.model.status import Summary, TaskStatus

WAITING = State.ATTEMPT_CREATION_PENDING
EXIT_CODES = st.sampled_from([0, 0, 1, 137, 200, 201, 210])
SETTINGS = hypothesis.settings(
    deadline=None,
    derandomize=True,
    max_examples=150,
    phases=set(hypothesis.Phase) - {hypothesis.Phase.explain},
)

bounded_policies = st.builds(
    RetryPolicySpec,
    fancy_retry_policy=st.booleans(),
    max_retry_count=st.integers(0, 2),
    max_transient_retry_count=st.integers(0, 2),
    retry_backoff=st.sampled_from([None, None, RetryBackoff(1, 4)]),
)
policies = st.one_of(bounded_policies, st.builds(RetryPolicySpec, st.booleans(), st.sampled_from([-2, -1])))


def roles(policy: st.SearchStrategy[RetryPolicySpec]) -> st.SearchStrategy[tuple[TaskRoleSpec, ...]]:
    def one(name: str) -> st.SearchStrategy[TaskRoleSpec]:
        return st.builds(
            builders.role,
            st.just(name),
            st.sampled_from([1, 2, 3, 3, 0]),
            min_failed=st.sampled_from([2, 3, 1, 0, -1]),
            min_succeeded=st.sampled_from([-1, 3, 2, 1, 0]),
            retry=policy,
        )

    return st.one_of(st.tuples(one("worker")), st.tuples(one("ps"), one("worker")))


@st.composite
def frameworks(draw: st.DrawFn, policy: st.SearchStrategy[RetryPolicySpec] = policies) -> Framework:
    return builders.framework(
        "job",
        *draw(roles(policy)),
        uid=draw(st.sampled_from(["one", "two"])),
        retry_policy=draw(policy),
        completed_pods=draw(st.sampled_from(CompletedPods)),
        annotations=draw(st.sampled_from([{}, {}, {names.RUNTIME_ANNOTATION: "mpi"}])),
    )


# Events. An event without an object has no effect.

Event = Callable[[World], None]


def on_pod(number: int, change: Callable[[World, str, int], None]) -> Event:
    def event(world: World) -> None:
        if world.pods:
            pod = sorted(world.pods.values(), key=lambda each: each.name)[number % len(world.pods)]
            labels = pod.metadata.labels
            change(world, labels.role_name, int(labels.task_index))

    return event


def is_live(pod: PodView) -> bool:
    return not pod.is_terminal


def run(world: World, role: str, index: int) -> None:
    if is_live(world.pod(role, index)):
        world.run(role, index)


def end(exit_code: int) -> Callable[[World, str, int], None]:
    def change(world: World, role: str, index: int) -> None:
        if is_live(world.pod(role, index)):
            world.show_pod("Failed" if exit_code else "Succeeded", role, index, exit_code=exit_code)

    return change


def lose(world: World, role: str, index: int) -> None:
    if is_live(world.pod(role, index)):
        world.show_pod("Unknown", role, index)


def show_deleting(world: World, role: str, index: int) -> None:
    world.show_pod_deleting(role, index)


def remove(world: World, role: str, index: int) -> None:
    world.remove_pod(role, index)


def delete_config_map(world: World) -> None:
    if world.config_map is not None:
        world.show_config_map_deleting()


def remove_config_map(world: World) -> None:
    if world.config_map is not None:
        world.remove_config_map()


def strand_pods(world: World) -> None:
    if world.config_map is not None:
        world.remove_config_map(and_pods=False)


def scale(role: str, tasks: int) -> Event:
    return lambda world: world.edit_role(role, task_number=tasks)


def suspend(wanted: bool) -> Event:
    return lambda world: world.edit(suspend=wanted)


def advance(seconds: int) -> Event:
    return lambda world: world.advance(seconds)


def step(world: World) -> None:
    world.step()


def settle(world: World) -> None:
    world.settle()


def crash(acts: int) -> Event:
    def event(world: World) -> None:
        world.step(acts)
        world.restart()

    return event


def stop(world: World) -> None:
    world.edit(execution_type=ExecutionType.STOP)


def begin(world: World) -> None:
    world.confirm()
    world.settle()
    world.confirm()
    world.start()


numbers = st.integers(0, 5)
of_pods: st.SearchStrategy[Event] = st.builds(
    on_pod,
    numbers,
    st.one_of(st.just(run), st.builds(end, EXIT_CODES), st.just(lose), st.just(show_deleting)),
)
of_the_controller: st.SearchStrategy[Event] = st.one_of(
    st.sampled_from([step, step, settle, settle, begin, World.confirm, World.finish_deletions]),
    st.builds(advance, st.integers(1, 1000)),
    st.builds(crash, st.integers(0, 3)),
)
of_others: st.SearchStrategy[Event] = st.one_of(
    st.builds(on_pod, numbers, st.just(remove)),
    st.sampled_from([delete_config_map, remove_config_map, strand_pods]),
    st.builds(scale, st.sampled_from(["ps", "worker"]), st.integers(0, 4)),
    st.builds(suspend, st.sampled_from([True, False, False])),
)
kinds = st.sampled_from([of_pods] * 4 + [of_the_controller] * 4 + [of_others])
# Hypothesis prefers short lists, which are not interesting.
events = st.lists(kinds.flatmap(lambda kind: kind), min_size=8, max_size=25)


@st.composite
def lives(
    draw: st.DrawFn, policy: st.SearchStrategy[RetryPolicySpec] = policies
) -> tuple[World, list[Event]]:
    """A world and its events."""
    world = World(draw(frameworks(policy)))
    if draw(st.booleans()):
        begin(world)
    world.shows_creations = draw(st.sampled_from([True, True, False]))
    world.completes_deletions = draw(st.booleans())
    last = [stop] if draw(st.integers(0, 9)) == 0 else []
    return world, draw(events) + last


@SETTINGS
@hypothesis.given(lives())
def test_same_input_gives_the_same_decision(life: tuple[World, list[Event]]) -> None:
    """Core contract: a decision depends on its arguments and on nothing else."""
    world, happenings = life
    for event in happenings:
        event(world)
        assert world.decide() == world.decide()


@SETTINGS
@hypothesis.given(lives())
def test_deciding_again_on_the_stored_status_gives_the_same_actions(life: tuple[World, list[Event]]) -> None:
    """Core contract: "a crash between store and act loses nothing", while the objects are unchanged."""
    world, happenings = life
    for event in happenings:
        event(world)
        first = world.decide()
        if first.status is None:
            continue
        stored = world.framework.with_status(first.status, "9000")
        again = decide(stored, world.observed, world.now, world.rules)
        assert again.status == first.status
        assert again.actions == first.actions
        # The outcome of an action triggers the next decision; without an action, only wake_at does.
        assert first.actions or again.wake_at == first.wake_at


@SETTINGS
@hypothesis.given(lives())
def test_no_actions_remain_when_the_outcomes_are_observed(life: tuple[World, list[Event]]) -> None:
    """Core contract: the status becomes stable, and stays so until wake_at."""
    world, happenings = life
    for event in happenings:
        event(world)
        settled = world.settle()
        assert settled.actions == ()
        until = settled.wake_at or world.now + timedelta(days=29)
        assert until > world.now
        world.now = until - timedelta(seconds=1) if until - world.now > timedelta(seconds=1) else world.now
        later = world.decide()
        assert (later.status, later.actions) == (settled.status, ())


def ended_by_itself(task: TaskStatus, how: CompletionTypeName) -> bool:
    ended = task.attempt_status.completion_status
    return (
        task.state is State.COMPLETED
        and ended is not None
        and ended.type.name == how
        and ended.code != CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION
    )


@SETTINGS
@hypothesis.given(lives())
def test_summary_equals_a_recount(life: tuple[World, list[Event]]) -> None:
    """A6: tasks that are being scaled away do not count, and -220 is neither a success nor a failure."""
    world, happenings = life
    for event in [*happenings, settle]:
        event(world)
        status = world.decide().status
        assert status is not None
        tasks = [task for _, task in tasks_of(status) if not task.deletion_pending]
        assert status.summary == Summary(
            tasks=len(tasks),
            running=sum(task.state is State.ATTEMPT_RUNNING for task in tasks),
            succeeded=sum(ended_by_itself(task, CompletionTypeName.SUCCEEDED) for task in tasks),
            failed=sum(ended_by_itself(task, CompletionTypeName.FAILED) for task in tasks),
        )


@SETTINGS
@hypothesis.given(lives(bounded_policies), st.data())
def test_framework_completes_when_all_pods_finish(
    life: tuple[World, list[Event]], data: st.DataObject
) -> None:
    """After any events; no retry count exceeds its policy (statements 10 and 26, A5)."""
    world, happenings = life
    for event in happenings:
        event(world)
    world.restart()
    world.shows_creations = True
    world.completes_deletions = True
    world.confirm()
    world.edit(suspend=False)
    world.edit_role("worker", task_number=max(1, world.framework.spec.task_roles[-1].task_number))
    for _ in range(100):
        world.settle()
        world.finish_deletions()
        for number in range(len(world.pods)):
            on_pod(number, end(data.draw(EXIT_CODES)))(world)
        decision = world.settle()
        if world.state is State.COMPLETED:
            break
        if decision.wake_at is not None:
            world.now = decision.wake_at
    assert world.state is State.COMPLETED
    check_retry_counts(world)
    assert (world.config_map is not None) <= (world.framework.spec.completed_pods is CompletedPods.KEEP)
    assert all(pod.is_terminal for pod in world.pods.values())


@SETTINGS
@hypothesis.given(lives(), st.booleans(), st.booleans())
def test_stop_and_suspend_delete_all_objects(
    life: tuple[World, list[Event]], stops: bool, restarts: bool
) -> None:
    """Statement 24 and A3, after any events: no object of a completed attempt remains."""
    world, happenings = life
    for event in happenings:
        event(world)
    if restarts:
        world.restart()
    world.shows_creations = world.completes_deletions = True
    world.confirm()
    world.edit(suspend=True)
    if stops:
        stop(world)
    world.settle()
    world.finish_deletions()
    world.settle()
    if world.state is State.ATTEMPT_COMPLETED:
        world.wake()
    is_stopped = world.framework.spec.execution_type is ExecutionType.STOP
    assert world.state in ({State.COMPLETED} if is_stopped else {State.COMPLETED, WAITING})
    if world.state is WAITING or world.framework.spec.completed_pods is CompletedPods.DELETE:
        assert (world.pods, world.config_map) == ({}, None)
    assert all(pod.is_terminal for pod in world.pods.values())


def check_retry_counts(world: World) -> None:
    spec, status = world.framework.spec, world.status
    retries = status.retry_policy_status
    assert retries.accountable_retried_count <= spec.retry_policy.max_retry_count
    for name, task in tasks_of(status):
        role = spec.role(name)
        assert role is not None
        policy, counts = role.task.retry_policy, task.retry_policy_status
        assert counts.accountable_retried_count <= policy.max_retry_count
        uncounted = counts.total_retried_count - counts.accountable_retried_count
        assert uncounted <= (policy.max_transient_retry_count or 0)


@pytest.mark.parametrize("passes", range(12))
def test_crash_at_any_pass_loses_nothing(passes: int) -> None:
    """Core contract: after any number of passes and actions, another controller continues."""
    for acts in range(6):
        crash_and_go_on(passes, acts)


def crash_and_go_on(passes: int, acts: int) -> None:
    spec = builders.framework("job", builders.role(tasks=3), retry_policy=RetryPolicySpec(max_retry_count=1))
    world = World(spec)
    for number in range(60):
        if number == passes:
            world.step(acts)
            world.restart()
        before = world.status if number else None
        decision = world.step()
        if decision.status == before and not decision.actions:
            for index in range(3):
                if world.has_pod(index=index):
                    world.fail(index=index) if world.status.attempt_status.id == 0 else world.succeed(
                        index=index
                    )
    assert (world.state, world.code, world.status.attempt_status.id) == (State.COMPLETED, 0, 1), acts
    assert world.status.retry_policy_status.accountable_retried_count == 1, acts
    assert (world.pods, world.config_map) == ({}, None), acts


def test_decision_does_not_change_its_input() -> None:
    """Core contract: values are frozen; the input is the same after the pass."""
    world = World(builders.framework("job", builders.role(tasks=2)))
    world.start()
    world.fail()
    observed, given = world.observed, world.framework
    copies = msgspec.json.encode(observed), msgspec.json.encode(given)
    decide(given, observed, world.now, world.rules)
    assert (msgspec.json.encode(observed), msgspec.json.encode(given)) == copies


LONG = 2**53
"""The maximum number of seconds in the model; too many for a datetime."""


@pytest.mark.parametrize(
    "spec",
    [
        {"active_deadline_seconds": LONG},
        {"pending_deadline_seconds": LONG},
        {"ttl_seconds_after_finished": LONG},
        {"retry_policy": RetryPolicySpec(max_retry_count=1, retry_backoff=RetryBackoff(LONG, LONG))},
        {"task_roles": (builders.role(graceful_timeout=LONG),)},
        {
            "task_roles": (
                builders.role(retry=RetryPolicySpec(False, 1, retry_backoff=RetryBackoff(LONG, LONG))),
            )
        },
    ],
    ids=["active", "pending", "ttl", "backoff", "graceful", "task-backoff"],
)
def test_extreme_durations_do_not_break_a_decision(spec: dict[str, object]) -> None:
    """A4, A5 and statement 42: a deadline that never comes."""
    world = World(builders.framework("job", builders.role()))
    world.edit(**spec)
    world.start()
    world.completes_deletions = False
    world.show_pod_deleting()
    world.settle()
    world.completes_deletions = True
    world.remove_pod()
    world.settle()
    assert world.task_code() == -101
