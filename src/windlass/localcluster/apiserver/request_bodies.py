"""The body of a request: read within limits, and understood as an object, options or a patch."""

import asyncio
from typing import Any

import msgspec
from aiohttp import web

from windlass.k8s import api_errors, json_patch, strategic_merge
from windlass.localcluster.apiserver import bodies, protobuf
from windlass.localcluster.apiserver.admission import Patch
from windlass.localcluster.apiserver.strategy import Object


class Received(msgspec.Struct, frozen=True):
    content_type: str
    body: bytes

    def as_object(self) -> Object:
        if bodies.media_type_of(self.content_type) == bodies.PROTOBUF:
            return protobuf.decode(self.body)
        return bodies.decode_object(self.content_type, self.body)

    def as_options(self) -> Object | None:
        return self.as_object() if self.body else None

    def as_patch(self, type_name: str) -> Patch:
        """A patch, as what it makes of an object. Only a built-in kind, which has a type, knows the strategic one."""
        media_type = bodies.media_type_of(self.content_type)
        accepted = [bodies.JSON_PATCH, bodies.MERGE_PATCH]
        if type_name:
            accepted.append(bodies.STRATEGIC_MERGE_PATCH)
        if media_type not in accepted:
            # Kubernetes supports server-side apply: the message is ours, and says what to send instead.
            is_apply = media_type.startswith("application/apply-patch+")
            if type_name and not is_apply:
                raise api_errors.unsupported_patch_type()
            raise api_errors.unsupported_media_type(accepted)
        patch = bodies.decode_patch(self.body)
        if media_type == bodies.JSON_PATCH:
            return Patch(lambda obj: _still_object(json_patch.json_patch(obj, patch)))
        if media_type == bodies.MERGE_PATCH:
            return Patch(lambda obj: _still_object(json_patch.merge_patch(obj, patch)))
        if not isinstance(patch, dict | None):
            raise json_patch.undecodable(patch, "map[string]interface {}")
        return Patch(lambda obj: strategic_merge.strategic_merge_patch(obj, patch or {}, type_name))


async def read(request: web.BaseRequest, seconds: float) -> Received:
    """All of the body, unless it is too large, or does not come in time."""
    content_type = request.headers.get("Content-Type", "")
    if (request.content_length or 0) > bodies.MOST_BYTES:
        raise api_errors.too_large(bodies.MOST_BYTES)
    if not request.can_read_body:
        return Received(content_type, b"")
    if request.content.is_eof() and request.content.exception() is None:
        # Most bodies are short, and arrive together with the head: nothing to wait for.
        return Received(content_type, request.content.read_nowait())
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.content.iter_any():
                parts.append(part)
                size += len(part)
                if size > bodies.MOST_BYTES:
                    raise api_errors.too_large(bodies.MOST_BYTES)
    except web.RequestPayloadError as error:
        raise api_errors.bad_request(f"the body of the request cannot be read: {error}") from error
    except TimeoutError as error:
        message = f"the body of the request did not arrive within {seconds:.0f} seconds"
        raise api_errors.ApiError(408, "Timeout", message) from error
    return Received(content_type, b"".join(parts))


def _still_object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise json_patch.inapplicable()
    return value
