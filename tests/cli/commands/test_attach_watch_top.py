"""`windlass attach`, `list -w`, `status -w` and `top`. Views are compared as frames of a terminal."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import terminals
from operated import jobs
from scripted_cluster import Place
from terminals import Shown

from windlass.client.connection import Connection
from windlass.client.usage import POD_METRICS
from windlass.kubeapi.requests import Request


@contextmanager
def on_terminal(place: Place, *words: str, columns: int = 100) -> Iterator[Shown]:
    command = (sys.executable, "-m", "windlass.cli.main", *words, *place.options)
    variables = {"PATH", "HOME", "WINDLASS_CONNECT_TIMEOUT", "LANG"}
    environment = {name: value for name, value in os.environ.items() if name in variables}
    with terminals.running(command, {**environment, "NO_COLOR": "1"}, Path.cwd(), columns) as shown:
        yield shown


def frame(shown: Shown) -> list[str]:
    """Return the lines of the screen with single spaces, and times and addresses replaced."""
    replaced = (
        re.sub(r"\b[0-9]+:[0-9]+(:[0-9.]+)?|\b[0-9]+[smh]\b", "<time>", line) for line in shown.terminal.lines
    )
    return [re.sub(r" +", " ", line) for line in replaced if line]


@pytest.fixture
def digits(scripted_place: Place) -> Place:
    scripted_place.submit(jobs.framework("digits", jobs.role(tasks=2, life=jobs.FOREVER)))
    scripted_place.wait_for_running("digits", 2)
    scripted_place.write("digits-worker-0", "windlass progress 5/10 loss=0.5\n")
    return scripted_place


def test_attach_shows_the_live_table_and_ctrl_c_detaches(digits: Place) -> None:
    with on_terminal(digits, "attach", "digits") as shown:
        shown.terminal.shows("worker-0  running", "loss=0.5", "worker-1  running")
        shown.process.send_signal(signal.SIGINT)
        assert shown.done() == 130
        lines = frame(shown)
    assert lines[-1] != ""
    assert any(
        "digits detached; the job continues. Attach again with `windlass attach digits`" in line
        for line in lines
    )
    assert any(line.startswith("digits running <time> 2 running") for line in lines)
    assert digits.framework("digits")["status"]["state"] == "AttemptRunning"


def test_attach_ends_with_the_job(digits: Place) -> None:
    with on_terminal(digits, "attach") as shown:
        shown.terminal.shows("worker-0  running", "loss=0.5")
        digits.end_log("digits-worker-0")
        digits.finish("digits-worker-1", code=3)
        assert shown.done() == 3
        text = shown.terminal.everything
    assert f"digits is the only job in the namespace {digits.name}" in text
    assert re.search(r"digits +failed", text)
    assert "worker-1  failed 3" in text


def test_attach_in_a_pipe_prints_lines(digits: Place) -> None:
    digits.end_log("digits-worker-0")
    digits.finish("digits-worker-1", code=3)
    digits.wait_for_completed("digits")
    result = digits.windlass("attach", "digits", "--no-logs")
    assert result.exit_code == 3, result.output
    assert result.stdout.splitlines()[-1].startswith("digits failed: worker-1 exited with code 3")


def test_list_is_updated_in_place(digits: Place) -> None:
    with on_terminal(digits, "list", "-w") as shown:
        shown.terminal.shows("2 running of 2")
        first = frame(shown)
        digits.finish("digits-worker-0", "digits-worker-1", code=0)
        shown.terminal.shows("digits  Succeeded")
        second = frame(shown)
        shown.process.send_signal(signal.SIGINT)
        assert shown.done() == 130
    assert first[0] == second[0] == "NAME STATE TASKS ATTEMPT AGE MESSAGE"
    assert first[1] == "digits Running 2 running of 2 0 <time>"
    assert second[1].startswith("digits Succeeded 2 succeeded of 2 0 <time> digits succeeded in ")
    assert len(first) == len(second)


def test_status_is_updated_until_the_job_has_completed(digits: Place) -> None:
    with on_terminal(digits, "status", "-w") as shown:
        shown.terminal.shows("worker-1  Running")
        digits.finish("digits-worker-0", "digits-worker-1", code=0)
        assert shown.done() == 0
        lines = frame(shown)
    assert sum(line.startswith("state ") for line in lines) == 1
    assert any(line.startswith("state Succeeded for <time>") for line in lines)


def test_status_in_a_pipe_prints_each_change(digits: Place) -> None:
    digits.finish("digits-worker-0", "digits-worker-1", code=0)
    result = digits.windlass("status", "-w", "digits")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("state       Succeeded") == 1


# top


METRICS = (
    b'{"items": [{"metadata": {"name": "digits-worker-1", "namespace": "%s"}, "containers": '
    b'[{"name": "main", "usage": {"cpu": "1500m", "memory": "256Mi"}}]}]}'
)


def test_top_shows_the_usage_of_tasks(digits: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake kubelet measures nothing, so the response of the metrics API is given."""
    send = Connection.send

    async def answered(self: Connection, request: Request) -> Any:
        is_metrics = request.resource == POD_METRICS
        return METRICS % digits.name.encode() if is_metrics else await send(self, request)

    monkeypatch.setattr(Connection, "send", answered)
    for words in ((), ("digits",)):
        result = digits.windlass("top", *words)
        assert result.exit_code == 0, result.output
        assert [line.split() for line in result.stdout.splitlines()] == [
            ["JOB", "TASK", "CPU", "MEMORY", "NODE"],
            ["digits", "worker-1", "150%", "256Mi", "hollow"],
        ]


def test_top_without_metrics_api_names_metrics_server(digits: Place) -> None:
    result = digits.windlass("top")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith(
        " has no metrics API (metrics.k8s.io). Install metrics-server on the cluster.\n"
    )
