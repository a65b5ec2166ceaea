"""`windlass run` on a terminal with running pods."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import terminals
from pods import machine
from pods.commands import Home
from terminals import Shown

from conformance.client import Json
from conformance.waiting import wait_for

WORDS = "Words of the task"


def job(home: Home, gate: Path, **fields: Json) -> Path:
    """A job of two tasks that report their progress and continue when the gate opens."""
    # The home directory itself is not accepted as code.
    folder = home.folder / "digits"
    folder.mkdir(exist_ok=True)
    (folder / "train.sh").write_text(
        "trap 'exit 0' TERM\n"
        "echo windlass progress 3/10 loss=0.5\n"
        f"printf '\\033[2J\\033[31m{WORDS}\\033[0m\\n'\n"
        f"until [ -e {gate} ]; do sleep 0.1; done\n"
        "echo windlass progress 10/10\n"
    )
    return home.written(
        {
            "name": "digits",
            "code": "digits",
            "command": ["sh", "train.sh"],
            "roles": {"worker": {"tasks": 2}},
            "env": {machine.MARKER: home.mark},
            **fields,
        }
    )


@contextmanager
def shown(home: Home, *arguments: str | Path, columns: int = 120, lines: int = 20) -> Iterator[Shown]:
    environment = {
        **home.level.surroundings(home.folder),
        "HOME": str(home.folder),
        "XDG_STATE_HOME": str(home.state.parent),
        "PYTHONUTF8": "1",
        machine.MARKER: home.mark,
    }
    command = home.level.command("-m", "windlass.cli.main", "run", *map(str, arguments))
    with terminals.running(command, environment, home.folder, columns, lines) as made:
        yield made


def row(made: Shown, task: str) -> list[str]:
    """Return the words of a task's row. A reason may start with a task name too, but has more words."""
    return next((line.split() for line in made.terminal.lines if line.startswith(f"{task} ")), [])


def test_logs_keep_only_colours(home: Home, open_folder: Path) -> None:
    gate = open_folder / "gate"
    gate.touch()
    with shown(home, "--logs", job(home, gate)) as made:
        assert made.done() == 0
        assert f"\x1b[31m{WORDS}\x1b[0m".encode() in made.terminal.written
        assert b"\x1b[2J" not in made.terminal.written


def test_table_shows_the_tasks(home: Home, open_folder: Path) -> None:
    gate = open_folder / "gate"
    with shown(home, job(home, gate)) as made:
        made.terminal.shows("digits  running", "2 running")
        for task in ("worker-0", "worker-1"):
            wait_for(f"the words of {task}", lambda task=task: WORDS in " ".join(row(made, task)))  # type: ignore[misc]
            assert row(made, task)[1:3] == ["running", "0"]
            assert {"███░░░░░░░", "30%"} <= set(row(made, task))
        wait_for("what a task uses", lambda: any("Mi" in word for word in row(made, "worker-0")))
        assert "TASK      STATE       ATTEMPT  NODE" in made.terminal.text
        assert "digits    submitted" in made.terminal.text, "no task has cleared the screen"
        gate.touch()
        assert made.done() == 0
        assert "succeeded" in made.terminal.text
        assert "worker-0  succeeded" in made.terminal.text
        assert made.terminal.cursor[1:] == (0, True)
        assert made.terminal.text.count("TASK ") == 1, "it is drawn over itself"
        assert "██████████ 100%" in made.terminal.text


def test_table_fits_a_small_terminal(home: Home, open_folder: Path) -> None:
    gate = open_folder / "gate"
    with shown(home, job(home, gate), columns=40, lines=10) as made:
        wait_for("both tasks", lambda: {"running"} <= set(row(made, "worker-0")) & set(row(made, "worker-1")))
        wait_for("the words", lambda: "Words" in row(made, "worker-0"))
        assert "30%" in row(made, "worker-0")
        assert made.terminal.text.count("TASK ") == 1
        gate.touch()
        assert made.done() == 0


def is_one_table(made: Shown) -> bool:
    return made.terminal.text.count("TASK ") == 1 and bool(row(made, "worker-1"))


def test_table_follows_a_resize(home: Home, open_folder: Path) -> None:
    gate = open_folder / "gate"
    with shown(home, job(home, gate)) as made:
        made.terminal.shows("ATTEMPT", "2 running")
        made.terminal.resize(40, 10)
        # The terminal wraps the lines of the old table until the new one is drawn.
        wait_for("one narrow table", lambda: is_one_table(made) and "ATTEMPT" not in made.terminal.text)
        made.terminal.resize(120, 30)
        wait_for("one wide table", lambda: is_one_table(made) and "ATTEMPT" in made.terminal.text)
        gate.touch()
        assert made.done() == 0


def test_logs_replace_the_table(home: Home, open_folder: Path) -> None:
    gate = open_folder / "gate"
    gate.touch()
    with shown(home, "--logs", job(home, gate)) as made:
        assert made.done() == 0
        written = made.terminal.written.decode()
        for colour, task in ((36, "worker-0"), (33, "worker-1")):
            assert f"\x1b[{colour}m{task} |\x1b[0m windlass progress 10/10" in written
        assert "TASK " not in written


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["ctrl-c", "hang-up"])
def test_signal_ends_the_run(home: Home, open_folder: Path, number: signal.Signals) -> None:
    with shown(home, job(home, open_folder / "gate")) as made:
        made.terminal.shows("2 running", WORDS)
        os.killpg(made.process.pid, number)
        assert made.done() == 130
        assert "stopping" in made.terminal.everything
        assert "stopped" in made.terminal.everything.replace("\n", "")
        assert made.terminal.cursor[1:] == (0, True)
        assert home.runs == []


def test_closed_terminal_stops_the_pods_gracefully(home: Home, open_folder: Path) -> None:
    """The output fails, and the shell and the kernel send SIGHUP: all this counts as one interrupt."""
    script = (
        f"trap 'echo asked >> {open_folder}/told; exit 0' TERM; echo {WORDS}; while :; do sleep 0.1; done"
    )
    with shown(home, job(home, open_folder / "gate", command=["sh", "-c", script])) as made:
        made.terminal.shows("2 running", WORDS)
        traces = home.traces()
        made.terminal.hang_up()
        for _ in range(2):
            made.process.send_signal(signal.SIGHUP)
        made.done()
        assert (open_folder / "told").read_text() == "asked\nasked\n"
        assert home.runs == []
        traces.wait_until_gone()


def test_shell_continues_below_the_table(home: Home, open_folder: Path) -> None:
    """The cursor is visible and at the start of the line below, even if the run is killed."""
    with shown(home, job(home, open_folder / "gate")) as made:
        made.terminal.shows("2 running", WORDS)
        traces = home.traces()
        made.process.kill()
        assert made.done() == -signal.SIGKILL
        line, column, is_seen = made.terminal.cursor
        assert (column, is_seen) == (0, True)
        assert made.terminal.lines[line] == ""
        assert made.terminal.lines[line - 1].startswith("worker-1 ")
        traces.wait_until_gone()
