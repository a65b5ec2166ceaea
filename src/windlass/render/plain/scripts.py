"""What the tasks of a role are told of their peers where no controller tells them: a script for a shell.

There is one for each role, and not one for each task: every task has the addresses of all, so that many scripts would
grow as the square of the tasks. A script finds out which task it is, and works out what depends on that. What the
variables are is for `discovery` to say: it is asked for the first three tasks, and what differs among them is written
down as a shell computes it.

    windlass_index="${JOB_COMPLETION_INDEX}"
    export WORKER_HOSTS=digits-worker-0:2222,digits-worker-1:2222
    export TASK_INDEX="$((0 + windlass_index))"
    unset windlass_index
"""

import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from windlass.discovery.environment import Variables

POD_VARIABLE = "WINDLASS_POD_NAME"
"""In a pod of a StatefulSet: its own name. The embedded cluster has another use for WINDLASS_POD."""

_INDEX = "windlass_index"
_PROBES = (0, 1, 2)
_NUMBER = re.compile(r"[0-9]+")


class Counted(StrEnum):
    """How a task knows which one it is, as a shell reads it."""

    ALONE = "0"
    BY_KUBERNETES = "${JOB_COMPLETION_INDEX}"
    """The tasks of an Indexed Job are told."""
    BY_NAME = f"${{{POD_VARIABLE}##*-}}"
    """The pods of a StatefulSet are called by their numbers."""


def names(variables: Variables, role: str) -> tuple[str, ...]:
    return tuple(variables(role, 0))


def script(
    variables: Variables,
    role: str,
    counted: Counted,
    left_out: Collection[str] = (),
    more: Iterable[str] = (),
) -> str:
    """`left_out`: what the role says itself. `more`: lines that may refer to the variables."""
    told = [variables(role, index) for index in _PROBES]
    exports = [
        f"export {name}={_value([each[name] for each in told], counted)}"
        for name in told[0]
        if name not in left_out
    ]
    return "\n".join((f'{_INDEX}="{counted}"', *exports, *more, f"unset {_INDEX}", ""))


def _value(found: Sequence[str], counted: Counted) -> str:
    """Of tasks 0, 1 and 2. It is the same for all, or a number in it counts up, or that of the first is its own."""
    first, second, third = found
    if first == second == third or counted is Counted.ALONE:
        return shlex.quote(first)
    start = _first_difference(first, second)
    number = _NUMBER.match(first, start)
    before, after = first[:start], first[number.end() if number else start :]
    offset = int(number[0]) if number else 0
    if [f"{before}{offset + index}{after}" for index in _PROBES] == list(found):
        return f'{_quoted(before)}"$(({offset} + {_INDEX}))"{_quoted(after)}'
    if second != third:
        raise ValueError(f"no shell can work out {first!r}, {second!r}, {third!r}")
    return f'"$(if [ "${_INDEX}" = 0 ]; then echo {shlex.quote(first)}; else echo {shlex.quote(second)}; fi)"'


def _first_difference(one: str, other: str) -> int:
    """Where they begin to differ, or where the number begins in which they do."""
    same = next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )
    while same > 0 and one[same - 1].isdigit():
        same -= 1
    return same


def _quoted(text: str) -> str:
    return shlex.quote(text) if text else ""
