"""The GPUs that pods may use, from the device files and drivers of invented machines."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from simulated_gpus import SIMULATED_GPUS, write_nvidia_smi

from windlass.localcluster.kubelet.gpus import MachineGpus

DEVICES = ("nvidia0", "nvidia1", "nvidia3", "nvidiactl", "nvidia-uvm", "null")
"""Files in /dev of a machine whose driver does not tell more."""
FIRST, SECOND = SIMULATED_GPUS


def machine(root: Path, *files: str, variables: Mapping[str, str] = MappingProxyType({})) -> MachineGpus:
    (root / "dev").mkdir(parents=True, exist_ok=True)
    for name in files:
        (root / "dev" / name).touch()
    return MachineGpus(root, {"PATH": str(root / "bin"), **variables})


def ids(found: MachineGpus) -> list[str]:
    return [device.id for device in found.inventory.devices]


@pytest.mark.parametrize(
    ("files", "chosen", "expected"),
    [
        ((), None, []),
        ((), "0", []),
        (DEVICES, None, ["0", "1", "2"]),
        (DEVICES, "2,0", ["2", "0"]),
        (DEVICES, " 1 , 2", ["1", "2"]),
        (DEVICES, "", []),
        (DEVICES, "-1", []),
        (DEVICES, "0,-1,1", ["0"]),
        (DEVICES, "0,3,1", ["0"]),
        (DEVICES, "1,1", ["1"]),
        (DEVICES, "NoDevFiles", []),
        (DEVICES, "GPU-8f2c,MIG-1a", ["GPU-8f2c", "MIG-1a"]),
    ],
)
def test_gpus_from_device_files_and_visible_devices(
    tmp_path: Path, files: tuple[str, ...], chosen: str | None, expected: list[str]
) -> None:
    variables = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    found = machine(tmp_path, *files, variables=variables)
    assert ids(found) == expected
    # Even if the daemon may use none of them, they are hidden from pods.
    assert found.inventory.has_nvidia == bool(files)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (None, [FIRST, SECOND]),
        ("1", [SECOND]),
        (SECOND[:12], [SECOND]),
        (f"{SECOND},{FIRST}", [SECOND, FIRST]),
        ("GPU-unknown,0", []),
    ],
)
def test_gpus_have_uuids_from_nvidia_smi(tmp_path: Path, chosen: str | None, expected: list[str]) -> None:
    write_nvidia_smi(tmp_path / "bin")
    variables = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    found = machine(tmp_path, "nvidia0", "nvidia1", variables=variables)
    assert ids(found) == expected
    assert found.inventory.files == ("nvidia0", "nvidia1")
    assert found.has_usage == bool(expected)


def test_failing_driver_leaves_the_device_files(tmp_path: Path) -> None:
    write_nvidia_smi(tmp_path / "bin", exit_code=9)
    assert ids(machine(tmp_path, "nvidia0")) == ["0"]


def test_simulated_gpus_replace_those_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    found = MachineGpus(tmp_path, {"CUDA_VISIBLE_DEVICES": ""}, simulated=2)
    assert ids(found) == ["GPU-fake-0", "GPU-fake-1"]
    assert found.inventory.hidden_files(found.inventory.assignable) == ("/dev/nvidia0",)
    assert (found.has_usage, found.usage()) == (False, {})


KFD: Mapping[str, str] = {
    "class/kfd/kfd/topology/nodes/0/gpu_id": "0",
    "class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 16\nsimd_count 0\n",
    "class/kfd/kfd/topology/nodes/1/gpu_id": "4711",
    "class/kfd/kfd/topology/nodes/1/properties": "simd_count 304\nunique_id 43981\ndrm_render_minor 128\n",
    "class/kfd/kfd/topology/nodes/10/gpu_id": "4713",
    "class/kfd/kfd/topology/nodes/10/properties": "simd_count 304\nunique_id 3\ndrm_render_minor 130\n",
    "class/kfd/kfd/topology/nodes/2/gpu_id": "4712",
    "class/kfd/kfd/topology/nodes/2/properties": "simd_count 304\nlocation_id 768\ndrm_render_minor 129\n",
    "class/drm/renderD128/device/mem_info_vram_total": "68719476736",
    "class/drm/renderD128/device/mem_info_vram_used": "1073741824",
    "class/drm/renderD128/device/gpu_busy_percent": "37",
    "class/kfd/kfd/proc/812/vram_4711": "1048576",
    "class/kfd/kfd/proc/812/vram_4712": "0",
}
"""Files in /sys of a machine with three AMD GPUs."""


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [(None, [0, 1, 2]), ("2,0", [2, 0]), ("", []), ("-1", [])],
)
def test_amd_gpus_are_listed_in_the_order_of_hip(
    tmp_path: Path, chosen: str | None, expected: list[int]
) -> None:
    for name, text in KFD.items():
        file = tmp_path / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    variables = {} if chosen is None else {"HIP_VISIBLE_DEVICES": chosen}
    found = machine(tmp_path, variables=variables)
    names = ["GPU-000000000000abcd", "GPU-0000000000000300", "GPU-0000000000000003"]
    assert ids(found) == [names[index] for index in expected]
    assert found.inventory.files == ("dri/renderD128", "dri/renderD129", "dri/renderD130")
    assert (found.inventory.has_amd, found.inventory.has_nvidia) == (True, False)
    first = found.usage().get(names[0])
    if expected:
        assert first is not None
        assert (first.utilization, first.memory_bytes) == (0.37, 2**30)
        assert [(each.pid, each.memory_bytes) for each in first.processes] == [(812, 2**20)]
