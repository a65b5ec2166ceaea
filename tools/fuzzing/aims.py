"""Improve the examples of schemathesis, most of which would be rejected early.

Most names are replaced by those of existing objects, and a body gets the kind of its path. Examples are slow to
generate, so each of their fields is also sent in a valid object.
"""

import json
from collections.abc import Iterator
from random import Random
from typing import Any
from urllib.parse import quote

import schemathesis
import yaml
from schemathesis.core import NotSet

from fuzzing import objects, queries
from fuzzing.surface import Place, Surface
from fuzzing.wire import Request

Case = schemathesis.Case[schemathesis.APIOperation[Any, Any, Any, Any]]

_LIKELY = 0.85
_MOST_FIELDS = 8
_OF_HTTP = (
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "content-encoding",
    "expect",
    "upgrade",
)
"""Headers that decide whether this is a request at all: see `raw`."""

_DECIDES = ("resourceVersion", "continue", "dryRun", "fieldSelector", "labelSelector")
"""Query parameters that hide everything if their values are random."""


def requests(case: Case, surface: Surface, dice: Random) -> Iterator[Request]:
    about = surface.place_of(case.path)
    known = objects.name_of_one(about.resource, dice) if about is not None else "a"
    name = _path_value(case, "name", known, dice)
    namespace = _path_value(case, "namespace", dice.choice(objects.NAMESPACES), dice)
    path = case.path.replace("{namespace}", _quoted(namespace)).replace("{name}", _quoted(name))
    target = queries.with_query(path, _query(case, dice))
    yield _request(case, target, case.body)
    place = surface.place_of(path)
    if not isinstance(case.body, dict) or place is None or case.method not in ("POST", "PUT"):
        return
    yield _request(case, target, _identified(case.body, place, name or known, dice))
    if place.subresource in ("", "status"):
        for body in _one_by_one(case.body, place, name or known, dice):
            yield _request(case, path, body)


def _path_value(case: Case, part: str, known: str, dice: Random) -> str:
    if part not in case.path_parameters:
        return ""
    return known if dice.random() < _LIKELY else str(case.path_parameters[part]) or "x"


def _quoted(part: str) -> str:
    return quote(part, safe="", errors="surrogatepass")


def _query(case: Case, dice: Random) -> dict[str, str]:
    query = {key: _text(value) for key, value in case.query.items()}
    if dice.random() < _LIKELY:
        query = {key: value for key, value in query.items() if key not in _DECIDES}
    if "watch" in query and dice.random() < _LIKELY:
        del query["watch"]
    return query | ({"timeoutSeconds": "1"} if "watch" in query else {})


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _identified(body: dict[str, Any], place: Place, name: str, dice: Random) -> dict[str, Any]:
    found = body.get("metadata")
    # Most metadata fields control the lifecycle or are rejected.
    kept = (
        {key: value for key, value in found.items() if dice.random() < 0.3} if isinstance(found, dict) else {}
    )
    return {**body, **_identity(place), "metadata": {**kept, "name": name}}


def _identity(place: Place) -> dict[str, str]:
    if place.subresource == "scale":
        return {"apiVersion": "autoscaling/v1", "kind": "Scale"}
    return {"apiVersion": place.resource.api_version, "kind": place.resource.kind}


def _one_by_one(body: dict[str, Any], place: Place, name: str, dice: Random) -> Iterator[dict[str, Any]]:
    """Yield valid objects with one field each of the example, from its top level, spec or status."""
    fields = [
        (key, None, value) for key, value in body.items() if key not in ("apiVersion", "kind", "metadata")
    ]
    for whole in ("spec", "status", "metadata"):
        part = body.get(whole)
        fields += [(whole, key, value) for key, value in part.items()] if isinstance(part, dict) else []
    for key, below, value in dice.sample(fields, k=min(len(fields), _MOST_FIELDS)):
        obj = objects.named(place.resource, place.namespace, name, dice)
        changed = value if below is None else {**(obj.get(key) or {}), below: value}
        yield {**obj, key: changed}


def _request(case: Case, target: str, body: Any) -> Request:
    given = {str(key): _clean(str(value)) for key, value in case.headers.items()}
    headers = tuple((key, value) for key, value in given.items() if key.lower() not in _OF_HTTP)
    if case.media_type is None or isinstance(body, NotSet):
        return Request(case.method, target, headers)
    # A duplicate header is rejected before our code sees it.
    others = tuple(header for header in headers if header[0].lower() != "content-type")
    headers = (("Content-Type", case.media_type), *others)
    return Request(case.method, target, headers, _written(body, case.media_type))


def _clean(value: str) -> str:
    """Return a valid header value: `raw` tests invalid HTTP."""
    return "".join(character for character in value if character.isprintable() and character.isascii())


def _written(body: Any, media_type: str) -> bytes:
    if isinstance(body, bytes):
        return body
    if media_type == "application/yaml":
        return yaml.safe_dump(body).encode("utf-8", "surrogatepass")
    return json.dumps(body).encode()
