"""Reading the top levels of JSON that is too deep for a decoder."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.wire import json_depth

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=30,
)
NESTED = '{"a":' * 5000 + "1" + "}" * 5000
DEEP = '{"metadata": {"name": "x"}, "items": [{"a": ' + NESTED + '}, {"b": "]}"}]}'


def cut(value: Any, deepest: int) -> Any:
    if not isinstance(value, dict | list):
        return value
    if deepest == 0:
        return None
    if isinstance(value, list):
        return [cut(item, deepest - 1) for item in value]
    return {key: cut(item, deepest - 1) for key, item in value.items()}


@given(VALUES, st.integers(0, 5))
def test_shallow_removes_deeper_levels(value: Any, deepest: int) -> None:
    data = json.dumps(value).encode()
    assert json.loads(json_depth.limit_depth(data, deepest)) == cut(value, deepest)


@given(st.dictionaries(st.sampled_from(["object", "type", "x"]), VALUES))
def test_object_or_list_at_a_key_is_found(value: dict[str, Any]) -> None:
    found = json_depth.member(json.dumps(value).encode(), "object")
    inner = value.get("object")
    assert (json.loads(found) if found else None) == (inner if isinstance(inner, dict | list) else None)


@given(st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=3), max_size=5))
def test_items_of_a_list_are_found(items: list[Any]) -> None:
    data = json.dumps({"kind": "List", "items": items, "metadata": {"items": [{}]}}, ensure_ascii=False)
    assert [json.loads(found) for found in json_depth.elements(data.encode(), "items")] == items


def test_five_thousand_levels_are_handled() -> None:
    first, second = json_depth.elements(DEEP.encode(), "items")
    assert first.startswith(b'{"a": {"a":{"a":')
    assert second == b'{"b": "]}"}'
    assert json.loads(json_depth.limit_depth(DEEP.encode(), 2)) == {
        "metadata": {"name": "x"},
        "items": [None, None],
    }


@pytest.mark.parametrize("key", ["nothing", "ite"])
def test_missing_key_is_empty(key: str) -> None:
    assert json_depth.elements(DEEP.encode(), key) == []
    assert json_depth.member(DEEP.encode(), key) == b""
