"""Completion of a Framework attempt (statements 17 and 30 to 33): which rule, which task, and the result."""

from datetime import timedelta

import pytest
from builders import NOW, framework, role
from tests.decide.worlds import World

from windlass.model.framework import CompletionPolicySpec, RetryPolicySpec
from windlass.model.states import State

End = tuple[str, int, int]
"""A task, by role and index, and the exit code of its pod."""


def end(world: World, *ends: End) -> None:
    """End these pods in one observation."""
    for name, index, exit_code in ends:
        if exit_code == 0:
            world.succeed(name, index)
        else:
            world.fail(name, index, exit_code)


def end_apart(world: World, *ends: End) -> None:
    """End these pods one after the other, ten seconds apart."""
    for item in ends:
        world.advance(10)
        end(world, item)
        world.settle()


# Completion and its code


@pytest.mark.parametrize(
    ("min_failed", "min_succeeded", "exit_codes", "code"),
    [
        # Three tasks; None runs on.
        pytest.param(1, -1, [None, 5, None], 5, id="first failure"),
        pytest.param(2, -1, [4, None, None], None, id="one failure of two"),
        pytest.param(2, -1, [4, None, 6], 6, id="two failures of two"),
        pytest.param(3, -1, [4, 0, 6], 0, id="two failures of three, all completed"),
        pytest.param(4, -1, [4, 5, 6], 0, id="more failures wanted than there are tasks"),
        pytest.param(-1, 1, [None, 0, None], 0, id="first success"),
        pytest.param(-1, 2, [0, 5, None], None, id="one success of two"),
        pytest.param(-1, 2, [0, None, 0], 0, id="two successes of two"),
        pytest.param(-1, 3, [0, 0, 1], 0, id="two successes of three, all completed"),
        pytest.param(1, 1, [None, None, 0], 0, id="both rules, success first"),
        pytest.param(1, 1, [None, 8, None], 8, id="both rules, failure first"),
        pytest.param(1, 3, [0, 0, 0], 0, id="all must succeed and do"),
    ],
)
def test_role_completes_at_its_minimum_counts(
    min_failed: int,
    min_succeeded: int,
    exit_codes: list[int | None],
    code: int | None,
) -> None:
    """Statements 30 to 32; the pods end one after the other."""
    world = World(framework("job", role(tasks=3, min_failed=min_failed, min_succeeded=min_succeeded)))
    world.start()
    end_apart(world, *(("worker", index, each) for index, each in enumerate(exit_codes) if each is not None))
    assert world.code == code
    assert (world.state is State.COMPLETED) == (code is not None)


@pytest.mark.parametrize("off", [0, -1])
@pytest.mark.parametrize("exit_code", [0, 1])
def test_zero_and_minus_one_disable_a_rule(off: int, exit_code: int) -> None:
    """Statements 2 and 32: no number of completed tasks decides before all have completed, and then the attempt
    succeeds."""
    world = World(framework("job", role(tasks=3, min_failed=off, min_succeeded=off)))
    world.start()
    end(world, ("worker", 0, exit_code), ("worker", 1, exit_code))
    world.settle()
    assert world.code is None
    end(world, ("worker", 2, exit_code))
    world.settle()
    ended = world.status.attempt_status.completion_status
    assert world.state is State.COMPLETED
    assert ended is not None
    assert (ended.code, ended.phrase, ended.type.name) == (0, "Succeeded", "Succeeded")


@pytest.mark.parametrize("seen", ["apart", "at once"])
def test_all_tasks_completed_without_a_rule_is_success(seen: str) -> None:
    """Statement 32: "even where tasks failed"; a role without tasks does not delay completion."""
    world = World(
        framework("job", role("ps", 1, min_failed=-1), role("worker", 2, min_failed=-1), role("spare", 0))
    )
    world.start()
    ends = (("worker", 0, 1), ("ps", 0, 137), ("worker", 1, 2))
    if seen == "apart":
        end_apart(world, *ends)
    else:
        end(world, *ends)
        world.settle()
    assert (world.state, world.code) == (State.COMPLETED, 0)
    assert [world.task_code("worker", 0), world.task_code("ps"), world.task_code("worker", 1)] == [1, 137, 2]


@pytest.mark.parametrize(
    ("ends", "last"),
    [
        ((("worker", 1, 0), ("ps", 0, 3), ("worker", 0, 0)), ("worker", 0)),
        ((("worker", 0, 0), ("worker", 1, 0), ("ps", 0, 3)), ("ps", 0)),
    ],
)
def test_last_task_is_the_trigger_if_no_rule_was_met(ends: tuple[End, ...], last: tuple[str, int]) -> None:
    """Statement 32: the reference evaluates the rules for each task that completes."""
    world = World(framework("job", role("ps", 1, min_failed=-1), role("worker", 2, min_failed=-1)))
    world.start()
    end_apart(world, *ends)
    ended = world.status.attempt_status.completion_status
    assert ended is not None
    assert ended.trigger is not None
    assert (ended.code, ended.trigger.message) == (0, "2 of 3 tasks succeeded, 1 failed")
    assert (ended.trigger.task_role_name, ended.trigger.task_index) == last


def test_last_task_of_the_spec_is_the_trigger_of_tasks_seen_at_once() -> None:
    """Statements 30 and 32: of tasks that one pass finds completed, the last in the spec."""
    world = World(framework("job", role("worker", 2, min_failed=-1), role("ps", 1, min_failed=-1)))
    world.start()
    end(world, ("ps", 0, 0), ("worker", 1, 0), ("worker", 0, 0))
    world.settle()
    ended = world.status.attempt_status.completion_status
    assert ended is not None
    assert ended.trigger is not None
    assert (ended.trigger.task_role_name, ended.trigger.task_index) == ("ps", 0)


def test_retried_failure_does_not_count() -> None:
    """Statement 30 counts tasks that have completed, not attempts of them."""
    world = World(framework("job", role(tasks=2, min_failed=1, retry=RetryPolicySpec(max_retry_count=1))))
    world.start()
    world.fail(exit_code=5)
    world.settle()
    assert (world.state, world.code) == (State.ATTEMPT_RUNNING, None)
    world.run()
    world.settle()
    world.fail(exit_code=6)
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, 6)


def test_roles_are_counted_separately() -> None:
    """Statements 30 and 31: "in the TaskRole"."""
    world = World(framework("job", role("ps", 2, min_failed=2), role("worker", 2, min_failed=2)))
    world.start()
    end(world, ("ps", 0, 3), ("worker", 0, 4))
    world.settle()
    assert world.code is None
    end(world, ("worker", 1, 5))
    world.settle()
    assert world.code == 5


# Deleted tasks (statements 30 and 37)


@pytest.mark.parametrize("exit_code", [0, 9])
def test_deleted_task_does_not_count(exit_code: int) -> None:
    """Statement 30: neither as a failure nor as a success."""
    world = World(framework("job", role(tasks=2, min_failed=1, min_succeeded=1)))
    world.start()
    world.completes_deletions = False
    world.edit_role("worker", task_number=1)
    world.settle()
    end(world, ("worker", 1, exit_code))
    world.settle()
    assert world.code is None
    assert not world.state.is_ending


def test_attempt_does_not_wait_for_deleted_task() -> None:
    """Statement 30: all others have completed."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.completes_deletions = False
    world.edit_role("worker", task_number=1)
    world.settle()
    world.succeed(index=0)
    world.settle()
    assert world.code == 0


def test_earlier_failure_of_a_deleted_task_does_not_count() -> None:
    """Statement 30: the task failed and was deleted before the rule was added."""
    world = World(framework("job", role(tasks=2, min_failed=-1)))
    world.start()
    world.fail(index=1)
    world.settle()
    world.completes_deletions = False
    world.edit_role(
        "worker",
        task_number=1,
        framework_attempt_completion_policy=CompletionPolicySpec(min_failed_task_count=1),
    )
    world.settle()
    assert world.code is None


# The deciding rule and the trigger (statements 30 and 31)


def set_policies(world: World, policies: dict[str, tuple[int, int]]) -> None:
    for name, (min_failed, min_succeeded) in policies.items():
        world.edit_role(
            name, framework_attempt_completion_policy=CompletionPolicySpec(min_failed, min_succeeded)
        )


FIRST_PS = [("ps", 0, 3), ("worker", 0, 0), ("worker", 1, 4), ("ps", 1, 0)]


@pytest.mark.parametrize(
    ("ends", "policies", "code", "trigger"),
    [
        # The rules are added when all these tasks have ended, ten seconds apart: each was met at an earlier time.
        pytest.param(FIRST_PS, {"ps": (1, -1), "worker": (1, -1)}, 3, ("ps", 0), id="two roles"),
        pytest.param(FIRST_PS, {"ps": (-1, 1), "worker": (1, -1)}, 4, ("worker", 1), id="failure first"),
        pytest.param(FIRST_PS, {"ps": (-1, 1), "worker": (-1, 1)}, 0, ("worker", 0), id="success first"),
        pytest.param(FIRST_PS, {"ps": (2, 1), "worker": (2, -1)}, 0, ("ps", 1), id="the only one met"),
        pytest.param(
            FIRST_PS, {"ps": (-1, -1), "worker": (1, 1)}, 0, ("worker", 0), id="two rules of one role"
        ),
        pytest.param(
            [("worker", 1, 7), ("worker", 0, 8), ("ps", 1, 5), ("worker", 2, 9)],
            {"ps": (1, -1), "worker": (2, -1)},
            8,
            ("worker", 0),
            id="the second to fail, not the third",
        ),
        pytest.param(
            [("worker", 1, 7), ("ps", 1, 5), ("worker", 0, 8)],
            {"ps": (1, -1), "worker": (2, -1)},
            5,
            ("ps", 1),
            id="one of two is not met",
        ),
        pytest.param(
            [("worker", 2, 0), ("worker", 0, 0), ("worker", 1, 1)],
            {"ps": (-1, -1), "worker": (1, 2)},
            0,
            ("worker", 0),
            id="the second to succeed",
        ),
    ],
)
def test_earliest_met_rule_decides(
    ends: list[End],
    policies: dict[str, tuple[int, int]],
    code: int,
    trigger: tuple[str, int],
) -> None:
    """Statement 30: the k-th task to complete is the trigger, independent of its index and role."""
    world = World(framework("job", role("ps", 3, min_failed=-1), role("worker", 3, min_failed=-1)))
    world.start()
    end_apart(world, *ends)
    assert world.code is None
    world.advance(10)
    set_policies(world, policies)
    world.settle()
    ended = world.status.attempt_status.completion_status
    assert ended is not None
    assert ended.trigger is not None
    assert (ended.trigger.task_role_name, ended.trigger.task_index) == trigger
    assert ended.code == code


Finish = tuple[str, int, int, int | None]
"""A task, by role and index, the exit code of its pod, and when its container finished: in seconds, or None if no
container has a finish time."""


def finish(world: World, *finishes: Finish) -> None:
    """End these pods in one observation, as after a change of leader."""
    for name, index, exit_code, seconds in finishes:
        is_known = seconds is not None
        world.show_pod(
            "Failed" if exit_code else "Succeeded",
            name,
            index,
            exit_code=exit_code if is_known else None,
            reason="" if is_known else "Evicted",
            finished_at=NOW + timedelta(seconds=seconds or 0),
        )


ANY = (1, 1)


@pytest.mark.parametrize(
    ("policies", "finishes", "code", "trigger"),
    [
        pytest.param(
            {"worker": (1, -1), "master": (-1, 1)},
            [("worker", 0, 7, 2), ("master", 0, 0, 1)],
            0,
            ("master", 0),
            id="success before failure",
        ),
        pytest.param(
            {"master": (-1, 1), "worker": (1, -1)},
            [("master", 0, 0, 2), ("worker", 0, 7, 1)],
            7,
            ("worker", 0),
            id="failure before success",
        ),
        pytest.param(
            {"master": (-1, 1), "worker": (1, -1)},
            [("worker", 0, 7, 1), ("master", 0, 0, 1)],
            0,
            ("master", 0),
            id="same second: success first in the spec",
        ),
        pytest.param(
            {"worker": (1, -1), "master": (-1, 1)},
            [("master", 0, 0, 1), ("worker", 0, 7, 1)],
            7,
            ("worker", 0),
            id="same second: failure first in the spec",
        ),
        pytest.param(
            {"worker": ANY, "master": ANY},
            [("worker", 2, 7, 1), ("worker", 1, 0, 1), ("master", 0, 8, 1)],
            0,
            ("worker", 1),
            id="same second, same role: lower index",
        ),
        pytest.param(
            {"worker": ANY, "master": ANY},
            [("worker", 0, 7, 2), ("worker", 1, 0, 1), ("master", 0, 8, 3)],
            0,
            ("worker", 1),
            id="two rules of one role",
        ),
        pytest.param(
            {"worker": (2, -1), "master": (-1, 1)},
            [("worker", 0, 7, 3), ("worker", 1, 8, 1), ("worker", 2, 9, 5), ("master", 0, 0, 4)],
            7,
            ("worker", 0),
            id="the second to fail",
        ),
        pytest.param(
            {"worker": (2, -1), "master": (-1, 1)},
            [("worker", 0, 7, 3), ("worker", 1, 8, 1), ("master", 0, 0, 2)],
            0,
            ("master", 0),
            id="before the second fails",
        ),
        pytest.param(
            {"worker": (1, -1), "master": (-1, 1)},
            [("worker", 0, 1, None), ("master", 0, 0, 9)],
            0,
            ("master", 0),
            id="no finish time: after the others",
        ),
    ],
)
def test_completions_of_one_pass_are_ordered_by_finish_time(
    policies: dict[str, tuple[int, int]], finishes: list[Finish], code: int, trigger: tuple[str, int]
) -> None:
    """Statement 30: the tasks end while no leader runs, so that they complete in the same pass."""
    roles = (role(name, 3, min_failed=each[0], min_succeeded=each[1]) for name, each in policies.items())
    world = World(framework("job", *roles))
    world.start()
    world.advance(60)
    finish(world, *finishes)
    world.restart()
    world.settle()
    ended = world.status.attempt_status.completion_status
    assert ended is not None
    assert ended.trigger is not None
    assert (ended.trigger.task_role_name, ended.trigger.task_index) == trigger
    assert ended.code == code


def test_finish_times_do_not_reorder_completions_of_different_passes() -> None:
    """Statement 30: the clocks of two nodes may differ, so the first completion that was seen comes first."""
    world = World(framework("job", role("ps", 1, min_failed=-1), role("worker", 2, min_failed=-1)))
    world.start()
    world.advance(10)
    finish(world, ("ps", 0, 3, 9))
    world.settle()
    world.advance(10)
    finish(world, ("worker", 0, 4, 1))
    world.settle()
    assert world.code is None
    set_policies(world, {"ps": (1, -1), "worker": (1, -1)})
    world.settle()
    assert world.code == 3


@pytest.mark.parametrize(
    ("min_failed", "min_succeeded", "ends", "index", "message"),
    [
        (1, -1, [5], 0, "FailedTaskCount 1 has reached MinFailedTaskCount 1 in the TaskRole"),
        (3, -1, [5, 0, 6, 7], 3, "FailedTaskCount 3 has reached MinFailedTaskCount 3 in the TaskRole"),
        (-1, 1, [0], 0, "SucceededTaskCount 1 has reached MinSucceededTaskCount 1 in the TaskRole"),
        (-1, 2, [0, 5, 0], 2, "SucceededTaskCount 2 has reached MinSucceededTaskCount 2 in the TaskRole"),
    ],
)
def test_trigger_names_the_met_rule(
    min_failed: int, min_succeeded: int, ends: list[int], index: int, message: str
) -> None:
    """Statement 31."""
    world = World(framework("job", role(tasks=5, min_failed=min_failed, min_succeeded=min_succeeded)))
    world.start()
    end_apart(world, *(("worker", number, exit_code) for number, exit_code in enumerate(ends)))
    ended = world.status.attempt_status.completion_status
    assert ended is not None
    assert ended.trigger is not None
    assert (ended.trigger.task_role_name, ended.trigger.task_index) == ("worker", index)
    assert ended.trigger.message == message


@pytest.mark.parametrize(
    ("exit_code", "phrase", "attributes"),
    [
        (3, "ContainerUnrecognizedFailed", ()),
        (200, "ContainerTransientFailed", ("Transient",)),
        (201, "ContainerTransientConflictFailed", ("Transient", "Conflict")),
        (210, "ContainerPermanentFailed", ("Permanent",)),
    ],
)
def test_attempt_inherits_completion_of_the_deciding_task(
    exit_code: int, phrase: str, attributes: tuple[str, ...]
) -> None:
    """Statements 18 and 31: code, phrase, type and diagnostics."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.fail(index=1, exit_code=exit_code, message="out of luck")
    world.settle()
    ended = world.status.attempt_status.completion_status
    of_task = world.task(index=1).attempt_status.completion_status
    assert ended is not None
    assert of_task is not None
    assert (ended.code, ended.phrase, tuple(ended.type.attributes)) == (exit_code, phrase, attributes)
    assert (ended.code, ended.phrase, ended.type) == (of_task.code, of_task.phrase, of_task.type)
    assert ended.diagnostics == of_task.diagnostics
    assert ended.diagnostics


# The other tasks (statement 33)


@pytest.mark.parametrize("deciding", [0, 5])
@pytest.mark.parametrize("runs", [True, False], ids=["running", "pending"])
def test_other_tasks_end_with_the_attempt(deciding: int, runs: bool) -> None:
    """Statement 33: running tasks get -220, completed ones keep their code."""
    world = World(framework("job", role("ps", 2), role(tasks=3, min_failed=1, min_succeeded=2)))
    world.settle()
    if runs:
        world.run_pods()
        world.settle()
    end_apart(world, ("worker", 2, 0), ("worker", 0, deciding))
    assert (world.state, world.code) == (State.COMPLETED, deciding)
    codes = [world.task_code("worker", index) for index in range(3)]
    assert codes == [deciding, -220, 0]
    assert [world.task_code("ps", index) for index in range(2)] == [-220, -220]
    other = world.task("ps").attempt_status.completion_status
    assert other is not None
    assert (other.phrase, other.type.name) == ("FrameworkAttemptCompletion", "Failed")


def test_pod_that_ended_at_the_same_time_keeps_its_code() -> None:
    """Statement 33: only a task that has not completed gets -220."""
    world = World(framework("job", role(tasks=3)))
    world.start()
    end(world, ("worker", 0, 5), ("worker", 1, 0))
    world.settle()
    assert world.code == 5
    assert [world.task_code(index=index) for index in range(3)] == [5, 0, -220]


def test_framework_without_tasks_does_not_complete() -> None:
    """Statement 17: the same applies if the last task is deleted after it has completed."""
    world = World(framework("job", role("ps", 0), role(tasks=2)))
    world.start()
    world.succeed(index=1)
    world.settle()
    world.edit_role("worker", task_number=0)
    world.settle()
    assert world.code is None
    assert not world.state.is_over


@pytest.mark.parametrize("exit_code", [0, 9])
def test_removed_role_does_not_count(exit_code: int) -> None:
    """Statement 30: only roles of the spec count, whatever happened to the tasks of others."""
    world = World(framework("job", role("ps", 2, min_failed=-1), role("worker", 2)))
    world.start()
    end(world, ("ps", 0, exit_code))
    world.settle()
    world.edit(task_roles=(role("worker", 2),))
    world.settle()
    assert world.code is None
    assert sorted(world.pods) == ["job-worker-0", "job-worker-1"]
    end_apart(world, ("worker", 0, 0), ("worker", 1, 0))
    assert (world.state, world.status.summary.tasks) == (State.COMPLETED, 2)
