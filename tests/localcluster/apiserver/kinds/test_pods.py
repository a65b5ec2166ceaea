"""Pods: mutable fields, grace periods and binding."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.apiserver.checks import containers, pod_specs, scheduling
from windlass.localcluster.apiserver.kinds import pods
from windlass.localcluster.apiserver.kinds.pods import PodStrategy

Object = dict[str, Any]
Change = Callable[[Object], object]
NOW = "2026-01-02T03:04:05Z"


def pod(**spec: Any) -> Object:
    containers = [{"name": "c", "image": "busybox:1"}]
    metadata = {"name": "p"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers} | spec,
    }


def setting(**fields: Any) -> Change:
    return lambda obj: obj["spec"].update(fields)


def without(field: str) -> Change:
    return lambda obj: obj["spec"].pop(field)


DEADLINE = pod(activeDeadlineSeconds=100)
MAY_CHANGE = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing"
    " tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


@pytest.mark.parametrize(
    ("given", "change"),
    [
        pytest.param(pod(), lambda obj: obj["spec"]["containers"][0].update(image="other"), id="image"),
        pytest.param(pod(), setting(activeDeadlineSeconds=5), id="a deadline"),
        pytest.param(DEADLINE, setting(activeDeadlineSeconds=5), id="a closer deadline"),
        pytest.param(pod(), without("tolerations"), id="tolerations are filled in again"),
        pytest.param(pod(), without("priority"), id="the priority is known"),
        pytest.param(
            pod(), lambda obj: obj["spec"]["tolerations"].append({"operator": "Exists"}), id="tolerate more"
        ),
        pytest.param(
            pod(),
            lambda obj: obj["spec"]["tolerations"][0].update(tolerationSeconds=1),
            id="tolerate for less",
        ),
        pytest.param(
            pod(terminationGracePeriodSeconds=-1),
            setting(terminationGracePeriodSeconds=1),
            id="negative grace",
        ),
        pytest.param(pod(schedulingGates=[{"name": "x.y/z"}]), without("schedulingGates"), id="a gate opens"),
    ],
)
def test_mutable_fields_are_accepted(cluster: Any, given: Object, change: Change) -> None:
    assert cluster.update_errors(cluster.create(given), change) == []


@pytest.mark.parametrize(
    ("given", "change", "errors"),
    [
        pytest.param(
            pod(),
            lambda obj: obj["spec"]["containers"].append({"name": "d", "image": "i"}),
            ["spec.containers: Forbidden: pod updates may not add or remove containers"],
            id="a container more",
        ),
        pytest.param(pod(), setting(nodeName="n"), [MAY_CHANGE], id="the node"),
        pytest.param(pod(), setting(terminationGracePeriodSeconds=1), [MAY_CHANGE], id="grace"),
        pytest.param(
            pod(),
            lambda obj: obj["spec"]["containers"][0].update(command=["x"]),
            [MAY_CHANGE],
            id="a command",
        ),
        pytest.param(
            DEADLINE,
            setting(activeDeadlineSeconds=500),
            [
                "spec.activeDeadlineSeconds: Invalid value: 500: must be less than or equal to previous value",
            ],
            id="a later deadline",
        ),
        pytest.param(
            DEADLINE,
            without("activeDeadlineSeconds"),
            [
                (
                    'spec.activeDeadlineSeconds: Invalid value: "null": must not update from a positive integer to nil'
                    " value"
                )
            ],
            id="no deadline any more",
        ),
        pytest.param(
            pod(tolerations=[{"key": "a", "operator": "Exists"}]),
            lambda obj: obj["spec"]["tolerations"][0].update(key="b"),
            [
                (
                    "spec.tolerations: Forbidden: existing toleration can not be modified except its"
                    " tolerationSeconds"
                )
            ],
            id="another toleration",
        ),
        pytest.param(
            pod(),
            setting(schedulingGates=[{"name": "x.y/z"}]),
            [
                "spec.schedulingGates: Forbidden: only deletion is allowed, but found new scheduling gate 'x.y/z'",
            ],
            id="a gate closes",
        ),
    ],
)
def test_immutable_fields_are_rejected(
    cluster: Any, given: Object, change: Change, errors: list[str]
) -> None:
    assert cluster.update_errors(cluster.create(given), change) == errors


@pytest.mark.parametrize(
    ("spec", "status", "meta", "asked", "expected"),
    [
        ({"nodeName": "n"}, {}, {}, None, 30),
        ({"nodeName": "n"}, {}, {}, 5, 5),
        ({"nodeName": "n"}, {}, {}, 0, 0),
        ({"nodeName": "n"}, {}, {}, -7, 1),
        ({}, {}, {}, None, 0),
        ({}, {}, {}, 5, 0),
        ({"nodeName": "n"}, {"phase": "Succeeded"}, {}, None, 0),
        ({"nodeName": "n"}, {"phase": "Failed"}, {}, 5, 0),
        ({"nodeName": "n"}, {}, {"deletionGracePeriodSeconds": 10}, None, 10),
        ({"nodeName": "n"}, {}, {"deletionGracePeriodSeconds": 10}, 60, 10),
        ({"nodeName": "n"}, {}, {"deletionGracePeriodSeconds": 10}, 3, 3),
        ({"nodeName": "n"}, {}, {"deletionGracePeriodSeconds": 10}, 0, 0),
    ],
)
def test_deletion_grace_seconds(
    spec: Object, status: Object, meta: Object, asked: int | None, expected: int
) -> None:
    obj = {"metadata": meta, "spec": {"terminationGracePeriodSeconds": 30} | spec, "status": status}
    assert PodStrategy().grace_seconds(obj, asked) == expected


def test_binding_sets_node_and_condition(cluster: Any) -> None:
    unbound = cluster.create(pod())
    before = copy.deepcopy(unbound)
    bound = pods.bind(unbound, "n1", {}, cluster)
    assert unbound == before
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"] == [
        {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": NOW}
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda obj: obj["spec"].update(nodeName="n0"), 'pod p is already assigned to node "n0"'),
        (
            lambda obj: obj["metadata"].update(deletionTimestamp=NOW),
            "pod p is being deleted, cannot be assigned to a host",
        ),
        (
            lambda obj: obj["spec"].update(schedulingGates=[{"name": "g"}]),
            "pod p has non-empty .spec.schedulingGates",
        ),
    ],
)
def test_binding_conflicts(cluster: Any, change: Change, why: str) -> None:
    obj = cluster.create(pod())
    change(obj)
    with pytest.raises(ApiError) as raised:
        pods.bind(obj, "n1", {}, cluster)
    assert raised.value.code == 409
    assert raised.value.message == f'Operation cannot be fulfilled on pods/binding "p": {why}'


def test_scheduling_gates_set_condition(cluster: Any) -> None:
    status = cluster.create(pod(schedulingGates=[{"name": "x.y/z"}]))["status"]
    assert [(one["type"], one["status"], one["reason"]) for one in status["conditions"]] == [
        ("PodScheduled", "False", "SchedulingGated")
    ]


def test_init_container_with_probe_must_be_sidecar(cluster: Any) -> None:
    init: Object = {"name": "i", "image": "i:1", "livenessProbe": {"exec": {"command": ["x"]}}}
    problem = "may not be set for init containers without restartPolicy=Always"
    assert cluster.create_errors(pod(initContainers=[init])) == [
        f"spec.initContainers[0].livenessProbe: Forbidden: {problem}"
    ]
    cluster.create(pod(initContainers=[init | {"restartPolicy": "Always"}]))


@pytest.mark.parametrize(
    ("amounts", "error"),
    [
        (
            {"limits": {"nvidia.com/gpu": "500m"}},
            'limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
        ),
        ({"limits": {"cpu": "-1"}}, 'limits[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
    ],
)
def test_invalid_resource_amounts_are_rejected(cluster: Any, amounts: Object, error: str) -> None:
    given = pod(containers=[{"name": "c", "image": "i", "resources": amounts}])
    assert f"spec.containers[0].resources.{error}" in cluster.create_errors(given)


RUNNING: Object = {"running": {}}
FAILED = {"terminated": {"exitCode": 1}}
SUCCEEDED = {"terminated": {"exitCode": 0}}


@pytest.mark.parametrize(
    ("policy", "before", "after", "is_refused"),
    [
        ("Never", FAILED, RUNNING, True),
        ("Never", FAILED, SUCCEEDED, False),
        ("OnFailure", FAILED, RUNNING, False),
        ("OnFailure", SUCCEEDED, RUNNING, True),
        ("Always", SUCCEEDED, RUNNING, False),
        ("Never", RUNNING, FAILED, False),
    ],
)
def test_terminated_container_cannot_restart(
    policy: str, before: Object, after: Object, is_refused: bool
) -> None:
    def with_state(state: Object) -> Object:
        return {
            "spec": {"restartPolicy": policy},
            "status": {"containerStatuses": [{"name": "c", "state": state}]},
        }

    errors = [*map(str, PodStrategy().validate_status(with_state(after), with_state(before)))]
    problem = "may not be transitioned to non-terminated state"
    assert errors == ([f"status.containerStatuses[0].state: Forbidden: {problem}"] if is_refused else [])


def test_binding_does_not_copy_the_spec(cluster: Any) -> None:
    unbound = cluster.create(pod())
    before = copy.deepcopy(unbound)
    bound = pods.bind(unbound, "n1", {"a": "b"}, cluster)
    assert bound["spec"]["containers"] is unbound["spec"]["containers"]
    assert bound["metadata"]["annotations"] == {"a": "b"}
    assert unbound == before


@pytest.mark.parametrize(
    ("field", "most"), [("containers", pod_specs.MAX_CONTAINERS), ("volumes", pod_specs.MAX_VOLUMES)]
)
def test_pod_has_a_maximum_of_containers_and_volumes(cluster: Any, field: str, most: int) -> None:
    items = [{"name": f"i{number}", "image": "busybox:1"} for number in range(most + 1)]
    if field == "volumes":
        items = [{"name": item["name"]} for item in items]
    assert cluster.create(pod(**{field: items[:most]}))
    with pytest.raises(ApiError) as raised:
        cluster.create(pod(**{field: items}))
    assert f"spec.{field}: Too many: {most + 1}: must have at most {most} items" in raised.value.message


class CountedText(str):
    """A text that counts comparisons."""

    comparisons = 0
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        CountedText.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def counted_texts(count: int) -> list[CountedText]:
    CountedText.comparisons = 0
    return [CountedText(f"k{number}") for number in range(count)]


def test_comparisons_of_topology_spread_constraints_grow_linearly() -> None:
    constraints: list[Mapping[str, Any]] = [
        {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
        for key in counted_texts(500)
    ]
    assert not [*scheduling.spread_errors(constraints, "spec")]
    assert CountedText.comparisons <= 10 * len(constraints)
    (error,) = scheduling.spread_errors([*constraints[:2], constraints[0]], "spec")
    assert error.field == "spec[0].{topologyKey, whenUnsatisfiable}"


@pytest.mark.parametrize(("field", "key"), [("tolerations", "key"), ("schedulingGates", "name")])
def test_comparisons_of_an_update_grow_linearly(field: str, key: str) -> None:
    texts = counted_texts(500)
    old = {"spec": {"containers": [], field: [{key: text} for text in texts]}}
    new = {"spec": {"containers": [], field: [{key: CountedText(text)} for text in texts]}}
    assert not [*PodStrategy().validate_update(new, old)]
    assert CountedText.comparisons <= 10 * len(texts)


def test_comparisons_of_mounts_with_devices_grow_linearly() -> None:
    mounts = [{"name": "v", "mountPath": text} for text in counted_texts(500)]
    devices = [{"name": "w", "devicePath": CountedText(f"/dev/{number}")} for number in range(500)]
    policies = {"imagePullPolicy": "Always", "terminationMessagePolicy": "File"}
    container = {"name": "c", "image": "i", "volumeMounts": mounts, "volumeDevices": devices, **policies}
    volumes: dict[str, dict[str, Any]] = {
        "v": {"name": "v"},
        "w": {"name": "w", "persistentVolumeClaim": {"claimName": "w"}},
    }
    assert not [*containers.errors([container], volumes, "spec.containers")]
    assert CountedText.comparisons <= 10 * len(mounts)
