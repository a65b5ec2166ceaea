"""Decodes the bodies of requests (JSON, YAML or protobuf) and of stored objects, and encodes objects.

Corresponds to the codecs and the request decoding of `apiserver/pkg/endpoints/handlers`.
"""

import asyncio
from typing import Any

import msgspec
from aiohttp import web

from windlass.k8s import api_errors, json_patch, strategic_merge
from windlass.localcluster.apiserver import protobuf
from windlass.localcluster.apiserver.strategy import Object, Patch
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

# The limit of kube-apiserver.
MAX_BYTES = 3 * 1024 * 1024
# Building a tree takes about 10 µs per value, during which no other request is served. JSON is 100 times faster.
MAX_YAML_VALUES = 20_000
# Keys and values of a built-in kind. Custom resources may be larger: a Framework of 10,000 tasks has about 700,000.
MAX_JSON_VALUES = 300_000
# Objects and lists of a built-in kind. Defaulting and validation of one, e.g. a container, take up to 100 µs.
MAX_JSON_CONTAINERS = 20_000
# For custom resources. A Framework of 10,000 tasks has about 90,000 if none is compressed.
MAX_CUSTOM_CONTAINERS = 200_000

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def decode_stored(body: bytes) -> Object:
    """Return the object in a stored body, which is always valid JSON."""
    stored: Object = _decode(body)
    return stored


def to_yaml(body: bytes) -> bytes:
    """Return JSON as YAML. A large body stays JSON, which is also valid YAML: the YAML emitter is slow."""
    if len(body) > MAX_BYTES or has_more_values(value := _decode(body), MAX_YAML_VALUES):
        return body
    return yaml_dump.dump(value)


def has_more_values(value: Any, limit: int, container_limit: int | None = None) -> bool:
    """Return whether a JSON value has more keys and values, or more objects and lists, than its limit."""
    count, visited, containers = 1, 0, [value]
    max_visited = limit if container_limit is None else container_limit
    while containers and count <= limit and visited <= max_visited:
        container = containers.pop()
        visited += 1
        is_map = isinstance(container, dict)
        children = container.values() if is_map else container if isinstance(container, list) else ()
        count += len(children) * (2 if is_map else 1)
        containers.extend(child for child in children if isinstance(child, dict | list))
    return count > limit or visited > max_visited


def media_type_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


class RequestBody(msgspec.Struct, frozen=True):
    content_type: str
    content: bytes

    def check_values(self, *, is_custom: bool = False) -> None:
        """Reject a JSON body or patch with too many keys and values for its kind."""
        # An upper bound that is cheap to count: outside of strings, each of these characters precedes at most one
        # key or value.
        containers = self.content.count(b"[") + self.content.count(b"{")
        most = 1 + containers + self.content.count(b",") + self.content.count(b":")
        max_values, max_containers = _limits(is_custom)
        is_small = most <= max_values and containers <= max_containers
        if not is_small and media_type_of(self.content_type) not in (YAML, PROTOBUF):
            _check_values(_decode_json(self.content), is_custom)

    def as_object(self) -> Object:
        media_type = media_type_of(self.content_type)
        if media_type == PROTOBUF:
            return protobuf.decode(self.content)
        if media_type not in ("", JSON, YAML):
            raise api_errors.unsupported_media_type([JSON, YAML, PROTOBUF])
        value = _decode_yaml(self.content) if media_type == YAML else _decode_json(self.content)
        if not isinstance(value, dict | None):
            found = {list: "a list", str: "a string", bool: "a boolean"}.get(type(value), "a number")
            raise api_errors.bad_request(f"the body of the request is not an object but {found}")
        # Null is an empty object.
        return value or {}

    def as_options(self) -> Object | None:
        return self.as_object() if self.content else None

    def as_patch(self, type_name: str) -> Patch:
        """Return the patch. `type_name`, which strategic merge patches require, is "" for custom resources."""
        media_type = media_type_of(self.content_type)
        accepted = [JSON_PATCH, MERGE_PATCH]
        if type_name:
            accepted.append(STRATEGIC_MERGE_PATCH)
        if media_type not in accepted:
            # Kubernetes supports server-side apply. This server does not: its error lists the accepted media types.
            is_apply = media_type.startswith("application/apply-patch+")
            if type_name and not is_apply:
                raise api_errors.unsupported_patch_type()
            raise api_errors.unsupported_media_type(accepted)
        try:
            patch = _decode_json(self.content)
        except api_errors.ApiError as error:
            raise api_errors.bad_request("invalid JSON patch") from error
        if media_type == JSON_PATCH:
            return Patch(lambda obj: _apply_json_patch(obj, patch, is_custom=not type_name))
        if media_type == MERGE_PATCH:
            return Patch(lambda obj: _require_object(json_patch.merge_patch(obj, patch)))
        if not isinstance(patch, dict | None):
            raise json_patch.undecodable(patch, "map[string]interface {}")
        return Patch(lambda obj: strategic_merge.strategic_merge_patch(obj, patch or {}, type_name))


EMPTY = RequestBody("", b"")


async def read(request: web.BaseRequest, timeout_seconds: float, max_bytes: int = MAX_BYTES) -> RequestBody:
    """Read the body of a request. Reject a body that is too large, malformed or not complete within the timeout."""
    content_type = request.headers.get("Content-Type", "")
    if (request.content_length or 0) > max_bytes:
        raise api_errors.too_large(max_bytes)
    if not request.can_read_body:
        return RequestBody(content_type, b"")
    if request.content.is_eof() and request.content.exception() is None:
        # Most bodies are short and arrive together with the headers.
        content = request.content.read_nowait()
        if len(content) > max_bytes:
            raise api_errors.too_large(max_bytes)
        return RequestBody(content_type, content)
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout_seconds):
            async for part in request.content.iter_any():
                parts.append(part)
                size += len(part)
                if size > max_bytes:
                    raise api_errors.too_large(max_bytes)
    except web.RequestPayloadError as error:
        raise api_errors.bad_request(f"the body of the request cannot be read: {error}") from error
    except TimeoutError as error:
        message = f"the body of the request did not arrive within {timeout_seconds:.0f} seconds"
        raise api_errors.ApiError(408, "Timeout", message) from error
    return RequestBody(content_type, b"".join(parts))


def _limits(is_custom: bool) -> tuple[int, int]:
    """Return how many keys and values, and how many objects and lists, an object of a kind may have."""
    # The size of a body also limits the values of a custom resource: each takes at least one byte.
    return (MAX_BYTES, MAX_CUSTOM_CONTAINERS) if is_custom else (MAX_JSON_VALUES, MAX_JSON_CONTAINERS)


def _check_values(value: Any, is_custom: bool) -> None:
    max_values, max_containers = _limits(is_custom)
    if has_more_values(value, max_values, max_containers):
        limits = f"{max_values} keys and values, {max_containers} of them objects or lists"
        message = f"Request entity too large: limit is {limits}"
        raise api_errors.ApiError(413, "RequestEntityTooLarge", message)


def _apply_json_patch(obj: Object, patch: Any, *, is_custom: bool) -> Object:
    result = _require_object(json_patch.json_patch(obj, patch))
    if any(operation.get("op") == "copy" for operation in patch or ()):
        # A short patch can copy the same list many times.
        _check_values(result, is_custom)
    return result


def _require_object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise json_patch.inapplicable()
    return value


def _decode_json(body: bytes) -> Any:
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


def _decode_yaml(body: bytes) -> Any:
    parsed = yaml_parse.parse(
        body, yaml_parse.Limit(MAX_YAML_VALUES, "use fewer, or send the object as JSON")
    )
    found = (
        [parsed.failure] if parsed.failure else [each for one in parsed.documents for each in one.diagnostics]
    )
    errors = [each for each in found if each.severity == diagnostics.Severity.ERROR]
    if errors:
        raise api_errors.bad_request(
            f"error converting YAML to JSON: yaml: line {errors[0].line}: {errors[0].message}"
        )
    documents = [document for document in parsed.documents if not document.is_empty]
    if len(documents) > 1:
        raise api_errors.bad_request("the body of the request has several YAML documents: send one at a time")
    return tree.plain(documents[0].root) if documents else None
