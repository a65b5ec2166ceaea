"""Responses: objects, lists and watch events in the representation that the client accepts."""

from collections.abc import Callable, Hashable, Mapping
from datetime import datetime

import msgspec
from aiohttp import web

from windlass.localcluster.apiserver import admission, bodies
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lists import ListResult
from windlass.localcluster.apiserver.options import parse_boolean
from windlass.localcluster.apiserver.printing import tables

_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
# Clients limit the number of headers.
_MAX_WARNINGS = 20
_MAX_WARNING_LENGTH = 256
_JSON_ACCEPT = ("", "*/*", "application/json")


class Representation(msgspec.Struct, frozen=True):
    """The media type of a response, and the requested format (None: the object itself)."""

    media_type: str = bodies.JSON
    format: tables.RequestedFormat | None = None
    is_pretty: bool = False


DEFAULT = Representation()


def negotiate(accept: str, query: Mapping[str, str]) -> Representation:
    if accept in _JSON_ACCEPT and not query:
        return DEFAULT
    is_pretty = parse_boolean(query.get("pretty", ""))
    requested = tables.requested_format(accept)
    if requested is not None and query.get("includeObject"):
        requested = msgspec.structs.replace(requested, include=query["includeObject"])
    return Representation(tables.media_type(accept), requested, is_pretty)


def as_kind(kind: Kind, body: bytes) -> bytes:
    """Return a stored object in the API version of `kind`, pruned and defaulted if the definition has ever changed."""
    if not kind.is_custom:
        return body
    # Unless the definition has changed, the stored object differs at most in apiVersion, which is its first field.
    opening = f'{{"apiVersion":"{kind.api_version}"'.encode()
    if not kind.reads_through_schema and body.startswith(opening):
        return body
    return bodies.encode(admission.convert_to_version(kind, bodies.decode_stored(body)))


def object_body(kind: Kind, body: bytes, representation: Representation, now: datetime) -> bytes:
    body = as_kind(kind, body)
    if representation.format is None:
        return body
    obj = bodies.decode_stored(body)
    return bodies.encode(tables.convert_object(representation.format, kind, obj, now=now))


def list_body(kind: Kind, listed: ListResult, representation: Representation, now: datetime) -> bytes:
    if representation.format is not None:
        objects = [bodies.decode_stored(as_kind(kind, body)) for body in listed.bodies]
        metadata = {name: value for name, value in listed.metadata.items() if value != ""}
        return bodies.encode(tables.convert_list(representation.format, kind, objects, metadata, now=now))
    head = f'{{"kind":"{kind.list_kind}","apiVersion":"{kind.api_version}","metadata":'.encode()
    return b"".join(
        [head, bodies.encode(listed.metadata), b',"items":[', b",".join(_items(kind, listed)), b"]}"]
    )


def _items(kind: Kind, listed: ListResult) -> list[bytes]:
    if kind.is_custom:
        return [as_kind(kind, body) for body in listed.bodies]
    # Items in a list of a built-in kind have no apiVersion and kind.
    opening = f'{{"apiVersion":"{kind.api_version}","kind":"{kind.kind}",'.encode()
    skipped = len(opening)
    return [b"{" + body[skipped:] for body in listed.bodies]


class EventEncoder(msgspec.Struct, frozen=True):
    """Encodes objects for watch events. Only the first table of a watch has column definitions."""

    kind: Kind
    format: tables.RequestedFormat | None
    clock: Callable[[], datetime]

    def encoding_key(self, *, is_first: bool) -> Hashable:
        # A kind is compared by identity: the definition of a custom resource may change while it is watched.
        has_columns = is_first and self.format is not None and self.format.kind == tables.TABLE
        return id(self.kind), self.format, has_columns

    def encode(self, body: bytes, *, is_first: bool) -> bytes:
        body = as_kind(self.kind, body)
        if self.format is None:
            return body
        obj = bodies.decode_stored(body)
        return bodies.encode(
            tables.convert_object(self.format, self.kind, obj, with_columns=is_first, now=self.clock())
        )


def event_encoder(kind: Kind, representation: Representation, clock: Callable[[], datetime]) -> EventEncoder:
    """Return the encoder of a watch. Raise `ApiError` for a format that is invalid for watch events."""
    if representation.format is not None:
        tables.check_watch_format(representation.format)
    return EventEncoder(kind, representation.format, clock)


def response(
    code: int, body: bytes, representation: Representation = DEFAULT, warnings: tuple[str, ...] = ()
) -> web.Response:
    if representation.is_pretty:
        body = msgspec.json.format(body, indent=2) + b"\n"
    if representation.media_type == bodies.JSON and not warnings:
        return web.Response(status=code, body=body, headers=_HEADERS)
    content = body if representation.media_type == bodies.JSON else bodies.to_yaml(body)
    headers = {**_HEADERS, "Content-Type": representation.media_type}
    response = web.Response(status=code, body=content, headers=headers)
    for warning in warnings[:_MAX_WARNINGS]:
        response.headers.add("Warning", f'299 - "{_escape_warning(warning)}"')
    return response


def _escape_warning(text: str) -> str:
    """Return the text for a quoted header value: ASCII, short, and on one line."""
    line = "".join(character if character.isprintable() else "?" for character in text[:_MAX_WARNING_LENGTH])
    return line.encode("ascii", "backslashreplace").decode().replace("\\", "\\\\").replace('"', '\\"')
