"""Changes of the installation while jobs run. No other test may run meanwhile."""

from collections.abc import Iterator

import pytest
from live import controllable_tasks, job_batches, object_history
from live.clusters import CONTROLLER, IMAGE, NAMESPACE, Cluster
from live.jobs import FOREVER, framework, role
from live.object_history import History
from live.place import Place
from operated.place import completion_of, retries_of

from conformance.objects import path as path_of
from windlass.install import options

pytestmark = pytest.mark.serial

OTHER = "windlass-elsewhere"
OTHER_CONTROLLER = f"system:serviceaccount:{OTHER}:{options.CONTROLLER_NAME}"


@pytest.fixture
def frameworks(place: Place) -> Iterator[History]:
    with object_history.kept(place.client, place.framework_path()) as history:
        yield history


@pytest.fixture
def restored(cluster: Cluster) -> Iterator[Cluster]:
    """Restore the usual installation after a test."""
    yield cluster
    cluster.install_anew()


def start(place: Place) -> None:
    """A job with an endless ps and workers that wait to be ended."""
    ps = role("ps", 1, FOREVER)
    place.submit(framework("job", ps, controllable_tasks.role(tasks=2, min_succeeded=2)))
    place.wait_for_running("job", 3)


def finish(place: Place) -> None:
    """Check that it succeeds at its first attempt, with one pod per task."""
    for index in range(2):
        controllable_tasks.end(place, f"job-worker-{index}")
    found = place.wait_for_completed("job")
    assert completion_of(found)["code"] == 0
    assert retries_of(found) == 0
    job_batches.wait_for_pods_made(place, "job", {"ps-0": 1, "worker-0": 1, "worker-1": 1})


@pytest.mark.smoke
@pytest.mark.parametrize("grace", ["30", "0"], ids=["asked to go", "removed at once"])
def test_other_replica_takes_over_from_a_deleted_leader(cluster: Cluster, place: Place, grace: str) -> None:
    """The other one continues the jobs."""
    leader = place.wait_for("a leader", cluster.leader)
    start(place)
    cluster.client.delete(path_of("pods", leader, namespace=NAMESPACE), gracePeriodSeconds=grace).expect(200)
    finish(place)
    cluster.wait_for_controllers()
    # A terminating pod may take a while.
    place.wait_for("another leader", lambda: cluster.leader() not in ("", leader))


def test_crds_stay_while_frameworks_exist(cluster: Cluster, place: Place) -> None:
    start(place)
    cluster.wait_for_controllers()
    before = cluster.ready_controllers()
    refused = cluster.windlass("uninstall", "--crds", "--yes", is_expected_to_work=False)
    assert refused.returncode == 1
    assert f"{place.name}/job" in refused.stderr
    assert "Nothing was deleted" in refused.stderr
    staying = {
        name for name, pod in cluster.controllers().items() if "deletionTimestamp" not in pod["metadata"]
    }
    assert staying >= before
    finish(place)


def test_reinstallation_while_a_job_runs(cluster: Cluster, restored: Cluster, place: Place) -> None:
    start(place)
    said = cluster.windlass("uninstall", "--yes").stdout
    assert f"{place.name}/job" in said
    place.wait_for("the controllers to be gone", lambda: not cluster.controllers())
    inside = f"/api/v1/namespaces/{NAMESPACE}"
    place.wait_for("their namespace to be gone", lambda: cluster.client.get(inside).code == 404)
    controllable_tasks.end(place, "job-worker-0")
    place.wait_for("a task to end without a leader", lambda: phase_of(place, "job-worker-0") == "Succeeded")
    assert phase_of(place, "job-ps-0") == "Running"
    restored.install()
    place.wait("job", lambda body: body["status"]["summary"]["succeeded"] == 1, "what was missed")
    controllable_tasks.end(place, "job-worker-1")
    found = place.wait_for_completed("job")
    assert completion_of(found)["code"] == 0
    job_batches.wait_for_pods_made(place, "job", {"ps-0": 1, "worker-0": 1, "worker-1": 1})


def phase_of(place: Place, pod: str) -> str:
    return str(place.pod(pod)["status"]["phase"])


def test_two_installations_share_the_namespaces(
    cluster: Cluster, restored: Cluster, place: Place, frameworks: History
) -> None:
    """Each has permissions in its own namespaces and does not touch the other's."""
    theirs = cluster.new_place()
    before = cluster.ready_controllers()
    try:
        cluster.windlass("install", "--image", IMAGE, "--apply", "--watch-namespace", place.name)
        cluster.windlass(
            *("install", "--image", IMAGE, "--apply", "--namespace", OTHER, "--replicas", "1"),
            *("--watch-namespace", theirs.name),
        )
        restored.wait_for_controllers()
        # A terminating controller still handles all namespaces.
        place.wait_for("the former ones to be gone", lambda: not before & cluster.controllers().keys())
        for each in (place, theirs):
            each.submit(framework("job", role(tasks=2)))
        for each in (place, theirs):
            assert completion_of(each.wait_for_completed("job"))["code"] == 0
        managers = {
            entry["manager"]
            for body in frameworks.versions("job")
            for entry in body["metadata"].get("managedFields", [])
        }
        assert any(NAMESPACE in manager for manager in managers), managers
        assert not any(OTHER in manager for manager in managers), managers
        if cluster.node is not None:
            assert writers(cluster, place) == {CONTROLLER}
            assert writers(cluster, theirs) == {OTHER_CONTROLLER}
    finally:
        cluster.windlass("uninstall", "--namespace", OTHER, "--yes")
        cluster.client.delete(f"/api/v1/namespaces/{theirs.name}")
    there = f"/api/v1/namespaces/{OTHER}"
    place.wait_for("the other to be gone", lambda: cluster.client.get(there).code == 404)


def writers(cluster: Cluster, place: Place) -> set[str]:
    """Return the users who changed statuses there, or were denied it."""
    return {
        entry["user"]["username"]
        for entry in cluster.audited_in(place.name)
        if entry["objectRef"].get("subresource") == "status"
        and entry["objectRef"]["resource"] == "frameworks"
    }
