"""Logs of containers and the selection of lines."""

import http.client
import re
from datetime import UTC, datetime

import pytest
from pods.place import Place
from pods.specs import FOREVER, container, mounted, scratch

from conformance.waiting import wait_for

LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(?:Z|[+-]\d\d:\d\d)) (.*)")


def test_stdout_and_stderr_in_order(place: Place) -> None:
    pod = place.start("echo one; echo two >&2; echo three")
    assert pod.ended().phase == "Succeeded"
    assert sorted(pod.log().splitlines()) == ["one", "three", "two"]


PARTS = {
    "all": ({}, "1\n2\n3\n"),
    "tail": ({"tailLines": "2"}, "2\n3\n"),
    "tail-more": ({"tailLines": "10"}, "1\n2\n3\n"),
    "tail-none": ({"tailLines": "0"}, ""),
    "limit": ({"limitBytes": "3"}, "1\n2"),
    "limit-of-tail": ({"limitBytes": "1", "tailLines": "2"}, "2"),
    "since-long-ago": ({"sinceSeconds": "100000"}, "1\n2\n3\n"),
    "since-a-time": ({"sinceTime": "2020-01-01T00:00:00Z"}, "1\n2\n3\n"),
    "since-the-future": ({"sinceTime": "2120-01-01T00:00:00Z"}, ""),
    "named": ({"container": "main"}, "1\n2\n3\n"),
    "followed-to-its-end": ({"follow": "true"}, "1\n2\n3\n"),
    "follow-tail": ({"follow": "true", "tailLines": "1"}, "3\n"),
}


def test_tail_and_limit(place: Place) -> None:
    pod = place.start("seq 3")
    assert pod.ended().phase == "Succeeded"
    found = {name: pod.log(**params) for name, (params, _) in PARTS.items()}
    assert found == {name: expected for name, (_, expected) in PARTS.items()}


REFUSED = {
    "tail": ({"tailLines": "-1"}, 422),
    "limit": ({"limitBytes": "0"}, 422),
    "since": ({"sinceSeconds": "0"}, 422),
    "both": ({"sinceSeconds": "1", "sinceTime": "2020-01-01T00:00:00Z"}, 422),
    "word": ({"tailLines": "few"}, 400),
}


def test_invalid_options_are_rejected(place: Place) -> None:
    pod = place.start("true")
    pod.ended()
    found = {name: pod.read_log(**params).code for name, (params, _) in REFUSED.items()}
    assert found == {name: code for name, (_, code) in REFUSED.items()}


def test_timestamps(place: Place) -> None:
    pod = place.start("seq 3")
    seen = pod.ended()
    matches = [LINE.fullmatch(line) for line in pod.log(timestamps="true").splitlines()]
    assert [match and match[2] for match in matches] == ["1", "2", "3"]
    started = datetime.fromisoformat((seen.terminated() or {})["startedAt"])
    times = [datetime.fromisoformat(match[1]) for match in matches if match]
    assert times == sorted(times)
    assert times[0].replace(microsecond=0) >= started


def test_since_time(place: Place) -> None:
    """The last line of the pod is older than the requested time."""
    pod = place.start("echo old")
    assert pod.output() == ["old"]
    matched = LINE.fullmatch(pod.log(timestamps="true").strip())
    assert matched
    written = datetime.fromisoformat(matched[1])
    wait_for("the line to be old", lambda: (datetime.now(UTC) - written).total_seconds() > 3)
    assert pod.log(sinceSeconds="1") == ""


def test_since_time_of_a_line_includes_it(place: Place) -> None:
    run = "echo one; until [ -e /data/go ]; do sleep 0.1; done; echo two; sleep 100000"
    pod = place.start(mounted(run), volumes=scratch())
    matched = LINE.fullmatch(pod.says("one", timestamps="true").strip())
    assert matched
    written = datetime.fromisoformat(matched[1])
    wait_for("a second to pass", lambda: (datetime.now(UTC) - written).total_seconds() > 2)
    pod.sh("touch /data/go")
    line = LINE.fullmatch(pod.says("two", timestamps="true").splitlines()[-1])
    assert line
    second = datetime.fromisoformat(line[1]).astimezone(UTC)
    assert pod.log(sinceTime=second.strftime("%Y-%m-%dT%H:%M:%SZ")) == "two\n"


def test_follow_until_the_end(place: Place) -> None:
    run = "echo one; until [ -e /data/go ]; do sleep 0.1; done; echo two"
    pod = place.start(mounted(run), volumes=scratch())
    pod.says("one")
    connection = place.client.access.connect()
    try:
        headers = (
            {"Authorization": f"Bearer {place.client.access.token}"} if place.client.access.token else {}
        )
        connection.request("GET", f"{pod.path}/log?follow=true", headers=headers)
        response: http.client.HTTPResponse = connection.getresponse()
        assert response.readline() == b"one\n"
        pod.sh("touch /data/go")
        assert response.read() == b"two\n"
    finally:
        connection.close()
    assert pod.ended().phase == "Succeeded"


def test_previous_run(place: Place) -> None:
    run = "if [ -e /data/x ]; then echo second; sleep 100000; fi; touch /data/x; echo first; exit 1"
    pod = place.start(mounted(run), volumes=scratch(), restartPolicy="OnFailure")
    pod.says("second")
    assert pod.log() == "second\n"
    assert pod.log(previous="true") == "first\n"


def test_previous_run_does_not_exist(place: Place) -> None:
    pod = place.start("true")
    pod.ended()
    answer = pod.read_log(previous="true")
    assert answer.code == 400
    assert answer.message == f'previous terminated container "main" in pod "{pod.name}" not found'


def test_container_must_be_named(place: Place) -> None:
    pod = place.start(*(container(f"echo {name}", name) for name in ("a", "b")))
    pod.ended()
    assert [pod.log(container=name) for name in ("a", "b")] == ["a\n", "b\n"]
    answer = pod.read_log()
    assert answer.code == 400
    message = f"a container name must be specified for pod {pod.name}, choose one of: [a b]"
    assert answer.message == message
    answer = pod.read_log(container="c")
    assert answer.code == 400
    assert answer.message == f"container c is not valid for pod {pod.name}"


def test_waiting_container_has_no_log(place: Place) -> None:
    pod = place.start("true", volumes=[{"name": "data", "configMap": {"name": "none"}}])
    pod.waiting("ContainerCreating")
    answer = pod.read_log()
    assert answer.code == 400
    words = f'container "main" in pod "{pod.name}" is waiting to start: ContainerCreating'
    assert answer.message == words


def test_long_line_is_one_line(place: Place) -> None:
    pod = place.start(["python3", "-c", "print('x' * 100_000); print('end')"])
    assert [len(line) for line in pod.output()] == [100_000, 3]


def test_tail_of_a_long_line_is_the_whole_line(place: Place) -> None:
    pod = place.start(["python3", "-c", "print('x' * 100_000); print('end')"])
    assert pod.ended().phase == "Succeeded"
    assert [len(line) for line in pod.log(tailLines="2").splitlines()] == [100_000, 3]


def test_line_without_newline(place: Place) -> None:
    assert place.start("printf 'one\\ntwo'").output() == ["one", "two"]


def test_bytes_that_are_not_utf8(place: Place) -> None:
    pod = place.start(
        ["python3", "-c", "import os; os.write(1, bytes(range(256)).replace(b'\\n', b'') + b'\\n')"]
    )
    assert pod.ended().phase == "Succeeded"
    assert pod.read_log().raw == bytes(range(256)).replace(b"\n", b"") + b"\n"


MANY = [str(number) for number in range(1, 100_001)]


def test_many_lines(place: Place) -> None:
    pod = place.start(f"seq 100000; {FOREVER}")
    pod.says("100000\n", tailLines="1")
    assert pod.log().splitlines() == MANY
    assert pod.log(tailLines="3") == "99998\n99999\n100000\n"


def test_many_lines_before_the_end(place: Place) -> None:
    assert place.start("seq 100000").output() == MANY


def test_log_of_a_running_pod(place: Place) -> None:
    pod = place.start(f"echo up; {FOREVER}")
    assert pod.says("up") == "up\n"


@pytest.mark.parametrize("name", ["none"])
def test_log_of_a_missing_pod(place: Place, name: str) -> None:
    assert place.client.get(place.path("pods", name, "log")).code == 404
