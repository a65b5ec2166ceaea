"""Faults that people ask for: what is understood, what is refused, and in which words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.wire import fault_injection
from windlass.wire.fault_injection import Action, Injection, InjectionError

UNDERSTOOD = {
    "kill worker-1": Injection(Action.KILL, "worker", 1, code=137),
    "kill worker-1 after 5s": Injection(Action.KILL, "worker", 1, code=137, seconds=5),
    "kill worker-1 after 5": Injection(Action.KILL, "worker", 1, code=137, seconds=5),
    "kill worker": Injection(Action.KILL, "worker", None, code=137),
    "kill worker-10 after 1h30m every time": Injection(
        Action.KILL, "worker", 10, code=137, seconds=5400, is_repeated=True
    ),
    "exit 3 worker-0": Injection(Action.EXIT, "worker", 0, code=3),
    "exit 0 worker-0 after 1m": Injection(Action.EXIT, "worker", 0, code=0, seconds=60),
    "exit 255 0 every time": Injection(Action.EXIT, "0", None, code=255, is_repeated=True),
    "delete ps-0": Injection(Action.DELETE, "ps", 0),
    "delete ps after 5s": Injection(Action.DELETE, "ps", None, seconds=5),
    "delay worker-1 by 30s": Injection(Action.DELAY, "worker", 1, seconds=30),
    "delay worker-1 30s": Injection(Action.DELAY, "worker", 1, seconds=30),
    "delay worker by 2m every time": Injection(Action.DELAY, "worker", None, seconds=120, is_repeated=True),
    "  kill\tworker-1  after   5s ": Injection(Action.KILL, "worker", 1, code=137, seconds=5),
}


@pytest.mark.parametrize(("written", "expected"), UNDERSTOOD.items(), ids=UNDERSTOOD.keys())
def test_understood(written: str, expected: Injection) -> None:
    assert fault_injection.parse(written) == expected


REFUSED = {
    "": "it is empty.",
    "every time": "it is empty.",
    "kil worker-1": 'unknown action "kil". Did you mean "kill"?',
    "KILL worker-1": 'unknown action "KILL". Did you mean "kill"?',
    "burn worker-1": 'unknown action "burn". Known names: kill, exit, delete, delay.',
    "kill": "the task: it is missing, expected a role and an index, such as worker-1, or a role.",
    "kill after 5s": 'found "5s", expected after, or nothing.',
    "kill Worker-1": 'the task: found "Worker-1", expected a role and an index, such as worker-1, or a role.',
    "kill worker-01": 'the task: found "worker-01", expected a role and an index, such as worker-1, or a role.',
    "kill worker-": 'the task: found "worker-", expected a role and an index, such as worker-1, or a role.',
    "kill worker-1 5s": 'found "5s", expected after, or nothing.',
    "kill worker-1 by 5s": 'found "by", expected after, or nothing.',
    "kill worker-1 after": "how long: it is missing, expected a duration such as 90s, 15m, 1h30m or 7d.",
    "kill worker-1 after soon": 'how long: found "soon", expected a duration such as 90s, 15m, 1h30m or 7d.',
    "kill worker-1 after 5 s": 'how long: found "5 s", expected a duration such as 90s, 15m, 1h30m or 7d.',
    "kill worker-1 every time after 5s": 'found "every", expected after, or nothing.',
    "exit worker-0": 'the code: found "worker-0", expected one from 0 to 255.',
    "exit 256 worker-0": 'the code: found "256", expected one from 0 to 255.',
    "exit -1 worker-0": 'the code: found "-1", expected one from 0 to 255.',
    "exit": "the code: it is missing, expected one from 0 to 255.",
    "delay worker-1": "how long: it is missing, expected a duration such as 90s, 15m, 1h30m or 7d.",
    "delay worker-1 by": "how long: it is missing, expected a duration such as 90s, 15m, 1h30m or 7d.",
    "delay worker-1 after 5s": 'how long: found "after 5s", expected a duration such as 90s, 15m, 1h30m or 7d.',
}


@pytest.mark.parametrize(("written", "why"), REFUSED.items(), ids=REFUSED.keys())
def test_refused(written: str, why: str) -> None:
    with pytest.raises(InjectionError) as refused:
        fault_injection.parse(written)
    assert str(refused.value) == f'"{written}" cannot be injected: {why} Examples: {fault_injection.EXAMPLES}'


def test_what_is_refused_is_not_repeated_at_length() -> None:
    with pytest.raises(InjectionError) as refused:
        fault_injection.parse("x" * 100_000)
    assert len(str(refused.value)) < 1_000


def test_the_examples_are_understood() -> None:
    examples = fault_injection.EXAMPLES.split("; ")
    assert {fault_injection.parse(example).what for example in examples} == set(Action)


TASKS = {"ps": 1, "worker": 2, "idle": 0}
MISSING = {
    "kill wroker-1": (
        '"kill wroker-1" cannot be injected: there is no role "wroker". Did you mean "worker"?'
    ),
    "kill chief": '"kill chief" cannot be injected: there is no role "chief". Known names: ps, worker, idle.',
    "kill worker-2 after 90s": (
        '"kill worker-2 after 1m30s" cannot be injected: there is no worker-2. '
        "The role worker has worker-0 to worker-1."
    ),
    "exit 3 ps-1": '"exit 3 ps-1" cannot be injected: there is no ps-1. The role ps has ps-0.',
    "delete idle": '"delete idle" cannot be injected: there is no idle-0. The role idle has no tasks.',
    **dict.fromkeys(("kill ps", "kill ps-0", "delay worker-1 by 5s", "exit 3 worker every time"), ""),
}


@pytest.mark.parametrize(("written", "message"), MISSING.items(), ids=MISSING.keys())
def test_injection_is_rejected_if_its_task_does_not_exist(written: str, message: str) -> None:
    found = ""
    try:
        fault_injection.require_tasks(
            [fault_injection.parse("kill ps-0"), fault_injection.parse(written)], TASKS
        )
    except InjectionError as error:
        found = str(error)
    assert found == message


@pytest.mark.parametrize(
    ("written", "concerned"),
    [("kill worker", {"worker-0", "worker-1"}), ("kill worker-1", {"worker-1"}), ("kill ps-0", {"ps-0"})],
)
def test_whom_it_concerns(written: str, concerned: set[str]) -> None:
    injection = fault_injection.parse(written)
    tasks = [(role, index) for role, number in TASKS.items() for index in range(number)]
    assert {f"{role}-{index}" for role, index in tasks if injection.concerns(role, index)} == concerned


DONE = {
    "kill worker after 5s every time": "kill",
    "exit 3 worker-1 after 5s": "exit 3",
    "delete worker": "delete",
    "delay worker 90s every time": "delay by 1m30s",
}


@pytest.mark.parametrize(("written", "done"), DONE.items())
def test_what_is_said_when_it_is_done(written: str, done: str) -> None:
    assert fault_injection.parse(written).deed == done


@st.composite
def any_injection(draw: st.DrawFn) -> Injection:
    what = draw(st.sampled_from(Action))
    code = {Action.KILL: 137, Action.EXIT: draw(st.integers(0, 255))}.get(what, 0)
    return Injection(
        what,
        draw(st.from_regex(r"[a-z0-9]{1,63}", fullmatch=True)),
        draw(st.none() | st.integers(0, 9999)),
        code,
        draw(st.integers(0, 10**9)) / 8,
        draw(st.booleans()),
    )


@given(any_injection())
def test_what_is_told_of_it_can_be_read_again(injection: Injection) -> None:
    assert fault_injection.parse(str(injection)) == injection


@given(st.lists(st.sampled_from((*Action, "worker-1", "after", "by", "5s", "every", "time", "3", "-1", "."))))
def test_whatever_is_written_is_understood_or_refused(words: list[str]) -> None:
    try:
        injection = fault_injection.parse(" ".join(words))
    except InjectionError:
        return
    assert fault_injection.parse(str(injection)) == injection
