"""Shell scripts that set the variables about peers in a cluster without the controller.

There is one script per role, because scripts per task, each with all addresses, would grow with the square of
the number of tasks. A script determines the index of its task and computes the values that depend on it. `discovery`
provides the variables of the first three tasks; differences between them are written as shell expressions.

    windlass_index="${JOB_COMPLETION_INDEX}"
    export WORKER_HOSTS=digits-worker-0:2222,digits-worker-1:2222
    export TASK_INDEX="$((0 + windlass_index))"
    unset windlass_index
"""

import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from windlass.discovery.environment import TaskVariables

POD_VARIABLE = "WINDLASS_POD_NAME"
"""Variable with the name of a StatefulSet's pod. The embedded cluster uses WINDLASS_POD for another purpose."""

_INDEX = "windlass_index"
_SAMPLE_INDEXES = (0, 1, 2)
_NUMBER = re.compile(r"[0-9]+")


class IndexSource(StrEnum):
    """Shell expression for the index of a task."""

    SINGLE_TASK = "0"
    COMPLETION_INDEX = "${JOB_COMPLETION_INDEX}"
    """The tasks of an Indexed Job have this variable."""
    POD_NAME = f"${{{POD_VARIABLE}##*-}}"
    """The names of a StatefulSet's pods end with the index."""


def variable_names(variables: TaskVariables, role: str) -> tuple[str, ...]:
    return tuple(variables(role, 0))


def script(
    variables: TaskVariables,
    role: str,
    index_source: IndexSource,
    excluded: Collection[str] = (),
    extra_lines: Iterable[str] = (),
) -> str:
    """Return the script. `excluded`: variables that the role itself sets. `extra_lines` may refer to the
    variables of the script."""
    sampled = [variables(role, index) for index in _SAMPLE_INDEXES]
    exports = [
        f"export {name}={_value([values[name] for values in sampled], index_source)}"
        for name in sampled[0]
        if name not in excluded
    ]
    return "\n".join((f'{_INDEX}="{index_source}"', *exports, *extra_lines, f"unset {_INDEX}", ""))


def _value(found: Sequence[str], index_source: IndexSource) -> str:
    """Return an expression for the value of any task, from the values of tasks 0, 1 and 2: a constant, a counter, or an
    exception for task 0."""
    first, second, third = found
    if first == second == third or index_source is IndexSource.SINGLE_TASK:
        return shlex.quote(first)
    start = _first_difference(first, second)
    number = _NUMBER.match(first, start)
    before, after = first[:start], first[number.end() if number else start :]
    offset = int(number[0]) if number else 0
    if [f"{before}{offset + index}{after}" for index in _SAMPLE_INDEXES] == list(found):
        return f'{_quoted(before)}"$(({offset} + {_INDEX}))"{_quoted(after)}'
    if second != third:
        raise ValueError(f"cannot write a shell expression for {first!r}, {second!r}, {third!r}")
    return f'"$(if [ "${_INDEX}" = 0 ]; then echo {shlex.quote(first)}; else echo {shlex.quote(second)}; fi)"'


def _first_difference(one: str, other: str) -> int:
    """Return the position of the first difference, or of the number that contains it."""
    position = next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )
    while position > 0 and one[position - 1].isdigit():
        position -= 1
    return position


def _quoted(text: str) -> str:
    return shlex.quote(text) if text else ""
