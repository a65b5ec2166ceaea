"""The FAQ has an entry for each message of `windlass why`, and each entry is about a message.

The messages are read from the source: the texts of the functions that create them, with X for each inserted value.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from windlass.client import waiting
from windlass.client.explain import pending
from windlass.client.explain.retries import JOB_ENDED_FIRST
from windlass.model import start_errors, verdict
from windlass.model.completion import CompletionCode

TOP: Final = Path(__file__).parents[2]
SOURCE: Final = TOP / "src" / "windlass"
PAGE: Final = (TOP / "docs" / "faq.md").read_text(encoding="utf-8")
HEADINGS: Final = re.findall(r"^### (.+)$", PAGE, re.MULTILINE)
CALLS: Final = {
    "client/waiting.py": {"Waiting": 0},
    "client/explain/pending.py": {"Waiting": 0, "setdefault": 1},
    "decide/attempt.py": {"framework_completion": 1},
    "decide/deadlines.py": {"framework_completion": 1},
    "decide/suspend.py": {"framework_completion": 1},
    "decide/task_lifecycle.py": {"task_completion": 1},
    "decide/failures.py": {"task_completion": 1},
    "decide/retry.py": {"RetryDecision": 1},
}
"""Functions and the number of the argument that is a message, by file."""
VARIABLES: Final = {
    "client/waiting.py": ("text",),
    "decide/attempt.py": ("diagnostics",),
    "decide/task_lifecycle.py": ("diagnostics",),
    "decide/retry.py": ("reason",),
    "decide/start_order.py": ("message",),
    "client/explain/pending.py": ("restarts",),
}
"""Variables to which messages are assigned, by file."""
NO_MESSAGES: Final = frozenset(
    (
        "X",
        "X: X",
        "XX",
        "X: XX",
        "is pending: X",
        "X; pending: X",
        "X could not start",
        "Failed to create Pod: X",
    )
)
"""Texts without words of their own, and those that the verdict makes more specific or replaces."""
_PLACEHOLDER: Final = re.compile(r"\b[A-Z]{1,}\b")
_KEPT: Final = frozenset(("API",))


def literal(node: ast.expr | None) -> Iterator[str]:
    """Yield the text of an expression, with X for each inserted value; both texts of a conditional one."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            yield "".join(each.value if isinstance(each, ast.Constant) else "X" for each in values)  # type: ignore[misc]
        case ast.IfExp(body=body, orelse=other):
            yield from literal(body)
            yield from literal(other)
        case ast.Tuple(elts=[first, *_]):
            yield from literal(first)


def messages_in(path: str) -> Iterator[str]:
    tree = ast.parse((SOURCE / path).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args, keywords=keywords):
                if name in CALLS.get(path, {}):
                    number = CALLS[path][name]
                    named = [each.value for each in keywords if each.arg == "reason"]
                    for each in (*args[number : number + 1], *named):
                        yield from literal(each)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name in VARIABLES.get(path, ()):
                    yield from literal(value)


def summaries() -> Iterator[str]:
    """Yield what `_summarize` and its helpers return first."""
    tree = ast.parse((SOURCE / "client/explain/explanation.py").read_text(encoding="utf-8"))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name.startswith("_summarize"):
            for node in ast.walk(function):
                if isinstance(node, ast.Return):
                    yield from literal(node.value)


def literal_texts(path: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((SOURCE / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.expr):
            yield from literal(node)


def all_messages() -> set[str]:
    found = {message for path in {*CALLS, *VARIABLES} for message in messages_in(path)}
    found |= set(summaries())
    found |= {f"X {outcome}" for outcome in verdict._OUTCOMES.values()}
    found |= {"X failed", "X exited with code X", "X met a completion rule", "X is blocked: X"}
    found |= {f"X could not start: {verdict.REJECTED_POD}X", "none of its containers failed"}
    found |= {f"X could not start: X: {cause}" for cause in start_errors._ADVICE}
    found |= {
        f"X could not start: {error}"
        for error in literal_texts("model/start_errors.py")
        if "directory X" in error
    }
    found |= {waiting.NO_NODE, pending.NO_POD, pending.STARTING, pending._POSTPONED, JOB_ENDED_FIRST}
    found |= {
        reason for reason in literal_texts("decide/start_order.py") if reason.startswith("waiting for X")
    }
    return {
        message
        for message in found
        if message.strip() and message.strip("X:; ") and message not in NO_MESSAGES
    }


def pattern(heading: str) -> "re.Pattern[str]":
    """Return a pattern that matches the messages of a heading: a word in capitals stands for any text."""
    found = "".join(
        ".*" if _PLACEHOLDER.fullmatch(word) and word not in _KEPT else re.escape(word)
        for word in re.split(r"(\b[A-Z]+\b)", heading)
    )
    return re.compile(found)


MESSAGES: Final = sorted(all_messages())


@pytest.mark.parametrize("message", MESSAGES)
def test_message_has_an_entry(message: str) -> None:
    assert [heading for heading in HEADINGS if pattern(heading).search(message)], "add it to docs/faq.md"


@pytest.mark.parametrize("heading", HEADINGS)
def test_entry_is_about_a_message(heading: str) -> None:
    assert [message for message in MESSAGES if pattern(heading).search(message)], "no message is like this"


def test_messages_are_found_in_every_file() -> None:
    assert [path for path in {*CALLS, *VARIABLES} if not set(messages_in(path))] == []
    assert len(MESSAGES) > 40


def test_messages_of_the_verdict_are_those_of_the_source() -> None:
    texts = set(literal_texts("model/verdict.py"))
    for words in ("exited with code", "met a completion rule", "none of its containers failed"):
        assert [text for text in texts if words in text], words


CODES: Final = [
    code
    for code in CompletionCode
    if code is not CompletionCode.SUCCEEDED and code is not CompletionCode.POD_CREATION_TRANSIENT_ERROR
]


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_every_completion_code_is_mentioned(code: CompletionCode) -> None:
    assert re.search(rf"(?<![\d-]){code.value}\b", PAGE), "add it to docs/faq.md"
