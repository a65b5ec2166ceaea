"""Expansion of `$(NAME)` in commands, arguments, values of variables and sub paths.

`$$` yields `$`. References to unknown names and all other text stay unchanged: there is no shell syntax.
"""

import re
from collections.abc import Iterator, Mapping

from windlass.localcluster.kubelet.containers import errors
from windlass.localcluster.kubelet.containers.errors import SetupError

# A name ends at the first closing parenthesis and may contain any character.
_TOKEN = re.compile(r"\$(?:\$|\(([^)]*)\))")
# The kernel starts no process whose arguments and environment are longer. Few short references could yield gigabytes.
MAX_CHARACTERS = 6 * 1024**2


def expand(text: str, *variables: Mapping[str, str]) -> str:
    """Expand variables once: values are not expanded again. Earlier mappings take precedence.

    Raises SetupError if the result is too long for a process.
    """
    size = len(text)

    def replacement(token: re.Match[str]) -> str:
        nonlocal size
        name = token[1]
        if name is None:
            return "$"
        value = next((known[name] for known in variables if name in known), token[0])
        size += len(value) - len(token[0])
        check_size(size)
        return value

    return _TOKEN.sub(replacement, text)


def check_size(size: int) -> None:
    """Raise SetupError if a command or an environment of this size is too long for a process."""
    if size > MAX_CHARACTERS:
        most = f"more than {MAX_CHARACTERS} characters"
        message = f"the command or the environment has {most}: use fewer or shorter arguments and variables"
        raise SetupError(message, errors.CREATE_ERROR)


def referenced_names(text: str) -> Iterator[str]:
    return (token[1] for token in _TOKEN.finditer(text) if token[1] is not None)
