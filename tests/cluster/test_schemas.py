"""Validation, defaulting and pruning of custom resources by their schema."""

from typing import Any

import pytest

from conformance.client import Json
from conformance.objects import ANYTHING, Widgets, definition, establish, version
from conformance.transcript import RecordingClient

SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "ratio": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        "even": {"type": "integer", "multipleOf": 2},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "code": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
        "active": {"type": "boolean"},
        "maybe": {"type": "string", "nullable": True},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "list": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "value": {"type": "integer"}},
            },
        },
        "map": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
        "port": {"x-kubernetes-int-or-string": True},
        "when": {"type": "string", "format": "date-time"},
        "long": {"type": "integer", "format": "int64"},
        "either": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        "any": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        "not": {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "not": {"required": ["a"]},
        },
    },
}

GOOD: dict[str, dict[str, Any]] = {
    "least": {},
    "most": {"size": 10},
    "whole-number": {"ratio": 2},
    "fraction": {"ratio": 0.5},
    "even": {"even": 4},
    "enumerated": {"colour": "red"},
    "pattern": {"code": "abc"},
    "boolean": {"active": False},
    "null-that-may-be": {"maybe": None},
    "null-dropped": {"colour": None},
    "tags": {"tags": ["a", "b"]},
    "set": {"set": ["a", "b"]},
    "list": {"list": [{"name": "a", "value": 1}, {"name": "b"}]},
    "map": {"map": {"a": 1, "b": 2}},
    "port-number": {"port": 80},
    "port-name": {"port": "http"},
    "time": {"when": "2001-02-03T04:05:06Z"},
    "one-of": {"either": {"a": "x"}},
    "any-of-both": {"any": {"a": "x", "b": "y"}},
    "not": {"not": {}},
    "whole-as-float": {"size": 2.0},
    "pruned": {"unknown": {"a": 1}},
    "pruned-in-list": {"list": [{"name": "a", "unknown": 1}]},
}

BAD: dict[str, Any] = {
    "missing": {"size": None},
    "string-for-integer": {"size": "1"},
    "fraction-for-integer": {"size": 1.5},
    "too-small": {"size": 0},
    "too-big": {"size": 11},
    "exclusive": {"ratio": 0},
    "odd": {"even": 3},
    "not-enumerated": {"colour": "green"},
    "pattern": {"code": "ABC"},
    "too-short": {"code": "a"},
    "too-long": {"code": "abcde"},
    "string-for-boolean": {"active": "yes"},
    "no-items": {"tags": []},
    "too-many-items": {"tags": ["a", "b", "c"]},
    "twice-in-a-set": {"set": ["a", "a"]},
    "twice-in-a-list": {"list": [{"name": "a"}, {"name": "a"}]},
    "value-of-another-type": {"map": {"a": "x"}},
    "too-many-properties": {"map": {"a": 1, "b": 2, "c": 3}},
    "port-fraction": {"port": 1.5},
    "port-boolean": {"port": True},
    "no-time": {"when": "yesterday"},
    "one-of-none": {"either": {}},
    "one-of-both": {"either": {"a": "x", "b": "y"}},
    "any-of-none": {"any": {}},
    "not": {"not": {"a": "x"}},
    "list-for-object": {"map": [1]},
}


@pytest.mark.parametrize("case", ["good", "bad"])
def test_schema_violations_are_rejected(api: RecordingClient, widgets: Widgets, case: str) -> None:
    """One definition for all cases, since creating one is slow. Each case is a request."""
    establish(
        api.unrecorded, definition(widgets.group, version({"type": "object", "properties": {"spec": SPEC}}))
    )
    for name, fields in (GOOD if case == "good" else BAD).items():
        spec = {key: value for key, value in {"size": 1, **fields}.items() if (key, value) != ("size", None)}
        api.post(widgets.path(), widgets.body(name, spec=spec)).expect(201 if case == "good" else 422)


def test_all_schema_errors_are_reported(api: RecordingClient, widgets: Widgets) -> None:
    """The order of errors is not guaranteed."""
    establish(
        api.unrecorded, definition(widgets.group, version({"type": "object", "properties": {"spec": SPEC}}))
    )
    body = widgets.body("a", spec={"size": 11, "colour": "green"})
    causes = api.unrecorded.post(widgets.path(), body).expect(422).body["details"]["causes"]
    api.note("causes", sorted(causes, key=lambda cause: str(cause["field"])))


INSIDE_LISTS: dict[str, tuple[Any, str]] = {
    "item-of-another-type": ({"tags": [1]}, "spec.tags"),
    "without-its-key": ({"list": [{"value": 1}]}, "spec.list"),
}


def test_errors_in_lists_have_indexes(api: RecordingClient, widgets: Widgets) -> None:
    """Newer releases report the index."""
    establish(
        api.unrecorded, definition(widgets.group, version({"type": "object", "properties": {"spec": SPEC}}))
    )
    for name, (fields, field) in INSIDE_LISTS.items():
        refused = api.unrecorded.post(widgets.path(), widgets.body(name, spec={"size": 1, **fields})).expect(
            422
        )
        assert [cause["field"].startswith(field) for cause in refused.body["details"]["causes"]] == [True]


SPECS: dict[str, Any] = {
    "no-spec": {},
    "null": {"spec": None},
    "string": {"spec": "text"},
    "list": {"spec": []},
}


def test_invalid_top_level_fields_are_rejected(api: RecordingClient, widgets: Widgets) -> None:
    shape = {"type": "object", "required": ["spec"], "properties": {"spec": SPEC}}
    establish(api.unrecorded, definition(widgets.group, version(shape)))
    for name, fields in SPECS.items():
        api.post(widgets.path(), widgets.body(name, **fields)).expect(422)
    pruned = api.post(widgets.path(), widgets.body("extra", spec={"size": 1}, more={"a": 1})).expect(201)
    assert "more" not in pruned.body


BODIES: dict[str, tuple[dict[str, Any], int]] = {
    "another-kind": ({"kind": "Gadget"}, 422),
    "another-group": ({"apiVersion": "v1"}, 400),
    "no-kind": ({"kind": None}, 400),
    "no-name": ({"metadata": {}}, 422),
    "no-metadata": ({"metadata": None}, 422),
    "bad-name": ({"metadata": {"name": "A_b"}}, 422),
    "bad-label": ({"metadata": {"name": "a", "labels": {"a b": "c"}}}, 422),
    "label-number": ({"metadata": {"name": "a", "labels": {"a": 1}}}, 400),
    "unknown-metadata": ({"metadata": {"name": "a", "unknown": 1}}, 201),
    "metadata-string": ({"metadata": "a"}, 400),
    "made-name": ({"metadata": {"generateName": "made-"}}, 201),
    "another-namespace": ({"metadata": {"name": "b", "namespace": "elsewhere"}}, 400),
}


def test_invalid_bodies_are_rejected(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(ANYTHING)))
    codes = {}
    for name, (fields, _) in BODIES.items():
        body = {key: value for key, value in {**widgets.body("a"), **fields}.items() if value is not None}
        codes[name] = api.post(widgets.path(), body).code
    assert codes == {name: code for name, (_, code) in BODIES.items()}


DEFAULTED = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "default": {},
            "properties": {
                "size": {"type": "integer", "default": 3},
                "inner": {
                    "type": "object",
                    "properties": {"colour": {"type": "string", "default": "blue"}},
                },
                "filled": {
                    "type": "object",
                    "default": {"a": "x"},
                    "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "y"}},
                },
                "list": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}},
                },
                "map": {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "properties": {"n": {"type": "integer", "default": 8}},
                    },
                },
                "maybe": {"type": "string", "nullable": True, "default": "set"},
                "firm": {"type": "string", "default": "set"},
            },
        }
    },
}
OTHERS = {"size": 3, "filled": {"a": "x", "b": "y"}, "maybe": "set", "firm": "set"}
DEFAULTS: dict[str, tuple[Any, Any]] = {
    "nothing": ({}, OTHERS),
    "empty": ({"spec": {}}, OTHERS),
    "given": ({"spec": {"size": 5}}, {**OTHERS, "size": 5}),
    "inner": ({"spec": {"inner": {}}}, {**OTHERS, "inner": {"colour": "blue"}}),
    "filled": ({"spec": {"filled": {}}}, {**OTHERS, "filled": {"b": "y"}}),
    "list": ({"spec": {"list": [{}, {"n": 1}]}}, {**OTHERS, "list": [{"n": 7}, {"n": 1}]}),
    "map": ({"spec": {"map": {"k": {}}}}, {**OTHERS, "map": {"k": {"n": 8}}}),
    "null-kept": ({"spec": {"maybe": None}}, {**OTHERS, "maybe": None}),
    "null-defaulted": ({"spec": {"firm": None}}, OTHERS),
}


def test_defaults_are_set(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(DEFAULTED)))
    for name, (fields, expected) in DEFAULTS.items():
        assert api.post(widgets.path(), widgets.body(name, **fields)).expect(201).body["spec"] == expected
    patched = api.patch(widgets.path("given"), {"spec": {"size": None}}).expect(200)
    assert patched.body["spec"] == OTHERS


PRUNED = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "known": {"type": "string"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "half": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"shut": {"type": "object", "properties": {"a": {"type": "string"}}}},
                },
                "embedded": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"data": {"type": "integer"}},
                },
                "whole": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        }
    },
}
EMBEDDED = {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x", "labels": {"a": "b"}}}
PRUNING: dict[str, tuple[Any, Any]] = {
    "unknown": ({"known": "a", "unknown": 1}, {"known": "a"}),
    "free": ({"free": {"a": {"b": 1}}}, {"free": {"a": {"b": 1}}}),
    "half": ({"half": {"x": 1, "shut": {"a": "b", "c": 1}}}, {"half": {"x": 1, "shut": {"a": "b"}}}),
    "embedded": ({"embedded": {**EMBEDDED, "data": 1, "more": 2}}, {"embedded": {**EMBEDDED, "data": 1}}),
    "whole": ({"whole": {**EMBEDDED, "data": 1}}, {"whole": {**EMBEDDED, "data": 1}}),
    "map": ({"map": {"a": "b"}}, {"map": {"a": "b"}}),
}


def test_unknown_fields_are_pruned(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(PRUNED)))
    for name, (spec, expected) in PRUNING.items():
        assert api.post(widgets.path(), widgets.body(name, spec=spec)).expect(201).body["spec"] == expected
    api.post(widgets.path(), widgets.body("bad", spec={"embedded": {"kind": "Thing"}})).expect(422)


def test_unknown_fields_are_preserved_if_schema_says_so(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(ANYTHING)))
    odd: Json = {
        "a": [1, "b", None, {"c": 1.5}],
        "d": None,
        "e": {},
        "f": [],
        "big": 2**53 + 1,
        "small": -0.25,
    }
    created = api.post(widgets.path(), widgets.body("a", spec=odd, more="top")).expect(201)
    assert (created.body["spec"], created.body["more"]) == (odd, "top")
    assert api.get(widgets.path("a")).body == created.body
