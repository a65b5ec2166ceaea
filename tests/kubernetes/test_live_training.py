"""Distributed TensorFlow in real pods: DNS names, the barrier, checkpoints on the node."""

from typing import Any

import pytest
import yaml
from live.clusters import IMAGE, Cluster
from live.place import Place
from operated.place import completion_of

import examples
from conformance.client import Json
from windlass.model import names


@pytest.fixture
def digits(place: Place, tensorflow: str) -> "Digits":
    return Digits(place, tensorflow)


class Digits:
    """examples/digits-ps with the barrier, in its own namespace."""

    def __init__(self, place: Place, image: str) -> None:
        self.place = place
        self._image = image

    def submit(self, steps: int, **variables: str) -> None:
        code = (examples.EXAMPLES / "digits-ps/train.py").read_text()
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "digits-ps-code"},
            "data": {"train.py": code},
        }
        self.place.client.post(self.place.path("configmaps"), config_map).expect(201)
        job = yaml.safe_load((examples.EXAMPLES / "digits-ps/framework.yaml").read_text())
        job["metadata"]["annotations"]["windlass.dev/barrier"] = "true"
        job["spec"]["completedPods"] = "Keep"
        for role in job["spec"]["taskRoles"]:
            [container] = role["task"]["pod"]["spec"]["containers"]
            container |= {"image": self._image, "imagePullPolicy": "IfNotPresent"}
            container["command"] = ["python3", "/code/train.py", f"--steps={steps}"]
            # The file defines it once for both roles.
            known = {variable["name"] for variable in container["env"]}
            container["env"] += [
                {"name": name, "value": value} for name, value in variables.items() if name not in known
            ]
        self.place.submit(job)

    def said(self, task: str, begin: str) -> list[str]:
        answer = self.place.client.get(
            f"{self.place.path('pods', f'digits-ps-{task}')}/log",
            headers={"Accept": "*/*"},
            container="tensorflow",
        )
        lines = answer.raw.decode(errors="replace").splitlines() if answer.code == 200 else []
        return [line for line in lines if line.startswith(begin)]

    def ended(self) -> Json:
        done: Json = self.place.wait_for_completed("digits-ps")
        return done


def value(line: str, name: str) -> float:
    return float(line.partition(f"{name}=")[2].split()[0])


def test_training_with_names_and_a_barrier(digits: Digits) -> None:
    digits.submit(steps=300)
    ended = digits.ended()
    assert completion_of(ended)["code"] == 0, completion_of(ended)
    [result] = digits.said("worker-0", "result:")
    assert value(result, "accuracy") > 0.9
    assert value(result, "steps") >= 300
    place = digits.place
    barrier = place.client.get(
        f"{place.path('pods', 'digits-ps-worker-1')}/log",
        headers={"Accept": "*/*"},
        container="windlass-barrier",
    )
    assert "all 4 tasks" in barrier.expect(200).raw.decode()
    # The file of the barrier is readable for the pods' user and lists all four tasks.
    [gang] = place.client.get(_gangs(place)).expect(200).body["items"]
    assert [len(role["members"]) for role in gang["spec"]["roles"]] == [2, 2]
    # Only the workers end; the ps were stopped when the job was done.
    codes = {
        f"{role['name']}-{task['index']}": task["attemptStatus"]["completionStatus"]["code"]
        for role in ended["status"]["attemptStatus"]["taskRoleStatuses"]
        for task in role["taskStatuses"]
    }
    assert codes == {"worker-0": 0, "worker-1": 0, "ps-0": -220, "ps-1": -220}


def test_killed_worker_continues_where_it_was(cluster: Cluster, digits: Digits) -> None:
    cluster.breakable()
    digits.submit(steps=3000)
    place = digits.place
    place.wait_for("the second worker to train", lambda: digits.said("worker-1", "worker 1:"))
    uid = place.framework("digits-ps")["metadata"]["uid"]
    examples.process_of(uid, "worker-1", "/code/train.py").kill()
    ended = digits.ended()
    assert completion_of(ended)["code"] == 0, completion_of(ended)
    tasks = {
        f"{role['name']}-{task['index']}": task["retryPolicyStatus"]["totalRetriedCount"]
        for role in ended["status"]["attemptStatus"]["taskRoleStatuses"]
        for task in role["taskStatuses"]
    }
    assert tasks == {"worker-0": 0, "worker-1": 1, "ps-0": 0, "ps-1": 0}
    assert ended["status"]["retryPolicyStatus"]["totalRetriedCount"] == 0
    [done] = digits.said("worker-1", "done:")
    assert 0 < value(done, "now") < value(done, "own") == 1500
    [result] = digits.said("worker-0", "result:")
    assert value(result, "accuracy") > 0.9


def test_init_container_of_the_old_launcher(place: Place) -> None:
    """examples/framework-launcher/init-container.yaml, whose init container sources /get_ips.sh of our image."""
    job = yaml.safe_load((examples.EXAMPLES / "framework-launcher/init-container.yaml").read_text())
    job["spec"]["completedPods"] = "Keep"
    for role in job["spec"]["taskRoles"]:
        _use_our_images(role["task"]["pod"]["spec"])
    place.submit(job)
    ended = place.wait_for_completed("tfexample", names.LAUNCHER_GROUP)
    assert completion_of(ended)["code"] == 0, completion_of(ended)
    addresses = {
        role["name"]: task["attemptStatus"]["podIP"]
        for role in ended["status"]["attemptStatus"]["taskRoleStatuses"]
        for task in role["taskStatuses"]
    }
    ports = {
        role["name"]: role["task"]["pod"]["spec"]["containers"][0]["ports"][0]["containerPort"]
        for role in job["spec"]["taskRoles"]
    }
    for task in ("worker", "ps"):
        log = place.log(f"tfexample-{task}-0").split()
        assert log == [f"{addresses[role]}:{ports[role]}" for role in ("worker", "ps")]


def _use_our_images(spec: dict[str, Any]) -> None:
    for field in ("initContainers", "containers"):
        for container in spec[field]:
            container |= {"image": IMAGE, "imagePullPolicy": "IfNotPresent"}
            if field == "containers":
                container.pop("workingDir", None)


def _gangs(place: Place) -> str:
    return f"/apis/windlass.dev/v1/namespaces/{place.name}/gangs"
