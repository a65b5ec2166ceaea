"""Namespaces, nodes, ConfigMaps, Secrets, claims, events, leases and RBAC: validation and immutable fields."""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from windlass.localcluster.apiserver.kinds.namespaces import NamespaceStrategy
from windlass.localcluster.apiserver.kinds.nodes import NodeStrategy

Object = dict[str, Any]
Change = Callable[[Object], object]
RBAC = "rbac.authorization.k8s.io"


def obj(kind: str, api_version: str = "v1", **fields: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}} | fields


def claim(**spec: Any) -> Object:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}} | spec
    return obj("PersistentVolumeClaim", spec=whole)


def binding(**fields: Any) -> Object:
    return obj("RoleBinding", f"{RBAC}/v1", roleRef={"kind": "Role", "name": "r"}, **fields)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def asking_for(storage: str) -> Change:
    return lambda one: one["spec"]["resources"]["requests"].update(storage=storage)


FIXED = "Forbidden: field is immutable when `immutable` is set"
FIXED_CLAIM = (
    "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for"
    " bound claims"
)
SMALLER = "spec.resources.requests.storage: Forbidden: field can not be less than previous value"
FIXED_NODE = "[]: Forbidden: node updates may only change labels, taints, or capacity"


@pytest.mark.parametrize(
    ("given", "change", "errors"),
    [
        pytest.param(
            obj("ConfigMap", immutable=True, data={"a": "b"}),
            lambda one: one["data"].update(a="c"),
            [f"data: {FIXED}"],
            id="data of an immutable ConfigMap",
        ),
        pytest.param(
            obj("ConfigMap", immutable=True, data={"a": "b"}),
            lambda one: one.update(immutable=False),
            [f"immutable: {FIXED}"],
            id="immutable is for good",
        ),
        pytest.param(
            obj("Secret", immutable=True),
            lambda one: one.update(stringData={"a": "b"}),
            [f"data: {FIXED}"],
            id="data of an immutable Secret",
        ),
        pytest.param(
            obj("Secret", type="t"),
            lambda one: one.pop("type"),
            ['type: Invalid value: "Opaque": field is immutable'],
            id="type of a Secret",
        ),
        pytest.param(claim(), asking_for("2Gi"), [FIXED_CLAIM], id="a claim that is not bound"),
        pytest.param(claim(), asking_for("1Mi"), [FIXED_CLAIM, SMALLER], id="a smaller claim"),
        pytest.param(
            claim(), lambda one: one["spec"].update(accessModes=["ReadWriteMany"]), [FIXED_CLAIM], id="access"
        ),
        pytest.param(
            obj("Node", spec={"providerID": "a"}),
            lambda one: one["spec"].update(providerID="b"),
            [
                'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid',
                FIXED_NODE,
            ],
            id="provider of a node",
        ),
        pytest.param(
            binding(),
            lambda one: one["roleRef"].update(name="other"),
            [
                f'roleRef: Invalid value: {{"kind":"Role","name":"other","apiGroup":"{RBAC}"}}: field is immutable',
            ],
            id="role of a binding",
        ),
    ],
)
def test_immutable_fields_are_rejected(
    cluster: Any, given: Object, change: Change, errors: list[str]
) -> None:
    assert cluster.update_errors(cluster.create(given), change) == errors


@pytest.mark.parametrize(
    ("given", "change"),
    [
        pytest.param(obj("ConfigMap", data={"a": "b"}), lambda one: one.update(immutable=True), id="freeze"),
        pytest.param(claim(), lambda one: one["spec"].update(volumeName="v"), id="a volume is found"),
        pytest.param(
            obj("Node"), lambda one: one["spec"].update(podCIDR="10.0.0.0/24"), id="a range is given"
        ),
        pytest.param(
            obj("Node"),
            lambda one: one["spec"].update(taints=[{"key": "a", "effect": "NoSchedule"}]),
            id="taint",
        ),
        pytest.param(
            binding(), lambda one: one.update(subjects=[{"kind": "User", "name": "u"}]), id="subjects"
        ),
    ],
)
def test_mutable_fields_are_accepted(cluster: Any, given: Object, change: Change) -> None:
    assert cluster.update_errors(cluster.create(given), change) == []


def test_bound_claim_can_grow(cluster: Any) -> None:
    created = cluster.create(claim())
    created["status"] = {"phase": "Bound"}
    assert cluster.update(created, asking_for("2048Mi"))["spec"]["resources"]["requests"] == {
        "storage": "2Gi"
    }
    assert cluster.update_errors(created, asking_for("1Mi")) == [SMALLER]


@pytest.mark.parametrize(
    ("given", "errors"),
    [
        pytest.param(
            obj("ConfigMap", data={"a": "x" * (1024 * 1024 + 1)}),
            ["[]: Too long: may not be more than 1048576 bytes"],
            id="a large ConfigMap",
        ),
        pytest.param(
            obj("Secret", stringData={"a": "x" * (1024 * 1024 + 1)}),
            ["data: Too long: may not be more than 1048576 bytes"],
            id="a large Secret",
        ),
        pytest.param(
            obj("ConfigMap", data={"dup": "x"}, binaryData={"dup": "AAA="}),
            ['data[dup]: Invalid value: "dup": duplicate of key present in binaryData'],
            id="a key twice",
        ),
        pytest.param(
            obj("Lease", "coordination.k8s.io/v1", spec={"leaseTransitions": -1}),
            ["spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"],
            id="a lease that went back",
        ),
        pytest.param(
            obj("Node", spec={"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}),
            [
                (
                    'metadata.taints[1]: Duplicate value: {"key":"a","effect":"NoSchedule"}: taints must be unique by'
                    " key and effect pair"
                )
            ],
            id="a taint twice",
        ),
        pytest.param(
            obj("Role", f"{RBAC}/v1", rules=[{"nonResourceURLs": ["/x"], "verbs": ["get"]}]),
            [
                'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
            ],
            id="a role for paths",
        ),
        pytest.param(
            obj("Secret", type="kubernetes.io/dockerconfigjson", stringData={".dockerconfigjson": "no"}),
            [
                'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": must be a JSON object',
            ],
            id="invalid docker configuration",
        ),
        pytest.param(
            claim(accessModes=["X"]),
            [
                (
                    'spec.accessModes: Unsupported value: "X": supported values: "ReadOnlyMany", "ReadWriteMany",'
                    ' "ReadWriteOnce", "ReadWriteOncePod"'
                )
            ],
            id="an unknown access mode",
        ),
    ],
)
def test_validation_errors(cluster: Any, given: Object, errors: list[str]) -> None:
    assert cluster.create_errors(given) == errors


def test_string_data_overrides_data(cluster: Any) -> None:
    data = {"a": encoded("old"), "b": encoded("kept")}
    created = cluster.create(obj("Secret", data=data, stringData={"a": "new"}))
    assert created["data"] == {"a": encoded("new"), "b": encoded("kept")}
    assert "stringData" not in created
    assert created["type"] == "Opaque"


def test_namespace_is_kept_until_finalized(cluster: Any) -> None:
    created = cluster.create(obj("Namespace"))
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    assert created["spec"] == {"finalizers": ["kubernetes"]}
    assert created["status"] == {"phase": "Active"}
    strategy = NamespaceStrategy()
    assert strategy.blocks_removal(created)
    strategy.mark_deleted(created, cluster)
    assert created["status"] == {"phase": "Terminating"}
    assert not strategy.blocks_removal(created | {"spec": {}})


def test_namespace_update_keeps_finalizers(cluster: Any) -> None:
    created = cluster.create(obj("Namespace"))
    updated = cluster.update(created, lambda one: one.update(spec={}))
    assert updated["spec"] == {"finalizers": ["kubernetes"]}


@pytest.mark.parametrize(
    ("deleted", "phase", "error"),
    [
        (False, "Active", None),
        (True, "Terminating", None),
        (False, "Terminating", "'Active' if `deletionTimestamp` is empty"),
        (True, "Active", "'Terminating' if `deletionTimestamp` is not empty"),
    ],
)
def test_namespace_phase_must_match_deletion_timestamp(deleted: bool, phase: str, error: str | None) -> None:
    new = {"metadata": {"deletionTimestamp": "t"} if deleted else {}, "status": {"phase": phase}}
    expected = [f'status.Phase: Invalid value: "{phase}": may only be {error}'] if error else []
    assert [*map(str, NamespaceStrategy().validate_status(new, new))] == expected


def test_node_has_pod_cidr_in_both_fields(cluster: Any) -> None:
    spec = cluster.create(obj("Node", spec={"podCIDR": "10.0.0.0/24"}))["spec"]
    assert spec == {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}


def test_node_status_defaults_and_errors() -> None:
    address = {"type": "InternalIP", "address": "10.0.0.1"}
    new = {"status": {"capacity": {"cpu": "-1"}, "addresses": [address, address]}}
    assert [*map(str, NodeStrategy().validate_status(new, {}))] == [
        'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
        'status.addresses[1]: Duplicate value: {"type":"InternalIP","address":"10.0.0.1"}',
    ]


def test_binding_subject_gets_api_group(cluster: Any) -> None:
    subjects = [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]
    created = cluster.create(binding(subjects=subjects))
    assert [subject.get("apiGroup") for subject in created["subjects"]] == [RBAC, None]
    assert created["roleRef"]["apiGroup"] == RBAC
