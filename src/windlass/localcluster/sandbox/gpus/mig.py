"""Names and device files of MIG instances."""

import re
from collections.abc import Mapping

_PROFILE = re.compile(r"\bMIG (\S+)")
_ACCESS = re.compile(r"^(gpu\d+/gi\d+(?:/ci\d+)?)/access (\d+)$", re.MULTILINE)


def resource(name: str) -> str:
    """Return the resource of an instance by a name that contains its profile, e.g. `MIG 1g.10gb+me`."""
    found = _PROFILE.search(name)
    return f"nvidia.com/mig-{found[1].replace('+', '.').lower()}" if found else "nvidia.com/mig"


def access_numbers(text: str) -> dict[str, int]:
    """Return the numbers of capability files by instance, from /proc/driver/nvidia-caps/mig-minors."""
    return {instance: int(number) for instance, number in _ACCESS.findall(text)}


def files(
    numbers: Mapping[str, int], minor: int, gpu_instance: int, compute_instance: int
) -> tuple[str, ...]:
    """Return the device files of an instance: that of its GPU, and the capabilities of both kinds of instances."""
    part = f"gpu{minor}/gi{gpu_instance}"
    found = (numbers.get(name) for name in (part, f"{part}/ci{compute_instance}"))
    caps = (f"nvidia-caps/nvidia-cap{number}" for number in found if number is not None)
    return (f"nvidia{minor}", *caps)
