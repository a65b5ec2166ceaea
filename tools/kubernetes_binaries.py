"""Provide the programs of a real Kubernetes, in a cache outside the checkout.

    python tools/kubernetes_binaries.py     print the folder that holds them; progress goes to stderr

The current release is compiled from the Go module proxy. `KUBERNETES=1.20` selects the oldest supported release
instead, which is built from Debian's source package (kubernetes_oldest.py). The first call takes about ten minutes,
later ones only look at the folder. If KUBEBUILDER_ASSETS names a folder with etcd and kube-apiserver, that folder is
used and nothing is built. kubernetes_api.py and kubernetes_cluster.py start the programs.
"""

import os
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import go_builds  # next to this file
import kubernetes_oldest  # next to this file
import programs  # next to this file
import workshops  # next to this file
from go_builds import Go, GoBuild
from workshops import WorkshopError

VERSION: Final = "1.37.1"
"""The newest stable release that the Go module proxy has. The embedded API server is compared with it."""

ETCD_VERSION: Final = "3.6.16"
RECIPE: Final = 1
"""Part of the cache key. Raise it when the same version is built in another way."""

CHOICE: Final = "KUBERNETES"
OLDEST: Final = "1.20"

COMPONENTS: Final = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)
PROGRAMS: Final = ("etcd", *COMPONENTS)
ASSETS_NEEDED: Final = ("etcd", "kube-apiserver")

OTHERWISE: Final = (
    "Set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver, "
    "or KUBECONFIG to the file of a running cluster."
)


class BinariesError(Exception):
    """The programs are not available. The message says why, and what to do."""


def ensure(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder that holds the programs, after building those that are missing."""
    if assets := environment.get("KUBEBUILDER_ASSETS"):
        return _assets(Path(assets))
    try:
        kept = workshops.cache_root(environment) / cache_key(platform.machine(), environment)
        if is_oldest(environment):
            return _oldest(kept)
        return go_builds.ensure(kept, f"Kubernetes {VERSION}", (_kubernetes(), _etcd()))
    except WorkshopError as error:
        raise BinariesError(f"cannot build Kubernetes: {error} {OTHERWISE}") from error


def _oldest(kept: Path) -> Path:
    what = f"Kubernetes {kubernetes_oldest.VERSION}"
    folder = kept / "bin"
    workshops.ensure(
        kept,
        lambda: go_builds.are_programs(folder, kubernetes_oldest.PROGRAMS),
        what,
        kubernetes_oldest.build,
    )
    return folder


def is_oldest(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether KUBERNETES selects the oldest supported release; absent or empty selects the current one."""
    choice = environment.get(CHOICE, "")
    current = VERSION.rpartition(".")[0]
    if choice not in ("", OLDEST, current):
        raise BinariesError(
            f"{CHOICE}={choice} is not a release that is built here. "
            f"Use {current} (the default) or {OLDEST}, or set KUBEBUILDER_ASSETS or KUBECONFIG."
        )
    return choice == OLDEST


def kubectls(folder: Path) -> tuple[Path, ...]:
    """Return every kubectl in the folder, oldest first."""
    names = (*kubernetes_oldest.KUBECTLS, "kubectl")
    return tuple(folder / name for name in names if go_builds.is_program(folder / name))


def minor_of(version: str) -> int:
    """Return 37 for v1.37.1."""
    found = re.match(r"v?\d+\.(\d+)", version)
    if found is None:
        raise ValueError(f"{version!r} is not a version of Kubernetes")
    return int(found[1])


def cache_key(machine: str, environment: Mapping[str, str] = os.environ) -> str:
    version, recipe = (
        (kubernetes_oldest.VERSION, kubernetes_oldest.RECIPE) if is_oldest(environment) else (VERSION, RECIPE)
    )
    return f"v{version}-{recipe}-{workshops.architecture(machine)}"


def _assets(folder: Path) -> Path:
    missing = [name for name in ASSETS_NEEDED if not go_builds.is_program(folder / name)]
    if missing:
        raise BinariesError(
            f"KUBEBUILDER_ASSETS={folder}: the folder has no program {' and no '.join(missing)}. "
            f"Name a folder with {' and '.join(ASSETS_NEEDED)}, or unset it to build them."
        )
    return folder.absolute()


# The Go modules


def _kubernetes() -> GoBuild:
    packages = {name: f"k8s.io/kubernetes/cmd/{name}" for name in COMPONENTS}
    return GoBuild("kubernetes", packages, _kubernetes_files, link_flags(VERSION))


def _kubernetes_files(go: Go) -> dict[str, str]:
    published = go.module_files("k8s.io/kubernetes", f"v{VERSION}")
    return {
        "go.mod": kubernetes_module((published / "go.mod").read_text(), VERSION),
        "go.sum": (published / "go.sum").read_text(),
    }


def kubernetes_module(published: str, version: str) -> str:
    """Return a go.mod that builds the published module.

    Its own go.mod replaces the staging modules with local folders that the published archive lacks. This one replaces
    them with their published versions.
    """
    language = re.search(r"^go \S+$", published, re.MULTILINE)
    settings = re.search(r"^godebug \S+$", published, re.MULTILINE)
    staging = re.findall(r"^\s*(k8s\.io/\S+) => \./staging/", published, re.MULTILINE)
    if language is None or not staging:
        raise WorkshopError(
            "the go.mod of k8s.io/kubernetes has no staging modules: update kubernetes_module()."
        )
    lines = [
        "module windlass.dev/kubernetes-build",
        language[0],
        settings[0] if settings else "",
        f"require k8s.io/kubernetes v{version}",
        *(f"replace {name} => {name} v0{version.removeprefix('1')}" for name in staging),
    ]
    return "\n".join(lines) + "\n"


def link_flags(version: str) -> str:
    """Return linker flags that set the version: unstamped programs call themselves v0.0.0-master."""
    major, minor, _ = version.split(".")
    facts = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "archive"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    stamps = [f"-X {package}.{name}={value}" for package in packages for name, value in facts.items()]
    return " ".join(["-s -w", *stamps])


def _etcd() -> GoBuild:
    module = "go.etcd.io/etcd/server/v3"
    text = f"module windlass.dev/etcd-build\ngo 1.24\nrequire {module} v{ETCD_VERSION}\n"
    return GoBuild("etcd", {"etcd": module}, lambda _: {"go.mod": text})


def main() -> int:
    return programs.exit_code(lambda: print(ensure()), BinariesError)


if __name__ == "__main__":
    sys.exit(main())
