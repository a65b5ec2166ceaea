"""The chart on a complete cluster: install over a running job, upgrade, roll back, uninstall. No other test may run."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from live import controllable_tasks
from live.clusters import IMAGE, NAMESPACE, Cluster
from live.jobs import FOREVER, framework, role
from live.place import Place
from operated.place import completion_of, retries_of

import go_programs
import kubernetes_binaries
from conformance.objects import DEFINITIONS
from conformance.objects import path as path_of
from windlass.install import options

pytestmark = [
    pytest.mark.serial,
    pytest.mark.skipif(kubernetes_binaries.is_oldest(), reason="the chart needs Kubernetes 1.21"),
]

CHART = Path(__file__).parents[2] / "charts" / "windlass"
RELEASE = "windlass"
TAKE_OVER = ("--take-ownership", "--force-conflicts")
"""The definitions of `windlass install` are still there."""
DEPLOYMENT = path_of("deployments", options.CONTROLLER_NAME, namespace=NAMESPACE)
ROLE = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/windlass:{NAMESPACE}:frameworks"
EVERYTHING = {
    "history": {"enabled": True, "readLogs": True},
    "ui": {"enabled": True},
    "monitoring": {"podMonitor": True, "serviceMonitor": True},
    "networkPolicy": {"enabled": True},
    "priorityClassName": "system-cluster-critical",
}
RECORDS = "/apis/windlass.dev/v1/namespaces/{}/attemptrecords"


class Helm:
    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._program = go_programs.ensure(go_programs.HELM)
        own = {f"HELM_{kind}_HOME": str(folder / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        self._environment = {**os.environ, **own, "KUBECONFIG": str(cluster.kubeconfig)}

    def __call__(self, command: str, *words: str | Path) -> str:
        done = subprocess.run(  # noqa: S603
            [self._program, command, RELEASE, *words, "--namespace", NAMESPACE],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"helm {command}: {done.stderr}{done.stdout}"
        return done.stdout


@pytest.fixture
def helm(cluster: Cluster, place: Place, tmp_path: Path) -> Iterator[Helm]:
    """Remove the usual installation, and bring it back after the test."""
    cluster.windlass("uninstall", "--yes")
    wait_until_gone(place, f"/api/v1/namespaces/{NAMESPACE}")
    yield Helm(cluster, tmp_path)
    Helm(cluster, tmp_path)("uninstall", "--ignore-not-found", "--wait")
    cluster.client.delete(f"/api/v1/namespaces/{NAMESPACE}")
    wait_until_gone(place, f"/api/v1/namespaces/{NAMESPACE}")
    cluster.install_anew()


def wait_until_gone(place: Place, path: str) -> None:
    place.wait_for(f"{path} to be gone", lambda: place.client.get(path).code == 404)


@pytest.fixture
def elsewhere(cluster: Cluster) -> Iterator[Place]:
    """Another namespace."""
    place = cluster.new_place()
    yield place
    cluster.client.delete(f"/api/v1/namespaces/{place.name}")


@pytest.fixture
def monitors(cluster: Cluster, place: Place) -> Iterator[list[str]]:
    """Install the definitions of the Prometheus operator. Return the paths of the monitors."""
    found = [
        yaml.safe_load(file.read_text()) for file in go_programs.definitions(go_programs.PROMETHEUS_OPERATOR)
    ]
    for definition in found:
        cluster.client.post(DEFINITIONS, definition).expect(201)
    group = f"/apis/monitoring.coreos.com/v1/namespaces/{NAMESPACE}"
    paths = [f"{group}/{definition['spec']['names']['plural']}" for definition in found]
    place.wait_for("the monitors", lambda: all(cluster.client.get(path).code == 200 for path in paths))
    yield paths
    for definition in found:
        cluster.client.delete(f"{DEFINITIONS}/{definition['metadata']['name']}")


def arguments(cluster: Cluster) -> list[str]:
    spec = cluster.client.get(DEPLOYMENT).expect(200).body["spec"]["template"]["spec"]
    found: list[str] = spec["containers"][0]["args"]
    return found


def test_job_continues_through_install_upgrade_rollback_and_uninstall(
    cluster: Cluster, place: Place, elsewhere: Place, monitors: list[str], helm: Helm, tmp_path: Path
) -> None:
    ps = role("ps", 1, FOREVER)
    place.submit(framework("job", ps, controllable_tasks.role(tasks=2, min_succeeded=2)))
    repository, _, tag = IMAGE.rpartition(":")
    image = f"image.repository={repository},image.tag={tag}"
    helm("install", CHART, "--create-namespace", *TAKE_OVER, "--wait", "--set-string", image)
    cluster.wait_for_controllers()
    place.wait_for_running("job", 3)

    # Every option, and only one namespace.
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({**EVERYTHING, "watchNamespaces": [place.name]}))
    helm("upgrade", CHART, "--reuse-values", "--wait", "--values", values)
    cluster.wait_for_controllers()
    assert {"--history-enabled", f"--namespaces={place.name}"} < set(arguments(cluster))
    wait_until_gone(place, ROLE)
    assert [cluster.client.get(path).expect(200).names for path in monitors] == [
        [options.CONTROLLER_NAME]
    ] * 2
    elsewhere.submit(framework("job", role()))
    controllable_tasks.end(place, "job-worker-0")
    place.wait("job", lambda body: body["status"]["summary"]["succeeded"] == 1, "the first worker to end")
    place.submit(framework("short", role()))
    assert completion_of(place.wait_for_completed("short"))["code"] == 0
    records = RECORDS.format(place.name)
    place.wait_for("the record of the short job", lambda: cluster.client.get(records).expect(200).names)
    assert "status" not in elsewhere.framework("job"), "only one namespace is watched"

    helm("rollback", "1", "--wait")
    cluster.wait_for_controllers()
    assert not {"--history-enabled", f"--namespaces={place.name}"} & set(arguments(cluster))
    assert [cluster.client.get(path).expect(200).names for path in monitors] == [[], []]
    assert cluster.client.get(records).expect(200).names, "the definition was kept"
    assert completion_of(elsewhere.wait_for_completed("job"))["code"] == 0
    controllable_tasks.end(place, "job-worker-1")
    found = place.wait_for_completed("job")
    assert (completion_of(found)["code"], retries_of(found)) == (0, 0)

    helm("uninstall", "--wait")
    for path in (DEPLOYMENT, ROLE):
        wait_until_gone(place, path)
    assert place.framework("job")["metadata"]["uid"] == found["metadata"]["uid"]
