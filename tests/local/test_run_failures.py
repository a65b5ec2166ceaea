"""`windlass run` whose output fails: exit code, message, and no leftovers."""

import subprocess
from pathlib import Path

import msgspec
import pytest
from pods import commands, machine
from pods.commands import Home, framework, role

ENDLESS = "while true; do echo tick; sleep 0.1; done"


class Output(msgspec.Struct, frozen=True):
    options: tuple[str, ...]
    first: bytes
    """A part of a line that is printed while the job runs."""


OUTPUTS = {
    "lines": Output((), b"worker-0 | tick"),
    "logs": Output(("--logs",), b"worker-0 | tick"),
    "without-logs": Output(("--no-logs",), b"submitted"),
    "json": Output(("--output", "json"), b'"line":"tick"'),
}


@pytest.fixture(params=OUTPUTS.values(), ids=tuple(OUTPUTS))
def output(request: pytest.FixtureRequest) -> Output:
    found: Output = request.param
    return found


def arguments(home: Home, output: Output) -> tuple[str | Path, ...]:
    return ("run", *output.options, home.written(framework(role(home.container(ENDLESS)))))


def test_closed_reader_ends_the_run(home: Home, output: Output) -> None:
    """As with `| head -1`."""
    process = home.started(
        arguments(home, output),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        if output.first in line:
            break
    process.stdout.close()
    assert process.wait(commands.SECONDS) == 141
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert not home.runs
    assert not machine.marked(home.mark)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
def test_full_disk_is_reported(home: Home, output: Output) -> None:
    with Path("/dev/full").open("wb") as full:
        process = home.started(
            arguments(home, output), stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE
        )
        _, said = process.communicate(timeout=commands.SECONDS)
    assert process.returncode == 1
    assert said == b"windlass: no space left on device. Free some space and run the command again.\n"
    assert not home.runs
    assert not machine.marked(home.mark)
