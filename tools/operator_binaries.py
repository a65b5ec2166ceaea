"""Provide the operators whose jobs Windlass converts, in the cache of kubernetes_binaries.py.

    python tools/operator_binaries.py     print the folder of each operator; progress goes to stderr

They are compiled from the Go module proxy, once per version. Their definitions are read from the archives of the
modules. Only tests start them.
"""

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
class Operator:
    """A published operator. `definitions` are paths of files or folders in the archive of its module."""

    name: str
    module: str
    version: str
    package: str
    definitions: tuple[str, ...]

    def build(self) -> GoBuild:
        return GoBuild(self.name, {self.name: f"{self.module}{self.package}"}, self._files)

    def _files(self, go: Go) -> dict[str, str]:
        published = go.module_files(self.module, self.version)
        language = re.search(r"^go \S+$", (published / "go.mod").read_text(), re.MULTILINE)
        lines = [
            f"module windlass.dev/{self.name}-build",
            language[0] if language else "go 1.23",
            f"require {self.module} {self.version}",
        ]
        return {"go.mod": "\n".join(lines) + "\n", "go.sum": (published / "go.sum").read_text()}


TRAINING_OPERATOR: Final = Operator(
    "training-operator",
    "github.com/kubeflow/training-operator",
    "v1.9.4",
    "/cmd/training-operator.v1",
    ("manifests/base/crds",),
)
MPI_OPERATOR: Final = Operator(
    "mpi-operator",
    "github.com/kubeflow/mpi-operator",
    "v0.6.0",
    "/cmd/mpi-operator",
    ("manifests/base/kubeflow.org_mpijobs.yaml",),
)
JOBSET: Final = Operator(
    "jobset",
    "sigs.k8s.io/jobset",
    "v0.12.0",
    "",
    ("config/components/crd/bases", "config/components/webhook"),
)
ALL: Final = (TRAINING_OPERATOR, MPI_OPERATOR, JOBSET)


class OperatorError(Exception):
    """An operator is not available. The message says why."""


def ensure(operator: Operator, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the program, after building it if it is missing."""
    key = f"{operator.name}-{operator.version}-{RECIPE}-{workshops.architecture(platform.machine())}"
    what = f"{operator.name} {operator.version}"
    try:
        kept = workshops.cache_root(environment) / key
        return go_builds.ensure(kept, what, (operator.build(),)) / operator.name
    except WorkshopError as error:
        raise OperatorError(f"cannot build {what}: {error}") from error


def definitions(operator: Operator, environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the YAML files with the operator's definitions in the archive of its module."""
    try:
        go = go_builds.find_go(workshops.cache_root(environment), environment)
        archive = go.module_files(operator.module, operator.version)
    except WorkshopError as error:
        raise OperatorError(f"cannot read the definitions of {operator.name}: {error}") from error
    named = [archive / path for path in operator.definitions]
    return [file for path in named for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])]


def main() -> int:
    def show() -> None:
        for operator in ALL:
            print(ensure(operator))

    return programs.exit_code(show, OperatorError)


if __name__ == "__main__":
    sys.exit(main())
