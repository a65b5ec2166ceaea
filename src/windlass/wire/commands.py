"""Convert a command of a job file to the arguments of a container.

A list is used as it is. A string without shell syntax is split into words and runs without a shell, so that the program
receives the signals of Kubernetes. Any other string runs in a shell.

Kubernetes replaces `$(NAME)` with the value of the container's variable. A command without a shell keeps `$(NAME)`. In
a shell command it is replaced with `${NAME}`, so that the shell does not interpret quotes or commands in the value. Any
other `$(` and `$$` in a string is escaped, so that Kubernetes does not change it. A name in capital letters or a known
name counts as a variable.
"""

import re
import shlex
from collections.abc import Collection

SHELL = ("/bin/sh", "-c")
LOWER_CASE_VARIABLES = frozenset({"ps_hosts", "worker_hosts", "taskindex"})
"""Variables in lower case that runtimes set."""

_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_CAPITALS = re.compile(r"[A-Z_][A-Z0-9_]*")
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\$`]|\\.)*"|\\[^\n]""", re.DOTALL)
_SHELL_SYNTAX = re.compile(r"[|&;<>()$`*?\[\]\n]|(?:^|\s)[#~{}!]")
_SEVERAL_PARTS = re.compile(r"[|&;\n]|(?:^|\s)#")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SHELL_WORD = re.compile(
    r"\.|:|alias|case|cd|command|eval|exec|exit|export|for|if|readonly|set|shift|source|trap|ulimit|umask|unset|until"
    r"|wait|while"
)
"""Builtins and keywords that need a shell."""
_KUBERNETES_SYNTAX = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)|\$(?=[$(])")


def container_arguments(command: str | Collection[str], variables: Collection[str] = ()) -> list[str]:
    """Return the arguments. `variables` are the container's variable names.

    Raises ValueError if a quote is not closed or the command ends with a backslash.
    """
    if not isinstance(command, str):
        return list(command)
    text = command.strip()
    known = LOWER_CASE_VARIABLES.union(variables)
    words = shlex.split(text)
    if _needs_shell(_replace_variables(text, known, "x"), words):
        return [*SHELL, _escape(_replace_variables(text, known, r"${\1}"), ())]
    return [_escape(word, known) for word in words]


def appended(command: str, words: Collection[str]) -> str:
    """Return a command string with further words. Raises ValueError for a shell command of several parts."""
    if _SEVERAL_PARTS.search(_QUOTED.sub("x", command.strip())):
        raise ValueError(
            "arguments cannot be appended to a command that consists of several commands. Use a variable in the "
            "command instead, e.g. $ARGS, and set it with --env ARGS=…"
        )
    return f"{command.strip()} {shlex.join(words)}"


def _needs_shell(text: str, words: list[str]) -> bool:
    bare = _QUOTED.sub("x", text)
    first = words[0] if words else ""
    return (
        _SHELL_SYNTAX.search(bare) is not None
        or _SHELL_WORD.fullmatch(first) is not None
        or _ASSIGNMENT.match(first) is not None
        or '"' in bare  # a quoted string with an expansion
    )


def _replace_variables(text: str, known: Collection[str], by: str) -> str:
    return _REFERENCE.sub(lambda found: found.expand(by) if _is_variable(found[1], known) else found[0], text)


def _escape(text: str, known: Collection[str]) -> str:
    """Escape `$$` and `$(`, which Kubernetes replaces, except in references to variables (none if `known` is empty)."""
    return _KUBERNETES_SYNTAX.sub(
        lambda found: found[0] if found[1] and _is_variable(found[1], known) else f"$${found[0][1:]}", text
    )


def _is_variable(name: str, known: Collection[str]) -> bool:
    return bool(known) and (name in known or _CAPITALS.fullmatch(name) is not None)
