"""Provide containerd, runc and the network plugins in the cache, from Debian's packages."""

import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import workshops
from workshops import Workshop

SUITE: Final = "bookworm"
RECIPE: Final = 1
PACKAGES: Final = ("containerd", "runc", "containernetworking-plugins", "libfaketime")
PROGRAMS: Final = {
    "usr/bin/containerd": "bin",
    "usr/bin/containerd-shim-runc-v2": "bin",
    "usr/bin/ctr": "bin",
    "usr/sbin/runc": "bin",
    "usr/lib/cni/bridge": "cni",
    "usr/lib/cni/host-local": "cni",
    "usr/lib/cni/loopback": "cni",
    "usr/lib/cni/portmap": "cni",
}
FAKETIME: Final = "libfaketime.so.1"
"""Library that shows a process another time than the machine's."""


def ensure(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder with `bin` and `cni`."""
    architecture = workshops.architecture(platform.machine())
    kept = workshops.cache_root(environment) / f"container-runtime-{RECIPE}-{architecture}"
    workshops.ensure(kept, lambda: _is_complete(kept), "the container runtime", _build)
    return kept


def _is_complete(folder: Path) -> bool:
    return (folder / "lib" / FAKETIME).exists() and all(
        (folder / place / Path(path).name).exists() for path, place in PROGRAMS.items()
    )


def _build(shop: Workshop) -> Path:
    tree = workshops.unpacked(shop, SUITE, PACKAGES)
    done = shop.folder / "done"
    for path, place in PROGRAMS.items():
        (done / place).mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree / path, done / place)
    (done / "lib").mkdir()
    (library,) = tree.glob(f"usr/lib/*/faketime/{FAKETIME}")
    shutil.copy2(library, done / "lib")
    return done
