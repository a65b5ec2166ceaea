"""JSON patches and merge patches. The answers in the tables are those of a kube-apiserver."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.k8s import api_errors, json_patch

MAP = "map[string]interface {}"
OBJECT: dict[str, Any] = {
    "data": {"a": "1", "~x": "t", "y/z": "s"},
    "list": [1, 2, 3],
    "none": None,
    "deep": {"list": [{"n": 1}]},
}
REFUSED = (422, "Invalid", "the server rejected our request due to an error in our request")

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | st.text(max_size=5)
)
KEYS = st.sampled_from(["a", "b", "~", "/", "0", "-", ""])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
POINTERS = st.lists(st.sampled_from(["a", "b", "~0", "~1", "0", "1", "-1", "-", ""]), max_size=3).map(
    lambda tokens: "".join(f"/{token}" for token in tokens)
)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": POINTERS},
        optional={"from": POINTERS, "value": VALUES},
    ),
    max_size=5,
)


def rejection(error: api_errors.ApiError) -> tuple[int, str, str]:
    return error.code, error.reason, error.message


@pytest.mark.parametrize(
    ("operation", "change"),
    [
        ({"op": "add", "path": "/data/b", "value": "2"}, {"data": OBJECT["data"] | {"b": "2"}}),
        ({"op": "add", "path": "/data/a", "value": "2"}, {"data": OBJECT["data"] | {"a": "2"}}),
        ({"op": "add", "path": "/data/b"}, {"data": OBJECT["data"] | {"b": None}}),
        ({"op": "add", "path": "/list/-", "value": 4}, {"list": [1, 2, 3, 4]}),
        ({"op": "add", "path": "/list/3", "value": 4}, {"list": [1, 2, 3, 4]}),
        ({"op": "add", "path": "/list/1", "value": 4}, {"list": [1, 4, 2, 3]}),
        ({"op": "add", "path": "/list/-1", "value": 4}, {"list": [1, 2, 3, 4]}),
        ({"op": "add", "path": "/list/-4", "value": 4}, {"list": [4, 1, 2, 3]}),
        ({"op": "remove", "path": "/data"}, {"data": ...}),
        ({"op": "remove", "path": "/data/y~1z"}, {"data": {"a": "1", "~x": "t"}}),
        ({"op": "remove", "path": "/data/~0x"}, {"data": {"a": "1", "y/z": "s"}}),
        ({"op": "remove", "path": "/none"}, {"none": ...}),
        ({"op": "remove", "path": "/list/-1"}, {"list": [1, 2]}),
        ({"op": "replace", "path": "/list/+1", "value": 9}, {"list": [1, 9, 3]}),
        ({"op": "replace", "path": "/list/01", "value": 9}, {"list": [1, 9, 3]}),
        ({"op": "replace", "path": "/list/-3", "value": 9}, {"list": [9, 2, 3]}),
        ({"op": "replace", "path": "/data/new", "value": "n"}, {"data": OBJECT["data"] | {"new": "n"}}),
        ({"op": "replace", "path": "ignored/list", "value": 5}, {"list": 5}),
        ({"op": "move", "from": "/list/0", "path": "/list/2"}, {"list": [2, 3, 1]}),
        ({"op": "move", "from": "/deep/list", "path": "/list"}, {"deep": {}, "list": [{"n": 1}]}),
        ({"op": "copy", "from": "/deep/list/0", "path": "/list/-"}, {"list": [1, 2, 3, {"n": 1}]}),
        ({"op": "copy", "from": "/missing", "path": "/list"}, {"list": None}),
        ({"op": "test", "path": "/deep", "value": {"list": [{"n": 1}]}}, {}),
        ({"op": "test", "path": "/missing", "value": None}, {}),
        ({"op": "test", "path": "/missing"}, {}),
        ({"op": "test", "path": "", "value": OBJECT}, {}),
    ],
)
def test_operation_changes_the_object(operation: dict[str, Any], change: dict[str, Any]) -> None:
    expected = {key: value for key, value in (OBJECT | change).items() if value is not ...}
    assert json_patch.json_patch(OBJECT, [operation]) == expected


def test_whole_document_can_be_replaced() -> None:
    assert json_patch.json_patch(OBJECT, [{"op": "replace", "path": "", "value": {"a": 1}}]) == {"a": 1}


@pytest.mark.parametrize(
    "operation",
    [
        None,
        {},
        {"op": "bogus", "path": "/data"},
        {"op": ["add"], "path": "/data"},
        {"op": "add", "value": 1},
        {"op": "add", "path": 5, "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "data", "value": {}},
        {"op": "add", "path": "/missing/a", "value": 1},
        {"op": "add", "path": "/none/a", "value": 1},
        {"op": "add", "path": "/data/a/b", "value": 1},
        {"op": "add", "path": "/list/4", "value": 1},
        {"op": "add", "path": "/list/-5", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "add", "path": "/list/1_0", "value": 1},
        {"op": "add", "path": "/list/" + "9" * 5000, "value": 1},
        {"op": "remove", "path": ""},
        {"op": "remove", "path": "/missing"},
        {"op": "remove", "path": "/list/3"},
        {"op": "remove", "path": "/list/-"},
        {"op": "remove", "path": "/data/a/b"},
        {"op": "replace", "path": "", "value": 5},
        {"op": "replace", "path": "/list/3", "value": 1},
        {"op": "replace", "path": "/data/a/b", "value": 1},
        {"op": "move", "path": "/a"},
        {"op": "move", "from": "/missing", "path": "/a"},
        {"op": "move", "from": "/deep", "path": "/deep/list/0"},
        {"op": "copy", "from": "/list/3", "path": "/a"},
        {"op": "test", "path": "/data/a", "value": "2"},
        {"op": "test", "path": "/data/a"},
        {"op": "test", "path": "/missing/a", "value": None},
        {"op": "test", "path": "/list/0", "value": True},
        {"op": "test", "path": "/list/0", "value": 1.0},
        {"op": "test", "path": "/list", "value": [1, 2]},
        {"op": "test", "path": "/list", "value": [1, 2, 4]},
        {"op": "test", "path": "/data", "value": {"a": "1"}},
        {"op": "test", "path": "/none", "value": {}},
    ],
)
def test_inapplicable_operation_is_rejected(operation: Any) -> None:
    with pytest.raises(api_errors.ApiError) as raised:
        json_patch.json_patch(OBJECT, [{"op": "add", "path": "/x", "value": 1}, operation])
    assert rejection(raised.value) == REFUSED


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        (
            {},
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            "x",
            "error decoding patch: json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp",
        ),
        (
            3,
            "error decoding patch: json: cannot unmarshal number into Go value of type []handlers.jsonPatchOp",
        ),
        (
            True,
            "error decoding patch: json: cannot unmarshal bool into Go value of type []handlers.jsonPatchOp",
        ),
        (
            [1],
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        (
            ["x"],
            "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp",
        ),
        (
            [[]],
            "error decoding patch: json: cannot unmarshal array into Go value of type handlers.jsonPatchOp",
        ),
    ],
)
def test_invalid_json_patch_is_rejected(operations: Any, message: str) -> None:
    with pytest.raises(api_errors.ApiError) as raised:
        json_patch.json_patch(OBJECT, operations)
    assert rejection(raised.value) == (400, "BadRequest", message)


def test_empty_patch_changes_nothing() -> None:
    assert json_patch.json_patch(OBJECT, []) == json_patch.json_patch(OBJECT, None) == OBJECT


def test_too_many_operations_are_rejected() -> None:
    operation = {"op": "test", "path": "/list/0", "value": 1}
    assert json_patch.json_patch(OBJECT, [operation] * 10_000) == OBJECT
    with pytest.raises(api_errors.ApiError) as raised:
        json_patch.json_patch(OBJECT, [operation] * 10_001)
    assert rejection(raised.value) == (
        413,
        "RequestEntityTooLarge",
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
    )


def test_copied_bytes_are_limited() -> None:
    doubling = {"op": "copy", "from": "/deep", "path": "/deep/list/-"}
    with pytest.raises(api_errors.ApiError) as raised:
        json_patch.json_patch(OBJECT, [doubling] * 100)
    assert rejection(raised.value) == REFUSED


def test_copy_is_independent_of_its_source() -> None:
    operations = [
        {"op": "copy", "from": "/deep", "path": "/copy"},
        {"op": "add", "path": "/copy/list/0/n", "value": 2},
    ]
    assert json_patch.json_patch(OBJECT, operations)["deep"] == OBJECT["deep"]


@pytest.mark.parametrize("patch", [json_patch.json_patch, json_patch.merge_patch])
def test_too_deep_document_is_rejected(patch: Any) -> None:
    bottomless: dict[str, Any] = {}
    for _ in range(10_000):
        bottomless = {"a": bottomless}
    with pytest.raises(api_errors.ApiError) as raised:
        patch(OBJECT, {"a": bottomless})
    assert rejection(raised.value) == (400, "BadRequest", "exceeded max depth")


@given(OBJECTS, OPERATIONS)
def test_json_patch_neither_changes_nor_shares_its_arguments(obj: Any, operations: Any) -> None:
    before = copy.deepcopy((obj, operations))
    with contextlib.suppress(api_errors.ApiError):
        modify_in_place(json_patch.json_patch(obj, operations))
    assert (obj, operations) == before


@given(OBJECTS, OBJECTS)
def test_merge_patch_neither_changes_nor_shares_its_arguments(obj: Any, patch: Any) -> None:
    before = copy.deepcopy((obj, patch))
    modify_in_place(json_patch.merge_patch(obj, patch))
    assert (obj, patch) == before


def modify_in_place(value: Any) -> None:
    """Change every list and mapping in a value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in list(inner):
        modify_in_place(item)
    if isinstance(value, dict | list):
        value.clear()


@pytest.mark.parametrize(
    ("obj", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "scalar"}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({}, {"a": [1, None, {"b": None, "c": [None]}]}, {"a": [1, {"c": []}]}),
    ],
)
def test_merge_patch(obj: Any, patch: Any, expected: Any) -> None:
    assert json_patch.merge_patch(obj, patch) == expected


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "Invalid JSON Patch"),
        *(
            (patch, f"error decoding patch: json: cannot unmarshal {kind} into Go value of type {MAP}")
            for patch, kind in [([], "array"), ([1], "array"), ("x", "string"), (3, "number")]
        ),
    ],
)
def test_merge_patch_that_is_not_an_object_is_rejected(patch: Any, message: str) -> None:
    with pytest.raises(api_errors.ApiError) as raised:
        json_patch.merge_patch(OBJECT, patch)
    assert rejection(raised.value) == (400, "BadRequest", message)


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch that turns `old` into `new`."""
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        current = old.get(key)
        if isinstance(current, dict) and isinstance(value, dict):
            patch[key] = difference(current, value)
        elif key not in old or current != value or type(current) is not type(value):
            patch[key] = value
    return patch


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value if inner is not None]
    return value


@given(OBJECTS.map(without_nulls), OBJECTS.map(without_nulls))
def test_merge_patch_of_a_difference_gives_the_target(old: Any, new: Any) -> None:
    assert json_patch.merge_patch(old, difference(old, new)) == new


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "add", "path": "/x/0", "value": 0}, id="insert"),
        pytest.param({"op": "move", "from": "/x/0", "path": "/x/-"}, id="move"),
    ],
)
def test_patch_that_moves_too_many_items_is_rejected(
    operation: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_patch, "MAX_MOVED_ITEMS", 1_000)
    json_patch.json_patch({"x": [0] * 90}, [operation] * 10)
    with pytest.raises(api_errors.ApiError) as raised:
        json_patch.json_patch({"x": [0] * 101}, [operation] * 10)
    assert raised.value.code == 413
    # Changes at the end of a list move nothing.
    json_patch.json_patch({"x": [0] * 2_000}, [{"op": "add", "path": "/x/-", "value": 0}] * 10)
