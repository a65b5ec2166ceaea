"""JSON encoding of the model: round trips, nulls, compression (statement 50, A7), unknown fields (statement 2)."""

import base64
import gzip
import json
import zlib
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.k8s.metadata import ObjectMeta
from windlass.model.base import Json
from windlass.model.completion import (
    CompletionTrigger,
    CompletionType,
    CompletionTypeName,
    ContainerCompletionStatus,
    FrameworkAttemptCompletionStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
)
from windlass.model.framework import (
    CompletedPods,
    CompletionPolicySpec,
    ExecutionType,
    Framework,
    FrameworkSpec,
    RetryBackoff,
    RetryPolicySpec,
    TaskRoleSpec,
    TaskSpec,
)
from windlass.model.states import State
from windlass.model.status import (
    Condition,
    FrameworkAttemptStatus,
    FrameworkStatus,
    Holding,
    RetryPolicyStatus,
    Summary,
    TaskAttemptStatus,
    TaskRoleStatus,
    TaskStatus,
)
from windlass.wire import codec
from windlass.wire.codec import DecodeError

NOW = datetime(2024, 5, 1, 12, 30, 5, tzinfo=UTC)


def task_status(index: int, message: str = "") -> TaskStatus:
    ended = None
    if message:
        containers = (ContainerCompletionStatus(name="main", message=message, code=1),)
        ended = TaskAttemptCompletionStatus(
            1, "Odd", CompletionType(), message, PodCompletionStatus(containers=containers)
        )
    attempt = TaskAttemptStatus(
        start_time=NOW, pod_name=f"job-worker-{index}", pod_uid=f"uid-{index}", completion_status=ended
    )
    return TaskStatus(index=index, start_time=NOW, transition_time=NOW, attempt_status=attempt)


def status_of(*roles: TaskRoleStatus) -> FrameworkStatus:
    attempt = FrameworkAttemptStatus(start_time=NOW, config_map_name="job-attempt", task_role_statuses=roles)
    return FrameworkStatus(start_time=NOW, transition_time=NOW, attempt_status=attempt)


def framework_of(status: FrameworkStatus | None = None, spec: FrameworkSpec | None = None) -> Framework:
    return Framework(
        "launcher.microsoft.com/v1",
        "Framework",
        ObjectMeta(name="job", namespace="default", uid="u1"),
        spec or FrameworkSpec(task_roles=(TaskRoleSpec("worker", 2),)),
        status,
    )


def status_of_size(size: int) -> FrameworkStatus:
    """Return a status whose task role statuses have `size` bytes of JSON."""

    def with_message(length: int) -> FrameworkStatus:
        attempt = msgspec.structs.replace(task_status(0).attempt_status, pod_node_name="n" * length)
        task = msgspec.structs.replace(task_status(0), attempt_status=attempt)
        return status_of(TaskRoleStatus(name="worker", task_statuses=(task,)))

    least = len(msgspec.json.encode(with_message(0).attempt_status.roles))
    return with_message(size - least)


# Strategies: statuses as the controller writes them, times in whole seconds

times = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1)).map(  # noqa: DTZ001
    lambda time: time.replace(microsecond=0, tzinfo=UTC)
)
texts = st.text(st.characters(codec="utf-8"), max_size=12)
counts = st.integers(0, 2**31)
codes = st.integers(-2000, 255)
maybe_time = st.none() | times
maybe_text = st.none() | texts
completion_types = st.builds(
    CompletionType,
    st.sampled_from(CompletionTypeName),
    st.lists(st.sampled_from(["Transient", "Permanent", "Own"]), max_size=2).map(tuple),
)
containers = st.builds(
    ContainerCompletionStatus, name=texts, reason=texts, message=texts, signal=counts, code=codes
)
pods = st.builds(
    PodCompletionStatus,
    texts,
    texts,
    st.lists(containers, max_size=2, unique_by=lambda container: container.name).map(tuple),
)
task_ends = st.builds(TaskAttemptCompletionStatus, codes, texts, completion_types, texts, st.none() | pods)
retries = st.builds(RetryPolicyStatus, counts, counts, st.none() | counts)
task_attempts = st.builds(
    TaskAttemptStatus,
    id=counts,
    start_time=times,
    run_time=maybe_time,
    completion_time=maybe_time,
    instance_uid=maybe_text,
    pod_name=texts,
    pod_uid=maybe_text,
    pod_node_name=maybe_text,
    pod_ip=maybe_text,
    pod_host_ip=maybe_text,
    completion_status=st.none() | task_ends,
)


def tasks(index: int) -> st.SearchStrategy[TaskStatus]:
    return st.builds(
        TaskStatus,
        index=st.just(index),
        instance_uid=maybe_text,
        deletion_pending=st.booleans(),
        start_time=times,
        run_time=maybe_time,
        completion_time=maybe_time,
        state=st.sampled_from(State),
        transition_time=times,
        retry_policy_status=retries,
        attempt_status=task_attempts,
    )


def roles(name: str) -> st.SearchStrategy[TaskRoleStatus]:
    return st.builds(
        TaskRoleStatus,
        name=st.just(name),
        instance_uid=maybe_text,
        pod_graceful_deletion_timeout_sec=st.none() | counts,
        task_statuses=st.integers(0, 2).flatmap(lambda n: st.tuples(*map(tasks, range(n)))),
    )


role_lists = st.lists(st.sampled_from(["ps", "worker"]), unique=True).flatmap(
    lambda names: st.tuples(*map(roles, names))
)
triggers = st.builds(CompletionTrigger, texts, texts, counts)
framework_attempts = st.builds(
    FrameworkAttemptStatus,
    id=counts,
    start_time=times,
    run_time=maybe_time,
    completion_time=maybe_time,
    instance_uid=maybe_text,
    config_map_name=texts,
    config_map_uid=maybe_text,
    completion_status=st.none()
    | st.builds(
        FrameworkAttemptCompletionStatus, codes, texts, completion_types, texts, st.none() | triggers
    ),
    task_role_statuses=role_lists,
)
conditions = st.builds(
    Condition,
    type=st.sampled_from(["Complete", "Failed"]),
    status=st.sampled_from(["True", "False"]),
    last_transition_time=times,
    reason=texts,
    message=texts,
)
statuses = st.builds(
    FrameworkStatus,
    start_time=times,
    run_time=maybe_time,
    completion_time=maybe_time,
    state=st.sampled_from(State),
    transition_time=times,
    retry_policy_status=retries,
    attempt_status=framework_attempts,
    conditions=st.lists(conditions, max_size=2, unique_by=lambda condition: condition.type).map(tuple),
    summary=st.builds(Summary, counts, counts, counts, counts),
    holding=st.builds(Holding, maybe_time, counts, counts),
)
retry_specs = st.builds(
    RetryPolicySpec,
    st.booleans(),
    st.integers(-2, 9),
    st.none() | st.integers(0, 2**31 - 1),
    st.none() | st.builds(RetryBackoff, counts, counts),
)
pod_templates = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)
specs = st.builds(
    FrameworkSpec,
    description=texts,
    execution_type=st.sampled_from(ExecutionType),
    retry_policy=retry_specs,
    task_roles=st.lists(st.sampled_from(["ps", "worker"]), unique=True).flatmap(
        lambda names: st.tuples(
            *(
                st.builds(
                    TaskRoleSpec,
                    st.just(name),
                    st.integers(0, 10_000),
                    st.builds(CompletionPolicySpec, st.integers(-1, 9), st.integers(-1, 9)),
                    st.builds(
                        TaskSpec,
                        retry_specs,
                        st.none() | counts,
                        st.dictionaries(texts, pod_templates, max_size=2),
                    ),
                )
                for name in names
            )
        )
    ),
    completed_pods=st.sampled_from(CompletedPods),
    suspend=st.booleans(),
    ttl_seconds_after_finished=st.none() | counts,
)
frameworks = st.builds(framework_of, st.none() | statuses, specs)


# Round trips


def encoded_status(status: FrameworkStatus, compress: bool = True) -> bytes:
    return msgspec.json.encode(codec.compress_status(status) if compress else status)


@settings(max_examples=60, deadline=None)
@given(frameworks)
def test_encoded_framework_decodes_to_itself(framework: Framework) -> None:
    assert codec.decode_framework(codec.encode_framework(framework)) == framework


@settings(max_examples=30, deadline=None)
@given(statuses, st.booleans())
def test_status_decodes_to_itself_compressed_or_not(status: FrameworkStatus, compress: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "COMPRESSION_THRESHOLD", 300)
        stored = msgspec.json.decode(encoded_status(status, compress))
    framework = {**msgspec.to_builtins(framework_of()), "status": stored}
    assert codec.decode_framework(msgspec.json.encode(framework)).status == status


def test_times_are_encoded_in_whole_seconds() -> None:
    status = status_of(TaskRoleStatus(name="worker", task_statuses=(task_status(0),)))
    written = encoded_status(status)
    assert written.count(b'"2024-05-01T12:30:05Z"') == 6
    assert b"05." not in written


def test_status_is_encoded_with_all_fields() -> None:
    written = json.loads(encoded_status(status_of()))
    assert written["retryPolicyStatus"]["retryDelaySec"] is None
    assert written["attemptStatus"]["configMapUID"] is None
    assert written["attemptStatus"]["taskRoleStatuses"] == []
    assert "taskRoleStatusesCompressed" not in written["attemptStatus"]


# Nulls


def raw_framework() -> Json:
    raw: Json = {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "job", "creationTimestamp": None, "managedFields": [{"manager": "x"}]},
        "spec": {
            "taskRoles": [{"name": "worker", "taskNumber": 1, "task": {"pod": {"spec": {"volumes": None}}}}]
        },
        "status": None,
    }
    return raw


@pytest.mark.parametrize(
    ("path", "attribute"),
    [
        ("metadata.labels", {}),
        ("metadata.annotations", {}),
        ("spec.retryPolicy", RetryPolicySpec()),
        ("spec.description", ""),
        ("spec.taskRoles.0.frameworkAttemptCompletionPolicy", CompletionPolicySpec()),
        ("spec.taskRoles.0.task.retryPolicy", RetryPolicySpec()),
        ("spec.taskRoles.0.task.podGracefulDeletionTimeoutSec", None),
    ],
)
def test_null_decodes_as_absent_field(path: str, attribute: object) -> None:
    raw = raw_framework()
    *parents, key = path.split(".")
    place: Any = raw
    for parent in parents:
        place = place[int(parent) if parent.isdigit() else parent]
    place[key] = None
    framework = codec.decode_framework(msgspec.json.encode(raw))
    value: Any = framework
    for step in path.split("."):
        value = value[int(step)] if step.isdigit() else getattr(value, msgspec_name(value, step))
    assert value == attribute
    assert framework.spec.task_roles[0].task.pod == {"spec": {"volumes": None}}


def msgspec_name(value: msgspec.Struct, key: str) -> str:
    return value.__struct_fields__[value.__struct_encode_fields__.index(key)]


def test_nulls_in_a_status_decode_as_absent_fields() -> None:
    status = msgspec.to_builtins(
        status_of(TaskRoleStatus(name="worker", task_statuses=(task_status(0, "gone"),)))
    )
    ended = status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]["attemptStatus"][
        "completionStatus"
    ]
    ended["pod"]["containers"] = None
    ended["type"]["attributes"] = None
    status["conditions"] = None
    status["attemptStatus"]["taskRoleStatusesCompressed"] = None
    read = codec.decode_framework(msgspec.json.encode({**raw_framework(), "status": status})).status
    assert read is not None
    assert read.conditions == ()
    completion = read.attempt_status.roles[0].task_statuses[0].attempt_status.completion_status
    assert completion is not None
    assert completion.pod == PodCompletionStatus()


def test_pod_decodes_without_unused_fields() -> None:
    data = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "job-worker-0", "uid": "p1", "labels": None, "managedFields": [{}]},
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
        "status": {
            "phase": "Failed",
            "podIP": "10.0.0.7",
            "hostIP": "10.0.0.1",
            "initContainerStatuses": None,
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"terminated": {"exitCode": 3, "finishedAt": "2024-05-01T12:30:05Z"}},
                }
            ],
        },
    }
    pod = codec.decode_pod(msgspec.json.encode(data))
    assert (pod.name, pod.uid, pod.spec.node_name, pod.status.phase) == ("job-worker-0", "p1", "n1", "Failed")
    assert (pod.status.pod_ip, pod.status.host_ip) == ("10.0.0.7", "10.0.0.1")
    ended = pod.containers[0].state.terminated
    assert ended is not None
    assert (ended.exit_code, ended.finished_at) == (3, NOW)


def test_config_map_decodes() -> None:
    data = {"metadata": {"name": "job-attempt", "uid": "c1", "ownerReferences": None}, "data": {"a": "b"}}
    config_map = codec.decode_config_map(msgspec.json.encode(data))
    assert (config_map.name, config_map.uid, config_map.controller) == ("job-attempt", "c1", None)


# Decode errors


@pytest.mark.parametrize(
    ("data", "path", "found", "expected"),
    [
        (b"", "", "Input data was truncated", "JSON"),
        (b"{", "", "Input data was truncated", "JSON"),
        (b'{"kind": "\xff"}', "", "utf-8", "JSON"),
        (b"[]", "", "[]", "`object`"),
        (b'{"kind": "Framework", "metadata": {}}', "", '{"kind"', "`apiVersion`"),
        (b'{"a":' * 100_000, "", "too many levels", "less nesting"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "", "too many levels", "less nesting"),
        (
            b'{"apiVersion":"a","kind":"b","metadata":{},"spec":{"taskRoles":[{"name":"b","taskNumber":"three"}]}}',
            "spec.taskRoles[0].taskNumber",
            '"three"',
            "`int`",
        ),
        (
            b'{"apiVersion":"a","kind":"b","metadata":{},"spec":{"taskRoles":[{"name":"a","taskNumber":-1}]}}',
            "spec.taskRoles[0].taskNumber",
            "-1",
            ">= 0",
        ),
        (
            b'{"apiVersion":"a","kind":"b","metadata":{},"spec":{"taskRoles":[{"name":"a-b"}]}}',
            "spec.taskRoles[0].name",
            '"a-b"',
            "matching regex",
        ),
        (
            b'{"apiVersion":"a","kind":"b","metadata":{"creationTimestamp":"soon"}}',
            "metadata.creationTimestamp",
            '"soon"',
            "datetime",
        ),
        (
            b'{"apiVersion":"a","kind":"b","metadata":{"labels":{"a.b/c":1}}}',
            "metadata.labels[...]",
            '{"a.b/c":1}',
            "`str`",
        ),
        (
            b'{"apiVersion":"a","kind":"b","metadata":{"name":["' + b"x" * 500 + b'"]}}',
            "metadata.name",
            '["xxx',
            "`str`",
        ),
    ],
)
def test_decode_error_has_path_found_and_expected(data: bytes, path: str, found: str, expected: str) -> None:
    with pytest.raises(DecodeError) as refusal:
        codec.decode_framework(data)
    error = refusal.value
    assert error.path == path
    assert error.found.lstrip("'").startswith(found)
    assert expected in error.expected
    assert error.__cause__ is not None
    assert (path or "the top") in str(error)
    assert len(str(error)) < 400


# Compression


@pytest.mark.parametrize(
    ("size", "compress", "is_compressed"),
    [(716_800, True, True), (716_799, True, False), (716_800, False, False), (900_000, True, True)],
)
def test_statement_50_large_task_role_statuses_are_compressed(
    size: int, compress: bool, is_compressed: bool
) -> None:
    status = status_of_size(size)
    plain = msgspec.json.encode(status.attempt_status.roles)
    assert len(plain) == size
    attempt = json.loads(encoded_status(status, compress))["attemptStatus"]
    if is_compressed:
        assert attempt["taskRoleStatuses"] is None
        assert gzip.decompress(base64.b64decode(attempt["taskRoleStatusesCompressed"])) == plain
    else:
        assert attempt["taskRoleStatuses"] == json.loads(plain)
        assert "taskRoleStatusesCompressed" not in attempt


def test_statement_50_compression_is_deterministic() -> None:
    status = status_of_size(716_800)
    compressed_base64 = codec.compress_status(status).attempt_status.task_role_statuses_compressed
    assert isinstance(compressed_base64, str)
    assert compressed_base64 == codec.compress_status(status).attempt_status.task_role_statuses_compressed
    assert base64.b64decode(compressed_base64)[4:8] == b"\0\0\0\0", "the header's time is zero"


def test_expand_reverses_compress() -> None:
    large, small = status_of_size(716_800), status_of_size(2_000)
    compressed = codec.compress_status(large)
    assert compressed.attempt_status.task_role_statuses is None
    assert codec.expand_status(compressed) == large
    assert codec.compress_status(small) is small
    assert codec.expand_status(small) is small


def with_attempt_fields(status: FrameworkStatus, **attempt_fields: object) -> FrameworkStatus:
    attempt = msgspec.structs.replace(status.attempt_status, **attempt_fields)
    return msgspec.structs.replace(status, attempt_status=attempt)


def compressed_base64(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()


def test_statement_50_raw_field_takes_precedence() -> None:
    plain = status_of(TaskRoleStatus(name="raw"))
    both = with_attempt_fields(
        plain, task_role_statuses_compressed=compressed_base64(b'[{"name": "compressed"}]')
    )
    assert codec.expand_status(both) == plain


@pytest.mark.parametrize("raw", [None, ()])
def test_statement_50_compressed_field_is_read_without_raw_field(
    raw: tuple[TaskRoleStatus, ...] | None,
) -> None:
    written = compressed_base64(b'[{"name": "other", "taskStatuses": null}]')
    status = with_attempt_fields(status_of(), task_role_statuses=raw, task_role_statuses_compressed=written)
    assert codec.expand_status(status) == status_of(TaskRoleStatus(name="other"))


def test_missing_task_role_statuses_decode_as_none() -> None:
    assert codec.expand_status(with_attempt_fields(status_of(), task_role_statuses=None)) == status_of()


@pytest.mark.parametrize(
    ("compressed", "found"),
    [
        ("not base64!", "base64"),
        ("é", "ASCII"),
        (base64.b64encode(b"not gzip").decode(), "incorrect header"),
        (base64.b64encode(gzip.compress(b"[]", mtime=0)[:-9]).decode(), "truncated data"),
        (base64.b64encode(gzip.compress(b"[]", mtime=0)[:-8] + b"\0" * 8).decode(), "incorrect data check"),
        (base64.b64encode(zlib.compress(b"[]")).decode(), "incorrect header"),
        (compressed_base64(b"[" + b" " * 5000 + b"]"), "more than 4096 bytes"),
        (compressed_base64(b"[{}]"), "{}"),
        (compressed_base64(b"nonsense"), "JSON is malformed"),
    ],
)
def test_corrupt_compressed_statuses_are_rejected(
    compressed: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "MAX_EXPANDED_BYTES", 4096)
    status = with_attempt_fields(
        status_of(), task_role_statuses=None, task_role_statuses_compressed=compressed
    )
    with pytest.raises(DecodeError) as refusal:
        codec.decode_framework(codec.encode_framework(framework_of(status)))
    assert found in refusal.value.found


# Unknown fields


def with_unknown_fields(value: Any) -> Any:
    """Return the same JSON with one unknown field in every object."""
    if isinstance(value, list):
        return [with_unknown_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {"stranger": sorted(value), **{key: with_unknown_fields(item) for key, item in value.items()}}


def without_templates(framework: Framework) -> Framework:
    task_roles = tuple(
        msgspec.structs.replace(role, task=msgspec.structs.replace(role.task, pod={}))
        for role in framework.spec.task_roles
    )
    return msgspec.structs.replace(
        framework, spec=msgspec.structs.replace(framework.spec, task_roles=task_roles)
    )


@settings(max_examples=40, deadline=None)
@given(frameworks.map(without_templates))
def test_statement_2_unknown_fields_are_ignored_when_reading(framework: Framework) -> None:
    raw = with_unknown_fields(msgspec.json.decode(codec.encode_framework(framework)))
    read = codec.decode_framework(msgspec.json.encode(raw))
    assert read == framework
