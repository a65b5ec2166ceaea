"""Provide programs that only tests start, in the cache of kubernetes_binaries.py: the operators whose jobs Windlass
converts, Helm and actionlint.

    python tools/go_programs.py [NAME]...     print the path of each program; progress goes to stderr

They are compiled from the Go module proxy, once per version. The definitions of operators are read from the archives
of their modules.
"""

import argparse
import dataclasses
import os
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import go_builds  # next to this file
import programs  # next to this file
import workshops  # next to this file
from go_builds import Go, GoBuild
from workshops import WorkshopError

RECIPE: Final = 1
"""Part of the cache key. Raise it when the same version is built in another way."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A published program. `definitions` are paths of files or folders in the archive of its module."""

    name: str
    module: str
    version: str
    package: str
    definitions: tuple[str, ...] = ()
    link_flags: str = "-s -w"

    def build(self) -> GoBuild:
        return GoBuild(self.name, {self.name: f"{self.module}{self.package}"}, self._files, self.link_flags)

    def _files(self, go: Go) -> dict[str, str]:
        published = go.module_files(self.module, self.version)
        language = re.search(r"^go \S+$", (published / "go.mod").read_text(), re.MULTILINE)
        lines = [
            f"module windlass.dev/{self.name}-build",
            language[0] if language else "go 1.23",
            f"require {self.module} {self.version}",
        ]
        return {"go.mod": "\n".join(lines) + "\n", "go.sum": (published / "go.sum").read_text()}


TRAINING_OPERATOR: Final = Program(
    "training-operator",
    "github.com/kubeflow/training-operator",
    "v1.9.4",
    "/cmd/training-program.v1",
    ("manifests/base/crds",),
)
MPI_OPERATOR: Final = Program(
    "mpi-operator",
    "github.com/kubeflow/mpi-operator",
    "v0.6.0",
    "/cmd/mpi-operator",
    ("manifests/base/kubeflow.org_mpijobs.yaml",),
)
JOBSET: Final = Program(
    "jobset",
    "sigs.k8s.io/jobset",
    "v0.12.0",
    "",
    ("config/components/crd/bases", "config/components/webhook"),
)
HELM: Final = Program(
    "helm",
    "helm.sh/helm/v4",
    "v4.3.1",
    "/cmd/helm",
    # Without its version, Helm assumes an old Kubernetes in `helm template`.
    link_flags="-s -w -X helm.sh/helm/v4/internal/version.version=v4.3.1",
)
ACTIONLINT: Final = Program("actionlint", "github.com/rhysd/actionlint", "v1.7.12", "/cmd/actionlint")
# The types of the Prometheus operator, and its definitions. It is not built.
PROMETHEUS_OPERATOR: Final = Program(
    "prometheus-operator",
    "github.com/prometheus-operator/prometheus-operator",
    "v0.85.0",
    "/cmd/operator",
    (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
)
ALL: Final = (TRAINING_OPERATOR, MPI_OPERATOR, JOBSET, HELM, ACTIONLINT)


class ProgramError(Exception):
    """A program is not available. The message says why."""


def ensure(program: Program, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the program, after building it if it is missing."""
    key = f"{program.name}-{program.version}-{RECIPE}-{workshops.architecture(platform.machine())}"
    what = f"{program.name} {program.version}"
    try:
        kept = workshops.cache_root(environment) / key
        return go_builds.ensure(kept, what, (program.build(),)) / program.name
    except WorkshopError as error:
        raise ProgramError(f"cannot build {what}: {error}") from error


def definitions(program: Program, environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the YAML files with an operator's definitions in the archive of its module."""
    try:
        go = go_builds.find_go(workshops.cache_root(environment), environment)
        archive = go.module_files(program.module, program.version)
    except WorkshopError as error:
        raise ProgramError(f"cannot read the definitions of {program.name}: {error}") from error
    named = [archive / path for path in program.definitions]
    return [file for path in named for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])]


def main() -> int:
    known = {program.name: program for program in ALL}
    parser = argparse.ArgumentParser(description="Build programs that tests start, and print their paths.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)} (default: all)")
    names = parser.parse_args().names or known

    def show() -> None:
        for name in names:
            print(ensure(known[name]), flush=True)

    return programs.exit_code(show, ProgramError)


if __name__ == "__main__":
    sys.exit(main())
