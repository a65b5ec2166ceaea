"""Encode and decode the model as JSON. The controller does this for every watch event and status update.

Decoding is strict, except that a null field counts as absent, because Go writes empty lists and maps as null.
`yaml.parse` parses files of users and reports positions.
"""

import base64
import binascii
import functools
import re
import zlib
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from windlass.k8s.metadata import ObjectMeta
from windlass.k8s.protobuf import messages, views
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, ObjectView, PodView
from windlass.model.status import ConditionType, FrameworkStatus, TaskRoleStatus, Timestamp
from windlass.wire import json_depth

COMPRESSION_THRESHOLD = 716_800
"""The JSON size in bytes from which task role statuses are stored compressed (statement 50 of docs/behaviours.md)."""
MAX_EXPANDED_BYTES = 256 * 1024 * 1024
"""The limit for expanded statuses. 10,000 tasks with full messages need much less."""
SHOWN_LENGTH = 80
"""The length to which an error message truncates a wrong value."""
_GZIP = 31
"""zlib's `wbits` for the largest window with a gzip header."""
_DEPTH_OF_CONDITIONS = 4
"""Nesting depth of a condition: the Framework, its status, the list, the condition."""
_COMPRESSION_LEVEL = 4
"""Half the time of zlib's default level, with a result that is 4 % larger."""
_COMPRESSED = "Framework's compressed task role statuses"
_COMPRESSED_PATH = "status.attemptStatus.taskRoleStatusesCompressed"

T = TypeVar("T")
Data = bytes | msgspec.Raw
"""JSON, or a part of a JSON document. Objects of built-in kinds may also be protobuf."""


class DecodeError(ValueError):
    """Data is not JSON, or does not match the type. The message contains the path, the value and what was expected."""

    def __init__(self, what: str, path: str, found: str, expected: str) -> None:
        super().__init__(f"{what}, at {path or 'the top'}: {expected}, found {found}")
        self.path = path
        self.found = found
        self.expected = expected


_encoder = msgspec.json.Encoder()
_framework_decoder = msgspec.json.Decoder(Framework)
_pod_decoder = msgspec.json.Decoder(PodView)
_config_map_decoder = msgspec.json.Decoder(ConfigMapView)
_service_decoder = msgspec.json.Decoder(ObjectView)
_PROTOBUF_POD = views.Decoder(PodView, "v1", "Pod")
_PROTOBUF_CONFIG_MAP = views.Decoder(ConfigMapView, "v1", "ConfigMap")
_PROTOBUF_SERVICE = views.Decoder(ObjectView, "v1", "Service")
_roles_decoder = msgspec.json.Decoder(tuple[TaskRoleStatus, ...])
_any_list_decoder = msgspec.json.Decoder(list[Any])
_NOT_DECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_framework(data: Data) -> Framework:
    """Decode a Framework, and expand its task statuses."""
    framework = decode(_framework_decoder, data, "Framework")
    if framework.status is None:
        return framework
    return framework.with_status(expand_status(framework.status))


def decode_pod(data: Data) -> PodView:
    """Decode a pod, or its metadata, from JSON or protobuf."""
    found = _protobuf(data)
    return decode(_pod_decoder, data, "Pod") if found is None else _decode_protobuf(_PROTOBUF_POD, found)


def decode_config_map(data: Data) -> ConfigMapView:
    """Decode a ConfigMap from JSON or protobuf."""
    found = _protobuf(data)
    if found is None:
        return decode(_config_map_decoder, data, "ConfigMap")
    return _decode_protobuf(_PROTOBUF_CONFIG_MAP, found)


def decode_service(data: Data) -> ObjectView:
    """Decode a Service from JSON or protobuf."""
    found = _protobuf(data)
    if found is None:
        return decode(_service_decoder, data, "Service")
    return _decode_protobuf(_PROTOBUF_SERVICE, found)


def as_json(data: Data) -> bytes:
    """Return an object as JSON. Raise msgspec.DecodeError for malformed protobuf."""
    found = _protobuf(data)
    return bytes(data) if found is None else _encoder.encode(views.as_json(found))


def _protobuf(data: Data) -> bytes | None:
    """Return the data if it is protobuf."""
    content = bytes(data)
    return content if content.startswith(messages.MAGIC) else None


def _decode_protobuf(decoder: views.Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except messages.DecodeError as error:
        raise DecodeError(decoder.kind, "", str(error), "Expected protobuf") from error


def encode_framework(framework: Framework) -> bytes:
    return _encoder.encode(framework)


def compress_status(status: FrameworkStatus, threshold: int | None = None) -> FrameworkStatus:
    """Return the status for storage: task role statuses of `threshold` bytes or more (default: COMPRESSION_THRESHOLD)
    become base64(gzip(JSON)). Deterministic."""
    if not status.attempt_status.task_role_statuses:
        return status
    plain = _encoder.encode(status.attempt_status.task_role_statuses)
    if len(plain) < (COMPRESSION_THRESHOLD if threshold is None else threshold):
        return status
    return _with_roles(status, None, compress(plain))


def compress(plain: bytes) -> str:
    """Return base64(gzip(plain))."""
    compressor = zlib.compressobj(_COMPRESSION_LEVEL, wbits=_GZIP)
    return base64.b64encode(compressor.compress(plain) + compressor.flush()).decode()


def expand_status(status: FrameworkStatus) -> FrameworkStatus:
    """Return the status with expanded task role statuses. The plain field has priority unless it is empty."""
    attempt = status.attempt_status
    compressed = attempt.task_role_statuses_compressed
    if attempt.task_role_statuses is not None and compressed is msgspec.UNSET:
        return status
    if attempt.task_role_statuses or compressed is msgspec.UNSET:
        return _with_roles(status, attempt.roles, msgspec.UNSET)
    return _with_roles(status, _decode_roles(compressed), msgspec.UNSET)


@functools.lru_cache(maxsize=1)
def _decode_roles(compressed: str) -> tuple[TaskRoleStatus, ...]:
    """Decode compressed task role statuses. The last result is kept: the same large status is often read several times
    in succession, e.g. for the job, its timeline and its watch."""
    return decode(_roles_decoder, _expand_roles(compressed), _COMPRESSED)


def expanded_roles(compressed: str) -> list[Any]:
    """Return compressed task role statuses as JSON values."""
    return decode(_any_list_decoder, _expand_roles(compressed), _COMPRESSED)


def _with_roles(
    status: FrameworkStatus,
    roles: tuple[TaskRoleStatus, ...] | None,
    compressed: str | msgspec.UnsetType,
) -> FrameworkStatus:
    attempt = msgspec.structs.replace(
        status.attempt_status, task_role_statuses=roles, task_role_statuses_compressed=compressed
    )
    return msgspec.structs.replace(status, attempt_status=attempt)


def _expand_roles(compressed: str) -> bytes:
    return expand(compressed, "Framework", _COMPRESSED_PATH)


def expand(compressed: str, what: str, path: str) -> bytes:
    """Return the data that `compress` compressed. `what` and `path` are for the DecodeError."""
    expected = "Expected base64 of gzip of JSON"
    try:
        packed = base64.b64decode(compressed, validate=True)
        expander = zlib.decompressobj(wbits=_GZIP)
        plain = expander.decompress(packed, MAX_EXPANDED_BYTES)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise DecodeError(what, path, str(error), expected) from error
    if not expander.eof:
        is_too_large = len(plain) >= MAX_EXPANDED_BYTES
        found = f"more than {MAX_EXPANDED_BYTES} bytes" if is_too_large else "truncated data"
        raise DecodeError(what, path, found, expected)
    return plain


# Decoding, and explaining why it failed


def decode(decoder: msgspec.json.Decoder[T], data: Data, what: str) -> T:
    """Decode data to a type of the model. A null field counts as absent. Raises DecodeError."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        pass  # nulls may be the only problem: decode again without them
    except _NOT_DECODABLE as error:
        raise _decode_error(error, None, what) from error
    raw = None
    try:
        raw = _without_nulls(msgspec.json.decode(data))
        return decoder.decode(_encoder.encode(raw))
    except _NOT_DECODABLE as error:
        raise _decode_error(error, raw, what) from error


def _without_nulls(value: Any, parent: str = "") -> Any:
    """Remove null fields except inside pod templates. Go writes null for empty lists and maps."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item if parent == "task" and key == "pod" else _without_nulls(item, key)
        for key, item in value.items()
        if item is not None
    }


_PATH_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def _decode_error(error: Exception, raw: Any, what: str) -> DecodeError:
    if isinstance(error, RecursionError):
        return DecodeError(what, "", "too many levels", "Expected less nesting")
    if not isinstance(error, msgspec.ValidationError):
        return DecodeError(what, "", str(error), "Expected JSON")
    problem, _, place = str(error).partition(" - at `$")
    path = place.removesuffix("`").removeprefix(".")
    expected, _, got = problem.partition(", got ")
    return DecodeError(what, path, _shown_value(raw, path) or got or "something else", expected)


def _shown_value(raw: Any, path: str) -> str:
    """Return the truncated value at a path; empty if the path is not exact, e.g. inside labels."""
    value = raw
    for position, key in _PATH_STEP.findall(path):
        try:
            value = value[int(position)] if position else value[key]
        except (LookupError, TypeError):
            return ""
    shown = _encoder.encode(value).decode()
    return shown if len(shown) <= SHOWN_LENGTH else shown[: SHOWN_LENGTH - 1] + "…"


# Frameworks that cannot be decoded


class InvalidFramework(msgspec.Struct, frozen=True):
    """The readable part of a Framework that cannot be decoded, to report the error in its status."""

    metadata: ObjectMeta
    """The fields of `_METADATA_TYPES` that have the right type."""
    api_version: str
    conditions: tuple[Json, ...]
    """The existing conditions."""
    error: str


def read_framework(data: Data) -> Framework | InvalidFramework:
    """Decode a Framework, or its readable part. Raise `DecodeError` only if it has no readable name or apiVersion.

    A status without `attemptStatus` has only conditions from before the first attempt, and counts as absent.
    """
    try:
        return decode_framework(data)
    except DecodeError as error:
        return _read_in_parts(data, error)


def _read_in_parts(data: Data, error: DecodeError) -> Framework | InvalidFramework:
    try:
        raw, is_complete = _decode_partially(data)
        metadata = _valid_metadata(raw["metadata"])
        api_version = msgspec.convert(raw["apiVersion"], str)
    except (*_NOT_DECODABLE, LookupError, TypeError):
        raise error from None
    if not metadata.name:
        raise error
    status = raw.get("status")
    if is_complete and isinstance(status, dict) and status.get("attemptStatus") is None:
        try:
            return decode_framework(_encoder.encode({**raw, "status": None}))
        except DecodeError as without_status:
            error = without_status
    conditions = status.get("conditions") if isinstance(status, dict) else None
    found = (
        tuple(item for item in conditions if isinstance(item, dict)) if isinstance(conditions, list) else ()
    )
    return InvalidFramework(metadata, api_version, found, str(error))


def _decode_partially(data: Data) -> tuple[Json, bool]:
    """Return the object, or only its upper levels if it is nested too deeply, and whether it is complete."""
    try:
        whole: Json = msgspec.json.decode(data)
    except RecursionError:
        top: Json = msgspec.json.decode(json_depth.limit_depth(bytes(data), _DEPTH_OF_CONDITIONS))
        return top, False
    return whole, True


_METADATA_TYPES: dict[str, Any] = {
    "name": str,
    "namespace": str,
    "uid": str,
    "resourceVersion": str,
    "generation": int,
    "deletionTimestamp": Timestamp,
}


def _valid_metadata(raw: Json) -> ObjectMeta:
    """Return the fields of `_METADATA_TYPES` that have the right type."""
    return msgspec.convert(
        {key: raw[key] for key, type_ in _METADATA_TYPES.items() if key in raw and _is_a(type_, raw[key])},
        ObjectMeta,
    )


def _is_a(type_: Any, value: Any) -> bool:
    try:
        msgspec.convert(value, type_)
    except msgspec.ValidationError:
        return False
    return True


def invalid_status_patch(framework: InvalidFramework, now: datetime) -> bytes | None:
    """Return a merge patch that sets the condition Invalid; None if it is already set with this error."""
    invalid = ConditionType.INVALID
    current = next((condition for condition in framework.conditions if condition.get("type") == invalid), {})
    is_true = current.get("status") == "True"
    if is_true and current.get("message") == framework.error:
        return None
    condition = {
        "type": invalid,
        "status": "True",
        "lastTransitionTime": (is_true and current.get("lastTransitionTime")) or now.replace(microsecond=0),
        "reason": invalid,
        "message": framework.error,
    }
    others = [condition for condition in framework.conditions if condition.get("type") != invalid]
    patch = {
        "metadata": {"resourceVersion": framework.metadata.resource_version},
        "status": {"conditions": [*others, condition]},
    }
    return _encoder.encode(patch)


# Writers of a status


class StatusWriter(msgspec.Struct, frozen=True):
    """A field manager that has written more of a Framework's status than its conditions."""

    manager: str
    time: datetime | None
    """The time of the last update."""
    operation: str
    """Update or Apply."""


class _ManagedFields(msgspec.Struct):
    status: dict[str, msgspec.Raw] | None = msgspec.field(default=None, name="f:status")


class _ManagedEntry(msgspec.Struct, rename={"fields": "fieldsV1"}):
    manager: str = ""
    operation: str = ""
    time: Timestamp | None = None
    fields: _ManagedFields | None = None


class _ManagedMetadata(msgspec.Struct):
    managed_fields: list[_ManagedEntry] | None = msgspec.field(default=None, name="managedFields")


class _Managed(msgspec.Struct):
    metadata: _ManagedMetadata


_managed_decoder = msgspec.json.Decoder(_Managed)
_IGNORED_STATUS_FIELDS = frozenset({".", "f:conditions"})
"""Fields that other clients may set without running the Framework."""


def status_writers(data: Data) -> tuple[StatusWriter, ...]:
    """Return the writers in managedFields; none if it is missing or invalid."""
    try:
        entries = _managed_decoder.decode(data).metadata.managed_fields or ()
    except _NOT_DECODABLE:
        return ()
    return tuple(
        StatusWriter(entry.manager, entry.time, entry.operation)
        for entry in entries
        if entry.fields is not None and not _IGNORED_STATUS_FIELDS.issuperset(entry.fields.status or ())
    )
