"""Which of a pod's GPUs each of its containers sees."""

import pytest

from windlass.localcluster.kubelet.containers import environment
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.model.base import Json


def _container(name: str, gpus: int = 0, **more: str) -> Json:
    amounts = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {"name": name, "resources": {"limits": amounts, "requests": amounts}, **more}


POD: Json = {
    "metadata": {"annotations": {"windlass.dev/gpus": "1,4,5,6"}},
    "spec": {
        "initContainers": [
            _container("fetch", 4),
            _container("sidecar", 1, restartPolicy="Always"),
            _container("warm-up", 2),
        ],
        "containers": [_container("first", 1), _container("none"), _container("second", 2)],
    },
}

EIGHT = tuple(map(str, range(8)))


def _of(pod: Json, name: str) -> Json:
    every = (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
    return next(container for container in every if container["name"] == name)


@pytest.mark.parametrize(
    ("name", "visible"),
    [
        ("fetch", "1,4,5,6"),
        ("sidecar", "1"),
        ("warm-up", "4,5"),
        ("first", "4"),
        ("second", "5,6"),
    ],
)
def test_containers_get_disjoint_gpus_of_their_pod(name: str, visible: str) -> None:
    found = environment.gpu_environment(POD, _of(POD, name), {}, EIGHT)
    assert found == {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.parametrize(("gpu_ids", "expected"), [(EIGHT, {"CUDA_VISIBLE_DEVICES": ""}), ((), {})])
def test_container_without_request_sees_no_gpu(gpu_ids: tuple[str, ...], expected: dict[str, str]) -> None:
    assert environment.gpu_environment(POD, _of(POD, "none"), {}, gpu_ids) == expected


def test_gpu_numbers_are_relative_to_visible_devices_of_the_daemon() -> None:
    """Number 1 of what it may use is not the GPU that CUDA calls 1."""
    gpu_ids = ("3", "GPU-7c6b", *EIGHT)
    found = environment.gpu_environment(POD, _of(POD, "sidecar"), {}, gpu_ids)
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-7c6b"


@pytest.mark.parametrize(
    ("written", "visible"),
    [("0", "5"), ("1,0", "6,5"), ("", ""), ("-1", ""), ("0,7,1", "5"), ("GPU-1", ""), (" 1 ", "6")],
)
def test_container_selects_from_its_own_gpus(written: str, visible: str) -> None:
    found = environment.gpu_environment(POD, _of(POD, "second"), {"CUDA_VISIBLE_DEVICES": written}, EIGHT)
    assert found["CUDA_VISIBLE_DEVICES"] == visible


@pytest.mark.parametrize("annotations", [{}, {"windlass.dev/gpus": "0"}, {"windlass.dev/gpus": "mine"}])
def test_missing_gpu_annotation_is_rejected(annotations: dict[str, str]) -> None:
    pod = {**POD, "metadata": {"annotations": annotations}}
    with pytest.raises(
        SetupError, match=r"the pod has too few GPUs assigned in the annotation windlass\.dev/gpus"
    ) as told:
        environment.gpu_environment(pod, _of(pod, "second"), {}, EIGHT)
    assert told.value.reason == "CreateContainerError"
