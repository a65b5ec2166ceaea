"""Jobs with companions on a cluster whose Deployments have pods that do not run, with fixtures for a conftest."""

from collections.abc import Iterator
from typing import Any

import in_process_cluster
import pytest
from in_process_cluster import ClusterNamespace, InProcessCluster
from operated import jobs
from operated.place import completion_of

from windlass import Client
from windlass.model import names
from windlass.model.base import Json

FOREVER: Json = {"metadata": {"annotations": jobs.FOREVER}}
JOB: Json = {
    "name": "digits",
    "image": "python:3.12",
    "command": "python train.py",
    "roles": {"worker": {"pod": FOREVER}},
    "volumes": {"output": {"hostPath": "/srv/output", "at": "/output"}},
}
BOARD: Json = {**JOB, "tensorboard": {}}
LAB: Json = {**JOB, "jupyter": {}}
KINDS = {
    "deployments": "/apis/apps/v1",
    "services": "/api/v1",
    "secrets": "/api/v1",
    "configmaps": "/api/v1",
    "serviceaccounts": "/api/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
}


class Submissions:
    """The submissions of a test in its namespace, and the companions there."""

    def __init__(self, place: ClusterNamespace, client: Client) -> None:
        self.place = place
        self.client = client
        self.messages: list[str] = []

    def submit(self, job: Json, **options: Any) -> str:
        """Submit a job and return the uid of its Framework."""
        self.messages.clear()
        return self.client.submit(job, on_progress=self.messages.append, preflight=False, **options).uid

    def start(self, job: Json) -> None:
        self.messages.clear()
        self.client.start_companions(job, on_progress=self.messages.append)

    def parts(self, kind: str, name: str = "") -> dict[str, Json]:
        """Return the objects of companions by name."""
        path = f"{KINDS[kind]}/namespaces/{self.place.name}/{kind}"
        listed = self.place.client.get(path).expect(200).body["items"]
        found = {each["metadata"]["name"]: each for each in listed}
        return {
            key: each
            for key, each in found.items()
            if names.COMPANION_LABEL in (each["metadata"].get("labels") or {}) and name in key
        }

    @property
    def everything(self) -> dict[str, Json]:
        return {f"{kind}/{name}": each for kind in KINDS for name, each in self.parts(kind).items()}

    @property
    def generations(self) -> dict[str, int]:
        """Return the generations, which change with the Deployments."""
        return {name: each["metadata"]["generation"] for name, each in self.parts("deployments").items()}

    def uid(self, kind: str, name: str) -> str:
        return str(self.parts(kind)[name]["metadata"]["uid"])

    def pod_of(self, deployment: str) -> str:
        """Return the uid of the only pod."""

        def look() -> str | None:
            found = [
                pod["metadata"]["uid"]
                for pod in self.place.pods().values()
                if pod["metadata"]["name"].startswith(f"{deployment}-")
            ]
            return found[0] if len(found) == 1 else None

        return self.place.wait_for(f"the pod of {deployment}", look)

    def owners(self) -> set[str]:
        """Return the owners of all parts; empty for those without owner."""
        found = set()
        for each in self.everything.values():
            owners = each["metadata"].get("ownerReferences") or ({"uid": ""},)
            found |= {str(owner["uid"]) for owner in owners}
        return found

    def finish(self) -> None:
        self.place.wait_for_running("digits", 1)
        self.place.end_pod("digits-worker-0")
        assert completion_of(self.place.wait_for_completed("digits"))["code"] == 0

    def wait_until_all_gone(self) -> None:
        self.place.wait_for("the companions to be gone", lambda: not self.everything)

    def delete_framework(self) -> None:
        """Delete the Framework directly, without Windlass."""
        self.place.delete("digits")
        self.place.wait_until_gone("digits")


@pytest.fixture(scope="session")
def busy_world() -> Iterator[InProcessCluster]:
    with in_process_cluster.opened(has_workloads=True) as opened:
        yield opened


@pytest.fixture
def submissions(busy_world: InProcessCluster) -> Iterator[Submissions]:
    place = busy_world.new_place()
    with Client(place.kubeconfig, namespace=place.name) as client:
        yield Submissions(place, client)
