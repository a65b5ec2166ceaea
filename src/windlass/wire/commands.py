"""A command as people write it → the words that a container is given.

A list is the words themselves. A text without shell syntax is cut into words, and run without a shell: its program gets
the signals that end a pod. Any other text is a shell's.

`$(NAME)` is how Kubernetes writes a variable, and it fills such a name in wherever the container has the variable. In a
text without a shell that is left to Kubernetes. In a text for a shell it becomes `${NAME}`, so that a value with spaces
or quotes in it stays one value, and every other `$(` is kept from Kubernetes: it is the shell's. Which of them are
variables is told by their names: in capital letters, or known.
"""

import re
import shlex
from collections.abc import Collection

SHELL = ("/bin/sh", "-c")
LOWER_CASE_VARIABLES = frozenset({"ps_hosts", "worker_hosts", "taskindex"})
"""Of those that a runtime gives."""

_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_CAPITALS = re.compile(r"[A-Z_][A-Z0-9_]*")
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\$`]|\\.)*"|\\[^\n]""", re.DOTALL)
_SHELL_SYNTAX = re.compile(r"[|&;<>()$`*?\[\]\n]|(?:^|\s)[#~{}!]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SHELL_WORDS = frozenset(
    {
        ".",
        ":",
        "alias",
        "case",
        "cd",
        "command",
        "eval",
        "exec",
        "exit",
        "export",
        "for",
        "if",
        "readonly",
        "set",
    }
    | {"shift", "source", "trap", "ulimit", "umask", "unset", "until", "wait", "while"}
)
"""What only a shell knows."""
_MEANT_BY_KUBERNETES = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)|\$(?=[$(])")


def words(command: str | Collection[str], variables: Collection[str] = ()) -> list[str]:
    """`variables` are those of the container that the job names. Raises ValueError for a text that no shell reads."""
    if not isinstance(command, str):
        return list(command)
    text = command.strip()
    known = LOWER_CASE_VARIABLES.union(variables)
    found = shlex.split(text)
    if _needs_a_shell(_filled_in(text, known, "x"), found):
        return [*SHELL, _kept_from_kubernetes(_filled_in(text, known, r"${\1}"), ())]
    return [_kept_from_kubernetes(word, known) for word in found]


def _needs_a_shell(text: str, found: list[str]) -> bool:
    bare = _QUOTED.sub("x", text)
    first = found[0] if found else ""
    return (
        _SHELL_SYNTAX.search(bare) is not None
        or first in _SHELL_WORDS
        or _ASSIGNMENT.match(first) is not None
        or '"' in bare  # what is left of quotes holds something that a shell fills in
    )


def _filled_in(text: str, known: Collection[str], by: str) -> str:
    return _REFERENCE.sub(lambda found: found.expand(by) if _is_variable(found[1], known) else found[0], text)


def _kept_from_kubernetes(text: str, known: Collection[str]) -> str:
    """To Kubernetes `$$` is one `$`, and `$(` begins the name of a variable: only a known one's may."""
    return _MEANT_BY_KUBERNETES.sub(
        lambda found: found[0] if found[1] and _is_variable(found[1], known) else f"$${found[0][1:]}", text
    )


def _is_variable(name: str, known: Collection[str]) -> bool:
    return bool(known) and (name in known or _CAPITALS.fullmatch(name) is not None)
