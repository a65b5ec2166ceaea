"""Records of attempts on a real server: selection and order."""

import json
import re
from typing import Any

import msgspec
import pytest
from operated import jobs
from scripted_cluster import Place
from tests.wire.test_attempt_records import record

from conformance.client import Json
from conformance.waiting import wait_for
from windlass.client import events, history, lookup
from windlass.client.connection import Connection
from windlass.client.events import Event
from windlass.client.report.contents import Report
from windlass.client.views import JobState
from windlass.model.framework import Framework
from windlass.model.history import AttemptRecord
from windlass.wire import attempt_records


@pytest.fixture
def place(scripted_place: Place) -> Place:
    return scripted_place


def store(
    place: Place, uid: str, attempt: int, seconds: int = 0, name: str = "digits", size: int = 0
) -> None:
    made = record()
    spec = msgspec.structs.replace(
        made.spec, framework_name=name, framework_uid=uid, attempt=attempt, phrase=f"{uid} {attempt}"
    )
    ended = spec.completion_time.timestamp() + seconds
    spec = msgspec.structs.replace(
        spec, completion_time=type(spec.completion_time).fromtimestamp(ended, spec.completion_time.tzinfo)
    )
    metadata = msgspec.structs.replace(
        made.metadata,
        name=f"{uid}-{attempt}",
        namespace=place.name,
        labels={"FC_FRAMEWORK_NAME": name, "FC_FRAMEWORK_UID": uid},
    )
    body = attempt_records.encode(msgspec.structs.replace(made, metadata=metadata, spec=spec), size)
    path = f"/apis/windlass.dev/v1/namespaces/{place.name}/attemptrecords"
    place.client.post(path, msgspec.to_builtins(body)).expect(201)


def read(place: Place, name: str = "", uid: str = "") -> list[str]:
    async def work(connection: Connection) -> tuple[AttemptRecord, ...]:
        return await history.list_records(connection, name=name, uid=uid)

    return [each.spec.phrase for each in place.use(work)]


def test_records_are_selected_by_name_or_uid_and_are_in_order_of_time(place: Place) -> None:
    store(place, "b", 0, seconds=60, size=10**6)
    store(place, "a", 10, seconds=20)
    store(place, "a", 9, seconds=10)
    store(place, "c", 0, name="letters")
    assert read(place, name="digits") == ["a 9", "a 10", "b 0"]
    assert read(place, uid="a") == ["a 9", "a 10"]
    assert read(place) == ["c 0", "a 9", "a 10", "b 0"]


def test_records_of_a_deleted_job_are_those_of_the_last_framework_of_the_name(place: Place) -> None:
    store(place, "a", 0)
    store(place, "b", 0, seconds=5)
    store(place, "b", 1, seconds=9)

    async def work(connection: Connection) -> tuple[AttemptRecord, ...]:
        return await history.of_job(connection, "digits", None)

    assert [each.spec.phrase for each in place.use(work)] == ["b 0", "b 1"]


# Jobs before and after their deletion


def run_job(
    place: Place, name: str, life: dict[str, str] | None = None, role: Json | None = None, **spec: Any
) -> Framework:
    """Run a job to its end, and wait for the records of its attempts."""
    role = role or jobs.role(tasks=2, life=life)
    place.submit(jobs.framework(name, role, completedPods="Keep", **spec))
    place.wait_for_completed(name)
    framework = place.use(lambda connection: lookup.find(connection, name))
    attempts = framework.status.retry_policy_status.total_retried_count + 1 if framework.status else 0
    wait_for("its records", lambda: len(read(place, uid=framework.uid)) == attempts)
    return framework


def delete(place: Place, name: str) -> None:
    place.delete(name)
    place.wait_until_gone(name)
    wait_for("its pods to be deleted", lambda: not place.pods(name))


def output(place: Place, command: str, *arguments: str) -> str:
    result = place.windlass(command, *arguments)
    assert result.exit_code == 0, result.output
    return re.sub(r"\(\d+ s ago\)|\b\d+ ?s\b", "<time>", result.output)


def test_why_has_the_same_wording_after_the_job_is_deleted(place: Place) -> None:
    """Only the place that the last lines are read from differs: here they are in no status."""
    run_job(place, "fails", jobs.fails(3), retryPolicy={"maxRetryCount": 2})
    before = output(place, "why", "fails", "--lines", "0")
    delete(place, "fails")
    after = output(place, "why", "fails", "--lines", "0")
    assert after == before
    assert "fails failed: worker-0 exited with code 3" in after
    assert "retry 2 of 2" in after


def test_status_history_has_the_same_attempts_after_the_job_is_deleted(place: Place) -> None:
    run_job(place, "fails", jobs.fails(3), retryPolicy={"maxRetryCount": 1})
    before = output(place, "status", "fails", "--history")
    delete(place, "fails")
    assert output(place, "status", "fails", "--history") == before
    rows = [line.split()[:2] for line in before.rpartition("ATTEMPT")[2].splitlines()[1:]]
    assert rows == [["0", "Failed"], ["1", "Failed"]]
    assert "yes: retry 1 of 1" in before
    assert "no: all 1 retries are used" in before
    assert place.windlass("status", "fails").exit_code != 0, "without --history, the job does not exist"


def test_report_has_the_same_attempts_after_the_job_is_deleted(place: Place) -> None:
    role = jobs.role(tasks=2, life=jobs.fails(3))
    container = role["task"]["pod"]["spec"]["containers"][0]
    container["env"] = [
        {"name": "API_TOKEN", "value": "hunter2"},
        {"name": "DATA", "value": "s3://user:hunter2@host/x"},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "digits", "key": "token"}}},
        {"name": "LR", "value": "0.1"},
    ]
    run_job(place, "fails", role=role, retryPolicy={"maxRetryCount": 1})
    before = read_report(place, "fails")
    delete(place, "fails")
    after = read_report(place, "fails")
    assert (before.is_deleted, after.is_deleted) == (False, True)
    same = ("roles", "attempts", "failures", "tasks", "environment", "uid", "created", "completed")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    assert after.framework["spec"] == before.framework["spec"]
    assert after.explanation.message == before.explanation.message
    assert {each.reason for each in after.events} >= {"TaskFailed", "FrameworkRetried"}
    failed = [(each.job_attempt, each.task) for each in after.tasks if each.is_failed]
    assert sorted({attempt for attempt, _ in failed}) == [0, 1]
    assert sum(each.count for each in after.failures) == len(failed)
    assert "hunter2" not in str(after)
    assert [(each.name, each.value or each.source) for each in after.environment[0].variables] == [
        ("API_TOKEN", "(masked)"),
        ("DATA", "(masked)"),
        ("KEY", "key token of the Secret digits"),
        ("LR", "0.1"),
    ]
    assert output(place, "report", "fails", "--format", "markdown").startswith("# fails: failed")
    assert output(place, "report", "fails").startswith("<!doctype html>")


def read_report(place: Place, name: str) -> Report:
    return msgspec.json.decode(output(place, "report", name, "--format", "json"), type=Report)


def test_history_of_a_running_job_ends_with_its_current_attempt(place: Place) -> None:
    place.submit(jobs.framework("runs", jobs.role(tasks=1, life=jobs.FOREVER)))
    place.wait_for_running("runs", 1)
    found = place.use(lambda connection: history.find(connection, "runs"))
    assert [(each.attempt, each.state) for each in found.attempts] == [(0, JobState.RUNNING)]
    assert "Running" in output(place, "status", "runs", "--history")


def test_job_deleted_while_running_is_shown_as_deleted(place: Place) -> None:
    place.submit(jobs.framework("runs", jobs.role(tasks=1, life=jobs.FOREVER)))
    place.wait_for_running("runs", 1)
    framework = place.use(lambda connection: lookup.find(connection, "runs"))
    delete(place, "runs")
    wait_for("its record", lambda: read(place, uid=framework.uid))
    found = place.use(lambda connection: history.find(connection, "runs"))
    assert (found.is_deleted, found.view.state) == (True, JobState.DELETED)
    assert [each.state for each in found.attempts] == [JobState.DELETED]
    assert "runs was deleted before it completed" in output(place, "why", "runs")


def test_list_finished_contains_deleted_jobs(place: Place) -> None:
    run_job(place, "fails", jobs.fails(3))
    run_job(place, "succeeds", jobs.SUCCEEDS)
    place.submit(jobs.framework("runs", jobs.role(tasks=1, life=jobs.FOREVER)))
    place.wait_for_running("runs", 1)
    before = rows(output(place, "list", "--finished"))
    delete(place, "fails")
    after = rows(output(place, "list", "--finished"))
    assert sorted(after) == sorted(before)
    assert [row[:2] for row in before] == [["fails", "Failed"], ["succeeds", "Succeeded"]]
    items = json.loads(place.windlass("list", "--finished", "-o", "json").output)["items"]
    assert sorted(item["metadata"]["name"] for item in items) == ["fails", "succeeds"]


def rows(table: str) -> list[list[str]]:
    return [line.split()[:4] for line in table.splitlines()[1:]]


def test_events_of_attempts_are_read_from_records(place: Place) -> None:
    """As if the events had expired: the records have the same messages."""
    framework = run_job(place, "fails", jobs.fails(3), retryPolicy={"maxRetryCount": 1})

    async def work(connection: Connection) -> tuple[list[Event], list[Event]]:
        found = await history.find(connection, "fails")
        return await events.read(connection, framework), history.recorded_events(found.records)

    def told(found: list[Event]) -> set[tuple[str, str]]:
        return {(each.reason, each.message) for each in found if each.uid == framework.uid}

    wait_for(
        "the last event", lambda: any(one[0] == "FrameworkCompleted" for one in told(place.use(work)[0]))
    )
    live, recorded = place.use(work)
    assert told(recorded) == told(live)
    delete(place, "fails")
    assert "retry 1 of 1" in output(place, "events", "fails")


def test_new_job_of_the_same_name_has_a_history_of_its_own(place: Place) -> None:
    run_job(place, "again", jobs.fails(3), retryPolicy={"maxRetryCount": 1})
    delete(place, "again")
    run_job(place, "again", jobs.SUCCEEDS)
    found = place.use(lambda connection: history.find(connection, "again"))
    assert [each.state for each in found.attempts] == [JobState.SUCCEEDED]


def test_unknown_job_is_not_found(place: Place) -> None:
    for command in ("why", "events"):
        assert "there is no job" in place.windlass(command, "nothing").output


def test_logs_of_attempts_are_the_last_lines_if_the_cluster_keeps_no_logs(place: Place) -> None:
    """The pods are deleted: the status has kept the end of the failed container's log."""
    run_job(place, "fails", jobs.fails(3, message="boom"), retryPolicy={"maxRetryCount": 1})
    delete(place, "fails")
    job = place.use(lambda connection: history.find(connection, "fails"))
    ended = [each.attempt.completion_status for each in job.attempts[0].task_attempts]
    assert [each.code for each in ended if each is not None and each.code > 0]
    assert "there is no attempt 7 of fails" in place.windlass("logs", "fails", "--attempt", "7").output
    assert place.windlass("logs", "fails", "--attempt", "1", "-f").exit_code == 2
    assert place.windlass("logs", "fails", "--attempt", "x").exit_code == 2
