"""Encoding manifests and decoding them again, whole and as views, with the same result as JSON."""

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.k8s.protobuf.manifests import TEXT, manifest, message

from windlass.k8s.protobuf import encoding, messages, objects, views
from windlass.k8s.protobuf.messages import DecodeError, Label
from windlass.model import names
from windlass.model.pods import ConfigMapView, PodView

KINDS = (
    ("v1", "Pod"),
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("v1", "Event"),
    ("coordination.k8s.io/v1", "Lease"),
    ("v1", "DeleteOptions"),
)
POD = views.Decoder(PodView, "v1", "Pod")
OWN_KEYS = st.dictionaries(
    st.sampled_from(
        [names.FRAMEWORK_NAME, names.TASK_INDEX, names.TASK_UID, names.PORTS_ANNOTATION, "other"]
    ),
    TEXT | st.just("x" * 200),
    max_size=5,
)
META = st.builds(
    lambda found, labels, annotations: {**found, "labels": labels, "annotations": annotations},
    message("meta.v1.ObjectMeta").map(
        lambda found: {key: found[key] for key in found.keys() - {"managedFields"}}
    ),
    OWN_KEYS,
    OWN_KEYS,
)
PODS = st.builds(
    lambda metadata, spec, status: {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    },
    META,
    message("core.v1.PodSpec", 2),
    message("core.v1.PodStatus", 1),
)


def encoded(obj: dict[str, Any]) -> bytes:
    body = encoding.encode(obj)
    assert body is not None
    return body


@pytest.mark.parametrize(("api_version", "kind"), KINDS)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_decoded_object_equals_the_encoded_one(api_version: str, kind: str, data: st.DataObject) -> None:
    obj = data.draw(manifest(api_version, kind))
    assert objects.decode(encoded(obj)) == obj
    assert views.as_json(encoded(obj)) == obj


@given(pod=PODS)
@settings(max_examples=30, deadline=None)
def test_view_of_protobuf_equals_view_of_json(pod: dict[str, Any]) -> None:
    assert POD.decode(encoded(pod)) == msgspec.json.decode(json.dumps(pod), type=PodView)


def test_view_of_config_map_equals_view_of_json() -> None:
    found = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "job-attempt",
            "annotations": {names.PORTS_ANNOTATION: '{"worker":4000}'},
            "ownerReferences": [
                {"apiVersion": "x/v1", "kind": "F", "name": "job", "uid": "u", "controller": True}
            ],
        },
        "data": {"large": "x" * 300_000},
    }
    decoder = views.Decoder(ConfigMapView, "v1", "ConfigMap")
    assert decoder.decode(encoded(found)) == msgspec.json.decode(json.dumps(found), type=ConfigMapView)


@given(pod=PODS, other=META)
@settings(max_examples=20, deadline=None)
def test_shared_parts_are_encoded_once_and_correctly(pod: dict[str, Any], other: dict[str, Any]) -> None:
    """Pods of a role share the parts of their template."""
    memo: encoding.Memo = {}
    pods = [{**pod, "metadata": metadata} for metadata in (pod["metadata"], other, other)]
    assert [encoding.encode(each, memo) for each in pods] == [encoding.encode(each) for each in pods]
    assert sum(kind == "core.v1.PodSpec" for _, kind in memo) == 1


def with_unknown_fields(content: bytes, name: str) -> bytes:
    """Add a field of each wire type to a message and to the messages in it."""
    parts = []
    fields = messages.table().get(name, {})
    for number, value in messages.entries(content):
        field = fields.get(number)
        if isinstance(value, int):
            parts.append(messages.tag(number, messages.VARINT) + messages.varint(value))
        elif field is not None and field.label is not Label.MAP and field.type.startswith("core.v1."):
            parts.append(messages.entry(number, with_unknown_fields(value, field.type)))
        else:
            parts.append(messages.entry(number, value))
    unknown = (
        messages.tag(2000, messages.VARINT) + messages.varint(2**40),
        messages.entry(2001, b"\xff" * 300),
        messages.tag(2002, messages.FIXED_64) + b"\xff" * 8,
        messages.tag(2003, messages.FIXED_32) + b"\xff" * 4,
    )
    return b"".join([*unknown, *parts, *unknown])


@given(pod=PODS)
@settings(max_examples=20, deadline=None)
def test_unknown_fields_are_skipped(pod: dict[str, Any]) -> None:
    body = encoded(pod)
    found = messages.open_envelope(body)
    newer = messages.envelope("v1", "Pod", with_unknown_fields(body[found.start : found.end], "core.v1.Pod"))
    assert POD.decode(newer) == POD.decode(body)
    assert objects.decode(newer) == objects.decode(body) == views.as_json(newer)


def test_absent_fields_have_the_defaults_of_the_view() -> None:
    body = messages.envelope("v1", "Pod", messages.entry(1, b""))
    assert POD.decode(body) == msgspec.json.decode(b'{"metadata":{}}', type=PodView)


def test_empty_text_counts_as_absent_as_in_json() -> None:
    """Go writes empty strings of protobuf, and omits those of JSON."""
    body = messages.envelope("v1", "Pod", messages.entry(1, b"") + messages.entry(3, messages.entry(1, b"")))
    assert POD.decode(body).status.phase == "Pending"


@given(pod=PODS, data=st.data())
@settings(max_examples=30, deadline=None)
def test_damaged_object_is_decoded_or_rejected(pod: dict[str, Any], data: st.DataObject) -> None:
    body = bytearray(encoded(pod))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(4, len(body) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(body[: data.draw(st.integers(4, len(body)))])
    with contextlib.suppress(DecodeError):
        assert isinstance(POD.decode(damaged), PodView)
    with contextlib.suppress(DecodeError, objects.UnknownKindError):
        assert isinstance(objects.decode(damaged), dict)
    with contextlib.suppress(DecodeError, objects.UnknownKindError):
        assert isinstance(views.as_json(damaged), dict)
    with contextlib.suppress(DecodeError):
        assert isinstance(views.version_of(damaged), str)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"metadata":{}}',
        b"k8s\0",
        messages.envelope("v1", "Status", messages.entry(1, b"")),
        messages.envelope("v1", "Pod", b""),
        messages.envelope("v1", "Pod", messages.entry(1, b"\x0a\x05ab")),
        messages.envelope("v1", "Pod", messages.entry(1, b"\x0b")),
        messages.envelope("v1", "Pod", messages.entry(1, messages.entry(5, b"\xff"))),
    ],
    ids=["empty", "JSON", "no type", "Status", "no metadata", "truncated", "unfinished group", "not UTF-8"],
)
def test_invalid_object_is_rejected(body: bytes) -> None:
    with pytest.raises(DecodeError):
        POD.decode(body)


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": {"unknownField": 1}},
        {"spec": {"containers": {"name": "x"}}},
        {"spec": {"containers": [{"name": 5}]}},
        {"spec": {"containers": [None]}},
        {"spec": {"terminationGracePeriodSeconds": "30"}},
        {"spec": {"terminationGracePeriodSeconds": True}},
        {"spec": {"priority": 2**31}},
        {"spec": {"hostNetwork": 1}},
        {"spec": {"containers": [{"name": "x", "resources": {"limits": {"cpu": "many"}}}]}},
        {"spec": {"containers": [{"name": "x", "env": [{"name": "A", "value": 5}]}]}},
        {"spec": "text"},
        {"metadata": {"labels": ["a"]}},
        {"metadata": {"labels": {"a": 5}}},
        {"metadata": {"name": "\ud800"}},
        {"kind": "Unknown"},
        {"apiVersion": "windlass.dev/v1"},
    ],
    ids=str,
)
def test_manifest_with_errors_is_left_to_json(changes: dict[str, Any]) -> None:
    """The API server reports unknown fields and wrong types only for JSON."""
    assert encoding.encode({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **changes}) is None


def test_null_counts_as_absent() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": None}, "spec": None}
    assert objects.decode(encoded(pod)) == {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}


def test_list_is_split_into_objects() -> None:
    pods = [{"metadata": {"name": name, "resourceVersion": "5"}} for name in ("a", "b")]
    items = [encoded({"apiVersion": "v1", "kind": "Pod", **pod}) for pod in pods]
    contents = [item[slice(*messages.open_envelope(item)[2:])] for item in items]
    meta = messages.entry(2, b"77") + messages.entry(3, b"next") + messages.tag(4, 0) + messages.varint(9)
    body = messages.envelope(
        "v1", "PodList", messages.entry(1, meta) + b"".join(messages.entry(2, each) for each in contents)
    )
    found = views.decode_list(body)
    assert (found.resource_version, found.continue_token) == ("77", "next")
    assert [POD.decode(item).name for item in found.items] == ["a", "b"]
    assert [views.version_of(item) for item in found.items] == ["5", "5"]


def test_object_is_not_a_list() -> None:
    with pytest.raises(DecodeError, match="expected a list, found Pod"):
        views.decode_list(messages.envelope("v1", "Pod", b""))
