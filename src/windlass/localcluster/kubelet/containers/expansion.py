"""`$(NAME)` in commands, arguments, values and sub paths.

`$$` stands for one `$`, a name that nobody knows stays as it is written, and so does everything else: it is no shell.
"""

import re
from collections.abc import Iterator, Mapping

# A name goes up to the first closing parenthesis, whatever is in it.
_TOKEN = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, *variables: Mapping[str, str]) -> str:
    """The earlier mapping wins. What a value brings in is not expanded again."""

    def replacement(token: re.Match[str]) -> str:
        name = token[1]
        if name is None:
            return "$"
        return next((known[name] for known in variables if name in known), token[0])

    return _TOKEN.sub(replacement, text)


def references(text: str) -> Iterator[str]:
    return (token[1] for token in _TOKEN.finditer(text) if token[1] is not None)
