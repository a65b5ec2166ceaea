"""Code blocks of documentation pages: commands are run, and their output is compared with the page.

* The commands of `console` blocks are run, from the top of a page to its end, in a folder with the examples and the
  files that the page shows.
* `<!-- setup: COMMAND -->` runs a command that the page does not show.
* `<!-- on a terminal: COMMAND -->` before a `text` block runs the command until the screen shows the block.
* `<!-- compared by PATH::TEST -->` before a `text` block names the test that compares it.
* `<!-- not run: REASON -->` before a `text` block says why no test can run it; the reasons are in `REASONS`.

Other blocks contain what the user writes: files, and commands without output.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import terminals

from conformance.waiting import wait_for

TOP: Final = Path(__file__).parents[2]
Varying: TypeAlias = Mapping[str, tuple[str, str]]
SECONDS: Final = 600.0
"""Timeout of a command."""
REASONS: Final = frozenset(
    (
        "needs a GPU",
        "needs TensorFlow",
        "needs JupyterLab",
        "needs a Kubernetes cluster",
        "needs an NFS server",
        "needs TensorBoard",
        "shows a diagram",
    )
)
SOURCES: Final = frozenset(("yaml", "json", "python", "jinja", "toml", "dockerfile"))
"""Languages of blocks that users write; `sh` and indented blocks contain commands only."""
_PROGRAM = re.compile(
    r"windlass|kubectl|helm|docker|make|kind|export|source|eval|echo|tar|python3?|pip|curl|cd|vim|virtualenv|jupyter|mkdir|ray|torchx"
)

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>on a terminal|setup|compared by|not run):? (?P<about>[^\n]*?) -->\n\n?)?"
    r"(?:^`(?P<name>[\w./-]+)`:\n\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$"
    r"|^<!-- setup: (?P<setup>[^\n]*) -->$"
    r"|(?<=\n\n)(?P<indented>(?: {4}[^\n]*\n|\n(?= {4}))+)",
    re.DOTALL | re.MULTILINE,
)
_ANYTHING = "…"
_VARYING = {
    "time": (r"\d\d:\d\d:\d\d\.\d{3}", r"\d\d:\d\d:\d\d\.\d{3}"),
    # On a shared network pods have no names, and each port differs.
    "address": (r"[a-z0-9.-]+:\d{4,5}", r"[a-z0-9.-]+:\d+"),
    "home": (r"/home/ana/", r"/\S*/"),
    "ip": (r"\d+\.\d+\.\d+\.\d+", r"[0-9.]+"),
    "any": ("…", ".*"),
}
_DURATION = r"(?:\d+ h |\d+ min )*\d+ (?:s|min|h)"
_VARYING_IN_RUNS = {
    **_VARYING,
    "clock": (r"\d\d:\d\d:\d\d", r"\d\d:\d\d:\d\d"),
    "since": (r"\(\d+ (?:s|min) ago\)", rf"\((?:just now|{_DURATION} ago)\)"),
    "duration": (rf"(?:in|after) {_DURATION}\b|within 1 s", rf"(?:(?:in|after) {_DURATION}|within 1 s)"),
    "age": (r"\b\d+s\b", r"(?:\d+m)?\d+s"),
    "watch": (r"\b\d+:\d\d\b", r"\d+:\d\d"),
    "id": (r"(?<=\w-)[0-9a-f]{4}\b(?!-)", "[0-9a-f]{4}"),
    "run": (r"runs/[0-9a-f]{8}\b", r"runs/[0-9a-f]{8}"),
    "node": (r"\blaptop\b", r"[\w.-]+"),
    "bar": (r"[█░]+ +\d+%", r"\S+ +\d+%"),
    "percent": (r"\d+%", r"(?:\d+%|-)"),
    "memory": (r"\b[0-9.]+Mi\b", r"(?:[0-9.]+[KMG]i|-)"),
    "spaces": (r" {2,}", " +"),
}
_VARYING_ON_SCREENS = {"value": (r"loss=[0-9.]+", r"loss=[0-9.]+"), **_VARYING_IN_RUNS}
_CHANGES_OUTPUT = ("KUBECONFIG", "XDG_STATE_HOME", "COLUMNS", "LINES", "NO_COLOR")
_NOT_RUNNING = re.compile(r"windlass (?:convert|plan|lint|render|template|init|upload)\b")


class Shown(msgspec.Struct, frozen=True):
    """A file that the page shows."""

    name: str
    text: str


class Typed(msgspec.Struct, frozen=True):
    """A command and its output on the page; `is_setup`: the page does not show it."""

    line: str
    expected: tuple[str, ...] = ()
    is_setup: bool = False

    @property
    def runs_pods(self) -> bool:
        return "windlass run" in self.line


class Screen(msgspec.Struct, frozen=True):
    """A command and what it shows on a terminal at some time."""

    line: str
    expected: tuple[str, ...]


Step: TypeAlias = Shown | Typed | Screen


# Parsing a page


def steps(page: str) -> Iterator[Step]:
    for block in _BLOCK.finditer(page):
        if block["setup"] or block["mark"] == "setup":
            yield Typed(block["setup"] or block["about"], is_setup=True)
        if block["mark"] == "on a terminal":
            yield Screen(block["about"], tuple(block["text"].splitlines()))
        elif block["language"] == "console":
            yield from commands(block["text"].splitlines())
        elif block["name"]:
            yield Shown(block["name"], block["text"])


def commands(lines: Sequence[str]) -> Iterator[Typed]:
    starts = [at for at, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, (*starts[1:], len(lines)), strict=True):
        last = next(at for at in range(start, end) if not lines[at].endswith("\\"))
        typed = "\n".join(lines[start : last + 1])
        yield Typed(typed.removeprefix("$ "), tuple(lines[last + 1 : end]))


def runs_pods(page: str) -> bool:
    """Return whether a command of the page starts pods."""
    lines = [each.line for each in steps(page) if not isinstance(each, Shown)]
    return any("windlass run" in line or "windlass local up" in line for line in lines)


def unexplained(page: str) -> list[str]:
    """Return the output blocks of a page that no run and no reason explains, and blocks that mix input and output."""
    return [fault for block in _BLOCK.finditer(page) if (fault := _fault_of(block))]


def _fault_of(block: "re.Match[str]") -> str:
    first = next(iter((block["text"] or block["indented"] or "").strip().splitlines()), "")
    match block["language"], block["mark"]:
        case None, _:
            return "" if all(map(is_input, _joined(block["indented"] or ""))) else f"not a command: {first}"
        case "sh", _:
            return (
                ""
                if block["name"] or all(map(is_input, _joined(block["text"])))
                else f"not a command: {first}"
            )
        case "console", _:
            return "" if first.startswith("$ ") else f"no command: {first}"
        case "text", "on a terminal":
            return ""
        case "text", "compared by":
            return _fault_of_test(block["about"])
        case "text", "not run":
            return "" if block["about"] in REASONS else f"unknown reason: {block['about']}"
        case language, _:
            return "" if language in SOURCES or block["name"] else f"no run compares this output: {first}"


def _fault_of_test(name: str) -> str:
    path, _, test = name.partition("::")
    file = TOP / path
    is_there = file.is_file() and f"def {test}(" in file.read_text()
    return "" if is_there else f"there is no test {name}"


def _joined(text: str) -> list[str]:
    return text.replace("\\\n", " ").splitlines()


def is_input(line: str) -> bool:
    """Return whether a line is a command or a comment; variables may be assigned before the command."""
    line = line.strip()
    is_substitution = re.match(r"\w+=\$\(", line) is not None
    if not line or line.startswith("#") or is_substitution:
        return True
    words = [word for word in line.split() if not re.match(r"[A-Za-z_]\w*=", word)]
    return bool(words) and _PROGRAM.fullmatch(Path(words[0]).name) is not None


# Comparing output


def difference(typed: Typed, printed: str) -> str:
    """Return both texts if they differ, else an empty string."""
    lines = printed.splitlines()
    fits = _is_there if typed.runs_pods else _is_the_same
    varying = _VARYING if _NOT_RUNNING.search(typed.line) else _VARYING_IN_RUNS
    if fits(typed.expected, lines, varying):
        return ""
    return "\n".join(["the page says", *typed.expected, "", f"but {typed.line} says", *lines])


def shows(screen: Screen, lines: Sequence[str]) -> bool:
    """Return whether these lines are on the screen, one after the other."""
    size = len(screen.expected)
    return any(
        all(map(_matches, screen.expected, lines[at : at + size])) for at in range(len(lines) - size + 1)
    )


def _matches(expected: str, line: str) -> bool:
    return re.fullmatch(_pattern(expected, _VARYING_ON_SCREENS), line.rstrip()) is not None


def _is_the_same(expected: Sequence[str], lines: Sequence[str], varying: Varying) -> bool:
    patterns = (r"(?:.*\n)*?" if line == _ANYTHING else _pattern(line, varying) + " *\n" for line in expected)
    return re.fullmatch("".join(patterns), "".join(line + "\n" for line in lines)) is not None


def _is_there(expected: Sequence[str], lines: Sequence[str], varying: Varying) -> bool:
    """Compare lines in any order, because tasks run concurrently."""
    rest = list(lines)
    for line in expected:
        if line == _ANYTHING:
            continue
        found = next((each for each in rest if re.fullmatch(_pattern(line, varying) + " *", each)), None)
        if found is None:
            return False
        rest.remove(found)
    return not rest or _ANYTHING in expected


def _pattern(line: str, varying: Varying) -> str:
    """Replace times, addresses and the like, which differ in each run."""
    pieces = re.compile("|".join(f"(?P<{name}>{shown})" for name, (shown, _) in varying.items()))
    parts, end = [], 0
    for found in pieces.finditer(line):
        parts += [re.escape(line[end : found.start()]), varying[found.lastgroup or "any"][1]]
        end = found.end()
    return "".join((*parts, re.escape(line[end:])))


# Running a page


def assert_page_matches(path: Path, *, has_pods: bool = True) -> None:
    """Run the commands of a page and compare their output; without pods, skip those that start pods."""
    text = path.read_text()
    with tempfile.TemporaryDirectory(prefix="windlass-page-") as made:
        folder = Path(made)
        (folder / "home").mkdir()
        (folder / "examples").symlink_to(TOP / "examples")
        try:
            for step in steps(text):
                _check_step(step, folder, has_pods=has_pods)
        finally:
            if "windlass local up" in text or "windlass run --local" in text:
                _printed_by("windlass local reset --yes", folder)


def _check_step(step: Step, folder: Path, *, has_pods: bool) -> None:
    match step:
        case Shown():
            (folder / step.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / step.name).write_text(step.text)
        case Screen() if has_pods:
            _check_screen(step, folder)
        case Typed() if has_pods or not step.runs_pods:
            code, printed = _printed_by(step.line, folder)
            found = "" if step.is_setup else difference(step, printed)
            assert not found, found
            assert code == 0 or not step.is_setup, f"{step.line} exited with code {code}:\n{printed}"
        case _:
            pass


def _check_screen(screen: Screen, folder: Path) -> None:
    environment = _environment(folder)
    with terminals.running(["/bin/sh", "-c", f"exec {screen.line}"], environment, folder, 110, 30) as shown:
        seen: list[str] = []

        def look() -> bool:
            seen[:] = shown.terminal.lines
            return shows(screen, seen)

        try:
            wait_for(f"the screen of {screen.line}", look)
        except AssertionError as error:
            error.add_note("\n".join(("expected", *screen.expected, "", "but it shows", *seen)))
            raise
        finally:
            shown.process.send_signal(signal.SIGINT)
        shown.done()


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _CHANGES_OUTPUT}
    own = {
        "HOME": str(folder / "home"),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "LC_ALL": "C.UTF-8",
    }
    return {**kept, **own}


def _printed_by(line: str, folder: Path) -> tuple[int, str]:
    done = subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", line],
        cwd=folder,
        env=_environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout.decode()
