"""The requests of a pod (init containers, sidecars, overhead, ports), and their release."""

from typing import Any

import pytest

from windlass.localcluster.scheduler import node_resources
from windlass.localcluster.scheduler.node_resources import HostPort

EVERYWHERE = "0.0.0.0"  # noqa: S104


def container(**requests: str) -> dict[str, Any]:
    return {
        "name": "c",
        "resources": {"requests": {name.replace("_", "-"): v for name, v in requests.items()}},
    }


def sidecar(**requests: str) -> dict[str, Any]:
    return {**container(**requests), "restartPolicy": "Always"}


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [*containers], "initContainers": [*init], **spec},
    }


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        pytest.param(pod(container()), {}, id="nothing"),
        pytest.param(pod(container(cpu="0")), {}, id="zero is nothing"),
        pytest.param(pod(container(cpu="1"), container(cpu="500m")), {"cpu": 1500}, id="containers add up"),
        pytest.param(pod(container(cpu="0.0001")), {"cpu": 1}, id="rounded up"),
        pytest.param(
            pod(container(memory="1Ki", ephemeral_storage="1k")),
            {"memory": 1024, "ephemeral-storage": 1000},
            id="units",
        ),
        pytest.param(
            pod(container(cpu="1"), init=(container(cpu="3"), container(cpu="2"))),
            {"cpu": 3000},
            id="init containers run one after the other",
        ),
        pytest.param(
            pod(container(cpu="2", memory="1"), init=(container(cpu="1", memory="5"),)),
            {"cpu": 2000, "memory": 5},
            id="each resource by itself",
        ),
        pytest.param(
            pod(container(cpu="1"), init=(sidecar(cpu="2"),)), {"cpu": 3000}, id="a sidecar runs beside them"
        ),
        pytest.param(
            pod(container(cpu="1"), init=(sidecar(cpu="2"), container(cpu="3"))),
            {"cpu": 5000},
            id="an init container after a sidecar runs beside it",
        ),
        pytest.param(
            pod(container(cpu="1"), init=(container(cpu="3"), sidecar(cpu="2"))),
            {"cpu": 3000},
            id="an init container before a sidecar does not",
        ),
        pytest.param(pod(container(cpu="1"), overhead={"cpu": "250m"}), {"cpu": 1250}, id="overhead"),
        pytest.param(
            pod(container(cpu="1", memory="7"), resources={"requests": {"cpu": "4"}}),
            {"cpu": 4000, "memory": 7},
            id="what the pod as a whole asks for",
        ),
    ],
)
def test_pod_requests(asking: dict[str, Any], expected: dict[str, int]) -> None:
    assert node_resources.requests_of(asking).amounts == expected


def test_containers_without_requests_get_assumed_requests() -> None:
    requests = node_resources.requests_of(pod(container(), container(cpu="0")))
    assert requests.nonzero == {"cpu": 100, "memory": 2 * 200 * 1024**2}


def test_host_ports_of_containers_and_sidecars() -> None:
    ports = [
        {"containerPort": 1},
        {"hostPort": 80},
        {"hostPort": 53, "protocol": "UDP", "hostIP": "127.0.0.1"},
    ]
    asking = pod(
        {"name": "c", "ports": ports},
        init=({"name": "i", "ports": [{"hostPort": 81}]}, {**sidecar(), "ports": [{"hostPort": 82}]}),
    )
    assert node_resources.requests_of(asking).ports == (
        HostPort(EVERYWHERE, "TCP", 80),
        HostPort("127.0.0.1", "UDP", 53),
        HostPort(EVERYWHERE, "TCP", 82),
    )


@pytest.mark.parametrize(
    ("one", "other", "conflicts"),
    [
        ((EVERYWHERE, "TCP", 80), (EVERYWHERE, "TCP", 80), True),
        ((EVERYWHERE, "TCP", 80), ("127.0.0.1", "TCP", 80), True),
        (("127.0.0.1", "TCP", 80), ("127.0.0.1", "TCP", 80), True),
        (("127.0.0.1", "TCP", 80), ("127.0.0.2", "TCP", 80), False),
        ((EVERYWHERE, "TCP", 80), (EVERYWHERE, "UDP", 80), False),
        ((EVERYWHERE, "TCP", 80), (EVERYWHERE, "TCP", 81), False),
    ],
)
def test_port_conflicts(one: tuple[str, str, int], other: tuple[str, str, int], conflicts: bool) -> None:
    assert HostPort(*one).conflicts_with(HostPort(*other)) is conflicts
    assert HostPort(*other).conflicts_with(HostPort(*one)) is conflicts


def test_removing_a_pod_releases_all_its_requests() -> None:
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "2"}}}
    empty = node_resources.node_info_of(node)
    requests = node_resources.requests_of(pod(container(cpu="3", memory="1Gi")))
    full = empty.with_pod("default/p", requests)
    assert (full.free("cpu"), full.free("memory"), full.free_pod_slots) == (1000, -(1024**3), 1)

    again = full.without_pod("default/p")
    assert (again.free("cpu"), again.free("memory"), again.free_pod_slots) == (4000, 0, 2)
    assert not any(again.nonzero.values())
    assert empty.pods == {}
