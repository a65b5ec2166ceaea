"""The GPUs that pods may use: those of this machine, restricted by the variables of the daemon, or simulated ones."""

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from windlass.localcluster.sandbox import kernel
from windlass.localcluster.sandbox.gpus.amd import AmdGpus
from windlass.localcluster.sandbox.gpus.devices import Device, DeviceUsage, Driver, DriverError
from windlass.localcluster.sandbox.gpus.nvidia_smi import NvidiaSmi
from windlass.localcluster.sandbox.gpus.nvml import Nvml
from windlass.localcluster.scheduler.gpus import Gpu

logger = logging.getLogger(__name__)

CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
HIP_VISIBLE_DEVICES = "HIP_VISIBLE_DEVICES"
_NVIDIA_VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
_DEVICE_ORDER = "CUDA_DEVICE_ORDER"
_MIG_MINORS = "proc/driver/nvidia-caps/mig-minors"
_DEVICE_FILE = re.compile(r"nvidia\d+")
_UUID_PREFIXES = ("GPU-", "MIG-")
_NO_GPU = {
    # CUDA hides all GPUs if the variable is empty, HIP only for an invalid number.
    CUDA_VISIBLE_DEVICES: "",
    _NVIDIA_VISIBLE_DEVICES: "void",
    HIP_VISIBLE_DEVICES: "-1",
}


class Inventory(msgspec.Struct, frozen=True):
    """The GPUs that pods may use, and the device files of all GPUs."""

    devices: tuple[Device, ...] = ()
    files: tuple[str, ...] = ()
    """Paths below /dev that only the users of a GPU may see."""
    has_nvidia: bool = False
    """Whether the machine has NVIDIA GPUs, even if pods may not use them."""
    has_amd: bool = False

    @property
    def assignable(self) -> tuple[Gpu, ...]:
        """The GPUs as the scheduler sees them."""
        return tuple(Gpu(device.id, device.resource) for device in self.devices)

    def device(self, id_: str) -> Device | None:
        return next((device for device in self.devices if device.id == id_), None)

    def hidden_files(self, assigned: Iterable[Gpu]) -> tuple[str, ...]:
        """Return the device files that a container with these GPUs may not see."""
        own = {
            file for gpu in assigned if (device := self.device(gpu.id)) is not None for file in device.files
        }
        return tuple(f"/dev/{file}" for file in self.files if file not in own)

    def variables(self, assigned: Sequence[Gpu], own: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that make only these GPUs visible to a container.

        `own` are the variables of the container: a CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES in them selects from
        the assigned GPUs, counted from 0.
        """
        devices = [device for gpu in assigned if (device := self.device(gpu.id)) is not None]
        nvidia = [device.id for device in devices if not device.is_amd]
        amd = [str(device.index) for device in devices if device.is_amd]
        found: dict[str, str] = {}
        if self.has_nvidia:
            visible = ",".join(_selected(nvidia, own.get(CUDA_VISIBLE_DEVICES)))
            found[CUDA_VISIBLE_DEVICES] = visible
            found[_NVIDIA_VISIBLE_DEVICES] = visible or _NO_GPU[_NVIDIA_VISIBLE_DEVICES]
        if nvidia:
            # CUDA's default order differs from the order in which the machine numbers its GPUs.
            found[_DEVICE_ORDER] = "PCI_BUS_ID"
        if self.has_amd:
            visible = ",".join(_selected(amd, own.get(HIP_VISIBLE_DEVICES)))
            found[HIP_VISIBLE_DEVICES] = visible or _NO_GPU[HIP_VISIBLE_DEVICES]
        return found


def _selected(share: Sequence[str], visible_devices: str | None) -> Sequence[str]:
    """Return the part of the share that the variable selects. Like CUDA, ignore everything after an invalid entry."""
    if visible_devices is None:
        return share
    found: list[str] = []
    for entry in map(str.strip, visible_devices.split(",")):
        is_number = entry.isascii() and entry.isdecimal() and int(entry) < len(share)
        if not is_number and (entry not in share or not entry.startswith(_UUID_PREFIXES)):
            break
        found.append(share[int(entry)] if is_number else entry)
    return found


class MachineGpus:
    """The GPUs of a machine and their current usage. `simulated` GPUs replace those of the machine."""

    def __init__(
        self, root: Path = Path("/"), environment: Mapping[str, str] | None = None, *, simulated: int = 0
    ) -> None:
        variables = os.environ if environment is None else environment
        self._drivers = () if simulated else tuple(_drivers(root, variables))
        found = [device for driver in self._drivers for device in driver.devices()]
        files = _device_files(root)
        if simulated:
            usable = _simulated(simulated)
        else:
            unknown = [] if any(not device.is_amd for device in found) else _numbered(files)
            found += unknown
            usable = tuple(_usable(found, variables))
        all_files = dict.fromkeys([*files, *(file for device in found for file in device.files)])
        # Without an inventory, it is not known to which GPU a file belongs.
        has_unknown = any(not device.files and not device.is_amd for device in usable) and not simulated
        self.inventory = Inventory(
            devices=usable,
            files=() if has_unknown else tuple(all_files),
            has_nvidia=bool(files) or any(not device.is_amd for device in (*found, *usable)),
            has_amd=any(device.is_amd for device in found),
        )

    @property
    def has_usage(self) -> bool:
        return bool(self._drivers and self.inventory.devices)

    def usage(self) -> dict[str, DeviceUsage]:
        """Return the usage of devices by ID. It blocks."""
        found: dict[str, DeviceUsage] = {}
        for driver in self._drivers:
            try:
                found |= driver.usage()
            except DriverError as error:
                logger.warning("cannot read the usage of GPUs: %s", error)
        return found


def _drivers(root: Path, environment: Mapping[str, str]) -> Iterator[Driver]:
    """Yield the drivers that respond and have devices."""
    mig_minors = kernel.read_text(root / _MIG_MINORS)
    nvidia: tuple[Callable[[], Driver], ...] = (
        lambda: Nvml(mig_minors),
        lambda: NvidiaSmi(environment.get("PATH"), mig_minors),
    )
    for create in nvidia:
        try:
            driver = create()
            if driver.devices():
                yield driver
            break
        except DriverError as error:
            logger.debug("no NVIDIA GPUs: %s", error)
    amd = AmdGpus(root)
    if amd.devices():
        yield amd


def _simulated(count: int) -> tuple[Device, ...]:
    return tuple(Device(id=f"GPU-fake-{index}", index=index, name="simulated GPU") for index in range(count))


def _device_files(root: Path) -> list[str]:
    """Return the device files of NVIDIA GPUs, in the order of their numbers."""
    try:
        names = [entry.name for entry in (root / "dev").iterdir() if _DEVICE_FILE.fullmatch(entry.name)]
    except OSError:
        return []
    return sorted(names, key=lambda name: int(name.removeprefix("nvidia")))


def _numbered(files: Sequence[str]) -> list[Device]:
    """Return GPUs of which only the device files are known."""
    return [Device(id=str(index), index=index, files=(file,)) for index, file in enumerate(files)]


def _usable(devices: Sequence[Device], environment: Mapping[str, str]) -> Iterator[Device]:
    """Yield the devices that the daemon itself may use, in the order of its variables."""
    for is_amd, variable in ((False, CUDA_VISIBLE_DEVICES), (True, HIP_VISIBLE_DEVICES)):
        own = [device for device in devices if device.is_amd == is_amd]
        chosen = environment.get(variable)
        if chosen is None or not own:
            yield from own
        else:
            yield from dict.fromkeys(_chosen(own, chosen.split(",")))


def _chosen(devices: Sequence[Device], entries: Iterable[str]) -> Iterator[Device]:
    """Yield the devices that the entries select. Like CUDA, stop at the first invalid entry."""
    for entry in map(str.strip, entries):
        found = [device for device in devices if _is_selected(device, entry)]
        has_no_uuids = all(device.id == str(device.index) for device in devices)
        if not found and has_no_uuids and entry.startswith(_UUID_PREFIXES):
            found = [Device(id=entry)]
        if not found:
            return
        yield from found


def _is_selected(device: Device, entry: str) -> bool:
    """Return whether the entry is the number of the device, or the beginning of its UUID."""
    if entry.isascii() and entry.isdecimal():
        return device.index == int(entry)
    return entry.startswith(_UUID_PREFIXES) and device.id.startswith(entry)
