"""A status patch turns the stored status into the new one."""

import json
from typing import Any

import builders
import msgspec
import pytest
from builders import NOW, at

from windlass.decide import initial_status
from windlass.k8s import json_patch
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskStatus
from windlass.simulate.scenario import draw
from windlass.simulate.simulation import Simulation
from windlass.wire import codec, status_patch


def framework(workers: int) -> Framework:
    job = builders.framework("job", builders.role("worker", workers), builders.role("ps", 2))
    return job.with_status(initial_status.framework_status(job, NOW), "7")


def with_tasks(status: FrameworkStatus, step: Any) -> FrameworkStatus:
    roles = tuple(
        msgspec.structs.replace(role, task_statuses=tuple(map(step, role.task_statuses)))
        for role in status.attempt_status.roles
    )
    attempt = msgspec.structs.replace(status.attempt_status, task_role_statuses=roles)
    return msgspec.structs.replace(status, attempt_status=attempt)


def advance(task: TaskStatus) -> TaskStatus:
    return msgspec.structs.replace(task, state=State.ATTEMPT_PREPARING, transition_time=at(3))


def operations(before: Framework, status: FrameworkStatus, *, compress: bool = True) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(status_patch.status_patch(before, status, compress=compress))
    return found


def apply_patch(before: Framework, patch: list[dict[str, Any]]) -> Any:
    return json_patch.json_patch(json.loads(codec.encode_framework(before)), patch)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_patch_produces_each_status_of_a_simulation(first: int) -> None:
    stores: list[FrameworkStatus] = []
    for seed in range(first, first + 10):
        simulation = Simulation(draw(seed))

        def check(before: Framework, status: FrameworkStatus, seed: int = seed) -> None:
            stores.append(status)
            result = apply_patch(before, operations(before, status))
            assert result["status"] == json.loads(msgspec.json.encode(codec.compress_status(status))), (
                f"seed {seed}"
            )
            assert result["metadata"]["resourceVersion"] == before.metadata.resource_version, f"seed {seed}"

        simulation.server.on_status_stored.append(check)
        simulation.run()
    assert stores


def test_change_of_one_task_is_one_operation() -> None:
    before = framework(300)
    assert before.status is not None
    after = with_tasks(before.status, lambda task: advance(task) if task.index == 250 else task)
    precondition, change = operations(before, after)
    assert precondition == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    assert change["path"] == "/status/attemptStatus/taskRoleStatuses/0/taskStatuses/250"
    assert change["op"] == "replace"


def test_first_status_is_written_completely() -> None:
    before = msgspec.structs.replace(framework(2), status=None)
    status = initial_status.framework_status(before, NOW)
    _, change = operations(before, status)
    assert (change["op"], change["path"]) == ("add", "/status")


def test_unchanged_status_has_only_the_precondition() -> None:
    before = framework(2)
    assert before.status is not None
    assert len(operations(before, before.status)) == 1


@pytest.mark.parametrize("compress", [True, False])
def test_too_many_changes_are_one_replacement(compress: bool) -> None:
    before = framework(status_patch.MAX_OPERATIONS + 10)
    assert before.status is not None
    after = msgspec.structs.replace(with_tasks(before.status, advance), run_time=at(3))
    patch = operations(before, after, compress=compress)
    assert [change["path"] for change in patch] == [
        "/metadata/resourceVersion",
        "/status/runTime",
        "/status/attemptStatus",
    ]
    stored = apply_patch(before, patch)
    decoded = codec.decode_framework(json.dumps(stored).encode())
    assert decoded.status == after
    is_compressed = stored["status"]["attemptStatus"]["taskRoleStatuses"] is None
    assert is_compressed is compress


def test_removal_of_all_roles_removes_the_compressed_field() -> None:
    """Readers would expand the compressed statuses of the removed roles again, because the plain field is empty."""
    large = framework(3000)
    assert large.status is not None
    stored = apply_patch(large, operations(msgspec.structs.replace(large, status=None), large.status))
    attempt = msgspec.structs.replace(large.status.attempt_status, task_role_statuses=())
    empty = msgspec.structs.replace(large.status, attempt_status=attempt)
    patched = json_patch.json_patch(stored, operations(large, empty))
    decoded = codec.decode_framework(json.dumps(patched).encode())
    assert decoded.status == empty


def test_change_of_compression_removes_the_other_field() -> None:
    large, small = framework(3000), framework(2)
    assert large.status is not None
    assert small.status is not None
    shrunk = json.loads(status_patch.full_status_patch(large, small.status, compress=True))
    attempt = apply_patch(large, shrunk)["status"]["attemptStatus"]
    assert attempt["taskRoleStatuses"]
    assert "taskRoleStatusesCompressed" not in attempt
    grown = apply_patch(small, operations(small, large.status))["status"]["attemptStatus"]
    assert grown["taskRoleStatuses"] is None
    assert grown["taskRoleStatusesCompressed"]
