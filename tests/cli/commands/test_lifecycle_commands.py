"""`windlass stop`, `suspend`, `resume`, `scale`, `delete` and `wait`: effects, messages and exit codes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner, Result
from fake_kubelet import lifecycle
from in_process_cluster import ClusterNamespace
from operated import jobs
from operated.place import completion_of

from windlass.cli.main import main


def run(place: ClusterNamespace, *words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [*words, *place.options])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def running(place: ClusterNamespace) -> ClusterNamespace:
    place.submit(
        jobs.framework(
            "digits",
            jobs.role("ps", life=jobs.FOREVER),
            jobs.role(tasks=2, life=jobs.FOREVER, min_succeeded=2),
        )
    )
    place.wait_for_running("digits", 3)
    return place


def test_stop_completes_the_job(running: ClusterNamespace) -> None:
    assert "stopping digits" in run(running, "stop", "digits").stdout
    body = running.wait_for_completed("digits")
    assert completion_of(body)["phrase"] == "StopFrameworkRequested"
    assert run(running, "stop", "digits").stdout == "digits has already completed\n"
    for participle, *words in (
        ("scaled", "scale", "digits", "worker=4"),
        ("suspended", "suspend", "digits"),
        ("resumed", "resume", "digits"),
    ):
        expected = f"it cannot be {participle}. Run it again with `windlass submit --rerun FILE`."
        error = run(running, *words, code=1).stderr
        assert error.startswith("windlass: digits stopped after ")
        assert expected in error


def test_stopping_job_cannot_be_suspended(running: ClusterNamespace) -> None:
    stays = lifecycle.annotations(runs_for="never", stops_after="never")
    running.submit(jobs.framework("slow", jobs.role(life=stays)))
    running.wait_for_running("slow", 1)
    run(running, "stop", "slow")
    assert run(running, "stop", "slow").stdout == "slow is already being stopped\n"
    assert "is being stopped" in run(running, "suspend", "slow", code=1).stderr


def test_suspended_job_can_be_resumed(running: ClusterNamespace) -> None:
    assert "windlass resume digits" in run(running, "suspend", "digits").stdout
    running.wait_for_condition("digits", "Suspended")
    assert run(running, "suspend", "digits").stdout == "digits is already suspended\n"
    assert not running.pods("digits")
    assert "a new attempt starts" in run(running, "resume", "digits").stdout
    running.wait_for_running("digits", 3)
    assert run(running, "resume", "digits").stdout == "digits is not suspended\n"


def test_resume_explains_a_held_job(place: ClusterNamespace) -> None:
    place.submit(jobs.framework("digits", executionType="Create"))
    assert "its executionType is Create" in run(place, "resume", "digits").stdout


def test_unknown_job_does_not_affect_the_other_jobs(running: ClusterNamespace) -> None:
    result = run(running, "stop", "missing", "digits", code=1)
    assert "stopping digits" in result.stdout
    assert 'there is no job "missing"' in result.stderr


def test_scale_updates_tasks_and_completion_policy(running: ClusterNamespace) -> None:
    said = run(running, "scale", "digits", "worker=4", "ps=2").stdout
    assert said == (
        "digits: scaled worker from 2 to 4 tasks; changed its minSucceededTaskCount from 2 to 4; "
        "scaled ps from 1 to 2 tasks\n"
    )
    running.wait_for_running("digits", 6)
    ps, worker = running.framework("digits")["spec"]["taskRoles"]
    assert (ps["taskNumber"], worker["taskNumber"]) == (2, 4)
    assert worker["frameworkAttemptCompletionPolicy"]["minSucceededTaskCount"] == 4
    assert "already has 4 tasks" in run(running, "scale", "digits", "worker=4").stdout


def test_scaled_up_job_waits_for_all_workers(running: ClusterNamespace) -> None:
    run(running, "scale", "digits", "worker=3")
    running.wait_for_running("digits", 4)
    for index in (0, 1):
        running.end_pod(f"digits-worker-{index}")
    running.wait(
        "digits", lambda body: body["status"]["summary"]["succeeded"] == 2, "two that have succeeded"
    )
    assert running.framework("digits")["status"]["state"] == "AttemptRunning"
    running.end_pod("digits-worker-2")
    assert completion_of(running.wait_for_completed("digits"))["code"] == 0


WRONG = {
    "no number": ("worker=", "expected ROLE=NUMBER"),
    "no role": ("=4", "expected ROLE=NUMBER"),
    "words": ("worker=many", "expected ROLE=NUMBER"),
    "negative": ("worker=-1", "expected ROLE=NUMBER"),
    "too many": ("worker=10001", "from 0 to 10000"),
    "unknown": ("wroker=4", 'Did you mean "worker"?'),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_scale_is_rejected(case: str, running: ClusterNamespace) -> None:
    written, said = WRONG[case]
    before = running.framework("digits")["spec"]
    assert said in run(running, "scale", "digits", written, code=2).stderr
    assert running.framework("digits")["spec"] == before


def test_delete_removes_jobs_and_their_pods(running: ClusterNamespace) -> None:
    running.submit(jobs.framework("other", jobs.role(life=jobs.SUCCEEDS)))
    result = run(running, "delete", "digits", "missing", "other", code=1)
    assert result.stdout == "digits deleted\nother deleted\n"
    assert 'there is no job "missing"' in result.stderr
    assert not running.pods("digits")
    assert run(running, "wait", "digits", "--for", "deleted").stdout.startswith("there is no job")


def test_delete_times_out(place: ClusterNamespace) -> None:
    stays = lifecycle.annotations(runs_for="never", stops_after="never")
    place.submit(jobs.framework("digits", jobs.role(life=stays)))
    place.wait_for_running("digits", 1)
    assert "not deleted after 0.05 s" in run(place, "delete", "digits", "--timeout", "0.05s", code=124).stderr
    assert run(place, "delete", "digits", "--no-wait").stdout == "digits is being deleted\n"
    assert (
        "not deleted"
        in run(place, "wait", "digits", "--for", "deleted", "--timeout", "0.05s", code=124).stderr
    )
    goes = lifecycle.annotations(stops_after=0)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(run, place, "wait", "digits", "--for", "deleted")
        place.client.patch(place.path("pods", "digits-worker-0"), {"metadata": {"annotations": goes}})
        said = waits.result(timeout=120).stdout
    # The job may have been deleted before the wait began.
    assert said.endswith("digits deleted\n") or said.startswith("there is no job")


ENDS = {"success": (0, 0), "exit code": (3, 3), "large exit code": (255, 255)}


@pytest.mark.parametrize("case", ENDS)
def test_wait_returns_the_exit_code_of_the_job(case: str, place: ClusterNamespace) -> None:
    ended, exits = ENDS[case]
    place.submit(jobs.framework("digits", jobs.role(life=jobs.fails(ended))))
    said = run(place, "wait", "digits", code=exits).stdout
    assert said.splitlines()[-1].startswith("digits failed: " if exits else "digits succeeded in ")


def test_wait_prints_status_changes(running: ClusterNamespace) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run, running, "wait", "digits", code=4)
        running.end_pod("digits-worker-1", exit_code=4)
        lines = waiting.result(timeout=120).stdout.splitlines()
    assert lines[-1].startswith("digits failed: ")
    assert len(set(lines)) == len(lines)


def test_wait_for_running(place: ClusterNamespace) -> None:
    place.submit(jobs.framework("digits", jobs.role(tasks=3, life=jobs.FOREVER)))
    said = run(place, "wait", "digits", "--for", "running").stdout
    assert said.splitlines()[-1] == "digits: Running (3 running of 3)"


def test_wait_for_running_ends_when_the_job_fails(place: ClusterNamespace) -> None:
    role = jobs.role(life=jobs.fails(5))
    waits = jobs.role("ps", life=jobs.PENDING)
    place.submit(jobs.framework("digits", role, waits))
    result = run(place, "wait", "digits", "--for", "running", code=5)
    assert "(before all of its tasks ran)" in result.stderr


def test_wait_ends_when_the_job_is_deleted(running: ClusterNamespace) -> None:
    with ThreadPoolExecutor(1) as pool:
        began = pool.submit(CliRunner().invoke, main, ["wait", "digits", *running.options])
        running.delete("digits", "Foreground")
        result = began.result(timeout=120)
    # The job may be deleted before or after the wait reads it.
    assert (result.exit_code, "was deleted" in result.output or "there is no job" in result.output) in (
        (125, True),
        (1, True),
    )
