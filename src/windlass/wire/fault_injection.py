"""Parse fault injections, which test the policies of a job: `kill worker-1 after 5s`.

    kill TASK [after DURATION]          kill the process (exit code 137)
    exit CODE TASK [after DURATION]     exit with a code
    delete TASK [after DURATION]        delete the pod
    delay TASK [by] DURATION            start the task later

`every time` at the end means all attempts of the task instead of the first one. `after` counts from the start of
the task. TASK is a role and an index, e.g. worker-1, or a role for all its tasks.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from windlass.wire import diagnostics, durations


class Action(StrEnum):
    KILL = "kill"
    EXIT = "exit"
    DELETE = "delete"
    DELAY = "delay"


KILLED_EXIT_CODE = 137
EXAMPLES = "kill worker-1 after 5s; exit 3 worker-0 after 1m every time; delete ps-0; delay worker-1 by 30s"
_TASK = re.compile(r"([a-z0-9]{1,63})(?:-(0|[1-9][0-9]{0,4}))?")
_CODE = re.compile(r"[0-9]{1,3}")


class Injection(msgspec.Struct, frozen=True):
    action: Action
    role: str
    index: int | None = None
    """None for all tasks of the role."""
    code: int = 0
    """The exit code of KILL and EXIT."""
    seconds: float = 0.0
    """The delay after the task has started; for DELAY, before it starts."""
    is_repeated: bool = False

    def __str__(self) -> str:
        """Return the text that `parse` accepts."""
        action, _, by = self.action_text.partition(" by ")
        words = [action, self.task]
        if by:
            words.append(f"by {by}")
        elif self.seconds:
            words.append(f"after {durations.format_seconds(self.seconds)}")
        return " ".join([*words, "every time"] if self.is_repeated else words)

    @property
    def action_text(self) -> str:
        """The action without the task: `kill`, `exit 3`, `delete`, `delay by 30s`."""
        match self.action:
            case Action.EXIT:
                return f"{self.action} {self.code}"
            case Action.DELAY:
                return f"{self.action} by {durations.format_seconds(self.seconds)}"
            case _:
                return str(self.action)

    @property
    def task(self) -> str:
        return self.role if self.index is None else f"{self.role}-{self.index}"

    def matches(self, role: str, index: int) -> bool:
        return role == self.role and self.index in (None, index)


class InjectionError(ValueError):
    """An injection cannot be parsed, or its task does not exist."""


def parse(written: str) -> Injection:
    words = written.split()
    is_repeated = words[-2:] == ["every", "time"]
    if is_repeated:
        del words[-2:]
    if not words:
        raise _error(written, "it is empty")
    action = _action(written, words.pop(0))
    code = (
        _code(written, words) if action is Action.EXIT else KILLED_EXIT_CODE if action is Action.KILL else 0
    )
    role, index = _task(written, words)
    seconds = _seconds(
        written, words, "by" if action is Action.DELAY else "after", is_required=action is Action.DELAY
    )
    return Injection(action, role, index, code, seconds, is_repeated)


def require_tasks(injections: Iterable[Injection], tasks: Mapping[str, int]) -> None:
    """Raise InjectionError if a task does not exist. `tasks` is the number of tasks of each role."""
    for injection in injections:
        role, number = injection.role, tasks.get(injection.role)
        if number is None:
            suggestion = diagnostics.did_you_mean(role, tuple(tasks))
            raise InjectionError(
                f'"{injection}" cannot be injected: unknown role {diagnostics.quoted(role)}. {suggestion}'
            )
        if number <= (injection.index or 0):
            existing = (
                f"{role}-0 to {role}-{number - 1}" if number > 1 else f"{role}-0" if number else "no tasks"
            )
            raise InjectionError(
                f'"{injection}" cannot be injected: unknown task {role}-{injection.index or 0}. '
                f"The role {role} has {existing}."
            )


def _action(written: str, word: str) -> Action:
    known = tuple(map(str, Action))
    if word not in known:
        raise _error(
            written, f"unknown action {diagnostics.quoted(word)}. {diagnostics.did_you_mean(word, known)}"
        )
    return Action(word)


def _code(written: str, words: list[str]) -> int:
    if not words or _CODE.fullmatch(words[0]) is None or int(words[0]) > 255:
        problem = f"invalid exit code {diagnostics.quoted(words[0])}" if words else "missing exit code"
        raise _error(written, f"{problem}, expected a number from 0 to 255")
    return int(words.pop(0))


def _task(written: str, words: list[str]) -> tuple[str, int | None]:
    word = words.pop(0) if words else ""
    found = _TASK.fullmatch(word)
    if found is None:
        problem = f"invalid task {diagnostics.quoted(word)}" if word else "missing task"
        raise _error(written, f"{problem}, expected a role and an index, such as worker-1, or a role")
    return found[1], None if found[2] is None else int(found[2])


def _seconds(written: str, words: list[str], preposition: str, *, is_required: bool) -> float:
    if words[:1] == [preposition]:
        del words[0]
        is_required = True
    elif words and not is_required:
        found = diagnostics.quoted(words[0])
        raise _error(written, f'found {found}, expected "{preposition}" and a duration, or nothing')
    if not words and not is_required:
        return 0.0
    if not words:
        raise _error(written, f"missing duration, expected {durations.EXPECTED}")
    try:
        return durations.parse(" ".join(words))
    except ValueError:
        found = diagnostics.quoted(" ".join(words))
        raise _error(written, f"invalid duration {found}, expected {durations.EXPECTED}") from None


def _error(written: str, why: str) -> InjectionError:
    is_sentence = why.endswith((".", "?"))
    return InjectionError(
        f"{diagnostics.quoted(written)} cannot be injected: {why if is_sentence else f'{why}.'} Examples: {EXAMPLES}"
    )
