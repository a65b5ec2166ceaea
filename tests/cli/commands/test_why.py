"""The output of `windlass why` and `windlass events`."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from operated import jobs
from scripted_cluster import Place

from windlass.cli.commands import why as module
from windlass.client.events import Event
from windlass.client.explain.explanation import Explanation, Outcome
from windlass.client.explain.failures import Failure
from windlass.client.explain.pending import PendingTasks
from windlass.client.explain.retries import Retries
from windlass.client.views import JobState

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def place(scripted_place: Place) -> Place:
    return scripted_place


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import time

    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


FAILURE = Failure(
    task="worker-1",
    attempt=2,
    code=137,
    phrase="ContainerSigKillReceived",
    failure_class="Transient",
    node="node-7",
    at=datetime(2026, 1, 1, 11, 59, tzinfo=UTC),
    container="main",
    container_reason="OOMKilled",
    lines=("one", "two"),
    lines_from="log",
)
FAILED = Explanation(
    job="digits",
    namespace="default",
    state=JobState.RETRYING,
    message="digits has ended attempt 1: worker-1 ended with 137",
    attempt=1,
    since=datetime(2026, 1, 1, 11, 59, tzinfo=UTC),
    outcome=Outcome(code=137, phrase="ContainerSigKillReceived", because="a rule was met"),
    failure=FAILURE,
    task_retries=Retries(total=2, counted=2, uncounted=0, limit=2, follows=False, reason="it is used up"),
    job_retries=Retries(
        total=1,
        counted=0,
        uncounted=1,
        limit=3,
        follows=True,
        reason="transient failure",
        at=datetime(2026, 1, 1, 12, 0, 40, tzinfo=UTC),
    ),
    history=(Event(NOW, NOW, 2, "Warning", "AttemptEnding", "digits", "Attempt 0 ends", "u"),),
)
TEXT = """\
digits has ended attempt 1: worker-1 ended with 137 (1 min ago)

Last lines of worker-1 (log)
  one
  two

History
  2026-01-01 12:00:00 ! digits       AttemptEnding (x2): Attempt 0 ends
  task      2 retries so far: 2 counted (maxRetryCount 2)
            worker-1 is not retried: it is used up
  job       1 retry so far: 0 counted (maxRetryCount 3), 1 not counted
            digits is retried: transient failure, at 2026-01-01 12:00:40 (in 40 s)

Details
  task      worker-1, attempt 2 (in attempt 1 of the job)
  code      137 ContainerSigKillReceived
  class     Transient: may succeed when retried
  container main (OOMKilled)
  node      node-7
  ended     2026-01-01 11:59:00
  cause     a rule was met
"""


def test_why_explains_a_failure() -> None:
    assert "\n".join(module.text_lines(FAILED, NOW)) + "\n" == TEXT


def test_why_explains_a_pending_job() -> None:
    found = Explanation(
        job="digits",
        namespace="default",
        state=JobState.PENDING,
        message="digits is pending: worker-0, worker-1: no suitable node",
        waits=(PendingTasks(("worker-0", "worker-1"), "no suitable node", "Add a node."),),
        advice="Add a node.",
    )
    # With one reason, the verdict has said everything.
    assert list(module.text_lines(found, NOW)) == [found.message, "Add a node."]
    other = PendingTasks(("ps-0",), "the Secret token does not exist", "Create it.")
    found = msgspec.structs.replace(
        found, message="digits is pending: worker-0, worker-1, ps-0", waits=(*found.waits, other), advice=""
    )
    assert list(module.text_lines(found, NOW)) == [
        "digits is pending: worker-0, worker-1, ps-0",
        "",
        "Pending",
        "  worker-0, worker-1: no suitable node. Add a node.",
        "  ps-0: the Secret token does not exist. Create it.",
    ]


def test_why_says_since_when_a_job_is_suspended() -> None:
    found = Explanation(
        job="digits",
        namespace="default",
        state=JobState.SUSPENDED,
        message="digits is suspended",
        since=NOW - timedelta(seconds=90),
        advice="Resume it with `windlass resume digits`.",
    )
    assert list(module.text_lines(found, NOW)) == [
        "digits is suspended (since 2026-01-01 11:58:30, for 1 min 30 s)",
        "Resume it with `windlass resume digits`.",
    ]


def test_running_job_has_a_duration() -> None:
    found = Explanation(
        job="digits",
        namespace="default",
        state=JobState.RUNNING,
        message="digits is running: 1 of 1 task",
        since=NOW - timedelta(seconds=5),
    )
    assert list(module.text_lines(found, NOW)) == ["digits is running: 1 of 1 task (for 5 s)"]


def test_why_escapes_control_characters_of_logs(place: Place) -> None:
    place.submit(jobs.framework("gone", jobs.role(life=jobs.fails(3, message="\x1b[2Jlast words"))))
    place.wait_for_completed("gone")
    result = place.windlass("why", "gone")
    assert result.exit_code == 0
    first, *_ = result.stdout.splitlines()
    assert re.match(
        r"gone failed: worker-0 exited with code 3( within 1 s| after \d+ s)? \(\d+ s ago\)", first
    )
    assert "  \\x1b[2Jlast words\n" in result.stdout
    assert "PodPattern" not in result.stdout
    assert "class     unknown: it is unknown whether a retry would help" in result.stdout
    told = json.loads(place.windlass("why", "gone", "--output", "json").stdout)
    assert (told["state"], told["failure"]["task"], told["failure"]["class"]) == (
        "Failed",
        "worker-0",
        "unknown",
    )
    assert told["jobRetries"]["reason"] == "no retries allowed (maxRetryCount 0)"


def test_events_are_listed(place: Place) -> None:
    made = place.submit(jobs.framework("told", jobs.role(life=jobs.fails(3))))
    place.wait_for_completed("told")
    place.wait_for_events(made["metadata"]["uid"], "AttemptStarted", "TaskFailed", "FrameworkCompleted")
    lines = place.windlass("events", "told").stdout.splitlines()
    assert any(line.endswith("  told         AttemptStarted: attempt started") for line in lines)
    assert any(" ! told         TaskFailed: worker-0 exited with code 3" in line for line in lines)
    assert "PodPattern" not in "".join(lines)
    told = [json.loads(line) for line in place.windlass("events", "told", "-o", "json").stdout.splitlines()]
    assert {"AttemptStarted", "TaskFailed", "FrameworkCompleted"} <= {each["reason"] for each in told}
    assert {each["object"] for each in told} == {"told"}


@pytest.mark.parametrize("command", ["why", "events", "logs"])
def test_unknown_job_is_reported(place: Place, command: str) -> None:
    result = place.windlass(command, "missing")
    assert (result.exit_code, result.stdout) == (1, "")
    assert 'there is no job "missing"' in result.stderr
