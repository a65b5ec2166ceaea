"""kubectl with a kubeconfig and a namespace; one process per command."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import msgspec
import pytest
from live.clusters import Cluster

import kubernetes_binaries
import kubernetes_oldest

SECONDS: Final = 900.0
"""Timeout of a command."""


class Kubectl(msgspec.Struct, frozen=True):
    program: Path
    kubeconfig: Path
    namespace: str

    def __call__(self, *arguments: str) -> str:
        """Run a command and return its output."""
        done = self._run(arguments)
        assert done.returncode == 0, f"{self.program.name} {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout

    def tried(self, *arguments: str) -> str:
        """Run a command and return its output; empty if it fails."""
        done = self._run(arguments)
        return done.stdout if done.returncode == 0 else ""

    def _run(self, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603
            [self.program, f"--namespace={self.namespace}", *arguments],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )


NAMES: Final = kubernetes_oldest.KUBECTLS if kubernetes_binaries.is_oldest() else ("kubectl",)
"""The programs of our own cluster."""


def named(cluster: Cluster, name: str) -> Path:
    """Return one of NAMES: ours, or the one on PATH for another cluster."""
    found = cluster.node.place.binaries / name if cluster.node else shutil.which(name)
    return Path(found) if found else pytest.skip(f"{name} is not on PATH")


def newest(cluster: Cluster, namespace: str) -> Kubectl:
    return Kubectl(named(cluster, NAMES[-1]), cluster.kubeconfig, namespace)
