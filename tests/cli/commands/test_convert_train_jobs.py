"""Jobs of other systems that are read from a cluster, with the objects that their conversion needs."""

import pytest
import yaml
from click.testing import CliRunner
from in_process_cluster import ClusterNamespace
from tests.convert.test_trainjob import runtime, train_job

from windlass.cli.main import main
from windlass.model.base import Json

GROUP = "trainer.kubeflow.org"


def definition(kind: str, scope: str) -> Json:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "plural": plural},
            "scope": scope,
            "versions": [version],
        },
    }


@pytest.fixture
def trainer(place: ClusterNamespace) -> ClusterNamespace:
    """A namespace with a TrainJob of a runtime that does not exist yet."""
    for kind, scope in (("TrainJob", "Namespaced"), ("ClusterTrainingRuntime", "Cluster")):
        place.client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(kind, scope))
    path = f"/apis/{GROUP}/v1alpha1/namespaces/{place.name}/trainjobs"
    body = train_job(name=f"own-{place.name}")
    place.client.post(path, body).expect(201)
    return place


def test_runtime_of_a_live_train_job_is_read_too(trainer: ClusterNamespace) -> None:
    words = ["convert", "--from-cluster", "trainjob/digits", *trainer.options]
    missing = CliRunner().invoke(main, words)
    assert missing.exit_code > 0
    assert f"refers to the ClusterTrainingRuntime own-{trainer.name}" in missing.stderr

    body = runtime({"torch": {}})
    body["metadata"]["name"] = f"own-{trainer.name}"
    trainer.client.post(f"/apis/{GROUP}/v1alpha1/clustertrainingruntimes", body).expect(201)
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 0, found.output
    *_, job = yaml.safe_load_all(found.stdout)
    assert job["roles"]["node"]["env"]["PET_NNODES"] == "2"
