"""Every output block of the README and the pages is compared by a test, or a mark says why it is not run.

Pages whose commands start pods are run by tests/local/test_pages.py.
"""

from pathlib import Path

import pages
import pytest

DOCS = pages.TOP / "docs"
PAGES = sorted(path for path in (pages.TOP / "README.md", *DOCS.glob("**/*.md")))
GENERATED = "<!-- Made from the code by tools/update_docs.py. Do not edit. -->\n"
WITHOUT_PODS = [
    path for path in PAGES if list(pages.steps(path.read_text())) and not pages.runs_pods(path.read_text())
]


def _name(path: Path) -> str:
    return str(path.relative_to(pages.TOP))


# Comparing

SAME = {
    "as it is": ("$ list", "a\nb", "a\nb", True),
    "another line": ("$ list", "a\nb", "a\nc", False),
    "a line more": ("$ list", "a", "a\nb", False),
    "a line less": ("$ list", "a\nb", "a", False),
    "nothing": ("$ list", "", "", True),
    "something in place of nothing": ("$ list", "", "a", False),
    "left out": ("$ list", "a\n…\nd", "a\nb\nc\nd", True),
    "nothing was left out": ("$ list", "a\n…\nd", "a\nd", True),
    "left out, and then another line": ("$ list", "a\n…\nd", "a\nb\nc", False),
    "left out of a line": ("$ list", "a … d", "a b c d", True),
    "in another order": ("$ list", "a\nb", "b\na", False),
    "tasks in another order": ("$ windlass run", "a\nb", "b\na", True),
    "a line of tasks twice": ("$ windlass run", "a\na", "a\nb", False),
    "more of tasks": ("$ windlass run", "a", "b\na", False),
    "more of tasks, left out": ("$ windlass run", "…\na", "b\na", True),
    "another time": ("$ windlass run", "09:41:12.000  a  is there", "10:02:03.456  a  is there", True),
    "another address": ("$ windlass run", "a | b-0.c:2222,b-1.c:2222", "a | 127.0.0.1:33,127.0.0.1:34", True),
    "another duration": ("$ windlass why", "ended in 2 s (5 s ago)", "ended in 1 min 3 s (1 min ago)", True),
    "another duration of a plan": ("$ windlass plan", "ended in 2 s", "ended in 3 s", False),
    "another width": ("$ windlass list", "a  3s  b", "a    12s  b", True),
    "another code": ("$ windlass why", "worker-1 exited with code 1", "worker-1 exited with code 2", False),
    "another number": ("$ windlass run", "a | task 1 of 3", "a | task 2 of 3", False),
}


@pytest.mark.parametrize(("line", "said", "printed", "is_the_same"), SAME.values(), ids=SAME.keys())
def test_normalized_lines_are_equal(line: str, said: str, printed: str, *, is_the_same: bool) -> None:
    (typed,) = pages.commands([line, *said.splitlines()])
    assert (pages.difference(typed, printed) == "") is is_the_same


def test_page_is_parsed_into_files_and_commands() -> None:
    page = (
        "`a.sh`:\n\n```sh\necho 1\n```\n\n```sh\nkubectl get pods\n```\n\n"
        "```console\n$ sh a.sh \\\n    --twice\n1\n$ true\n```\n"
    )
    assert list(pages.steps(page)) == [
        pages.Shown("a.sh", "echo 1\n"),
        pages.Typed("sh a.sh \\\n    --twice", ("1",)),
        pages.Typed("true", ()),
    ]


BLOCKS = {
    "output without a mark": ("```text\na\n```\n", ["no run compares this output: a"]),
    "no language": ("```\na\n```\n", ["no run compares this output: a"]),
    "indented output": ("x\n\n    windlass list\n    NAME  STATE\n", ["not a command: windlass list"]),
    "indented results": ("x\n\n    loss=0.31 accuracy=0.92\n", ["not a command: loss=0.31 accuracy=0.92"]),
    "indented assignment": ("x\n\n    address=$(kubectl get service x)\n", []),
    "output among commands": ("```sh\nls\n```\n", ["not a command: ls"]),
    "console without a command": ("```console\na\n```\n", ["no command: a"]),
    "unknown reason": ("<!-- not run: later -->\n```text\na\n```\n", ["unknown reason: later"]),
    "known reason": ("<!-- not run: needs a GPU -->\n```text\na\n```\n", []),
    "no such test": (
        "<!-- compared by tests/docs/test_links.py::test_nothing -->\n```text\na\n```\n",
        ["there is no test tests/docs/test_links.py::test_nothing"],
    ),
    "on a terminal": ("<!-- on a terminal: windlass run job.yaml -->\n```text\na\n```\n", []),
    "console": ("```console\n$ windlass list\na\n```\n", []),
    "commands": ("x\n\n    A=1 windlass list   # more\n\n    kubectl get pods \\\n      --watch\n", []),
    "a file": ("`a.csv`:\n\n```text\n1\n```\n", []),
}


@pytest.mark.parametrize(("page", "expected"), BLOCKS.values(), ids=BLOCKS)
def test_unexplained_blocks_are_found(page: str, expected: list[str]) -> None:
    assert pages.unexplained(page) == expected


# Pages


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_every_output_block_is_compared_or_has_a_reason(path: Path) -> None:
    text = path.read_text()
    assert text.startswith(GENERATED) or pages.unexplained(text) == []


@pytest.mark.parametrize("path", WITHOUT_PODS, ids=_name)
def test_commands_print_what_the_page_shows(path: Path) -> None:
    pages.assert_page_matches(path)
