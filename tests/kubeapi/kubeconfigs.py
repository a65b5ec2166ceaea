"""Kubeconfig files, and the plugins that they name."""

import base64
import json
from pathlib import Path
from typing import Any

from windlass.wire.yaml import dump

SERVER = "https://cluster.example"


def write(
    path: Path,
    *,
    name: str = "main",
    server: str = SERVER,
    user: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    current: str | None = None,
) -> str:
    """One context, and a cluster and a user of the same name."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **(context or {})}}],
        "current-context": name if current is None else current,
    }
    path.write_bytes(dump.dump(content))
    return str(path)


def data(content: bytes) -> str:
    return base64.b64encode(content).decode()


class Plugin:
    """A credential plugin: a script that says what its answer file holds, and counts how often it was run."""

    def __init__(self, folder: Path) -> None:
        self._answer = folder / "answer.json"
        self._runs = folder / "runs"
        self.path = folder / "plugin"
        self.path.write_text(f'#!/bin/sh\necho run >> "{self._runs}"\ncat "{self._answer}"\n')
        self.path.chmod(0o700)
        self.user: dict[str, Any] = {
            "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(self.path)}
        }

    def answers(self, token: str = "", **status: Any) -> None:
        credential = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {"token": token, **status} if token else status,
        }
        self._answer.write_text(json.dumps(credential))

    def runs(self) -> int:
        return len(self._runs.read_text().splitlines()) if self._runs.exists() else 0
