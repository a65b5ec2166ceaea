"""The Node objects of one machine."""

import pytest

from windlass.localcluster.apiserver.kinds.nodes import NodeStrategy
from windlass.localcluster.scheduler import gpus, nodes
from windlass.localcluster.scheduler.gpus import Gpu

NOW = "2026-01-01T00:00:00Z"
GIB = 1024**3


def machine(**changes: object) -> nodes.Machine:
    return nodes.Machine(
        **{  # type: ignore[arg-type]
            "host_name": "Box.example",
            "cpu": 8,
            "memory_bytes": 16 * GIB,
            "architecture": "arm64",
            "version": "v1.2.3",
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("box", "box"),
        ("Box.Example", "box.example"),
        ("my_laptop", "my-laptop"),
        ("-a-..b", "a.b"),
        ("___", "windlass-0"),
        ("", "windlass-0"),
        ("x" * 300, "x" * 253),
    ],
)
def test_single_node_is_named_after_the_host(host: str, name: str) -> None:
    assert [node["metadata"]["name"] for node in nodes.nodes(machine(host_name=host), 1, NOW)] == [name]


@pytest.mark.parametrize(
    ("count", "changes", "expected"),
    [
        pytest.param(1, {}, ["8", "16777216Ki"], id="the whole machine"),
        pytest.param(4, {}, ["2", "4194304Ki"], id="divided"),
        pytest.param(3, {}, ["2666m", "5592405Ki"], id="rounded down"),
        pytest.param(16, {}, ["1", "1048576Ki"], id="at least one CPU each"),
        pytest.param(4, {"memory_bytes": GIB}, ["2", "524288Ki"], id="at least 512 MiB each"),
        pytest.param(4, {"memory_bytes": GIB // 4}, ["2", "262144Ki"], id="never more than there is"),
    ],
)
def test_cpu_and_memory_are_divided_among_nodes(
    count: int, changes: dict[str, int], expected: list[str]
) -> None:
    for node in nodes.nodes(machine(**changes), count, NOW):
        capacity = node["status"]["capacity"]
        assert [capacity["cpu"], capacity["memory"]] == expected
        assert node["status"]["allocatable"] == capacity


@pytest.mark.parametrize(
    ("have", "count", "expected"),
    [
        (0, 2, [(None, None), (None, None)]),
        (4, 1, [("4", "0,1,2,3")]),
        (4, 2, [("2", "0,1"), ("2", "2,3")]),
        (5, 3, [("2", "0,1"), ("2", "2,3"), ("1", "4")]),
        (1, 2, [("1", "0"), (None, None)]),
    ],
)
def test_each_gpu_belongs_to_one_node(have: int, count: int, expected: list[tuple[str, str]]) -> None:
    found = [
        (
            node["status"]["allocatable"].get(gpus.RESOURCE),
            node["metadata"].get("annotations", {}).get(gpus.ANNOTATION),
        )
        for node in nodes.nodes(machine(gpus=tuple(Gpu(str(index)) for index in range(have))), count, NOW)
    ]
    assert found == expected


def test_mig_instances_are_resources_of_their_own() -> None:
    mig = "nvidia.com/mig-1g.10gb"
    own = (Gpu("GPU-a"), Gpu("MIG-b", mig), Gpu("MIG-c", mig))
    first, second = nodes.nodes(machine(gpus=own), 2, NOW)
    amounts = [
        {name: amount for name, amount in node["status"]["capacity"].items() if "nvidia" in name}
        for node in (first, second)
    ]
    assert amounts == [{"nvidia.com/gpu": "1", mig: "1"}, {mig: "1"}]
    assert first["metadata"]["annotations"][gpus.ANNOTATION] == f"GPU-a,{mig}:MIG-b"


def test_node_reports_labels_addresses_and_conditions() -> None:
    first, second = nodes.nodes(machine(storage_bytes=4 * GIB, address="10.0.0.1"), 2, NOW)
    assert second["metadata"]["labels"] == {
        "kubernetes.io/hostname": "windlass-1",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "arm64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "arm64",
        "windlass.dev/node-index": "1",
    }
    status = first["status"]
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [
        ("MemoryPressure", "False"),
        ("DiskPressure", "False"),
        ("PIDPressure", "False"),
        ("Ready", "True"),
    ]
    assert status["addresses"] == [
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "Hostname", "address": "windlass-0"},
    ]
    assert status["capacity"]["ephemeral-storage"] == "2097152Ki"
    assert status["capacity"]["pods"] == "110"
    assert status["nodeInfo"]["kubeletVersion"] == "v1.2.3"
    assert not [*NodeStrategy().validate_status(first, first)]
