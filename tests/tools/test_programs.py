"""Server programs: readiness, error messages, and that none outlives this process."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.tools.lifeline import Lifeline

import programs

TOOLS = Path(programs.__file__).parent


def shell(folder: Path, script: str) -> programs.Program:
    return programs.Program(Path("/bin/sh"), ["-c", script], folder)


def test_program_runs_until_the_end_of_the_block(tmp_path: Path) -> None:
    with programs.running(shell(tmp_path, "echo ready > flag; exec sleep 1000")) as running:
        found = running.wait_until(lambda: (tmp_path / "flag").exists() or None)
        assert found
        assert running.process.poll() is None
    assert running.process.returncode == -signal.SIGKILL


FAILURES = {
    "ends": (
        "echo first; echo last words >&2; exit 3",
        programs.StartError,
        "exit code 3.*\n    first\n.*last words",
    ),
    "port": ("echo bind: address already in use; exit 1", programs.PortTakenError, "already in use"),
    "stays silent": ("exec sleep 1000", programs.StartError, "did not serve within 0 s"),
}


@pytest.mark.parametrize(("script", "kind", "message"), FAILURES.values(), ids=FAILURES.keys())
def test_failure_shows_the_log(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    kind: type[programs.StartError],
    message: str,
) -> None:
    if "sleep" in script:
        monkeypatch.setattr(programs, "LIMIT", 0.0)
    with programs.running(shell(tmp_path, script)) as running, pytest.raises(kind, match=message) as caught:
        running.wait_until(lambda: None)
    assert type(caught.value) is kind


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_program_ends_when_its_parent_is_killed(tmp_path: Path, lifeline: Lifeline) -> None:
    parent = textwrap.dedent(f"""
        import signal, sys
        from pathlib import Path
        sys.path.insert(0, {str(TOOLS)!r})
        import programs
        program = programs.Program(Path("/bin/sh"), ["-c", {lifeline.script!r}], Path({str(tmp_path)!r}))
        with programs.running(program):
            signal.pause()
    """)
    process = subprocess.Popen([sys.executable, "-c", parent])  # noqa: S603
    try:
        lifeline.wait_for_start()
    finally:
        process.kill()
        process.wait()
    lifeline.wait_for_end()


def test_free_ports_differ() -> None:
    assert len(set(programs.free_ports(4))) == 4


def test_signals_wait_until_the_end_of_the_block() -> None:
    begun = []

    def end_while_it_begins() -> None:
        with programs.signals_held():
            signal.raise_signal(signal.SIGTERM)
            begun.append("a process")

    with programs.cleaning_up_on_sigterm(), pytest.raises(SystemExit) as ended:
        end_while_it_begins()
    assert begun == ["a process"]
    assert ended.value.code == 128 + signal.SIGTERM
