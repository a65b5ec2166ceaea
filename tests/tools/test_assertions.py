"""Every test asserts something: itself, through a helper of its file, or through one of the shared helpers below."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1]
# Helpers in tests/support that raise AssertionError.
SHARED_HELPERS: Final = (
    *(
        "assert_ends_at",
        "assert_names_resolve",
        "assert_page_matches",
        "event",
        "expect",
        "says",
        "stays",
        "until",
        "until_pods",
        "until_shown",
    ),
    *("wait_for", "wait_for_end", "wait_until_gone"),
)
# `api` compares every response with a transcript. kubectl fails unless the command succeeds.
ASSERTING_FIXTURES: Final = ("api", "kubectl", "kubectl_there")
ASSERTION: Final = re.compile(
    rf"\bassert\b|\bpytest\.(?:raises|fail|warns)\(|\b(?:{'|'.join(SHARED_HELPERS)})\("
    rf"|^(?:async )?def test_\w+\([^)]*\b(?:{'|'.join(ASSERTING_FIXTURES)}):",
    re.MULTILINE,
)
FUNCTION: Final = re.compile(r"^( *)(?:async )?def (\w+)\(.*\n(?:\1(?: |\)).*\n|\n)*", re.MULTILINE)
# Property tests that fail by raising an unexpected error.
EXEMPT: Final = frozenset({"test_any_patch_is_applied_or_rejected"})


def test_every_test_asserts_something() -> None:
    files = sorted(TESTS.rglob("test_*.py"))
    assert [f"{file.relative_to(TESTS)}: {name}" for file in files for name in without_assertion(file)] == []


def without_assertion(file: Path) -> Iterator[str]:
    source = file.read_text(encoding="utf-8")
    tests = {found[2]: found[0] for found in FUNCTION.finditer(source) if found[2].startswith("test_")}
    doubtful = {name for name, text in tests.items() if not ASSERTION.search(text)} - EXEMPT
    # Parsing is slow, and few files need it.
    if doubtful:
        yield from sorted(doubtful & functions_without_assertion(ast.parse(source)))


def functions_without_assertion(tree: ast.Module) -> set[str]:
    """Return the functions and methods of a file that assert neither themselves nor through one another."""
    defined = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    called = {each.name: called_in(each) for each in defined}
    asserting = {each.name for each in defined if ASSERTION.search(ast.unparse(each))}
    while more := {name for name, names in called.items() if names & asserting} - asserting:
        asserting |= more
    return called.keys() - asserting


def called_in(function: ast.AST) -> set[str]:
    calls = [each.func for each in ast.walk(function) if isinstance(each, ast.Call)]
    names = {each.id for each in calls if isinstance(each, ast.Name)}
    return names | {each.attr for each in calls if isinstance(each, ast.Attribute)}


def test_missing_assertion_is_detected(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(
        "def helper():\n    assert 1\n\n\n"
        "def test_through_a_helper():\n    helper()\n\n\n"
        "def test_nothing():\n    print(1)\n\n\n"
        "class TestClass:\n"
        "    def test_method(self):\n        print(1)\n\n"
        "    def test_other(\n        self,\n    ) -> None:\n        assert 1\n"
    )
    assert list(without_assertion(file)) == ["test_method", "test_nothing"]
