"""Frameworks that cannot be decoded: their metadata, their Invalid condition, and the writers of statuses."""

import contextlib
import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.k8s.metadata import ObjectMeta
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.wire import codec
from windlass.wire.codec import DecodeError, InvalidFramework, StatusWriter

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
THEN = "2025-01-01T00:00:00Z"
METADATA = {
    "name": "job",
    "namespace": "team",
    "uid": "u1",
    "resourceVersion": "7",
    "generation": 3,
    "creationTimestamp": THEN,
    "labels": {"a": "b"},
}
KNOWN = ObjectMeta(name="job", namespace="team", uid="u1", resource_version="7", generation=3)
GOOD_SPEC = {"taskRoles": [{"name": "worker", "taskNumber": 1, "task": {"pod": {"spec": {"x": None}}}}]}
BAD_SPEC = {"taskRoles": [{"name": "my-worker"}]}
WHY = "Framework, at spec.taskRoles[0].name: Expected `str` matching regex"
SUSPENDED = {"type": "Suspended", "status": "False", "lastTransitionTime": THEN, "own": 1}
STATUS = {
    "startTime": THEN,
    "transitionTime": THEN,
    "attemptStatus": {"startTime": THEN, "configMapName": "job-attempt", "taskRoleStatuses": []},
}


def raw(**fields: Any) -> Json:
    return {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "metadata": METADATA,
        "spec": GOOD_SPEC,
        **fields,
    }


def read(value: Any) -> Framework | InvalidFramework:
    return codec.read_framework(msgspec.json.encode(value))


def unreadable(*conditions: Json, error: str = "wrong") -> InvalidFramework:
    return InvalidFramework(KNOWN, "launcher.microsoft.com/v1", conditions, error)


@pytest.mark.parametrize("fields", [{}, {"status": None}, {"status": STATUS}])
def test_valid_framework_is_decoded(fields: Json) -> None:
    data = msgspec.json.encode(raw(**fields))

    assert codec.read_framework(data) == codec.decode_framework(data)
    assert codec.read_framework(msgspec.Raw(data)) == codec.decode_framework(data)


@pytest.mark.parametrize(
    "status",
    [{}, {"conditions": [SUSPENDED]}, {"conditions": 5}, {"attemptStatus": None, "state": "AttemptRunning"}],
)
def test_status_without_an_attempt_counts_as_absent(status: Json) -> None:
    assert read(raw(status=status)) == read(raw())


@pytest.mark.parametrize(
    ("fields", "error", "conditions"),
    [
        ({"spec": BAD_SPEC}, WHY, ()),
        ({"spec": BAD_SPEC, "status": {"conditions": [SUSPENDED]}}, WHY, (SUSPENDED,)),
        ({"spec": BAD_SPEC, "status": {**STATUS, "conditions": [5, SUSPENDED]}}, WHY, (SUSPENDED,)),
        ({"spec": BAD_SPEC, "status": {**STATUS, "conditions": "none"}}, WHY, ()),
        ({"spec": BAD_SPEC, "status": "none"}, WHY, ()),
        ({"spec": []}, "Framework, at spec: Expected `object`, found []", ()),
        ({"kind": 5}, "Framework, at kind: Expected `str`, found 5", ()),
        ({"status": {**STATUS, "state": "Odd"}}, "Framework, at status.state: Invalid enum value", ()),
        (
            {"status": {"attemptStatus": 5}},
            "Framework, at status.attemptStatus: Expected `object`, found 5",
            (),
        ),
    ],
)
def test_unreadable_framework_keeps_metadata_and_error(
    fields: Json, error: str, conditions: tuple[Json, ...]
) -> None:
    found = read(raw(**fields))

    assert isinstance(found, InvalidFramework)
    assert found.error.startswith(error)
    assert (found.metadata, found.conditions) == (KNOWN, conditions)
    assert found.api_version == "launcher.microsoft.com/v1"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"name": "job", "labels": {"a": 5}}, ObjectMeta(name="job")),
        ({"name": "job", "generation": "3", "uid": 5}, ObjectMeta(name="job")),
        (
            {"name": "job", "labels": 5, "deletionTimestamp": THEN},
            ObjectMeta(name="job", deletion_timestamp=datetime(2025, 1, 1, tzinfo=UTC)),
        ),
        # A time without a zone cannot be compared with others.
        ({"name": "job", "labels": 5, "deletionTimestamp": THEN[:-1]}, ObjectMeta(name="job")),
    ],
)
def test_invalid_metadata_is_omitted(metadata: Json, expected: ObjectMeta) -> None:
    found = read(raw(metadata=metadata))

    assert isinstance(found, InvalidFramework)
    assert found.metadata == expected


@pytest.mark.parametrize(
    "value",
    [
        5,
        [],
        "metadata",
        {},
        raw(metadata="name"),
        raw(metadata=["name"]),
        raw(metadata={"name": 5}),
        raw(metadata={"name": "", "labels": 5}),
        raw(apiVersion=5),
    ],
)
def test_object_without_a_name_is_an_error(value: Any) -> None:
    with pytest.raises(DecodeError):
        read(value)


def test_too_deep_object_is_unreadable_and_has_a_name() -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    conditions = [{"type": "Suspended", "status": "False"}]
    status = {"conditions": conditions}

    found = codec.read_framework(msgspec.json.encode(raw(spec=msgspec.Raw(deep), status=status)))

    assert isinstance(found, InvalidFramework)
    assert found.metadata.name == raw()["metadata"]["name"]
    assert found.conditions == tuple(conditions)
    assert "too many levels" in found.error


scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
)
near_frameworks = st.fixed_dictionaries(
    {},
    optional={
        "apiVersion": st.just("launcher.microsoft.com/v1") | json_values,
        "kind": st.just("Framework") | json_values,
        "metadata": st.fixed_dictionaries(
            {}, optional=dict.fromkeys([*METADATA, "managedFields"], json_values)
        )
        | st.just(METADATA)
        | json_values,
        "spec": st.just(BAD_SPEC) | json_values,
        "status": st.fixed_dictionaries({}, optional=dict.fromkeys([*STATUS, "conditions"], json_values))
        | json_values,
    },
)


@settings(deadline=None)
@given(st.binary(max_size=60) | (json_values | near_frameworks).map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_read_or_a_decode_error(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        found = codec.read_framework(data)
        assert isinstance(found, Framework | InvalidFramework)
        if isinstance(found, InvalidFramework):
            patch = codec.invalid_status_patch(found, NOW)
            assert patch is None or msgspec.json.decode(patch)
    assert isinstance(codec.status_writers(data), tuple)


def invalid(status: str = "True", message: str = "wrong", since: str = THEN) -> Json:
    return {
        "type": "Invalid",
        "status": status,
        "lastTransitionTime": since,
        "reason": "Invalid",
        "message": message,
    }


NEW = invalid(since="2026-01-02T03:04:05Z")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((), [NEW]),
        ((SUSPENDED,), [SUSPENDED, NEW]),
        ((invalid("False"),), [NEW]),
        ((invalid(message="other"), SUSPENDED), [SUSPENDED, invalid()]),
        (({"type": "Invalid", "status": "True"},), [NEW]),
        ((invalid("False"), invalid("False")), [NEW]),
    ],
)
def test_condition_is_added_to_the_others(before: tuple[Json, ...], after: list[Json]) -> None:
    patch = codec.invalid_status_patch(unreadable(*before), NOW)

    assert patch is not None
    assert json.loads(patch) == {"metadata": {"resourceVersion": "7"}, "status": {"conditions": after}}


def test_existing_condition_is_not_patched_again() -> None:
    assert codec.invalid_status_patch(unreadable(SUSPENDED, invalid()), NOW) is None


def test_corrected_framework_starts_without_the_condition() -> None:
    found = read(raw(spec=BAD_SPEC))
    assert isinstance(found, InvalidFramework)
    patch = codec.invalid_status_patch(found, NOW)
    assert patch is not None
    status = json.loads(patch)["status"]

    again = read(raw(spec=BAD_SPEC, status=status))
    assert isinstance(again, InvalidFramework)
    assert codec.invalid_status_patch(again, NOW) is None
    assert read(raw(status=status)) == read(raw())


# Writers of a status

CONTROLLER: Json = {"f:state": {}, "f:conditions": {}, "f:attemptStatus": {".": {}, "f:id": {}}}
WRITER = StatusWriter("fc", datetime(2025, 1, 1, tzinfo=UTC), "Update")


def entry(status: Any, **fields: Any) -> Json:
    written = {"f:spec": {"f:suspend": {}}} | ({} if status is None else {"f:status": status})
    return {
        "manager": "fc",
        "operation": "Update",
        "time": THEN,
        "apiVersion": "launcher.microsoft.com/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": written,
        **fields,
    }


@pytest.mark.parametrize(
    ("managed", "expected"),
    [
        ([entry(CONTROLLER)], (WRITER,)),
        ([entry({".": {}, "f:state": {}})], (WRITER,)),
        ([entry({"f:conditions": {"f:x": {}}}), entry({".": {}, "f:conditions": {}})], ()),
        ([entry({}), entry(None)], ()),
        ([entry(CONTROLLER, time=None)], (StatusWriter("fc", None, "Update"),)),
        (
            [
                entry(None, manager="kubectl"),
                entry(CONTROLLER, manager="a", operation="Apply"),
                entry(CONTROLLER),
            ],
            (StatusWriter("a", WRITER.time, "Apply"), WRITER),
        ),
        ([{}, entry(CONTROLLER, fieldsV1=None)], ()),
        ([], ()),
        (None, ()),
        # Invalid entries have no writers.
        ("none", ()),
        ([5], ()),
        ([entry(CONTROLLER, time="yesterday")], ()),
        ([entry(CONTROLLER, time=THEN[:-1])], ()),
        ([entry(5)], ()),
    ],
)
def test_status_writers(managed: Any, expected: tuple[StatusWriter, ...]) -> None:
    data = msgspec.json.encode(raw(metadata={**METADATA, "managedFields": managed}))

    assert codec.status_writers(data) == expected
    assert codec.status_writers(msgspec.Raw(data)) == expected


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"metadata": null}', b"\xff"])
def test_unreadable_object_has_no_status_writers(data: bytes) -> None:
    assert codec.status_writers(data) == ()
