"""What a Framework asks for by annotations, and cannot have: an unknown runtime, a name that no Service can have."""

import re

from windlass.model import names
from windlass.model.feature_annotations import Runtime, requested_features, unknown_values
from windlass.model.framework import Framework, TaskRoleSpec
from windlass.wire import diagnostics

LONGEST_LIST = 100_000
"""Linux gives no process a variable of 128 KiB or more."""

_is_a_service_name = re.compile("[a-z][-a-z0-9]*").fullmatch
LISTING = frozenset({Runtime.TENSORFLOW, Runtime.PLAIN, Runtime.MPI})
"""Runtimes that are told the address of everybody in one variable."""


def problems(framework: Framework) -> list[str]:
    """Each says what is wrong, where, and what to do."""
    annotations = framework.metadata.annotations
    found = [_unknown(name, value, known) for name, value, known in unknown_values(annotations)]
    runtime = requested_features(annotations).runtime
    if runtime is None:
        return found
    if not _is_a_service_name(framework.name):
        found.append(
            f"metadata.name: found {diagnostics.quoted(framework.name)}, expected a letter at the beginning: with "
            f"{names.RUNTIME_ANNOTATION} a Service is called the same, and its name may not begin with a digit. "
            "Create the Framework anew under such a name."
        )
    for index, role in enumerate(framework.spec.task_roles):
        found += _problems_of_role(role, f"spec.taskRoles[{index}]", is_listed=runtime in LISTING)
    if runtime in LISTING and _length_of_lists(framework) > LONGEST_LIST:
        found.append(
            f"spec.taskRoles: found {sum(role.task_number for role in framework.spec.task_roles)} tasks, too many for "
            f"one variable of the environment to hold the names of all. Take {names.RUNTIME_ANNOTATION} away, ask for "
            f'{names.BARRIER_ANNOTATION}: "true", and read {names.BARRIER_FOLDER}/tf_config.json.'
        )
    return found


def _unknown(name: str, value: str, known: tuple[str, ...]) -> str:
    return (
        f"metadata.annotations[{name}]: found {diagnostics.quoted(value)}, expected one of "
        f"{', '.join(known)}. Correct the "
        "value, or take the annotation away."
    )


def _problems_of_role(role: TaskRoleSpec, path: str, *, is_listed: bool) -> list[str]:
    problems = []
    if is_listed and role.name[:1].isdigit():
        problems.append(
            f"{path}.name: found {diagnostics.quoted(role.name)}, expected a letter at the beginning: with this "
            f"{names.RUNTIME_ANNOTATION} the variable {diagnostics.truncate(role.name.upper())}_HOSTS is set, and "
            "shells do not accept names that start with a digit. Give the role such a name."
        )
    last = names.host_name(role.name, max(0, role.task_number - 1))
    if len(last) > names.HOSTNAME_LIMIT:
        problems.append(
            f"{path}.name: found {diagnostics.quoted(role.name)}, with which the last task is called "
            f"{diagnostics.truncate(last)}: a "
            f"host name has at most {names.HOSTNAME_LIMIT} characters. Give the role a shorter name."
        )
    return problems


def _length_of_lists(framework: Framework) -> int:
    """Of the longest variable, which holds every role's addresses: `worker-0.digits:2222`, and what is between them."""
    longest_number, port = 6, 8
    return sum(
        role.task_number * (len(role.name) + len(framework.name) + longest_number + port)
        for role in framework.spec.task_roles
    )
