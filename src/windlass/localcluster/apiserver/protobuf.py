"""Decoding of Kubernetes' protobuf, which Go clients send for built-in kinds, into plain objects.

The server never sends objects as protobuf: these clients also accept JSON. `tools/update_protobuf_fields.py` generates
the field numbers. Go encodes unset fields as empty ones, so empty strings, zeros and false are dropped, except in
lists, maps and pointer fields.
"""

import base64
import functools
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import resources
from typing import Any

import msgspec

from windlass.k8s import api_errors
from windlass.k8s import types as k8s_types
from windlass.localcluster.apiserver.strategy import Object

_MAGIC = b"k8s\0"
_MAX_DEPTH = 100
# Fields that are pointers in Go: an empty value differs from an unset one.
_POINTER_FIELDS = frozenset(
    (
        *("activeDeadlineSeconds", "allowPrivilegeEscalation", "automountServiceAccountToken"),
        *("backoffLimit", "blockOwnerDeletion", "completions", "controller", "defaultMode"),
        *("enableServiceLinks", "fsGroup", "gracePeriodSeconds", "holderIdentity", "immutable"),
        *("leaseDurationSeconds", "mode", "optional", "parallelism", "partition", "privileged"),
        *("progressDeadlineSeconds", "readOnlyRootFilesystem", "replicas", "revisionHistoryLimit"),
        *("runAsGroup", "runAsNonRoot", "runAsUser", "setHostnameAsFQDN", "shareProcessNamespace"),
        *("storageClassName", "suspend", "terminationGracePeriodSeconds", "tolerationSeconds"),
        *("ttlSecondsAfterFinished",),
    )
)
# The protobuf packages of the API groups.
_PACKAGES = {
    "": "core.v1",
    "apps": "apps.v1",
    "batch": "batch.v1",
    "coordination.k8s.io": "coordination.v1",
    "rbac.authorization.k8s.io": "rbac.v1",
    "authentication.k8s.io": "authentication.v1",
    "authorization.k8s.io": "authorization.v1",
    "autoscaling": "autoscaling.v1",
    "policy": "policy.v1beta1",
}
_SIGNED = ("int32", "int64")

# By field number: the name, the label (optional, repeated or map) and the type.
Fields = dict[str, tuple[str, str, str]]


class _MalformedError(Exception):
    """The body is not valid protobuf, is nested too deeply or contains an unknown field."""


def decode(body: bytes) -> Object:
    """Return the object in a body. Raise ApiError: 400 for malformed data and 415 for an unknown kind."""
    if not body.startswith(_MAGIC):
        raise api_errors.bad_request("the body is not Kubernetes' protobuf: it does not start with k8s\\0")
    try:
        # The message runtime.Unknown: a TypeMeta and the encoded object.
        envelope = dict(_entries(body[len(_MAGIC) :]))
        type_meta = dict(_entries(_bytes(envelope, 1)))
        api_version, kind = _bytes(type_meta, 1).decode(), _bytes(type_meta, 2).decode()
        obj: Object = {"apiVersion": api_version, "kind": kind}
        return obj | _message(_bytes(envelope, 2), _message_name(api_version, kind), 0)
    except (_MalformedError, IndexError, UnicodeDecodeError, OverflowError, ValueError) as error:
        raise api_errors.bad_request(f"cannot decode the protobuf body: {error}") from error


def _message_name(api_version: str, kind: str) -> str:
    group = api_version.rpartition("/")[0]
    name = "meta.v1.DeleteOptions" if kind == "DeleteOptions" else f"{_PACKAGES.get(group, '')}.{kind}"
    if name not in _fields():
        raise api_errors.unsupported_media_type(["application/json", "application/yaml"])
    return name


def _bytes(fields: dict[int, int | bytes], number: int) -> bytes:
    value = fields.get(number, b"")
    return value if isinstance(value, bytes) else b""


def _message(data: bytes, name: str, depth: int) -> Object:
    if depth > _MAX_DEPTH:
        raise _MalformedError("nested too deeply")
    fields = _fields()[name]
    found: Object = {}
    for number, value in _entries(data):
        if str(number) not in fields:
            # A field of a newer Kubernetes release. It is ignored in a status or when empty, and rejected otherwise.
            if value and not name.endswith("Status"):
                raise _MalformedError(f"unknown field {number} in {name}. Send JSON instead.")
            continue
        field, label, field_type = fields[str(number)]
        if label == "map":
            found.setdefault(field, {}).update([_pair(value, field_type, depth)])
        elif label == "repeated":
            found.setdefault(field, []).append(_value(value, field_type, depth))
        else:
            _put(found, name, field, field_type, _value(value, field_type, depth))
    return found


def _put(found: Object, name: str, field: str, field_type: str, value: Any) -> None:
    if value is None or (
        value in ("", 0, False) and not isinstance(value, dict) and field not in _POINTER_FIELDS
    ):
        return
    if isinstance(value, dict) and field not in _json_fields(name):
        # An embedded struct in Go: in JSON, its fields are fields of the parent.
        found.update(value)
    elif field in _json_fields(name) or field_type not in _fields():
        found[field] = value


def _pair(value: Any, field_type: str, depth: int) -> tuple[str, Any]:
    parts = dict(_entries(value))
    empty: Any = "" if field_type in ("string", "bytes", "resource.Quantity") else {}
    return _bytes(parts, 1).decode(), _value(parts[2], field_type, depth) if 2 in parts else empty


def _value(value: int | bytes, field_type: str, depth: int) -> Any:
    if isinstance(value, int):
        return _number(value, field_type)
    match field_type:
        case "string":
            return value.decode()
        case "bytes":
            return base64.b64encode(value).decode()
        case "meta.v1.Time" | "meta.v1.MicroTime":
            return _time(value, is_micro=field_type.endswith("MicroTime"))
        case "resource.Quantity":
            return next((part.decode() for _, part in _entries(value) if isinstance(part, bytes)), "0")
        case "intstr.IntOrString":
            return _int_or_string(value)
        case _ if field_type in _fields():
            return _message(value, field_type, depth + 1)
    # A message that the server does not use, e.g. managedFields.
    return None


def _number(value: int, field_type: str) -> int | bool:
    if field_type == "bool":
        return bool(value)
    return value - 2**64 if field_type in _SIGNED and value >= 2**63 else value


def _time(data: bytes, *, is_micro: bool) -> str | None:
    parts = dict(_entries(data))
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int) or (seconds == 0 and nanos == 0):
        return None
    time = datetime.fromtimestamp(_number(seconds, "int64"), UTC)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{nanos // 1000:06}Z" if is_micro else f"{time:%Y-%m-%dT%H:%M:%SZ}"


def _int_or_string(data: bytes) -> int | str:
    parts = dict(_entries(data))
    if parts.get(1, 0):
        return _bytes(parts, 3).decode()
    number = parts.get(2, 0)
    return _number(number, "int32") if isinstance(number, int) else 0


def _entries(data: int | bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field of a message. A varint is decoded as an integer, others as bytes."""
    if isinstance(data, int):
        raise _MalformedError("expected a message, found a number")
    offset = 0
    while offset < len(data):
        tag, offset = _varint(data, offset)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, offset = _varint(data, offset)
            yield number, value
            continue
        if wire_type == 2:
            size, offset = _varint(data, offset)
        else:
            size = {1: 8, 5: 4}.get(wire_type, len(data))
        if offset + size > len(data):
            raise _MalformedError("truncated")
        yield number, data[offset : offset + size]
        offset += size


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if offset >= len(data) or shift > 63:
            raise _MalformedError("truncated or too long integer")
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7


@functools.cache
def _fields() -> dict[str, Fields]:
    data = resources.files(__package__).joinpath("protobuf_fields.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, Fields])


@functools.cache
def _json_fields(name: str) -> frozenset[str]:
    """Return the JSON names of the fields of a message."""
    bare = name.rpartition(".")[2]
    for candidate in (f"V1{bare}", f"CoreV1{bare}", f"RbacV1{bare}"):
        if candidate in k8s_types.types():
            return frozenset(k8s_types.types()[candidate].fields)
    return frozenset(field for field, _, _ in _fields()[name].values())
