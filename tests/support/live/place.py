"""A namespace of a test on a complete Kubernetes, with Frameworks whose tasks run."""

from collections.abc import Callable
from typing import TypeVar

from operated.place import Namespace

import kubernetes_binaries
from conformance.client import Json
from conformance.waiting import wait_for

T = TypeVar("T")

SECONDS = 300.0
"""Timeout. Some periods of Kubernetes are a minute."""


class Place(Namespace):
    def wait_for(self, what: str, look: Callable[[], T | None]) -> T:
        return wait_for(what, look, SECONDS)

    def pod(self, name: str) -> Json:
        return self.client.get(self.path("pods", name)).expect(200).body

    def log(self, pod: str) -> str:
        answer = self.client.get(f"{self.path('pods', pod)}/log", headers={"Accept": "*/*"})
        return answer.expect(200).raw.decode()

    def evict(self, pod: str) -> None:
        """Evict the pod like a drain."""
        group = "policy/v1beta1" if kubernetes_binaries.is_oldest() else "policy/v1"
        body = {"apiVersion": group, "kind": "Eviction", "metadata": {"name": pod}}
        self.client.post(f"{self.path('pods', pod)}/eviction", body).expect(201)

    def wait_until_empty(self) -> None:
        """Wait until no object of a Framework is left."""
        self.wait_for(
            f"nothing to be left in {self.name}", lambda: not self.pods() and not self.config_maps()
        )
