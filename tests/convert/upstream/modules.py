"""The published modules of the other systems. `go mod download` puts their archives into the Go module cache."""

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from windlass.model.base import Json


class Module(msgspec.Struct, frozen=True):
    name: str
    version: str
    crds: tuple[str, ...] = ()
    """Files of the CRDs of the kinds that are converted."""
    examples: str = ""
    """Folder of the examples."""

    @property
    def id(self) -> str:
        return f"{self.name.removeprefix('github.com/').removesuffix('/v2')}@{self.version}"

    def folder(self) -> Path:
        """Return the folder of the module. Skip the test without Go, or if it cannot be downloaded."""
        return Path(_download(f"{self.name}@{self.version}"))


TRAINING_OPERATOR = Module(
    "github.com/kubeflow/training-operator",
    "v1.9.4",
    tuple(
        f"manifests/base/crds/kubeflow.org_{kind}jobs.yaml"
        for kind in ("tf", "pytorch", "jax", "xgboost", "paddle", "mpi")
    ),
    "examples",
)
MPI_OPERATOR = Module(
    "github.com/kubeflow/mpi-operator", "v0.6.0", ("manifests/base/kubeflow.org_mpijobs.yaml",), "examples"
)
JOBSET = Module(
    "sigs.k8s.io/jobset", "v0.12.0", ("config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",)
)
JOBSET_EXAMPLES = Module("sigs.k8s.io/jobset", "v0.8.0", (), "site/static/examples")
"""The last release whose archive has the examples."""
VOLCANO = Module(
    "volcano.sh/volcano", "v1.15.0", ("config/crd/volcano/bases/batch.volcano.sh_jobs.yaml",), "example"
)
TRAINER = Module(
    "github.com/kubeflow/trainer/v2",
    "v2.3.0",
    ("manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",),
    "examples",
)
MODULES = (TRAINING_OPERATOR, MPI_OPERATOR, JOBSET, JOBSET_EXAMPLES, VOLCANO, TRAINER)


@functools.cache
def _download(module: str) -> str:
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed: it downloads the published modules")
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    done = subprocess.run(  # noqa: S603
        [go, "mod", "download", "-json", module], capture_output=True, check=False, env=environment
    )
    if done.returncode:
        pytest.skip(f"{module} cannot be downloaded: {done.stdout.decode()[:200]}")
    folder: str = json.loads(done.stdout)["Dir"]
    return folder


def documents_of(file: Path) -> Iterator[Json]:
    """Yield the mappings of a YAML file; none if it is not valid YAML, e.g. a template."""
    try:
        yield from (each for each in yaml.safe_load_all(file.read_text()) if isinstance(each, dict))
    except yaml.YAMLError:
        return
