"""Every error is one message and a stable exit code. --debug shows the traceback."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import msgspec
import pytest

from windlass.cli import errors, main
from windlass.cli.errors import CommandError
from windlass.runner import exit_codes

WINDLASS = str(Path(sys.executable).with_name("windlass"))
HELLO = str(Path(__file__).parents[2] / "examples" / "hello" / "framework.yaml")
COMMANDS = {"help": ["--help"], "help of a command": ["run", "--help"], "lint": ["lint", HELLO]}


class ErrorCase(msgspec.Struct, frozen=True):
    error: BaseException
    code: int
    said: str


ERROR_CASES = {
    "ours": ErrorCase(CommandError("there is no job x", 7), 7, "windlass: there is no job x\n"),
    "full disk": ErrorCase(
        OSError(errno.ENOSPC, "No space left on device", "/data/store"),
        exit_codes.FAILED,
        "windlass: no space left on device: /data/store. Free some space and run the command again.\n",
    ),
    "another of the system": ErrorCase(
        PermissionError(errno.EACCES, "Permission denied", "/data"),
        exit_codes.FAILED,
        "windlass: /data: Permission denied\n",
    ),
    "usage": ErrorCase(
        click.UsageError("found 1, expected 2"), exit_codes.USAGE, "Error: found 1, expected 2\n"
    ),
    "Ctrl-C": ErrorCase(KeyboardInterrupt(), exit_codes.INTERRUPTED, ""),
}


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> type:
    """A command that raises the given exception."""

    class Failing:
        error: BaseException = ValueError("a fault")

        @classmethod
        def run(cls, *options: str) -> int | str | None:
            with pytest.raises(SystemExit) as left:
                main.main.main([*options, "fail"], prog_name="windlass")
            return left.value.code

        @staticmethod
        @click.command()
        def fail() -> None:
            raise Failing.error

    monkeypatch.setitem(sys.modules, "windlass.cli.commands.fail", Failing)
    monkeypatch.setitem(main.COMMANDS, "fail", "Fail.")
    return Failing


@pytest.mark.parametrize("case", ERROR_CASES.values(), ids=ERROR_CASES.keys())
def test_error_is_one_message(fail: type, case: ErrorCase, capfd: pytest.CaptureFixture[str]) -> None:
    fail.error = case.error  # type: ignore[attr-defined]
    assert fail.run() == case.code  # type: ignore[attr-defined]
    message = capfd.readouterr().err
    assert message.endswith(case.said)
    assert "Traceback" not in message


def test_unexpected_exception_is_an_internal_error(fail: type, capfd: pytest.CaptureFixture[str]) -> None:
    assert fail.run() == exit_codes.FAILED  # type: ignore[attr-defined]
    message = capfd.readouterr().err
    assert "ValueError: a fault" in message
    assert "windlass --debug" in message
    assert "Traceback" not in message


def test_debug_shows_the_traceback(fail: type, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main.main(["--debug", "fail"], prog_name="windlass")
    assert ended.value.code == exit_codes.FAILED
    shown = capfd.readouterr().err
    assert shown.startswith("Traceback")
    assert "ValueError: a fault" in shown


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS.keys())
def test_closed_pipe_ends_the_command(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([WINDLASS, *arguments], stdout=writing, stderr=subprocess.PIPE)  # noqa: S603
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (exit_codes.CLOSED_PIPE, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS.keys())
def test_full_disk_is_reported(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([WINDLASS, *arguments], stdout=full, stderr=subprocess.PIPE)  # noqa: S603
    assert done.returncode == exit_codes.FAILED
    assert (
        done.stderr.decode()
        == "windlass: no space left on device. Free some space and run the command again.\n"
    )


def test_exit_codes_are_stable() -> None:
    """Scripts depend on them."""
    codes = {
        name: value
        for name, value in vars(exit_codes).items()
        if name.isupper() and isinstance(value, int) and not isinstance(value, bool)
    }
    assert codes == {
        "SUCCESS": 0,
        "FAILED": 1,
        "USAGE": 2,
        "TIMED_OUT": 124,
        "OTHER_CODE": 125,
        "INTERRUPTED": 128 + signal.SIGINT,
        "CLOSED_PIPE": 128 + signal.SIGPIPE,
    }


def test_debug_is_an_option_of_the_main_command() -> None:
    assert errors.DEBUG in [name for option in main.main.params for name in option.opts]
