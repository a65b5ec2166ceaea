"""Write plain values as YAML. Strings that Kubernetes would parse as another type are quoted.

A string of several lines, e.g. a script, becomes a block if it has only printable ASCII characters and no trailing
spaces, does not start with a space or line break, and ends with a single line break.
"""

import re
from typing import Any

import yaml

from windlass.wire.yaml import scalars

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_LINES = re.compile(r"[!-~](?:[ -~]*[!-~])?\n(?:(?:[ -~]*[!-~])?\n)*(?:[ -~]*[!-~])\n")
"""Two or more lines of printable ASCII characters without trailing spaces. The first line is not indented."""


def dump(value: Any) -> bytes:
    written: str = yaml.dump(
        value, Dumper=_KubernetesDumper, sort_keys=False, allow_unicode=True, width=2**16
    )
    return written.encode()


class _KubernetesDumper(_Dumper):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 — an override
        return True


def _quoted_where_needed(dumper: Any, text: str) -> Any:
    # Kubernetes treats numbers that are too large as strings; other parsers do not.
    is_plain = scalars.is_string(text) and not scalars.FLOAT.fullmatch(text)
    style = None if is_plain else '"'
    if _LINES.fullmatch(text):
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_KubernetesDumper.add_representer(str, _quoted_where_needed)
