"""NVIDIA GPUs through NVML, the library of the driver."""

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from windlass.localcluster.sandbox.gpus import mig
from windlass.localcluster.sandbox.gpus.devices import Device, DeviceUsage, DriverError, GpuProcess

LIBRARY = "libnvidia-ml.so.1"
T = TypeVar("T")


class Nvml:
    """A session with NVML. It stays open, since the driver may take a second to wake up a GPU."""

    def __init__(self, mig_minors: str = "") -> None:
        """Raise DriverError without a working NVML. `mig_minors` is the text of the driver's file of that name."""
        try:
            # Cheaper than importing pynvml on the many machines that have no such library.
            ctypes.CDLL(LIBRARY)
            import pynvml
        except (OSError, ImportError) as error:
            raise DriverError(str(error)) from error
        self._nvml: Any = pynvml
        self._access_numbers = mig.access_numbers(mig_minors)
        with self._raising_driver_errors():
            pynvml.nvmlInit()

    def devices(self) -> tuple[Device, ...]:
        with self._raising_driver_errors():
            return tuple(device for device, _, _ in self._all())

    def usage(self) -> Mapping[str, DeviceUsage]:
        with self._raising_driver_errors():
            return {device.id: self._usage(handle, instance) for device, handle, instance in self._all()}

    def _all(self) -> Iterator[tuple[Device, Any, Any]]:
        """Yield every device that programs can use, its handle and, for a MIG instance, that of its GPU."""
        nvml = self._nvml
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            minor = nvml.nvmlDeviceGetMinorNumber(handle)
            if self._is_mig(handle):
                for instance in self._mig_handles(handle):
                    yield self._instance(instance, index, minor), instance, handle
            else:
                yield self._device(handle, index=index, files=(f"nvidia{minor}",)), handle, None

    def _device(self, handle: Any, **fields: Any) -> Device:
        nvml = self._nvml
        memory = self._optional(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        return Device(
            **{"id": nvml.nvmlDeviceGetUUID(handle), "name": nvml.nvmlDeviceGetName(handle), **fields},
            memory_bytes=0 if memory is None else memory.total,
        )

    def _instance(self, handle: Any, index: int, minor: int) -> Device:
        nvml = self._nvml
        numbers = (nvml.nvmlDeviceGetGpuInstanceId(handle), nvml.nvmlDeviceGetComputeInstanceId(handle))
        return self._device(
            handle,
            index=index,
            resource=mig.resource(nvml.nvmlDeviceGetName(handle)),
            files=mig.files(self._access_numbers, minor, *numbers),
        )

    def _is_mig(self, handle: Any) -> bool:
        mode = self._optional(lambda: self._nvml.nvmlDeviceGetMigMode(handle))
        return mode is not None and mode[0] == self._nvml.NVML_DEVICE_MIG_ENABLE

    def _mig_handles(self, handle: Any) -> list[Any]:
        count = self._nvml.nvmlDeviceGetMaxMigDeviceCount(handle)
        read = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex
        found = (self._optional(functools.partial(read, handle, number)) for number in range(count))
        return [instance for instance in found if instance is not None]

    def _usage(self, handle: Any, gpu: Any) -> DeviceUsage:
        """Return the usage of a device. For a MIG instance, `gpu` is its GPU, which knows the processes."""
        nvml = self._nvml
        memory = self._optional(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        rates = self._optional(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        processes = self._optional(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(gpu or handle)) or []
        if gpu is not None:
            instance = nvml.nvmlDeviceGetGpuInstanceId(handle)
            processes = [process for process in processes if process.gpuInstanceId == instance]
        return DeviceUsage(
            utilization=None if rates is None else rates.gpu / 100,
            memory_bytes=None if memory is None else memory.used,
            processes=tuple(GpuProcess(process.pid, process.usedGpuMemory) for process in processes),
        )

    def _optional(self, read: Callable[[], T]) -> T | None:
        """Return a value, or None if this GPU does not have it."""
        try:
            return read()
        except self._nvml.NVMLError:
            return None

    @contextlib.contextmanager
    def _raising_driver_errors(self) -> Iterator[None]:
        try:
            yield
        except self._nvml.NVMLError as error:
            raise DriverError(f"NVML: {error}") from error
