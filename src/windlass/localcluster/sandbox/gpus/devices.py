"""The types that all GPU drivers have in common."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from windlass.model.resources import AMD_GPU, NVIDIA_GPU


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU, or a MIG instance of one."""

    id: str
    """UUID or, if the driver does not tell it, the number of the GPU."""
    resource: str = NVIDIA_GPU
    index: int = 0
    """Number of the GPU in the order of its driver. A MIG instance has the number of its GPU."""
    name: str = ""
    files: tuple[str, ...] = ()
    """Paths below /dev that only the users of this device need."""
    memory_bytes: int = 0

    @property
    def is_amd(self) -> bool:
        return self.resource == AMD_GPU


class GpuProcess(msgspec.Struct, frozen=True):
    """A process that uses a device. The memory is None if the driver does not tell it."""

    pid: int
    memory_bytes: int | None = None


class DeviceUsage(msgspec.Struct, frozen=True):
    """The current usage of a device; None for what its driver does not tell."""

    utilization: float | None = None
    """Fraction of the time in which the device computed."""
    memory_bytes: int | None = None
    processes: tuple[GpuProcess, ...] = ()


class Driver(Protocol):
    """Access to the devices of one vendor. Both functions block for some milliseconds or, with a program, longer."""

    def devices(self) -> tuple[Device, ...]: ...

    def usage(self) -> Mapping[str, DeviceUsage]:
        """Return the usage of devices by ID, as far as it is known."""


class DriverError(Exception):
    """The driver does not respond."""
