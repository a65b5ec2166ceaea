"""Statement 49: a status that a decision removes is logged as a snapshot."""

import json
import re

import builders
import pytest
from builders import NOW, at

from windlass.controller.observe import observers
from windlass.decide import decide, initial_status
from windlass.decide.types import Observed
from windlass.model.base import Json
from windlass.model.framework import Framework, RetryPolicySpec
from windlass.model.settings import LogFrameworkSnapshot, LogObjectSnapshot, LogTaskSnapshot
from windlass.model.status import TaskStatus

COLLECTOR = re.compile(r": (On\w+): ObjectSnapshot: (.+)")


def failed(retry_of_task: int, retry_of_job: int, tasks: int = 1) -> tuple[Framework, Observed]:
    """Return a Framework whose first pod has just failed with exit code 7."""
    job = builders.framework(
        "job",
        builders.role("worker", tasks, retry=RetryPolicySpec(max_retry_count=retry_of_task)),
        retry_policy=RetryPolicySpec(max_retry_count=retry_of_job),
    )
    job = job.with_status(initial_status.framework_status(job, NOW))
    config_map = builders.config_map(job)
    pod = builders.pod(job, first_task(job), phase="Failed", exit_code=7)
    return job, Observed(config_map=config_map, pods={pod.name: pod}, known={config_map.uid, pod.uid})


def first_task(job: Framework) -> TaskStatus:
    assert job.status is not None
    return job.status.attempt_status.roles[0].task_statuses[0]


def told(job: Framework, observed: Observed, wanted: LogObjectSnapshot) -> list[tuple[str, Json]]:
    decision = decide(job, observed, at(5))
    found = [COLLECTOR.search(line) for line in observers.snapshot_lines(job, decision.reasons, wanted)]
    return [(match[1], json.loads(match[2])) for match in found if match is not None]


def test_task_retry_leaves_a_snapshot_of_the_ended_attempt() -> None:
    ((trigger, taken),) = told(*failed(1, 0, tasks=3), LogObjectSnapshot())
    assert trigger == "OnTaskRetry"
    assert (taken["kind"], taken["metadata"]["name"]) == ("Task", "job-worker-0")
    annotations = taken["metadata"]["annotations"]
    assert (annotations["FC_FRAMEWORK_NAME"], annotations["FC_TASKROLE_NAME"]) == ("job", "worker")
    assert (annotations["FC_FRAMEWORK_ATTEMPT_ID"], annotations["FC_TASK_INDEX"]) == ("0", "0")
    assert taken["metadata"]["uid"] == annotations["FC_TASK_UID"] == taken["status"]["instanceUID"]
    assert taken["spec"]["retryPolicy"]["maxRetryCount"] == 1
    task = taken["status"]
    assert task["state"] == "AttemptCompleted"
    assert task["attemptStatus"]["podUID"] == "job-worker-0-0"
    assert task["attemptStatus"]["completionStatus"]["code"] == 7


def test_framework_retry_leaves_a_snapshot_of_the_ended_attempt() -> None:
    job, observed = failed(0, 1)
    ended = decide(job, observed, at(5)).status
    assert ended is not None
    gone = Observed(known=observed.known)
    ((trigger, taken),) = told(job.with_status(ended, "9"), gone, LogObjectSnapshot())
    assert trigger == "OnFrameworkRetry"
    assert taken["status"]["state"] == "AttemptCompleted"
    assert taken["status"]["attemptStatus"]["completionStatus"]["code"] == 7


@pytest.mark.parametrize(
    "unwanted",
    [
        LogObjectSnapshot(task=LogTaskSnapshot(on_task_retry=False)),
        LogObjectSnapshot(
            task=LogTaskSnapshot(on_task_retry=False),
            framework=LogFrameworkSnapshot(on_framework_retry=False),
        ),
    ],
)
def test_each_snapshot_can_be_disabled(unwanted: LogObjectSnapshot) -> None:
    assert told(*failed(1, 0), unwanted) == []
