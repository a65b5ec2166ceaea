"""Frameworks of the older group, posted as YAML with curl as in the manual of its launcher (statements 52 to 54).

The images of that manual are not available: another one replaces them, without its `get_ips.sh`.
"""

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from live import jobs
from live.clusters import Cluster
from live.place import Place
from operated.place import completion_of, retries_of, tasks_of

from conformance.client import Json
from windlass.model import names

EXAMPLES: Final = Path(__file__).parents[1] / "data" / "launcher"
GROUP: Final = names.LAUNCHER_GROUP
FOREGROUND: Final = '{"propagationPolicy": "Foreground"}'

INDEXED: Final = f"""
apiVersion: {GROUP}/v1
kind: Framework
metadata:
  name: indexed
spec:
  executionType: Start
  completedPods: Keep
  taskRoles:
    - name: worker
      taskNumber: 2
      frameworkAttemptCompletionPolicy:
        minFailedTaskCount: 1
        minSucceededTaskCount: -1
      task:
        pod:
          spec:
            restartPolicy: Never
            containers:
              - name: tf
                image: {jobs.IMAGE}
                imagePullPolicy: IfNotPresent
                command: ["/bin/bash", "-c", "echo $taskindex $TASK_INDEX $FC_TASK_INDEX"]
"""


class Curl:
    """curl with a kubeconfig."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._folder = folder
        self._server = cluster["server"]
        self._options = [*self._file(cluster, "certificate-authority-data", "--cacert")]
        self._options += self._file(user, "client-certificate-data", "--cert")
        self._options += self._file(user, "client-key-data", "--key")
        if token := user.get("token"):
            # In a file, so that no process list shows it.
            header = folder / "authorization"
            header.write_text(f"Authorization: Bearer {token}\n")
            self._options += ["--header", f"@{header}"]

    def _file(self, entry: Json, field: str, option: str) -> Sequence[str]:
        if field not in entry:
            return ()
        file = self._folder / field
        file.write_bytes(base64.b64decode(entry[field]))
        return option, str(file)

    def __call__(self, path: str, *arguments: str) -> Any:
        command = ["curl", "--silent", "--show-error", "--fail", *self._options, *arguments]
        done = subprocess.run([*command, f"{self._server}{path}"], capture_output=True, text=True)  # noqa: S603
        assert done.returncode == 0, f"{done.stderr}{done.stdout}"
        return json.loads(done.stdout)

    def post(self, path: str, text: str) -> Any:
        file = self._folder / "framework.yaml"
        file.write_text(text)
        return self(path, "--header", "Content-Type: application/yaml", "--data-binary", f"@{file}")

    def delete(self, path: str) -> Any:
        json_type = ("--header", "Content-Type: application/json")
        return self(path, "--request", "DELETE", *json_type, "--data", FOREGROUND)


@pytest.fixture
def curl(cluster: Cluster, tmp_path: Path) -> Curl:
    return Curl(cluster.kubeconfig, tmp_path)


def test_task_index_has_all_its_variable_names(place: Place, curl: Curl) -> None:
    """Its images read `$taskindex` without defining it (52)."""
    made = curl.post(place.framework_path(group=GROUP), INDEXED)
    assert made["metadata"]["name"] == "indexed"
    assert completion_of(place.wait_for_completed("indexed", GROUP))["code"] == 0
    for index in range(2):
        assert place.log(f"indexed-worker-{index}").split() == [str(index)] * 3
    path = place.framework_path("indexed", GROUP)
    seen = curl(path)
    assert (seen["apiVersion"], seen["status"]["state"]) == (f"{GROUP}/v1", "Completed")
    assert {item["metadata"]["name"] for item in curl(place.framework_path(group=GROUP))["items"]} == {
        "indexed"
    }
    curl.delete(path)
    place.wait_until_gone("indexed", GROUP)
    place.wait_until_empty()


def test_corrected_example_of_the_manual_succeeds(place: Place, curl: Curl) -> None:
    """An init container writes the hosts into a file on a shared volume, and the container reads it (53)."""
    text = example().replace("olumeMounts:", "volumeMounts:").replace("vvolume", "volume")
    curl.post(place.framework_path(group=GROUP), text)
    found = place.wait_for_completed("tfexample", GROUP)
    assert completion_of(found)["code"] == 0
    assert retries_of(found) == 0
    for role in ("worker", "ps"):
        assert place.log(f"tfexample-{role}-0").split() == ["192.0.2.1:46866", "192.0.2.2:46867"]
        assert place.pod(f"tfexample-{role}-0")["spec"]["hostNetwork"]
    curl.delete(place.framework_path("tfexample", GROUP))
    place.wait_until_gone("tfexample", GROUP)
    place.wait_until_empty()


def test_original_example_of_the_manual_fails_with_a_message(place: Place, curl: Curl) -> None:
    """The misspelt field is dropped, and reading the file fails (54)."""
    curl.post(place.framework_path(group=GROUP), example())
    found = place.wait_for_completed("tfexample", GROUP)
    done = completion_of(found)
    assert (done["code"], done["trigger"]["taskRoleName"]) == (1, "worker")
    containers = tasks_of(found)[0]["attemptStatus"]["completionStatus"]["pod"]["containers"]
    said = {each["name"]: each.get("message", "") for each in containers}
    assert "/configdir/configfile: No such file" in said["tf"]
    curl.delete(place.framework_path("tfexample", GROUP))
    place.wait_until_gone("tfexample", GROUP)
    place.wait_until_empty()


def example() -> str:
    """A Framework with one attempt, whose pods are kept."""
    text = (EXAMPLES / "init-container.yaml").read_text()
    hosts = "export worker_hosts=192.0.2.1:$worker_port && export ps_hosts=192.0.2.2:$ps_port"
    replacements = {
        "zichengfang/k8s_launcher:distributedtf": jobs.IMAGE,
        "zichengfang/k8s_initcontainer:update": jobs.IMAGE,
        "source ./get_ips.sh": hosts,
        "maxRetryCount: 3": "maxRetryCount: 0",
        "executionType: Start": "executionType: Start\n  completedPods: Keep",
    }
    for old, new in replacements.items():
        assert old in text
        text = text.replace(old, new)
    return text
