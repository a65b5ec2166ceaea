"""The output of kubectl without differences between servers that do not matter."""

import re
from collections.abc import Mapping
from typing import Final

REPLACED: Final[Mapping[str, str]] = {
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}": "<uid>",
    r"\b10\.\d+\.\d+\.\d+\b": "<address>",
    r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}": "<time>",
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ": "<time>",
    r"(?<=Resource Version:)\s+\d+": " <version>",
    r"(?<![\w./-])(\d+y)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?(?<=[ydhms])(?![\w./-])": "<age>",
    r"[ \t]{2,}": "  ",
    r"[ \t]+$": "",
}
"""Applied in this order. Columns are as wide as their content, so spaces are ignored too."""

LEFT_OUT: Final[Mapping[str, str]] = {
    r"Warning: v1 Endpoints is deprecated": "the embedded server has no EndpointSlices to use instead",
}
"""Ignored lines by their beginning, each with the reason."""


def normalised(text: str) -> list[str]:
    for pattern, replacement in REPLACED.items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    lines = _without_managed_fields(text.splitlines())
    left_out = re.compile("|".join(LEFT_OUT))
    return [line.strip() for line in lines if not left_out.match(line.strip())]


def _without_managed_fields(lines: list[str]) -> list[str]:
    """Return a description without managedFields, which only server-side apply uses."""
    kept, is_inside = [], False
    for line in lines:
        if line.strip() == "Managed Fields:":
            is_inside = True
        elif line.strip().startswith("Resource Version:"):
            is_inside = False
        if not is_inside:
            kept.append(line)
    return kept
