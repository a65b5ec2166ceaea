"""Semantic validation of a Framework that can be decoded: why the controller cannot run it.

It covers only what fails on every cluster. The API server validates the rest, e.g. pod templates. Each
reconciliation calls it, so the valid case must be fast.
"""

import re
from collections.abc import Collection, Mapping

import msgspec

from windlass.model import names
from windlass.model.feature_annotations import Runtime, elastic_ranges, requested_features, unknown_values
from windlass.model.framework import MAX_TASK_NUMBER, Framework, TaskRoleSpec
from windlass.wire import diagnostics, rule_validation

MAX_TASKS = 16_000
"""The compressed status of this many running tasks takes about 1.5 MiB, the limit of etcd."""
MAX_MESSAGE_LENGTH = 1000

_is_a_dns_label = re.compile(names.DNS_LABEL_PATTERN).fullmatch
_is_a_role_name = re.compile(names.ROLE_NAME_PATTERN).fullmatch

_MAX_ADDRESS_LIST_LENGTH = 100_000
"""Linux limits an environment variable to 128 KiB."""

_is_service_name = re.compile("[a-z][-a-z0-9]*").fullmatch
ADDRESS_LIST_RUNTIMES = frozenset({Runtime.TENSORFLOW, Runtime.PLAIN, Runtime.MPI})
"""Runtimes whose environment variables list the addresses of all tasks."""


def semantic_error(framework: Framework) -> str:
    """Return why the Framework cannot run, with the field and a remedy; empty if it can."""
    roles = framework.spec.task_roles
    is_valid = (
        _is_a_dns_label(framework.name)
        and all(_is_a_role_name(role.name) and 0 <= role.task_number <= MAX_TASK_NUMBER for role in roles)
        and len({role.name for role in roles}) == len(roles)
        and sum(role.task_number for role in roles) <= MAX_TASKS
        and not (framework.spec.has_rules and any(rule_validation.problems(framework.spec)))
        and not (framework.metadata.annotations and annotation_problems(framework))
    )
    if is_valid:
        return ""
    message = " ".join(_problems(framework))
    return message if len(message) <= MAX_MESSAGE_LENGTH else message[: MAX_MESSAGE_LENGTH - 1] + "…"


def _problems(framework: Framework) -> list[str]:
    problems = []
    if not _is_a_dns_label(framework.name):
        problems.append(
            f"metadata.name: found {_quoted(framework.name)}, expected a DNS label of 1 to "
            f"{names.HOSTNAME_LIMIT} lower-case letters, digits and hyphens, with a letter or digit at both ends: "
            "pods are named after it. Create the Framework again with a valid name."
        )
    first_indexes: dict[str, int] = {}
    for index, role in enumerate(framework.spec.task_roles):
        problems += _role_problems(
            role, f"spec.taskRoles[{index}]", first_indexes.setdefault(role.name, index), index
        )
    tasks = sum(role.task_number for role in framework.spec.task_roles)
    if tasks > MAX_TASKS:
        problems.append(
            f"spec.taskRoles: found {tasks} tasks, expected at most {MAX_TASKS} in all roles together: the status of "
            "more cannot be stored. Split them into several Frameworks."
        )
    return [*problems, *map(str, rule_validation.problems(framework.spec)), *annotation_problems(framework)]


def _role_problems(role: TaskRoleSpec, path: str, first_index: int, index: int) -> list[str]:
    problems = []
    if first_index != index:
        problems.append(
            f"{path}.name: found {_quoted(role.name)}, which is also the name of spec.taskRoles[{first_index}]. "
            "Give each role a unique name."
        )
    if not _is_a_role_name(role.name):
        problems.append(
            f"{path}.name: found {_quoted(role.name)}, expected 1 to 63 lower-case letters and digits, without "
            "hyphens: pods are named {framework}-{role}-{index}."
        )
    if not 0 <= role.task_number <= MAX_TASK_NUMBER:
        problems.append(
            f"{path}.taskNumber: found {role.task_number}, expected 0 to {MAX_TASK_NUMBER}. Change the number."
        )
    return problems


def _quoted(name: str) -> str:
    """Return the name in quotes, truncated, with special characters escaped."""
    return msgspec.json.encode(diagnostics.truncate(name)).decode()


# Annotations


def annotation_problems(framework: Framework) -> list[str]:
    """Return the problems of requested features: unknown values, invalid names, and too many tasks."""
    annotations = framework.metadata.annotations
    roles = [role.name for role in framework.spec.task_roles]
    found = [_unknown_value(name, value, known) for name, value, known in unknown_values(annotations, roles)]
    problem = elastic_problem(annotations, roles)
    if problem:
        found.append(f"metadata.annotations[{names.ELASTIC_ANNOTATION}]: {problem}")
    runtime = requested_features(annotations).runtime
    if runtime is None:
        return found
    if not _is_service_name(framework.name):
        found.append(
            f"metadata.name: found {diagnostics.quoted(framework.name)}, expected a letter at the beginning: with "
            f"{names.RUNTIME_ANNOTATION} a Service has the same name, which may not start with a digit. "
            "Create the Framework again with a valid name."
        )
    for index, role in enumerate(framework.spec.task_roles):
        found += _role_name_problems(
            role, f"spec.taskRoles[{index}]", has_hosts_variable=runtime in ADDRESS_LIST_RUNTIMES
        )
    if runtime in ADDRESS_LIST_RUNTIMES and _address_list_length(framework) > _MAX_ADDRESS_LIST_LENGTH:
        found.append(
            f"spec.taskRoles: found {sum(role.task_number for role in framework.spec.task_roles)} tasks, too many to "
            f"list in an environment variable. Remove {names.RUNTIME_ANNOTATION}, set "
            f'{names.BARRIER_ANNOTATION}: "true", and read {names.BARRIER_FOLDER}/tf_config.json.'
        )
    return found


def elastic_problem(annotations: Mapping[str, str], roles: Collection[str]) -> str:
    """Return what is wrong with the annotation for elastic roles; empty if nothing is."""
    written = annotations.get(names.ELASTIC_ANNOTATION)
    if written is None:
        return ""
    ranges = elastic_ranges(annotations)
    if not ranges:
        return (
            f"found {diagnostics.quoted(written)}, expected ROLE=MIN:MAX, e.g. worker=1:4. Correct the value."
        )
    unknown = [role for role in ranges if role not in roles]
    if unknown:
        return f"unknown role {diagnostics.quoted(unknown[0])}. {diagnostics.did_you_mean(unknown[0], tuple(roles))}"
    if requested_features(annotations).runtime is not Runtime.PYTORCH:
        return f"only the runtime pytorch has elastic roles. Set {names.RUNTIME_ANNOTATION}: pytorch."
    return ""


def _unknown_value(name: str, value: str, known: tuple[str, ...]) -> str:
    return (
        f"metadata.annotations[{name}]: found {diagnostics.quoted(value)}, expected one of "
        f"{', '.join(known)}. Correct the "
        "value, or remove the annotation."
    )


def _role_name_problems(role: TaskRoleSpec, path: str, *, has_hosts_variable: bool) -> list[str]:
    problems = []
    if has_hosts_variable and role.name[:1].isdigit():
        problems.append(
            f"{path}.name: found {diagnostics.quoted(role.name)}, expected a letter at the beginning: with this "
            f"{names.RUNTIME_ANNOTATION} the variable {diagnostics.truncate(role.name.upper())}_HOSTS is set, and "
            "shells do not accept names that start with a digit. Rename the role."
        )
    last = names.host_name(role.name, max(0, role.task_number - 1))
    if len(last) > names.HOSTNAME_LIMIT:
        problems.append(
            f"{path}.name: found {diagnostics.quoted(role.name)}, which makes the host name "
            f"{diagnostics.truncate(last)} longer than {names.HOSTNAME_LIMIT} characters. Shorten the name of the role."
        )
    return problems


def _address_list_length(framework: Framework) -> int:
    """Return an upper bound for the length of a variable with addresses such as `worker-0.digits:2222`."""
    index_length, port_length = 6, 8
    return sum(
        role.task_number * (len(role.name) + len(framework.name) + index_length + port_length)
        for role in framework.spec.task_roles
    )
