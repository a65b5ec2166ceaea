"""Every attempt of a job on a real embedded cluster: its logs, its record and its explanation, before and after the
job is deleted."""

import re
from collections.abc import Iterator

import pytest
from pods import commands, specs
from pods.commands import Home, Local, framework, role

from conformance.client import Json
from conformance.waiting import wait_for
from windlass import Client

WRITES = 'echo "attempt $FC_FRAMEWORK_ATTEMPT_ID, task attempt $FC_TASK_ATTEMPT_ID"'
LINES = [f"attempt {job}, task attempt {task}" for job in (0, 1) for task in (0, 1)]
RESTARTS = "if [ -e /data/x ]; then echo second; exit 0; fi; touch /data/x; echo first; exit 1"


@pytest.fixture
def local(home: Home) -> Iterator[Local]:
    with commands.local(home) as local:
        yield local


def run(local: Local, body: Json, code: int) -> None:
    """Run a job to its end, and wait for the records of its attempts."""
    home = local.home
    home.windlass("submit", home.written(body), "--wait", *cluster(local)).expect(code)
    retries = body["spec"].get("retryPolicy", {}).get("maxRetryCount", 0)
    wait_for("the records", lambda: len(records(local)) > retries)


def cluster(local: Local) -> tuple[str, str]:
    return "--kubeconfig", str(local.data / "kubeconfig")


def records(local: Local) -> list[Json]:
    path = "/apis/windlass.dev/v1/namespaces/default/attemptrecords"
    found: list[Json] = local.client.get(path).expect(200).body["items"]
    return sorted(found, key=lambda each: int(each["spec"]["attempt"]))


def output(local: Local, *arguments: str) -> list[str]:
    return local.home.windlass(*arguments, *cluster(local)).expect(0).lines


def normalized(lines: list[str]) -> list[str]:
    """Remove the times, which grow, and the spaces that depend on their length."""
    times = r"\d\d:\d\d:\d\d|\b(?:\d+[smhd])+\b|\(?\d+ (s|min)( \d+ s)? ago\)?"
    return [" ".join(re.sub(times, "<time>", line).split()) for line in lines]


def test_attempts_have_the_same_logs_and_words_after_the_job_is_deleted(local: Local) -> None:
    worker = role(local.home.container(f"{WRITES}; exit 3"), retries=1)
    run(local, framework(worker, name="digits", retryPolicy={"maxRetryCount": 1}, completedPods="Delete"), 3)
    commands_of_job = [
        ("logs", "digits", "--attempt", "all"),
        ("logs", "digits/worker-0", "--attempt", "0"),
        ("logs", "digits", "--attempt", "1", "--tail", "1"),
        ("why", "digits"),
        ("status", "digits", "--history"),
        ("events", "digits"),
    ]
    wait_for(
        "the last log to be archived",
        lambda: len(output(local, "logs", "digits/worker-0", "--attempt", "all")) == len(LINES),
    )
    before = {each: normalized(output(local, *each)) for each in commands_of_job}
    assert before["logs", "digits/worker-0", "--attempt", "0"] == LINES[:2]
    output(local, "delete", "digits")
    for command in commands_of_job:
        assert normalized(output(local, *command)) == before[command]
    assert "Last lines of worker-0 (log)" in before["why", "digits"]
    with Client(local.data / "kubeconfig") as client:
        assert [line.text for line in client.logs("digits", attempt="all")] == LINES
        assert [line.text for line in client.logs("digits", "worker-0", attempt=1)] == LINES[2:]
    logs_of_records(local)
    local.client.delete("/api/v1/namespaces/default/events").expect(200)
    without_events = normalized(output(local, "events", "digits"))
    assert set(without_events) <= set(before["events", "digits"]), "the records have the words of the events"
    reasons = {line.split()[2 + (line.split()[1] == "!")] for line in without_events}
    assert reasons >= {"TaskFailed:", "TaskRetried:", "FrameworkRetried:", "FrameworkCompleted:"}


def logs_of_records(local: Local) -> None:
    """Read the log of every task attempt at the path that its record names."""
    found = []
    for record in records(local):
        status = record["spec"]["detail"]["framework"]["status"]
        task = status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]
        for attempt in (*(each["attempt"] for each in status["earlierTaskAttempts"]), task["attemptStatus"]):
            path = record["spec"]["podLogPath"].format(podName=attempt["podName"], podUID=attempt["podUID"])
            place, _, uid = path.partition("?uid=")
            found.append(local.client.get(place, uid=uid).expect(200).raw.decode().rstrip("\n"))
            assert list(attempt["podTimes"])[:4] == ["created", "scheduled", "started", "ended"]
    assert found == LINES


def test_previous_run_of_a_container_is_readable_after_the_job_is_deleted(local: Local) -> None:
    container = local.home.container(RESTARTS, volumeMounts=[specs.mount("/data")])
    worker = role(container, restartPolicy="OnFailure", volumes=specs.scratch())
    run(local, framework(worker, name="restarts"), 0)
    output(local, "delete", "restarts")
    for attempt in ("0", "all"):
        assert output(local, "logs", "restarts/worker-0", "--attempt", attempt) == ["second"]
        assert output(local, "logs", "restarts/worker-0", "--attempt", attempt, "--previous") == ["first"]
    with Client(local.data / "kubeconfig") as client:
        lines = client.logs("restarts", attempt=0, previous=True)
        assert [line.text for line in lines] == ["first"]
