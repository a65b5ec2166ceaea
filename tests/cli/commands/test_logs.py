"""`windlass logs`: the format of lines, and invalid arguments."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import terminals
from click.testing import CliRunner
from operated import jobs
from scripted_cluster import Place, ScriptedCluster

from windlass.cli.commands import logs
from windlass.cli.main import main
from windlass.cli.terminal import colours
from windlass.client.logs.lines import Line
from windlass.client.tasks import TaskSelector


@pytest.fixture(scope="module")
def place(world: ScriptedCluster) -> Place:
    place = world.new_scripted_place()
    roles = (jobs.role("ps", 1, jobs.SUCCEEDS), jobs.role("worker", 2, jobs.SUCCEEDS))
    place.submit(jobs.framework("digits", *roles, completedPods="Keep"))
    place.wait_for_completed("digits")
    place.write("digits-ps-0", b"\x1b[1mbold\xff\x1b[0m\n", at=1)
    place.write("digits-worker-1", "no end", at=2)
    return place


TASKS = ("ps-0", "worker-0", "worker-1")
BOLD = b"\x1b[1mbold\xff\x1b[0m"
FORMS = {
    "all": ((), b"ps-0     | " + BOLD + b"\nworker-1 | no end\n"),
    "one": (("ps-0",), BOLD + b"\n"),
    "incomplete-line": (("worker-1",), b"no end"),
    "a-role": (("worker",), b"worker-1 | no end\n"),
    "times": (("ps-0", "--timestamps"), b"2026-01-01T00:00:01.000000000Z " + BOLD + b"\n"),
    "timestamps": (
        ("worker", "--timestamps"),
        b"worker-1 | 2026-01-01T00:00:02.000000000Z no end\n",
    ),
    "followed": (("-f", "worker-1"), b"no end"),
    "tail": (("--tail", "0"), b""),
    "since": (("--since", "5m"), b""),
    "in-colour": (
        ("worker", "--color", "always"),
        colours.colour("worker-1 |", colours.assign(TASKS)["worker-1"]).encode() + b" no end\n",
    ),
}


@pytest.mark.parametrize(("arguments", "written"), FORMS.values(), ids=FORMS.keys())
def test_text_format(place: Place, arguments: tuple[str, ...], written: bytes) -> None:
    result = place.windlass("logs", "digits", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout_bytes == written


HOSTILE = "\x1b]0;title\x07\x1b[2J\x1b[31mred\x9b2J\u202e!\n".encode()


def test_terminal_gets_only_colours(world: ScriptedCluster, tmp_path: Path) -> None:
    place = world.new_scripted_place()
    place.submit(jobs.framework("hostile", jobs.role("worker", 1, jobs.SUCCEEDS), completedPods="Keep"))
    place.wait_for_completed("hostile")
    place.write("hostile-worker-0", HOSTILE, at=1)
    command = (sys.executable, "-m", "windlass.cli.main", "logs", *place.options, "hostile")
    with terminals.running(command, {**os.environ, "NO_COLOR": "1"}, tmp_path) as shown:
        assert shown.done() == 0
    assert shown.terminal.written == b"worker-0 | \x1b[31mred!\x1b[0m\r\n"
    assert place.windlass("logs", "hostile").stdout_bytes == b"worker-0 | " + HOSTILE
    encoded = place.windlass("logs", "hostile", "--output", "json").stdout
    assert "red\\u009b2J\\u202e!" in encoded


def test_label_on_a_terminal_has_no_control_sequences() -> None:
    """The names of containers come from the server."""
    line = Line("worker-0", "main\x1b[2J", 0, b"text", label="worker-0 main\x1b[2J\u202e")
    for is_terminal in (True, False):
        shown = logs._text_formatter(TaskSelector(), 0, {}, has_timestamps=False, is_terminal=is_terminal)(
            line
        )
        assert (b"\x1b" in shown) is not is_terminal


def test_json_format(place: Place) -> None:
    result = place.windlass("logs", "digits", "--output", "json")
    first, second = map(json.loads, result.stdout.splitlines())
    assert first["line"] == "\x1b[1mbold\ufffd\x1b[0m"
    assert second == {
        "time": "2026-01-01T00:00:02.000000000Z",
        "task": "worker-1",
        "attempt": 0,
        "container": "main",
        "line": "no end",
        "partial": True,
    }


MESSAGES = {
    "no-such-job": (("digit",), 1, 'Did you mean "digits"?'),
    "no-such-task": (
        ("digits", "worker-5"),
        1,
        "digits has no task worker-5; its tasks are ps-0, worker-0..1",
    ),
    "no-previous": (("digits", "--previous"), 1, "digits has no previous run"),
}


@pytest.mark.parametrize(("arguments", "code", "words"), MESSAGES.values(), ids=MESSAGES.keys())
def test_messages_go_to_stderr(place: Place, arguments: tuple[str, ...], code: int, words: str) -> None:
    result = place.windlass("logs", *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    (line,) = result.stderr.splitlines()
    assert words in line


USAGE = {
    "both": (("a", "-f", "--previous"), "mutually exclusive"),
    "since": (("a", "--since", "soon"), "a duration such as 90s"),
    "since-now": (("a", "--since", "0s"), "more than 0"),
    "tail": (("a", "--tail", "-1"), "--tail"),
    "two-tasks": (("a/b-0", "c-1"), "expected one task"),
    "task": (("a", "worker_1"), "expected a task, e.g. worker-1"),
}


@pytest.mark.parametrize(("arguments", "words"), USAGE.values(), ids=USAGE.keys())
def test_invalid_usage_is_rejected(arguments: tuple[str, ...], words: str) -> None:
    result = CliRunner().invoke(main, ["logs", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


def test_closed_pipe_ends_the_command(place: Place) -> None:
    for at in range(5000):
        place.write("digits-worker-0", f"{at} {'x' * 100}\n", at=10 + at)
    command = [sys.executable, "-m", "windlass.cli.main", "logs", *place.options, "digits"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # noqa: S603
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"ps-0     | ")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


COLOURS = {
    "a-terminal": ("auto", True, {}, True),
    "no-terminal": ("auto", False, {}, False),
    "no-color": ("auto", True, {"NO_COLOR": "1"}, False),
    "empty-no-color": ("auto", True, {"NO_COLOR": ""}, True),
    "dumb": ("auto", True, {"TERM": "dumb"}, False),
    "always": ("always", False, {"NO_COLOR": "1"}, True),
    "never": ("never", True, {}, False),
}


@pytest.mark.parametrize(
    ("choice", "is_terminal", "environment", "expected"), COLOURS.values(), ids=COLOURS.keys()
)
def test_colours_are_enabled_on_a_terminal(
    choice: str, is_terminal: bool, environment: dict[str, str], expected: bool
) -> None:
    assert colours.is_enabled(choice, is_terminal=is_terminal, environment=environment) == expected


def test_each_task_has_a_colour() -> None:
    tasks = tuple(f"worker-{number}" for number in range(30))
    found = colours.assign(tasks)
    assert found.keys() == set(tasks)
    assert all(found[one] != found[next_one] for one, next_one in itertools.pairwise(tasks))


def test_text_without_a_colour_is_unchanged() -> None:
    assert colours.colour("worker-1 |", None) == "worker-1 |"
