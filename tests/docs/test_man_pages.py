"""The manual pages and the completion scripts are written for all commands and are valid."""

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

import command_docs
import man_pages
from windlass import __version__
from windlass.cli.main import COMMANDS, main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    man_pages.write(folder)
    return folder


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


def options_of(command: click.Command) -> set[str]:
    own = {name for option in command_docs.options(command) for name in option.opts}
    if not isinstance(command, click.Group) or command is main:
        return own
    return own.union(*map(options_of, command.commands.values()))


def test_each_command_has_a_page_with_its_options(folder: Path) -> None:
    pages = {path.stem: path.read_text() for path in (folder / man_pages.PAGES).iterdir()}
    assert pages.keys() == {"windlass", *(f"windlass-{name}" for name in COMMANDS)}
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        bold = set(re.findall(r"\\fB(.*?)\\fR", pages[f"windlass-{name}"]))
        assert options_of(command) <= {each.replace("\\", "") for each in bold}
        assert f'"Windlass {__version__}"' in pages[f"windlass-{name}"]
        assert f".BR windlass-{name} (1)" in pages["windlass"].replace("\\-", "-")


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
def test_mandoc_finds_no_mistakes(folder: Path) -> None:
    done = run("mandoc", "-T", "lint", "-W", "warning", *sorted((folder / man_pages.PAGES).iterdir()))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_shows_a_page_without_warnings(folder: Path) -> None:
    done = run("man", "--warnings", "-E", "ascii", "-l", folder / man_pages.PAGES / "windlass-run.1")
    text = re.sub(r".\x08", "", done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert "windlass run [OPTIONS]" in text
    assert re.search(r"^ +--workers\b", text, re.MULTILINE)


@pytest.mark.parametrize("shell", man_pages.COMPLETIONS)
def test_shell_accepts_its_completion_script(folder: Path, shell: str) -> None:
    script = folder / man_pages.COMPLETIONS[shell]
    assert "_WINDLASS_COMPLETE" in script.read_text()
    if shutil.which(shell):
        assert run(shell, "-n", script).returncode == 0
