"""Which of a pod's GPUs each of its containers sees."""

import msgspec
import pytest

from windlass.localcluster.kubelet.containers import environment
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.gpus import Inventory
from windlass.localcluster.sandbox.gpus.devices import Device
from windlass.model.base import Json

MIG = "nvidia.com/mig-1g.10gb"


def _container(name: str, gpus: int = 0, resource: str = "nvidia.com/gpu", **more: str) -> Json:
    amounts = {resource: str(gpus)} if gpus else {}
    return {"name": name, "resources": {"limits": amounts, "requests": amounts}, **more}


def _pod(assigned: str, *containers: Json, init_containers: tuple[Json, ...] = ()) -> Json:
    return {
        "metadata": {"annotations": {"windlass.dev/gpus": assigned}},
        "spec": {"initContainers": list(init_containers), "containers": list(containers)},
    }


POD = _pod(
    "GPU-1,GPU-4,GPU-5,GPU-6",
    *(_container("first", 1), _container("none"), _container("second", 2)),
    init_containers=(
        _container("fetch", 4),
        _container("sidecar", 1, restartPolicy="Always"),
        _container("warm-up", 2),
    ),
)
EIGHT = Inventory(
    devices=tuple(Device(id=f"GPU-{index}", index=index, files=(f"nvidia{index}",)) for index in range(8)),
    files=tuple(f"nvidia{index}" for index in range(8)),
    has_nvidia=True,
)


def _of(pod: Json, name: str) -> Json:
    every = (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
    return next(container for container in every if container["name"] == name)


def variables(pod: Json, name: str, inventory: Inventory, **own: str) -> dict[str, str]:
    container = _of(pod, name)
    assigned = environment.assigned_gpus(pod, container)
    return environment.gpu_environment(container, own, assigned, inventory)


def test_other_containers_are_not_read_for_a_container_without_gpus() -> None:
    """Otherwise, the time to start a pod grows with the square of its number of containers."""
    unread: Json = {"metadata": {}, "spec": None}
    assert environment.assigned_gpus(unread, _container("none")) == ()


@pytest.mark.parametrize(
    ("name", "visible"),
    [
        ("fetch", "GPU-1,GPU-4,GPU-5,GPU-6"),
        ("sidecar", "GPU-1"),
        ("warm-up", "GPU-4,GPU-5"),
        ("first", "GPU-4"),
        ("second", "GPU-5,GPU-6"),
    ],
)
def test_containers_get_disjoint_gpus_of_their_pod(name: str, visible: str) -> None:
    assert variables(POD, name, EIGHT) == {
        "CUDA_VISIBLE_DEVICES": visible,
        "NVIDIA_VISIBLE_DEVICES": visible,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


NO_NVIDIA = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}


@pytest.mark.parametrize(
    ("inventory", "expected"),
    [
        (EIGHT, NO_NVIDIA),
        (Inventory(), {}),
        # The daemon may use none, e.g. because its own CUDA_VISIBLE_DEVICES is empty.
        (Inventory(has_nvidia=True), NO_NVIDIA),
        (Inventory(has_amd=True), {"HIP_VISIBLE_DEVICES": "-1"}),
    ],
)
def test_container_without_request_sees_no_gpu(inventory: Inventory, expected: dict[str, str]) -> None:
    assert variables(POD, "none", inventory) == expected


@pytest.mark.parametrize(
    ("written", "visible"),
    [
        *[("0", "GPU-5"), ("1,0", "GPU-6,GPU-5"), ("", ""), ("-1", ""), ("0,7,1", "GPU-5"), ("GPU-1", "")],
        *[(" 1 ", "GPU-6"), ("GPU-6", "GPU-6"), ("GPU-6,GPU-1", "GPU-6")],
    ],
)
def test_container_selects_from_its_own_gpus(written: str, visible: str) -> None:
    found = variables(POD, "second", EIGHT, CUDA_VISIBLE_DEVICES=written)
    assert found["CUDA_VISIBLE_DEVICES"] == visible
    assert found["NVIDIA_VISIBLE_DEVICES"] == visible or "void"


@pytest.mark.parametrize("annotations", [{}, {"windlass.dev/gpus": "0"}, {"windlass.dev/gpus": "mine"}])
def test_missing_gpu_annotation_is_rejected(annotations: dict[str, str]) -> None:
    pod = {**POD, "metadata": {"annotations": annotations}}
    with pytest.raises(
        SetupError, match=r"the pod has too few GPUs assigned in the annotation windlass\.dev/gpus"
    ) as told:
        variables(pod, "second", EIGHT)
    assert told.value.reason == "CreateContainerError"


def test_gpu_that_the_machine_has_lost_is_rejected() -> None:
    fewer = msgspec.structs.replace(EIGHT, devices=EIGHT.devices[:6])
    with pytest.raises(SetupError, match='container "second" cannot use GPU-6, which is assigned to its pod'):
        variables(POD, "second", fewer)


def test_amd_gpus_are_selected_by_number() -> None:
    """HIP does not know the UUIDs."""
    amd = Inventory(
        devices=tuple(Device(id=f"GPU-{index}", index=index, resource="amd.com/gpu") for index in (3, 5)),
        has_amd=True,
    )
    pod = _pod("amd.com/gpu:GPU-5,amd.com/gpu:GPU-3", _container("main", 2, "amd.com/gpu"))
    assert variables(pod, "main", amd) == {"HIP_VISIBLE_DEVICES": "5,3"}
    assert variables(pod, "main", amd, HIP_VISIBLE_DEVICES="1") == {"HIP_VISIBLE_DEVICES": "3"}


def test_mig_instances_and_shared_gpus_are_selected_by_uuid() -> None:
    inventory = Inventory(devices=(Device(id="GPU-a"), Device(id="MIG-b", resource=MIG)), has_nvidia=True)
    pod = _pod(
        f"{MIG}:MIG-b,nvidia.com/gpu.shared:GPU-a",
        _container("instance", 1, MIG),
        _container("sharer", 1, "nvidia.com/gpu.shared"),
    )
    assert variables(pod, "instance", inventory)["CUDA_VISIBLE_DEVICES"] == "MIG-b"
    assert variables(pod, "sharer", inventory)["CUDA_VISIBLE_DEVICES"] == "GPU-a"


@pytest.mark.parametrize(
    ("name", "hidden"),
    [("second", {0, 1, 2, 3, 4, 7}), ("sidecar", {0, 2, 3, 4, 5, 6, 7}), ("none", set(range(8)))],
)
def test_device_files_of_other_gpus_are_hidden(name: str, hidden: set[int]) -> None:
    assigned = environment.assigned_gpus(POD, _of(POD, name))
    assert set(EIGHT.hidden_files(assigned)) == {f"/dev/nvidia{index}" for index in hidden}
