"""The load benchmark on a real API server with a few jobs: completion and counts.

Times are not checked.
"""

import shlex
import sys

import pytest

from cluster_load import contenders, scenarios, stages
from cluster_load.contenders import Contender
from cluster_load.results import Result
from cluster_load.scenarios import Scenario
from cluster_load.workloads import Pods

pytestmark = pytest.mark.kubernetes

JOBS = 4
TASKS = 2
SECONDS = 300.0
OTHER = contenders.other(
    f"{shlex.quote(sys.executable)} -m windlass.cli.main controller --metrics-address 127.0.0.1:0"
)


def played(scenario: Scenario, contender: Contender, pods: Pods) -> Result:
    with stages.stage() as stage:
        return scenario.run(stage, contender, pods)


BURST = Scenario("burst", JOBS, TASKS, SECONDS, scenarios.until_done)


@pytest.mark.parametrize(
    ("contender", "pods"),
    [(OTHER, Pods.KEPT), (contenders.FLOOR, Pods.REMOVED)],
    ids=["other", "floor"],
)
def test_burst_of_frameworks_completes(contender: Contender, pods: Pods) -> None:
    result = played(BURST, contender, pods)
    assert result.done == JOBS
    assert result.conflicts == 0
    assert result.requests["create configmaps"] == JOBS
    assert result.requests["create pods"] == JOBS * TASKS
    assert result.requests["patch frameworks/status"] >= JOBS
    assert result.requests.get("deletecollection pods", 0) == (JOBS if pods is Pods.REMOVED else 0)
    assert result.notes["status_writes_seconds"] > 0
    assert_measured(result)


def test_burst_of_jobs_completes() -> None:
    result = played(BURST, contenders.JOB_CONTROLLER, Pods.KEPT)
    assert result.done == JOBS
    # It sometimes creates one pod too many when its watch is behind, and deletes it again.
    assert result.requests["create pods"] >= JOBS * TASKS
    assert result.requests["update jobs/status"] >= JOBS
    assert_measured(result)


def assert_measured(result: Result) -> None:
    assert result.cpu_ms_per_job
    assert result.peak_mb
    assert 0 < result.first_pod_p50 <= result.done_p50


def test_restarted_controller_writes_only_for_the_new_job() -> None:
    scenario = Scenario("restart", JOBS, TASKS, SECONDS, scenarios.restarted)
    result = played(scenario, contenders.WINDLASS, Pods.KEPT)
    assert result.done == JOBS
    assert result.requests["create pods"] == TASKS
    assert result.requests["create configmaps"] == 1
