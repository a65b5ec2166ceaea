"""Frameworks that can be decoded but not run, and the messages about them."""

from typing import Any

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.model.framework import Framework, TaskRoleSpec
from windlass.wire import semantic_validation


def framework(name: str, *roles: tuple[str, int]) -> Framework:
    return builders.framework(name, *(TaskRoleSpec(role, tasks) for role, tasks in roles))


@pytest.mark.parametrize(
    "good",
    [
        framework("job", ("ps", 2), ("worker", 4)),
        framework("a" * 63, ("b" * 63, 10_000)),
        framework("0-9", ("0", 0)),
        framework("job", ("ps", 6_000), ("worker", 10_000)),
        builders.framework("job", completed_pods="Keep"),
    ],
)
def test_valid_framework_has_no_problem(good: Framework) -> None:
    assert semantic_validation.semantic_error(good) == ""


A_LABEL = "expected a DNS label of 1 to 63 lower-case letters, digits and hyphens"
BAD: list[Any] = [
    ("two roles of one name", framework("job", ("ps", 1), ("worker", 1), ("ps", 2)),
     'spec.taskRoles[2].name: found "ps", which is also the name of spec.taskRoles[0]. Give each role a unique name.'),
    ("dotted name", framework("a.b", ("ps", 1)), f'metadata.name: found "a.b", {A_LABEL}'),
    ("long name", framework("a" * 64, ("ps", 1)), f'metadata.name: found "{"a" * 59}…", {A_LABEL}'),
    ("hyphen at the end", framework("job-", ("ps", 1)), 'found "job-"'),
    ("no name", framework("", ("ps", 1)), 'metadata.name: found ""'),
    ("a line's end, which decoding lets through", framework("job", ("ps\n", 1)),
     r'spec.taskRoles[0].name: found "ps\n", expected 1 to 63 lower-case letters and digits, without hyphens'),
    ("hyphen in a role", framework("job", ("my-ps", 1)), 'spec.taskRoles[0].name: found "my-ps"'),
    ("too many of one role", framework("job", ("ps", 10_001)), "taskNumber: found 10001, expected 0 to 10000"),
    ("fewer than none", framework("job", ("ps", -1)), "spec.taskRoles[0].taskNumber: found -1"),
    ("too many together", framework("job", ("ps", 8_000), ("worker", 8_001)),
     "spec.taskRoles: found 16001 tasks, expected at most 16000 in all roles together"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "words"), [pytest.param(*row[1:], id=row[0]) for row in BAD])
def test_invalid_framework_is_one_problem(bad: Framework, words: str) -> None:
    assert words in semantic_validation.semantic_error(bad)


def test_all_problems_are_reported() -> None:
    message = semantic_validation.semantic_error(
        framework("a.b", ("my-ps", 1), ("worker", 20_000), ("worker", 1))
    )

    for place in (
        "metadata.name",
        "spec.taskRoles[0].name",
        "spec.taskRoles[1].taskNumber",
        "spec.taskRoles[2].name",
        "spec.taskRoles: ",
    ):
        assert message.count(place) == 1


def test_message_fits_into_a_condition() -> None:
    message = semantic_validation.semantic_error(framework("job", *(("worker", 1),) * 100))

    assert len(message) == semantic_validation.MAX_MESSAGE_LENGTH
    assert message.endswith("…")


@given(
    st.text("ab-.\n", max_size=4),
    st.lists(st.tuples(st.text("ab-\n", max_size=2), st.integers(-1, 10_001)), min_size=1, max_size=4),
)
def test_any_invalid_framework_has_a_message(name: str, roles: list[tuple[str, int]]) -> None:
    names = [role for role, _ in roles]
    letters_only = all(role and not set(role) - {"a", "b"} for role in names)
    is_a_label = name != "" and not {".", "\n"} & set(name) and name[0] != "-" != name[-1]
    in_range = (
        all(0 <= tasks <= 10_000 for _, tasks in roles)
        and sum(n for _, n in roles) <= semantic_validation.MAX_TASKS
    )

    makes_sense = letters_only and is_a_label and in_range and len(set(names)) == len(names)

    assert (semantic_validation.semantic_error(framework(name, *roles)) == "") is makes_sense
