"""Namespaces for kubectl, which are not deleted before the servers end."""

import uuid
from pathlib import Path

from tests.clients.kubectl.runs import Kubectl, Server


class Namespaces:
    """Creates kubectls, each in a new namespace."""

    def __init__(self, program: Path, version: str, homes: Path, discovery_cache: Path) -> None:
        self._program = program
        self._version = version
        self._homes = homes
        self._learned = discovery_cache

    def open(self, server: Server, name: str | None = None) -> Kubectl:
        namespace = name or unique()
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        server.api.post("/api/v1/namespaces", body).expect(201)
        home = self._homes / f"{server.name}-{namespace}"
        return Kubectl(self._program, self._version, server, namespace, home, self._learned / server.name)


def unique() -> str:
    return f"t-{uuid.uuid4().hex[:10]}"
