"""Wrap the command of a task so that it starts with the variables that the script of its role sets.

Kubernetes expands `$(NAME)` in commands and variables, but not names that a script sets: the shell expands those.
"""

import re
import shlex
from collections.abc import Collection, Iterator

import msgspec

from windlass.model.base import Json

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Wrapped(msgspec.Struct, frozen=True):
    container: Json
    exports: tuple[str, ...]
    """Lines to append to the script, for variables of the container that refer to variables of the script."""


def env_names(container: Json) -> frozenset[str]:
    return frozenset(variable["name"] for variable in container.get("env") or ())


def wrapped(container: Json, script: str, exported: Collection[str]) -> Wrapped:
    """Wrap a container that has a command. `script` is the path of a script that sets the variables `exported`."""
    dependent_exports = dict(_dependent_exports(container.get("env") or (), exported))
    words = [*container["command"], *(container.get("args") or ())]
    shell_command, arguments = _shell_command(words, {*exported, *dependent_exports})
    independent = [
        variable for variable in container.get("env") or () if variable["name"] not in dependent_exports
    ]
    wrapped_container = {
        **{name: value for name, value in container.items() if name != "args"},
        "command": ["/bin/sh", "-c", f". {script}; exec {shell_command}", "sh", *arguments],
        "env": independent,
    }
    return Wrapped(wrapped_container, tuple(dependent_exports.values()))


def _shell_command(words: list[str], shell_variables: Collection[str]) -> tuple[str, list[str]]:
    """Return the shell command and its arguments. Text of the user is always an argument, never part of the command."""
    if not any(name in shell_variables for word in words for name in _references(word)):
        return '"$@"', words
    arguments: list[str] = []
    shell_words: list[str] = []
    for word in words:
        pieces = []
        for literal, name in _pieces(word, shell_variables):
            if literal:
                arguments.append(literal)
                pieces.append(f"${{{len(arguments)}}}")
            if name:
                pieces.append(f"${{{name}}}")
        shell_words.append(f'"{"".join(pieces)}"')
    return " ".join(shell_words), arguments


def _dependent_exports(variables: Collection[Json], exported: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the export line of each variable that refers to a variable of the script, directly or
    indirectly. A name that a shell does not allow is skipped."""
    shell_variables = set(exported)
    for variable in variables:
        name, value = variable["name"], variable.get("value") or ""
        is_dependent = any(reference in shell_variables for reference in _references(value))
        if is_dependent and _SHELL_NAME.fullmatch(name):
            shell_variables.add(name)
            yield name, f"export {name}={_shell_text(value)}"


def _shell_text(value: str) -> str:
    """Write a value for a shell that expands it as Kubernetes would: references to unset variables are not changed."""
    written, end = [], 0
    for found in _REFERENCE.finditer(value):
        name = found[1]
        written.append(_quoted(value[end : found.start()]))
        end = found.end()
        if name is None:
            written.append(_quoted("$"))
        elif _SHELL_NAME.fullmatch(name):
            written.append(f'"${{{name}-\\$({name})}}"')
        else:
            written.append(_quoted(found[0]))
    return "".join((*written, _quoted(value[end:])))


def _quoted(text: str) -> str:
    return shlex.quote(text) if text else ""


def _pieces(word: str, shell_variables: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each literal text and the name of the shell variable that follows it (empty at the end)."""
    start = 0
    for found in _REFERENCE.finditer(word):
        if found[1] is not None and found[1] in shell_variables:
            yield word[start : found.start()], found[1]
            start = found.end()
    yield word[start:], ""


def _references(text: str) -> Iterator[str]:
    return (found[1] for found in _REFERENCE.finditer(text) if found[1] is not None)
