"""Companions of `windlass run` with running pods: they are opened, reported, outlive the job, and are deleted.

A program called tensorboard serves the files of its folder: the connection is tested here, the real programs with the
examples.
"""

import contextlib
import json
import shlex
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pods import commands, levels, machine
from pods.commands import Home

from conformance.client import Json

WORDS = "as they were written"
SERVES = 'exec python3 -u -m http.server --bind "$2" --directory "${4#--logdir=}" "${3#--port=}"'
"""Its arguments: --host HOST --port=PORT --logdir=FOLDER --reload_interval=SECONDS."""
IS_NOT_INSTALLED = "echo 'pip install what it needs' >&2; exit 127"
NEVER_ANSWERS = "trap '' TERM INT; while true; do sleep 0.1; done"


@contextlib.contextmanager
def watching(level: levels.Level, script: str) -> Iterator[Home]:
    """A home folder with a program called tensorboard."""
    with commands.home(level) as made:
        path = made.folder / "bin" / "tensorboard"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\nexport {machine.MARKER}={made.mark}\n{script}\n")
        path.chmod(0o755)
        found = level.surroundings(made.folder)["PATH"]
        own = {**level.environment, "PATH": f"{path.parent}:{found}"}
        made.level = msgspec.structs.replace(level, environment=own)
        yield made


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


class Watched:
    """A job that writes into a folder shown by its TensorBoard, until a gate opens."""

    def __init__(self, home: Home, folder: Path, code: int = 0, **fields: Any) -> None:
        self.port = free_port()
        self.gate = folder / "gate"
        (folder / "words").write_text(WORDS)
        self.job: Json = {
            "name": "digits",
            "command": f"until [ -e {self.gate} ]; do sleep 0.1; done; exit {code}",
            "roles": {"worker": {"tasks": 1}},
            "env": {machine.MARKER: home.mark},
            "volumes": {"out": {"hostPath": str(folder), "at": str(folder)}},
            "tensorboard": {"logdir": str(folder), "port": self.port, **fields},
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


def served(url: str) -> str:
    with urllib.request.urlopen(f"{url}words", timeout=commands.SECONDS) as answer:  # noqa: S310
        return str(answer.read().decode())


def check_that_nothing_is_left(home: Home, traces: machine.Traces, port: int) -> None:
    assert not home.runs
    traces.wait_until_gone()
    with socket.socket() as asking:
        assert asking.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("name", ["root", "plain"])
def test_companion_is_open_while_the_job_runs(name: levels.Name, open_folder: Path) -> None:
    """On the next port, because the first one is in use."""
    if reason := levels.why_not(name):
        pytest.skip(reason)
    with watching(levels.level(name), SERVES) as home:
        watched = Watched(home, open_folder)
        with socket.create_server(("127.0.0.1", watched.port)):
            command = home.begin_run(watched.job, options=("-o", "json"))
            command.says('"reason":"Ready"')
        traces = home.traces()
        told = [json.loads(line) for line in command.output.splitlines()]
        (opened,) = (line for line in told if line.get("url"))
        assert (opened["event"], opened["object"]) == ("companion", "tensorboard")
        assert f"port {watched.port} is in use: " in command.output
        assert served(opened["url"]) == WORDS
        watched.gate.touch()
        last = command.done().expect(0).json_lines[-1]
        assert (last["event"], last["exit"]) == ("completed", 0)
        check_that_nothing_is_left(home, traces, urllib.parse.urlsplit(opened["url"]).port or 0)


def test_kept_companion_holds_the_run_open_and_keeps_its_exit_code(
    best: levels.Level, open_folder: Path
) -> None:
    with watching(best, SERVES) as home:
        watched = Watched(home, open_folder, code=3, keep=True)
        command = home.begin_run(watched.job)
        command.says(f"tensorboard  ready at {watched.url}")
        watched.gate.touch()
        command.says(f"failed; tensorboard keeps running at {watched.url} (Ctrl-C stops it)")
        assert served(watched.url) == WORDS
        traces = home.traces()
        command.press_ctrl_c()
        assert "failed: worker-0 exited with code 3" in command.done().expect(3).verdict
        check_that_nothing_is_left(home, traces, watched.port)


def test_ctrl_c_kills_a_companion_that_never_answers(best: levels.Level, open_folder: Path) -> None:
    with watching(best, NEVER_ANSWERS) as home:
        watched = Watched(home, open_folder, keep=True)
        watched.gate.touch()
        command = home.begin_run(watched.job)
        command.says("succeeded; tensorboard keeps running (Ctrl-C stops it)")
        traces = home.traces()
        command.press_ctrl_c()
        command.done().expect(0)
        check_that_nothing_is_left(home, traces, watched.port)


def test_failing_companion_is_reported_and_the_job_continues(best: levels.Level, open_folder: Path) -> None:
    """The run is not held open for it."""
    with watching(best, IS_NOT_INSTALLED) as home:
        watched = Watched(home, open_folder, keep=True)
        command = home.begin_run(watched.job)
        command.says("tensorboard  cannot start tensorboard of digits: ")
        command.says("tensorboard  pip install what it needs")
        watched.gate.touch()
        assert "succeeded" in command.done().expect(0).verdict


def test_companions_run_without_their_job(best: levels.Level, open_folder: Path) -> None:
    with watching(best, SERVES) as home:
        watched = Watched(home, open_folder)
        command = home.begin_run(watched.job, options=("--companions-only",))
        command.says(f"tensorboard  ready at {watched.url}")
        assert served(watched.url) == WORDS
        traces = home.traces()
        command.press_ctrl_c()
        done = command.done().expect(0)
        assert done.lines[-1].endswith("companions stopped")
        assert "submitted" not in done.stdout
        check_that_nothing_is_left(home, traces, watched.port)


def test_companions_stay_in_a_kept_cluster(best: levels.Level, open_folder: Path) -> None:
    with watching(best, SERVES) as home:
        watched = Watched(home, open_folder)
        watched.gate.touch()
        done = home.run(watched.job, options=("--keep",)).expect(0)
        _, export, why, opens, down, reset = done.stderr.splitlines()
        try:
            assert (why.split(), opens.split()) == (
                ["windlass", "why", "digits"],
                ["windlass", "tensorboard", "digits"],
            )
            _, _, kubeconfig = shlex.split(export)[1].partition("=")
            command = home.begin(*opens.split()[1:], "--kubeconfig", kubeconfig)
            command.says(watched.url)
            assert served(watched.url) == WORDS
            command.press_ctrl_c()
            command.done().expect(0)
        finally:
            home.windlass(*shlex.split(down)[1:]).expect(0)
        home.windlass(*shlex.split(reset, comments=True)[1:], "--yes").expect(0)
        assert not machine.marked(home.mark)
