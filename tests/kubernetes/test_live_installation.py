"""`windlass install --apply` on a complete cluster: pods, security context and permissions.

test_live_takeover.py contains the tests that change the installation for others.
"""

import subprocess
from pathlib import Path

import pytest
import yaml
from live import kubectl_process
from live.clusters import IMAGE, NAMESPACE, SECONDS, Cluster
from live.jobs import FOREVER, framework, role
from live.place import Place

from conformance.client import Answer, Json
from conformance.objects import path as path_of
from conformance.waiting import wait_for
from windlass.install import deployment, options
from windlass.model import names

SERVES_DISRUPTION_BUDGETS = "/apis/policy/v1"
HERE = ("", NAMESPACE)
"""The cluster, and the namespace of the controller."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


# Pods


@pytest.mark.smoke
def test_two_replicas_are_ready(cluster: Cluster) -> None:
    """On a busy machine a probe may time out, and the pod is ready again later."""
    path = path_of("deployments", options.CONTROLLER_NAME, namespace=NAMESPACE)

    def are_two() -> bool:
        status = cluster.client.get(path).expect(200).body["status"]
        counts = [status.get(name, 0) for name in ("replicas", "readyReplicas", "updatedReplicas")]
        pods = cluster.controllers().values()
        return counts == [2, 2, 2] and [pod["status"]["phase"] for pod in pods] == ["Running"] * 2

    wait_for("two controllers and no other", are_two, SECONDS)


def test_pods_have_small_requests(cluster: Cluster) -> None:
    for pod in cluster.controllers().values():
        context = pod["spec"]["securityContext"]
        assert (context["runAsNonRoot"], context["runAsUser"]) == (True, deployment.USER)
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["spec"]["containers"][0]["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_kernel_enforces_the_security_context(cluster: Cluster) -> None:
    """As configured by the node."""
    cluster.breakable()  # only its processes are visible from here
    for pod in cluster.controllers().values():
        container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        (process,) = processes_in(container)
        facts = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
        assert set(facts["Uid"].split() + facts["Gid"].split()) == {str(deployment.USER)}
        assert int(facts["CapEff"], 16) == int(facts["CapBnd"], 16) == 0
        assert facts["NoNewPrivs"] == "1"
        assert facts["Seccomp"] == "2", "it is not filtered"
        assert "ro" in options_of_root(process)


def processes_in(container: str) -> list[Path]:
    return [
        folder
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit() and container in text_of(folder / "cgroup")
    ]


def text_of(file: Path) -> str:
    """Return the text of a file; empty if the process has ended."""
    try:
        return file.read_text()
    except OSError:
        return ""


def options_of_root(process: Path) -> list[str]:
    mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
    return next(fields[5].split(",") for fields in mounts if fields[4] == "/")


# Endpoints


@pytest.mark.parametrize("path", ["healthz", "readyz"])
def test_probes_succeed(cluster: Cluster, path: str) -> None:
    for name in cluster.controllers():
        ask(cluster, name, path).expect(200)


def test_one_replica_leads(cluster: Cluster) -> None:
    """The Lease and the metrics agree on the leader."""
    led = {name: metric(cluster, name, "windlass_leader") for name in cluster.controllers()}
    assert sorted(led.values()) == [0.0, 1.0]
    assert led[cluster.leader()] == 1.0


def test_metrics_show_the_work(cluster: Cluster, place: Place) -> None:
    place.submit(framework("job", role(script=FOREVER)))
    place.wait_for_running("job", 1)

    def is_counted() -> bool:
        return metric(cluster, cluster.leader(), 'windlass_tasks{state="AttemptRunning"}') >= 1

    # The status is visible before the controller gets the response.
    place.wait_for("the task to be counted", is_counted)
    assert metric(cluster, cluster.leader(), "windlass_build_info{") == 1


def ask(cluster: Cluster, pod: str, path: str) -> Answer:
    """Through the API server, which reaches pods on every cluster."""
    inside = path_of("pods", f"{pod}:{deployment.METRICS_PORT}", "proxy", path, namespace=NAMESPACE)
    return cluster.client.get(inside, headers={"Accept": "*/*"})


def metric(cluster: Cluster, pod: str, start: str) -> float:
    lines = ask(cluster, pod, "metrics").expect(200).raw.decode().splitlines()
    return float(next(line for line in lines if line.startswith(start)).rpartition(" ")[2])


# Permissions


@pytest.mark.parametrize("group", names.GROUPS)
def test_no_request_is_forbidden(cluster: Cluster, place: Place, group: str) -> None:
    """The roles suffice for everything that happens to Frameworks."""
    cluster.breakable()  # only its log is readable
    start = len(cluster.audited())
    live_through_everything(place, group)
    place.wait_until_empty()
    entries = cluster.audited()[start:]
    ours = [
        entry for entry in entries if entry.get("objectRef", {}).get("namespace", "") in (*HERE, place.name)
    ]
    assert {entry["verb"] for entry in ours} >= {"create", "delete", "deletecollection", "patch", "update"}
    refused = [
        f"{entry['verb']} {entry['requestURI']}" for entry in ours if entry["responseStatus"]["code"] == 403
    ]
    assert not refused


def live_through_everything(place: Place, group: str) -> None:
    fails = role(script="exit 1", retry={"maxRetryCount": 1})
    place.submit(framework("expires", role(), ttlSecondsAfterFinished=0, group=group))
    place.submit(framework("retries", fails, group=group, retryPolicy={"maxRetryCount": 1}))
    place.submit(framework("runs", role(tasks=2, script=FOREVER), group=group))
    place.submit(framework("keeps", role(), group=group, completedPods="Keep"))
    place.wait_for_running("runs", 2, group)
    place.change("runs", {"suspend": True}, group)
    place.wait_for_condition("runs", "Suspended", group)
    place.change("runs", {"suspend": False}, group)
    place.wait_for_running("runs", 2, group)
    place.change("runs", {"executionType": "Stop"}, group)
    place.wait_until_gone("expires", group)
    for name in ("retries", "runs", "keeps"):
        place.wait_for_completed(name, group)
        place.delete(name, "Foreground", group)
        place.wait_until_gone(name, group)


# Manifests


@pytest.fixture(params=kubectl_process.NAMES)
def kubectl(request: pytest.FixtureRequest, cluster: Cluster) -> Path:
    return kubectl_process.named(cluster, request.param)


def test_kubectl_accepts_the_printed_manifests(cluster: Cluster, kubectl: Path) -> None:
    """Applied with a server-side dry run over what `--apply` has created, they change nothing."""
    printed = list(yaml.safe_load_all(cluster.windlass("install", "--image", IMAGE).stdout))
    known = [each for each in printed if is_known(cluster, each)]
    done = subprocess.run(  # noqa: S603
        [
            kubectl,
            f"--kubeconfig={cluster.kubeconfig}",
            "apply",
            "--dry-run=server",
            # Before 1.25 the server's own schema lacks x-kubernetes-validations.
            "--validate=false",
            "--output=yaml",
            "--filename=-",
        ],
        input=yaml.safe_dump_all(known),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    would_be = [bare(each) for each in yaml.safe_load(done.stdout)["items"]]
    assert [name_of(each) for each in would_be] == [name_of(each) for each in known]
    assert would_be == [bare(current(cluster, each)) for each in known]


def is_known(cluster: Cluster, manifest: Json) -> bool:
    is_budget = manifest["kind"] == "PodDisruptionBudget"
    return not is_budget or cluster.client.get(SERVES_DISRUPTION_BUDGETS).code == 200


def name_of(manifest: Json) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def current(cluster: Cluster, manifest: Json) -> Json:
    metadata = manifest["metadata"]
    kind = manifest["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    place = metadata.get("namespace", "")
    found = path_of(plural, metadata["name"], namespace=place, group=manifest["apiVersion"])
    return cluster.client.get(found).expect(200).body


def bare(body: Json) -> Json:
    """Remove what the server sets and what kubectl adds."""
    metadata = body["metadata"]
    annotations = {
        key: value for key, value in metadata.get("annotations", {}).items() if key != LAST_APPLIED
    }
    kept = {key: metadata[key] for key in ("name", "namespace", "labels", "uid") if key in metadata}
    rest = {key: value for key, value in body.items() if key not in ("metadata", "status")}
    return {**rest, "metadata": {**kept, "annotations": annotations}}
