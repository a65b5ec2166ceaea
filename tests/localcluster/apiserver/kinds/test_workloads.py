"""Deployments, ReplicaSets and StatefulSets: defaults, selectors, scale."""

import copy
from typing import Any

import pytest

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.apiserver.kinds import scales, workloads

Object = dict[str, Any]
TEMPLATE: Object = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i:1"}]},
}


def workload(kind: str, **spec: Any) -> Object:
    whole = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE} | spec
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": whole}


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (
            "Deployment",
            {},
            {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
                },
            },
        ),
        ("Deployment", {"strategy": {"type": "Recreate"}}, {"strategy": {"type": "Recreate"}}),
        ("ReplicaSet", {}, {"replicas": 1}),
        (
            "StatefulSet",
            {},
            {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "podManagementPolicy": "OrderedReady",
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": 1, "partition": 0},
                },
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            },
        ),
        (
            "StatefulSet",
            {"updateStrategy": {"type": "RollingUpdate"}},
            {"updateStrategy": {"type": "RollingUpdate"}},
        ),
    ],
)
def test_workload_defaults(cluster: Any, kind: str, given: Object, expected: Object) -> None:
    spec = cluster.create(workload(kind, **given))["spec"]
    assert {key: spec.get(key) for key in expected} == expected
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert "enableServiceLinks" not in spec["template"]["spec"]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize(
    ("given", "errors"),
    [
        (
            {"selector": {"matchLabels": {"x": "y"}}},
            [
                'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`',
            ],
        ),
        ({"replicas": -1}, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}},
            ["spec.template.spec.containers[0].image: Required value"],
        ),
        (
            {"template": TEMPLATE | {"spec": TEMPLATE["spec"] | {"restartPolicy": "Never"}}},
            ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'],
        ),
    ],
)
def test_validation_errors(cluster: Any, kind: str, given: Object, errors: list[str]) -> None:
    assert cluster.create_errors(workload(kind, **given)) == errors


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (
            {"strategy": {"type": "X"}},
            'spec.strategy: Unsupported value: {"type":"X"}: supported values: "Recreate", "RollingUpdate"',
        ),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
        (
            {"strategy": {"rollingUpdate": {"maxUnavailable": "200%"}}},
            'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "200%": must not be greater than 100%',
        ),
        (
            {"minReadySeconds": 600},
            "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
        ),
    ],
)
def test_rolling_update_without_progress_is_rejected(cluster: Any, given: Object, error: str) -> None:
    assert cluster.create_errors(workload("Deployment", **given)) == [error]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
def test_selector_is_immutable(cluster: Any, kind: str) -> None:
    created = cluster.create(workload(kind))
    template = TEMPLATE | {"metadata": {"labels": {"x": "y"}}}
    other = {"selector": {"matchLabels": {"x": "y"}}, "template": template}
    assert cluster.update_errors(created, lambda obj: obj["spec"].update(other)) == [
        'spec.selector: Invalid value: {"matchLabels":{"x":"y"}}: field is immutable'
    ]


def test_stateful_set_spec_is_mostly_immutable(cluster: Any) -> None:
    created = cluster.create(workload("StatefulSet", serviceName="s"))
    cluster.update(created, lambda obj: obj["spec"].update(replicas=3))
    (error,) = cluster.update_errors(created, lambda obj: obj["spec"].update(serviceName="t"))
    assert error == 'spec.serviceName: Invalid value: "t": field is immutable'


def test_mount_can_name_volume_claim_template(cluster: Any) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    template = TEMPLATE | {"spec": {"containers": [{"name": "c", "image": "i:1", "volumeMounts": mounts}]}}
    assert cluster.create_errors(workload("StatefulSet", template=template)) == [
        'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"'
    ]
    requests = {"storage": "1024Mi"}
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": requests}},
    }
    created = cluster.create(workload("StatefulSet", template=template, volumeClaimTemplates=[claim]))
    (filled,) = created["spec"]["volumeClaimTemplates"]
    assert filled["spec"]["resources"] == {"requests": {"storage": "1Gi"}}
    assert (filled["kind"], filled["status"]) == ("PersistentVolumeClaim", {"phase": "Pending"})


def test_scale_reads_and_writes_replicas(cluster: Any) -> None:
    created = cluster.create(workload("Deployment", replicas=2))
    created["metadata"]["resourceVersion"] = "7"
    before = copy.deepcopy(created)
    scale = scales.scale_of(created, scales.BUILT_IN_PATHS)
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "a=b"}
    assert scale["metadata"]["resourceVersion"] == "7"
    scaled = scales.with_scale(created, scales.BUILT_IN_PATHS, scale | {"spec": {"replicas": 5}})
    assert scaled["spec"]["replicas"] == 5
    assert scaled["metadata"]["resourceVersion"] == "7"
    assert (
        scales.scale_of(
            scales.with_scale(created, scales.BUILT_IN_PATHS, {"spec": {}}), scales.BUILT_IN_PATHS
        )["spec"]
        == {}
    )
    assert created == before


def test_negative_scale_is_rejected(cluster: Any) -> None:
    created = cluster.create(workload("Deployment"))
    with pytest.raises(ApiError, match=r"spec.replicas: Invalid value: -1") as raised:
        scales.with_scale(created, scales.BUILT_IN_PATHS, {"spec": {"replicas": -1}})
    assert raised.value.code == 422


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        ({"replicas": 3, "updatedReplicas": 3, "readyReplicas": 2, "availableReplicas": 1}, []),
        ({"replicas": 1, "unavailableReplicas": -1}, ["status.unavailableReplicas"]),
        ({"replicas": 1, "updatedReplicas": 2}, ["status.updatedReplicas"]),
        ({"replicas": 2, "availableReplicas": 1}, ["status.availableReplicas"]),
    ],
)
def test_status_counts_must_be_consistent(status: dict[str, Any], fields: list[str]) -> None:
    found = workloads.DeploymentStrategy().validate_status({"status": status}, {})
    assert [error.field for error in found] == fields
