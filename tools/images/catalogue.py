"""The images and their layers, as values. making.py builds them."""

import dataclasses
from typing import Final

from images.archives import Config
from images.checkout import HUB_LOCK, IMAGE_LOCK, Checkout

SUITE: Final = "bookworm"
PYTHON: Final = "3.11"
"""The Python version of that suite."""

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WINDLASS: Final = "/opt/windlass"
TENSORFLOW: Final = "/opt/tensorflow"
HUB: Final = "/opt/hub"
JUPYTERHUB: Final = "jupyterhub==6.*"
"""The hub and its users' servers have the same version."""
HUB_REQUIREMENTS: Final = (JUPYTERHUB, "jupyterhub-kubespawner==7.*")


@dataclasses.dataclass(frozen=True)
class DebianRoot:
    """A small Debian with these packages."""

    name: str
    packages: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class FileOfDebian:
    """One file of the Debian root, and nothing else."""

    name: str
    path: str


@dataclasses.dataclass(frozen=True)
class PythonPackages:
    """A virtual environment of the Debian root's Python with these packages and their dependencies."""

    name: str
    folder: str
    requirements: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Folders of the packages that no program reads."""
    lock: str = ""
    """Versions with hashes, in the format of pip. If empty, pip chooses the versions."""


@dataclasses.dataclass(frozen=True)
class WindlassItself:
    """Windlass without dependencies, in the virtual environment of another layer, and get_ips.sh at the path of the old
    launcher."""

    name: str
    folder: str
    checkout: Checkout


@dataclasses.dataclass(frozen=True)
class Link:
    """A symbolic link, and nothing else."""

    name: str
    path: str
    target: str


Layer = DebianRoot | FileOfDebian | PythonPackages | WindlassItself | Link


@dataclasses.dataclass(frozen=True)
class Image:
    tags: tuple[str, ...]
    layers: tuple[Layer, ...]
    config: Config

    @property
    def name(self) -> str:
        return self.tags[0]


NFS_PACKAGES: Final = ("nfs-ganesha", "nfs-ganesha-vfs", "libnfs-utils")
"""An NFS server in user space and a client that mounts nothing."""

DEBIAN: Final = DebianRoot("debian", ("python3", "ca-certificates", "libstdc++6", "busybox-static"))
DEBIAN_WITH_OPENMPI: Final = DebianRoot(
    "debian-openmpi", ("python3", "openmpi-bin", "openssh-client", "openssh-server")
)

PAUSE: Final = Image(
    ("windlass/pause:1",),
    (FileOfDebian("busybox", "usr/bin/busybox"),),
    Config((("PATH", "/usr/bin"),), entry_point=("/usr/bin/busybox", "sleep", "2147483647")),
)
TEST: Final = Image(("windlass/test:1",), (DEBIAN,), Config((("PATH", PATH),), command=("bash",)))
OPENMPI: Final = Image(
    ("windlass/openmpi:1",), (DEBIAN_WITH_OPENMPI,), Config((("PATH", PATH),), command=("bash",))
)
"""The image of examples/pi-mpi."""


def with_tensorflow(checkout: Checkout) -> Image:
    """The image of the examples' tasks and of notebook servers, also those of a hub's users."""
    return Image(
        ("windlass/tensorflow:1",),
        (
            DEBIAN,
            PythonPackages(
                "tensorflow",
                TENSORFLOW,
                (
                    "tensorflow==2.21.*",
                    "tensorboard==2.21.*",
                    "scikit-learn",
                    "jupyterlab==4.*",
                    JUPYTERHUB,
                    *checkout.dependencies,
                ),
                ("tensorflow/include",),
            ),
            WindlassItself("windlass-beside-tensorflow", TENSORFLOW, checkout),
        ),
        Config((("PATH", f"{TENSORFLOW}/bin:{PATH}"), ("PYTHONUNBUFFERED", "1")), command=("python3",)),
    )


def controller(checkout: Checkout) -> Image:
    """The image of the Dockerfile, on another Python. Its second name is unique for each state of the checkout."""
    return Image(
        (f"windlass:{checkout.version}", f"windlass:{checkout.digest}"),
        (
            DEBIAN,
            PythonPackages("dependencies", WINDLASS, checkout.dependencies, lock=checkout.text(IMAGE_LOCK)),
            WindlassItself("windlass", WINDLASS, checkout),
        ),
        Config(
            (
                ("PATH", f"{WINDLASS}/bin:{PATH}"),
                ("PYTHONDONTWRITEBYTECODE", "1"),
                ("PYTHONUNBUFFERED", "1"),
            ),
            entry_point=("windlass",),
            command=("barrier",),
            user="65532:65532",
            folder="/mnt/frameworkbarrier",
            ports=("8080/tcp",),
        ),
    )


def nfs(checkout: Checkout) -> Image:
    """The NFS server of a job, as in docker/nfs/Dockerfile."""
    return Image(
        (f"windlass-nfs:{checkout.version}",),
        (
            DebianRoot("debian-nfs", NFS_PACKAGES),
            # The server looks up disks of folders in it. Docker creates it, other runtimes do not.
            Link("mtab", "etc/mtab", "/proc/self/mounts"),
        ),
        Config((("PATH", PATH),), command=("ganesha.nfsd", "-F", "-L", "STDOUT"), ports=("2049/tcp",)),
    )


def hub(checkout: Checkout) -> Image:
    """The JupyterHub of a job, as in docker/hub/Dockerfile, on another Python."""
    return Image(
        (f"windlass-hub:{checkout.version}",),
        (
            DEBIAN,
            PythonPackages("hub", HUB, HUB_REQUIREMENTS, lock=checkout.text(HUB_LOCK)),
        ),
        Config(
            (("PATH", f"{HUB}/bin:{PATH}"), ("PYTHONUNBUFFERED", "1")),
            command=("jupyterhub",),
            user="65532:65532",
            ports=("8000/tcp",),
        ),
    )


def images(checkout: Checkout) -> dict[str, Image]:
    """Return all images by name, the quickest to build first."""
    quick = (PAUSE, TEST, OPENMPI)
    all_images = (*quick, controller(checkout), nfs(checkout), hub(checkout), with_tensorflow(checkout))
    return {image.name: image for image in all_images}
