"""Check a job file, and convert it to a Job.

`render.validation` also checks whether the roles fit the runtime, and the Framework that is rendered from the job.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from windlass.jobfile import companions, rules, storage, suggestions, volumes
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.job import INHERIT, Job, Role
from windlass.wire import (
    commands,
    diagnostics,
    durations,
    kubernetes_validation,
    semantic_validation,
    structural_validation,
)
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.yaml import tree

FIELDS = structural_validation.field_names(Job)

_OBJECT_FIELDS = frozenset({"apiVersion", "kind"})
_ITEM_OF_VARIABLE = re.compile(rf"(?:^|\.)env\.(?!{INHERIT}\[)\w+\[[0-9]+\]$")
"""The path of an item of a list that is the value of a variable. `_check_env` reports the list."""
_FRAMEWORK_FIELDS = frozenset(structural_validation.field_names(Framework)) - _OBJECT_FIELDS


def is_job(node: tree.Node) -> bool:
    """Return whether a document is a job file: unlike an object of Kubernetes, it has neither apiVersion nor kind. A
    document with fields of a Framework and none of a job is not one."""
    if not isinstance(node, tree.Mapping) or not node.entries or _OBJECT_FIELDS & node.entries.keys():
        return False
    return any(key in FIELDS for key in node.entries) or not _FRAMEWORK_FIELDS & node.entries.keys()


def check(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    """Yield the diagnostics of a job file at `path` of its document."""
    found = structural_validation.check(node, Job, path)
    if not isinstance(node, tree.Mapping):
        yield from found
        return
    for diagnostic in suggestions.add_suggestions(found, node, path):
        is_reported_elsewhere = companions.is_password_diagnostic(diagnostic, path)
        if not is_reported_elsewhere and not _ITEM_OF_VARIABLE.search(diagnostic.path):
            yield diagnostic
    yield from _check_roles(node, path)
    for mapping, mapping_path in ((node, path), *rules.roles_of(node, path)):
        yield from rules.check_fields(mapping, _SHARED_RULES, mapping_path)
    yield from rules.check_fields(node, _RULES, path)
    yield from storage.check(node, path)
    yield from companions.check(node, path)


def job_of(node: tree.Node) -> Job:
    """Convert a node for which `check` yields no errors to a Job."""
    written = tree.plain(node)
    job: Job = msgspec.convert(_with_pods_as_written(tree.without_nulls(written), written), Job)
    return job


def task_count(role: tree.Node) -> int:
    """Return the number of tasks; 0 if it is not an integer."""
    node = tree.dig(role, "tasks")
    if node is None:
        return Role().tasks
    return node.value if isinstance(node, tree.Scalar) and type(node.value) is int else 0


def _has_valid_number(role: tree.Node) -> bool:
    """Return whether the number of tasks is absent or an integer. Another value has its own diagnostic."""
    tasks = tree.dig(role, "tasks")
    return tasks is None or tree.integer_of(tasks) is not None


def _with_pods_as_written(job: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    """Keep nulls in pod templates and in `framework`, where they remove fields."""
    for field in ("pod", "framework"):
        if job.get(field) is not None:
            job[field] = written[field]
    for name, role in (job.get("roles") or {}).items():
        if role.get("pod") is not None:
            role["pod"] = written["roles"][name]["pod"]
    return job


# Roles


def _check_roles(node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    roles, at = node.get("roles"), diagnostics.field(path, "roles")
    is_misspelt = any(
        diagnostics.nearest(key, FIELDS) == "roles" for key in node.entries if key not in FIELDS
    )
    if roles is None and not is_misspelt and not suggestions.is_role_suggested(node):
        message = 'missing required field "roles": add at least one role, such as roles: {worker: {tasks: 2}}'
        yield diagnostics.error(node, at, message, Rule.MISSING_FIELD)
    if not isinstance(roles, tree.Mapping):
        return
    if not roles.entries:
        message = "no roles: add at least one, such as worker: {tasks: 2}"
        yield diagnostics.error(roles, at, message, Rule.NO_TASKS)
        return
    numbers = {name: task_count(role) for name, role in roles.entries.items()}
    has_valid_numbers = all(_has_valid_number(role) for role in roles.entries.values())
    if not any(numbers.values()) and has_valid_numbers:
        message = "no role has tasks, so nothing would run: set tasks of at least one role"
        yield diagnostics.error(roles, at, message, Rule.NO_TASKS)
    if sum(numbers.values()) > semantic_validation.MAX_TASKS:
        message = (
            f"found {sum(numbers.values())} tasks, expected at most {semantic_validation.MAX_TASKS} "
            "in all roles together, because the status of more cannot be stored: split the job"
        )
        yield diagnostics.error(roles, at, message)
    for name, number in numbers.items():
        yield from _check_host_name(roles.keys[name], name, number, diagnostics.field(at, name))


def _check_host_name(position: diagnostics.Located, role: str, tasks: int, path: str) -> Iterator[Diagnostic]:
    last = names.host_name(role, max(0, tasks - 1))
    if re.fullmatch(names.ROLE_NAME_PATTERN, role) and len(last) > names.HOSTNAME_LIMIT:
        message = (
            f"found {diagnostics.quoted(role)}: the host name of the last task, {diagnostics.truncate(last)}, has more "
            f"than {names.HOSTNAME_LIMIT} characters. Give the role a shorter name."
        )
        yield diagnostics.error(position, path, message)


# Fields of jobs and roles


def _check_command(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    text = tree.text_of(node)
    if (text is not None and not text.strip()) or (isinstance(node, tree.Sequence) and not node.items):
        message = "the command is empty, expected a program, such as python train.py"
        yield diagnostics.error(node, path, message)
    elif text is not None:
        try:
            commands.container_arguments(text)
        except ValueError as error:
            message = f"invalid command ({str(error).lower()}): close the quotation, or write a list of words"
            yield diagnostics.error(node, path, message)


def _check_env(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    for name, value in node.entries.items() if isinstance(node, tree.Mapping) else ():
        if isinstance(value, tree.Sequence) and (name != INHERIT or ".roles." in f".{path}"):
            expected = "a value. `inherit` belongs to env of the job" if name == INHERIT else "a value"
            yield from structural_validation.wrong_value(value, expected, diagnostics.field(path, name))
        if isinstance(value, tree.Mapping):
            at = diagnostics.field(path, name)
            yield from kubernetes_validation.check(value, "V1EnvVarSource", at)
            if len(value.entries) != 1:
                known = "secretKeyRef, configMapKeyRef, fieldRef or resourceFieldRef"
                message = f"found {len(value.entries)} sources, expected one of {known}"
                yield diagnostics.error(value, at, message)


def _check_pod(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    """Check a partial pod template, to which the required containers are added later."""
    if isinstance(node, tree.Mapping):
        yield from kubernetes_validation.check(
            _with_containers(node), kubernetes_validation.POD_TEMPLATE, path
        )


def _with_containers(pod: tree.Mapping) -> tree.Mapping:
    spec = pod.get("spec")
    if not isinstance(spec, tree.Mapping) or "containers" in spec.entries:
        return pod
    empty = tree.Sequence((), spec.line, spec.column)
    completed = msgspec.structs.replace(spec, entries={**spec.entries, "containers": empty})
    return msgspec.structs.replace(pod, entries={**pod.entries, "spec": completed})


# Fields of jobs only


def _check_duration(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    if _seconds(node) is None:
        yield from structural_validation.wrong_value(node, durations.EXPECTED, path)


def _check_deadline(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    yield from _check_duration(node, path)
    if _seconds(node) == 0:
        expected = "a duration above 0. For no deadline, remove the field"
        yield from structural_validation.wrong_value(node, expected, path)


def _seconds(node: tree.Node) -> float | None:
    """Return the duration; None if it is invalid. A value of a wrong type counts as valid here, because
    `structural_validation` reports it."""
    if not isinstance(node, tree.Scalar) or type(node.value) not in (int, str):
        return 1
    try:
        return durations.parse(str(node.value))
    except ValueError:
        return None


_SHARED_RULES: dict[str, rules.Check] = {
    "image": rules.check_image,
    "command": _check_command,
    "env": _check_env,
    "resources": rules.check_resources,
    "nodeSelector": rules.check_labels,
    "tolerations": rules.type_check("[]V1Toleration"),
    "shmSize": rules.check_memory,
    "pod": _check_pod,
}
_RULES: dict[str, rules.Check] = {
    "name": rules.text_check(rules.starts_without_digit, rules.EXPECTED_SERVICE_NAME),
    "namespace": rules.check_namespace,
    "envFrom": rules.type_check("[]V1EnvFromSource"),
    "volumes": volumes.check,
    "pendingDeadline": _check_deadline,
    "activeDeadline": _check_deadline,
    "ttl": _check_duration,
    "serviceAccount": rules.check_object_name,
    "imagePullSecrets": rules.check_object_names,
    "labels": rules.check_labels,
    "annotations": rules.check_annotations,
}
