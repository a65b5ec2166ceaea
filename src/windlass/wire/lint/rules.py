"""Lint completion rules, failure classes of roles, start order and parallelism."""

import re
from collections.abc import Iterator

import msgspec

from windlass.model.framework import CompletionRule, FrameworkSpec, parse_indexes
from windlass.wire import diagnostics, rule_validation
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.lint import annotations
from windlass.wire.yaml import tree

_KEYS = re.compile(r"[^.\[\]]+")


def check(framework: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """Check a Framework whose fields are valid, at `path` of its document."""
    node = tree.dig(framework, "spec")
    if node is None:
        return
    try:
        spec = msgspec.convert(tree.without_nulls(tree.plain(node)), FrameworkSpec)
    except ValueError:  # an invalid value, which has its own diagnostic
        return
    if not spec.has_rules:
        return
    problems = list(rule_validation.problems(spec))
    for problem in problems:
        yield diagnostics.error(
            _node_at(framework, problem.path),
            _below(path, problem.path),
            problem.message.rstrip("."),
            problem.rule,
        )
    if not problems:
        yield from _check_barrier(framework, spec, path)
        for index, rule in enumerate(spec.completion_policies):
            at = f"spec.completionPolicies[{index}]"
            message = _never_met(rule, spec)
            if message:
                yield diagnostics.warning(_node_at(framework, at), _below(path, at), message, Rule.NEVER_MET)


def _check_barrier(framework: tree.Mapping, spec: FrameworkSpec, path: str) -> Iterator[Diagnostic]:
    """A barrier opens when all tasks have addresses, so no task may wait for others to start."""
    if not annotations.requested_features_of(framework).uses_gang:
        return
    for index, role in enumerate(spec.task_roles):
        is_limited = role.parallelism is not None and role.parallelism < role.task_number
        if role.start_after or is_limited:
            field = "startAfter" if role.start_after else "parallelism"
            at = f"spec.taskRoles[{index}].{field}"
            message = (
                f"found {field} in a job with a barrier, which waits until all tasks have addresses: tasks would wait "
                "for each other. Remove one of the two. The runtime mpi always has a barrier"
            )
            yield diagnostics.error(_node_at(framework, at), _below(path, at), message, Rule.START_DEADLOCK)


def _never_met(rule: CompletionRule, spec: FrameworkSpec) -> str:
    """Return why no result can meet the rule; empty if one can."""
    roles = [role for role in spec.task_roles if not rule.task_roles or role.name in rule.task_roles]
    tasks = sum(role.task_number for role in roles)
    indexes = None if rule.task_indexes is None else parse_indexes(rule.task_indexes)
    if indexes is not None:
        tasks = sum(
            len(range(each.start, min(each.stop, role.task_number))) for each in indexes for role in roles
        )
    if tasks == 0:
        return "the rule selects no task, so that it is never met. Correct taskRoles and taskIndexes"
    count = rule.min_succeeded_task_count or rule.min_failed_task_count or 0
    if count > tasks:
        selected = "1 task" if tasks == 1 else f"{tasks} tasks"
        return f"found {count}, but the rule selects {selected}, so that it is never met. Use at most {tasks}"
    if rule.min_container_restart_count is not None and all(
        (role.task.pod.get("spec") or {}).get("restartPolicy") == "Never" for role in roles
    ):
        return (
            "the rule counts container restarts, but restartPolicy is Never: use OnFailure or Always, or "
            "minFailedAttemptCount for retries of tasks"
        )
    return ""


def _below(path: str, relative: str) -> str:
    return f"{path}.{relative}" if path else relative


def _node_at(framework: tree.Mapping, path: str) -> tree.Node:
    """Return the node at a path such as `spec.taskRoles[0].name`, otherwise the nearest one above it."""
    node: tree.Node = framework
    for key in _KEYS.findall(path):
        items = tree.items_of(node)
        child = items[int(key)] if items and key.isdigit() else tree.dig(node, key)
        if child is None:
            break
        node = child
    return node
