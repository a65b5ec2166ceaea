# ruff: noqa: E501 — a message stands on one line, however long Kubernetes made it.
"""Pruning, defaulting and validation of custom resources. The messages are those of a real API server."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.schemas import structural

Schema = dict[str, Any]

INTEGER: Schema = {"type": "integer"}
STRING: Schema = {"type": "string"}
KEEPS: Schema = {"x-kubernetes-preserve-unknown-fields": True}
EMBEDDED: Schema = {"type": "object", "x-kubernetes-embedded-resource": True}


def fields(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def items(schema: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": schema, **more}


def values(schema: Schema | bool, **more: Any) -> Schema:
    return {"type": "object", "additionalProperties": schema, **more}


def custom(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "one"}, "spec": spec}


def pruned(schema: Schema, spec: Any) -> tuple[Any, list[str]]:
    obj = custom(copy.deepcopy(spec))
    dropped = structural.StructuralSchema(fields(spec=schema)).prune(obj)
    return obj["spec"], dropped


def schema_errors(schema: Schema, spec: Any) -> list[str]:
    return [str(error) for error in structural.StructuralSchema(fields(spec=schema)).validate(custom(spec))]


# Pruning


@pytest.mark.parametrize(
    ("schema", "spec", "kept", "dropped"),
    [
        pytest.param(fields(a=INTEGER), {"a": 1, "b": 2}, {"a": 1}, ["spec.b"], id="unknown"),
        pytest.param(fields(), {"a": 1}, {}, ["spec.a"], id="no field is known"),
        pytest.param(
            fields(a=items(fields(b=INTEGER))),
            {"a": [{"b": 1}, {"b": 2, "c": 3}]},
            {"a": [{"b": 1}, {"b": 2}]},
            ["spec.a[1].c"],
            id="in an element",
        ),
        pytest.param(
            fields(a=values(fields(b=INTEGER))),
            {"a": {"k": {"b": 1, "c": 2}}},
            {"a": {"k": {"b": 1}}},
            ["spec.a.k.c"],
            id="in a value",
        ),
        pytest.param(values(INTEGER), {"a": 1, "b": 2}, {"a": 1, "b": 2}, [], id="any key"),
        pytest.param(
            fields(c=values(True)),
            {"c": {"x": 1, "y": {"z": 1}, "w": None, "v": [{"a": 1}]}},
            {"c": {"x": 1, "y": {}, "w": None, "v": [{}]}},
            ["spec.c.y.z", "spec.c.v[0].a"],
            id="a flag keeps keys, and nothing below",
        ),
        pytest.param({**fields(a=INTEGER), "additionalProperties": True}, {"a": 1, "b": 2}, {"a": 1, "b": 2}, [], id="both"),
        pytest.param(
            {**fields(p=fields(q=INTEGER)), **KEEPS},
            {"p": {"q": 1, "r": 2}, "s": {"t": None}, "u": None},
            {"p": {"q": 1}, "s": {"t": None}, "u": None},
            ["spec.p.r"],
            id="kept, but not below what is known",
        ),
        pytest.param(KEEPS, {"a": [{"b": None}]}, {"a": [{"b": None}]}, [], id="kept"),
        pytest.param(
            fields(a=items(fields(x=INTEGER), **KEEPS)),
            {"a": [{"x": 1, "y": 2}]},
            {"a": [{"x": 1, "y": 2}]},
            [],
            id="a list that keeps keeps in its elements",
        ),
        pytest.param(fields(a=INTEGER, b=STRING), {"a": None, "b": "x"}, {"b": "x"}, [], id="null"),
        pytest.param(
            fields(a={**INTEGER, "nullable": True}, b={**INTEGER, "default": 1}),
            {"a": None, "b": None},
            {"a": None, "b": None},
            [],
            id="null that may be there, or will be filled",
        ),
        pytest.param(values(INTEGER), {"a": None, "b": 1}, {"b": 1}, [], id="null value"),
        pytest.param(items(INTEGER), [None, 1], [None, 1], [], id="a null element stays"),
        pytest.param(
            fields(a={**EMBEDDED, **KEEPS}),
            {"a": {"kind": "Pod", "metadata": {"name": "x", "foo": 1}, "q": 1}},
            {"a": {"kind": "Pod", "metadata": {"name": "x"}, "q": 1}},
            ["spec.a.metadata.foo"],
            id="embedded object",
        ),
        pytest.param(
            fields(a={**EMBEDDED, "properties": {"spec": fields(x=INTEGER)}}),
            {"a": {"apiVersion": "v1", "kind": "Pod", "spec": {"x": 1, "y": 2}, "z": 1}},
            {"a": {"apiVersion": "v1", "kind": "Pod", "spec": {"x": 1}}},
            ["spec.a.z", "spec.a.spec.y"],
            id="embedded object with a schema",
        ),
        pytest.param(fields(a=fields(b=INTEGER)), {"a": [1]}, {"a": [1]}, [], id="of a wrong type"),
    ],
)  # fmt: skip
def test_unknown_fields_are_pruned(schema: Schema, spec: Any, kept: Any, dropped: list[str]) -> None:
    assert pruned(schema, spec) == (kept, dropped)


def test_api_version_kind_and_metadata_are_not_pruned() -> None:
    obj = {**custom({}), "metadata": {"name": "one", "foo": {"bar": 1}}, "other": 1}
    schema = structural.StructuralSchema(fields(metadata=fields(name=STRING), spec=fields()))
    assert schema.prune(obj) == ["other"]
    assert obj == {**custom({}), "metadata": {"name": "one", "foo": {"bar": 1}}}


# Defaulting


@pytest.mark.parametrize(
    ("schema", "spec", "filled"),
    [
        (fields(a={**INTEGER, "default": 5}), {}, {"a": 5}),
        (fields(a={**INTEGER, "default": 5}), {"a": 0}, {"a": 0}),
        (fields(a={**INTEGER, "default": 5}), {"a": None}, {"a": 5}),
        (fields(a={**INTEGER, "default": 5, "nullable": True}), {"a": None}, {"a": None}),
        (fields(a={**fields(b={**STRING, "default": "x"}), "default": {}}), {}, {"a": {"b": "x"}}),
        (fields(a=fields(b={**STRING, "default": "x"})), {}, {}),
        (fields(a=items(fields(b={**INTEGER, "default": 1}))), {"a": [{}, {"b": 3}, None]}, {"a": [{"b": 1}, {"b": 3}, None]}),
        (fields(a=values(fields(b={**INTEGER, "default": 2}))), {"a": {"k": {}}}, {"a": {"k": {"b": 2}}}),
        (items({**INTEGER, "default": 9}), [None, 1], [9, 1]),
        (values({**INTEGER, "default": 8}), {"a": None, "b": 1}, {"a": 8, "b": 1}),
        (fields(a=fields(b={**INTEGER, "default": 1})), {"a": "text"}, {"a": "text"}),
    ],
)  # fmt: skip
def test_defaults_are_set(schema: Schema, spec: Any, filled: Any) -> None:
    obj = custom(copy.deepcopy(spec))
    structural.StructuralSchema(fields(spec=schema)).default(obj)
    assert obj["spec"] == filled


def test_a_default_is_copied() -> None:
    schema = structural.StructuralSchema(fields(spec=fields(a={**values(INTEGER), "default": {"x": 1}})))
    one, two = custom({}), custom({})
    schema.default(one)
    one["spec"]["a"]["y"] = 2
    schema.default(two)
    assert two["spec"] == {"a": {"x": 1}}


# Validation


BOUNDED = {**INTEGER, "minimum": 1, "maximum": 10}
OPEN = {**BOUNDED, "exclusiveMinimum": True, "exclusiveMaximum": True}
FRACTION = {"type": "number", "minimum": 0.5, "maximum": 12345678}
NAME = {**STRING, "minLength": 2, "maxLength": 3, "pattern": "^[a-z]+$"}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
EITHER = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
XY = fields(x=INTEGER, y=INTEGER)
ONE = {"oneOf": [{"required": ["x"]}, {"required": ["y"]}]}
ANY = {"anyOf": [{"required": ["x"]}, {"required": ["y"]}]}
SET = items(STRING, **{"x-kubernetes-list-type": "set"})
MAP = items(
    {**fields(n=STRING, p=INTEGER), "required": ["n"]},
    **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]},
)


NOT_WHOLE = '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.a'


def wrong(found: str, expected: str, at: str = "spec.a") -> str:
    return f'{at}: Invalid value: "{found}": {at} in body must be of type {expected}: "{found}"'


@pytest.mark.parametrize(
    ("schema", "value", "errors"),
    [
        (INTEGER, 1, []),
        (INTEGER, 1.0, []),
        (INTEGER, 1.5, [wrong("number", "integer"), NOT_WHOLE]),
        (INTEGER, "x", [wrong("string", "integer")]),
        (INTEGER, True, [wrong("boolean", "integer")]),
        (INTEGER, {}, [wrong("object", "integer")]),
        (INTEGER, [], [wrong("array", "integer")]),
        (INTEGER, None, [wrong("null", "integer")]),
        ({**INTEGER, "nullable": True}, None, []),
        ({**INTEGER, "format": "int32"}, 5_000_000_000, []),
        ({"type": "number"}, 1, []),
        ({"type": "number"}, True, [wrong("boolean", "number")]),
        (STRING, "", []),
        (STRING, 1, [wrong("integer", "string")]),
        ({"type": "boolean"}, 0, [wrong("integer", "boolean")]),
        ({"type": "object"}, [], [wrong("array", "object")]),
        (items(INTEGER), {}, [wrong("object", "array")]),
        (items(INTEGER), [1, "b", None], [wrong("string", "integer", "spec.a[1]"), wrong("null", "integer", "spec.a[2]")]),
        (values(INTEGER), {"k": "x"}, [wrong("string", "integer", "spec.a.k")]),
        (KEEPS, {"any": [None]}, []),
        (INT_OR_STRING, 1, []),
        (INT_OR_STRING, "x", []),
        (INT_OR_STRING, 1.5, [wrong("number", "integer,string")]),
        ({**INT_OR_STRING, **EITHER, "pattern": "^[0-9]+%$"}, "x", ['spec.a: Invalid value: "x": spec.a in body should match \'^[0-9]+%$\'']),
        (
            {**INT_OR_STRING, **EITHER},
            True,
            [
                wrong("boolean", "integer,string"),
                '<nil>: Invalid value: "": "spec.a" must validate at least one schema (anyOf)',
                wrong("boolean", "integer"),
            ],
        ),
        ({**STRING, "enum": ["x", "y"]}, "z", ['spec.a: Unsupported value: "z": supported values: "x", "y"']),
        ({**STRING, "enum": ["x"], "nullable": True}, None, ['spec.a: Unsupported value: "null": supported values: "x"']),
        ({**INTEGER, "enum": [1, 2]}, 3, ['spec.a: Unsupported value: 3: supported values: "1", "2"']),
        ({**INTEGER, "enum": [1, 2]}, 1.0, []),
        ({**INTEGER, "enum": [1]}, True, [wrong("boolean", "integer"), 'spec.a: Unsupported value: true: supported values: "1"']),
        (BOUNDED, 0, ["spec.a: Invalid value: 0: spec.a in body should be greater than or equal to 1"]),
        (BOUNDED, 11, ["spec.a: Invalid value: 11: spec.a in body should be less than or equal to 10"]),
        (OPEN, 1, ["spec.a: Invalid value: 1: spec.a in body should be greater than 1"]),
        (OPEN, 10, ["spec.a: Invalid value: 10: spec.a in body should be less than 10"]),
        (FRACTION, 0.25, ["spec.a: Invalid value: 0.25: spec.a in body should be greater than or equal to 0.5"]),
        (FRACTION, 0, []),
        (FRACTION, 20000000.5, ["spec.a: Invalid value: 20000000.5: spec.a in body should be less than or equal to 1.2345678e+07"]),
        ({**INTEGER, "multipleOf": 3}, 4, ["spec.a: Invalid value: 4: spec.a in body should be a multiple of 3"]),
        ({"type": "number", "multipleOf": 0.5}, 0.7, ["spec.a: Invalid value: 0.7: spec.a in body should be a multiple of 0.5"]),
        ({"type": "number", "multipleOf": 0.1}, 0.3, []),
        (NAME, "x", ['spec.a: Invalid value: "x": spec.a in body should be at least 2 chars long']),
        (NAME, "xxxx", ["spec.a: Too long: may not be more than 3 bytes"]),
        (NAME, "ab\n", ['spec.a: Invalid value: "ab\\n": spec.a in body should match \'^[a-z]+$\'']),
        ({**STRING, "maxLength": 3}, "ééé", []),
        ({**STRING, "format": "date-time"}, "2020-02-30T00:00:00Z", [wrong("2020-02-30T00:00:00Z", "date-time")]),
        (items(STRING, minItems=1), [], ["spec.a: Invalid value: 0: spec.a in body should have at least 1 items"]),
        (items(STRING, maxItems=1), ["x", "y"], ["spec.a: Too many: 2: must have at most 1 item"]),
        (values(INTEGER, minProperties=1), {}, ["spec.a: Invalid value: 1: spec.a in body should have at least 1 properties"]),
        (values(INTEGER, maxProperties=1), {"x": 1, "y": "z"}, ["spec.a: Too many: 2: must have at most 1 item"]),
        (values(False), {"x": 1}, ['spec.a: Invalid value: "x": spec.a.x in body is a forbidden property']),
        ({**XY, "required": ["x", "z"]}, {"x": 1}, ["spec.a.z: Required value"]),
        ({**XY, **ONE}, {"x": 1}, []),
        (
            {**XY, **ONE},
            {},
            ['<nil>: Invalid value: "": "spec.a" must validate one and only one schema (oneOf). Found none valid', "spec.a.x: Required value"],
        ),
        (
            {**XY, **ONE},
            {"x": 1, "y": 2},
            ['<nil>: Invalid value: "": "spec.a" must validate one and only one schema (oneOf). Found 2 valid alternatives'],
        ),
        ({**XY, **ANY}, {"x": 1, "y": 2}, []),
        ({**XY, **ANY}, {}, ['<nil>: Invalid value: "": "spec.a" must validate at least one schema (anyOf)', "spec.a.x: Required value"]),
        ({**XY, "not": {"required": ["x"]}}, {"x": 1}, ['<nil>: Invalid value: "": "spec.a" must not validate the schema (not)']),
        (
            {**INTEGER, "allOf": [{"minimum": 1}, {"maximum": 3}]},
            0,
            [
                "spec.a: Invalid value: 0: spec.a in body should be greater than or equal to 1",
                '<nil>: Invalid value: "": "spec.a" must validate all the schemas (allOf)',
            ],
        ),
        (
            {**INTEGER, "allOf": [{"minimum": 1}]},
            0,
            [
                "spec.a: Invalid value: 0: spec.a in body should be greater than or equal to 1",
                '<nil>: Invalid value: "": "spec.a" must validate all the schemas (allOf). None validated',
            ],
        ),
        (SET, ["x", "y", "x", "x"], ['spec.a[2]: Duplicate value: "x"']),
        (MAP, [{"n": "a"}, {"n": "a", "p": 1}, {"n": "b"}], ['spec.a[1]: Duplicate value: {"n":"a"}']),
        (MAP, ["x"], [wrong("string", "object", "spec.a[0]"), 'spec.a[0]: Invalid value: "x": must be an object for an array of list-type map']),
        (values(SET), {"k": ["x", "x"]}, ['spec.a[k][1]: Duplicate value: "x"']),
        ({**EMBEDDED, **KEEPS}, {}, ["spec.a.apiVersion: Required value", "spec.a.kind: Required value"]),
        ({**EMBEDDED, **KEEPS}, {"apiVersion": "a/b/c", "kind": ""}, [
            'spec.a.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
            'spec.a.kind: Invalid value: "": must not be empty',
        ]),
        ({**EMBEDDED, **KEEPS}, {"apiVersion": "v1", "kind": 1, "metadata": 2}, [
            "spec.a.kind: Invalid value: 1: must be a string",
            "spec.a.metadata: Invalid value: 2: must be an object",
        ]),
    ],
)  # fmt: skip
def test_schema_errors(schema: Schema, value: Any, errors: list[str]) -> None:
    assert schema_errors(fields(a=schema), {"a": value}) == errors


def test_pattern_with_nested_repetition_is_matched_in_linear_time() -> None:
    """A backtracking engine would not finish."""
    (error,) = schema_errors(fields(a={**STRING, "pattern": "(a+)+$"}), {"a": "a" * 100_000 + "b"})
    assert error.endswith("should match '(a+)+$'")


def test_schema_can_restrict_metadata_name() -> None:
    schema = structural.StructuralSchema(fields(metadata=fields(name={**STRING, "maxLength": 2})))
    error = "metadata.name: Too long: may not be more than 2 bytes"
    assert [str(error) for error in schema.validate(custom({}))] == [error]


def test_required_field_at_root() -> None:
    schema = structural.StructuralSchema({**fields(spec=fields()), "required": ["spec"]})
    assert [str(error) for error in schema.validate({"kind": "Thing"})] == ["spec: Required value"]


@pytest.fixture(scope="module", params=["launcher", "frameworkcontroller"])
def framework_schema(request: pytest.FixtureRequest) -> Any:
    path = (
        Path(__file__).parents[4]
        / "charts/windlass/definitions"
        / f"frameworks.{request.param}.microsoft.com.yaml"
    )
    definition = yaml.safe_load(path.read_text())
    return structural.StructuralSchema(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def test_framework_defaults(framework_schema: Any) -> None:
    pod = {"spec": {"containers": [{"name": "main"}], "anything": None}}
    framework = custom({"taskRoles": [{"name": "worker", "task": {"pod": pod}}], "typo": 1})
    assert framework_schema.prune(framework) == ["spec.typo"]
    framework_schema.default(framework)
    assert framework_schema.validate(framework) == []
    spec = framework["spec"]
    assert spec["executionType"] == "Start"
    assert spec["retryPolicy"] == {"fancyRetryPolicy": False, "maxRetryCount": 0}
    assert spec["taskRoles"][0]["taskNumber"] == 0
    assert spec["taskRoles"][0]["task"]["pod"] == pod


def test_invalid_framework_is_rejected(framework_schema: Any) -> None:
    framework = custom({"executionType": "Go", "taskRoles": [{"name": "Worker", "taskNumber": -1}]})
    framework_schema.default(framework)
    errors = {error.field: error.message for error in framework_schema.validate(framework)}
    assert errors["spec.executionType"].startswith('Unsupported value: "Go": supported values: "Create"')
    assert errors["spec.taskRoles[0].name"].endswith("should match '^[a-z0-9]{1,63}$'")
    assert errors["spec.taskRoles[0].taskNumber"].endswith("should be greater than or equal to 0")


# Properties of every schema and object

KEYS = st.sampled_from("abcd")
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "long"])
JSON = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=12,
)
LEAVES = st.sampled_from([
    INTEGER,
    {**INTEGER, "default": 1},
    {**INTEGER, "minimum": 0, "nullable": True},
    {**STRING, "maxLength": 2},
    {**STRING, "default": "x", "nullable": True},
    {**STRING, "enum": ["x", ""]},
    KEEPS,
    INT_OR_STRING,
    SET,
])  # fmt: skip


def schemas_over(below: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    objects = st.dictionaries(KEYS, below, max_size=4).map(lambda properties: fields(**properties))
    keeping = objects.map(lambda schema: {**schema, **KEEPS})
    filled = objects.map(lambda schema: {**schema, "default": {}})
    return objects | keeping | filled | below.map(items) | below.map(values)


SCHEMAS = st.recursive(LEAVES, schemas_over, max_leaves=8)


@given(schema=SCHEMAS, spec=JSON)
def test_pruning_and_defaulting_are_idempotent(schema: Schema, spec: Any) -> None:
    compiled, obj = structural.StructuralSchema(fields(spec=schema)), custom(spec)
    compiled.prune(obj)
    once = copy.deepcopy(obj)
    assert compiled.prune(obj) == []
    assert obj == once
    compiled.default(obj)
    filled = copy.deepcopy(obj)
    compiled.default(obj)
    assert obj == filled


@given(schema=SCHEMAS, spec=JSON)
def test_valid_object_stays_valid_after_pruning_and_defaulting(schema: Schema, spec: Any) -> None:
    compiled, obj = structural.StructuralSchema(fields(spec=schema)), custom(spec)
    was_valid = not compiled.validate(obj)
    compiled.prune(obj)
    assert not was_valid or not compiled.validate(obj)


@given(schema=SCHEMAS, spec=JSON)
def test_reported_paths_existed_and_were_removed(schema: Schema, spec: Any) -> None:
    before = custom(copy.deepcopy(spec))
    after = custom(spec)
    dropped = structural.StructuralSchema(fields(spec=schema)).prune(after)
    assert dropped == [path for path in dropped if path in paths_of(before)]
    assert not paths_of(after) & set(dropped)


def paths_of(value: Any, at: str = "") -> set[str]:
    if isinstance(value, dict):
        below = [(f"{at}.{key}".removeprefix("."), one) for key, one in value.items()]
    else:
        below = (
            [(f"{at}[{index}]", one) for index, one in enumerate(value)] if isinstance(value, list) else []
        )
    return {path for path, _ in below} | {path for at, one in below for path in paths_of(one, at)}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (items({"type": "object", "required": ["name"]}), [{}] * 1_000),
        (values({"type": "object", "required": ["name"]}), {f"k{number}": {} for number in range(1_000)}),
        (fields() | {"additionalProperties": False}, {f"k{number}": 1 for number in range(1_000)}),
        (items(STRING, **{"x-kubernetes-list-type": "set"}), [f"v{number // 2}" for number in range(2_000)]),
        (items(EMBEDDED | KEEPS), [{}] * 1_000),
        (values(EMBEDDED | KEEPS), {f"k{number}": {} for number in range(1_000)}),
    ],
    ids=["list", "map", "forbidden-properties", "set", "embedded-list", "embedded-map"],
)
def test_validation_stops_after_as_many_errors_as_are_reported(schema: Schema, value: Any) -> None:
    validate = structural.StructuralSchema(fields(spec=schema)).validate
    errors = validate(custom(value))
    assert api_errors.MAX_ERRORS <= len(errors) <= api_errors.MAX_ERRORS + 2
    few = value[:40] if isinstance(value, list) else dict([*value.items()][:40])
    assert errors[:20] == validate(custom(few))[:20]


def test_errors_of_a_listed_field_are_found_after_many_of_a_map() -> None:
    schema = fields(spec=values(INTEGER), status=INTEGER)
    obj = custom({f"k{number}": "x" for number in range(1_000)}) | {"status": "x"}
    assert any(error.field == "status" for error in structural.StructuralSchema(schema).validate(obj))
