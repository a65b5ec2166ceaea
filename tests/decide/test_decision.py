"""Blocked Frameworks: the condition is set once, and the Framework is managed again when the cause is gone."""

import builders
import msgspec
import pytest
from builders import NOW, at, role
from tests.decide.worlds import World

from windlass.decide import decide
from windlass.decide.types import CreateConfigMap, Decision, Observed, ReasonKind
from windlass.model.framework import Framework, TaskRoleSpec
from windlass.model.states import State
from windlass.model.status import Condition, ConditionType, FrameworkStatus

TWICE = (role("worker", 2), role("worker", 1))
"""Two roles of the same name, which a CRD schema cannot reject."""
OTHER_CONTROLLER = Observed(other_controller="frameworkcontroller")

INVALID = (builders.framework("job", *TWICE), Observed(), ConditionType.INVALID, ReasonKind.INVALID)
WITH_OTHER_CONTROLLER = (
    builders.framework("job", role("worker", 2)),
    OTHER_CONTROLLER,
    ConditionType.OTHER_CONTROLLER,
    ReasonKind.OTHER_CONTROLLER,
)

both = pytest.mark.parametrize(
    ("framework", "observed", "condition", "reason"),
    [
        pytest.param(*INVALID, id="invalid"),
        pytest.param(*WITH_OTHER_CONTROLLER, id="beside another controller"),
    ],
)


def status_of(decision: Decision) -> FrameworkStatus:
    assert decision.status is not None
    return decision.status


def condition_of(status: FrameworkStatus, kind: ConditionType) -> Condition:
    found = status.condition(kind)
    assert found is not None
    return found


def edited(framework: Framework, *roles: TaskRoleSpec) -> Framework:
    return msgspec.structs.replace(framework, spec=msgspec.structs.replace(framework.spec, task_roles=roles))


@both
def test_blocked_framework_has_a_condition_and_no_actions(
    framework: Framework, observed: Observed, condition: ConditionType, reason: ReasonKind
) -> None:
    decision = decide(framework, observed, at(0.25))
    found = condition_of(status_of(decision), condition)
    assert decision.actions == ()
    assert decision.wake_at is None
    assert not decision.may_wait, "a request waits for a response"
    assert [(each.kind, each.message, each.is_warning) for each in decision.reasons] == [
        (reason, found.message, True)
    ]
    assert (found.is_true, found.last_transition_time) == (True, NOW), "whole seconds, as Kubernetes has them"


@both
def test_condition_is_reported_once(
    framework: Framework, observed: Observed, condition: ConditionType, reason: ReasonKind
) -> None:
    status = status_of(decide(framework, observed, NOW))
    again = decide(framework.with_status(status), observed, at(3600))
    assert again == Decision(status=status)
    assert again.status is status, "identical, so no comparison is needed"


def test_changed_message_is_reported_and_keeps_the_transition_time() -> None:
    status = status_of(decide(INVALID[0], Observed(), NOW))
    worse = edited(INVALID[0], *TWICE, role("worker", 1)).with_status(status)
    decision = decide(worse, Observed(), at(60))
    found = condition_of(status_of(decision), ConditionType.INVALID)
    assert found.message != condition_of(status, ConditionType.INVALID).message
    assert found.last_transition_time == NOW
    assert len(decision.reasons) == 1
    assert len(status_of(decision).conditions) == 1


def test_message_names_the_other_controller_and_the_remedy() -> None:
    found = condition_of(
        status_of(decide(WITH_OTHER_CONTROLLER[0], OTHER_CONTROLLER, NOW)), ConditionType.OTHER_CONTROLLER
    )
    assert "stop frameworkcontroller" in found.message


@pytest.mark.parametrize("is_wiped", [True, False])
def test_removed_condition_is_not_added_again(is_wiped: bool) -> None:
    """The condition is not set again after the status was changed or removed."""
    status = status_of(decide(WITH_OTHER_CONTROLLER[0], OTHER_CONTROLLER, NOW))
    left = None if is_wiped else msgspec.structs.replace(status, conditions=())
    framework = msgspec.structs.replace(WITH_OTHER_CONTROLLER[0], status=left)
    decision = decide(
        framework, msgspec.structs.replace(OTHER_CONTROLLER, is_other_controller_reported=True), at(60)
    )
    assert decision == Decision(status=left)
    assert decision.status is left


def test_condition_of_the_other_controller_is_not_changed() -> None:
    """The condition may mean this controller: two controllers that correct each other would never stop."""
    theirs = status_of(decide(WITH_OTHER_CONTROLLER[0], Observed(other_controller="windlass-ours"), NOW))
    decision = decide(WITH_OTHER_CONTROLLER[0].with_status(theirs), OTHER_CONTROLLER, at(60))
    assert decision == Decision(status=theirs)


def test_other_controller_takes_precedence() -> None:
    """Deletion too is left to the controller that runs the Framework."""
    deleting = msgspec.structs.replace(
        INVALID[0], metadata=msgspec.structs.replace(INVALID[0].metadata, deletion_timestamp=NOW)
    )
    decision = decide(deleting, OTHER_CONTROLLER, NOW)
    assert [reason.kind for reason in decision.reasons] == [ReasonKind.OTHER_CONTROLLER]


def test_invalid_framework_gets_tasks_when_it_is_corrected() -> None:
    status = status_of(decide(INVALID[0], Observed(), NOW))
    assert status.state is State.ATTEMPT_CREATION_PENDING
    assert status.attempt_status.roles == ()
    corrected = edited(INVALID[0], role("worker", 2), role("ps", 1)).with_status(status)
    world = World(corrected)
    world.start()
    assert world.status.state is State.ATTEMPT_RUNNING
    assert {found.name: len(found.task_statuses) for found in world.status.attempt_status.roles} == {
        "worker": 2,
        "ps": 1,
    }
    assert world.status.summary.running == 3
    assert not condition_of(world.status, ConditionType.INVALID).is_true


def test_framework_blocked_before_its_start_runs_later() -> None:
    status = status_of(decide(WITH_OTHER_CONTROLLER[0], OTHER_CONTROLLER, NOW))
    decision = decide(WITH_OTHER_CONTROLLER[0].with_status(status), Observed(), at(60))
    status = status_of(decision)
    assert decision.actions == (CreateConfigMap(),)
    assert len(status.attempt_status.roles[0].task_statuses) == 2
    cleared = condition_of(status, ConditionType.OTHER_CONTROLLER)
    assert (cleared.is_true, cleared.last_transition_time) == (False, at(60))


@pytest.mark.parametrize("kind", [ConditionType.INVALID, ConditionType.OTHER_CONTROLLER])
def test_running_tasks_continue_while_blocked(kind: ConditionType) -> None:
    world = World(builders.framework("job", role("worker", 2)))
    world.start()
    running = world.status
    if kind is ConditionType.INVALID:
        decision = decide(edited(world.framework, *TWICE), Observed(pods=world.pods), at(10))
    else:
        decision = decide(world.framework, msgspec.structs.replace(OTHER_CONTROLLER, pods=world.pods), at(10))
    status = status_of(decision)
    assert decision.actions == ()
    assert status.attempt_status is running.attempt_status
    assert (status.state, status.summary) == (running.state, running.summary)
    world.framework = world.framework.with_status(status)
    for index in (0, 1):
        world.succeed(index=index)
    world.settle()
    assert world.status.state is State.COMPLETED
    assert not condition_of(world.status, kind).is_true
