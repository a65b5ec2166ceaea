"""Run the examples as in their READMEs: by `windlass run`, as a process.

The lines of `--output json` contain the containers' output and the result.
"""

import contextlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pytest
from pods import commands, machine
from pods.commands import Command, Done, Home
from pods.machine import Process

from conformance.client import Json
from conformance.waiting import wait_for
from windlass.localcluster.store import Store

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
SECONDS: Final = 900.0
"""Timeout of an example."""
_CODE: Final = "\ncode: .\n"
REQUIRED: Final = os.environ.get("WINDLASS_TEST_EXAMPLES") == "required"


@pytest.fixture
def output() -> Iterator[Path]:
    """A folder of the machine for the results of a job."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-output-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def needs(*programs: str) -> None:
    """Skip the test if a Python package or a program like `mpirun` is missing. In CI nothing may be missing."""
    missing = [
        each
        for each in programs
        if shutil.which(each) is None and not (each.isidentifier() and importlib.util.find_spec(each))
    ]
    if not missing:
        return
    words = f"needs {', '.join(missing)}, which is not installed here"
    if REQUIRED:
        pytest.fail(words)
    pytest.skip(words)


def process_of(job: str, task: str, word: str) -> Process:
    """Return the process that runs `word` in a pod of the task. The job is known by its FC_FRAMEWORK_UID."""
    role, _, index = task.rpartition("-")
    marks = {"FC_FRAMEWORK_UID": job, "FC_TASKROLE_NAME": role, "FC_TASK_INDEX": index}
    (found,) = (
        each
        for each in set.intersection(*(set(machine.marked(mark, name)) for name, mark in marks.items()))
        if word in each.command
    )
    return found


class Result(msgspec.Struct, frozen=True):
    """A finished run."""

    done: Done
    events: list[Json]

    @property
    def verdict(self) -> Json:
        """Return the last line: `exit`, and `code` and `phrase` if the job has completed."""
        return self.events[-1]

    @property
    def lines(self) -> list[str]:
        """Return the containers' output, each line prefixed by its task: `worker-0 | step 1`."""
        return [f"{each['object']} | {each['line']}" for each in self.events if each["event"] == "log"]

    def lines_of(self, task: str) -> list[str]:
        return [each["line"] for each in self.events if each["event"] == "log" and each["object"] == task]

    def reasons_of(self, name: str) -> list[str]:
        """Return the event reasons of a task's pods or of the Framework: Scheduled, Running, Succeeded, Stopped,
        TaskRetried…"""
        return [each["reason"] for each in self.events if each["object"] == name and "reason" in each]

    def values(self, task: str, begin: str) -> list[dict[str, str]]:
        """Return the `name=value` pairs of each line of the task that starts like this."""
        lines = [line for line in self.lines_of(task) if line.startswith(begin)]
        return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in lines]

    def value(self, task: str, begin: str) -> dict[str, str]:
        """Return the pairs of the only such line."""
        found = self.values(task, begin)
        assert len(found) == 1, f"{task} wrote {len(found)} lines that begin with {begin!r}:\n{self}"
        return found[0]

    def expect(self, phrase: str) -> "Result":
        assert self.verdict.get("phrase") == phrase, f"expected {phrase}:\n{self}"
        return self

    def __str__(self) -> str:
        return f"{self.done.stdout}\n{self.done.stderr}"


class Running:
    """A running example, whose processes may be killed or interrupted."""

    def __init__(self, home: Home, command: Command) -> None:
        self.command = command
        self._home = home

    def says(self, words: str) -> None:
        self.command.says(words)

    def result(self) -> Result:
        """Wait for the end and return the result, once no process is left."""
        wait_for("a pod to run, or the end", self._has_pods_or_ended, SECONDS)
        traces = self._home.traces()
        self.command.process.wait(SECONDS)
        done = self.command.done()
        for line in done.stderr.splitlines():
            # A kept cluster prints how to delete it.
            if line.strip().startswith("windlass local down"):
                self._home.windlass(*shlex.split(line)[1:]).expect(0)
        traces.wait_until_gone()
        return Result(done, done.json_lines or [{"event": "error", "object": "", "exit": done.code}])

    def completion_codes(self) -> dict[str, int]:
        """Return the completion codes by task of a finished run with `--keep`."""
        (run,) = self._home.runs
        store = Store(self._home.state / "runs" / run / "cluster.db")
        (framework,) = map(json.loads, store.all("frameworks.frameworkcontroller.microsoft.com"))
        store.close()
        return {
            f"{role['name']}-{task['index']}": task["attemptStatus"]["completionStatus"]["code"]
            for role in framework["status"]["attemptStatus"]["taskRoleStatuses"]
            for task in role["taskStatuses"]
        }

    def _has_pods_or_ended(self) -> bool:
        return '"reason":"Running"' in self.command.output or self.command.process.poll() is not None


@contextlib.contextmanager
def begun(
    name: str,
    *options: str | Path,
    file: str = "framework.yaml",
    replaced: Mapping[str, str] | None = None,
    has_code: bool = True,
) -> Iterator[Running]:
    """Start an example. `replaced` maps texts in its file to replacements. Code is provided as the ConfigMap
    `{name}-code`; a job file with `code: .` uses the folder of the example. All processes and files are removed at the
    end."""
    text = (EXAMPLES / name / file).read_text()
    for old, new in (replaced or {}).items():
        assert old in text, f"{old!r} is not in {name}/{file}"
        text = text.replace(old, new)
    if _CODE in text:
        text, has_code = text.replace(_CODE, f"\ncode: {EXAMPLES / name}\n"), False
    code = ("--config-map", f"{name}-code={EXAMPLES / name}") if has_code else ()
    with begun_with(text, *code, *options) as running:
        yield running


@contextlib.contextmanager
def begun_with(text: str, *options: str | Path) -> Iterator[Running]:
    """Start a job file or Framework. All processes and files are removed at the end."""
    with commands.home(commands.best()) as home:
        if "isolated" in options and not home.level.has_own_network:
            pytest.skip("pods cannot have a network of their own on this machine")
        yield Running(home, home.begin("run", "--output", "json", *options, home.file(text)))


def run_example(
    name: str,
    *options: str | Path,
    file: str = "framework.yaml",
    replaced: Mapping[str, str] | None = None,
    has_code: bool = True,
) -> Result:
    """Run an example to its end and return the result."""
    with begun(name, *options, file=file, replaced=replaced, has_code=has_code) as running:
        return running.result()
