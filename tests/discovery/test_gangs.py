"""The Gang of an attempt, from the stored status: complete, or none."""

from typing import Any

import gang_objects
import msgspec
import pytest

from windlass.discovery import gangs, peers
from windlass.model import names
from windlass.model.feature_annotations import Runtime
from windlass.model.framework import Framework
from windlass.model.gang import GangSpec
from windlass.model.status import TaskStatus


def gpus(*limits: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "a", "resources": {"limits": each}} for each in limits]}}


def test_gang_has_all_addresses() -> None:
    assert gangs.gang_of(gang_objects.framework()) == gang_objects.gang()


@pytest.mark.parametrize("runtime", list(map(str, Runtime)))
def test_gang_with_dns_names_has_the_service(runtime: str) -> None:
    made = gang_objects.framework(annotations={names.RUNTIME_ANNOTATION: runtime})
    assert gangs.gang_of(made) == gang_objects.gang(service="digits")


def test_gang_has_the_hostname_of_the_template() -> None:
    made = gang_objects.framework(annotations={names.RUNTIME_ANNOTATION: "plain"})
    ps, worker = made.spec.task_roles
    task = msgspec.structs.replace(
        worker.task, pod={"spec": {"hostname": "{{FC_POD_NAME}}-{{FC_TASK_INDEX+1}}"}}
    )
    roles = (ps, msgspec.structs.replace(worker, task=task))
    made = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, task_roles=roles))
    gang = gangs.gang_of(made)
    assert gang is not None
    assert [member.dns_name for member in gang.roles[0].members] == [""]
    found = peers.gang_peers_with_dns_names(gang).roles
    assert [str(each) for role in ("ps", "worker") for each in found[role]] == [
        "ps-0.digits:2222",
        "digits-worker-0-1.digits:2222",
        "digits-worker-1-2.digits:2222",
    ]


def with_task(made: Framework, **fields: Any) -> Framework:
    """Return a Framework whose last task has these fields."""

    def changed(task: TaskStatus) -> TaskStatus:
        return msgspec.structs.replace(task, **fields)

    assert made.status is not None
    attempt = made.status.attempt_status
    role = attempt.roles[-1]
    tasks = (*role.task_statuses[:-1], changed(role.task_statuses[-1]))
    roles = (*attempt.roles[:-1], msgspec.structs.replace(role, task_statuses=tasks))
    status = msgspec.structs.replace(
        made.status, attempt_status=msgspec.structs.replace(attempt, task_role_statuses=roles)
    )
    return made.with_status(status)


def with_attempt(made: Framework, **fields: Any) -> Framework:
    assert made.status is not None
    attempt = msgspec.structs.replace(made.status.attempt_status, **fields)
    return made.with_status(msgspec.structs.replace(made.status, attempt_status=attempt))


WHOLE = gang_objects.framework()
NOT_YET = {
    "one-without-an-address": gang_objects.framework({"ps": ["10.0.0.4"], "worker": ["10.0.0.5", ""]}),
    "one-that-is-scaled-away": with_task(WHOLE, deletion_pending=True),
    "a-role-without-status": with_attempt(WHOLE, task_role_statuses=WHOLE.status.attempt_status.roles[:1]),  # type: ignore[union-attr]
    "no-attempt": with_attempt(WHOLE, instance_uid=None),
    "no-status": msgspec.structs.replace(WHOLE, status=None),
}


@pytest.mark.parametrize("made", NOT_YET.values(), ids=NOT_YET.keys())
def test_no_gang_while_an_address_is_missing(made: Framework) -> None:
    """Statement 47: every task of the spec."""
    assert gangs.gang_of(made) is None


def test_deleted_tasks_are_not_in_the_gang() -> None:
    """The spec has one worker less than the status."""
    spec = msgspec.structs.replace(
        WHOLE.spec,
        task_roles=(
            WHOLE.spec.task_roles[0],
            msgspec.structs.replace(WHOLE.spec.task_roles[1], task_number=1),
        ),
    )
    made = with_task(msgspec.structs.replace(WHOLE, spec=spec), deletion_pending=True)
    assert gangs.gang_of(made) == gang_objects.gang({"ps": ["10.0.0.4"], "worker": ["10.0.0.5"]})


def test_role_without_tasks_is_in_the_gang() -> None:
    empty = {"ps": [], "worker": ["10.0.0.5"]}
    assert gangs.gang_of(gang_objects.framework(empty)) == gang_objects.gang(empty)


@pytest.mark.parametrize(
    ("pod", "slots"),
    [
        (gpus({}), 1),
        (gpus({"nvidia.com/gpu": 4}), 4),
        (gpus({"nvidia.com/gpu": "4"}), 4),
        (gpus({"amd.com/gpu": 2}), 2),
        (gpus({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 2}), 3),
        (gpus({"nvidia.com/gpu": 0}), 1),
        (gpus({"nvidia.com/gpu": "many"}), 1),
        (gpus({"cpu": 8}), 8),
        (gpus({"cpu": "2500m"}), 2),
        (gpus({"cpu": "500m"}), 1),
        (gpus({"cpu": 8, "nvidia.com/gpu": 2}), 2),
        (gpus(None), 1),
        ({"spec": {"containers": [{"resources": []}]}}, 1),
    ],
    ids=str,
)
def test_slots_follow_the_limits_of_the_template(pod: Any, slots: int) -> None:
    """One process of mpirun per GPU of the task, or per whole CPU."""
    found: GangSpec | None = gangs.gang_of(gang_objects.framework({"worker": ["10.0.0.5"]}, pod=pod))
    assert found is not None
    assert found.roles[0].slots == slots
