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


def test_task_snapshot_has_one_role_and_one_task() -> None:
    ended = msgspec.structs.replace(task_status(1), state=State.ATTEMPT_COMPLETED)
    taken = task_snapshot(WHOLE, "worker", ended)
    assert taken.metadata == WHOLE.metadata
    assert taken.spec.task_roles == (WHOLE.spec.task_roles[1],)
    assert taken.status is not None
    assert taken.status.attempt_status.roles == (TaskRoleStatus(name="worker", task_statuses=(ended,)),)
    assert taken.status.start_time == NOW


def test_task_snapshot_of_a_removed_role() -> None:
    taken = task_snapshot(WHOLE, "chief", task_status(0))
    assert taken.spec.task_roles == ()
    assert taken.status is not None
    assert taken.status.attempt_status.roles == (role_status("chief", 0),)


def test_task_snapshot_without_a_status() -> None:
    assert task_snapshot(framework(with_status=False), "worker", task_status(0)).status is None


def test_task_snapshot_of_a_compressed_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "COMPRESSION_THRESHOLD", 10)
    assert WHOLE.status is not None
    compressed = msgspec.structs.replace(WHOLE, status=codec.compress_status(WHOLE.status))
    assert task_snapshot(compressed, "ps", task_status(0)) == task_snapshot(WHOLE, "ps", task_status(0))


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
