"""What a client gets to see: objects, lists and watch events in the form for which it asked."""

from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec
from aiohttp import web

from windlass.localcluster.apiserver import admission, bodies
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lists import Listed
from windlass.localcluster.apiserver.options import is_true
from windlass.localcluster.apiserver.printing import tables
from windlass.localcluster.apiserver.watches import Show

_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
# More than these help nobody, and clients take only so many headers.
_MOST_WARNINGS = 20
_LONGEST_WARNING = 256
_PLAIN = ("", "*/*", "application/json")


class Form(msgspec.Struct, frozen=True):
    """How the answer is to look."""

    media_type: str = bodies.JSON
    table: tables.TableRequest | None = None
    include: str = ""
    is_pretty: bool = False


PLAIN = Form()


def form_of(accept: str, query: Mapping[str, str]) -> Form:
    if accept in _PLAIN and not query:
        return PLAIN
    is_pretty = is_true(query.get("pretty", ""))
    return Form(tables.media_type(accept), tables.wanted(accept), query.get("includeObject", ""), is_pretty)


def as_kind(kind: Kind, body: bytes) -> bytes:
    """A stored object as this version of its kind shows it."""
    if not kind.is_custom:
        return body
    # Most often nothing but the version's name may differ, and it stands first in every stored object.
    if not kind.reads_through_schema and body.startswith(_opening(kind)):
        return body
    return bodies.encode(admission.as_version(kind, bodies.decode_stored(body)))


def _opening(kind: Kind) -> bytes:
    return f'{{"apiVersion":"{kind.api_version}"'.encode()


def object_body(kind: Kind, body: bytes, form: Form, now: datetime) -> bytes:
    body = as_kind(kind, body)
    if form.table is None:
        return body
    obj = bodies.decode_stored(body)
    return bodies.encode(tables.object_as(form.table, kind, obj, include=form.include, now=now))


def list_body(kind: Kind, listed: Listed, form: Form, now: datetime) -> bytes:
    if form.table is not None:
        objects = [bodies.decode_stored(as_kind(kind, body)) for body in listed.bodies]
        metadata = {name: value for name, value in listed.metadata.items() if value != ""}
        shown = tables.list_as(form.table, kind, objects, metadata, include=form.include, now=now)
        return bodies.encode(shown)
    head = f'{{"kind":"{kind.list_kind}","apiVersion":"{kind.api_version}","metadata":'.encode()
    return b"".join(
        [head, bodies.encode(listed.metadata), b',"items":[', b",".join(_items(kind, listed)), b"]}"]
    )


def _items(kind: Kind, listed: Listed) -> list[bytes]:
    if kind.is_custom:
        return [as_kind(kind, body) for body in listed.bodies]
    # In a list of a built-in kind, the list alone says what its items are.
    opening = f'{{"apiVersion":"{kind.api_version}","kind":"{kind.kind}",'.encode()
    skipped = len(opening)
    return [b"{" + body[skipped:] for body in listed.bodies]


def event_transform(kind: Kind, form: Form, clock: Callable[[], datetime]) -> Show:
    """How the objects of a watch are shown: the columns of a table are named in the first event only."""
    table = form.table
    if table is None:
        return lambda body: as_kind(kind, body)
    tables.check(table, form.include)
    is_first = True

    def show(body: bytes) -> bytes:
        nonlocal is_first
        with_columns, is_first = is_first, False
        obj = bodies.decode_stored(as_kind(kind, body))
        shown = tables.object_as(
            table, kind, obj, include=form.include, with_columns=with_columns, now=clock()
        )
        return bodies.encode(shown)

    return show


def response(code: int, body: bytes, form: Form = PLAIN, warnings: tuple[str, ...] = ()) -> web.Response:
    if form.is_pretty:
        body = msgspec.json.format(body, indent=2) + b"\n"
    if form.media_type == bodies.JSON and not warnings:
        return web.Response(status=code, body=body, headers=_HEADERS)
    answer = web.Response(status=code, headers={"Cache-Control": "no-cache, private"})
    answer.headers["Content-Type"] = form.media_type
    answer.body = body if form.media_type == bodies.JSON else bodies.to_yaml(body)
    for warning in warnings[:_MOST_WARNINGS]:
        answer.headers.add("Warning", f'299 - "{_quotable(warning)}"')
    return answer


def _quotable(text: str) -> str:
    """As a header can carry it: short, in one line, and quoted."""
    shown = "".join(character if character.isprintable() else "?" for character in text[:_LONGEST_WARNING])
    return shown.encode("ascii", "backslashreplace").decode().replace("\\", "\\\\").replace('"', '\\"')
