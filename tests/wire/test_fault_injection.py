"""Parsing of fault injections: valid texts, and the messages about invalid ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.wire import fault_injection
from windlass.wire.fault_injection import Action, Injection, InjectionError

VALID = {
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


@pytest.mark.parametrize(("written", "expected"), VALID.items(), ids=VALID.keys())
def test_valid_text_is_parsed(written: str, expected: Injection) -> None:
    assert fault_injection.parse(written) == expected


INVALID = {
    "": "it is empty.",
    "every time": "it is empty.",
    "kil worker-1": 'unknown action "kil". Did you mean "kill"?',
    "KILL worker-1": 'unknown action "KILL". Did you mean "kill"?',
    "burn worker-1": 'unknown action "burn". Known names: kill, exit, delete, delay.',
    "kill": "missing task, expected a role and an index, such as worker-1, or a role.",
    "kill after 5s": 'found "5s", expected "after" and a duration, or nothing.',
    "kill Worker-1": 'invalid task "Worker-1", expected a role and an index, such as worker-1, or a role.',
    "kill worker-01": 'invalid task "worker-01", expected a role and an index, such as worker-1, or a role.',
    "kill worker-": 'invalid task "worker-", expected a role and an index, such as worker-1, or a role.',
    "kill worker-1 5s": 'found "5s", expected "after" and a duration, or nothing.',
    "kill worker-1 by 5s": 'found "by", expected "after" and a duration, or nothing.',
    "kill worker-1 after": "missing duration, expected a duration such as 90s, 15m, 1h30m or 7d.",
    "kill worker-1 after soon": 'invalid duration "soon", expected a duration such as 90s, 15m, 1h30m or 7d.',
    "kill worker-1 after 5 s": 'invalid duration "5 s", expected a duration such as 90s, 15m, 1h30m or 7d.',
    "kill worker-1 every time after 5s": 'found "every", expected "after" and a duration, or nothing.',
    "exit worker-0": 'invalid exit code "worker-0", expected a number from 0 to 255.',
    "exit 256 worker-0": 'invalid exit code "256", expected a number from 0 to 255.',
    "exit -1 worker-0": 'invalid exit code "-1", expected a number from 0 to 255.',
    "exit": "missing exit code, expected a number from 0 to 255.",
    "delay worker-1": "missing duration, expected a duration such as 90s, 15m, 1h30m or 7d.",
    "delay worker-1 by": "missing duration, expected a duration such as 90s, 15m, 1h30m or 7d.",
    "delay worker-1 after 5s": 'invalid duration "after 5s", expected a duration such as 90s, 15m, 1h30m or 7d.',
}


@pytest.mark.parametrize(("written", "why"), INVALID.items(), ids=INVALID.keys())
def test_invalid_text_is_rejected_with_reason_and_examples(written: str, why: str) -> None:
    with pytest.raises(InjectionError) as raised:
        fault_injection.parse(written)
    assert str(raised.value) == f'"{written}" cannot be injected: {why} Examples: {fault_injection.EXAMPLES}'


def test_long_text_is_truncated_in_the_error() -> None:
    with pytest.raises(InjectionError) as raised:
        fault_injection.parse("x" * 100_000)
    assert len(str(raised.value)) < 1_000


def test_examples_are_valid_and_cover_every_action() -> None:
    examples = fault_injection.EXAMPLES.split("; ")
    assert {fault_injection.parse(example).action for example in examples} == set(Action)


TASKS = {"ps": 1, "worker": 2, "idle": 0}
MISSING = {
    "kill wroker-1": ('"kill wroker-1" cannot be injected: unknown role "wroker". Did you mean "worker"?'),
    "kill chief": '"kill chief" cannot be injected: unknown role "chief". Known names: ps, worker, idle.',
    "kill worker-2 after 90s": (
        '"kill worker-2 after 1m30s" cannot be injected: unknown task worker-2. '
        "The role worker has worker-0 to worker-1."
    ),
    "exit 3 ps-1": '"exit 3 ps-1" cannot be injected: unknown task ps-1. The role ps has ps-0.',
    "delete idle": '"delete idle" cannot be injected: unknown task idle-0. The role idle has no tasks.',
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
    ("written", "expected"),
    [("kill worker", {"worker-0", "worker-1"}), ("kill worker-1", {"worker-1"}), ("kill ps-0", {"ps-0"})],
)
def test_injection_matches_its_task_or_all_tasks_of_its_role(written: str, expected: set[str]) -> None:
    injection = fault_injection.parse(written)
    tasks = [(role, index) for role, number in TASKS.items() for index in range(number)]
    assert {f"{role}-{index}" for role, index in tasks if injection.matches(role, index)} == expected


ACTION_TEXTS = {
    "kill worker after 5s every time": "kill",
    "exit 3 worker-1 after 5s": "exit 3",
    "delete worker": "delete",
    "delay worker 90s every time": "delay by 1m30s",
}


@pytest.mark.parametrize(("written", "expected"), ACTION_TEXTS.items())
def test_action_text_omits_task_and_repetition(written: str, expected: str) -> None:
    assert fault_injection.parse(written).action_text == expected


@st.composite
def injections(draw: st.DrawFn) -> Injection:
    action = draw(st.sampled_from(Action))
    code = {Action.KILL: 137, Action.EXIT: draw(st.integers(0, 255))}.get(action, 0)
    return Injection(
        action,
        draw(st.from_regex(r"[a-z0-9]{1,63}", fullmatch=True)),
        draw(st.none() | st.integers(0, 9999)),
        code,
        draw(st.integers(0, 10**9)) / 8,
        draw(st.booleans()),
    )


@given(injections())
def test_text_of_an_injection_parses_to_the_same_injection(injection: Injection) -> None:
    assert fault_injection.parse(str(injection)) == injection


@given(st.lists(st.sampled_from((*Action, "worker-1", "after", "by", "5s", "every", "time", "3", "-1", "."))))
def test_any_text_is_parsed_or_rejected(words: list[str]) -> None:
    try:
        injection = fault_injection.parse(" ".join(words))
    except InjectionError:
        return
    assert fault_injection.parse(str(injection)) == injection
