"""Validation of completion rules, failure classes and start order, by the controller and by lint."""

from typing import Any

import builders
import msgspec
import pytest

from windlass.model.framework import Framework
from windlass.wire.diagnostics import Rule
from windlass.wire.lint import framework as lint
from windlass.wire.semantic_validation import semantic_error
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree

Spec = dict[str, Any]


def body(spec: Spec, worker: Spec | None = None, annotations: dict[str, str] | None = None) -> Spec:
    made = builders.framework(
        "job", builders.role("ps"), builders.role(tasks=2), annotations=annotations or {}
    )
    whole: Spec = msgspec.json.decode(msgspec.json.encode(made))
    whole["spec"] |= spec
    worker = dict(worker or {})
    whole["spec"]["taskRoles"][1]["task"] |= worker.pop("task", {})
    whole["spec"]["taskRoles"][1] |= worker
    return whole


def lint_of(whole: Spec) -> set[tuple[str, str]]:
    root = yaml_parse.parse(msgspec.json.encode(whole)).documents[0].root
    assert isinstance(root, tree.Mapping)
    return {(each.path, str(each.rule)) for each in lint.check(root)}


RULE = "spec.completionPolicies[0]"
START = "spec.taskRoles[1].startAfter"
CLASS = "spec.taskRoles[1].task.podFailureSpec[0]"


def rule(**fields: Any) -> tuple[Spec, Spec]:
    return {"completionPolicies": [fields]}, {}


def failure(**fields: Any) -> tuple[Spec, Spec]:
    return {}, {"task": {"podFailureSpec": [fields]}}


def after(role: str) -> tuple[Spec, Spec]:
    return {}, {"startAfter": [{"taskRole": role, "condition": "Ready"}]}


INVALID: dict[str, tuple[tuple[Spec, Spec], str, Rule]] = {
    "no condition": (rule(name="x"), RULE, Rule.WRONG_VALUE),
    "two conditions": (rule(allSucceeded=True, minFailedTaskCount=1), RULE, Rule.WRONG_VALUE),
    "unknown role": (rule(taskRoles=["chief"], allSucceeded=True), f"{RULE}.taskRoles", Rule.UNKNOWN_ROLE),
    "reversed indexes": (rule(taskIndexes="3-1", allSucceeded=True), f"{RULE}.taskIndexes", Rule.WRONG_VALUE),
    "phrases of a success": (rule(phrases=["X"], allSucceeded=True), RULE, Rule.WRONG_VALUE),
    "phases of failures": (
        rule(phases=["Running"], minFailedTaskCount=1),
        f"{RULE}.phases",
        Rule.WRONG_VALUE,
    ),
    "type of a success": (rule(allSucceeded=True, type={"attributes": []}), f"{RULE}.type", Rule.WRONG_VALUE),
    "code of success": (failure(code=0), f"{CLASS}.code", Rule.WRONG_VALUE),
    "expression": (
        failure(podPatterns=[{"messageRegex": "("}]),
        f"{CLASS}.podPatterns[0].messageRegex",
        Rule.WRONG_VALUE,
    ),
    "reversed range": (
        failure(codeRanges=[{"min": 3, "max": 1}]),
        f"{CLASS}.codeRanges[0]",
        Rule.WRONG_VALUE,
    ),
    "start after an unknown role": (after("chief"), f"{START}[0].taskRole", Rule.UNKNOWN_ROLE),
    "start after itself": (after("worker"), "spec.taskRoles", Rule.START_DEADLOCK),
}


@pytest.mark.parametrize(("fields", "path", "lint_rule"), INVALID.values(), ids=INVALID)
def test_invalid_rule_is_an_error_of_lint_and_of_the_controller(
    fields: tuple[Spec, Spec], path: str, lint_rule: Rule
) -> None:
    whole = body(*fields)
    assert (path, str(lint_rule)) in lint_of(whole)
    assert f"{path}: " in semantic_error(msgspec.convert(whole, Framework))


VALID = {
    "counts": rule(minFailedTaskCount=3, taskRoles=["worker", "ps"], phrases=["X"]),
    "indexes": rule(taskIndexes="0,1", minSucceededTaskCount=2, taskRoles=["worker"]),
    "class": failure(codeRanges=[{"min": -101, "max": -101}], type={"attributes": ["Transient"]}),
    "order": after("ps"),
}


@pytest.mark.parametrize("fields", VALID.values(), ids=VALID)
def test_valid_rule_has_no_diagnostics(fields: tuple[Spec, Spec]) -> None:
    whole = body(*fields)
    assert lint_of(whole) == set()
    assert semantic_error(msgspec.convert(whole, Framework)) == ""


@pytest.mark.parametrize(
    "fields",
    [
        rule(minFailedTaskCount=4),
        rule(taskIndexes="1", minSucceededTaskCount=2),
        rule(taskIndexes="2-9", allSucceeded=True),
        rule(minContainerRestartCount=1),
    ],
)
def test_rule_that_no_result_can_meet_is_a_warning(fields: tuple[Spec, Spec]) -> None:
    whole = body(*fields)
    assert lint_of(whole) == {(RULE, str(Rule.NEVER_MET))}
    assert semantic_error(msgspec.convert(whole, Framework)) == ""


@pytest.mark.parametrize(
    ("field", "value"), [("startAfter", after("ps")[1]["startAfter"]), ("parallelism", 1)]
)
def test_waiting_role_and_a_barrier_are_a_deadlock(field: str, value: Any) -> None:
    whole = body({}, {field: value}, {"windlass.dev/barrier": "true"})
    assert (f"spec.taskRoles[1].{field}", str(Rule.START_DEADLOCK)) in lint_of(whole)
