"""`windlass list`, `status` and `describe` at every width of a terminal."""

import json

import pytest
from click.testing import CliRunner, Result
from in_process_cluster import ClusterNamespace
from operated import jobs

from windlass.cli.main import main
from windlass.model import names


def run(place: ClusterNamespace, *words: str, columns: str = "") -> Result:
    result = CliRunner().invoke(main, [*words, *place.options], env={"COLUMNS": columns})
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def busy(place: ClusterNamespace) -> ClusterNamespace:
    """A running job, a failed one of the old API group, and a suspended one with a long name."""
    place.submit(
        jobs.framework("digits", jobs.role("ps", life=jobs.FOREVER), jobs.role(tasks=2, life=jobs.FOREVER))
    )
    place.submit(jobs.framework("old", jobs.role(life=jobs.fails(9)), group=names.LAUNCHER_GROUP))
    place.submit(jobs.framework("a-job-whose-name-is-rather-long-but-still-allowed", suspend=True))
    place.wait_for_running("digits", 3)
    place.wait_for_completed("old", names.LAUNCHER_GROUP)
    place.wait_for_condition("a-job-whose-name-is-rather-long-but-still-allowed", "Suspended")
    return place


def test_list_shows_the_state_of_each_job(busy: ClusterNamespace) -> None:
    header, *rows = run(busy, "list").stdout.splitlines()
    assert header.split() == ["NAME", "STATE", "TASKS", "ATTEMPT", "AGE", "MESSAGE"]
    assert [row.split()[:2] for row in rows] == [
        ["a-job-whose-name-is-rather-long-but-still-allowed", "Suspended"],
        ["digits", "Running"],
        ["old", "Failed"],
    ]
    assert "3 running of 3" in rows[1]
    assert "1 failed of 1" in rows[2]


def test_list_wide_shows_roles(busy: ClusterNamespace) -> None:
    header, *rows = run(busy, "list", "-o", "wide").stdout.splitlines()
    assert header.split()[-2:] == ["ROLES", "MESSAGE"]
    assert "ps=1 worker=2" in rows[1]
    assert "old failed: worker-0 exited with code 9" in rows[2]


def test_list_all_namespaces_shows_the_namespace(busy: ClusterNamespace) -> None:
    given = ["list", "-A", "--kubeconfig", str(busy.kubeconfig)]
    result = CliRunner(env={"COLUMNS": "1000"}).invoke(main, given)
    assert [busy.name, "digits"] in [line.split()[:2] for line in result.stdout.splitlines()]


def test_list_json(busy: ClusterNamespace) -> None:
    listed = json.loads(run(busy, "list", "-o", "json").stdout)
    assert listed["kind"] == "List"
    assert {item["metadata"]["name"] for item in listed["items"]} >= {"digits", "old"}
    (old,) = (item for item in listed["items"] if item["metadata"]["name"] == "old")
    assert old["verdict"] == "failed"
    assert old["message"].startswith("old failed: worker-0 exited with code 9")
    assert all("managedFields" in item["metadata"] or item["spec"] for item in listed["items"])


def test_list_without_jobs(place: ClusterNamespace) -> None:
    result = run(place, "list")
    assert result.stdout == ""
    assert result.stderr == f"no jobs found in the namespace {place.name}\n"


def test_status_shows_job_and_tasks(busy: ClusterNamespace) -> None:
    text = run(busy, "status", "digits").stdout
    assert "state       Running for" in text
    rows = [line.split()[:4] for line in text.splitlines() if line.startswith(("ps-", "worker-"))]
    assert rows == [[task, "Running", "0", "hollow"] for task in ("ps-0", "worker-0", "worker-1")]


def test_status_of_a_failed_job_has_a_hint(busy: ClusterNamespace) -> None:
    text = run(busy, "status", "old").stdout
    assert "state       Failed for" in text
    assert "hint        windlass why old" in text
    (row,) = (line.split() for line in text.splitlines() if line.startswith("worker-0"))
    assert row[:4] == ["worker-0", "Failed", "0", "9"]


@pytest.fixture
def pending(place: ClusterNamespace) -> ClusterNamespace:
    """A job whose worker-0 is unschedulable."""
    place.submit(jobs.framework("digits", jobs.role("ps", life=jobs.FOREVER), jobs.role(life=jobs.PENDING)))
    place.wait_for_running("digits", 1)
    message = "0/2 nodes are available: 2 Insufficient cpu."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    path = place.path("pods", "digits-worker-0", "status")
    place.client.patch(path, {"status": {"phase": "Pending", "conditions": [condition]}}).expect(200)
    return place


@pytest.mark.parametrize("command", [["list"], ["status", "digits"], ["describe", "digits"]])
def test_reason_of_a_pending_task_is_shown(command: list[str], pending: ClusterNamespace) -> None:
    reason = "no suitable node: 2 of 2 nodes have too few free CPUs"
    text = " ".join(run(pending, *command).stdout.split())
    assert f"digits is running: 1 of 2 tasks; pending: worker-0: {reason}" in text
    told = json.loads(run(pending, "status", "digits", "-o", "json").stdout)
    assert told["message"].endswith(reason)


def test_status_json_is_the_framework(busy: ClusterNamespace) -> None:
    body = json.loads(run(busy, "status", "digits", "-o", "json").stdout)
    assert (body["kind"], body["status"]["state"]) == ("Framework", "AttemptRunning")


def test_describe_shows_spec_pods_and_events(busy: ClusterNamespace) -> None:
    job = busy.framework("digits")
    busy.wait_for_events(job["metadata"]["uid"], "AttemptStarted")
    text = run(busy, "describe", "digits").stdout
    for said in (
        "kind            Framework of frameworkcontroller.microsoft.com",
        "retries         none",
        "completed pods  ",
        "COMPLETES WHEN",
        "windlass/test:1",
        "digits-worker-1",
        "AttemptStarted",
    ):
        assert said in text, text


def test_describe_shows_rules_start_order_and_parallelism(place: ClusterNamespace) -> None:
    rules = [
        {"name": "some", "minSucceededTaskCount": 2, "taskRoles": ["worker"], "taskIndexes": "0-1"},
        {"allSucceeded": True, "taskRoles": ["ps", "worker"]},
        {"minFailedTaskCount": 1, "afterAll": True},
        {"minFailedAttemptCount": 9},
        {"minContainerRestartCount": 1, "taskIndexes": "0"},
    ]
    starts = [{"taskRole": "ps", "condition": "Ready"}]
    few = [{"taskRole": "ps", "condition": "Running", "minTaskCount": 1}]
    place.submit(
        jobs.framework(
            "ruled",
            jobs.role("ps", tasks=2),
            {**jobs.role(tasks=2), "startAfter": starts, "parallelism": 1},
            {**jobs.role("reader"), "startAfter": few},
            completionPolicies=rules,
            suspend=True,
        )
    )
    lines = run(place, "describe", "ruled", columns="1000").stdout.splitlines()
    titles = ("completes if", "fails if", "start order", "parallelism")
    shown = [" ".join(line.split()) for line in lines]
    assert [line for line in shown if line.lower().startswith(titles)] == [
        "completes if 2 tasks succeeded, of worker 0-1 (some)",
        "completes if all tasks succeeded, of ps, worker",
        "fails if 1 task failed, when all have completed",
        "fails if 9 attempts failed",
        "fails if 1 container restart, of 0",
        "start order worker after all ps: Ready",
        "parallelism at most 1 worker at a time",
        "start order reader after 1 ps: Running",
    ]


COMMANDS = {
    "list": ["list"],
    "wide list": ["list", "-o", "wide"],
    "status": ["status", "digits"],
    "status of a long name": ["status", "a-job-whose-name-is-rather-long-but-still-allowed"],
    "describe": ["describe", "digits"],
}


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_is_wider_than_the_terminal(command: str, width: int, busy: ClusterNamespace) -> None:
    lines = run(busy, *COMMANDS[command], columns=str(width)).stdout.splitlines()
    assert max(map(len, lines)) <= width
    names_shown = [line for line in lines if line.startswith(("digits", "worker-0", "job ", "a-job"))]
    assert names_shown
