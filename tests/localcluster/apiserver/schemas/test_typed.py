# ruff: noqa: E501 — a message stands on one line, however long Kubernetes made it.
"""Pruning, defaulting and validation of built-in kinds, with the messages of a real API server."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.schemas import typed

DEFAULTS: dict[str, dict[str, Any]] = {
    "V1PodSpec": {"restartPolicy": "Always", "securityContext": {}},
    "V1Container": {"terminationMessagePath": "/dev/termination-log", "resources": {}},
    "V1ContainerPort": {"protocol": "TCP"},
    "V1DeploymentSpec": {"strategy": {"rollingUpdate": {}}},
    "V1DeploymentStrategy": {"type": "RollingUpdate"},
}
POD = typed.TypedSchema("V1Pod", DEFAULTS)
SECRET = typed.TypedSchema("V1Secret", {})
DEFINITION = typed.TypedSchema("V1CustomResourceDefinition", {})


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec}


def one_container(**container: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "main", **container}])


def type_error(schema: typed.TypedSchema, obj: dict[str, Any]) -> str:
    """Return why the schema rejects the object; empty if it accepts it."""
    kind = obj.get("kind", "Secret")
    try:
        schema.check_types(obj, kind, "v1")
    except api_errors.ApiError as error:
        refused = error
    else:
        return ""
    assert (refused.code, refused.reason) == (400, "BadRequest")
    beginning = f'{kind} in version "v1" cannot be handled as a {kind}: '
    assert refused.message.startswith(beginning)
    return refused.message.removeprefix(beginning)


# Pruning


@pytest.mark.parametrize(
    ("container", "kept", "dropped"),
    [
        pytest.param({"typo": 1}, {}, ["spec.containers[0].typo"], id="unknown"),
        pytest.param({"typo": None}, {}, ["spec.containers[0].typo"], id="unknown and null"),
        pytest.param({"env": [{"name": "A", "valu": 1}]}, {"env": [{"name": "A"}]}, ["spec.containers[0].env[0].valu"], id="below"),
        pytest.param({"args": None, "stdin": None}, {}, [], id="nulls"),
        pytest.param({"args": [], "ports": [], "resources": {"limits": {}}}, {"resources": {}}, [], id="empty"),
        pytest.param({"image": "", "stdin": False}, {"image": "", "stdin": False}, [], id="an empty scalar stays"),
        pytest.param({"securityContext": {}}, {"securityContext": {}}, [], id="an empty struct stays"),
        pytest.param({"args": ["a", None]}, {"args": ["a", ""]}, [], id="a null in a list is a zero"),
        pytest.param({"env": [None]}, {"env": [{}]}, [], id="a null in a list of structs is an empty one"),
        pytest.param({"resources": {"limits": {"cpu": None}}}, {"resources": {"limits": {"cpu": "0"}}}, [], id="a null in a map"),
        pytest.param({"env": 3, "resources": []}, {"env": 3, "resources": []}, [], id="of a wrong type"),
    ],
)  # fmt: skip
def test_unknown_fields_are_pruned(
    container: dict[str, Any], kept: dict[str, Any], dropped: list[str]
) -> None:
    obj = one_container(**container)
    assert POD.prune(obj) == dropped
    assert obj == one_container(**kept)


def test_required_empty_list_is_kept() -> None:
    obj = pod(containers=[], volumes=[], nodeSelector={})
    POD.prune(obj)
    assert obj == pod(containers=[])


def test_nested_schema_in_definition_is_pruned() -> None:
    def version(leaf: dict[str, Any]) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "additionalProperties": leaf}
        for _ in range(5):
            schema = {"type": "object", "properties": {"a": {"type": "array", "items": schema}}}
        return {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}

    definition = {
        "spec": {"versions": [version({"type": "string", "typo": 1, "default": None, "enum": [None]})]}
    }
    below = ".properties.a.items" * 5
    expected = f"spec.versions[0].schema.openAPIV3Schema{below}.additionalProperties.typo"
    assert DEFINITION.prune(definition) == [expected]
    assert definition == {"spec": {"versions": [version({"type": "string", "enum": [None]})]}}


# Defaulting


def test_defaults_are_set_at_every_occurrence_of_a_type() -> None:
    obj = pod(
        containers=[{"name": "a", "ports": [{"containerPort": 1}]}],
        initContainers=[{"resources": {"limits": {}}}],
    )
    POD.default(obj)
    assert obj == pod(
        containers=[{
            "name": "a",
            "ports": [{"containerPort": 1, "protocol": "TCP"}],
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
        }],
        initContainers=[{"resources": {"limits": {}}, "terminationMessagePath": "/dev/termination-log"}],
        restartPolicy="Always",
        securityContext={},
    )  # fmt: skip


def test_default_values_get_their_own_defaults() -> None:
    obj: dict[str, Any] = {"spec": {}}
    typed.TypedSchema("V1Deployment", DEFAULTS).default(obj)
    assert obj == {"spec": {"strategy": {"rollingUpdate": {}, "type": "RollingUpdate"}}}


def test_defaults_are_copied() -> None:
    one, two = pod(containers=[]), pod(containers=[])
    POD.default(one)
    one["spec"]["securityContext"]["runAsUser"] = 1
    POD.default(two)
    assert two["spec"]["securityContext"] == {}
    assert DEFAULTS["V1PodSpec"]["securityContext"] == {}


# Validation


@pytest.mark.parametrize(
    ("obj", "missing"),
    [
        (one_container(), []),
        (pod(), ["spec.containers"]),
        (pod(containers=[]), ["spec.containers"]),
        (pod(containers=[{}]), ["spec.containers[0].name"]),
        (pod(containers=[{"name": ""}]), ["spec.containers[0].name"]),
        (
            one_container(volumeMounts=[{}]),
            ["spec.containers[0].volumeMounts[0].mountPath", "spec.containers[0].volumeMounts[0].name"],
        ),
        (one_container(livenessProbe={"httpGet": {"port": 1, "httpHeaders": [{"name": "A"}]}}), []),
        ({**one_container(), "metadata": {"ownerReferences": [{}]}}, []),
        ({**one_container(), "status": {"containerStatuses": [{}]}}, []),
    ],
)
def test_missing_required_fields_are_reported(obj: dict[str, Any], missing: list[str]) -> None:
    assert [str(error) for error in POD.validate(obj)] == [f"{path}: Required value" for path in missing]


def test_required_fields_of_missing_struct_are_reported() -> None:
    errors = [error.field for error in DEFINITION.validate({"metadata": {"name": "one"}})]
    expected = ["spec.group", "spec.names.kind", "spec.names.plural", "spec.scope", "spec.versions"]
    assert errors == expected


def test_absent_boolean_is_not_missing() -> None:
    names = {"plural": "a", "kind": "A"}
    spec = {"group": "a.b", "scope": "Cluster", "names": names, "versions": [{"name": "v1"}]}
    assert DEFINITION.validate({"spec": spec}) == []


# Types


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        (one_container(name=1), "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string"),
        (pod(containers={}), "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container"),
        (pod(containers=[3]), "json: cannot unmarshal number into Go struct field PodSpec.spec.containers of type v1.Container"),
        (pod(nodeSelector=[]), "json: cannot unmarshal array into Go struct field PodSpec.spec.nodeSelector of type map[string]string"),
        (pod(nodeSelector={"a": True}), "json: cannot unmarshal bool into Go struct field PodSpec.spec.nodeSelector of type string"),
        (pod(priority=1.5), "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32"),
        (pod(priority=True), "json: cannot unmarshal bool into Go struct field PodSpec.spec.priority of type int32"),
        (pod(priority=2**63), f"json: cannot unmarshal number {2**63} into Go struct field PodSpec.spec.priority of type int32"),
        (
            pod(terminationGracePeriodSeconds="x"),
            "json: cannot unmarshal string into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
        ),
        (pod(hostNetwork="x"), "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        ({"kind": "Pod", "spec": []}, "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        (
            {"kind": "Pod", "metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            {"kind": "Pod", "metadata": {"creationTimestamp": "abc"}},
            'parsing time "abc" as "2006-01-02T15:04:05Z07:00": cannot parse "abc" as "2006"',
        ),
        ({"kind": "Pod", "metadata": {"creationTimestamp": 3}}, "json: cannot unmarshal number into Go value of type string"),
        (one_container(livenessProbe={"tcpSocket": {"port": True}}), "json: cannot unmarshal bool into Go value of type int32"),
        (one_container(livenessProbe={"tcpSocket": {"port": 1.5}}), "json: cannot unmarshal number 1.5 into Go value of type int32"),
        (one_container(resources={"limits": []}), "json: cannot unmarshal array into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList"),
    ],
)  # fmt: skip
def test_wrong_types_are_rejected(obj: dict[str, Any], told: str) -> None:
    assert type_error(POD, obj) == told


FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@pytest.mark.parametrize("quantity", ["1x", "abc", "", "1 Gi", True, {}])
def test_invalid_quantities_are_rejected(quantity: Any) -> None:
    assert type_error(POD, one_container(resources={"limits": {"cpu": quantity}})) == FORM


def test_quantity_with_unknown_suffix_is_rejected() -> None:
    assert (
        type_error(POD, one_container(resources={"limits": {"cpu": "1ki"}}))
        == "unable to parse quantity's suffix"
    )


@pytest.mark.parametrize("quantity", ["100m", "1", 1, 1.5, "1e3", "+1Ki", "1.5Gi", ".5", "0", None])
def test_valid_quantities_are_accepted(quantity: Any) -> None:
    assert type_error(POD, one_container(resources={"limits": {"cpu": quantity}})) == ""


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("???", "illegal base64 data at input byte 0"),
        ("YWI", "illegal base64 data at input byte 0"),
        ("YW Jj", "illegal base64 data at input byte 2"),
        (3, "json: cannot unmarshal number into Go struct field Secret.data of type []uint8"),
    ],
)
def test_base64_is_checked(data: Any, told: str) -> None:
    assert type_error(SECRET, {"data": {"a": data}}) == told


def test_unknown_field_can_have_any_type() -> None:
    assert type_error(POD, {**one_container(typo=[1, {}]), "more": {"metadata": 3}}) == ""


def test_invalid_schema_in_definition_is_rejected() -> None:
    schema = {"type": "array", "items": {"type": 3}}
    versions = [{"schema": {"openAPIV3Schema": schema}}]
    told = type_error(DEFINITION, {"kind": "CustomResourceDefinition", "spec": {"versions": versions}})
    field = "JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items.type"
    assert told == f"json: cannot unmarshal number into Go struct field {field} of type string"


# Properties of every object

KEYS = st.sampled_from(
    ["metadata", "spec", "containers", "name", "env", "resources", "limits", "ports", "cpu", "typo"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=5),
    max_leaves=15,
)


@given(spec=JSON, metadata=JSON)
def test_pruning_and_defaulting_are_idempotent(spec: Any, metadata: Any) -> None:
    obj = {"kind": "Pod", "metadata": metadata, "spec": spec}
    POD.prune(obj)
    once = copy.deepcopy(obj)
    assert POD.prune(obj) == []
    assert obj == once
    try:
        POD.check_types(obj, "Pod", "v1")
    except api_errors.ApiError:
        return
    POD.default(obj)
    filled = copy.deepcopy(obj)
    POD.default(obj)
    assert obj == filled
    POD.validate(obj)
