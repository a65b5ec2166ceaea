# ruff: noqa: E501 — a message stands on one line, however long Kubernetes made it.
"""CustomResourceDefinitions: defaults, validation, and the kinds that they add.

The messages are those of a real API server, except for objects, which it prints in its internal form.
"""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from windlass.localcluster.apiserver import access_reviews, pod_metrics
from windlass.localcluster.apiserver.kinds import definitions, table
from windlass.localcluster.apiserver.kinds.kind import Column, Kind
from windlass.localcluster.apiserver.schemas import typed
from windlass.localcluster.apiserver.strategy import ScalePaths

Object = dict[str, Any]

TYPES = typed.TypedSchema("V1CustomResourceDefinition", {})
STRATEGY = definitions.DefinitionStrategy()
NOW = "2024-05-06T07:08:09Z"
INTEGER: Object = {"type": "integer"}
STRING: Object = {"type": "string"}
DNS_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and"
    " end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    " '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


class FakeCluster:
    """A cluster with these definitions."""

    def __init__(self, *stored: Object, now: str = NOW) -> None:
        self.stored = stored
        self.time = now

    def now(self) -> str:
        return self.time

    def objects(self, group: str, plural: str) -> Iterator[Object]:
        assert (group, plural) == ("apiextensions.k8s.io", "customresourcedefinitions")
        return iter(self.stored)


def fields(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


def definition(schema: Object | None = None, **version: Any) -> Object:
    openapi = fields(spec=fields()) if schema is None else schema
    first = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": openapi}, **version}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [first],
        },
    }


def with_spec(**changes: Any) -> Object:
    changed = definition()
    changed["spec"] |= changes
    return changed


def with_names(**changes: Any) -> Object:
    return with_spec(names={"plural": "things", "kind": "Thing", **changes})


def with_second_version(**changes: Any) -> Object:
    changed = definition()
    first = changed["spec"]["versions"][0]
    changed["spec"]["versions"].append({**first, "name": "v2", "storage": False, **changes})
    return changed


def created(new: Object, cluster: FakeCluster | None = None) -> Object:
    stored = copy.deepcopy(new)
    TYPES.prune(stored)
    STRATEGY.default(stored)
    STRATEGY.prepare_create(stored, cluster or FakeCluster())
    return stored


def updated(old: Object, cluster: FakeCluster | None = None, **spec: Any) -> Object:
    new = copy.deepcopy(old)
    new["spec"] |= spec
    STRATEGY.default(new)
    STRATEGY.prepare_update(new, old, cluster or FakeCluster(now="2025-01-01T00:00:00Z"))
    return new


def validation_errors(new: Object) -> list[str]:
    stored = created(new)
    errors = [*STRATEGY.validate_create(stored), *STRATEGY.validate(stored)]
    return list(dict.fromkeys(map(str, errors)))


# Defaults


def test_definition_is_established_when_created() -> None:
    stored = created(with_names(shortNames=["th"], categories=["all"]))
    names = {
        "plural": "things",
        "kind": "Thing",
        "singular": "thing",
        "listKind": "ThingList",
        "shortNames": ["th"],
        "categories": ["all"],
    }
    assert stored["spec"]["names"] == names
    assert stored["spec"]["conversion"] == {"strategy": "None"}
    assert stored["status"] == {
        "acceptedNames": names,
        "storedVersions": ["v1"],
        "conditions": [
            {
                "type": "NamesAccepted",
                "status": "True",
                "lastTransitionTime": NOW,
                "reason": "NoConflicts",
                "message": "no conflicts found",
            },
            {
                "type": "Established",
                "status": "True",
                "lastTransitionTime": NOW,
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
            },
        ],
    }


def test_absent_flags_default_to_false() -> None:
    stored = created(with_spec(preserveUnknownFields=False, versions=[{"name": "v1", "storage": True}]))
    assert "preserveUnknownFields" not in stored["spec"]
    assert stored["spec"]["versions"] == [{"name": "v1", "served": False, "storage": True}]


@pytest.mark.parametrize(
    ("wanted", "reason", "message", "refused"),
    [
        ({"shortNames": ["th"]}, "ShortNamesConflict", '"th" is already in use', "shortNames"),
        ({"singular": "thing"}, "SingularConflict", '"thing" is already in use', "singular"),
        (
            {"kind": "ThingList", "listKind": "Others"},
            "KindConflict",
            '"ThingList" is already in use',
            "kind",
        ),
    ],
)
def test_conflicting_name_is_not_accepted(wanted: Object, reason: str, message: str, refused: str) -> None:
    first = created(with_names(shortNames=["th"]))
    other = with_names(**{"plural": "others", "kind": "Other", **wanted})
    other["metadata"]["name"] = "others.example.com"
    stored = created(other, FakeCluster(first))
    names_accepted, established = stored["status"]["conditions"]
    assert (names_accepted["status"], names_accepted["reason"], names_accepted["message"]) == (
        "False",
        reason,
        message,
    )
    assert (established["status"], established["reason"]) == ("False", "NotAccepted")
    assert refused not in stored["status"]["acceptedNames"]
    assert definitions.kinds_of(stored) == ()
    healed = updated(stored, FakeCluster(), names=stored["spec"]["names"])
    assert [condition["status"] for condition in healed["status"]["conditions"]] == ["True", "True"]
    assert len(definitions.kinds_of(healed)) == 1


def test_names_in_other_groups_do_not_conflict() -> None:
    first = created(definition())
    first["spec"]["group"] = "example.org"
    stored = created(definition(), FakeCluster(first))
    assert stored["status"]["conditions"][0]["status"] == "True"


def test_update_accepts_new_names_and_keeps_stored_versions() -> None:
    old = created(with_second_version())
    first, second = old["spec"]["versions"]
    names = {**old["spec"]["names"], "shortNames": ["th"]}
    new = updated(old, names=names, versions=[{**first, "storage": False}, {**second, "storage": True}])
    assert new["status"]["acceptedNames"] == names
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    assert [condition["lastTransitionTime"] for condition in new["status"]["conditions"]] == [NOW, NOW]
    assert old["status"]["storedVersions"] == ["v1"]


# Validation


@pytest.mark.parametrize(
    ("new", "errors"),
    [
        (definition(), []),
        (with_spec(group="example"), [
            'metadata.name: Invalid value: "things.example.com": must be spec.names.plural+"."+spec.group',
            'spec.group: Invalid value: "example": should be a domain with at least one dot',
        ]),
        (with_spec(scope="Foo"), ['spec.scope: Unsupported value: "Foo": supported values: "Cluster", "Namespaced"']),
        (with_spec(scope=""), ["spec.scope: Required value"]),
        (with_names(singular="A_B"), [f'spec.names.singular: Invalid value: "A_B": {DNS_1035}']),
        (with_names(kind="a b"), [
            f'spec.names.singular: Invalid value: "a b": {DNS_1035}',
            f'spec.names.kind: Invalid value: "a b": may have mixed case, but should otherwise match: {DNS_1035}',
            f'spec.names.listKind: Invalid value: "a bList": may have mixed case, but should otherwise match: {DNS_1035}',
        ]),
        (with_names(listKind="Thing"), ['spec.names.listKind: Invalid value: "Thing": kind and listKind may not be the same']),
        (with_names(shortNames=["x", "Y"]), [f'spec.names.shortNames[1]: Invalid value: "Y": {DNS_1035}']),
        (definition(name="V_1"), [
            f'spec.versions[0].name: Invalid value: "V_1": {DNS_1035}',
            f'spec.version: Invalid value: "V_1": {DNS_1035}',
        ]),
        (definition(deprecationWarning="x"), ['spec.versions[0].deprecationWarning: Invalid value: "x": can only be set for deprecated versions']),
        (definition(schema={}, deprecated=True, deprecationWarning="x"), ["spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root"]),
        (definition(storage=False), [
            'spec.versions: Invalid value: [{"name":"v1","served":true,"storage":false}]: must have exactly one version marked as storage version',
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ]),
        (with_second_version(storage=True), [
            'spec.versions: Invalid value: [{"name":"v1","served":true,"storage":true},{"name":"v2","served":true,"storage":true}]: must have exactly one version marked as storage version',
            'status.storedVersions: Invalid value: ["v1"]: must have the storage version v2',
        ]),
        (with_second_version(name="v1"), ['spec.versions: Invalid value: [{"name":"v1","served":true,"storage":true},{"name":"v1","served":true,"storage":false}]: must contain unique version names']),
        (with_second_version(), []),
        (with_second_version(schema=None), ["spec.versions[1].schema.openAPIV3Schema: Required value"]),
        (with_second_version(schema={"openAPIV3Schema": {}}), ["spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at the root"]),
        (with_spec(preserveUnknownFields=True), [
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ]),
        (with_spec(conversion={"strategy": "foo"}), ['spec.conversion.strategy: Unsupported value: "foo": supported values: "None", "Webhook"']),
        (with_spec(conversion={"strategy": "Webhook"}), [
            'spec.conversion.strategy: Invalid value: "Webhook": conversion webhooks are not supported: versions can differ in their schemas only',
        ]),
        (with_spec(conversion={"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}), [
            "spec.conversion.webhook: Forbidden: should not be set when strategy is not set to Webhook",
        ]),
        (definition(subresources={"scale": {"specReplicasPath": "spec.a", "statusReplicasPath": ".spec.b", "labelSelectorPath": ".foo.a"}}), [
            'spec.subresources.scale.specReplicasPath: Invalid value: "spec.a": must be a simple json path starting with .',
            'spec.subresources.scale.statusReplicasPath: Invalid value: ".spec.b": should be a json path under .status',
            'spec.subresources.scale.labelSelectorPath: Invalid value: ".foo.a": should be a json path under either .spec or .status',
        ]),
        (definition(additionalPrinterColumns=[{"name": "A", "type": "foo", "jsonPath": "x", "format": "zz"}]), [
            'spec.additionalPrinterColumns[0].type: Invalid value: "foo": must be one of boolean,date,integer,number,string',
            'spec.additionalPrinterColumns[0].format: Invalid value: "zz": must be one of byte,date,date-time,double,float,int32,int64,password',
            'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "x": must be a simple json path starting with .',
        ]),
        (definition({"type": "object", "nullable": True}), ["spec.validation.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root"]),
        (definition({**fields(spec=INTEGER), "anyOf": [{"required": ["spec"]}]}, subresources={"status": {}}), [
            'spec.validation.openAPIV3Schema: Invalid value: "anyOf": anyOf is not allowed at the root of the schema if the status subresource is enabled',
        ]),
    ],
)  # fmt: skip
def test_definition_errors(new: Object, errors: list[str]) -> None:
    assert validation_errors(new) == errors


def required(why: str, at: str = "type") -> str:
    return f"{at}: Required value: {why}"


def forbidden(at: str, why: str) -> str:
    return f"{at}: Forbidden: {why}"


def of_list(kind: str, schema: Object, *keys: str) -> Object:
    return {"type": "array", "items": schema, "x-kubernetes-list-type": kind} | (
        {"x-kubernetes-list-map-keys": list(keys)} if keys else {}
    )


KEEPS: Object = {"x-kubernetes-preserve-unknown-fields": True}
EMBEDDED: Object = {"x-kubernetes-embedded-resource": True}
INT_OR_STRING: Object = {"x-kubernetes-int-or-string": True}
EITHER: Object = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
IN_KEYS = "this property is in x-kubernetes-list-map-keys, so it"


@pytest.mark.parametrize(
    ("schema", "errors"),
    [
        (INTEGER, []),
        ({}, [required("must not be empty for specified object fields")]),
        (KEEPS, []),
        ({"type": "foo"}, ['type: Unsupported value: "foo": supported values: "array", "boolean", "integer", "number", "object", "string"']),
        ({"type": "array"}, [required("must be specified", "items")]),
        ({"type": "array", "items": {}}, [required("must not be empty for specified array items", "items.type")]),
        ({"type": "array", "items": [INTEGER]}, [forbidden("items", "items must be a schema object and not an array")]),
        ({"type": "array", "items": INTEGER, "uniqueItems": True}, [
            forbidden("uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"),
        ]),
        ({"$ref": "#/x"}, [forbidden("$ref", "$ref is not supported")]),
        ({"type": "object", "patternProperties": {"x": INTEGER}}, [forbidden("patternProperties", "patternProperties is not supported")]),
        ({**fields(x=INTEGER), "additionalProperties": INTEGER}, [
            forbidden("additionalProperties", "additionalProperties and properties are mutual exclusive"),
        ]),
        ({"type": "object", "additionalProperties": {}}, [required("must not be empty for specified object fields", "additionalProperties.type")]),
        ({**KEEPS, "type": "object", "x-kubernetes-preserve-unknown-fields": False}, [
            "x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ]),
        ({**INTEGER, "default": "x"}, ['default: Invalid value: "string":  in body must be of type integer: "string"']),
        ({**INTEGER, "minimum": 3, "default": 1}, ["default: Invalid value: 1:  in body should be greater than or equal to 3"]),
        ({**fields(x=INTEGER), "default": {"y": 1}}, ['default: Invalid value: {"y":1}: must not have unknown fields']),
        ({**fields(x=INTEGER), "default": {"x": "s"}}, ['default.x: Invalid value: "string": x in body must be of type integer: "string"']),
        ({"type": "array", "items": {**INTEGER, "default": "x"}}, ['items.default: Invalid value: "string":  in body must be of type integer: "string"']),
        ({**STRING, "default": ""}, []),
        ({**STRING, "pattern": "a(?=b)"}, [
            'pattern: Invalid value: "a(?=b)": must be a valid regular expression, but isn\'t: error parsing regexp: invalid perl operator: (?=',
        ]),
        ({**STRING, "anyOf": [{"type": "string"}]}, [forbidden("anyOf[0].type", "must be empty to be structural")]),
        ({**fields(x=INTEGER), "allOf": [{"properties": {"x": {"description": "d", "nullable": True, "default": 3}}}]}, [
            forbidden("allOf[0].properties[x].default", "must be undefined to be structural"),
            forbidden("allOf[0].properties[x].description", "must be empty to be structural"),
            forbidden("allOf[0].properties[x].nullable", "must be false to be structural"),
        ]),
        ({**INT_OR_STRING, **EITHER}, []),
        ({**INT_OR_STRING, "allOf": [EITHER, {"maximum": 5}]}, []),
        ({**INT_OR_STRING, "allOf": [{"maximum": 5}, EITHER]}, [
            forbidden("allOf[1].anyOf[0].type", "must be empty to be structural"),
            forbidden("allOf[1].anyOf[1].type", "must be empty to be structural"),
        ]),
        (EITHER, [required("must not be empty for specified object fields")]),
        ({**INT_OR_STRING, **KEEPS}, ["x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true"]),
        (EMBEDDED, [
            required("must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields", "properties"),
            required("must be object if x-kubernetes-embedded-resource is true"),
        ]),
        ({**EMBEDDED, **KEEPS, "type": "object"}, []),
        ({**fields(kind=INTEGER), **EMBEDDED}, ['properties[kind].type: Invalid value: "integer": must be string']),
        ({"type": "object", "x-kubernetes-list-type": "set"}, ['type: Invalid value: "object": must be array if x-kubernetes-list-type is specified']),
        (of_list("foo", INTEGER), ['x-kubernetes-list-type: Unsupported value: "foo": supported values: "atomic", "set", "map"']),
        (of_list("set", fields()), ['items.x-kubernetes-map-type: Invalid value: "null": must be atomic as item of a list with x-kubernetes-list-type=set']),
        (of_list("set", {**fields(), "x-kubernetes-map-type": "atomic"}), []),
        (of_list("set", {**INTEGER, "nullable": True}), [forbidden("items.nullable", "cannot be nullable when x-kubernetes-list-type is set")]),
        (of_list("map", fields(x=INTEGER)), [required("must not be empty if x-kubernetes-list-type is map", "x-kubernetes-list-map-keys")]),
        (of_list("map", INTEGER, "x"), ['items.type: Invalid value: "integer": must be object if parent array\'s x-kubernetes-list-type is map']),
        (of_list("map", fields(x=INTEGER), "y"), ['x-kubernetes-list-map-keys: Invalid value: ["y"]: entries must all be names of item properties']),
        (of_list("map", fields(x=INTEGER), "x"), [required(f"{IN_KEYS} must have a default or be a required property", "items.properties[x].default")]),
        (of_list("map", {**fields(x={**INTEGER, "nullable": True}), "required": ["x"]}, "x", "x"), [
            forbidden("items.properties[x].nullable", f"{IN_KEYS} cannot be nullable"),
            'x-kubernetes-list-map-keys: Invalid value: ["x","x"]: must not contain duplicate entries',
        ]),
        ({"type": "array", "items": fields(), "x-kubernetes-list-map-keys": ["x"]}, [
            required("must be map if x-kubernetes-list-map-keys is non-empty", "x-kubernetes-list-type"),
        ]),
        ({**STRING, "x-kubernetes-map-type": "atomic"}, ['type: Invalid value: "string": must be object if x-kubernetes-map-type is specified']),
    ],
)  # fmt: skip
def test_schema_errors(schema: Object, errors: list[str]) -> None:
    path = "spec.validation.openAPIV3Schema.properties[spec].properties[a]."
    assert validation_errors(definition(fields(spec=fields(a=schema)))) == [path + error for error in errors]


@pytest.mark.parametrize(
    ("schema", "errors"),
    [
        (KEEPS | {"type": "object"}, []),
        (STRING, ['type: Invalid value: "string": must be object at the root']),
        ({"type": "object", "additionalProperties": INTEGER}, [forbidden("additionalProperties", "must not be used at the root")]),
        (fields(metadata=fields(name=STRING, generateName=STRING)), []),
        (fields(metadata=fields(labels=fields())), [
            forbidden("properties[metadata]", "must not specify anything other than name and generateName, but metadata is implicitly specified"),
        ]),
        (fields(apiVersion=INTEGER), ['properties[apiVersion].type: Invalid value: "integer": must be string']),
        (fields(kind={**STRING, "default": "x"}), [forbidden("properties[kind].default", "must not be set in top-level kind")]),
        ({**fields(), "anyOf": [{"properties": {"y": {"minimum": 3}}}]}, [
            required("because it is defined in spec.validation.openAPIV3Schema.anyOf[0].properties[y]", "properties[y]"),
        ]),
    ],
)  # fmt: skip
def test_root_schema_errors(schema: Object, errors: list[str]) -> None:
    assert validation_errors(definition(schema)) == [
        f"spec.validation.openAPIV3Schema.{error}" for error in errors
    ]


@pytest.mark.parametrize(
    ("change", "errors"),
    [
        ({"scope": "Cluster"}, ['spec.scope: Invalid value: "Cluster": field is immutable']),
        ({"group": "example.org"}, ['spec.group: Invalid value: "example.org": field is immutable']),
        ({"names": {"plural": "others", "kind": "Thing"}}, ['spec.names.plural: Invalid value: "others": field is immutable']),
        ({"names": {"plural": "things", "kind": "Other"}}, ['spec.names.kind: Invalid value: "Other": field is immutable']),
        ({"names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]}}, []),
    ],
)  # fmt: skip
def test_immutable_fields_are_rejected(change: Object, errors: list[str]) -> None:
    old = created(definition())
    assert [str(error) for error in STRATEGY.validate_update(updated(old, **change), old)] == errors


def test_stored_version_must_remain() -> None:
    old = created(definition())
    new = updated(old, versions=[{**old["spec"]["versions"][0], "name": "v2"}])
    (error,) = STRATEGY.validate(new)
    assert str(error).startswith(
        'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was'
    )


def test_definition_with_rejected_names_can_change_kind() -> None:
    old = created(definition())
    old["status"]["conditions"][1]["status"] = "False"
    new = updated(old, names={"plural": "things", "kind": "Other"})
    assert list(STRATEGY.validate_update(new, old)) == []


# Kinds


def test_kinds_of_definition() -> None:
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}]
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    second = with_second_version(
        additionalPrinterColumns=columns,
        subresources={"status": {}, "scale": scale},
        selectableFields=[{"jsonPath": ".spec.color"}],
    )
    second["spec"]["names"] |= {"shortNames": ["th"], "categories": ["all"]}
    first, other = definitions.kinds_of(created(second))
    assert (first.group, first.version, first.plural) == ("example.com", "v1", "things")
    assert (first.kind, first.singular, first.list_kind) == ("Thing", "thing", "ThingList")
    assert (first.namespaced, first.short_names, first.categories) == (True, ("th",), ("all",))
    assert (first.is_custom, first.subresources, first.selectable_fields) == (True, (), ())
    assert [(column.type, column.path) for column in first.columns] == [
        ("date", ".metadata.creationTimestamp")
    ]
    assert first.published_schema == fields(spec={"type": "object"})
    assert (other.version, other.subresources, other.selectable_fields) == (
        "v2",
        ("status", "scale"),
        ("spec.color",),
    )
    description = "Custom resource definition column (in JSONPath format): .spec.size"
    expected = Column(name="Size", type="integer", path=".spec.size", priority=1, description=description)
    assert other.columns == (expected,)


def test_unserved_version_has_a_kind() -> None:
    kinds = definitions.kinds_of(created(with_second_version(served=False)))
    assert [(kind.version, kind.is_served) for kind in kinds] == [("v1", True), ("v2", False)]


def test_status_is_ordinary_field_without_subresource() -> None:
    plain, divided = definitions.kinds_of(created(with_second_version(subresources={"status": {}})))
    assert (plain.strategy.status_fields, divided.strategy.status_fields) == ((), ("status",))
    assert plain.strategy.has_generation


@pytest.mark.parametrize(
    ("size", "error"),
    [
        (1, []),
        (-1, [".spec.size: Invalid value: -1: should be a non-negative integer"]),
        (2**31, [f".spec.size: Invalid value: {2**31}: should be less than or equal to {2**31 - 1}"]),
        ("x", ['.spec.size: Invalid value: "x": should be an integer']),
    ],
)
def test_invalid_replicas_are_rejected(size: Any, error: list[str]) -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    (kind,) = definitions.kinds_of(created(definition(subresources={"scale": scale})))
    assert [str(one) for one in kind.strategy.validate({"spec": {"size": size}})] == error
    expected = ScalePaths(spec_replicas=".spec.size", status_replicas=".status.size")
    assert getattr(kind.strategy, "scale", None) == expected


@pytest.mark.parametrize("group", ["launcher", "frameworkcontroller"])
def test_framework_definitions_are_valid(group: str) -> None:
    path = (
        Path(__file__).parents[4] / "charts/windlass/definitions" / f"frameworks.{group}.microsoft.com.yaml"
    )
    ours = yaml.safe_load(path.read_text())
    TYPES.check_types(ours, "CustomResourceDefinition", "v1")
    assert TYPES.prune(copy.deepcopy(ours)) == []
    assert validation_errors(ours) == []
    (kind,) = definitions.kinds_of(created(ours))
    assert kind.subresources == ("status",)
    assert kind.columns[-1].name == "Age"


def reserved(group: str, plural: str) -> Object:
    body = with_spec(group=group, names={"plural": plural, "kind": "ClusterRole"})
    body["metadata"] = {
        "name": f"{plural}.{group}",
        "annotations": {"api-approved.kubernetes.io": "https://example.com"},
    }
    return body


@pytest.mark.parametrize(
    "kind", [*table.KINDS, *access_reviews.KINDS, *pod_metrics.KINDS], ids=lambda kind: kind.resource
)
def test_definition_in_a_group_of_the_server_is_rejected(kind: Kind) -> None:
    if kind.group:
        errors = STRATEGY.validate_create(reserved(kind.group, kind.plural))
        assert [(error.field, error.message) for error in errors] == [
            (
                "spec.group",
                "Forbidden: this group is reserved for kinds of the server: use a group of your own",
            )
        ]


def test_stored_definition_in_a_group_of_the_server_is_not_served() -> None:
    assert definitions.kinds_of(reserved("rbac.authorization.k8s.io", "clusterrolebindings")) == ()
