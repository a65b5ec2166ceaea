"""Bytes of a request → a plain value, and back: JSON, or YAML for those who send or ask for it. Pure."""

from typing import Any

import msgspec

from windlass.k8s import api_errors
from windlass.wire import diagnostics
from windlass.wire.yaml import dump as yaml_dump
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

# As large as what an API server of Kubernetes takes.
MOST_BYTES = 3 * 1024 * 1024

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encode(value: Any) -> bytes:
    return _encode(value)


def decode_stored(body: bytes) -> dict[str, Any]:
    """An object as it lies in the store, which is whole."""
    stored: dict[str, Any] = _decode(body)
    return stored


def decode_object(content_type: str, body: bytes) -> dict[str, Any]:
    media_type = media_type_of(content_type)
    if media_type not in ("", JSON, YAML):
        raise api_errors.unsupported_media_type([JSON, YAML, PROTOBUF])
    value = decode_yaml(body) if media_type == YAML else decode_json(body)
    if not isinstance(value, dict | None):
        raise api_errors.bad_request(f"the body of the request is not an object but {_named(value)}")
    # Null is an object of which nothing was said.
    return value or {}


def media_type_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decode_json(body: bytes) -> Any:
    try:
        return _decode(body)
    except msgspec.DecodeError as error:
        raise api_errors.bad_request(
            f"the object provided is unrecognized: it is not JSON: {error}"
        ) from error
    except RecursionError as error:
        raise api_errors.bad_request("the object provided is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise api_errors.bad_request(f"the object provided is not UTF-8: {error}") from error


def decode_patch(body: bytes) -> Any:
    try:
        return decode_json(body)
    except api_errors.ApiError as error:
        raise api_errors.bad_request("invalid JSON patch") from error


def decode_yaml(body: bytes) -> Any:
    parsed = yaml_parse.parse(body)
    found = (
        [parsed.failure]
        if parsed.failure
        else [fault for one in parsed.documents for fault in one.diagnostics]
    )
    errors = [fault for fault in found if fault.severity == diagnostics.Severity.ERROR]
    if errors:
        raise api_errors.bad_request(
            f"error converting YAML to JSON: yaml: line {errors[0].line}: {errors[0].message}"
        )
    documents = [document for document in parsed.documents if not document.is_empty]
    if len(documents) > 1:
        raise api_errors.bad_request(
            "the body of the request holds several YAML documents: send one at a time"
        )
    return tree.plain(documents[0].root) if documents else None


def to_yaml(body: bytes) -> bytes:
    return yaml_dump.dump(_decode(body))


def _named(value: Any) -> str:
    return {list: "a list", str: "a string", bool: "a boolean"}.get(type(value), "a number")
