"""Expansion of `$(NAME)` in commands, arguments, values of variables and sub paths.

`$$` yields `$`. References to unknown names and all other text stay unchanged: there is no shell syntax.
"""

import re
from collections.abc import Iterator, Mapping

# A name ends at the first closing parenthesis and may contain any character.
_TOKEN = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, *variables: Mapping[str, str]) -> str:
    """Expand variables once: values are not expanded again. Earlier mappings take precedence."""

    def replacement(token: re.Match[str]) -> str:
        name = token[1]
        if name is None:
            return "$"
        return next((known[name] for known in variables if name in known), token[0])

    return _TOKEN.sub(replacement, text)


def referenced_names(text: str) -> Iterator[str]:
    return (token[1] for token in _TOKEN.finditer(text) if token[1] is not None)
