"""The definition of the reference on an API server (statements 1 and 2)."""

from collections.abc import Iterator
from typing import Any

import pytest

from server_process import RunningServer, serving_in_thread
from windlass.model import names
from windlass.model.base import Json
from windlass.wire.crd import manifests as crd_manifests

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FRAMEWORKS = f"/apis/{names.CONTROLLER_GROUP}/v1/namespaces/default/frameworks"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving_in_thread(tmp_path_factory.mktemp("server") / "data") as served:
        assert served.ask("POST", DEFINITIONS, crd_manifests.reference_crd()).code == 201
        yield served


def framework(name: str = "digits", role: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": f"{names.CONTROLLER_GROUP}/v1",
        "kind": "Framework",
        "metadata": {"name": name},
        "spec": {"taskRoles": [{"name": "worker", "taskNumber": 1, **(role or {})}], **spec},
    }


@pytest.mark.parametrize(
    "good",
    [
        framework("plain"),
        framework("create", executionType="Create"),
        framework("retry", retryPolicy={"fancyRetryPolicy": True, "maxRetryCount": -2}),
        framework("none", {"taskNumber": 0}),
        framework("most", {"taskNumber": 10_000}),
        framework("off", {"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": -1}}),
        framework("grace", {"task": {"podGracefulDeletionTimeoutSec": None}}),
        {**framework("nothing"), "status": None},
    ],
    ids=lambda body: body["metadata"]["name"],
)
def test_valid_framework_is_accepted(server: RunningServer, good: Json) -> None:
    assert server.ask("POST", FRAMEWORKS, good).code == 201


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (framework(role={"taskNumber": -1}), "spec.taskRoles[0].taskNumber"),
        (framework(role={"taskNumber": 10_001}), "spec.taskRoles[0].taskNumber"),
        (framework(role={"name": "a-b"}), "spec.taskRoles[0].name"),
        (framework(retryPolicy={"maxRetryCount": -3}), "spec.retryPolicy.maxRetryCount"),
        (framework(executionType="Run"), "spec.executionType"),
        (
            framework(role={"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": -2}}),
            "spec.taskRoles[0].frameworkAttemptCompletionPolicy.minFailedTaskCount",
        ),
        (
            framework(role={"frameworkAttemptCompletionPolicy": {"minSucceededTaskCount": -2}}),
            "spec.taskRoles[0].frameworkAttemptCompletionPolicy.minSucceededTaskCount",
        ),
        (framework("tf-example"), "metadata.name"),
    ],
    ids=str,
)
def test_invalid_framework_is_rejected(server: RunningServer, bad: Json, field: str) -> None:
    answer = server.ask("POST", FRAMEWORKS, bad)
    assert answer.code == 422
    assert {cause["field"] for cause in answer.body["details"]["causes"]} == {field}


def test_status_is_written_with_the_whole_object(server: RunningServer) -> None:
    """Without a status subresource, a server keeps all fields of a status or pod template."""
    pod = {"spec": {"containers": [], "somethingNew": 1}}
    body = {**framework("whole", {"task": {"pod": pod}}), "status": {"state": "Completed", "new": {"a": [1]}}}

    created = server.ask("POST", FRAMEWORKS, body).body

    assert created["status"] == body["status"]
    assert created["spec"]["taskRoles"][0]["task"]["pod"] == pod
    assert server.ask("GET", f"{FRAMEWORKS}/whole/status").code == 404


def test_fields_of_windlass_are_dropped(server: RunningServer) -> None:
    created = server.ask("POST", FRAMEWORKS, framework("ours", suspend=True, completedPods="Keep")).body
    assert set(created["spec"]) == {"taskRoles"}
