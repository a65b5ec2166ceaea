"""The output of `windlass render`, applied with kubectl, trains without Windlass in the pods."""

import shutil
from typing import Final

import pytest
import yaml
from live import command_line, jobs
from live.command_line import Console
from live.kubectl_process import Kubectl
from live.place import Place

import examples
import kubernetes_binaries
from conformance.client import Json

CLIENT: Final = """
import json, os
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
cluster = json.loads(os.environ["CLUSTER_CONFIG"])
with tf.device("/job:ps/task:0"):
    weight = tf.Variable(0.0)
losses, steps = [], []
for index in range(len(cluster["worker"])):
    with tf.device(f"/job:worker/task:{index}"):
        inputs = tf.random.uniform([64])
        losses.append(tf.reduce_mean((weight * inputs - 3.0 * inputs) ** 2))
        [gradient] = tf.gradients(losses[-1], [weight])
    with tf.device("/job:ps/task:0"):
        steps.append(weight.assign_sub(0.5 * gradient))
with tf.Session("grpc://" + cluster["worker"][0]) as session:
    names = {"/".join(each.name.split("/")[1:4:2]) for each in session.list_devices()}
    print("servers:", *sorted(names))
    session.run(tf.global_variables_initializer())
    before = session.run(losses)
    for _ in range(40):
        session.run(steps)
    print("weight:", session.run(weight), "better:", max(session.run(losses)) < min(before))
"""
"""A client of idle servers: the variable is on the ps, and every worker computes gradients."""


def test_rendered_tensorflow_cluster_is_usable(
    console: Console, kubectl: Kubectl, place: Place, tensorflow: str
) -> None:
    config = yaml.safe_load((examples.EXAMPLES / "tensorflow-cluster/config.yaml").read_text())
    servers, notebook = (resource["properties"] for resource in config["resources"])
    servers |= {"image": tensorflow, "namespace": place.name}
    [ps, workers] = servers["jobs"]
    ps["num_tasks"], workers["num_tasks"] = 1, 2
    # No image here has Jupyter, but its objects are created.
    notebook |= {"image": jobs.IMAGE, "namespace": place.name, "service_type": "ClusterIP"}
    console.write({"config.yaml": yaml.safe_dump(config)})
    _create(console, kubectl, "--config", "config.yaml")

    tasks = ("ps-0", "worker-0", "worker-1")
    addresses = [f"{task}.{place.name}.svc.cluster.local:8080" for task in tasks]
    spec = yaml.safe_load(place.config_maps()["tensorflow-cluster-cluster"]["data"]["cluster.json"])
    assert spec == {"ps": addresses[:1], "worker": addresses[1:]}
    place.wait_for("the servers", lambda: all(": server " in kubectl.tried("logs", task) for task in tasks))
    place.client.post(place.path("pods"), _client(tensorflow)).expect(201)
    assert _wait_until_ended(place, "client") == "Succeeded", place.log("client")
    said = dict(line.split(": ", 1) for line in place.log("client").splitlines() if ": " in line)
    assert said["servers"].split() == ["job:ps/task:0", "job:worker/task:0", "job:worker/task:1"]
    assert said["weight"].endswith("better: True")


@pytest.mark.smoke
def test_plain_objects_of_a_job_file_train(
    console: Console, kubectl: Kubectl, place: Place, tensorflow: str
) -> None:
    """Real training with fewer steps than in the file. Kubernetes 1.20 has no Indexed Jobs, hence one worker there."""
    shutil.copytree(examples.EXAMPLES / "digits-ps", console.folder, dirs_exist_ok=True)
    job = yaml.safe_load((console.folder / "job.yaml").read_text())
    assert "--steps 2000" in job["command"]
    job |= {
        "image": tensorflow,
        "command": job["command"].replace("2000", "200"),
        "roles": {"ps": {"tasks": 2}, "worker": {"tasks": 1 if kubernetes_binaries.is_oldest() else 2}},
        "volumes": {"output": {"emptyDir": {}, "at": "/output"}},
        "pod": command_line.SHORT_GRACE,
    }
    console.write({"job.yaml": yaml.safe_dump(job)})
    _create(console, kubectl, "job.yaml", "--target", "plain")
    kubectl("wait", "--for=condition=Complete", "job/digits-worker", "--timeout=800s")
    logs = kubectl("logs", "--selector=job-name=digits-worker", "--tail=-1")
    results = [line for line in logs.splitlines() if line.startswith("result:")]
    assert results
    assert all(float(line.partition("accuracy=")[2].split()[0]) > 0.9 for line in results)
    assert not place.client.get(place.framework_path()).expect(200).body["items"]
    assert "digits" in console("delete", "digits").text
    place.wait_for("nothing to be left", lambda: not place.pods() and not place.config_maps())


def _create(console: Console, kubectl: Kubectl, *words: str) -> None:
    console("render", *words, "--out", "rendered.yaml")
    kubectl("create", f"--filename={console.folder / 'rendered.yaml'}")


def _client(image: str) -> Json:
    """Return the addresses as the notebook gets them."""
    given = {"configMapKeyRef": {"name": "tensorflow-cluster-cluster", "key": "cluster.json"}}
    container = {
        "image": image,
        "command": ["python3", "-c", CLIENT],
        "env": [{"name": "CLUSTER_CONFIG", "valueFrom": given}],
    }
    pod = jobs.template("", container=container)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, **pod}


def _wait_until_ended(place: Place, pod: str) -> str:
    def phase() -> str | None:
        found: str = place.pod(pod)["status"].get("phase", "")
        return found if found in ("Succeeded", "Failed") else None

    return place.wait_for(f"{pod} to end", phase)
