"""Content negotiation, and conversion of objects to tables or to metadata only.

`columns` has the columns of built-in kinds. The columns of custom resources are JSONPaths in their definition.
"""

import functools
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.kinds.kind import Column, Kind
from windlass.localcluster.apiserver.printing import accessors, columns, jsonpath
from windlass.localcluster.apiserver.printing.accessors import Object
from windlass.localcluster.apiserver.printing.columns import Header, Printer

TABLE = "Table"
PARTIAL = "PartialObjectMetadata"
PARTIAL_LIST = "PartialObjectMetadataList"

_GROUP = "meta.k8s.io"
_VERSIONS = ("v1", "v1beta1")
_MEDIA_TYPES = ("application/json", "application/yaml")
_INCLUDES = ("", "Metadata", "Object", "None")
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
_AGE_COLUMN = Column(name="Age", type="date", path=".metadata.creationTimestamp")
_COMPLETED_MESSAGES = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


class RequestedFormat(msgspec.Struct, frozen=True):
    """A requested format other than the object itself. `kind` is TABLE, PARTIAL or PARTIAL_LIST."""

    kind: str
    version: str = "v1"
    # The content of the field `object` of each row: Metadata (the default), Object or None.
    include: str = ""


class _Clause(msgspec.Struct, frozen=True):
    """An alternative in an Accept header."""

    media_type: str
    quality: float
    parameters: dict[str, str]

    @property
    def wildcard_count(self) -> int:
        return self.media_type.count("*")

    def media_types(self) -> list[str]:
        """Return the supported media types that this clause accepts."""
        if self.media_type.endswith("/*"):
            prefix = self.media_type.removesuffix("*").removeprefix("*/")
            return [each for each in _MEDIA_TYPES if each.startswith(prefix)]
        return [each for each in _MEDIA_TYPES if each == self.media_type]

    def requested_format(self) -> RequestedFormat | None:
        """Return the requested format; None for the object itself. Raise ValueError if it is not supported."""
        if not self.parameters.keys() & {"as", "g", "v"}:
            return None
        kind, group, version = (self.parameters.get(key, "") for key in ("as", "g", "v"))
        if kind not in (TABLE, PARTIAL, PARTIAL_LIST) or group != _GROUP or version not in _VERSIONS:
            raise ValueError
        return RequestedFormat(kind, version)


def requested_format(accept: str) -> RequestedFormat | None:
    """Return the preferred supported format in an Accept header, or None for the object itself."""
    return _negotiated(accept)[1]


def media_type(accept: str) -> str:
    """Return the media type of the response: JSON or YAML."""
    return _negotiated(accept)[0]


@functools.lru_cache(maxsize=256)
def _negotiated(accept: str) -> tuple[str, RequestedFormat | None]:
    if not accept:
        return _MEDIA_TYPES[0], None
    clauses = [_clause(part) for part in accept.split(",")]
    available = ", ".join(_MEDIA_TYPES)
    if not any(clause.media_types() for clause in clauses):
        message = f"406: Not Acceptable\n\nAvailable representations: {available}"
        raise api_errors.ApiError(406, "NotAcceptable", message, {})
    for clause in sorted(clauses, key=lambda clause: (-clause.quality, clause.wildcard_count)):
        for media_type_name in clause.media_types():
            try:
                return media_type_name, clause.requested_format()
            except ValueError:
                continue
    message = f"only the following media types are accepted: {available}"
    raise api_errors.ApiError(406, "NotAcceptable", message)


def _clause(part: str) -> _Clause:
    name, *pairs = (piece.strip() for piece in part.split(";"))
    parameters = {key.strip(): value.strip() for key, _, value in (pair.partition("=") for pair in pairs)}
    try:
        quality = float(parameters.pop("q", "1"))
    except ValueError:
        quality = 0.0
    return _Clause("*/*" if name == "*" else name, quality, parameters)


def check_watch_format(requested: RequestedFormat) -> None:
    """Reject a format that watch events cannot have, and an unknown `includeObject`."""
    if requested.kind == TABLE:
        _check_include(requested.include)
    elif requested.kind == PARTIAL_LIST:
        message = f"you requested {PARTIAL_LIST}, but the events of a watch are not lists"
        raise api_errors.ApiError(406, "NotAcceptable", message)


def _check_include(include: str) -> None:
    if include not in _INCLUDES:
        problem = "must be 'Metadata', 'Object', 'None', or empty"
        error = api_errors.invalid_value("includeObject", include, problem)
        raise api_errors.bad_request(f"Unable to convert to Table as requested: {error}")


def convert_object(
    requested: RequestedFormat, kind: Kind, obj: Object, *, with_columns: bool = True, now: datetime
) -> Object:
    """Return an object or the object of a watch event in the requested format."""
    if requested.kind == TABLE:
        metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return _table(requested, kind, [obj], metadata, with_columns=with_columns, now=now)
    if requested.kind == PARTIAL:
        return _partial(requested, obj)
    message = f"you requested {PARTIAL_LIST}, but the requested object is not a list ({kind.kind})"
    raise api_errors.ApiError(406, "NotAcceptable", message)


def convert_list(
    requested: RequestedFormat,
    kind: Kind,
    objects: Sequence[Object],
    list_metadata: Mapping[str, Any],
    *,
    now: datetime,
) -> Object:
    if requested.kind == TABLE:
        return _table(requested, kind, objects, list_metadata, now=now)
    if requested.kind == PARTIAL_LIST:
        items = [_partial(requested, obj) for obj in objects]
        return _head(requested, PARTIAL_LIST) | {"metadata": dict(list_metadata), "items": items}
    message = f"you requested {PARTIAL}, but the requested object is a list ({kind.list_kind})"
    raise api_errors.ApiError(406, "NotAcceptable", message)


def _head(requested: RequestedFormat, kind: str) -> Object:
    return {"kind": kind, "apiVersion": f"{_GROUP}/{requested.version}"}


def _partial(requested: RequestedFormat, obj: Object) -> Object:
    return _head(requested, PARTIAL) | {"metadata": obj["metadata"]}


def _table(
    requested: RequestedFormat,
    kind: Kind,
    objects: Sequence[Object],
    list_metadata: Mapping[str, Any],
    *,
    with_columns: bool = True,
    now: datetime,
) -> Object:
    """Return a table. A watch event contains a table with a single row; only the first event has column definitions."""
    _check_include(requested.include)
    printer = _printer(kind)
    return _head(requested, TABLE) | {
        "metadata": {key: value for key, value in list_metadata.items() if value not in ("", None)},
        "columnDefinitions": msgspec.to_builtins(printer.headers) if with_columns else None,
        "rows": [_row(requested, kind, obj, printer.cells(obj, now)) for obj in objects],
    }


def _row(requested: RequestedFormat, kind: Kind, obj: Object, cells: list[Any]) -> Object:
    row: Object = {"cells": cells}
    phase = accessors.text(obj, "status", "phase") if kind.resource == "pods" else ""
    if message := _COMPLETED_MESSAGES.get(phase):
        row["conditions"] = [{"type": "Completed", "status": "True", "reason": phase, "message": message}]
    if requested.include == "Object":
        return row | {"object": obj}
    return row | {"object": None if requested.include == "None" else _partial(requested, obj)}


def _printer(kind: Kind) -> Printer:
    if not kind.is_custom:
        return columns.PRINTERS.get(kind.resource, columns.DEFAULT)
    return _custom_printer(kind.columns or (_AGE_COLUMN,))


@functools.lru_cache(maxsize=256)
def _custom_printer(shown: tuple[Column, ...]) -> Printer:
    return columns.printer(*map(_custom_column, shown))


def _custom_column(column: Column) -> columns.Column:
    description = column.description or column.path
    header = Header(column.name, column.type, column.format, description, column.priority)
    try:
        path = jsonpath.parse(column.path)
    except ValueError:
        # Kubernetes accepts definitions with an invalid path, and shows an empty column.
        path = None

    def read(obj: Object, now: datetime) -> Any:
        found = path.find(obj) if path else []
        return _cell(column.type, found[0], now) if found else None

    return header, read


def _cell(type_name: str, value: Any, now: datetime) -> Any:
    """Return the cell, or None if the value does not have the type of the column."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match type_name:
        case "string":
            return _text(value)
        case "integer" if is_number:
            return int(value)
        case "number" if is_number:
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return accessors.age(None if value == "null" else value, now)
    return None


def _text(value: Any) -> str:
    """Return a value as Go's `fmt.Print` writes it, mappings and lists as JSON."""
    match value:
        case str():
            return value
        case None:
            return "<no value>"
        case float():
            return _float(value)
    return msgspec.json.encode(value, order="sorted").decode().translate(_ESCAPES)


def _float(value: float) -> str:
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    shortest = Decimal(repr(value)).normalize()
    is_plain = -4 <= shortest.adjusted() < 6
    return repr(value) if is_plain else f"{value:.{len(shortest.as_tuple().digits) - 1}e}"
