"""A config with a TensorFlow cluster: its servers find each other by Service names and compute."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from pods import daemons, levels
from pods.place import Place
from pods.specs import IMAGE

from conformance.client import Json
from conformance.waiting import wait_for
from examples import EXAMPLES, SECONDS, needs
from windlass.cli.main import main

DRIVER = """
import json, os
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
cluster = json.loads(os.environ["CLUSTER_CONFIG"])
with tf.device("/job:ps/task:1"):
    kept = tf.get_variable("kept", [], initializer=tf.constant_initializer(40.0))
with tf.device("/job:worker/task:1"):
    computed = kept + 2
with tf.Session("grpc://" + cluster["worker"][0]) as session:
    session.run(tf.global_variables_initializer())
    print("computed", session.run(computed), kept.device, computed.device)
"""
KINDS = {
    "ConfigMap": ("/api/v1", "configmaps"),
    "Service": ("/api/v1", "services"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
}


@pytest.fixture
def place() -> Iterator[Place]:
    needs("tensorflow")
    if reason := levels.why_not("root"):
        pytest.skip(reason)
    with daemons.running(levels.level("root"), "isolated", is_ephemeral=True) as daemon:
        yield daemon.new_place()


def rendered(config: Json, folder: Path) -> list[Json]:
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    result = CliRunner().invoke(main, ["render", "--config", str(file)])
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def with_this_python(body: Json) -> Json:
    """Replacement of an image with TensorFlow."""
    for container in body["spec"]["template"]["spec"]["containers"]:
        container["command"] = [
            sys.executable if word == "python3" else word for word in container["command"]
        ]
    return body


def test_client_uses_the_cluster(place: Place, tmp_path: Path) -> None:
    config = yaml.safe_load((EXAMPLES / "tensorflow-cluster" / "config.yaml").read_text())
    cluster = config["resources"][0]
    cluster["properties"] |= {"namespace": place.namespace, "image": IMAGE}
    for body in rendered({"resources": [cluster]}, tmp_path):
        root, plural = KINDS[body["kind"]]
        sent = with_this_python(body) if body["kind"] == "StatefulSet" else body
        place.client.post(f"{root}/namespaces/{place.namespace}/{plural}", sent).expect(201)
    place.client.post(place.path("pods"), driver()).expect(201)

    def phase() -> str:
        found: str = place.client.get(place.path("pods", "driver")).expect(200).body["status"]["phase"]
        return found

    wait_for("the driver", lambda: phase() in ("Succeeded", "Failed"), SECONDS)
    log = place.client.get(f"{place.path('pods', 'driver')}/log", headers={"Accept": "*/*"}).raw.decode()
    assert phase() == "Succeeded", log
    assert "computed 42.0 /job:ps/task:1 /job:worker/task:1" in log


def driver() -> Json:
    spec = {"configMapKeyRef": {"name": "tensorflow-cluster-cluster", "key": "cluster.json"}}
    container = {
        "name": "main",
        "image": IMAGE,
        "command": [sys.executable, "-c", DRIVER],
        "env": [
            {"name": "CLUSTER_CONFIG", "valueFrom": spec},
            {"name": "TF_CPP_MIN_LOG_LEVEL", "value": "2"},
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "driver"},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
