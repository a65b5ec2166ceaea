"""Text that the command line prints on a terminal."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import terminals

TITLE = "\x1b]0;title\x07"
FOLDER = f"/nowhere/a{TITLE}\x1b[2J\x9b2J\u202eb"
COMMAND = (sys.executable, "-m", "windlass.cli.main", "local", "reset", "--data-dir", FOLDER)


def test_message_on_a_terminal_has_no_control_sequences(tmp_path: Path) -> None:
    with terminals.running(COMMAND, {**os.environ, "PYTHONUTF8": "1"}, tmp_path) as shown:
        assert shown.done() == 0
    assert shown.terminal.written == b"/nowhere/ab does not exist\r\n"


ENVIRONMENTS = {
    "ASCII": {"PYTHONIOENCODING": "ascii"},
    "C locale": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "UTF-8": {"PYTHONUTF8": "1"},
}
JOB = """
name: ok
command: "echo \u202e"
image: x
roles: {worker: {tasks: 1}}
"""
COMMENT = "# \x1b]0;title\x07 \x9b2J \u202e\n"


def shown(tmp_path: Path, *arguments: str, **environment: str) -> str:
    command = (sys.executable, "-m", "windlass.cli.main", *arguments)
    with terminals.running(command, {**os.environ, **environment}, tmp_path, columns=1000) as program:
        program.done()
    return program.terminal.written.decode()


def check(text: str) -> None:
    assert text
    assert not set(re.sub(r"\x1b\[[0-9;]*m", "", text)) & set("\x1b\x07\x9b\u202e"), text


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_error_on_a_terminal_has_no_control_sequences(tmp_path: Path, environment: dict[str, str]) -> None:
    text = shown(tmp_path, "lint", FOLDER, **environment)
    assert "cannot read" in text
    check(text)


def test_bytes_that_are_not_text_are_escaped(tmp_path: Path) -> None:
    """They would form the control character U+009B on the terminal."""
    text = shown(
        tmp_path, "lint", "/nowhere/\udcc2\udc9b2J", LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="1"
    )
    assert "cannot read" in text
    check(text)


def test_traceback_on_a_terminal_has_no_control_sequences(tmp_path: Path) -> None:
    text = shown(tmp_path, "--debug", "render", f"{FOLDER}.yaml", PYTHONUTF8="1")
    assert "Traceback" in text
    check(text)


@pytest.mark.parametrize("arguments", [("render", "job.yaml"), ("lint", "--fix", "-")], ids=str)
def test_contents_of_a_file_on_a_terminal_have_no_control_sequences(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "job.yaml").write_text(JOB + COMMENT if "lint" in arguments else JOB)
    command = shlex.join((sys.executable, "-m", "windlass.cli.main", *arguments))
    environment = {**os.environ, "PYTHONUTF8": "1"}
    with terminals.running(("sh", "-c", f"{command} < job.yaml"), environment, tmp_path) as program:
        program.done()
    assert b"name: ok" in program.terminal.written
    check(program.terminal.written.decode())


def test_message_in_a_pipe_keeps_its_characters(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONUTF8": "1"}
    done = subprocess.run(COMMAND, capture_output=True, cwd=tmp_path, env=environment, check=True)  # noqa: S603
    # click removes colours and cursor movements.
    assert done.stdout.decode() == f"/nowhere/a{TITLE}\x9b2J\u202eb does not exist\n"
