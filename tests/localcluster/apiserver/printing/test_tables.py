"""Tables and PartialObjectMetadata. Cells and messages are those of kube-apiserver."""

from datetime import UTC, datetime
from typing import Any

import pytest

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.kinds.kind import Column, Kind
from windlass.localcluster.apiserver.printing import tables
from windlass.localcluster.apiserver.printing.tables import RequestedFormat
from windlass.localcluster.apiserver.schemas import structural
from windlass.localcluster.apiserver.strategy import Strategy

_NOW = datetime(2024, 1, 2, 12, tzinfo=UTC)
_CREATED = "2024-01-02T11:57:00Z"


def _kind(resource: str, kind: str, *, is_custom: bool = False, shown: tuple[Column, ...] = ()) -> Kind:
    plural, _, group = resource.partition(".")
    return Kind(
        group=group,
        version="v1",
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=True,
        list_kind=f"{kind}List",
        type_name="" if is_custom else kind,
        schema=structural.StructuralSchema({}),
        columns=shown,
        strategy=Strategy(),
    )


_PODS = _kind("pods", "Pod")


def _object(name: str = "x", metadata: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "creationTimestamp": _CREATED, **(metadata or {})}, **fields}


def _cells(kind: Kind, obj: dict[str, Any]) -> list[Any]:
    made = tables.convert_list(_TABLE, kind, [obj], {}, now=_NOW)
    cells: list[Any] = made["rows"][0]["cells"]
    assert len(cells) == len(made["columnDefinitions"])
    return cells


@pytest.mark.parametrize(
    ("type_name", "value", "expected"),
    [
        ("string", "text", "text"),
        ("string", None, "<no value>"),
        ("string", True, "true"),
        ("string", 5, "5"),
        ("string", 1.5, "1.5"),
        ("string", -2.0, "-2"),
        ("string", 1e16, "10000000000000000"),
        ("string", 1e21, "1e+21"),
        ("string", 12345678.9, "1.23456789e+07"),
        ("string", 0.0001, "0.0001"),
        ("string", 1e-9, "1e-09"),
        ("string", [1, {"b": 2, "a": None}], '[1,{"a":null,"b":2}]'),
        ("string", {"a": "<&>"}, '{"a":"\\u003c\\u0026\\u003e"}'),
        ("integer", 5, 5),
        ("integer", 2.7, 2),
        ("integer", "5", None),
        ("integer", True, None),
        ("number", 1.5, 1.5),
        ("number", "1", None),
        ("boolean", False, False),
        ("boolean", "true", None),
        ("boolean", 1, None),
        ("date", _CREATED, "3m"),
        ("date", "2024-01-02T13:57:00+02:00", "3m"),
        ("date", "2999-01-01T00:00:00Z", "<invalid>"),
        ("date", "2024-01-02", "<invalid>"),
        ("date", "2024-13-02T00:00:00Z", "<invalid>"),
        ("date", "", "<unknown>"),
        ("date", 5, None),
        ("date", None, None),
        ("integer", None, None),
    ],
)
def test_cells_of_custom_columns(type_name: str, value: Any, expected: Any) -> None:
    shown = (
        Column(name="C", type=type_name, path=".spec.value"),
        Column(name="M", type=type_name, path=".spec.no"),
    )
    found = _cells(_kind("things.x", "Thing", is_custom=True, shown=shown), _object(spec={"value": value}))
    assert found == ["x", expected, None]
    assert type(found[1]) is type(expected)


def test_columns_of_a_custom_kind() -> None:
    shown = (
        Column(name="State", type="string", path=".status.state", description="How it is", priority=1),
        Column(name="At", type="date", format="date-time", path=".status.at"),
        Column(name="Odd", type="string", path="nonsense"),
    )
    kind = _kind("things.x", "Thing", is_custom=True, shown=shown)
    made = tables.convert_list(_TABLE, kind, [_object(status={"state": "Fine"})], {}, now=_NOW)
    assert [
        (each["name"], each["type"], each["format"], each["description"], each["priority"])
        for each in made["columnDefinitions"]
    ] == [
        ("Name", "string", "name", "Name of the object", 0),
        ("State", "string", "", "How it is", 1),
        ("At", "date", "date-time", ".status.at", 0),
        ("Odd", "string", "", "nonsense", 0),
    ]
    assert made["rows"][0]["cells"] == ["x", "Fine", None, None]


def test_custom_kind_without_columns_shows_age() -> None:
    made = tables.convert_list(_TABLE, _kind("things.x", "Thing", is_custom=True), [_object()], {}, now=_NOW)
    assert [each["name"] for each in made["columnDefinitions"]] == ["Name", "Age"]
    assert made["rows"][0]["cells"] == ["x", "3m"]


def test_complete_table() -> None:
    pod = _object(apiVersion="v1", kind="Pod", spec={"containers": [{}]}, status={"phase": "Failed"})
    made = tables.convert_list(
        _TABLE,
        _PODS,
        [pod],
        {"resourceVersion": "7", "continue": "", "remainingItemCount": 3},
        now=_NOW,
    )
    assert made == {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "7", "remainingItemCount": 3},
        "columnDefinitions": made["columnDefinitions"],
        "rows": [
            {
                "cells": ["x", "0/1", "Failed", "0", "3m", "<none>", "<none>", "<none>", "<none>"],
                "conditions": [
                    {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}
                ],
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": pod["metadata"],
                },
            }
        ],
    }
    assert made["columnDefinitions"][3] == {
        "name": "Restarts",
        "type": "string",
        "format": "",
        "description": "",
        "priority": 0,
    }


@pytest.mark.parametrize(
    ("include", "expected"),
    [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "Pod"), ("None", None)],
)
def test_include_object_controls_row_content(include: str, expected: str | None) -> None:
    pod = _object(kind="Pod", spec={"containers": []})
    made = tables.convert_list(RequestedFormat("Table", "v1beta1", include), _PODS, [pod], {}, now=_NOW)
    carried = made["rows"][0]["object"]
    assert (carried and carried["kind"]) == expected
    assert made["apiVersion"] == "meta.k8s.io/v1beta1"


def test_unknown_include_object_is_rejected() -> None:
    with pytest.raises(api_errors.ApiError) as caught:
        tables.convert_list(RequestedFormat("Table", include="X"), _PODS, [], {}, now=_NOW)
    assert caught.value.code == 400
    assert caught.value.message == (
        "Unable to convert to Table as requested: includeObject: Invalid value: "
        "\"X\": must be 'Metadata', 'Object', 'None', or empty"
    )


_TABLE = RequestedFormat("Table", "v1")
_PARTIAL = RequestedFormat("PartialObjectMetadata", "v1")
_PARTIAL_LIST = RequestedFormat("PartialObjectMetadataList", "v1")


def _as(kind: str, version: str = "v1", group: str = "meta.k8s.io", more: str = "") -> str:
    return f"application/json;as={kind};v={version};g={group}{more}"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", None),
        ("*/*", None),
        ("*", None),
        ("application/json", None),
        ("application/json;stream=watch", None),
        ("text/html,*/*;q=0.8", None),
        ("application/vnd.kubernetes.protobuf,application/json", None),
        (f"{_as('Table')},{_as('Table', 'v1beta1')},application/json", _TABLE),
        ("application/json; as=Table; g=meta.k8s.io; v=v1, application/json", _TABLE),
        (
            f"{_as('Table', 'v2')},{_as('Table', 'v1beta1')},application/json",
            RequestedFormat("Table", "v1beta1"),
        ),
        (f"{_as('Table', more=';q=0.1')},application/json", None),
        (f"{_as('Table', more=';q=nonsense')},application/json", None),
        (f"{_as('Cake')},application/json", None),
        (f"{_as('Table', group='x')},application/json", None),
        ("application/json;as=Table,application/json", None),
        (_as("PartialObjectMetadata"), _PARTIAL),
        (_as("PartialObjectMetadataList"), _PARTIAL_LIST),
        (f"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,{_as('Table')}", _TABLE),
    ],
)
def test_requested_format_from_accept_header(accept: str, expected: RequestedFormat | None) -> None:
    assert tables.requested_format(accept) == expected


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/yaml", "application/yaml"),
        ("application/yaml,application/json;q=0.5", "application/yaml"),
        ("application/yaml;q=0.5,application/json", "application/json"),
    ],
)
def test_media_type_from_accept_header(accept: str, expected: str) -> None:
    assert tables.media_type(accept) == expected


_AVAILABLE = "application/json, application/yaml"


@pytest.mark.parametrize(
    "accept",
    [
        "application/vnd.kubernetes.protobuf",
        "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
        "text/plain",
        "nonsense",
    ],
)
def test_unknown_media_type_is_not_acceptable(accept: str) -> None:
    assert _refusal(accept) == f"406: Not Acceptable\n\nAvailable representations: {_AVAILABLE}"


@pytest.mark.parametrize("accept", [_as("Table", "v2"), "application/json;as=Table"])
def test_unknown_table_kind_is_not_acceptable(accept: str) -> None:
    assert _refusal(accept) == f"only the following media types are accepted: {_AVAILABLE}"


def _refusal(accept: str) -> str:
    with pytest.raises(api_errors.ApiError) as caught:
        tables.requested_format(accept)
    assert (caught.value.code, caught.value.reason) == (406, "NotAcceptable")
    return caught.value.message


def test_list_formats() -> None:
    pods, metadata = [_object("a", spec={}), _object("b", spec={})], {"resourceVersion": "7", "continue": "c"}
    partial = tables.convert_list(_PARTIAL_LIST, _PODS, pods, metadata, now=_NOW)
    assert partial == {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "items": [tables.convert_object(_PARTIAL, _PODS, pod, now=_NOW) for pod in pods],
    }
    assert [
        row["cells"][0] for row in tables.convert_list(_TABLE, _PODS, pods, metadata, now=_NOW)["rows"]
    ] == [
        "a",
        "b",
    ]
    with pytest.raises(
        api_errors.ApiError, match=r"you requested PartialObjectMetadata, but .* is a list"
    ) as caught:
        tables.convert_list(_PARTIAL, _PODS, pods, metadata, now=_NOW)
    assert caught.value.code == 406


def test_object_formats() -> None:
    pod = _object("a", {"resourceVersion": "5"}, spec={})
    assert tables.convert_object(_PARTIAL, _PODS, pod, now=_NOW)["metadata"] is pod["metadata"]
    first = tables.convert_object(_TABLE, _PODS, pod, now=_NOW)
    later = tables.convert_object(_TABLE, _PODS, pod, with_columns=False, now=_NOW)
    assert first["metadata"] == later["metadata"] == {"resourceVersion": "5"}
    assert (len(first["rows"]), first["rows"]) == (1, later["rows"])
    assert (first["columnDefinitions"] is None, later["columnDefinitions"]) == (False, None)
    with pytest.raises(api_errors.ApiError, match="is not a list") as caught:
        tables.convert_object(_PARTIAL_LIST, _PODS, pod, now=_NOW)
    assert caught.value.code == 406
