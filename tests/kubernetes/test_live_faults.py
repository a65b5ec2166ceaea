"""Killed components, lost and drained nodes: no task runs twice at once, no job is lost, nothing is left over.

The tasks record whether they ran twice. Each fault prints a line. These tests break the cluster, so nothing else may
run on it.
"""

import os
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live import fault_injection, fault_jobs, skewed_clocks, task_records
from live.clusters import NAMESPACE, Cluster
from live.fault_jobs import HALF_AN_HOUR, FaultJobs, FaultReport
from live.place import Place
from live.task_records import Records
from operated.place import completion_of, state_of, summary_of, tasks_of

from conformance.client import Json
from conformance.objects import path as path_of
from one_node import cluster as one_node
from one_node import components, layout
from windlass.model import names

pytestmark = pytest.mark.serial

Tell = Callable[[str, FaultReport], None]
ROUNDS = 7
SEED = int(os.environ.get("WINDLASS_SEED") or time.time())
LOST_WHY = "-300"
"""PodFailedWithoutFailedContainer: a kubelet whose runtime was killed may report nothing more."""
A_WHILE = 60
"""Seconds, longer than it takes until another controller leads."""
LEAVES_SOON = [
    {
        "key": f"node.kubernetes.io/{taint}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 3,
    }
    for taint in ("unreachable", "not-ready")
]
"""Tolerations, because a pod waits five minutes for a lost node by default."""


@pytest.fixture(autouse=True)
def _mended(cluster: Cluster) -> Iterator[None]:
    cluster.breakable()
    yield
    fault_injection.restore_all(cluster)


@pytest.fixture
def kept_records() -> Iterator[Records]:
    with task_records.kept() as kept:
        yield kept


@pytest.fixture
def crew(place: Place, kept_records: Records) -> FaultJobs:
    return FaultJobs(place, kept_records)


@pytest.fixture
def other_crew(cluster: Cluster, kept_records: Records) -> Iterator[FaultJobs]:
    """Jobs in their own namespace."""
    place = cluster.new_place()
    yield FaultJobs(
        place, kept_records, restart_exited=lambda: fault_injection.restart_exited_scheduler(cluster)
    )
    cluster.client.delete(f"/api/v1/namespaces/{place.name}")


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Print one line on the terminal even if output is captured; then require a perfect result."""
    began = time.monotonic()

    def tell(fault: str, report: FaultReport) -> None:
        with capsys.disabled():
            print(f"\nfault: {fault}: {report}, {time.monotonic() - began:.0f} s")
        report.require_perfect()

    return tell


@pytest.mark.parametrize("victim", fault_injection.VICTIMS)
def test_killed_component(cluster: Cluster, crew: FaultJobs, tell: Tell, victim: str) -> None:
    place = crew.place
    crew.submit(crew.long("long", "end"), crew.training("training", "end"))
    place.wait_for_running("long", 2)
    place.wait_for_running("training", 3)
    crew.submit(*crew.some("before"))
    fault_injection.kill(cluster, victim)
    if victim not in (components.API_SERVER, components.ETCD):
        crew.submit(*crew.some("meanwhile"))
    fault_injection.revive(cluster, victim)
    crew.submit(*crew.some("after"))
    crew.records.open("end")
    report = crew.settle()
    tell(f"{victim} killed with -9 and started again", report)
    for name, tasks in (("long", 2), ("training", 3)):
        assert len(crew.records.starts(place.name, name)) == tasks, "what ran went on through it all"


def test_jobs_deleted_after_the_api_server_was_killed(
    cluster: Cluster, crew: FaultJobs, other_crew: FaultJobs, tell: Tell
) -> None:
    """The writes of the controller were unanswered. Jobs of the same names are created at once."""
    jobs = other_crew.some("job")
    for job in jobs:
        other_crew.place.submit(job.framework)
    other_crew.place.wait_for("a first pod", other_crew.place.pods)
    crew.submit(crew.long("long", "end"))
    fault_injection.kill(cluster, components.API_SERVER)
    fault_injection.revive(cluster, components.API_SERVER)
    for job in jobs:
        other_crew.place.delete(job.name, "Background")
    other_crew.submit(*jobs)
    report = other_crew.settle()
    tell("API server killed with -9, jobs deleted and created again", report)
    crew.records.open("end")
    tell("jobs of another namespace", crew.settle())


def test_all_components_killed_in_random_order(cluster: Cluster, crew: FaultJobs, tell: Tell) -> None:
    chance = random.Random(SEED)
    crew.submit(crew.long("long", "end"), crew.training("training", "end"))
    crew.place.wait_for_running("training", 3)
    victims = [*fault_injection.VICTIMS] * (ROUNDS // len(fault_injection.VICTIMS))
    chance.shuffle(victims)
    for number, victim in enumerate(victims):
        crew.submit(*chance.sample(crew.some(f"before-{number}"), 2))
        fault_injection.kill(cluster, victim)
        fault_injection.revive(cluster, victim)
        crew.submit(*chance.sample(crew.some(f"after-{number}"), 2))
    crew.records.open("end")
    report = crew.settle()
    tell(f"{len(victims)} kills in random order (WINDLASS_SEED={SEED})", report)
    assert len(crew.records.starts(crew.place.name, "long")) == 2, "what ran went on through it all"


def test_drained_node(cluster: Cluster, crew: FaultJobs, tell: Tell) -> None:
    """Evicted pods are retried and wait until the node is schedulable again; so do the controllers."""
    place, node = crew.place, cluster.breakable()
    crew.submit(crew.long("long", "end"), crew.training("training", "end"))
    place.wait_for_running("long", 2)
    place.wait_for_running("training", 3)
    drains, uncordons = reversed(node.place.kubectls), node.place.kubectls[0]
    drain = subprocess.Popen(  # noqa: S603
        [next(drains), "drain", layout.NODE, f"--kubeconfig={node.kubeconfig}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        place.wait_for("the tasks to be evicted", lambda: not crew.records.running(place.name))
        crew.submit(*crew.some("meanwhile"))
        for name in (components.KUBELET, components.CONTAINERD):
            fault_injection.kill(cluster, name)
            fault_injection.revive(cluster, name)
        # If a disruption budget protects the last controller, the drain continues when another one is ready.
        subprocess.run(  # noqa: S603
            [uncordons, "uncordon", layout.NODE, f"--kubeconfig={node.kubeconfig}"],
            check=True,
            capture_output=True,
        )
        place.wait_for("the drain to end", lambda: drain.poll() is not None)
        assert drain.returncode == 0, drain.stderr.read() if drain.stderr else ""
    finally:
        drain.kill()
        drain.communicate()
    crew.submit(*crew.some("after"))
    codes = _wait_for_retries(place, "long")
    crew.records.open("end")
    report = crew.settle()
    tell(f"node drained, restarted and uncordoned (evicted: {codes})", report)


def test_deleted_node_object(cluster: Cluster, crew: FaultJobs, tell: Tell) -> None:
    """Kubernetes deletes the pods of a missing node. Its restarted kubelet registers it again."""
    place, node = crew.place, cluster.breakable()
    crew.submit(crew.long("long", "end"), crew.training("training", "end"))
    place.wait_for_running("long", 2)
    place.wait_for_running("training", 3)
    orphans = _uids(place.pods())
    cluster.client.delete(fault_injection.NODE_PATH).expect(200)
    crew.submit(*crew.some("meanwhile"))
    place.wait_for("the orphans to go", lambda: not orphans & _uids(place.pods()))
    # The pods were force-deleted: the kubelet learns of it later.
    place.wait_for("their processes to end", lambda: not crew.records.running(place.name))
    fault_injection.kill(cluster, components.KUBELET)
    fault_injection.revive(cluster, components.KUBELET)
    place.wait_for("the node to be back", lambda: one_node.is_node_ready(node))
    crew.submit(*crew.some("after"))
    codes = _wait_for_retries(place, "long")
    crew.records.open("end")
    report = crew.settle()
    tell(f"object of the node deleted, kubelet started again (pods removed: {codes})", report)


@pytest.mark.parametrize("is_given_up", [False, True], ids=["rebooted", "lost"])
def test_lost_node(
    cluster: Cluster, place: Place, kept_records: Records, tell: Tell, is_given_up: bool
) -> None:
    """All its processes die at once, including the controllers; Kubernetes may or may not notice before it is back."""
    node = cluster.breakable()
    crew = FaultJobs(place, kept_records, {"tolerations": LEAVES_SOON})
    crew.submit(crew.long("long", "end"), crew.training("training", "end"))
    place.wait_for_running("long", 2)
    place.wait_for_running("training", 3)
    crew.submit(*crew.some("before"))
    lost = _uids(place.pods("long"))
    node.lose_node()
    crew.submit(*crew.some("meanwhile"))
    if is_given_up:
        with fault_injection.beside_another_node(cluster) as beat:
            place.wait_for("its pods to be given up", lambda: beat() or _are_all_deleting(place, lost))
    for name in (components.CONTAINERD, components.KUBELET, components.PROXY):
        node.start(name)
    crew.submit(*crew.some("after"))
    place.wait_for("the end of its pods", lambda: not lost & _uids(place.pods()))
    codes = _wait_for_retries(place, "long")
    crew.records.open("end")
    report = crew.settle()
    tell(f"node {'lost and found again' if is_given_up else 'rebooted'} (its tasks: {codes})", report)


def test_missing_image_is_ended_by_the_pending_deadline(crew: FaultJobs, tell: Tell) -> None:
    """A4: pendingDeadlineSeconds ends a task that would wait forever."""
    nowhere = {"container": {"image": "windlass/nowhere:1", "imagePullPolicy": "IfNotPresent"}}
    role = crew.records.role(pod_spec=nowhere)
    crew.submit(fault_jobs.job("stuck", role, code=-240, pendingDeadlineSeconds=3), *crew.some("beside"))
    ended = completion_of(crew.place.wait_for_completed("stuck"))
    assert ended["phrase"] == "PendingDeadlineExceeded"
    report = crew.settle()
    tell("an image that does not exist", report)
    assert not crew.records.starts(crew.place.name, "stuck")


def test_job_waits_for_quota_and_continues(crew: FaultJobs, tell: Tell) -> None:
    """Statement 23."""
    place = crew.place
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}
    quota["spec"] = {"hard": {"pods": "1"}}
    place.client.post(place.path("resourcequotas"), quota).expect(201)
    path = place.path("resourcequotas", "small")
    place.wait_for(
        "the quota to hold",
        lambda: place.client.get(path).body.get("status", {}).get("hard") == {"pods": "1"},
    )
    crew.submit(crew.training("training", "end"), crew.long("long", "end"))
    place.wait_for("one pod", lambda: len(place.pods()) == 1)
    place.wait_for_events(place.framework("training")["metadata"]["uid"], "Postponed")
    place.client.patch(path, {"spec": {"hard": {"pods": "20"}}}).expect(200)
    place.wait_for_running("training", 3)
    place.wait_for_running("long", 2)
    crew.records.open("end")
    report = crew.settle()
    tell("a quota of one pod, raised later", report)
    assert len(crew.records.starts(place.name)) == 5, "nothing was started and given up"


def test_namespace_deleted_with_a_running_job(
    cluster: Cluster, crew: FaultJobs, other_crew: FaultJobs, tell: Tell
) -> None:
    doomed, kept_records = other_crew, other_crew.records
    doomed.submit(doomed.long("long", "never"), doomed.training("training", "never"))
    doomed.place.wait_for_running("training", 3)
    crew.submit(*crew.some("before"))
    path = f"/api/v1/namespaces/{doomed.place.name}"
    cluster.client.delete(path).expect(200)
    crew.submit(*crew.some("meanwhile"))
    crew.place.wait_for("the namespace to be gone", lambda: cluster.client.get(path).code == 404)
    crew.place.wait_for("its tasks to end", lambda: not kept_records.running(doomed.place.name))
    crew.submit(*crew.some("after"))
    report = crew.settle()
    crew.place.wait_for("nothing to be left to do", lambda: _is_at_rest(cluster))
    complaints = _complaints(cluster, doomed.place.name)
    tell(f"a namespace deleted under two running jobs ({len(complaints)} complaints)", report)


def test_controller_clock_off_by_one_hour(
    cluster: Cluster, crew: FaultJobs, other_crew: FaultJobs, tell: Tell, tmp_path: Path
) -> None:
    """No deadline passes early or late, even if controllers with other clocks started the job or continue it."""
    lasting = other_crew
    lasting.submit(lasting.long("long", "end", activeDeadlineSeconds=HALF_AN_HOUR))
    lasting.place.wait_for_running("long", 2)
    fault_injection.scale_controllers(cluster, 0)
    crew.place.wait_for("the controllers to go", lambda: not cluster.controllers())
    with skewed_clocks.off_by(skewed_clocks.HOUR, cluster, tmp_path) as ahead:
        leader = ahead.wait_until_it_leads()
        with skewed_clocks.off_by(-skewed_clocks.HOUR, cluster, tmp_path) as behind:
            _submit_timed(crew, "ahead")
            tell("clock of the controller an hour ahead", crew.settle())
            assert skewed_clocks.holder_of_lease(cluster) == leader, "there is no second leader"
            _delay(lasting, "of-ahead")
            ahead.process.kill()
            behind.wait_until_it_leads()
            assert _is_delayed(lasting.place.framework("of-ahead")), "the delay outlasts the one who began it"
            _submit_timed(crew, "behind")
            tell("clock of the controller an hour behind", crew.settle())
            _delay(lasting, "of-behind")
            behind.process.kill()
    fault_injection.scale_controllers(cluster, 2)
    cluster.wait_for_controllers()
    assert _is_delayed(lasting.place.framework("of-behind")), "the delay outlasts the one who began it"
    lasting.submit(*lasting.some("afterwards"))
    lasting.records.open("end")
    tell("controllers with other clocks one after the other", lasting.settle())
    assert len(lasting.records.starts(lasting.place.name, "long")) == 2, "it went on through it all"


def _submit_timed(crew: FaultJobs, prefix: str) -> None:
    crew.submit(*crew.some(prefix), *crew.timed(prefix), crew.slow_to_end(f"{prefix}-slow"))
    crew.place.wait_for_running(f"{prefix}-slow", 1)
    crew.place.client.delete(crew.place.path("pods", f"{prefix}-slow-worker-0")).expect(200)


def _delay(lasting: FaultJobs, name: str) -> None:
    """A job that waits for its next attempt when another controller becomes leader."""
    lasting.submit(lasting.delayed(name, A_WHILE))
    lasting.place.wait(name, _is_delayed, "a delay before the next attempt")


def _is_delayed(framework: Json) -> bool:
    tasks = tasks_of(framework) if state_of(framework) else []
    return any(task["retryPolicyStatus"].get("retryDelaySec") for task in tasks)


def _uids(pods: dict[str, Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods.values()}


def _are_all_deleting(place: Place, uids: set[str]) -> bool:
    pods = [pod for pod in place.pods().values() if pod["metadata"]["uid"] in uids]
    return all("deletionTimestamp" in pod["metadata"] for pod in pods)


def _wait_for_retries(place: Place, name: str) -> str:
    """Check that each task is retried without counting (unless its kubelet lost the cause) and that all run.

    Return how they ended according to events: a killed controller may lose its own.
    """

    def are_retried(framework: Json) -> bool:
        assert state_of(framework) != "Completed", f"{name} ended instead: {completion_of(framework)}"
        totals = [task["retryPolicyStatus"]["totalRetriedCount"] for task in tasks_of(framework)]
        return all(totals) and summary_of(framework).get("running") == len(totals)

    framework = place.wait(name, are_retried, "a retry of each task")
    messages = [event["message"] for event in place.events(framework["metadata"]["uid"])]
    codes = {
        code
        for message in messages
        for code in re.findall(r"^retrying .*(?:exited with code |\()(-?\d+)(?:\)|\b)", message)
    }
    was_counted = any(task["retryPolicyStatus"]["accountableRetriedCount"] for task in tasks_of(framework))
    assert not was_counted or not codes or LOST_WHY in codes, "\n".join(messages)
    return ", ".join(sorted(codes)) or "unknown"


def _is_at_rest(cluster: Cluster) -> bool:
    """Wait until the leader is idle and knows no deleted Framework."""
    inside = path_of("pods", f"{cluster.leader()}:8080", "proxy", "metrics", namespace=NAMESPACE)
    answer = cluster.client.get(inside, headers={"Accept": "*/*"})
    metrics = dict(re.findall(r"^(windlass_\S+) (\S+)$", answer.raw.decode(), re.MULTILINE))
    known = sum(float(value) for name, value in metrics.items() if name.startswith("windlass_frameworks{"))
    lists = [f"/apis/{group}/{names.VERSION}/{names.PLURAL}" for group in names.GROUPS]
    there = sum(len(cluster.client.get(path).expect(200).body["items"]) for path in lists)
    return float(metrics.get("windlass_queue_depth", "1")) == 0 and known == there


def _complaints(cluster: Cluster, namespace: str) -> list[str]:
    """Return the warnings that the controllers logged about a namespace."""
    lines = [line for log in cluster.controller_logs().values() for line in log.splitlines()]
    return [
        line
        for line in lines
        if namespace in line and re.search(r'"level": ?"(warning|error)"', line, re.IGNORECASE)
    ]
