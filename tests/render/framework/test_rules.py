"""The Framework of a job file with completion, start order, processes per task and fields of the Framework."""

from typing import Any

import msgspec
import pytest

from windlass.model.base import Json
from windlass.model.job import Job
from windlass.render import validation
from windlass.render.framework import builder


def job(**fields: Any) -> Job:
    roles = fields.pop("roles", {"worker": {"tasks": 2}})
    return msgspec.convert({"name": "job", "command": "true", "image": "x", "roles": roles, **fields}, Job)


def spec_of(**fields: Any) -> Json:
    spec: Json = builder.framework(job(**fields))["spec"]
    return spec


def test_job_follows_one_task() -> None:
    roles = {"ps": {"tasks": 1}, "worker": {"tasks": 2}}
    spec = spec_of(runtime="tensorflow", completion={"task": "worker-0"}, roles=roles)
    assert spec["completionPolicies"] == [
        {
            "name": "worker-0 succeeded",
            "taskRoles": ["worker"],
            "taskIndexes": "0",
            "minSucceededTaskCount": 1,
        }
    ]
    policies = [role["frameworkAttemptCompletionPolicy"] for role in spec["taskRoles"]]
    assert policies == [{"minFailedTaskCount": 1, "minSucceededTaskCount": -1}] * 2


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([{"minFailedTaskCount": 2}], [{"minFailedTaskCount": 2}, "worker-0 succeeded"]),
        ([], ["worker-0 succeeded"]),
        (None, None),
    ],
)
def test_rules_of_the_file_precede_that_of_completion(rules: Any, expected: Any) -> None:
    spec = spec_of(completion={"task": "worker-0"}, framework={"completionPolicies": rules})
    found = spec.get("completionPolicies")
    assert (found and [each.get("name", each) for each in found]) == expected


def test_start_order() -> None:
    roles = {"ps": {"tasks": 1}, "worker": {"tasks": 2, "after": {"ps": "Ready"}}}
    first, second = spec_of(roles=roles)["taskRoles"]
    assert "startAfter" not in first
    assert second["startAfter"] == [{"taskRole": "ps", "condition": "Ready"}]


def test_fields_of_the_framework_are_merged() -> None:
    framework = {
        "completedPods": None,
        "retryPolicy": {"maxRetryCount": 7},
        "taskRoles": [
            {
                "name": "worker",
                "parallelism": 1,
                "task": {"retryPolicy": {"maxRetryCount": 4}, "pod": {"spec": {"hostNetwork": True}}},
            }
        ],
    }
    plain, spec = spec_of(), spec_of(framework=framework)
    assert "completedPods" not in spec
    assert spec["retryPolicy"] == {**plain["retryPolicy"], "maxRetryCount": 7}
    (worker,) = spec["taskRoles"]
    assert (worker["parallelism"], worker["taskNumber"]) == (1, 2)
    assert worker["task"]["retryPolicy"]["maxRetryCount"] == 4
    assert worker["task"]["pod"]["spec"]["hostNetwork"] is True
    assert worker["task"]["pod"]["spec"]["containers"][0]["name"] == "main"


def test_processes_per_task_of_a_role_override_those_of_the_job() -> None:
    roles = {"worker": {"tasks": 2}, "reader": {"tasks": 1, "processesPerTask": 3}}
    spec = spec_of(runtime="pytorch", processesPerTask="auto", roles=roles)
    environments = [
        {each["name"]: each.get("value") for each in role["task"]["pod"]["spec"]["containers"][0]["env"]}
        for role in spec["taskRoles"]
    ]
    assert [each["PET_NPROC_PER_NODE"] for each in environments] == ["auto", "3"]


def test_processes_per_task_are_the_slots_of_mpi() -> None:
    spec = spec_of(runtime="mpi", processesPerTask=3)
    assert spec["taskRoles"][0]["task"]["pod"]["metadata"]["annotations"]["windlass.dev/slots"] == "3"


def test_job_without_these_fields_has_none_of_them() -> None:
    spec = spec_of()
    assert "completionPolicies" not in spec
    assert not {"startAfter", "parallelism"} & spec["taskRoles"][0].keys()


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        ({"completion": {"task": "worker-2"}}, "completion.task", "worker-0 to worker-1"),
        ({"completion": {"task": "chief-0"}}, "completion.task", "worker-0 to worker-1"),
        ({"processesPerTask": 2}, "processesPerTask", "only pytorch and mpi"),
        ({"runtime": "mpi", "processesPerTask": "gpu"}, "processesPerTask", "expected a number"),
        ({"roles": {"worker": {"after": {"ps": "Ready"}}}}, "roles.worker.after", 'unknown role "ps"'),
        ({"framework": {"completionPolicies": [{}]}}, "framework.completionPolicies", "no condition"),
        ({"framework": {"paralelism": 1}}, "framework.paralelism", "unknown field"),
    ],
)
def test_mistake_is_reported_with_its_field(fields: dict[str, Any], path: str, words: str) -> None:
    found = [each for each in validation.diagnostics_of(job(**fields)) if each.is_error]
    assert [each.path for each in found] == [path]
    assert words in found[0].message
