"""Fields of job files that the command line overrides, as with `--set roles.worker.tasks=4`.

They are applied to the parsed tree before its checks. A new value has the position of the value that it replaces, else
that of the mapping to which it is added.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from windlass.wire import commands, diagnostics
from windlass.wire.diagnostics import Diagnostic, Located
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree
from windlass.wire.yaml.text import Position

_STEP = re.compile(r'(?:^|\.)([A-Za-z0-9_/-]+)|\[([0-9]{1,4})\]|\["([^"]*)"\]')

Key = str | int


class Override(msgspec.Struct, frozen=True):
    source: str
    """The option with its value, for messages."""
    keys: tuple[Key, ...]
    value: tree.Node

    @property
    def path(self) -> str:
        """The field, as diagnostics name it."""
        path = ""
        for key in self.keys:
            path = diagnostics.item(path, key) if isinstance(key, int) else diagnostics.field(path, key)
        return path


class Overrides(msgspec.Struct, frozen=True):
    fields: tuple[Override, ...] = ()
    arguments: tuple[str, ...] = ()
    """Words to append to the command."""

    def __bool__(self) -> bool:
        return bool(self.fields or self.arguments)

    @property
    def source(self) -> str:
        """An option, for messages."""
        return self.fields[0].source if self.fields else "the arguments after --"


class InvalidOverrideError(Exception):
    """An override does not match the job."""

    def __init__(self, at: Located, path: str, message: str) -> None:
        super().__init__(message)
        self.at, self.path = at, path


def parse_set(text: str) -> Override:
    """Parse `PATH=VALUE`. The value is YAML. Raises ValueError."""
    written, equals, value = text.partition("=")
    keys = tuple(_keys(written))
    if not equals or not keys:
        raise ValueError(f"found {text!r}, expected PATH=VALUE, e.g. roles.worker.tasks=4")
    parsed = yaml_parse.parse(value.encode())
    faults = [parsed.failure, *(each for document in parsed.documents for each in document.diagnostics)]
    fault = next(filter(None, faults), None)
    if fault is not None or len(parsed.documents) > 1:
        raise ValueError(f"found {text!r}: the value is not YAML: {fault.message if fault else 'found ---'}")
    empty = tree.Scalar(None, 1, 1)
    return Override(f"--set {text}", keys, parsed.documents[0].root if parsed.documents else empty)


def parse_env(text: str) -> Override:
    """Parse `NAME=VALUE`, a variable of all tasks. Raises ValueError."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"found {text!r}, expected NAME=VALUE")
    return Override(f"--env {text}", ("env", name), tree.Scalar(value, 1, 1))


def applied(
    jobs: Sequence[tree.Mapping], overrides: Overrides
) -> tuple[tuple[tree.Mapping, ...], tuple[Diagnostic, ...]]:
    """Return the jobs of a file with the overrides, and the errors of overrides that match no job."""
    found = list(jobs)
    errors = []
    for override in overrides.fields:
        matching = [at for at, job in enumerate(found) if _has_role(job, override)]
        if not matching:
            errors.append(_unknown_role(found[0], override))
        for at in matching:
            try:
                found[at] = _changed(found[at], override)
            except InvalidOverrideError as error:
                errors.append(diagnostics.error(error.at, error.path, f"{error} ({override.source})"))
    for at, job in enumerate(found) if overrides.arguments else ():
        try:
            found[at] = _with_arguments(job, overrides.arguments)
        except InvalidOverrideError as error:
            errors.append(diagnostics.error(error.at, error.path, str(error)))
    return tuple(found), tuple(errors)


def with_source(diagnostic: Diagnostic, overrides: Overrides) -> Diagnostic:
    """Add the option to the message about a field that it overrides: the file has another value."""
    for override in overrides.fields:
        is_below = f"{diagnostic.path}.".startswith((f"{override.path}.", f"{override.path}["))
        is_new_field = (
            override.path.startswith(f"{diagnostic.path}.") and "unknown field" in diagnostic.message
        )
        if is_below or is_new_field:
            return msgspec.structs.replace(diagnostic, message=f"{diagnostic.message} ({override.source})")
    return diagnostic


def _keys(path: str) -> Iterator[Key]:
    """Yield the keys of a path; none if it is invalid."""
    at, keys = 0, []
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return
        keys.append(int(step[2]) if step[2] else step[1] or step[3])
        at = step.end()
    yield from keys


def _has_role(job: tree.Mapping, override: Override) -> bool:
    """Return whether the job has the role that is overridden; also true for other fields, and for a new role."""
    if override.keys[0] != "roles" or len(override.keys) < 3:
        return True
    return tree.dig(job, "roles", str(override.keys[1])) is not None


def _unknown_role(job: tree.Mapping, override: Override) -> Diagnostic:
    roles, name = job.get("roles"), str(override.keys[1])
    known = tuple(roles.entries) if isinstance(roles, tree.Mapping) else ()
    message = (
        f"there is no role {diagnostics.quoted(name)} ({override.source}). "
        f"{diagnostics.did_you_mean(name, known)}"
    )
    return diagnostics.error(roles or job, diagnostics.field("roles", name), message)


def _changed(job: tree.Mapping, override: Override) -> tree.Mapping:
    changed = _with_value(job, job, override.keys, override.value, "")
    assert isinstance(changed, tree.Mapping)  # noqa: S101 — the job is a mapping, and the path is not empty
    is_variable = override.keys[0] == "env" and len(override.keys) == 2
    roles = changed.get("roles")
    if not is_variable or not isinstance(roles, tree.Mapping):
        return changed
    # The variables of a role have priority over those of the job.
    for name, role in roles.entries.items():
        if tree.dig(role, *map(str, override.keys)) is not None:
            keys = ("roles", name, *override.keys)
            changed = _changed(changed, Override(override.source, keys, override.value))
    return changed


def _with_value(
    node: tree.Node | None, at: Located, keys: Sequence[Key], value: tree.Node, path: str
) -> tree.Node:
    """Return the node with another value at the path. `at` is the position of a new value."""
    at = node or at
    if not keys:
        return _moved(value, at)
    key, *rest = keys
    if isinstance(key, int):
        if not isinstance(node, tree.Sequence) or key >= len(node.items):
            raise InvalidOverrideError(at, diagnostics.item(path, key), "there is no such item in the list")
        item = _with_value(node.items[key], at, rest, value, diagnostics.item(path, key))
        return tree.Sequence((*node.items[:key], item, *node.items[key + 1 :]), node.line, node.column)
    if node is None or (isinstance(node, tree.Scalar) and node.value is None):
        node = tree.Mapping({}, {}, at.line, at.column)
    if not isinstance(node, tree.Mapping):
        found = "a list: select an item, e.g. [0]" if isinstance(node, tree.Sequence) else "a single value"
        raise InvalidOverrideError(at, path, f"has no fields, because it is {found}")
    position = node.keys.get(key) or Position(at.line, at.column)
    child = _with_value(node.entries.get(key), position, rest, value, diagnostics.field(path, key))
    return msgspec.structs.replace(
        node, entries={**node.entries, key: child}, keys={**node.keys, key: position}
    )


def _moved(node: tree.Node, at: Located) -> tree.Node:
    """Return the node with all its parts at this position."""
    match node:
        case tree.Scalar(value=value):
            return tree.Scalar(value, at.line, at.column)
        case tree.Sequence(items=items):
            return tree.Sequence(tuple(_moved(item, at) for item in items), at.line, at.column)
        case tree.Mapping(entries=entries):
            keys = dict.fromkeys(entries, Position(at.line, at.column))
            return tree.Mapping(
                {key: _moved(each, at) for key, each in entries.items()}, keys, at.line, at.column
            )
    return node


# Arguments


def _with_arguments(job: tree.Mapping, arguments: Sequence[str]) -> tree.Mapping:
    """Append words to the command of the job or, if it has none, to the commands of its roles."""
    if job.get("command") is not None:
        return _with_longer_command(job, arguments, "")
    roles = job.get("roles")
    entries = roles.entries if isinstance(roles, tree.Mapping) else {}
    changed = {
        name: _with_longer_command(role, arguments, diagnostics.field("roles", name))
        for name, role in entries.items()
        if isinstance(role, tree.Mapping) and role.get("command") is not None
    }
    if not changed or not isinstance(roles, tree.Mapping):
        raise InvalidOverrideError(job, "", "there is no command to which arguments could be appended")
    with_commands = msgspec.structs.replace(roles, entries={**entries, **changed})
    return msgspec.structs.replace(job, entries={**job.entries, "roles": with_commands})


def _with_longer_command(owner: tree.Mapping, arguments: Sequence[str], path: str) -> tree.Mapping:
    command = owner.entries["command"]
    longer: tree.Node = command
    if isinstance(command, tree.Sequence):
        words = (tree.Scalar(word, command.line, command.column) for word in arguments)
        longer = tree.Sequence((*command.items, *words), command.line, command.column)
    elif (text := tree.text_of(command)) is not None:
        try:
            longer = tree.Scalar(commands.appended(text, arguments), command.line, command.column)
        except ValueError as error:
            raise InvalidOverrideError(command, diagnostics.field(path, "command"), str(error)) from error
    return msgspec.structs.replace(owner, entries={**owner.entries, "command": longer})
