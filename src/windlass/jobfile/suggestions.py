"""Suggestions for job files with fields of other tools, e.g. `replicas`, or with common layout mistakes of YAML.

Each such mistake gets one diagnostic with the correct field or lines.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from windlass.model import names
from windlass.model.job import Job, Role
from windlass.wire import diagnostics, structural_validation
from windlass.wire.diagnostics import Diagnostic, Fix, Remedy, Rule
from windlass.wire.yaml import tree

_JOB_FIELDS = structural_validation.field_names(Job)
_ROLE_FIELDS = structural_validation.field_names(Role)
_RENAMED: Mapping[str, str] = {
    **dict.fromkeys(("cmd", "entrypoint", "run"), "command"),
    **dict.fromkeys(
        ("replicas", "instances", "nodes", "count", "number", "numTasks", "num_tasks", "taskNumber"), "tasks"
    ),
    **dict.fromkeys(("environment", "envs", "variables"), "env"),
    **dict.fromkeys(("retries", "maxRetryCount", "backoffLimit", "restarts"), "retry"),
    **dict.fromkeys(("workdir", "workingDir", "src", "source"), "code"),
}
"""Fields of the job file by the names that other tools have for them."""
_RESOURCES: Mapping[str, str] = {
    **dict.fromkeys(("gpu", "gpus", "num_gpus", "numGpus"), "gpus"),
    **dict.fromkeys(("cpu", "cpus", "num_cpus", "numCpus"), "cpus"),
    **dict.fromkeys(("mem", "memory", "ram"), "memory"),
}
"""Fields of `resources`, which users write next to it."""
_ARGUMENTS = ("args", "arguments")
_INVALID_CHARACTERS = re.compile(r"[^a-z0-9]+")
_UNKNOWN = (Rule.UNKNOWN_FIELD, Rule.MISSPELT_FIELD)


def add_suggestions(found: Iterable[Diagnostic], node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """Add suggestions to the diagnostics of a job. `path` is the path of the job in its file."""
    roles_path = diagnostics.field(path, "roles")
    shifted = _shifted_fields(node)
    for diagnostic in found:
        parent, _, key = diagnostic.path.rpartition(".")
        if parent == roles_path and key in shifted:
            continue  # reported at the empty role above
        if diagnostic.path in (f"{roles_path}.{role}" for role in _empty_roles(node)):
            yield _empty_role(diagnostic, key, shifted)
        elif diagnostic.path == diagnostics.field(path, "name") and diagnostic.rule is Rule.WRONG_VALUE:
            yield _with_suggested_name(diagnostic, tree.text_of(node.get("name")) or "")
        elif diagnostic.rule in _UNKNOWN and parent == path:
            yield _unknown_field(diagnostic, key, node, _JOB_FIELDS)
        elif diagnostic.rule in _UNKNOWN and parent.rpartition(".")[0] == roles_path:
            role = tree.dig(node, "roles", parent.rpartition(".")[2])
            yield _unknown_field(diagnostic, key, role, _ROLE_FIELDS)
        else:
            yield diagnostic


def _with_suggested_name(diagnostic: Diagnostic, text: str) -> Diagnostic:
    """Add the nearest valid name to the error about an invalid one."""
    label = _INVALID_CHARACTERS.sub("-", text.lower()).strip("-")
    if not re.fullmatch(names.DNS_LABEL_PATTERN, label):
        return diagnostic
    message = f"{diagnostic.message}. Did you mean {diagnostics.quoted(label)}?"
    return diagnostics.error(
        diagnostic, diagnostic.path, message, diagnostic.rule, Fix(Remedy.REPLACE, label)
    )


def is_role_suggested(node: tree.Mapping) -> bool:
    """Return whether the suggestion for a field of the job is a role."""
    return any(
        _suggestion(key, node, _JOB_FIELDS).startswith("roles:")
        for key in node.entries
        if key not in _JOB_FIELDS
    )


def _unknown_field(
    diagnostic: Diagnostic, key: str, node: tree.Node | None, known: tuple[str, ...]
) -> Diagnostic:
    # A path contains some keys in quotes.
    if not isinstance(node, tree.Mapping) or key not in node.entries:
        return diagnostic
    meant, fix = _suggestion(key, node, known), None
    if not meant:
        return diagnostic
    if meant in known and meant not in node.entries:
        fix = Fix(Remedy.RENAME, meant)
    message = f"unknown field {diagnostics.quoted(key)}. Did you mean {_quoted_field(meant, known)}?"
    return diagnostics.error(diagnostic, diagnostic.path, message, Rule.MISSPELT_FIELD, fix)


def _suggestion(key: str, node: tree.Mapping, known: tuple[str, ...]) -> str:
    """Return the field or the lines to write instead of an unknown field; empty if there is no suggestion."""
    value, is_job = node.entries[key], known is _JOB_FIELDS
    if key in _RESOURCES and isinstance(value, tree.Scalar):
        return f"resources: {{{_RESOURCES[key]}: {diagnostics.truncate(str(value.value))}}}"
    if key in ("script", *_ARGUMENTS):
        program = _words(node, "command") or f"python {_words(node, 'script') or 'train.py'}"
        arguments = next((words for name in _ARGUMENTS if (words := _words(node, name))), "")
        return f"command: {diagnostics.truncate(f'{program} {arguments}'.rstrip())}"
    is_role = is_job and isinstance(value, tree.Mapping) and value.entries.keys() & set(_ROLE_FIELDS)
    if is_role and diagnostics.nearest(key, known) is None:
        return f"roles: {{{diagnostics.truncate(key)}: …}}, i.e. the role indented below roles"
    if is_job and (key in ("workers", "num_workers") or _RENAMED.get(key) == "tasks"):
        return f"roles: {{worker: {{tasks: {tree.integer_of(value) or 2}}}}}"
    meant = _RENAMED.get(key, "")
    return meant if meant in known else ""


def _words(node: tree.Mapping, key: str) -> str:
    """Return the words of a command or a list of arguments; empty if there are none."""
    value = node.entries.get(key)
    items = value.items if isinstance(value, tree.Sequence) else () if value is None else (value,)
    return " ".join(str(item.value) for item in items if isinstance(item, tree.Scalar))


def _quoted_field(meant: str, known: tuple[str, ...]) -> str:
    return diagnostics.quoted(meant) if meant in known else meant


def _empty_roles(node: tree.Mapping) -> list[str]:
    roles = node.entries.get("roles")
    if not isinstance(roles, tree.Mapping):
        return []
    return [
        name for name, role in roles.entries.items() if isinstance(role, tree.Scalar) and role.value is None
    ]


def _shifted_fields(node: tree.Mapping) -> tuple[str, ...]:
    """Return the fields of a role that are written next to an empty role instead of below it."""
    roles = node.entries.get("roles")
    if not isinstance(roles, tree.Mapping) or not _empty_roles(node):
        return ()
    return tuple(
        name
        for name, value in roles.entries.items()
        if name in _ROLE_FIELDS and not (isinstance(value, tree.Scalar) and value.value is None)
    )


def _empty_role(diagnostic: Diagnostic, role: str, shifted: tuple[str, ...]) -> Diagnostic:
    if shifted:
        message = f"the role is empty: indent {' and '.join(shifted)} below {role}, by two more spaces"
    else:
        message = f"the role is empty: indent its fields below it, e.g. {role}: {{tasks: 2}}"
    return diagnostics.error(diagnostic, diagnostic.path, message, diagnostic.rule)
