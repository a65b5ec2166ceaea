"""The inventory through nvidia-smi, from reports in the format of the program."""

from pathlib import Path

import pytest
from simulated_gpus import NAME, SIMULATED_GPUS, write_nvidia_smi

from windlass.localcluster.sandbox.gpus import mig
from windlass.localcluster.sandbox.gpus.devices import Device, DeviceUsage, DriverError, GpuProcess
from windlass.localcluster.sandbox.gpus.nvidia_smi import NvidiaSmi

FIRST, SECOND = SIMULATED_GPUS
TOTAL = 143771 * 2**20

MIG_REPORT = """<nvidia_smi_log><gpu id="00000000:07:00.0">
<product_name>NVIDIA A100</product_name><mig_mode><current_mig>Enabled</current_mig></mig_mode>
<mig_devices>
<mig_device><index>0</index><gpu_instance_id>1</gpu_instance_id><compute_instance_id>0</compute_instance_id>
<fb_memory_usage><total>19968 MiB</total><used>100 MiB</used></fb_memory_usage></mig_device>
<mig_device><index>1</index><gpu_instance_id>11</gpu_instance_id><compute_instance_id>0</compute_instance_id>
<fb_memory_usage><total>4864 MiB</total><used>3 MiB</used></fb_memory_usage></mig_device>
</mig_devices>
<uuid>GPU-a</uuid><minor_number>3</minor_number>
<fb_memory_usage><total>40960 MiB</total><used>103 MiB</used></fb_memory_usage>
<utilization><gpu_util>N/A</gpu_util></utilization>
<processes><process_info><gpu_instance_id>11</gpu_instance_id><compute_instance_id>0</compute_instance_id>
<pid>77</pid><type>C</type><used_memory>N/A</used_memory></process_info></processes>
</gpu></nvidia_smi_log>"""
MIG_LIST = """GPU 0: NVIDIA A100 (UUID: GPU-a)
  MIG 3g.20gb     Device  0: (UUID: MIG-x)
  MIG 1g.5gb+me   Device  1: (UUID: MIG-y)
"""
MINORS = "gpu3/gi1/access 30\ngpu3/gi1/ci0/access 31\ngpu3/gi11/access 90\ngpu3/gi11/ci0/access 91\n"


def test_gpus_and_their_processes_are_read(tmp_path: Path) -> None:
    processes = write_nvidia_smi(tmp_path)
    smi = NvidiaSmi(str(tmp_path))
    assert smi.devices() == tuple(
        Device(id=uuid, index=index, name=NAME, files=(f"nvidia{index}",), memory_bytes=TOTAL)
        for index, uuid in enumerate(SIMULATED_GPUS)
    )
    processes.write_text(f"{SECOND} 4711 528\n")
    assert smi.usage() == {
        FIRST: DeviceUsage(0.0, 0),
        SECOND: DeviceUsage(0.87, 528 * 2**20, (GpuProcess(4711, 528 * 2**20),)),
    }


def test_mig_instances_replace_their_gpu(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    (tmp_path / "report.xml").write_text(MIG_REPORT)
    (tmp_path / "list.txt").write_text(MIG_LIST)
    program.write_text(
        f'#!/bin/sh\ncase "$1" in -L) cat {tmp_path}/list.txt;; *) cat {tmp_path}/report.xml;; esac\n'
    )
    program.chmod(0o755)
    smi = NvidiaSmi(f"{tmp_path}:/bin:/usr/bin", MINORS)
    devices = smi.devices()
    assert [(each.id, each.resource, each.index) for each in devices] == [
        ("MIG-x", "nvidia.com/mig-3g.20gb", 0),
        ("MIG-y", "nvidia.com/mig-1g.5gb.me", 0),
    ]
    assert devices[1].files == ("nvidia3", "nvidia-caps/nvidia-cap90", "nvidia-caps/nvidia-cap91")
    assert smi.usage() == {
        "MIG-x": DeviceUsage(None, 100 * 2**20),
        "MIG-y": DeviceUsage(None, 3 * 2**20, (GpuProcess(77, None),)),
    }


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 9", "nvidia-smi exited with code 9"),
        ("echo no XML", "nvidia-smi -q -x: syntax error"),
    ],
)
def test_failing_program_is_reported(tmp_path: Path, script: str, message: str) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with pytest.raises(DriverError, match=message):
        NvidiaSmi(str(tmp_path)).devices()


def test_missing_program_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="nvidia-smi is not installed"):
        NvidiaSmi(str(tmp_path))


def test_instance_without_known_capabilities_has_the_file_of_its_gpu() -> None:
    assert mig.files({}, 2, 1, 0) == ("nvidia2",)
