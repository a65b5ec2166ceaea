"""Hypothesis strategies for objects of built-in kinds, made from the table of fields."""

import functools
from typing import Any

from hypothesis import strategies as st

from windlass.k8s.protobuf import messages
from windlass.k8s.protobuf.messages import Label

DEEPEST = 3
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT | st.sampled_from(["Pod", "v1", "x" * 200]),
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "bytes": st.sampled_from(["", "AA==", "dGV4dA=="]),
    "resource.Quantity": st.sampled_from(["0", "500m", "1.5", "16Gi", "1e3"]),
    "intstr.IntOrString": st.integers(-(2**31), 2**31 - 1) | TEXT,
    "meta.v1.Time": st.sampled_from(["2026-11-19T10:00:00Z", "1969-12-31T23:59:59Z", "2106-02-07T06:28:16Z"]),
    "meta.v1.MicroTime": st.sampled_from(["2026-11-19T10:00:00.000001Z", "2026-11-19T10:00:00.999999Z"]),
}
IGNORED = ("meta.v1.FieldsV1", "double", "runtime.RawExtension")
INSTEAD_OF_EMPTY: dict[str, Any] = {"string": "x", "bool": True, "int32": 1, "int64": 1}


@functools.cache
def message(name: str, depth: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for the JSON of a message, without values that JSON omits."""
    optional: dict[str, st.SearchStrategy[Any]] = {}
    inline: list[st.SearchStrategy[dict[str, Any]]] = []
    for field in messages.table()[name].values():
        is_message = field.type in messages.table() and field.type not in SCALARS
        if field.type in IGNORED or (is_message and depth == DEEPEST):
            continue
        value = message(field.type, depth + 1) if is_message else SCALARS[field.type]
        if field.label is Label.INLINE:
            inline.append(value)
        elif field.label is Label.MAP:
            optional[field.name] = st.dictionaries(TEXT, value, min_size=1, max_size=1)
        elif field.label is Label.REPEATED:
            optional[field.name] = st.lists(value, min_size=1, max_size=2)
        elif field.label is Label.OMITEMPTY:
            optional[field.name] = _without_empty(field.type, value)
        else:
            optional[field.name] = value
    own = st.lists(st.sampled_from(sorted(optional)), max_size=4, unique=True) if optional else st.just([])
    whole = own.flatmap(lambda names: st.fixed_dictionaries({each: optional[each] for each in names}))
    for part in inline:
        whole = st.builds(lambda first, second: {**second, **first}, whole, part)
    return whole


def _without_empty(type_name: str, value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    other = INSTEAD_OF_EMPTY.get(type_name)
    return value.filter(bool) if other is None else value.map(lambda each: each or other)


def manifest(api_version: str, kind: str) -> st.SearchStrategy[dict[str, Any]]:
    name = messages.message_name(api_version, kind)
    return message(name).map(lambda fields: {"kind": kind, "apiVersion": api_version, **fields})
