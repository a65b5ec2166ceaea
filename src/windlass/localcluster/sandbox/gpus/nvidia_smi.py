"""NVIDIA GPUs through the program nvidia-smi, for machines on which NVML cannot be loaded."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from windlass.localcluster.sandbox.gpus import mig
from windlass.localcluster.sandbox.gpus.devices import Device, DeviceUsage, DriverError, GpuProcess

PROGRAM = "nvidia-smi"
_SECONDS = 30.0
_MEBIBYTE = 1024**2
_INSTANCE = re.compile(r"^\s+(MIG \S+)\s+Device\s+(\d+): \(UUID: (\S+)\)")
_GPU = re.compile(r"^GPU \d+: .*\(UUID: (\S+)\)")

_Instances = Mapping[tuple[str, int], tuple[str, str]]


class NvidiaSmi:
    def __init__(self, path: str | None = None, mig_minors: str = "") -> None:
        """Raise DriverError if the program is missing. `path` is the value of PATH."""
        program = shutil.which(PROGRAM, path=path)
        if program is None:
            raise DriverError(f"{PROGRAM} is not installed")
        self._program = program
        self._access_numbers = mig.access_numbers(mig_minors)

    def devices(self) -> tuple[Device, ...]:
        return tuple(device for device, _ in self._all())

    def usage(self) -> Mapping[str, DeviceUsage]:
        return {device.id: usage for device, usage in self._all()}

    def _all(self) -> list[tuple[Device, DeviceUsage]]:
        try:
            report = ElementTree.fromstring(self._run("-q", "-x"))  # noqa: S314 — from the driver's own program
        except ElementTree.ParseError as error:
            raise DriverError(f"{PROGRAM} -q -x: {error}") from error
        has_instances = report.find("gpu/mig_devices/mig_device") is not None
        # The XML does not contain the profiles and UUIDs of MIG instances.
        instances = listed_instances(self._run("-L")) if has_instances else {}
        found: list[tuple[Device, DeviceUsage]] = []
        for index, gpu in enumerate(report.iter("gpu")):
            found += _gpu_devices(gpu, index, instances, self._access_numbers)
        return found

    def _run(self, *options: str) -> str:
        try:
            done = subprocess.run(
                [self._program, *options], capture_output=True, timeout=_SECONDS, check=False, text=True
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DriverError(f"{PROGRAM}: {error}") from error
        if done.returncode != 0:
            raise DriverError(f"{PROGRAM} exited with code {done.returncode}: {done.stdout.strip()}")
        return done.stdout


def listed_instances(text: str) -> dict[tuple[str, int], tuple[str, str]]:
    """Return profile and UUID of each MIG instance by the UUID of its GPU and its number, from `nvidia-smi -L`."""
    found, gpu = {}, ""
    for line in text.splitlines():
        if named := _GPU.match(line):
            gpu = named[1]
        elif instance := _INSTANCE.match(line):
            found[gpu, int(instance[2])] = (instance[1], instance[3])
    return found


def _gpu_devices(
    gpu: ElementTree.Element, index: int, instances: _Instances, access_numbers: Mapping[str, int]
) -> Iterator[tuple[Device, DeviceUsage]]:
    """Yield a GPU or, in MIG mode, its instances."""
    uuid, minor = _text(gpu, "uuid"), _number(gpu, "minor_number")
    minor = index if minor is None else minor
    name = _text(gpu, "product_name")
    if _text(gpu, "mig_mode/current_mig") != "Enabled":
        device = Device(
            id=uuid,
            index=index,
            name=name,
            files=(f"nvidia{minor}",),
            memory_bytes=_memory(gpu, "total") or 0,
        )
        utilization = _number(gpu, "utilization/gpu_util")
        fraction = None if utilization is None else utilization / 100
        yield device, DeviceUsage(fraction, _memory(gpu, "used"), tuple(_processes(gpu)))
        return
    for each in gpu.iter("mig_device"):
        gpu_instance = _number(each, "gpu_instance_id") or 0
        profile, instance_uuid = instances.get((uuid, _number(each, "index") or 0), ("", ""))
        if instance_uuid:
            device = Device(
                id=instance_uuid,
                resource=mig.resource(profile),
                index=index,
                name=f"{name} {profile}",
                files=mig.files(
                    access_numbers, minor, gpu_instance, _number(each, "compute_instance_id") or 0
                ),
                memory_bytes=_memory(each, "total") or 0,
            )
            yield device, DeviceUsage(None, _memory(each, "used"), tuple(_processes(gpu, gpu_instance)))


def _processes(gpu: ElementTree.Element, gpu_instance: int | None = None) -> Iterator[GpuProcess]:
    """Yield the processes that compute, without those that only draw."""
    for process in gpu.iter("process_info"):
        pid, used = _number(process, "pid"), _number(process, "used_memory")
        is_in_instance = _number(process, "gpu_instance_id") == gpu_instance
        if pid is not None and "C" in _text(process, "type") and is_in_instance:
            yield GpuProcess(pid, None if used is None else used * _MEBIBYTE)


def _memory(element: ElementTree.Element, which: str) -> int | None:
    mebibytes = _number(element, f"fb_memory_usage/{which}")
    return None if mebibytes is None else mebibytes * _MEBIBYTE


def _number(element: ElementTree.Element, path: str) -> int | None:
    """Return the number of a text such as `528 MiB`; None for `N/A`."""
    number = _text(element, path).partition(" ")[0]
    return int(number) if number.isdecimal() else None


def _text(element: ElementTree.Element, path: str) -> str:
    return (element.findtext(path) or "").strip()
