"""`windlass run` on a cluster whose pods only say that they run: what is told, and what it exits with.

That pods really run, and that nothing of them stays, is tested where there are some.
"""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hollow_cluster
import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from windlass.cli import run_file, run_logs, run_output, run_report
from windlass.cli.interrupts import Interrupts
from windlass.cli.main import main
from windlass.cli.run_file import Plan
from windlass.cli.run_output import Output
from windlass.cli.run_report import Event, Line, LogLine, Pod, Report, Topic, Verdict
from windlass.model.completion import (
    CompletionTrigger,
    CompletionType,
    CompletionTypeName,
    FrameworkAttemptCompletionStatus,
)
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.model.status import FrameworkAttemptStatus, FrameworkStatus
from windlass.testing import builders

NOW = datetime(2026, 1, 2, 3, 4, 5, 678900, UTC)
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "peers"},
    "spec": {"clusterIP": "None", "selector": {"a": "b"}},
}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"a": "b"}}


def job(**annotations: str) -> dict[str, Any]:
    """Two workers, and a life of their pods as the hollow kubelet reads it."""
    life = {f"hollow.windlass.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    pod = {
        "metadata": {"annotations": life},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
    }
    role = {
        "name": "worker",
        "taskNumber": 2,
        "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": 2},
        "task": {"pod": pod},
    }
    return {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "job"},
        "spec": {"taskRoles": [role]},
    }


def written(*documents: Any) -> bytes:
    return yaml.safe_dump_all(documents).encode()


# The file


def test_the_others_come_in_their_order_and_the_framework_gets_a_namespace() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [SERVICE, job()]}
    found = run_file.read(written(CONFIG, listed), "file")
    assert found.faults == ()
    assert found.job is not None
    assert [other["kind"] for other in found.job.others] == ["ConfigMap", "Service"]
    assert (found.job.name, found.job.namespace, found.job.group) == (
        "job",
        "default",
        "launcher.microsoft.com",
    )
    assert found.job.tasks == ("worker-0", "worker-1")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", ["file:1:1: error: there is no Framework in the file"]),
        (b"a: [", ["this is not YAML"]),
        (b"- 1", ["expected an object"]),
        (written(SERVICE), ["there is no Framework in the file, expected exactly one"]),
        (written(job(), job()), ["this is a second Framework (the first stands in line 1)"]),
        (
            written(job(), {"kind": "Service"}),
            ['the field "apiVersion" is missing', 'metadata: the field "name" is missing'],
        ),
        (
            written(job(), {**CONFIG, "metadata": {"name": "a", "namespace": 3}}),
            ["metadata.namespace: found the number 3"],
        ),
        (written({**job(), "spec": {"taskRoless": []}}), ['Did you mean "taskRoles"?']),
        (written(job()).replace(b"containers:", b"containerz:"), ['Did you mean "containers"?']),
    ],
)
def test_what_is_wrong_with_a_file(data: bytes, words: list[str]) -> None:
    found = run_file.read(data, "file")
    said = "\n".join(map(str, found.faults))
    assert found.job is None
    assert [word for word in words if word not in said] == [], said


# Exit codes and the last line


def completion(code: int, *, is_failed: bool = True) -> FrameworkAttemptCompletionStatus:
    name = CompletionTypeName.FAILED if is_failed else CompletionTypeName.SUCCEEDED
    kind = CompletionType(name, ("Permanent",) if is_failed else ())
    return FrameworkAttemptCompletionStatus(code, "Phrase", kind, "diagnostics")


@pytest.mark.parametrize(
    ("code", "is_failed", "expected"),
    [
        (0, False, 0),
        (1, True, 1),
        (2, True, 2),
        (124, True, 124),
        (137, True, 137),
        (255, True, 255),
        (256, True, 125),
        (-1, True, 125),
        (-210, True, 125),
        (0, True, 125),
    ],
)
def test_the_exit_code_of_a_completion(code: int, is_failed: bool, expected: int) -> None:
    assert run_report.exit_code(completion(code, is_failed=is_failed)) == expected


def seen(ended: FrameworkAttemptCompletionStatus | None, state: State = State.COMPLETED) -> Framework:
    attempt = FrameworkAttemptStatus(start_time=NOW, config_map_name="job-attempt", completion_status=ended)
    status = FrameworkStatus(start_time=NOW, transition_time=NOW, state=state, attempt_status=attempt)
    return builders.framework("job").with_status(status)


TRIGGER = CompletionTrigger("FailedTaskCount 1 has reached MinFailedTaskCount 1", "worker", 1)


@pytest.mark.parametrize(
    ("framework", "was_interrupted", "expected"),
    [
        (
            seen(completion(0, is_failed=False)),
            False,
            Verdict(
                Topic.COMPLETED,
                NOW,
                "job",
                "has completed with Phrase (0): diagnostics",
                exit=0,
                code=0,
                phrase="Phrase",
                type="Succeeded",
                state="Completed",
            ),
        ),
        (
            seen(msgspec.structs.replace(completion(-210), trigger=TRIGGER)),
            True,
            Verdict(
                Topic.COMPLETED,
                NOW,
                "job",
                f"has completed with Phrase (-210): {TRIGGER.message}",
                exit=130,
                code=-210,
                phrase="Phrase",
                type="Failed Permanent",
                state="Completed",
            ),
        ),
        (None, False, Verdict(Topic.ERROR, NOW, "job", "was deleted before it had completed", exit=125)),
        (
            seen(completion(3), State.ATTEMPT_DELETING),
            True,
            Verdict(Topic.ERROR, NOW, "job", "was deleted before it had completed", exit=130),
        ),
    ],
)
def test_the_last_line(framework: Framework | None, was_interrupted: bool, expected: Verdict) -> None:
    assert run_report.verdict(framework, "job", NOW, was_interrupted=was_interrupted) == expected


# What is told of pods and events


def pod(phase: str = "Pending", node: str = "n", *containers: dict[str, Any], **more: Any) -> Pod:
    metadata = {
        "name": "job-worker-0",
        "uid": more.pop("uid", "u"),
        "labels": {"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "0"},
        **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if more.pop("is_deleting", False) else {}),
    }
    status = {"phase": phase, "containerStatuses": list(containers), **more}
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": node}, "status": status}, Pod)


def container(restarts: int = 0, **state: dict[str, Any]) -> dict[str, Any]:
    return {"name": "main", "restartCount": restarts, "state": state}


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return container(terminated={"exitCode": code, "reason": reason})


WAITING = {"reason": "CreateContainerError", "message": "no such command"}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod(node="")], []),
        (
            [pod(), pod(), pod("Running"), pod("Running"), pod("Succeeded")],
            ["is scheduled to n", "runs", "has succeeded"],
        ),
        ([pod("Running", "n", podIP="10.0.0.1")], ["runs at 10.0.0.1"]),
        ([pod("Failed", "n", ended(3))], ["has failed: container main ended with 3"]),
        (
            [pod("Failed", "n", ended(137, "OOMKilled"))],
            ["has failed: container main ended with 137 (OOMKilled)"],
        ),
        (
            [pod("Failed", "n", reason="Evicted", message="The node was low")],
            ["has failed: Evicted: The node was low"],
        ),
        ([pod("Failed", "n", ended(143), is_deleting=True)], ["was stopped: container main ended with 143"]),
        (
            [
                pod("Pending", "n", container(waiting=WAITING)),
                pod("Pending", "n", container(waiting=WAITING)),
            ],
            ["container main waits: CreateContainerError: no such command", "is scheduled to n"],
        ),
        ([pod("Pending", "n", container(waiting={"reason": "ContainerCreating"}))], ["is scheduled to n"]),
        (
            [pod("Running", "n", container(1)), pod("Running", "n", container(2))],
            ["container main is restarted", "runs", "container main is restarted, 2 times by now"],
        ),
        ([pod("Running", uid="a"), pod("Running", uid="b")], ["runs", "runs"]),
        ([pod("Unknown")], ["is Unknown"]),
    ],
)
def test_what_is_told_of_a_pod(pods: list[Pod], expected: list[str]) -> None:
    report = Report("job")
    told = [line for one in pods for line in report.pod(one, NOW)]
    assert [line.message for line in told] == expected
    assert {(line.object, line.event) for line in told} <= {("worker-0", Topic.POD)}


@pytest.mark.parametrize(
    ("before", "expected"), [("Running", ["is gone"]), ("Succeeded", []), ("Failed", [])]
)
def test_what_is_told_of_a_pod_that_goes(before: str, expected: list[str]) -> None:
    report = Report("job")
    list(report.pod(pod(before), NOW))
    assert [line.message for line in report.deleted_pod(pod(before), NOW)] == expected


def event(kind: str, name: str, sort: str, reason: str, message: str) -> Event:
    involved = {"kind": kind, "name": name, "uid": f"uid-of-{name}"}
    return msgspec.convert(
        {"involvedObject": involved, "type": sort, "reason": reason, "message": message}, Event
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            event("Framework", "job", "Normal", "AttemptStarted", "Attempt 0 has started"),
            Line(Topic.FRAMEWORK, NOW, "job", "AttemptStarted", "Attempt 0 has started"),
        ),
        (
            event("Pod", "job-worker-0", "Warning", "FailedScheduling", "0/1 nodes are available"),
            Line(Topic.POD, NOW, "worker-0", "FailedScheduling", "FailedScheduling: 0/1 nodes are available"),
        ),
        (
            event("Node", "n", "Warning", "Full", "the disk"),
            Line(Topic.NOTE, NOW, "n", "Full", "Full: the disk"),
        ),
        (event("Pod", "job-worker-0", "Normal", "Scheduled", "assigned"), None),
        (event("Framework", "another", "Normal", "AttemptStarted", "of somebody else"), None),
        (event("Framework", "job", "Normal", "FrameworkCompleted", "is the last line anyway"), None),
    ],
)
def test_what_is_told_of_events(given: Event, expected: Line | None) -> None:
    report = Report("job")
    list(report.pod(pod(node=""), NOW))
    told = [*report.event(given, NOW), *report.event(given, NOW)]
    assert told == ([expected] if expected is not None else [])


# How it looks

TIME = '"time":"2026-01-02T03:04:05.678900Z"'


@pytest.mark.parametrize(
    ("said", "form", "expected"),
    [
        (Line(Topic.POD, NOW, "ps-0", "Running", "runs"), "text", "03:04:05.678  ps-0      runs\n"),
        (
            Line(Topic.POD, NOW, "ps-0", "R", "a\x1b[2J\nb"),
            "text",
            "03:04:05.678  ps-0      a\\x1b[2J\\x0ab\n",
        ),
        (LogLine(Topic.LOG, NOW, "ps-0", "main", "\x1b[1mbold"), "text", "ps-0     | \x1b[1mbold\n"),
        (
            LogLine(Topic.LOG, NOW, "ps-0", "main", "two\nlines"),
            "json",
            f'{{"event":"log",{TIME},"object":"ps-0","container":"main","line":"two\\nlines"}}\n',
        ),
        (
            Line(Topic.NOTE, NOW, "cluster", "Note", "said"),
            "json",
            f'{{"event":"note",{TIME},"object":"cluster","reason":"Note","message":"said"}}\n',
        ),
    ],
)
def test_how_a_line_looks(
    monkeypatch: pytest.MonkeyPatch, said: run_output.Said, form: str, expected: str
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert run_output.rendered(said, form, len("worker-0")).decode() == expected


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a", b"b\n\nc"], ["ab", "", "c"]),
        ([b"\xc3", b"\xa4\xff\n"], ["ä\N{REPLACEMENT CHARACTER}"]),
        ([b"x" * 70_000, b"\ny"], ["x" * 65_536, "x" * (70_000 - 65_536), "y"]),
        ([b""], []),
    ],
    ids=["whole", "pieces", "not-utf-8", "long", "empty"],
)
def test_lines_of_a_log(chunks: list[bytes], expected: list[str]) -> None:
    lines = run_logs.Lines()
    assert [line for chunk in chunks for line in lines.feed(chunk)] + lines.end() == expected


class Slow(io.BytesIO):
    """Takes nothing until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.was_given_something = threading.Event()
        self.may_go_on = threading.Event()

    def write(self, data: Any) -> int:
        self.was_given_something.set()
        self.may_go_on.wait()
        return super().write(data)


def test_a_slow_reader_holds_up_logs_and_nothing_else() -> None:
    stream = Slow()
    output = Output(stream, "text", 4)
    line = LogLine(Topic.LOG, NOW, "ps-0", "main", "words")
    number = run_output.MOST_PENDING + 1

    async def write() -> bool:
        output.attach(asyncio.get_running_loop(), lambda: None)
        output.say(line)
        stream.was_given_something.wait()
        for _ in range(number):
            output.say(line)
        waiting = asyncio.create_task(output.room())
        await asyncio.sleep(0)
        was_held_up = not waiting.done()
        stream.may_go_on.set()
        await waiting
        return was_held_up

    assert asyncio.run(write())
    output.finish()
    assert stream.getvalue().count(b"\n") == 1 + number


class Closed(io.BytesIO):
    def write(self, data: Any) -> int:
        raise BrokenPipeError


def test_when_nobody_reads_any_more_somebody_is_told() -> None:
    output = Output(Closed(), "text", 4)

    async def write() -> None:
        told = asyncio.Event()
        output.attach(asyncio.get_running_loop(), told.set)
        output.say(Line(Topic.NOTE, NOW, "cluster", "Note", "said"))
        await told.wait()
        await output.room()

    asyncio.run(write())
    output.finish()


@pytest.mark.parametrize(
    ("can_be_graceful", "requests", "expected"),
    [
        (False, 1, (False, True)),
        (True, 1, (True, False)),
        (True, 2, (True, True)),
    ],
)
def test_interrupts(can_be_graceful: bool, requests: int, expected: tuple[bool, bool]) -> None:
    interrupts = Interrupts()
    interrupts.can_be_graceful = can_be_graceful
    for _ in range(requests):
        interrupts.request()
    assert (interrupts.stop.is_set(), interrupts.end.is_set()) == expected


# The command


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Not pytest's folder: the path of a socket must be short."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_STATE_HOME", folder)
        yield Path(folder) / "windlass"


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> type[hollow_cluster.LocalCluster]:
    return hollow_cluster.install(monkeypatch)


def windlass(*arguments: str | Path, given: bytes = b"") -> Result:
    return CliRunner().invoke(main, ["run", *map(str, arguments)], input=given)


def test_a_run_that_succeeds(clusters: type[hollow_cluster.LocalCluster], state: Path) -> None:
    result = windlass("-", "--nodes", "3", "--network", "shared", given=written(CONFIG, SERVICE, job()))
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line[14:] for line in result.stdout.splitlines() if " | " not in line]
    assert lines[:2] == ["cluster   this machine is made of paper", "job       is submitted"]
    assert lines[-1].startswith("job       has completed with Succeeded (0): ")
    assert "job       Attempt 0 has started" in lines
    assert "worker-1  is scheduled to hollow" in lines
    written_by_containers = [line for line in result.stdout.splitlines() if line.startswith("worker-0 | ")]
    assert written_by_containers == [
        "worker-0 | main of job-worker-0",
        "worker-0 | ",
        "worker-0 | without end",
    ]
    (cluster,) = clusters.made
    assert (cluster.options.nodes, cluster.options.network, cluster.options.is_ephemeral) == (
        3,
        "shared",
        True,
    )
    assert cluster.data.parent == state / "runs"
    assert not cluster.data.exists()


@pytest.mark.parametrize(
    ("documents", "arguments", "exit_code", "last"),
    [
        ([job()], [], 0, {"event": "completed", "code": 0, "phrase": "Succeeded", "type": "Succeeded"}),
        ([job(exit_code="3")], [], 3, {"event": "completed", "code": 3, "state": "Completed"}),
        ([job(exit_code="210")], [], 210, {"code": 210, "phrase": "ContainerPermanentFailed"}),
        ([job(reason="Evicted", exit_code="1")], [], 125, {"code": -1000, "phrase": "PodEvicted"}),
        ([job(runs_for="never")], ["--timeout", "0.001"], 124, {"event": "error"}),
        ([{**SERVICE, "spec": {"clusterIP": "nonsense"}}, job()], [], 2, {"event": "error"}),
        ([{**SERVICE, "kind": "Servant"}, job()], [], 2, {"message": "the cluster knows no Servant of v1"}),
        ([{**CONFIG, "metadata": {"name": "a", "namespace": "team"}}, job()], [], 0, {"code": 0}),
    ],
    ids=["good", "code", "210", "evicted", "timeout", "refused", "unknown-kind", "namespace"],
)
@pytest.mark.usefixtures("clusters")
def test_how_it_ends(
    documents: list[Any], arguments: list[str], exit_code: int, last: dict[str, Any]
) -> None:
    result = windlass("-", "--output", "json", "--no-logs", *arguments, given=written(*documents))
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == exit_code, result.output
    assert (lines[-1]["exit"], lines[-1]["object"]) == (exit_code, "job")
    assert {name: lines[-1][name] for name in last} == last
    assert [line for line in lines[:-1] if "exit" in line] == []
    assert "log" not in {line["event"] for line in lines}


def test_a_cluster_that_cannot_start(clusters: type[hollow_cluster.LocalCluster], state: Path) -> None:
    clusters.trouble = "the disk is full"
    result = windlass("-", given=written(job()))
    assert result.exit_code == 124
    assert result.stdout.rstrip().endswith("job       the cluster cannot start: the disk is full")
    assert [folder for folder in (state / "runs").iterdir() if folder.is_dir()] == []


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        ([], b"", "Missing argument 'FILE'"),
        (["/nowhere"], b"", "/nowhere: cannot be read: No such file or directory"),
        (["-"], b"a: [", "<stdin>:1:5: error: this is not YAML"),
        (["-", "--image", "x"], written(job()), "--image: found 'x', expected NAME=DIR"),
        (["-", "--image", "x=/nowhere"], written(job()), "is not there: /nowhere"),
        (["-", "--network", "fast"], written(job()), "'fast' is not one of"),
        (["-", "--timeout", "0"], written(job()), "Invalid value for '--timeout'"),
    ],
)
def test_usage(
    clusters: type[hollow_cluster.LocalCluster], arguments: list[str], given: bytes, words: str
) -> None:
    result = windlass(*arguments, given=given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert clusters.made == []


def test_what_is_kept_stays_and_what_was_left_goes(
    clusters: type[hollow_cluster.LocalCluster], state: Path
) -> None:
    left = state / "runs" / "deadbeef"
    left.mkdir(parents=True)
    (left / "daemon.lock").touch()
    result = windlass("-", "--keep", given=written(job()))
    assert result.exit_code == 0
    (cluster,) = clusters.made
    assert result.stderr == f"the data are kept in {cluster.data}\n"
    assert cluster.data.is_dir()
    assert not left.exists()
    assert windlass("-", given=written(job())).exit_code == 0
    assert cluster.data.is_dir(), "the next run leaves it alone"


def test_images_of_the_machine_and_of_the_run(
    clusters: type[hollow_cluster.LocalCluster], tmp_path: Path
) -> None:
    for name in ("kept", "replaced"):
        assert CliRunner().invoke(main, ["local", "image", "add", name, str(tmp_path)]).exit_code == 0
    other = tmp_path / "other"
    other.mkdir()
    assert windlass("-", "--keep", "--image", f"replaced={other}", given=written(job())).exit_code == 0
    (cluster,) = clusters.made
    assert json.loads((cluster.data / "images.json").read_bytes()) == {
        "kept": str(tmp_path),
        "replaced": str(other),
    }


class Trigger(io.BytesIO):
    """Sends this process a signal whenever one of the words is written."""

    def __init__(self, *words: bytes) -> None:
        super().__init__()
        self._words = list(words)

    def write(self, data: Any) -> int:
        written = super().write(data)
        while self._words and self._words[0] in self.getvalue():
            del self._words[0]
            os.kill(os.getpid(), signal.SIGINT)
        return written


@pytest.mark.parametrize(
    ("annotations", "words", "last"),
    [
        (
            {"runs_for": "never"},
            [b"worker-1  runs"],
            "job       has completed with StopFrameworkRequested (-210)",
        ),
        (
            {"runs_for": "never", "stops_after": "never"},
            [b"worker-1  runs", b"is asked to stop"],
            "job       ended at once",
        ),
        ({}, [b"made of paper"], "job       ended at once"),
    ],
    ids=["once", "twice", "before-there-is-anything-to-stop"],
)
def test_ctrl_c(
    clusters: type[hollow_cluster.LocalCluster],
    state: Path,
    annotations: dict[str, str],
    words: list[bytes],
    last: str,
) -> None:
    from windlass.cli import running

    found = run_file.read(written(job(**annotations)), "file")
    assert found.job is not None
    stream = Trigger(*words)
    output = Output(stream, "text", len("worker-0"))
    state.mkdir()
    assert asyncio.run(running.run(found.job, Plan(shows_logs=False), state, output)) == 130
    output.finish()
    assert stream.getvalue().decode().splitlines()[-1][14:].startswith(last)
    assert clusters.made[0].ended_pods is False, "an ephemeral cluster ends them by itself"


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from windlass.cli.main import main\n"
        "main(['run', '--help'], standalone_mode=False)\n"
        "heavy = ('aiohttp', 'kubernetes_asyncio', 'prometheus_client', 'cryptography', 'sqlite3')\n"
        "print(sorted(name for name in sys.modules if name.partition('.')[0] in heavy))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)  # noqa: S603
    assert run.stdout.splitlines()[-1] == "[]"
