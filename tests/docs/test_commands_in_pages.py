"""Every `windlass …` command on a page is valid. Nothing is run."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from windlass.cli import commands
from windlass.cli.main import COMMANDS, SECTIONS, main

TOP = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(TOP)
    for pattern in (
        "README.md",
        "docs/*.md",
        "docs/coming-from/*.md",
        "docs/migrating/*.md",
        "examples/README.md",
        "examples/*/README.md",
        "examples/next.txt",
    )
    for path in TOP.glob(pattern)
)
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`(windlass [^`]+)`")
_SUBSTITUTED = re.compile(r"\$\((windlass [^()]*)\)")
_OPERATOR = re.compile(r"[|&;()<>]+")
_SHELLS = ("", "sh", "bash", "console", "text")


# Parsing a page


def lines_to_type(page: str) -> Iterator[str]:
    """Yield the command lines of code blocks; a continued line counts as one."""
    blocks = [text for language, text in _FENCED.findall(page) if language in _SHELLS]
    indented = [line for line in _FENCED.sub("", page).splitlines() if line.startswith("  ")]
    text = "\n".join((*blocks, *indented)).replace("\\\n", " ")
    yield from (line.strip() for line in text.splitlines())


def typed(line: str) -> Iterator[tuple[str, ...]]:
    """Yield the words after `windlass`, for each call in the line."""
    for inner in _SUBSTITUTED.findall(line):
        yield from typed(inner)
    is_output = re.match(r"^[\w/-]+-[0-9]+ +\| windlass ", line) is not None
    if is_output or not re.search(r"(^|[\s|/])windlass(\s|$)", line):
        return
    try:
        words = list(_words(line))
    except ValueError:  # prose with an apostrophe
        return
    command: list[str] = []
    for word in (*words, ";"):
        is_the_end = _OPERATOR.fullmatch(word) is not None
        if not is_the_end:
            command.append(word)
            continue
        yield from _call(command)
        command = ["<"] if "<" in word or ">" in word else []


def _words(line: str) -> Iterator[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    return iter(lexer)


def _call(command: Sequence[str]) -> Iterator[tuple[str, ...]]:
    if command and Path(command[0]).name == "windlass":
        yield tuple(command[1:])


def complaint(words: Sequence[str], *, may_be_a_fragment: bool = False) -> str:
    """Return the error of the command line; empty if it is valid. Incomplete commands in prose are accepted."""
    command: click.Command = main
    rest = [word for word in words if word not in ("--debug", "--help", "-h")]
    while isinstance(command, click.Group):
        if not rest:
            return ""
        found = command.get_command(click.Context(command), rest[0])
        if found is None:
            return f"there is no command {rest[0]}"
        command, rest = found, rest[1:]
    try:
        command.make_context("windlass", rest)
    except click.MissingParameter as missing:
        return "" if may_be_a_fragment else missing.format_message()
    except click.UsageError as error:
        message = error.format_message()
        is_cut_short = may_be_a_fragment and "requires an argument" in message
        is_about_this_machine = "does not exist" in message
        return "" if is_cut_short or is_about_this_machine else message
    return ""


LINES = {
    "windlass list": [("list",)],
    "windlass scale digits worker=4   # more": [("scale", "digits", "worker=4")],
    ".venv/bin/windlass install --apply": [("install", "--apply")],
    'eval "$(windlass local up)" && windlass list': [("local", "up"), ("list",)],
    "tar c data | windlass exec -i digits/worker-1 -- tar x": [
        ("exec", "-i", "digits/worker-1", "--", "tar", "x")
    ],
    "windlass submit - < job.yaml": [("submit", "-")],
    "windlass plan job.yaml | jq .code": [("plan", "job.yaml")],
    "worker-0 | windlass barrier: all are there": [],
    "echo 'eval \"$(windlass completion bash)\"' >> ~/.bashrc": [("completion", "bash")],
    "windlass run --inject 'kill ps-0 after 1m' job.yaml": [
        ("run", "--inject", "kill ps-0 after 1m", "job.yaml")
    ],
    "from windlass import Client": [],
}


@pytest.mark.parametrize(("line", "expected"), LINES.items(), ids=LINES.keys())
def test_calls_in_a_line(line: str, expected: list[tuple[str, ...]]) -> None:
    assert list(typed(line)) == expected


WRONG = {
    "no such command": ("upstart",),
    "no such option": ("run", "--paramater-servers", "2", "--", "python", "train.py"),
    "a word too many": ("run", "python", "train.py"),
    "a word is missing": ("exec",),
    "no such choice": ("list", "-o", "yaml"),
    "no such command of a group": ("local", "uo"),
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG.keys())
def test_invalid_commands_are_detected(words: tuple[str, ...]) -> None:
    assert complaint(words)


# The pages


@pytest.mark.parametrize("page", PAGES, ids=map(str, PAGES))
def test_commands_of_a_page_are_valid(page: Path) -> None:
    text = (TOP / page).read_text()
    wrong = [
        f"{line}: {fault}"
        for line in lines_to_type(text)
        for words in typed(line)
        if not _is_a_pattern(words) and (fault := complaint(words))
    ]
    wrong += [
        f"{span}: {fault}"
        for span in _SPAN.findall(text)
        for words in typed(span)
        if not _is_a_pattern(words) and (fault := complaint(words, may_be_a_fragment=True))
    ]
    assert wrong == []


def _is_a_pattern(words: Sequence[str]) -> bool:
    """Return whether it is a pattern: windlass run … | head, windlass --debug COMMAND, windlass scale [OPTIONS]
    NAME."""
    return any("…" in word or word.startswith("[") or word == "COMMAND" for word in words)


def test_pages_contain_commands() -> None:
    by_page = {
        str(page): sum(1 for line in lines_to_type((TOP / page).read_text()) for _ in typed(line))
        for page in PAGES
    }
    assert by_page["README.md"] > 10
    assert by_page["examples/next.txt"] > 5
    assert by_page["docs/commands.md"] > 20
    assert by_page["docs/run.md"] > 5


def test_every_command_is_in_one_section_of_the_help() -> None:
    names = [name for section in SECTIONS.values() for name in section]
    modules = [each.stem.replace("_", "-") for each in Path(commands.__path__[0]).glob("[!_]*.py")]
    assert sorted(names) == sorted(modules)


def test_command_summaries_fit_on_a_line() -> None:
    room = 80 - 2 - max(map(len, COMMANDS)) - 2
    assert [name for name, summary in COMMANDS.items() if len(summary) > room] == []
