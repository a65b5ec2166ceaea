"""Columns of built-in kinds. The expected cells are those of kube-apiserver for the same objects."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from windlass.localcluster.apiserver.printing import accessors, columns

_NOW = datetime(2024, 1, 2, 12, tzinfo=UTC)
_CREATED = "2024-01-02T11:57:00Z"


def _object(name: str = "x", metadata: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "creationTimestamp": _CREATED, **(metadata or {})}, **fields}


def _cells(resource: str, obj: dict[str, Any]) -> list[Any]:
    printer = columns.PRINTERS.get(resource, columns.DEFAULT)
    cells = printer.cells(obj, _NOW)
    assert len(cells) == len(printer.headers)
    return cells


@pytest.mark.parametrize(
    ("elapsed", "expected"),
    [
        (timedelta(seconds=-2), "<invalid>"),
        (timedelta(seconds=-1.9), "0s"),
        (timedelta(0), "0s"),
        (timedelta(seconds=59.9), "59s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=2), "2m"),
        (timedelta(minutes=3, seconds=12), "3m12s"),
        (timedelta(minutes=9, seconds=59), "9m59s"),
        (timedelta(minutes=10, seconds=30), "10m"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=7, minutes=59), "7h59m"),
        (timedelta(hours=8, minutes=59), "8h"),
        (timedelta(hours=47), "47h"),
        (timedelta(days=2), "2d"),
        (timedelta(days=2, hours=3), "2d3h"),
        (timedelta(days=7, hours=23), "7d23h"),
        (timedelta(days=8, hours=1), "8d"),
        (timedelta(days=729), "729d"),
        (timedelta(days=730), "2y"),
        (timedelta(days=731), "2y1d"),
        (timedelta(days=365 * 8 - 1), "7y364d"),
        (timedelta(days=365 * 8 + 1), "8y"),
    ],
)
def test_durations(elapsed: timedelta, expected: str) -> None:
    assert accessors.human_duration(elapsed) == expected


def _container(ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": "c", "ready": ready, "restartCount": restarts, "state": state}


_RUNNING = {"startedAt": _CREATED}
_COMPLETED = {"exitCode": 0, "reason": "Completed"}
_ENDED = {"exitCode": 1, "finishedAt": "2024-01-02T11:55:00Z"}
_IS_READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Pending"}, ["0/2", "Pending", "0"]),
        ({"phase": "Failed", "reason": "Evicted"}, ["0/2", "Evicted", "0"]),
        (
            {"phase": "Running", "containerStatuses": [_container(True, 3, running=_RUNNING)]},
            ["1/2", "Running", "3"],
        ),
        ({"phase": "Running", "containerStatuses": [_container(running=_RUNNING)]}, ["0/2", "Running", "0"]),
        (
            {"phase": "Succeeded", "containerStatuses": [_container(terminated=_COMPLETED)]},
            ["0/2", "Completed", "0"],
        ),
        (
            {"phase": "Failed", "containerStatuses": [_container(terminated={"exitCode": 3})]},
            ["0/2", "ExitCode:3", "0"],
        ),
        (
            {"phase": "Failed", "containerStatuses": [_container(terminated={"exitCode": 137, "signal": 9})]},
            ["0/2", "Signal:9", "0"],
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [_container(restarts=5, waiting={"reason": "CrashLoopBackOff"})],
            },
            ["0/2", "CrashLoopBackOff", "5"],
        ),
        ({"phase": "Pending", "containerStatuses": [_container(waiting={})]}, ["0/2", "Pending", "0"]),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    _container(waiting={"reason": "ImagePullBackOff"}),
                    _container(restarts=2, terminated={"exitCode": 1, "reason": "Error"}),
                ],
            },
            ["0/2", "ImagePullBackOff", "2"],
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [_container(terminated=_COMPLETED), _container(True, running=_RUNNING)],
            },
            ["1/2", "NotReady", "0"],
        ),
        (
            {
                "phase": "Running",
                "conditions": _IS_READY,
                "containerStatuses": [_container(terminated=_COMPLETED), _container(True, running=_RUNNING)],
            },
            ["1/2", "Running", "0"],
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [
                    _container(restarts=1, terminated=_COMPLETED),
                    _container(restarts=2, running=_RUNNING),
                    _container(restarts=4, waiting={"reason": "PodInitializing"}),
                ],
                "containerStatuses": [_container(restarts=8, waiting={"reason": "PodInitializing"})],
            },
            ["0/2", "Init:1/3", "3"],
        ),
        (
            {"phase": "Pending", "initContainerStatuses": [_container(terminated={"exitCode": 2})]},
            ["0/2", "Init:ExitCode:2", "0"],
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [_container(terminated={"exitCode": 2, "signal": 11})],
            },
            ["0/2", "Init:Signal:11", "0"],
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [_container(terminated={"exitCode": 2, "reason": "Error"})],
            },
            ["0/2", "Init:Error", "0"],
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [_container(waiting={"reason": "CrashLoopBackOff"})],
            },
            ["0/2", "Init:CrashLoopBackOff", "0"],
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [_container(waiting={"reason": "PodInitializing"})],
            },
            ["0/2", "Init:0/3", "0"],
        ),
        (
            {
                "phase": "Running",
                "initContainerStatuses": [_container(restarts=9, terminated=_COMPLETED)],
                "containerStatuses": [_container(True, 1, running=_RUNNING)],
            },
            ["1/2", "Running", "1"],
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    {**_container(True, 3, running=_RUNNING), "lastState": {"terminated": _ENDED}},
                    {**_container(True, 1, running=_RUNNING), "lastState": {"terminated": {"exitCode": 1}}},
                ],
            },
            ["2/2", "Running", "4 (5m ago)"],
        ),
        (
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            ["0/2", "SchedulingGated", "0"],
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    _container(terminated=_COMPLETED),
                    _container(terminated={"exitCode": 1, "reason": "Error"}),
                ],
            },
            ["0/2", "Error", "0"],
        ),
    ],
)
def test_pod_status_column(status: dict[str, Any], expected: list[Any]) -> None:
    spec: dict[str, Any] = {"containers": [{}, {}], "initContainers": [{}, {}, {}]}
    assert _cells("pods", _object(spec=spec, status=status)) == [
        *("x", *expected),
        *("3m", "<none>", "<none>", "<none>", "<none>"),
    ]


@pytest.mark.parametrize(("reason", "expected"), [("", "Terminating"), ("NodeLost", "Unknown")])
def test_terminating_pod(reason: str, expected: str) -> None:
    status = {"phase": "Running", "reason": reason, "containerStatuses": [_container(True, running=_RUNNING)]}
    pod = _object(metadata={"deletionTimestamp": _CREATED}, spec={"containers": [{}]}, status=status)
    assert _cells("pods", pod)[:3] == ["x", "1/1", expected]


def test_terminating_finished_pod_shows_its_status() -> None:
    status = {"phase": "Succeeded", "containerStatuses": [_container(terminated=_COMPLETED)]}
    pod = _object(metadata={"deletionTimestamp": _CREATED}, spec={"containers": [{}]}, status=status)
    assert _cells("pods", pod)[:3] == ["x", "0/1", "Completed"]


def test_ready_sidecars_count_as_containers() -> None:
    spec = {
        "containers": [{"name": "main"}],
        "initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "setup"}],
    }
    proxy = {**_container(True, 2, running=_RUNNING), "name": "proxy", "started": True}
    starting = {"phase": "Pending", "initContainerStatuses": [proxy, {**_container(), "name": "setup"}]}
    assert _cells("pods", _object(spec=spec, status=starting))[1:4] == ["1/2", "Init:1/2", "2"]
    done = {**_container(restarts=5, terminated=_COMPLETED), "name": "setup"}
    running = {
        "phase": "Running",
        "initContainerStatuses": [proxy, done],
        "containerStatuses": [_container(True, 1, running=_RUNNING)],
    }
    assert _cells("pods", _object(spec=spec, status=running))[1:4] == ["2/2", "Running", "3"]


def test_pod_wide_columns() -> None:
    gates = [{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}]
    status = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
        "nominatedNodeName": "n2",
        "conditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}],
    }
    pod = _object(spec={"containers": [{}], "nodeName": "n1", "readinessGates": gates}, status=status)
    assert _cells("pods", pod)[5:] == ["10.0.0.1", "n1", "n2", "1/3"]


_TEMPLATE = {"spec": {"containers": [{"name": "x", "image": "i1"}, {"name": "y", "image": "i2"}]}}
_SELECTOR = {
    "matchLabels": {"b": "1"},
    "matchExpressions": [
        {"key": "z", "operator": "DoesNotExist"},
        {"key": "a", "operator": "In", "values": ["d", "c"]},
        {"key": "q", "operator": "NotIn", "values": ["d", "c"]},
        {"key": "e", "operator": "Exists"},
    ],
}
_SELECTED = "a in (c,d),b=1,e,q notin (c,d),!z"
_RBAC = "rbac.authorization.k8s.io"
_SUBJECTS = [
    {"kind": "User", "name": "u1"},
    {"kind": "User", "name": "u2"},
    {"kind": "Group", "name": "g"},
    {"kind": "ServiceAccount", "name": "s", "namespace": "default"},
]


@pytest.mark.parametrize(
    ("resource", "fields", "expected"),
    [
        ("nodes", {}, ["Unknown", "<none>", "3m", "", "<none>", "<none>", *["<unknown>"] * 3]),
        (
            "nodes",
            {"status": {"addresses": [{"type": "InternalIP"}]}},
            ["Unknown", "<none>", "3m", "", "", "<none>", *["<unknown>"] * 3],
        ),
        (
            "nodes",
            {
                "metadata": {
                    "labels": {"node-role.kubernetes.io/master": "", "kubernetes.io/role": "worker"}
                },
                "spec": {"unschedulable": True},
                "status": {
                    "conditions": _IS_READY,
                    "addresses": [
                        {"type": "ExternalIP", "address": "5.6.7.8"},
                        {"type": "InternalIP", "address": "1.2.3.4"},
                    ],
                    "nodeInfo": {
                        "kubeletVersion": "v1",
                        "osImage": "Debian",
                        "kernelVersion": "6",
                        "containerRuntimeVersion": "c://1",
                    },
                },
            },
            [
                "Ready,SchedulingDisabled",
                "master,worker",
                "3m",
                "v1",
                "1.2.3.4",
                "5.6.7.8",
                "Debian",
                "6",
                "c://1",
            ],
        ),
        (
            "nodes",
            {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
            ["NotReady", "<none>", "3m", "", "<none>", "<none>", *["<unknown>"] * 3],
        ),
        ("namespaces", {"status": {"phase": "Active"}}, ["Active", "3m"]),
        (
            "services",
            {
                "spec": {
                    "type": "ClusterIP",
                    "clusterIP": "10.0.0.1",
                    "clusterIPs": ["10.0.0.1"],
                    "ports": [{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "UDP"}],
                    "selector": {"b": "1", "a": "2"},
                }
            },
            ["ClusterIP", "10.0.0.1", "<none>", "80/TCP,81/UDP", "3m", "a=2,b=1"],
        ),
        (
            "services",
            {"spec": {"type": "ClusterIP", "clusterIP": "None"}},
            ["ClusterIP", "None", "<none>", "<none>", "3m", "<none>"],
        ),
        (
            "services",
            {
                "spec": {
                    "type": "NodePort",
                    "clusterIP": "10.0.0.1",
                    "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}],
                    "externalIPs": ["9.9.9.9", "8.8.8.8"],
                }
            },
            ["NodePort", "10.0.0.1", "9.9.9.9,8.8.8.8", "80:30000/TCP", "3m", "<none>"],
        ),
        (
            "services",
            {"spec": {"type": "ExternalName", "externalName": "ex.org"}},
            ["ExternalName", "<none>", "ex.org", "<none>", "3m", "<none>"],
        ),
        (
            "services",
            {"spec": {"type": "LoadBalancer"}},
            ["LoadBalancer", "<none>", "<pending>", "<none>", "3m", "<none>"],
        ),
        (
            "services",
            {
                "spec": {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]},
                "status": {
                    "loadBalancer": {"ingress": [{"ip": "7.7.7.7"}, {"hostname": "a.b"}, {"ip": "6.6.6.6"}]}
                },
            },
            ["LoadBalancer", "<none>", "6.6.6.6,7.7.7.7,a.b,9.9.9.9", "<none>", "3m", "<none>"],
        ),
        ("endpoints", {}, ["<none>", "3m"]),
        (
            "endpoints",
            {"subsets": [{"addresses": [{"ip": "10.1.1.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}]}]},
            ["10.1.1.1:80,[fd00::1]:80", "3m"],
        ),
        (
            "endpoints",
            {"subsets": [{"addresses": [{"ip": f"10.1.1.{i}"} for i in range(5)]}]},
            ["10.1.1.0,10.1.1.1,10.1.1.2 + 2 more...", "3m"],
        ),
        (
            "endpoints",
            {"subsets": [{"notReadyAddresses": [{"ip": "1.1.1.1"}], "ports": [{"port": 1}]}]},
            ["", "3m"],
        ),
        ("configmaps", {"data": {"a": "1", "b": "2"}, "binaryData": {"c": ""}}, [3, "3m"]),
        ("configmaps", {}, [0, "3m"]),
        ("secrets", {"type": "Opaque", "data": {"a": ""}}, ["Opaque", 1, "3m"]),
        ("serviceaccounts", {"secrets": [{"name": "s"}]}, ["3m"]),
        (
            "persistentvolumeclaims",
            {
                "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]},
                "status": {"phase": "Pending"},
            },
            ["Pending", "", "", "", "fast", "3m", "<unset>"],
        ),
        (
            "persistentvolumeclaims",
            {
                "spec": {"volumeName": "v", "volumeMode": "Filesystem"},
                "status": {
                    "phase": "Bound",
                    "capacity": {"storage": "2Gi"},
                    "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                },
            },
            ["Bound", "v", "2Gi", "RWO,RWX", "", "3m", "Filesystem"],
        ),
        (
            "persistentvolumeclaims",
            {
                "metadata": {
                    "deletionTimestamp": _CREATED,
                    "annotations": {"volume.beta.kubernetes.io/storage-class": "old"},
                },
                "spec": {"volumeName": "v", "storageClassName": "new"},
                "status": {"phase": "Bound"},
            },
            ["Terminating", "v", "0", "", "old", "3m", "<unset>"],
        ),
        ("leases.coordination.k8s.io", {"spec": {"holderIdentity": "me"}}, ["me", "3m"]),
        ("leases.coordination.k8s.io", {"spec": {}}, ["", "3m"]),
        (
            "jobs.batch",
            {
                "spec": {"completions": 3, "template": _TEMPLATE, "selector": _SELECTOR},
                "status": {"succeeded": 2, "startTime": "2024-01-02T11:00:00Z"},
            },
            ["Running", "2/3", "60m", "3m", "x,y", "i1,i2", _SELECTED],
        ),
        (
            "jobs.batch",
            {
                "spec": {"parallelism": 4, "template": _TEMPLATE},
                "status": {
                    "startTime": "2024-01-01T00:00:00Z",
                    "completionTime": "2024-01-01T00:07:05Z",
                    "conditions": [{"type": "Complete", "status": "True"}],
                },
            },
            ["Complete", "0/1 of 4", "7m5s", "3m", "x,y", "i1,i2", "<none>"],
        ),
        ("jobs.batch", {"spec": {"parallelism": 1}}, ["Running", "0/1", "", "3m", "", "", "<none>"]),
        (
            "deployments.apps",
            {
                "spec": {"replicas": 3, "template": _TEMPLATE, "selector": _SELECTOR},
                "status": {"readyReplicas": 1, "availableReplicas": 1, "updatedReplicas": 2},
            },
            ["1/3", 2, 1, "3m", "x,y", "i1,i2", _SELECTED],
        ),
        (
            "statefulsets.apps",
            {"spec": {"replicas": 3, "template": _TEMPLATE}, "status": {"readyReplicas": 1}},
            ["1/3", "3m", "x,y", "i1,i2"],
        ),
        (
            f"rolebindings.{_RBAC}",
            {"roleRef": {"kind": "Role", "name": "r"}, "subjects": _SUBJECTS},
            ["Role/r", "3m", "u1, u2", "g", "default/s"],
        ),
        (
            f"clusterrolebindings.{_RBAC}",
            {"roleRef": {"kind": "ClusterRole", "name": "r"}},
            ["ClusterRole/r", "3m", "", "", ""],
        ),
        (f"roles.{_RBAC}", {"rules": []}, [_CREATED]),
        (f"clusterroles.{_RBAC}", {"rules": []}, [_CREATED]),
        (
            "customresourcedefinitions.apiextensions.k8s.io",
            {"spec": {}},
            ["", "", _CREATED, "", "", "", False],
        ),
        ("things.example.org", {}, [_CREATED]),
    ],
)
def test_cells_of_each_kind(resource: str, fields: dict[str, Any], expected: list[Any]) -> None:
    assert _cells(resource, _object(**fields)) == ["x", *expected]


_INVOLVED = {"kind": "Pod", "name": "p"}
_HOUR_AGO, _DAY_AGO = "2024-01-02T11:00:00Z", "2024-01-01T12:00:00.123456Z"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {
                "involvedObject": _INVOLVED | {"fieldPath": "spec.containers{a}"},
                "type": "Normal",
                "reason": "R",
                "message": " hello \n",
                "source": {"component": "kubelet", "host": "n1"},
                "firstTimestamp": _DAY_AGO,
                "lastTimestamp": _HOUR_AGO,
                "count": 4,
            },
            ["60m", "Normal", "R", "pod/p", "spec.containers{a}", "kubelet, n1", "hello", "23h", 4],
        ),
        (
            {"involvedObject": _INVOLVED, "source": {"component": "kubelet"}, "firstTimestamp": None},
            ["<unknown>", "", "", "pod/p", "", "kubelet", "", "<unknown>", 1],
        ),
        (
            {
                "involvedObject": {"kind": "Node"},
                "eventTime": _DAY_AGO,
                "reportingComponent": "r",
                "reportingInstance": "i",
                "series": {"count": 7, "lastObservedTime": _HOUR_AGO},
            },
            ["60m", "", "", "node", "", "r, i", "", "23h", 8],
        ),
        ({"eventTime": _HOUR_AGO}, ["60m", "", "", "", "", "", "", "60m", 1]),
    ],
)
def test_event_columns(fields: dict[str, Any], expected: list[Any]) -> None:
    assert _cells("events", _object(**fields)) == [*expected, "x"]


@pytest.mark.parametrize("resource", sorted(columns.PRINTERS))
def test_every_printer_has_a_cell_for_each_column(resource: str) -> None:
    _cells(resource, _object())
    named = [header for header in columns.PRINTERS[resource].headers if header.format == "name"]
    assert [header.name for header in named] == ["Name"]
