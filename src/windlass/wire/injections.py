"""Faults that people ask for, to see what their policies make of them: `kill worker-1 after 5s`.

    kill TASK [after DURATION]          its process is killed (137)
    exit CODE TASK [after DURATION]     its process ends with that code
    delete TASK [after DURATION]        somebody deletes its pod
    delay TASK [by] DURATION            it starts that much later

each with `every time` at its end, for all attempts of the task rather than for its first one only. A duration counts
from the moment at which the task runs. TASK is a role and an index, such as worker-1, or a role alone for all of its
tasks.
"""

import re
from enum import StrEnum

import msgspec

from windlass.wire import durations, faults


class What(StrEnum):
    KILL = "kill"
    EXIT = "exit"
    DELETE = "delete"
    DELAY = "delay"


KILLED = 137
EXAMPLES = "kill worker-1 after 5s; exit 3 worker-0 after 1m every time; delete ps-0; delay worker-1 by 30s"
_TASK = re.compile(r"([a-z0-9]{1,63})(?:-([0-9]{1,5}))?")
_CODE = re.compile(r"[0-9]{1,3}")


class Injection(msgspec.Struct, frozen=True):
    what: What
    role: str
    index: int | None = None
    """None: every task of the role."""
    code: int = 0
    """With which the process ends, of KILL and EXIT."""
    seconds: float = 0.0
    """After the task has begun to run; of DELAY, before it does."""
    is_repeated: bool = False

    def concerns(self, role: str, index: int) -> bool:
        return role == self.role and self.index in (None, index)


class InjectionError(ValueError):
    """One message: what is wrong with it, and how one looks."""


def parse(written: str) -> Injection:
    words = written.split()
    is_repeated = words[-2:] == ["every", "time"]
    if is_repeated:
        del words[-2:]
    if not words:
        raise _error(written, "it says nothing")
    what = _what(written, words.pop(0))
    code = _code(written, words) if what is What.EXIT else KILLED if what is What.KILL else 0
    role, index = _task(written, words)
    seconds = _seconds(written, words, "by" if what is What.DELAY else "after", is_needed=what is What.DELAY)
    return Injection(what, role, index, code, seconds, is_repeated)


def _what(written: str, word: str) -> What:
    known = tuple(str(what) for what in What)
    if word not in known:
        raise _error(written, f"there is no {word!r}. {faults.did_you_mean(word, known)}".rstrip("."))
    return What(word)


def _code(written: str, words: list[str]) -> int:
    if not words or _CODE.fullmatch(words[0]) is None or int(words[0]) > 255:
        found = f"found {words[0]!r}" if words else "it is missing"
        raise _error(written, f"the code: {found}, expected one from 0 to 255")
    return int(words.pop(0))


def _task(written: str, words: list[str]) -> tuple[str, int | None]:
    found = _TASK.fullmatch(words.pop(0)) if words else None
    if found is None:
        raise _error(written, "the task: expected a role and an index, such as worker-1, or a role")
    return found[1], None if found[2] is None else int(found[2])


def _seconds(written: str, words: list[str], particle: str, *, is_needed: bool) -> float:
    if words[:1] == [particle]:
        del words[0]
        is_needed = True
    elif words and not is_needed:
        raise _error(written, f"found {words[0]!r}, expected {particle}, or nothing")
    if not words and not is_needed:
        return 0.0
    try:
        (word,) = words
        return durations.seconds(word)
    except ValueError:
        raise _error(written, f"found {' '.join(words)!r}, expected {durations.EXPECTED}") from None


def _error(written: str, why: str) -> InjectionError:
    return InjectionError(f"{written!r} cannot be injected: {why}. Such as: {EXAMPLES}")
