"""Measure how fast `windlass run` and `windlass logs` deliver output of tasks, compared with `cat` of the same file.

Each task is `cat` of that file. All commands write to a file. The time of the same command without any output is
subtracted.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from figures import Sheet, argument_parser  # next to this file
from windlass.model import names

LINES = 250_000
LINE = b"x" * 199 + b"\n"
ROUNDS = 3
FORMATS = {"prefixed": (), "JSON": ("--output", "json")}
WINDLASS = (sys.executable, "-m", "windlass.cli.main")


class Commands:
    """Runs commands with a state folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}

    def seconds(self, command: Sequence[str], count: int = ROUNDS) -> float:
        return statistics.median(self._seconds(command) for _ in range(count))

    def run(self, *arguments: str) -> str:
        command = [*WINDLASS, *arguments]
        done = subprocess.run(  # noqa: S603
            command, check=True, env=self._environment, stdout=subprocess.PIPE, text=True
        )
        return done.stdout

    def _seconds(self, command: Sequence[str]) -> float:
        with (self.folder / "output").open("wb") as out:
            began = time.perf_counter()
            subprocess.run(command, check=True, env=self._environment, stdout=out)  # noqa: S603
            return time.perf_counter() - began

    @property
    def output_lines(self) -> int:
        return (self.folder / "output").read_bytes().count(b"x" * 199)


def framework(name: str, command: Sequence[str], tasks: int) -> dict[str, object]:
    container = {"name": "main", "image": "busybox", "command": command}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    role = {"name": "worker", "taskNumber": tasks, "task": {"pod": pod}}
    return {
        "apiVersion": names.api_version(names.CONTROLLER_GROUP),
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {"completedPods": "Keep", "taskRoles": [role]},
    }


def job_file(folder: Path, name: str, command: Sequence[str], tasks: int = 1) -> str:
    file = folder / f"{name}.json"
    file.write_text(json.dumps(framework(name, command, tasks)))
    return str(file)


@contextmanager
def cluster(commands: Commands) -> Iterator[str]:
    """Yield the kubeconfig of a cluster that runs until the end of the block."""
    data = ("--data-dir", str(commands.folder / "cluster"))
    commands.run("local", "up", *data)
    try:
        yield json.loads(commands.run("local", "status", *data, "--output", "json"))["kubeconfig"]
    finally:
        commands.run("local", "reset", "--yes", *data)


def add(sheet: Sheet, what: str, seconds: float, cat_seconds: float, copies: int = 1) -> None:
    mebibytes = copies * LINES * len(LINE) / 2**20
    note = f"{mebibytes / seconds:.0f} MiB/s; cat: {cat_seconds:.2f} s"
    sheet.add(f"{what}: of `cat`", seconds / (copies * cat_seconds), "×", noise=2, note=note)


def measure_run(sheet: Sheet, commands: Commands, file: str, cat_seconds: float) -> None:
    folder = commands.folder
    for name, options in FORMATS.items():
        silent = commands.seconds([*WINDLASS, "run", *options, job_file(folder, "silent", ["true"])])
        seconds = commands.seconds([*WINDLASS, "run", *options, job_file(folder, "loud", ["cat", file])])
        assert commands.output_lines == LINES, "`windlass run` has lost output"
        add(sheet, f"`run`, a task writes {LINES:,} lines, {name}", seconds - silent, cat_seconds)


def measure_logs(sheet: Sheet, commands: Commands, file: str, cat_seconds: float) -> None:
    with cluster(commands) as kubeconfig:
        where = ("--kubeconfig", kubeconfig)
        commands.run("submit", "--wait", *where, job_file(commands.folder, "loud", ["cat", file], tasks=2))
        for name, options in FORMATS.items():
            logs = [*WINDLASS, "logs", *where, *options, "loud"]
            silent = commands.seconds([*logs, "--tail", "0"])
            seconds = commands.seconds(logs)
            assert commands.output_lines == 2 * LINES, "`windlass logs` has lost output"
            what = f"`logs`, two tasks wrote {LINES:,} lines each, {name}"
            add(sheet, what, seconds - silent, cat_seconds, copies=2)


def main() -> None:
    arguments = argument_parser(__doc__).parse_args()
    sheet = Sheet("output")
    sheet.title(f"Output of tasks, lines of {len(LINE)} bytes, written to a file:")
    with tempfile.TemporaryDirectory() as folder:
        commands = Commands(Path(folder))
        file = commands.folder / "lines"
        file.write_bytes(LINE * LINES)
        cat_seconds = commands.seconds(["cat", str(file)], 2 * ROUNDS)
        measure_run(sheet, commands, str(file), cat_seconds)
        measure_logs(sheet, commands, str(file), cat_seconds)
    if arguments.save:
        sheet.save()


if __name__ == "__main__":
    main()
