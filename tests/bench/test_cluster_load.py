"""The load benchmark: counting and comparing."""

import json
import sys
import time
from pathlib import Path

import msgspec
import pytest

from cluster_load import contenders, floor, report, requests_made, results, scenarios, workloads
from cluster_load.processes import Program
from cluster_load.results import Result
from cluster_load.workloads import Pods
from windlass.kubeapi.resources import JOBS


def entry(verb: str, resource: str, user: str = "controller", **more: object) -> bytes:
    subresource = more.pop("subresource", "")
    return json.dumps(
        {
            "stage": "ResponseComplete",
            "verb": verb,
            "user": {"username": user},
            "objectRef": {"resource": resource, "subresource": subresource},
            "responseStatus": {"code": 200},
            "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
            "stageTimestamp": "2026-01-01T00:00:00.250000Z",
            **more,
        }
    ).encode()


LOG = [
    entry("create", "pods"),
    entry("create", "pods", "kubelet"),
    entry("patch", "frameworks", subresource="status"),
    entry("patch", "frameworks", subresource="status", responseStatus={"code": 409}),
    entry("create", "events"),
    entry("update", "leases"),
    entry("list", "pods"),
    entry("watch", "pods", stage="ResponseStarted"),
    entry("watch", "pods"),
]


def test_requests_are_counted_by_user_and_kind() -> None:
    requests = list(requests_made.parse(LOG))
    assert requests_made.by_kind(requests, "controller") == {
        "patch frameworks/status": 2,
        "create pods": 1,
        "create events": 1,
        "update leases": 1,
        "list pods": 1,
        "watch pods": 1,
    }
    assert requests_made.counted(requests, "controller") == 3, (
        "what changes something, but for leases and events"
    )
    assert requests_made.conflicts(requests, "controller") == 1
    assert requests_made.seconds_of(requests, "controller", "frameworks/status") == pytest.approx(0.5)


def test_audit_log_is_read_incrementally(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = requests_made.AuditLog(path)
    path.write_bytes(LOG[0] + b"\n" + LOG[2][:40])
    assert [each.what for each in log.new()] == ["pods"]
    assert log.new() == []
    with path.open("ab") as file:
        file.write(LOG[2][40:] + b"\n")
    assert [each.what for each in log.new()] == ["frameworks/status"]


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([], 0.5, 0.0),
        ([3.0], 0.99, 3.0),
        ([4.0, 1.0, 2.0, 3.0], 0.5, 3.0),
        ([float(n) for n in range(100)], 0.99, 99.0),
    ],
)
def test_quantile(values: list[float], share: float, expected: float) -> None:
    assert results.quantile(values, share) == expected


def result(contender: str, jobs_per_second: float, p50: float, pods: str = "kept", **more: float) -> Result:
    return Result(
        "burst of 100",
        contender,
        pods,
        jobs=100,
        tasks=2,
        done=100,
        seconds=1.0,
        jobs_per_second=jobs_per_second,
        done_p50=p50,
        **more,  # type: ignore[arg-type]
    )


ALL = [result("windlass", 30, 2.0, conflicts=0), result("floor", 40, 1.0), result("Job controller", 20, 3.0)]


def test_windlass_is_compared_with_each_contender() -> None:
    lines = report.table(ALL).splitlines()
    (ours,) = [line for line in lines if "windlass" in line]
    (floors,) = [line for line in lines if "| floor" in line]
    (jobs,) = [line for line in lines if "Job controller" in line]
    assert "×" not in ours
    assert "× 0.75" in floors
    assert "× 0.50" in floors
    assert "× 1.50" in jobs
    assert len({len(line) for line in lines if line.startswith("|")}) == 1, (
        "the columns stand below each other"
    )


def test_changes_since_the_last_run_are_shown() -> None:
    last = [result("windlass", 20, 2.0), *ALL[1:]]
    table = report.table(ALL, last)
    assert "× 0.75 (was 0.50)" in table
    assert "× 1.50 (was 1.00)" in table
    assert "(was" not in report.table(ALL, ALL)


def test_targets_are_reached_or_missed() -> None:
    slow = [result("windlass", 10, 2.0, conflicts=3), *ALL[1:]]
    missed = [line for line in report.verdicts(slow) if line.startswith("MISSED")]
    assert any(
        "jobs/s of Windlass ÷ jobs/s of the Job controller: 0.5 (target ≥ 0.95)" in line for line in missed
    )
    assert any("409: 3" in line for line in missed)
    assert not any(line.startswith("MISSED") for line in report.verdicts(ALL))


def test_results_of_other_runs_are_not_compared() -> None:
    mixed = [msgspec.structs.replace(ALL[0], run="today"), *ALL[1:]]
    assert "×" not in report.table(mixed)
    assert not any("jobs/s of Windlass" in line for line in report.verdicts(mixed))
    assert list(report.runs(mixed)) == ["today: burst of 100", ": burst of 100"]


@pytest.mark.parametrize(
    ("scenario", "counted"),
    [
        ("one of 10000 tasks", {"notes": {"status_writes_seconds": 0.5}}),
        ("1000 idle, then deleted", {"conflicts": 0, "requests": {"get pods": 1}}),
    ],
)
def test_missing_server_counts_do_not_reach_a_target(scenario: str, counted: dict[str, object]) -> None:
    unseen = Result(scenario, "windlass", "kept", jobs=1, done=1, seconds=1.0)
    (only,) = report.verdicts([unseen])
    assert "not done" in only
    seen = msgspec.structs.replace(unseen, **counted)
    assert [line[:6] for line in report.verdicts([seen])] == ["reache", "MISSED"]


@pytest.mark.parametrize("pods", Pods)
def test_floor_writes_what_a_framework_of_that_size_needs(pods: Pods) -> None:
    written = floor.prepare(3, pods)
    states = [
        msgspec.json.decode(patch)[0]["value"]["state"]
        for patch in (written.preparing, written.pods_created, written.running, written.completed)
    ]
    assert states == ["AttemptPreparing", "AttemptPreparing", "AttemptRunning", "Completed"]
    assert bool(written.ending) is (pods is Pods.REMOVED)
    assert len(written.pods) == 3
    named = floor.named(written.pods[2], "job-7", "job-7-worker-2", floor.Owner("cm", "uid-7"))
    assert named["metadata"]["labels"][workloads.LABEL] == "job-7"
    assert named["metadata"]["labels"]["windlass.dev/attempt"] == "uid-7"
    assert named["metadata"]["ownerReferences"][0]["uid"] == "uid-7"


@pytest.mark.parametrize(
    ("status", "is_done"),
    [({}, False), ({"state": "AttemptRunning"}, False), ({"state": "Completed"}, True)],
)
def test_completed_framework_is_done(status: dict[str, str], is_done: bool) -> None:
    assert workloads.is_done(workloads.FRAMEWORKS, status) is is_done


def test_completed_job_is_done() -> None:
    assert workloads.is_done(JOBS, {"conditions": [{"type": "Complete", "status": "True"}]})
    assert not workloads.is_done(JOBS, {"conditions": [{"type": "Complete", "status": "False"}]})
    assert not workloads.is_done(JOBS, {})


def test_program_is_measured_with_its_children(tmp_path: Path) -> None:
    inner = "x = bytearray(50_000_000); print('filled', flush=True); import signal; signal.pause()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    program = Program([sys.executable, "-c", code], tmp_path / "log")
    try:
        while "filled" not in program.log.read_text():
            time.sleep(0.01)
        assert program.peak_megabytes() > 50
        assert program.cpu_seconds() > 0
    finally:
        program.stop()
    while program.peak_megabytes():  # of killed processes, until they are gone
        time.sleep(0.01)
    assert program.has_ended


def test_other_controller_is_not_taken_for_windlass() -> None:
    older = contenders.other("./old/bin/windlass controller")
    assert older.name not in {
        contenders.WINDLASS.name,
        contenders.other("./older/bin/windlass controller").name,
    }
    assert older.resource == contenders.WINDLASS.resource


def test_small_rates_keep_their_digits() -> None:
    assert scenarios._per_second(1, 140.43) == pytest.approx(1 / 140.43, rel=1e-3)
    assert scenarios._per_second(0, 0.0) == 0.0


def test_floor_uses_the_newest_version_of_a_pod() -> None:
    attempt = floor._Attempt(2)
    attempt.see("a", "Running", 12, is_gone=False)
    attempt.see("b", "Running", 9, is_gone=False)
    assert attempt.newest == 12
    assert attempt.are_running.is_set()
    assert not attempt.have_ended.is_set()


def test_median_of_rounds_has_the_spread() -> None:
    rounds = [
        result("windlass", speed, 2.0, cpu_ms_per_job=cpu) for speed, cpu in ((30, 5.0), (10, 7.0), (20, 9.0))
    ]
    found = results.median_of([*rounds[:2], msgspec.structs.replace(rounds[2], done=99)])
    assert (found.jobs_per_second, found.jobs_per_second_range) == (20, (10, 30))
    assert (found.cpu_ms_per_job, found.done, found.rounds) == (7.0, 99, 3)
    assert "10 … 30" in report.table([found])


def test_summary_compares_windlass_with_the_job_controller() -> None:
    ours = msgspec.structs.replace(ALL[0], first_pod_p99=2.2)
    theirs = msgspec.structs.replace(ALL[2], first_pod_p99=2.0)
    head, _, line = report.summary([ours, ALL[1], theirs]).splitlines()
    assert [cell.strip() for cell in line.split("|")[1:7]] == [
        *("burst of 100", "kept", "30", "× 1.50", "× 1.50", "× 1.10")
    ]
    assert "× 0.75" in line, "of the floor"
    assert len(head) == len(line)
