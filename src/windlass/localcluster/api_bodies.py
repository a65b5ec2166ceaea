"""The body of a request: read within limits, and understood as an object, options or a patch."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web

from windlass.localcluster import bodies, failures, patches, strategic
from windlass.localcluster.kinds.strategy import Object

# How long the body of a request may take to arrive.
BODY_SECONDS = 60.0

Change = Callable[[Object], Object]


async def read_body(request: web.BaseRequest) -> bytes:
    """The body, unless it is too large or too slow to come."""
    if (request.content_length or 0) > bodies.MOST_BYTES:
        raise failures.too_large(bodies.MOST_BYTES)
    if not request.can_read_body:
        return b""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.content.iter_any():
                parts.append(part)
                size += len(part)
                if size > bodies.MOST_BYTES:
                    raise failures.too_large(bodies.MOST_BYTES)
    except TimeoutError as error:
        message = f"the body of the request did not arrive within {BODY_SECONDS:.0f} seconds"
        raise failures.ApiError(408, "Timeout", message) from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def read_object(request: web.BaseRequest) -> Object:
    return bodies.decode_object(request.headers.get("Content-Type", ""), await read_body(request))


async def read_optional(request: web.BaseRequest) -> Any:
    body = await read_body(request)
    if not body:
        return None
    return bodies.decode_object(request.headers.get("Content-Type", ""), body)


async def read_patch(request: web.BaseRequest, type_name: str) -> Change:
    """A patch, as what it makes of an object. Only a built-in kind, which has a type, knows the strategic one."""
    content_type = bodies.media_type_of(request.headers.get("Content-Type", ""))
    accepted = [bodies.JSON_PATCH, bodies.MERGE_PATCH]
    if type_name:
        accepted.append(bodies.STRATEGIC_MERGE_PATCH)
    if content_type not in accepted:
        raise failures.unsupported_media_type(accepted)
    patch = bodies.decode_json(await read_body(request))
    if content_type == bodies.JSON_PATCH:
        return lambda obj: _still_object(patches.json_patch(obj, patch))
    if not isinstance(patch, dict):
        raise failures.bad_request("the patch must be an object")
    if content_type == bodies.MERGE_PATCH:
        return lambda obj: _still_object(patches.merge_patch(obj, patch))
    return lambda obj: strategic.strategic_merge_patch(obj, patch, type_name)


def _still_object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise failures.bad_request("the patch leaves no object")
    return value
