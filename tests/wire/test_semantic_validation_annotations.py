"""Problems with the feature annotations of a Framework, and their messages."""

import bisect
from typing import Any

import builders
import pytest

from windlass.discovery import environment
from windlass.model import names
from windlass.model.feature_annotations import Runtime
from windlass.model.framework import Framework, TaskRoleSpec
from windlass.wire import semantic_validation

RUNTIMES = list(map(str, Runtime))
LONGEST_VARIABLE = 128 * 1024
"""The limit of Linux for one variable: name, =, value and the terminating NUL."""


def framework(
    runtime: str | None = None,
    barrier: str | None = None,
    *roles: tuple[str, int],
    name: str = "digits",
    idle: str | None = None,
) -> Framework:
    asks = {
        names.RUNTIME_ANNOTATION: runtime,
        names.BARRIER_ANNOTATION: barrier,
        names.IDLE_ANNOTATION: idle,
    }
    return builders.framework(
        name,
        *(TaskRoleSpec(role, tasks) for role, tasks in roles or (("worker", 2),)),
        annotations={key: value for key, value in asks.items() if value is not None},
    )


GOOD = [
    framework(),
    *(framework(runtime) for runtime in RUNTIMES),
    *(framework(None, barrier) for barrier in ("true", "false", "own")),
    framework("tensorflow", "true"),
    framework(None, "true", name="0digits"),
    framework(None, None, ("0", 1), name="0digits"),
    framework("pytorch", None, ("0", 1)),
    framework("jax", None, ("worker", 10_000)),
    framework("plain", None, ("w" * 61, 1)),
    framework("tensorflow", None, ("worker", 2_000)),
    *(framework("tensorflow", idle=idle) for idle in ("true", "false", "worker")),
    framework("tensorflow", None, ("ps", 1), ("worker", 2), idle="ps, worker"),
]


@pytest.mark.parametrize("good", GOOD)
def test_supported_annotations_have_no_problems(good: Framework) -> None:
    assert semantic_validation.annotation_problems(good) == []
    assert semantic_validation.semantic_error(good) == ""


RUNTIME, BARRIER, IDLE = (
    f"metadata.annotations[{name}]"
    for name in (names.RUNTIME_ANNOTATION, names.BARRIER_ANNOTATION, names.IDLE_ANNOTATION)
)
BAD: list[Any] = [
    (framework("tensorflow", idle="yes"), f'{IDLE}: found "yes", expected one of true, false, worker. '),
    (framework("tensorflow", idle="worker,wrker"), f'{IDLE}: found "wrker"'),
    (framework("tensorflow", None, ("jupyter", 1), ("ps", 1), idle="jupyter"), f'{IDLE}: found "jupyter"'),
    (
        framework("tensorflw"),
        f'{RUNTIME}: found "tensorflw", expected one of tensorflow, pytorch, jax, mpi, plain. ',
    ),
    (framework("TensorFlow"), f'{RUNTIME}: found "TensorFlow"'),
    (framework(""), f'{RUNTIME}: found ""'),
    (framework(None, "True"), f'{BARRIER}: found "True", expected one of false, true, own. '),
    (framework(None, "yes"), f'{BARRIER}: found "yes"'),
    (framework(None, ""), f'{BARRIER}: found ""'),
    (framework("x" * 1000), 'found "xxxxxxxx'),
    (
        builders.framework("digits", annotations={names.TASK_TYPES_ANNOTATION: "role"}),
        f'metadata.annotations[{names.TASK_TYPES_ANNOTATION}]: found "role", expected one of standard, roles. ',
    ),
    (
        framework("tensorflow", name="0digits"),
        'metadata.name: found "0digits", expected a letter at the beginning',
    ),
    (
        framework("jax", None, ("a", 1), ("w" * 61, 11)),
        "spec.taskRoles[1].name: found ",
    ),
    (
        framework("tensorflow", None, ("worker", 1), ("2nd", 1)),
        'spec.taskRoles[1].name: found "2nd", expected a letter at the beginning',
    ),
    (framework("plain", None, ("0", 1)), "the variable 0_HOSTS is set"),
    (framework("mpi", None, ("0", 1)), "the variable 0_HOSTS is set"),
    (
        framework("tensorflow", None, ("worker", 10_000)),
        "spec.taskRoles: found 10000 tasks, too many to list in an environment variable",
    ),
]


@pytest.mark.parametrize(("bad", "words"), BAD, ids=[words[:60] for _, words in BAD])
def test_unsupported_annotation_is_one_problem(bad: Framework, words: str) -> None:
    """The problem is one line that fits into a condition, and `semantic_error` contains it."""
    (problem,) = semantic_validation.annotation_problems(bad)
    assert words in problem
    assert "\n" not in problem
    assert len(problem) < 600
    assert problem in semantic_validation.semantic_error(bad)


def test_all_problems_are_reported() -> None:
    found = semantic_validation.annotation_problems(
        framework("tensorflow", "maybe", ("0", 1), ("1", 1), name="0digits")
    )
    assert [each.partition(":")[0] for each in found] == [
        BARRIER,
        "metadata.name",
        "spec.taskRoles[0].name",
        "spec.taskRoles[1].name",
    ]


@pytest.mark.parametrize("runtime", ["tensorflow", "plain", "mpi"])
@pytest.mark.parametrize(("name", "role"), [(1, 1), (63, 1), (63, 58), (8, 6)])
def test_accepted_framework_fits_into_an_environment_variable(runtime: str, name: int, role: int) -> None:
    """Linux does not start a process with a longer variable. The largest accepted number of tasks fits."""

    def framework_with(tasks: int) -> Framework:
        pod = {"spec": {"containers": [{"ports": [{"containerPort": 65535}]}]}}
        annotations = {names.RUNTIME_ANNOTATION: runtime}
        return builders.framework(
            "n" * name, builders.role("r" * role, tasks, pod=pod), annotations=annotations
        )

    most = bisect.bisect_left(
        range(1, 10_001),
        True,
        key=lambda tasks: bool(semantic_validation.annotation_problems(framework_with(tasks))),
    )
    assert most > 500
    variables = environment.variables_of(framework_with(most))("r" * role, most - 1)
    assert max(len(f"{name}={value}") + 1 for name, value in variables.items()) < LONGEST_VARIABLE


def elastic(value: str, runtime: str = "pytorch") -> Framework:
    annotations = {names.RUNTIME_ANNOTATION: runtime, names.ELASTIC_ANNOTATION: value}
    return builders.framework("digits", TaskRoleSpec("worker", 2), annotations=annotations)


@pytest.mark.parametrize(
    ("framework", "problem"),
    [
        (elastic("worker=1:4"), ""),
        (elastic("worker=2:2"), ""),
        *((elastic(value), "expected ROLE=MIN:MAX") for value in ("", "1:4", "worker=0:4", "worker=3:2")),
        (elastic("wroker=1:4"), 'unknown role "wroker". Did you mean "worker"?'),
        (elastic("worker=1:4", "jax"), "only the runtime pytorch has elastic roles"),
    ],
)
def test_problems_with_elastic_roles(framework: Framework, problem: str) -> None:
    found = semantic_validation.annotation_problems(framework)
    assert len(found) == bool(problem)
    assert all(problem in each for each in found)
