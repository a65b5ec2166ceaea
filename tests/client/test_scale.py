"""Scaling: the changed fields of the spec and their descriptions."""

from typing import Any

import builders
import pytest

from windlass.client import scale
from windlass.client.errors import InvalidJobError
from windlass.model import names

CASES: dict[str, tuple[dict[str, Any], int, dict[str, int]]] = {
    # (tasks, min_failed, min_succeeded) before, the new number, and the expected changes
    "all had to succeed": (
        {"tasks": 2, "min_succeeded": 2},
        4,
        {"taskNumber": 4, "minSucceededTaskCount": 4},
    ),
    "all had to succeed, of fewer": (
        {"tasks": 4, "min_succeeded": 4},
        1,
        {"taskNumber": 1, "minSucceededTaskCount": 1},
    ),
    "some had to succeed": ({"tasks": 4, "min_succeeded": 2}, 8, {"taskNumber": 8}),
    "more had to succeed than there are now": (
        {"tasks": 4, "min_succeeded": 3},
        2,
        {"taskNumber": 2, "minSucceededTaskCount": 2},
    ),
    "success does not count": ({"tasks": 2, "min_succeeded": -1}, 4, {"taskNumber": 4}),
    "one failure ends it": ({"tasks": 1, "min_failed": 1}, 4, {"taskNumber": 4}),
    "all had to fail": ({"tasks": 2, "min_failed": 2}, 4, {"taskNumber": 4, "minFailedTaskCount": 4}),
    "more had to fail than there are now": (
        {"tasks": 4, "min_failed": 3},
        2,
        {"taskNumber": 2, "minFailedTaskCount": 2},
    ),
    "scaled to 0, the count is kept": (
        {"tasks": 2, "min_succeeded": 2, "min_failed": 2},
        0,
        {"taskNumber": 0},
    ),
    "scaled up from 0": ({"tasks": 0, "min_succeeded": 2}, 4, {"taskNumber": 4, "minSucceededTaskCount": 4}),
    "no change": ({"tasks": 2, "min_succeeded": 2}, 2, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_completion_policy_follows_the_task_number(case: str) -> None:
    before, number, expected = CASES[case]
    framework = builders.framework("job", builders.role("ps"), builders.role("worker", **before))
    planned = scale.plan_scaling(framework, {"worker": number})
    changed = {each["path"].rpartition("/")[2]: each["value"] for each in planned.operations}
    assert changed == expected
    assert all(each["path"].startswith("/spec/taskRoles/1/") for each in planned.operations)
    assert all(str(value) in " ".join(planned.notes) for value in expected.values())
    assert planned.notes


ELASTIC = {names.RUNTIME_ANNOTATION: "pytorch", names.ELASTIC_ANNOTATION: "worker=2:4"}


def test_elastic_role_keeps_its_policy() -> None:
    worker = builders.role("worker", 2, min_failed=1, min_succeeded=2)
    framework = builders.framework("job", worker, annotations=ELASTIC)
    planned = scale.plan_scaling(framework, {"worker": 4})
    assert [each["path"] for each in planned.operations] == ["/spec/taskRoles/0/taskNumber"]


@pytest.mark.parametrize("number", [0, 1, 5])
def test_elastic_role_stays_in_its_range(number: int) -> None:
    framework = builders.framework("job", builders.role("worker", 2), annotations=ELASTIC)
    with pytest.raises(InvalidJobError, match="job is elastic, expected 2 to 4 tasks"):
        scale.plan_scaling(framework, {"worker": number})


REFUSED = {
    "unknown role": ({"wroker": 2}, 'has no role "wroker". Did you mean "worker"?'),
    "too many": ({"worker": 10_001}, "from 0 to 10000"),
    "negative": ({"worker": -1}, "from 0 to 10000"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_numbers_are_rejected(case: str) -> None:
    wanted, message = REFUSED[case]
    with pytest.raises(InvalidJobError, match=message.replace("?", r"\?")):
        scale.plan_scaling(builders.framework("job", builders.role("ps"), builders.role("worker")), wanted)
