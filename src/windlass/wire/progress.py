"""Parse the progress that a task reports in a line of its log, or in the file that $WINDLASS_PROGRESS names.

    windlass progress 120/300 loss=0.31 lr=1e-3          in the log, at the beginning of a line
    120/300 loss=0.31 lr=1e-3                            in the file, whose last line counts

Users' programs write both, so invalid text is ignored and raises no error.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping

import msgspec

MAX_VALUES = 20
MAX_VALUE_LENGTH = 100
TAIL_BYTES = 4096
"""The number of bytes to read from the end of the file."""

RESULT_MARK = b"result:"
"""Beginning of a line with the final result of a task, in any case."""
_MARK = "windlass progress "
_STEPS = re.compile(r"([0-9]{1,15})/([0-9]{1,15})(?!\S)")
_VALUE = re.compile(r"([A-Za-z_][\w.\-/]{0,49})=(\S+)")


Value = int | float | str | bool | None
"""A value of a result line."""


class Progress(msgspec.Struct, frozen=True):
    step: int
    total: int
    """0 if unknown."""
    values: Mapping[str, str] = {}
    """Metrics in the order of the text, e.g. loss=0.31."""

    @property
    def fraction(self) -> float | None:
        """The progress from 0 to 1; None if the total is unknown."""
        return min(self.step / self.total, 1.0) if self.total else None

    @property
    def is_complete(self) -> bool:
        return bool(self.total) and self.step >= self.total


def parse_line(line: str) -> Progress | None:
    return _parse(line[len(_MARK) :]) if line.startswith(_MARK) else None


def parse_lines(data: bytes) -> Iterator[tuple[int, Progress]]:
    """Yield the progress in lines of a log, each with the position after its line. Usually there is none."""
    mark = _MARK.encode()
    at = data.find(mark)
    while at >= 0:
        end = data.find(b"\n", at) + 1 or len(data)
        begins_line = at == 0 or data[at - 1 : at] == b"\n"
        found = parse_line(data[at:end].decode("utf-8", "replace")) if begins_line else None
        if found is not None:
            yield end, found
        at = data.find(mark, end)


def is_result(line: bytes) -> bool:
    """Return whether a line of a log is a result line: `result: accuracy=0.97`."""
    return line[: len(RESULT_MARK)].lower() == RESULT_MARK


def parse_result(line: str) -> dict[str, Value]:
    """Return the values of a result line: `name=value` or a JSON object. Empty for any other line."""
    if not is_result(line.encode()):
        return {}
    text = line[len(RESULT_MARK) :].strip()
    with contextlib.suppress(msgspec.DecodeError):
        found: dict[str, Value] = msgspec.json.decode(text, type=dict[str, Value])
        return found
    pairs = _VALUE.findall(text)[:MAX_VALUES]
    return {name: _number(value.rstrip(",;")) for name, value in pairs}


def _number(text: str) -> Value:
    for convert in (int, float):
        with contextlib.suppress(ValueError):
            return convert(text)
    return text[:MAX_VALUE_LENGTH]


def parse_file(data: bytes) -> Progress | None:
    """Parse the last non-empty line that ends with a line break, or the only line, with or without a line break."""
    lines = data[-TAIL_BYTES:].decode("utf-8", "replace").split("\n")
    # The program may still be writing the last line. A single line may have no line break.
    candidates = lines if len(lines) == 1 else lines[:-1]
    for line in reversed(candidates):
        if line.strip():
            return _parse(line.strip())
    return None


def _parse(text: str) -> Progress | None:
    steps = _STEPS.match(text)
    if steps is None:
        return None
    found = _VALUE.findall(text, steps.end())
    values = {name: value[:MAX_VALUE_LENGTH] for name, value in found[:MAX_VALUES]}
    return Progress(int(steps[1]), int(steps[2]), values)
