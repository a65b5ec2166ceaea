"""AMD GPUs through the files of their kernel driver (KFD), without ROCm."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from windlass.localcluster.sandbox import kernel
from windlass.localcluster.sandbox.gpus.devices import Device, DeviceUsage, GpuProcess
from windlass.model.resources import AMD_GPU

_KFD = "sys/class/kfd/kfd"
_PROPERTY = re.compile(r"^(\w+) (\d+)$", re.MULTILINE)


class AmdGpus:
    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def devices(self) -> tuple[Device, ...]:
        return tuple(device for device, _ in self._all())

    def usage(self) -> Mapping[str, DeviceUsage]:
        return {device.id: self._usage(device, kernel_id) for device, kernel_id in self._all()}

    def _all(self) -> Iterator[tuple[Device, str]]:
        """Yield each GPU and its ID in the kernel, in the order in which HIP counts them."""
        index = 0
        nodes = (self._root / _KFD / "topology/nodes").glob("*")
        for node in sorted(
            (node for node in nodes if node.name.isdecimal()), key=lambda node: int(node.name)
        ):
            properties = {
                name: int(value) for name, value in _PROPERTY.findall(kernel.read_text(node / "properties"))
            }
            kernel_id = kernel.read_text(node / "gpu_id").strip()
            is_gpu = properties.get("simd_count", 0) > 0 and kernel_id not in ("", "0")
            if is_gpu:
                yield self._device(index, properties), kernel_id
                index += 1

    def _device(self, index: int, properties: Mapping[str, int]) -> Device:
        minor = properties.get("drm_render_minor", 0)
        # Some GPUs for desktops have no unique ID. Their place in the machine does not change.
        unique = properties.get("unique_id") or properties.get("location_id", 0)
        folder = self._drm(minor)
        return Device(
            id=f"GPU-{unique:016x}",
            resource=AMD_GPU,
            index=index,
            name=kernel.read_text(folder / "product_name").strip() or "AMD GPU",
            files=(f"dri/renderD{minor}",) if minor else (),
            memory_bytes=_number(folder / "mem_info_vram_total") or 0,
        )

    def _usage(self, device: Device, kernel_id: str) -> DeviceUsage:
        minor = device.files[0].removeprefix("dri/renderD") if device.files else ""
        folder = self._drm(int(minor or 0))
        percent = _number(folder / "gpu_busy_percent")
        users = (self._root / _KFD / "proc").glob(f"*/vram_{kernel_id}")
        processes = (GpuProcess(int(file.parent.name), _number(file)) for file in users)
        return DeviceUsage(
            None if percent is None else percent / 100,
            _number(folder / "mem_info_vram_used"),
            tuple(process for process in processes if process.memory_bytes),
        )

    def _drm(self, minor: int) -> Path:
        return self._root / f"sys/class/drm/renderD{minor}/device"


def _number(file: Path) -> int | None:
    text = kernel.read_text(file).strip()
    return int(text) if text.isdecimal() else None
