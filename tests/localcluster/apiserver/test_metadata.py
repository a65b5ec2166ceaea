"""Names, labels, owner references, finalizers, immutable fields and generated names."""

import copy
from typing import Any

import pytest

from windlass.localcluster.apiserver import metadata

Object = dict[str, Any]
STORED: Object = {
    "metadata": {
        "name": "x",
        "namespace": "n",
        "uid": "u",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 3,
    }
}


def errors(meta: Object, resource: str = "pods", **options: Any) -> list[str]:
    namespaced = options.pop("namespaced", True)
    rule = metadata.name_rule(resource)
    obj = {"metadata": ({"name": "x"} | ({"namespace": "n"} if namespaced else {})) | meta}
    return [*map(str, metadata.validate_metadata(obj, namespaced=namespaced, name_rule=rule, **options))]


@pytest.mark.parametrize(
    ("resource", "name", "is_right"),
    [
        ("pods", "a.b-c", True),
        ("pods", "a..b", False),
        ("pods", "A", False),
        ("pods", "a/b", False),
        ("pods", "..", False),
        ("pods", "a" * 253, True),
        ("pods", "a" * 254, False),
        ("namespaces", "a.b", False),
        ("namespaces", "1a", True),
        ("namespaces", "a" * 64, False),
        ("services", "1a", True),
        ("services", "a.b", False),
        ("services", "a1", True),
        ("roles.rbac.authorization.k8s.io", "system:Any thing", True),
        ("roles.rbac.authorization.k8s.io", "a/b", False),
        ("clusterroles.rbac.authorization.k8s.io", "100%", False),
        ("clusterroles.rbac.authorization.k8s.io", "..", False),
        ("frameworks.example.com", "a.b", True),
    ],
)
def test_names(resource: str, name: str, is_right: bool) -> None:
    assert (not errors({"name": name}, resource)) is is_right


@pytest.mark.parametrize(
    ("base", "is_right"), [("job-", True), ("job.", False), ("-", False), ("Job-", False), ("job", True)]
)
def test_generate_name_prefixes(base: str, is_right: bool) -> None:
    assert (not errors({"generateName": base})) is is_right


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({"name": ""}, ["metadata.name: Required value: name or generateName is required"]),
        ({"namespace": ""}, ["metadata.namespace: Required value"]),
        ({"generation": -1}, ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"labels": {"/a": "b"}},
            ['metadata.labels: Invalid value: "/a": prefix part must be non-empty'],
        ),
        (
            {"annotations": {"a": "x" * (256 * 1024)}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        ({"annotations": {"Upper.example/Key": "any $ value"}}, []),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
            ["metadata.ownerReferences[0].uid: Required value: must not be empty"],
        ),
        (
            {"finalizers": ["lonely"]},
            [
                (
                    'metadata.finalizers[0]: Invalid value: "lonely": name is neither a standard finalizer name nor is'
                    " it fully qualified"
                )
            ],
        ),
        (
            {"finalizers": ["orphan", "foregroundDeletion"]},
            [
                (
                    'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and'
                    " foregroundDeletion cannot be both set"
                )
            ],
        ),
        ({"finalizers": ["example.com/ok", "kubernetes"]}, []),
    ],
)
def test_metadata_errors(meta: Object, expected: list[str]) -> None:
    assert errors(meta) == expected


def test_second_controller_reference_is_rejected() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in "ab"
    ]
    (error,) = errors({"ownerReferences": owners})
    assert error.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Pod/a and Pod/b'
    )


def test_custom_resource_can_have_any_finalizer() -> None:
    assert errors({"finalizers": ["lonely"]}, allows_any_finalizer=True) == []


def test_cluster_scoped_object_must_not_have_namespace() -> None:
    assert errors({}, namespaced=False) == []
    assert errors({"namespace": "n"}, namespaced=False) == [
        "metadata.namespace: Forbidden: not allowed on this type"
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"uid": ""}, []),
        ({"creationTimestamp": "2001-01-01T00:00:00Z"}, []),
        ({"generation": 99}, []),
        ({"uid": "v"}, ['metadata.uid: Invalid value: "v": field is immutable']),
        ({"name": "y"}, ['metadata.name: Invalid value: "y": field is immutable']),
        ({"namespace": "m"}, ['metadata.namespace: Invalid value: "m": field is immutable']),
        (
            {"deletionTimestamp": "2001-01-01T00:00:00Z"},
            ['metadata.deletionTimestamp: Invalid value: "2001-01-01T00:00:00Z": field is immutable'],
        ),
        (
            {"deletionGracePeriodSeconds": 5},
            ["metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable"],
        ),
    ],
)
def test_immutable_metadata_is_rejected(change: Object, expected: list[str]) -> None:
    new = copy.deepcopy(STORED)
    new["metadata"] |= change
    metadata.carry_over(new, STORED)
    assert [*map(str, metadata.validate_metadata_update(new, STORED))] == expected
    assert new["metadata"]["creationTimestamp"] == STORED["metadata"]["creationTimestamp"]
    assert new["metadata"]["generation"] == 3


def test_server_set_metadata_is_carried_over() -> None:
    deleted = {"deletionTimestamp": "2026-02-02T00:00:00Z", "deletionGracePeriodSeconds": 30}
    old = {"metadata": STORED["metadata"] | deleted}
    new: Object = {"metadata": {"name": "x", "namespace": "n"}}
    metadata.carry_over(new, old)
    assert new == old
    assert metadata.validate_metadata_update(new, old) == []


def test_terminating_object_rejects_new_finalizers() -> None:
    old = {"metadata": {"name": "x", "deletionTimestamp": "t", "finalizers": ["a/b", "c/d"]}}
    fewer = {"metadata": old["metadata"] | {"finalizers": ["c/d"]}}
    more = {"metadata": old["metadata"] | {"finalizers": ["a/b", "e/f"]}}
    assert metadata.validate_metadata_update(fewer, old) == []
    assert [*map(str, metadata.validate_metadata_update(more, old))] == [
        (
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new"
            ' finalizers []string{"e/f"}'
        )
    ]


def test_generated_names() -> None:
    suffix = metadata.random_suffix(lambda below: below - 1)
    assert suffix == "99999"
    assert metadata.random_suffix(lambda _below: 0) == "bbbbb"
    assert metadata.generate_name("job-", suffix) == "job-99999"
    assert metadata.generate_name("a" * 70, suffix) == "a" * 58 + suffix
