"""Object snapshots in the log (statement 49)."""

import json
import re
from datetime import UTC, datetime

import msgspec
import pytest

from windlass.k8s.metadata import ObjectMeta
from windlass.model.base import Json
from windlass.model.framework import Framework, FrameworkSpec, TaskRoleSpec, TaskSpec
from windlass.model.settings import LogFrameworkSnapshot, LogObjectSnapshot, LogPodSnapshot, LogTaskSnapshot
from windlass.model.states import State
from windlass.model.status import (
    FrameworkAttemptStatus,
    FrameworkStatus,
    TaskAttemptStatus,
    TaskRoleStatus,
    TaskStatus,
)
from windlass.wire import codec
from windlass.wire.snapshots import SnapshotTrigger, is_enabled, snapshot_line, task_snapshot

NOW = datetime(2024, 5, 1, tzinfo=UTC)
COLLECTOR = re.compile(": ObjectSnapshot: (.+)")


def task_status(index: int) -> TaskStatus:
    attempt = TaskAttemptStatus(start_time=NOW, pod_name=f"job-worker-{index}")
    return TaskStatus(index=index, start_time=NOW, transition_time=NOW, attempt_status=attempt)


def role_status(name: str, *indices: int) -> TaskRoleStatus:
    return TaskRoleStatus(name=name, task_statuses=tuple(map(task_status, indices)))


def framework(*roles: TaskRoleStatus, with_status: bool = True) -> Framework:
    attempt = FrameworkAttemptStatus(start_time=NOW, config_map_name="job-attempt", task_role_statuses=roles)
    status = FrameworkStatus(start_time=NOW, transition_time=NOW, attempt_status=attempt)
    pod = {"spec": {"containers": [{"command": ["sh", "-c", "echo 1\necho 2\u2028"]}]}}
    spec = FrameworkSpec(
        task_roles=(TaskRoleSpec("ps", 2), TaskRoleSpec("worker", 2, task=TaskSpec(pod=pod))),
    )
    metadata = ObjectMeta(name="job", namespace="default")
    return Framework(
        "launcher.microsoft.com/v1", "Framework", metadata, spec, status if with_status else None
    )


WHOLE = framework(role_status("ps", 0, 1), role_status("worker", 0, 1))


@pytest.mark.parametrize(
    ("trigger", "name"),
    [
        (SnapshotTrigger.FRAMEWORK_RETRY, "OnFrameworkRetry"),
        (SnapshotTrigger.FRAMEWORK_DELETION, "OnFrameworkDeletion"),
        (SnapshotTrigger.TASK_RETRY, "OnTaskRetry"),
        (SnapshotTrigger.TASK_DELETION, "OnTaskDeletion"),
        (SnapshotTrigger.POD_DELETION, "OnPodDeletion"),
    ],
)
def test_statement_49_message_has_trigger_and_json(trigger: SnapshotTrigger, name: str) -> None:
    line = snapshot_line("[default/job]: retried", trigger, {"a": [1, None]})
    assert line == f'[default/job]: retried: {name}: ObjectSnapshot: {{"a":[1,null]}}'


@pytest.mark.parametrize(
    "message",
    ["", "plain", "two\nlines\r\nand more\n", "with : ObjectSnapshot: inside", "a\u2028b\x85c\x0bd"],
)
def test_statement_49_snapshot_is_one_parsable_line(message: str) -> None:
    line = snapshot_line(message, SnapshotTrigger.FRAMEWORK_RETRY, WHOLE)
    assert len(line.splitlines()) == 1
    found = COLLECTOR.search(line)
    assert found is not None
    assert codec.decode_framework(found[1].encode()) == WHOLE


@pytest.mark.parametrize(
    ("obj", "parsed"),
    [
        ({"kind": "Pod", "x": "a\nb"}, {"kind": "Pod", "x": "a\nb"}),
        (b'{\n  "kind": "Pod",\n  "x": "a\\nb \xe2\x80\xa8"\n}\n', {"kind": "Pod", "x": "a\nb \u2028"}),
    ],
    ids=["an object", "its bytes, laid out for people"],
)
def test_statement_49_snapshot_of_other_objects(obj: Json | bytes, parsed: Json) -> None:
    line = snapshot_line("gone", SnapshotTrigger.POD_DELETION, obj)
    assert len(line.splitlines()) == 1
    found = COLLECTOR.search(line)
    assert found is not None
    assert json.loads(found[1]) == parsed


def test_statement_49_snapshot_of_a_deeply_nested_object() -> None:
    nested = '{"a":\n' * 5000 + r'"b\nc \u2028"' + "\r\n}" * 5000
    line = snapshot_line("gone", SnapshotTrigger.POD_DELETION, nested.encode())
    assert len(line.splitlines()) == 1
    found = COLLECTOR.search(line)
    assert found is not None
    assert found[1].replace(" ", "") == nested.replace("\n", "").replace("\r", "").replace(" ", "")


def logged(obj: Framework | Json) -> Json:
    """Return the object of a snapshot as a log collector reads it."""
    found = COLLECTOR.search(snapshot_line("", SnapshotTrigger.TASK_RETRY, obj))
    assert found is not None
    parsed: Json = json.loads(found[1])
    return parsed


def test_framework_snapshot_includes_defaults() -> None:
    """The reference omits no field."""
    spec = logged(WHOLE)["spec"]
    assert (spec["description"], spec["executionType"]) == ("", "Start")
    assert spec["retryPolicy"]["fancyRetryPolicy"] is False
    assert spec["retryPolicy"]["maxRetryCount"] == 0
    ps = spec["taskRoles"][0]
    assert (ps["name"], ps["taskNumber"]) == ("ps", 2)
    assert ps["frameworkAttemptCompletionPolicy"] == {"minFailedTaskCount": 0, "minSucceededTaskCount": 0}
    assert ps["task"].keys() == {"retryPolicy", "podGracefulDeletionTimeoutSec", "pod"}
    assert ps["task"]["podGracefulDeletionTimeoutSec"] is None


def test_task_snapshot_is_an_object_of_kind_task() -> None:
    """Collectors for the reference, e.g. that of OpenPAI, select by the kind and read these fields."""
    attempt = TaskAttemptStatus(id=3, start_time=NOW, pod_name="job-worker-1", pod_uid="pod-uid")
    ended = msgspec.structs.replace(
        task_status(1), instance_uid="task-uid", state=State.ATTEMPT_COMPLETED, attempt_status=attempt
    )
    annotations = {"FC_FRAMEWORK_NAME": "job", "FC_FRAMEWORK_ATTEMPT_ID": "0", "FC_TASK_INDEX": "1"}
    taken = logged(task_snapshot(WHOLE, "worker", ended, annotations))
    assert (taken["apiVersion"], taken["kind"]) == ("launcher.microsoft.com/v1", "Task")
    assert taken["metadata"] == {
        "name": "job-worker-1",
        "namespace": "default",
        "uid": "task-uid",
        "creationTimestamp": "2024-05-01T00:00:00Z",
        "annotations": annotations,
    }
    retry = taken["spec"]["retryPolicy"]
    assert (retry["fancyRetryPolicy"], retry["maxRetryCount"]) == (False, 0)
    assert taken["spec"]["podGracefulDeletionTimeoutSec"] is None
    assert taken["spec"]["pod"] == WHOLE.spec.task_roles[1].task.pod
    assert msgspec.convert(taken["status"], TaskStatus, strict=False) == ended
    assert taken["status"]["attemptStatus"]["completionStatus"] is None


def test_task_snapshot_of_a_removed_role_has_a_default_spec() -> None:
    taken = logged(task_snapshot(WHOLE, "chief", task_status(0), {}))
    assert taken["spec"]["pod"] == {}


@pytest.mark.parametrize(
    ("wanted", "unwanted"),
    [
        (LogObjectSnapshot(), set()),
        (
            LogObjectSnapshot(framework=LogFrameworkSnapshot(on_framework_retry=False)),
            {SnapshotTrigger.FRAMEWORK_RETRY},
        ),
        (
            LogObjectSnapshot(framework=LogFrameworkSnapshot(on_framework_deletion=False)),
            {SnapshotTrigger.FRAMEWORK_DELETION},
        ),
        (LogObjectSnapshot(task=LogTaskSnapshot(on_task_retry=False)), {SnapshotTrigger.TASK_RETRY}),
        (LogObjectSnapshot(task=LogTaskSnapshot(on_task_deletion=False)), {SnapshotTrigger.TASK_DELETION}),
        (LogObjectSnapshot(pod=LogPodSnapshot(on_pod_deletion=False)), {SnapshotTrigger.POD_DELETION}),
    ],
)
def test_statement_49_each_trigger_can_be_disabled(
    wanted: LogObjectSnapshot, unwanted: set[SnapshotTrigger]
) -> None:
    assert {trigger for trigger in SnapshotTrigger if not is_enabled(trigger, wanted)} == unwanted
