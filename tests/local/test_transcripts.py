"""Transcripts of what a new user runs first, with real pods: verdicts, retries, progress bars, companions."""

import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import terminals
from pods import commands, machine
from pods.commands import Home
from terminals import Shown

from conformance.client import Json
from conformance.waiting import wait_for

FAILS = """\
import os, time
while os.environ["FC_TASK_INDEX"] == "1" and not os.path.exists(os.environ.get("GATE", "/")): time.sleep(0.1)
def train(options):
    print("step 1 loss 0.5", flush=True)
    if os.environ["FC_TASK_INDEX"] == "1":
        return options["lr"]

train({})
print("result: accuracy=0.97")
print("closing connections")
"""
ERROR = "worker-1 exited with code 1 <time>: KeyError: 'lr' (train.py:6)"
TRACEBACK = """\
  Traceback (most recent call last):
    File "<folder>/train.py", line 8, in <module>
      train({})
    File "<folder>/train.py", line 6, in train
      return options["lr"]
             ~~~~~~~^^^^^^
  KeyError: 'lr'
"""
BAR = """\
import pathlib, sys, time
print("start", flush=True)
for percent in range(100):
    sys.stderr.write(f"\\r {percent}%|{'#' * (percent // 10):<10}|")
    sys.stderr.flush()
    if percent == 42:
        while not pathlib.Path(sys.argv[1]).exists():
            time.sleep(0.05)
sys.stderr.write("\\r 100%|##########|\\n")
print("result: accuracy=0.97")
"""


WAIT = "import pathlib, time\nwhile not pathlib.Path('{}').exists():\n    time.sleep(0.05)"


def job(home: Home, script: str, **fields: Json) -> Path:
    folder = home.folder / "digits"
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(script)
    return home.written(
        {
            "name": "digits",
            "code": "digits",
            "command": "python3 train.py",
            "roles": {"worker": {"tasks": 2}},
            "env": {machine.MARKER: home.mark},
            **fields,
        }
    )


def normalized(text: str, home: Home) -> str:
    """Replace everything that differs between two runs."""
    for pattern, name in (
        (re.escape(str(home.folder / "digits")), "<folder>"),
        (r"(after \d+ s|within 1 s)(?= ?(:|\)|\(|$|\n))", "<time>"),
        (r"in \d+ s", "in <seconds>"),
        (r"\d\d:\d\d:\d\d\.\d{3}", "<clock>"),
        (r"digits-[0-9a-f]{4}", "digits-<id>"),
        (r"(scheduled to|running at) \S+", r"\1 <place>"),
        (r"\(\d+ s ago\)|\(\d+ min \d+ s ago\)", "(<ago>)"),
    ):
        text = re.sub(pattern, name, text)
    return text


@contextmanager
def on_terminal(home: Home, *arguments: str | Path, columns: int = 110) -> Iterator[Shown]:
    environment = {
        **home.level.surroundings(home.folder),
        "HOME": str(home.folder),
        "XDG_STATE_HOME": str(home.state.parent),
        "PYTHONUTF8": "1",
        machine.MARKER: home.mark,
    }
    command = home.level.command("-m", "windlass.cli.main", "run", *map(str, arguments))
    with terminals.running(command, environment, home.folder, columns, 24) as shown:
        yield shown


# Verdicts


def test_last_lines_of_a_failed_run_name_the_error_and_the_output(home: Home) -> None:
    done = home.windlass("run", job(home, FAILS)).expect(1)
    lines = normalized(done.stdout, home).splitlines()
    assert lines[-2:] == [
        f"digits failed: {ERROR}",
        "output: ~/state/windlass/output/digits-<id>/worker-1.log",
    ]
    assert lines[0] == "<clock>  digits    submitted"
    started = lines.index("<clock>  digits    attempt started")
    assert all("running at" not in line for line in lines[:1])
    assert started > 0
    assert "PodPattern" not in done.stdout
    output = Path(done.lines[-1].removeprefix("output: ~/"))
    assert (home.folder / output).read_text().endswith("KeyError: 'lr'\n")


def test_last_lines_of_a_successful_run_name_the_roles(home: Home) -> None:
    fine = job(home, "print('result: accuracy=0.97')", roles={"ps": {"tasks": 1}, "worker": {"tasks": 2}})
    lines = normalized(home.windlass("run", fine).expect(0).stdout, home).splitlines()
    assert lines[-2:] == [
        "digits succeeded in <seconds> (1 ps, 2 workers)",
        "output: ~/state/windlass/output/digits-<id>",
    ]


def test_retry_is_one_line(home: Home) -> None:
    done = home.windlass("run", job(home, FAILS, retry={"job": 1})).expect(1)
    said = normalized(done.stdout, home).splitlines()
    about_job = [line.removeprefix("<clock>  digits    ") for line in said if "<clock>  digits" in line]
    assert [line for line in about_job if line != "submitted"] == [
        "attempt started",
        f"retrying in <seconds> (retry 1 of 1): {ERROR}",
    ]
    assert said[-2] == f"digits failed: {ERROR.replace(' <time>', ' <time> (attempt 2 of 2)')}"


def test_final_table_shows_the_result_line_and_the_verdict(home: Home, open_folder: Path) -> None:
    gate = open_folder / "gate"
    env = {machine.MARKER: home.mark, "GATE": str(gate)}
    with on_terminal(home, job(home, FAILS, env=env)) as shown:
        wait_for(
            "the other task to succeed",
            lambda: any(line.split()[:2] == ["worker-0", "succeeded"] for line in shown.terminal.lines),
        )
        gate.touch()
        assert shown.done() == 1
        lines = [line for line in normalized(shown.terminal.text, home).splitlines() if line]
        rows = {line.split()[0]: line for line in lines if line.startswith("worker-")}
        assert rows["worker-0"].split()[1] == "succeeded"
        assert rows["worker-0"].endswith("result: accuracy=0.97")
        assert rows["worker-1"].split()[1:3] == ["failed", "1"]
        assert rows["worker-1"].endswith("KeyError: 'lr'")
        assert lines[-2:] == [
            f"digits failed: {ERROR}",
            "output: ~/state/windlass/output/digits-<id>/worker-1.log",
        ]
        assert not any("exited with code" in line for line in lines[:-2]), "the failure is reported once"


def test_ctrl_c_ends_as_stopped(home: Home, open_folder: Path) -> None:
    endless = job(home, "import time\nprint('step 1', flush=True)\ntime.sleep(600)")
    with on_terminal(home, endless) as shown:
        shown.terminal.shows("2 running", "step 1")
        os.killpg(shown.process.pid, signal.SIGINT)
        assert shown.done() == 130
        lines = [line for line in shown.terminal.lines if line]
        assert re.match(r"digits +stopped ", next(line for line in lines if line.startswith("digits ")))
        assert re.fullmatch(r"digits stopped after .* s", lines[-2])


def test_commands_use_the_words_of_the_verdict(home: Home) -> None:
    with commands.local(home) as local:
        local.up().expect(0)
        cluster = ("--kubeconfig", local.status()["kubeconfig"])
        verdict = f"digits failed: {ERROR}"
        done = home.windlass("submit", job(home, FAILS), "--wait", *cluster).expect(1)
        assert normalized(done.stderr + done.stdout, home).splitlines()[-1] == verdict
        said = {
            command: normalized(home.windlass(*command.split(), *cluster).expect(0).stdout, home)
            for command in ("list", "status digits", "describe digits", "why digits", "events digits")
        }
        assert said["list"].splitlines()[1].endswith(verdict)
        for command in ("status digits", "describe digits"):
            assert said[command].splitlines()[0] == verdict
        for command in ("describe digits", "events digits"):
            assert ERROR in said[command].split("TaskFailed", 1)[1]
            assert f"attempt failed: {ERROR}" in said[command]
        first, *rest = said["why digits"].splitlines()
        assert first == f"{verdict} (<ago>)"
        assert "\n".join(rest).startswith(f"\nLast lines of worker-1 (log)\n{TRACEBACK}\nHistory\n")
        assert "PodPattern" not in "".join(said.values())
        for command in ("list", "status digits", "why digits"):
            (told,) = (home.windlass(*command.split(), "-o", "json", *cluster).expect(0).stdout,)
            assert '"verdict":"failed"' in told.replace('": "', '":"')
            assert verdict in normalized(told, home)


# Progress bars


def test_progress_bar_updates_the_table(home: Home, open_folder: Path) -> None:
    gate = open_folder / "gate"
    with on_terminal(home, job(home, BAR, command=f"python3 train.py {gate}")) as shown:
        for task in ("worker-0", "worker-1"):
            wait_for(
                f"the bar of {task}",
                lambda task=task: any(  # type: ignore[misc]
                    line.startswith(f"{task} ") and line.endswith("42%|####      |")
                    for line in shown.terminal.lines
                ),
            )
        gate.touch()
        assert shown.done() == 0
        rows = [line for line in shown.terminal.lines if line.startswith("worker-")]
        assert all(row.endswith("result: accuracy=0.97") for row in rows)


def test_logs_on_a_terminal_show_the_progress_bar_with_its_label(home: Home, open_folder: Path) -> None:
    gate = open_folder / "gate"
    with on_terminal(home, "--logs", job(home, BAR, command=f"python3 train.py {gate}")) as shown:
        bars = ["worker-0 | 42%|####      |", "worker-1 | 42%|####      |"]
        wait_for(
            "both bars at the end of the screen",
            lambda: sorted([line for line in shown.terminal.lines if line][-2:]) == bars,
        )
        gate.touch()
        assert shown.done() == 0
        for task in ("worker-0", "worker-1"):
            own = [line for line in shown.terminal.lines if line.startswith(f"{task} |")]
            complete = ["start", "100%|##########|", "result: accuracy=0.97"]
            assert [line.partition("| ")[2].strip() for line in own] == complete


def test_progress_bar_does_not_change_files_and_pipes(home: Home, open_folder: Path) -> None:
    gate = open_folder / "gate"
    gate.touch()
    states = "".join(f"\r {percent}%|{'#' * (percent // 10):<10}|" for percent in range(101))
    done = home.windlass("run", job(home, BAR, command=f"python3 train.py {gate}", roles={"worker": {}}))
    output = home.folder / done.expect(0).lines[-1].removeprefix("output: ~/")
    written = (output / "worker-0.log").read_bytes().decode()
    assert sorted(written.split("\n")) == sorted(["", "start", states, "result: accuracy=0.97"])
    # Reading the file of the pipe as text has replaced the carriage returns.
    assert f"worker-0 | {states}\n".replace("\r", "\n") in done.stdout


# Start


def test_network_is_one_line_at_verbose_only(home: Home) -> None:
    fine = job(home, "print('hello')", roles={"worker": {}})
    quiet, verbose = (home.windlass("run", *options, fine) for options in ((), ("--verbose",)))
    about = [line for line in quiet.expect(0).lines if " cluster " in line]
    assert about == []
    (line,) = (line for line in verbose.expect(0).lines if " cluster " in line)
    assert re.search(r"  cluster   pods (use|share|cannot) ", line)


def test_network_is_mentioned_if_a_task_fails_because_of_it(home: Home) -> None:
    script = "import socket\nraise OSError(98, 'Address already in use')"
    failing = job(home, script, roles={"worker": {}})
    done = home.windlass("run", "--network", "shared", failing).expect(1)
    (hint,) = (line for line in done.lines if " cluster " in line)
    assert "pods share the host network" in hint
    assert "worker-0 exited with code 1" in done.lines[-2]


def test_row_shows_running_with_its_first_output(home: Home, open_folder: Path) -> None:
    gate = open_folder / "gate"
    script = f"print('step 1', flush=True)\n{WAIT.format(gate)}"
    with on_terminal(home, job(home, script)) as shown:
        seen: list[str] = []

        def has_output() -> bool:
            seen[:] = [line for line in shown.terminal.lines if line.endswith("step 1")]
            return len(seen) == 2

        wait_for("the output of both tasks", has_output)
        assert {line.split()[1] for line in seen} == {"running"}
        gate.touch()
        assert shown.done() == 0


# Companions


def test_run_that_ends_before_a_companion_is_ready_says_so(home: Home, open_folder: Path) -> None:
    program = home.folder / "bin" / "tensorboard"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexport {machine.MARKER}={home.mark}\nexec sleep 600\n")
    program.chmod(0o755)
    board = {"logdir": str(open_folder)}
    volumes = {"out": {"hostPath": str(open_folder), "at": str(open_folder)}}
    file = job(home, "print('hello')", roles={"worker": {}}, tensorboard=board, volumes=volumes)
    path = f"{program.parent}:{home.level.surroundings(home.folder)['PATH']}"
    done = home.begin("run", file, before=("/usr/bin/env", f"PATH={path}")).done().expect(0)
    said = [line.partition("  tensorboard  ")[2] for line in done.lines]
    assert (
        "the run ended before it was ready; to keep the run open, write `tensorboard: {keep: true}`" in said
    )


def test_missing_tensorboard_is_reported_with_the_command_that_installs_it(
    home: Home, open_folder: Path
) -> None:
    if shutil.which("tensorboard"):
        pytest.skip("TensorBoard is installed")
    gate = open_folder / "gate"
    wait = WAIT.format(gate)
    volumes = {"out": {"hostPath": str(open_folder), "at": str(open_folder)}}
    board = {"logdir": str(open_folder)}
    file = job(home, wait, roles={"worker": {}}, tensorboard=board, volumes=volumes)
    running = home.begin("run", file)
    running.says("tensorboard  TensorBoard is not installed. On this machine: pip install tensorboard.")
    gate.touch()
    done = running.done().expect(0)
    assert len([line for line in done.lines if "  tensorboard  " in line]) == 1


def test_tensorboard_without_a_volume_explains_what_to_add(home: Home) -> None:
    file = job(home, "print('hello')", tensorboard={})
    done = home.windlass("run", file).expect(2)
    assert "no volume at /output, where TensorBoard reads what the tasks write. Add one, e.g. " in done.stderr
    assert "`volumes: {output: {pvc: results, at: /output}}`" in done.stderr
