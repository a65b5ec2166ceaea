"""Logs of jobs on an embedded API server with a controller. The tests write the logs of the containers."""

from typing import Any

import msgspec
import pytest
from operated import jobs
from scripted_cluster import Place, ScriptedCluster
from scripted_logs import LOST

from conformance.client import Json
from windlass.client import tasks
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, ObjectNotFoundError
from windlass.client.logs import reader
from windlass.client.logs.container_log import LogOptions
from windlass.client.logs.lines import Line


@pytest.fixture
def place(scripted_place: Place) -> Place:
    return scripted_place


def read(place: Place, name: str, task: str = "", **wanted: Any) -> list[Line]:
    async def work(connection: Connection) -> list[Line]:
        lines = reader.read_by_name(connection, name, task, LogOptions(**wanted))
        return [line async for line in lines]

    return place.use(work)


def texts(lines: list[Line]) -> list[str]:
    return [f"{line.label} {line.text}" for line in lines]


def submit_kept(place: Place, name: str, *roles: Json, **spec: Any) -> None:
    """Submit a job that completes and keeps its pods."""
    made = roles or (jobs.role("ps", 1, jobs.SUCCEEDS), jobs.role("worker", 2, jobs.SUCCEEDS))
    place.submit(jobs.framework(name, *made, completedPods="Keep", **spec))
    place.wait_for_completed(name)


@pytest.fixture(scope="module")
def kept(world: ScriptedCluster) -> Place:
    place = world.new_scripted_place()
    submit_kept(place, "digits")
    for pod, text, at in (
        ("ps-0", "one\n", 1),
        ("worker-1", "two\n", 2),
        ("worker-0", "three\n", 3),
        ("ps-0", "four\n", 4),
        ("worker-0", "five, and no end", 5),
    ):
        place.write(f"digits-{pod}", text, at=at)
    return place


ALL = ["ps-0 one", "worker-1 two", "worker-0 three", "ps-0 four", "worker-0 five, and no end"]
CASES: dict[str, tuple[str, str, dict[str, Any], list[str]]] = {
    "all-by-time": ("digits", "", {}, ALL),
    "followed-when-over": ("digits", "", {"follow": True}, ALL),
    "a-role": ("digits", "worker", {}, ["worker-1 two", "worker-0 three", "worker-0 five, and no end"]),
    "one": ("digits", "worker-0", {}, ["worker-0 three", "worker-0 five, and no end"]),
    "one-after-a-slash": ("digits/worker-1", "", {}, ["worker-1 two"]),
    "a-container": ("digits", "ps-0", {"container": "main"}, ["ps-0 one", "ps-0 four"]),
    "tail": ("digits", "", {"tail": 1}, ["worker-1 two", "ps-0 four", "worker-0 five, and no end"]),
    "since": ("digits", "", {"since_seconds": 5.0}, []),
    "no-lines": ("digits", "", {"tail": 0}, []),
}


@pytest.mark.parametrize(("name", "task", "wanted", "expected"), CASES.values(), ids=CASES.keys())
def test_selected_lines(
    kept: Place, name: str, task: str, wanted: dict[str, Any], expected: list[str]
) -> None:
    assert texts(read(kept, name, task, **wanted)) == expected


def test_fields_of_a_line(kept: Place) -> None:
    first, last = read(kept, "digits", "worker-0", has_timestamps=True)
    assert (first.task, first.container, first.attempt) == ("worker-0", "main", 0)
    assert (first.time, first.is_ended) == ("2026-01-01T00:00:03.000000000Z", True)
    assert (last.data, last.is_ended) == (b"five, and no end", False)


def test_bytes_are_unchanged(place: Place) -> None:
    """This includes invalid UTF-8 and control sequences."""
    submit_kept(place, "odd")
    written = b"\xff\x1b[31mred\x1b[0m \x00 \r done"
    place.write("odd-ps-0", written + b"\n")
    (line,) = read(place, "odd", "ps-0")
    assert line.data == written


def test_selected_container(place: Place) -> None:
    template = jobs.template(jobs.SUCCEEDS)
    template["spec"]["containers"].append({"name": "side", "image": "windlass/test:1"})
    submit_kept(place, "pair", jobs.role(pod=template))
    place.write("pair-worker-0", "from main\n", at=1)
    place.write("pair-worker-0", "from side\n", at=2, container="side")
    assert texts(read(place, "pair")) == ["worker-0/main from main", "worker-0/side from side"]
    assert texts(read(place, "pair", container="side")) == ["worker-0 from side"]


@pytest.mark.parametrize(
    ("task", "wanted", "words"),
    [
        ("worker-2", {}, "digits has no task worker-2; its tasks are ps-0, worker-0..1"),
        ("chief", {}, "digits has no task chief; its tasks are ps-0, worker-0..1"),
        ("ps-0", {"container": "side"}, "ps-0 has no container side; its containers are main"),
        ("ps-0", {"previous": True}, "ps-0 has no previous run: none of its containers was restarted"),
    ],
)
def test_unknown_job_task_and_container_are_reported(
    kept: Place, task: str, wanted: dict[str, Any], words: str
) -> None:
    with pytest.raises(ObjectNotFoundError) as error:
        read(kept, "digits", task, **wanted)
    assert str(error.value) == words


@pytest.mark.parametrize(
    ("name", "task", "words"),
    [("", "", "the name of a job"), ("a/b-0", "c-0", "expected one task"), ("a", "B 1", "a task, e.g.")],
)
def test_invalid_selection_is_rejected(name: str, task: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tasks.parse_selector(name, task)


def test_deleted_pods_are_reported(place: Place) -> None:
    place.submit(jobs.framework("brief", jobs.role(life=jobs.SUCCEEDS)))
    place.wait_for_completed("brief")
    for task, words in {
        "": "the pods of brief and their logs are deleted. See `windlass why brief`",
        "worker-0": "the pod of worker-0 and its log are deleted. See `windlass why brief`",
    }.items():
        with pytest.raises(ObjectNotFoundError, match="deleted") as error:
            read(place, "brief", task)
        assert str(error.value).startswith(words)


def test_pods_that_have_not_started_are_reported(place: Place) -> None:
    place.submit(jobs.framework("early", jobs.role(life=jobs.PENDING)))
    place.wait_for_state("early", "AttemptPreparing")
    with pytest.raises(ObjectNotFoundError, match="worker-0 has not started yet"):
        read(place, "early", "worker-0")
    assert read(place, "early") == []


def test_removed_log_is_reported(place: Place) -> None:
    submit_kept(place, "digits")
    place.write("digits-worker-0", "one\n")
    place.lose_log("digits-worker-1")
    notes: list[str] = []

    async def work(connection: Connection) -> list[Line]:
        lines = reader.read_by_name(connection, "digits", "worker", note=notes.append)
        return [line async for line in lines]

    assert texts(place.use(work)) == ["worker-0 one"]
    assert notes == [f"cannot read the log of worker-1: {LOST.decode()}"]


def test_previous_run_of_a_container(place: Place) -> None:
    place.submit(jobs.framework("again", jobs.role(tasks=2, life=jobs.FOREVER)))
    place.wait_for_running("again", 2)
    place.write("again-worker-1", "before\n", at=1)
    place.restart_container("again-worker-1")
    place.write("again-worker-1", "after\n", at=2)
    assert texts(read(place, "again", "worker-1")) == ["worker-1 after"]
    assert texts(read(place, "again", "worker-1", previous=True)) == ["worker-1 before"]
    assert texts(read(place, "again", previous=True)) == ["worker-1 before"], "only pods with a log"


def test_previous_attempt_has_no_log(place: Place) -> None:
    """Its pod is deleted together with its log, and one message says so."""
    retry = {"maxRetryCount": 1}
    place.submit(jobs.framework("retried", jobs.role(life=jobs.fails(1), retry=retry), completedPods="Keep"))
    place.wait_for_completed("retried")
    with pytest.raises(ObjectNotFoundError, match="the pods and logs of earlier attempts are deleted"):
        read(place, "retried", "worker-0", previous=True)


def test_too_many_tasks_cannot_be_followed(place: Place) -> None:
    role = jobs.role(tasks=reader.MAX_FOLLOWED + 1)
    place.submit(jobs.framework("huge", role, executionType="Create"))
    with pytest.raises(
        ClientError, match=r"cannot follow 501 tasks: the maximum is 500\. Select a role or a task"
    ):
        read(place, "huge", follow=True)


def test_line_is_a_value() -> None:
    line = Line(task="worker-0", container="main", attempt=0, data=b"\xff a")
    assert line.text == "\ufffd a"
    assert msgspec.structs.replace(line, data=b"x").text == "x"
