"""The migration pages: their commands are run and print what the pages show.

Blocks of `console` are run, from the top of a page to its end, in a folder with the examples and the files that the
page shows. Commands that need a cluster or TensorFlow are in other blocks and not run.
"""

import functools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

TOP = Path(__file__).parents[2]
DOCS = TOP / "docs"
FOLDER = DOCS / "migrating"
PAGES = sorted(path.name for path in FOLDER.glob("*.md"))
WAYS = [name for name in PAGES if name != "README.md"]
SECONDS = 600.0
"""Timeout of a command."""

_BLOCK = re.compile(
    r"(?:^`(?P<name>[\w./-]+)`:\n\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_ANYTHING = "…"
_VARYING = re.compile(
    r"(?P<time>\d\d:\d\d:\d\d\.\d{3})|(?P<address>[a-z0-9.-]+:\d{4,5})|(?P<ip>\d+\.\d+\.\d+\.\d+)|(?P<any>…)"
)
_PATTERNS = {
    "time": r"\d\d:\d\d:\d\d\.\d{3}",
    # On a shared network pods have no names, and each port differs.
    "address": r"[a-z0-9.-]+:\d+",
    "ip": r"[0-9.]+",
    "any": ".*",
}
_PROBE = "from windlass.localcluster.sandbox import capability_probe; print(capability_probe.probe().reason, end='')"


class Shown(msgspec.Struct, frozen=True):
    """A file that the page shows."""

    name: str
    text: str


class Typed(msgspec.Struct, frozen=True):
    """A command and its output on the page."""

    line: str
    expected: tuple[str, ...]

    @property
    def runs_pods(self) -> bool:
        return "windlass run" in self.line


# Parsing a page


def steps(page: str) -> Iterator[Shown | Typed]:
    for block in _BLOCK.finditer(page):
        if block["language"] == "console":
            yield from _commands(block["text"].splitlines())
        elif block["name"]:
            yield Shown(block["name"], block["text"])


def _commands(lines: Sequence[str]) -> Iterator[Typed]:
    starts = [at for at, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, (*starts[1:], len(lines)), strict=True):
        last = next(at for at in range(start, end) if not lines[at].endswith("\\"))
        typed = "\n".join(lines[start : last + 1])
        yield Typed(typed.removeprefix("$ "), tuple(lines[last + 1 : end]))


# Comparing output


def difference(typed: Typed, printed: str) -> str:
    """Return the fence of a block; empty if there is none."""
    lines = printed.splitlines()
    fits = _is_there if typed.runs_pods else _is_the_same
    if fits(typed.expected, lines):
        return ""
    return "\n".join(["the page says", *typed.expected, "", f"but {typed.line} says", *lines])


def _is_the_same(expected: Sequence[str], lines: Sequence[str]) -> bool:
    patterns = (r"(?:.*\n)*?" if line == _ANYTHING else _pattern(line) + "\n" for line in expected)
    return re.fullmatch("".join(patterns), "".join(line + "\n" for line in lines)) is not None


def _is_there(expected: Sequence[str], lines: Sequence[str]) -> bool:
    """Compare lines in any order, because tasks run concurrently."""
    rest = list(lines)
    for line in expected:
        if line == _ANYTHING:
            continue
        found = next((each for each in rest if re.fullmatch(_pattern(line), each)), None)
        if found is None:
            return False
        rest.remove(found)
    return not rest or _ANYTHING in expected


def _pattern(line: str) -> str:
    """Replace times and addresses, which differ in each run."""
    parts, end = [], 0
    for found in _VARYING.finditer(line):
        parts += [re.escape(line[end : found.start()]), _PATTERNS[found.lastgroup or "any"]]
        end = found.end()
    return "".join((*parts, re.escape(line[end:])))


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
    "another number": ("$ windlass run", "a | task 1 of 3", "a | task 2 of 3", False),
}


@pytest.mark.parametrize(("line", "said", "printed", "is_the_same"), SAME.values(), ids=SAME.keys())
def test_normalized_lines_are_equal(line: str, said: str, printed: str, *, is_the_same: bool) -> None:
    (typed,) = _commands([line, *said.splitlines()])
    assert (difference(typed, printed) == "") is is_the_same


def test_page_is_parsed_into_files_and_commands() -> None:
    page = (
        "`a.sh`:\n\n```sh\necho 1\n```\n\n```sh\nkubectl get pods\n```\n\n"
        "```console\n$ sh a.sh \\\n    --twice\n1\n$ true\n```\n"
    )
    assert list(steps(page)) == [
        Shown("a.sh", "echo 1\n"),
        Typed("sh a.sh \\\n    --twice", ("1",)),
        Typed("true", ()),
    ]


# Pages


@functools.cache
def why_no_pods() -> str:
    """Return why pods have no mounts on this machine, from a process with one thread."""
    command = [sys.executable, "-c", _PROBE]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603


def printed_by(line: str, folder: Path) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    own = {
        "HOME": str(folder / "home"),
        "XDG_STATE_HOME": str(folder / "home" / "state"),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", line],
        cwd=folder,
        env={**kept, **own},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    return done.stdout.decode()


@pytest.mark.parametrize("way", WAYS)
def test_commands_print_what_the_page_shows(way: str) -> None:
    with tempfile.TemporaryDirectory(prefix="windlass-page-") as made:
        folder = Path(made)
        (folder / "home").mkdir()
        (folder / "examples").symlink_to(TOP / "examples")
        for step in steps((FOLDER / way).read_text()):
            match step:
                case Shown():
                    (folder / step.name).parent.mkdir(parents=True, exist_ok=True)
                    (folder / step.name).write_text(step.text)
                case Typed() if step.runs_pods and why_no_pods():
                    continue
                case Typed():
                    found = difference(step, printed_by(step.line, folder))
                    assert not found, found


@pytest.mark.parametrize("way", WAYS)
def test_every_page_names_the_old_and_the_new_command(way: str) -> None:
    page = (FOLDER / way).read_text()
    assert "**Before**" in page
    assert "**Now**" in page
    assert any(isinstance(step, Typed) for step in steps(page))


@pytest.mark.parametrize("page", PAGES)
def test_links_have_targets(page: str) -> None:
    links = [link for link in _LINK.findall((FOLDER / page).read_text()) if "://" not in link]
    assert links
    assert [link for link in links if not _leads_somewhere(link, page)] == []


def _leads_somewhere(link: str, page: str) -> bool:
    path, _, heading = link.partition("#")
    target = FOLDER / (path or page)
    return target.exists() and (not heading or heading in _headings(target.read_text()))


def _headings(page: str) -> set[str]:
    """Return the anchors of the headings."""
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in _HEADING.findall(page)}


def test_every_page_is_in_the_index() -> None:
    index = (FOLDER / "README.md").read_text()
    assert [way for way in WAYS if f"]({way})" not in index] == []
