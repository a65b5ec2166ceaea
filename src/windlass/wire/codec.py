"""JSON bytes ⇄ the model: what the controller does with every watch event and every status write.

Fast, and forgiving only towards what other writers do legitimately: Go writes nil lists and maps as null. Files that
people write are read elsewhere, with line numbers and suggestions. No I/O here beyond the bytes given.
"""

import base64
import binascii
import functools
import re
import zlib
from typing import Any, TypeVar

import msgspec

from windlass.model.base import Json
from windlass.model.completion import ContainerCompletionStatus
from windlass.model.framework import Framework, TaskRoleSpec
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.status import Condition, FrameworkStatus, TaskRoleStatus, TaskStatus

COMPRESSION_THRESHOLD = 716_800
"""From so many bytes of JSON on, the task role statuses are stored compressed (statement 50)."""
MAX_EXPANDED_BYTES = 256 * 1024 * 1024
"""What compressed statuses may expand to. Ten thousand tasks with whole messages stay far below."""
SHOWN_LENGTH = 80
"""How much of a wrong value an error message shows."""
_GZIP = 31
"""zlib's `wbits` for the largest window with a gzip header."""
_COMPRESSED = "Framework's compressed task role statuses"
_COMPRESSED_PATH = "status.attemptStatus.taskRoleStatusesCompressed"

T = TypeVar("T")


class DecodeError(ValueError):
    """The bytes are not the object that they should be. Says where, what was found and what was expected."""

    def __init__(self, what: str, path: str, found: str, expected: str) -> None:
        super().__init__(f"{what}, at {path or 'the top'}: {expected}, found {found}")
        self.path = path
        self.found = found
        self.expected = expected


_encoder = msgspec.json.Encoder()
_framework_decoder = msgspec.json.Decoder(Framework)
_pod_decoder = msgspec.json.Decoder(PodView)
_config_map_decoder = msgspec.json.Decoder(ConfigMapView)
_roles_decoder = msgspec.json.Decoder(tuple[TaskRoleStatus, ...])
_any_list_decoder = msgspec.json.Decoder(list[Any])
_NOT_DECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_framework(data: bytes) -> Framework:
    """A Framework, its task statuses expanded."""
    framework = _decode(_framework_decoder, data, "Framework")
    if framework.status is None:
        return framework
    return framework.with_status(expand_status(framework.status))


def decode_pod(data: bytes) -> PodView:
    return _decode(_pod_decoder, data, "Pod")


def decode_config_map(data: bytes) -> ConfigMapView:
    return _decode(_config_map_decoder, data, "ConfigMap")


def encode_framework(framework: Framework) -> bytes:
    return _encoder.encode(framework)


def encode_status(status: FrameworkStatus, compress: bool = True) -> bytes:
    whole = _encoder.encode(status)
    # The task role statuses are a part of it: where the whole is small, they need not be measured.
    if not compress or len(whole) < COMPRESSION_THRESHOLD:
        return whole
    compressed = compress_status(status)
    return whole if compressed is status else _encoder.encode(compressed)


def compress_status(status: FrameworkStatus) -> FrameworkStatus:
    """The status as it is stored: large task role statuses as base64(gzip(JSON)). Same in, same bytes out."""
    if not status.attempt_status.task_role_statuses:
        return status
    plain = _encoder.encode(status.attempt_status.task_role_statuses)
    if len(plain) < COMPRESSION_THRESHOLD:
        return status
    compressor = zlib.compressobj(wbits=_GZIP)  # writes no time and no name into the header
    compressed = base64.b64encode(compressor.compress(plain) + compressor.flush()).decode()
    return _with_roles(status, None, compressed)


def expand_status(status: FrameworkStatus) -> FrameworkStatus:
    """The status as it is worked with. The plain field comes first; what is compressed is read only without it."""
    attempt = status.attempt_status
    compressed = attempt.task_role_statuses_compressed
    if attempt.task_role_statuses is not None and compressed is msgspec.UNSET:
        return status
    if attempt.task_role_statuses or compressed is msgspec.UNSET:
        return _with_roles(status, attempt.roles, msgspec.UNSET)
    return _with_roles(status, _decode(_roles_decoder, _expand(compressed), _COMPRESSED), msgspec.UNSET)


def _with_roles(
    status: FrameworkStatus,
    roles: tuple[TaskRoleStatus, ...] | None,
    compressed: str | msgspec.UnsetType,
) -> FrameworkStatus:
    attempt = msgspec.structs.replace(
        status.attempt_status, task_role_statuses=roles, task_role_statuses_compressed=compressed
    )
    return msgspec.structs.replace(status, attempt_status=attempt)


def _expand(compressed: str) -> bytes:
    expected = "Expected base64 of gzip of JSON"
    try:
        packed = base64.b64decode(compressed, validate=True)
        expander = zlib.decompressobj(wbits=_GZIP)
        plain = expander.decompress(packed, MAX_EXPANDED_BYTES)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise DecodeError("Framework", _COMPRESSED_PATH, str(error), expected) from error
    if not expander.eof:
        is_too_large = len(plain) >= MAX_EXPANDED_BYTES
        found = f"more than {MAX_EXPANDED_BYTES} bytes" if is_too_large else "an end before the end"
        raise DecodeError("Framework", _COMPRESSED_PATH, found, expected)
    return plain


# Decoding, and explaining why it failed


def _decode(decoder: msgspec.json.Decoder[T], data: bytes, what: str) -> T:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        pass  # perhaps only nulls; whatever it is, the second reading says so
    except _NOT_DECODABLE as error:
        raise _explained(error, None, what) from error
    raw = None
    try:
        raw = _without_nulls(msgspec.json.decode(data))
        return decoder.decode(_encoder.encode(raw))
    except _NOT_DECODABLE as error:
        raise _explained(error, raw, what) from error


def _without_nulls(value: Any, parent: str = "") -> Any:
    """Leave out what is null, as Go writes an empty list or map; not inside a pod template, which is not ours."""
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


def _explained(error: Exception, raw: Any, what: str) -> DecodeError:
    if isinstance(error, RecursionError):
        return DecodeError(what, "", "more levels than can be read", "Expected less deep nesting")
    if not isinstance(error, msgspec.ValidationError):
        return DecodeError(what, "", str(error), "Expected JSON")
    problem, _, place = str(error).partition(" - at `$")
    path = place.removesuffix("`").removeprefix(".")
    expected, _, got = problem.partition(", got ")
    return DecodeError(what, path, _shown_value(raw, path) or got or "something else", expected)


def _shown_value(raw: Any, path: str) -> str:
    """The beginning of the value there; empty if the path does not say exactly where, as inside of labels."""
    value = raw
    for position, key in _PATH_STEP.findall(path):
        try:
            value = value[int(position)] if position else value[key]
        except (LookupError, TypeError):
            return ""
    shown = _encoder.encode(value).decode()
    return shown if len(shown) <= SHOWN_LENGTH else shown[: SHOWN_LENGTH - 1] + "…"


# Writing the model over what somebody else wrote

_IDENTITY: dict[type[msgspec.Struct], str] = {
    TaskRoleSpec: "name",
    TaskRoleStatus: "name",
    TaskStatus: "index",
    ContainerCompletionStatus: "name",
    Condition: "type",
}
"""By which field two elements of a list are the same thing; it has the same name in the model and on the wire."""


def overlay(raw: Json, framework: Framework) -> Json:
    """The raw object with the model's fields written over it: fields that the model does not know survive.

    What the model knows is replaced, or left out where the model leaves it out. A list has the elements that the model
    gives it, each laid over the raw element of the same identity. Neither argument is changed.
    """
    result: Json = msgspec.json.decode(encode_framework(framework))
    _keep_unknown(_with_expanded_roles(raw), framework, result)
    return result


def _keep_unknown(raw: Json, value: msgspec.Struct, result: Json) -> None:
    """Put into `result`, which is `value` as JSON, what `raw` has beside it."""
    attributes = _attributes_by_key(type(value))
    for key, item in raw.items():
        if key not in attributes:
            result[key] = item
        elif isinstance(item, dict) and isinstance(part := getattr(value, attributes[key]), msgspec.Struct):
            _keep_unknown(item, part, result.setdefault(key, {}))
        elif isinstance(item, list) and (parts := _identified(getattr(value, attributes[key]))):
            _keep_unknown_of_each(item, parts, result[key])


def _keep_unknown_of_each(raw: list[Any], values: tuple[msgspec.Struct, ...], result: list[Json]) -> None:
    identity = _IDENTITY[type(values[0])]
    same = {item.get(identity): item for item in raw if isinstance(item, dict)}
    for value, written in zip(values, result, strict=True):
        if (before := same.get(getattr(value, identity))) is not None:
            _keep_unknown(before, value, written)


def _identified(values: Any) -> tuple[msgspec.Struct, ...]:
    has_identity = isinstance(values, tuple) and bool(values) and type(values[0]) in _IDENTITY
    return values if has_identity else ()


@functools.cache
def _attributes_by_key(kind: type[msgspec.Struct]) -> dict[str, str]:
    return dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))


def _with_expanded_roles(raw: Json) -> Json:
    """The same with the task role statuses in the open, so that the model can be laid over them."""
    status = raw.get("status") or {}
    attempt = status.get("attemptStatus") or {}
    compressed = attempt.get("taskRoleStatusesCompressed")
    if not isinstance(compressed, str) or attempt.get("taskRoleStatuses"):
        return raw
    roles = _decode(_any_list_decoder, _expand(compressed), _COMPRESSED)
    return {**raw, "status": {**status, "attemptStatus": {**attempt, "taskRoleStatuses": roles}}}
