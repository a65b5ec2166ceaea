"""Draw completion rules, failure classes, start orders and limits of pods (B1 to B4 of docs/behaviours.md)."""

from random import Random
from typing import Any

import msgspec

from windlass.model import names
from windlass.model.completion import PERMANENT, TRANSIENT, CompletionType
from windlass.model.failures import IntRange, TaskFailureClass
from windlass.model.framework import (
    CompletionRule,
    Framework,
    FrameworkSpec,
    StartAfter,
    StartCondition,
    TaskRoleSpec,
)

FIRST_CLASS_CODE = 9000
"""Codes of the failure classes of roles. No container exits with them."""


def with_rules(random: Random, framework: Framework) -> Framework:
    """Add completion rules, failure classes, a start order and limits of pods to some Frameworks without a barrier."""
    if random.random() < 0.6 or names.BARRIER_ANNOTATION in framework.metadata.annotations:
        return framework
    spec = framework.spec
    roles: list[TaskRoleSpec] = []
    for role in spec.task_roles:
        task = msgspec.structs.replace(role.task, pod_failure_spec=_failure_classes(random))
        changed = msgspec.structs.replace(role, task=task)
        if roles and random.random() < 0.5:
            condition = random.choice(tuple(StartCondition))
            start = StartAfter(random.choice(roles).name, condition, random.choice((None, None, 1)))
            changed = msgspec.structs.replace(changed, start_after=(start,))
        limit = random.choice((None, None, 1, 2))
        roles.append(msgspec.structs.replace(changed, parallelism=limit))
    rules = tuple(_rule(random, number, roles) for number in range(random.randrange(4)))
    spec = msgspec.structs.replace(spec, task_roles=tuple(roles), completion_policies=rules)
    return msgspec.structs.replace(framework, spec=spec)


def without_role(spec: FrameworkSpec, name: str) -> FrameworkSpec:
    """Return the spec without a role, and without the rules and start orders that name it."""
    replace = msgspec.structs.replace
    roles = (role for role in spec.task_roles if role.name != name)
    return replace(
        spec,
        task_roles=tuple(
            replace(role, start_after=tuple(start for start in role.start_after if start.task_role != name))
            for role in roles
        ),
        completion_policies=tuple(rule for rule in spec.completion_policies if name not in rule.task_roles),
    )


_TYPES = (CompletionType(), TRANSIENT, PERMANENT)
_CODES = ((IntRange(1, 2),), (IntRange(min=130),), (IntRange(-101, -101),), (IntRange(1, 255),))


def _failure_classes(random: Random) -> tuple[TaskFailureClass, ...]:
    return tuple(
        TaskFailureClass(
            code=random.choice((None, FIRST_CLASS_CODE + number)),
            type=random.choice(_TYPES),
            code_ranges=random.choice(_CODES),
        )
        for number in range(random.choice((0, 0, 1, 2)))
    )


def _rule(random: Random, number: int, roles: list[TaskRoleSpec]) -> CompletionRule:
    condition: dict[str, Any] = random.choice(
        (
            {"all_succeeded": True},
            {"min_succeeded_task_count": random.choice((1, 2, 3))},
            {"min_failed_task_count": random.choice((1, 1, 2))},
            {"min_failed_task_count": 1, "code_ranges": random.choice(_CODES)},
            {"min_failed_attempt_count": random.choice((1, 2, 4))},
            {"min_container_restart_count": random.choice((1, 3))},
        )
    )
    is_success = "all_succeeded" in condition or "min_succeeded_task_count" in condition
    return CompletionRule(
        name=f"rule {number}",
        task_roles=random.choice(((), (random.choice(roles).name,))),
        task_indexes=random.choice((None, None, "0", "1-3", "0-1,1-2")),
        after_all="min_failed_task_count" in condition and random.random() < 0.3,
        type=None if is_success else random.choice((None, *_TYPES)),
        **condition,
    )
