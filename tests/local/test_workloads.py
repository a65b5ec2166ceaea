"""Jobs, StatefulSets and Deployments run, find each other by name, and survive the daemon."""

from collections.abc import Iterator
from typing import Any

import pytest
from pods import daemons, levels
from pods.daemons import Daemon, Network
from pods.place import Place
from pods.specs import FOREVER, RESOLVE, container, headless_service

from conformance.client import Json
from conformance.waiting import wait_for

SECONDS = 120.0
TELL_INDEX = """
import os
print("index", os.environ["JOB_COMPLETION_INDEX"], flush=True)
time.sleep(100000)
"""


def template(run: str | list[str], **spec: Any) -> Json:
    return {
        "metadata": {"labels": {"app": "w"}},
        "spec": {"containers": [container(run)], "terminationGracePeriodSeconds": 2, **spec},
    }


def job(run: str | list[str], name: str = "w", restart: str = "Never", **spec: Any) -> Json:
    pods = {"restartPolicy": restart, **spec.pop("pods", {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template(run, **pods), **spec},
    }


def replicas(kind: str, number: int, run: str | list[str] = FOREVER, **spec: Any) -> Json:
    common = {"replicas": number, "selector": {"matchLabels": {"app": "w"}}, "template": template(run)}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": {**common, **spec}}


def ended(place: Place, name: str = "w") -> Json:
    """Return the status of a Job once it has finished."""

    def look() -> Json:
        status = place.client.get(place.path("jobs", name)).expect(200).body["status"]
        known = {one["type"]: one["status"] for one in status.get("conditions", ())}
        return status if "True" in (known.get("Complete"), known.get("Failed")) else None

    return wait_for(f"the end of Job {name}", look, SECONDS)


def outcome(status: Json) -> tuple[str, str]:
    last = status["conditions"][-1]
    return last["type"], last["reason"]


def rolled_out(place: Place, plural: str) -> None:
    def look() -> bool:
        found = place.client.get(place.path(plural, "w")).expect(200).body
        status, wanted = found["status"], found["spec"]["replicas"]
        is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
        fields = ("replicas", "updatedReplicas", "availableReplicas")
        return is_seen and all(status.get(field, 0) == wanted for field in fields)

    wait_for(f"{plural} to be rolled out", look, SECONDS)


@pytest.fixture(scope="module", params=["isolated", "shared"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    network: Network = request.param
    name: levels.Name = "nobody" if levels.why_not("root") else "root"
    if reason := levels.why_not(name):
        pytest.skip(reason)
    with daemons.running(levels.level(name), network, is_ephemeral=True) as daemon:
        yield daemon


@pytest.fixture
def place(daemon: Daemon) -> Iterator[Place]:
    place = daemon.new_place()
    yield place
    daemon.client.delete(f"/api/v1/namespaces/{place.namespace}")


JOBS: tuple[tuple[Json, tuple[str, str], dict[str, int]], ...] = (
    (job("true", "one-pod"), ("Complete", "CompletionsReached"), {"succeeded": 1}),
    (
        job("true", "several-pods", completions=3, parallelism=2),
        ("Complete", "CompletionsReached"),
        {"succeeded": 3},
    ),
    (job("exit 3", "failing", backoffLimit=0), ("Failed", "BackoffLimitExceeded"), {"failed": 1}),
    (
        job("exit 3", "restarted", restart="OnFailure", backoffLimit=1),
        ("Failed", "BackoffLimitExceeded"),
        {"failed": 1},
    ),
    (
        job(FOREVER, "too-slow", activeDeadlineSeconds=1),
        ("Failed", "DeadlineExceeded"),
        {"failed": 1},
    ),
    (
        job("true", "unsupported", completionMode="Indexed", completions=1, backoffLimitPerIndex=1),
        ("Failed", "NotSupported"),
        {},
    ),
)


def test_jobs_complete(place: Place) -> None:
    for body, _, _ in JOBS:
        place.create(body)
    for body, expected, counts in JOBS:
        name = body["metadata"]["name"]
        status = ended(place, name)
        assert outcome(status) == expected, name
        assert {key: status[key] for key in ("succeeded", "failed") if key in status} == counts, name


def test_failed_pod_of_a_job_is_replaced(place: Place, open_folder: Any) -> None:
    """It takes ten seconds, so there is only one such test."""
    file = open_folder / "failed"
    once = f"if [ -e {file} ]; then exit 0; fi; touch {file}; exit 9"
    volumes = [{"name": "data", "hostPath": {"path": str(open_folder)}}]
    body = job(once, pods={"volumes": volumes})
    body["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "data", "mountPath": str(open_folder)}
    ]
    place.create(body)
    status = ended(place)
    assert (status["succeeded"], status["failed"]) == (1, 1)
    assert len(place.pods(app="w")) == 2


def test_tasks_of_a_job_know_their_index_and_find_each_other(place: Place) -> None:
    """By one Service per task, and by hostname in a Service for all."""
    index = "batch.kubernetes.io/job-completion-index"
    place.create(headless_service("ring", {"app": "w"}))
    for number in range(2):
        place.create(headless_service(f"worker-{number}", {"app": "w", index: str(number)}))
    forms = [
        form.format(number=number, namespace=place.namespace)
        for number in range(2)
        for form in (
            "worker-{number}",
            "worker-{number}.{namespace}.svc",
            "worker-{number}.{namespace}.svc.cluster.local",
            "w-{number}.ring",
            "w-{number}.ring.{namespace}.svc.cluster.local",
        )
    ]
    body = job(
        ["python3", "-c", RESOLVE + TELL_INDEX, *forms],
        completionMode="Indexed",
        completions=2,
        parallelism=2,
        pods={"subdomain": "ring"},
    )
    place.create(body)
    wait_for("both pods", lambda: len(place.pods(app="w")) == 2, SECONDS)
    pods = place.pods(app="w")
    addresses = {str(number): pod.running().address for number, pod in enumerate(pods)}
    for number, pod in enumerate(pods):
        found = dict(line.split() for line in pod.says("index").splitlines())
        assert found.pop("index") == str(number)
        assert found == {form: addresses[form.partition(".")[0][-1]] for form in forms}


@pytest.mark.parametrize(("kind", "plural"), [("Deployment", "deployments"), ("StatefulSet", "statefulsets")])
def test_deleted_pods_are_replaced(place: Place, kind: str, plural: str) -> None:
    more = {"serviceName": "ring"} if kind == "StatefulSet" else {}
    place.create(replicas(kind, 2, **more))
    rolled_out(place, plural)
    before = {pod.seen().uid for pod in place.pods(app="w")}
    change = {"spec": {"template": {"metadata": {"annotations": {"again": "yes"}}}}}
    place.client.patch(place.path(plural, "w"), change).expect(200)
    rolled_out(place, plural)
    wait_for("those before to be gone", lambda: len(place.pods(app="w")) == 2, SECONDS)
    assert not before & {pod.seen().uid for pod in place.pods(app="w")}


def test_stateful_set_keeps_names_and_files(place: Place) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    body = replicas(
        "StatefulSet",
        1,
        f"hostname >> /data/names; {FOREVER}",
        serviceName="ring",
        volumeClaimTemplates=[claim],
    )
    body["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "data", "mountPath": "/data"}
    ]
    place.create(body)
    rolled_out(place, "statefulsets")
    (pod,) = place.pods(app="w")
    first = pod.running().uid
    pod.delete(grace=0)
    wait_for("another", lambda: [one.seen().uid for one in place.pods(app="w")] not in ([], [first]), SECONDS)
    (again,) = place.pods(app="w")
    again.running()
    wait_for("both", lambda: again.sh("cat /data/names").text.split() == ["w-0", "w-0"], SECONDS)


def test_daemon_restart_changes_nothing(lasting: Daemon) -> None:
    place = lasting.new_place()
    place.create(job(FOREVER, "j", completionMode="Indexed", completions=2, parallelism=2))
    place.create(replicas("Deployment", 2, selector={"matchLabels": {"app": "d"}}, template=_labelled("d")))
    place.create(replicas("StatefulSet", 2, selector={"matchLabels": {"app": "s"}}, template=_labelled("s")))

    def running() -> dict[str, str] | None:
        seen = {pod.name: pod.seen() for pod in place.pods()}
        all_run = len(seen) == 6 and all(one.all_run() for one in seen.values())
        return {name: one.uid for name, one in seen.items()} if all_run else None

    before = wait_for("all pods", running, SECONDS)
    lasting.kill()
    lasting.start()
    place.client = lasting.client
    assert wait_for("all pods again", running, SECONDS) == before
    # New objects are processed after all existing ones.
    place.create(job("true", "later"))
    ended(place, "later")
    assert before.items() <= {pod.name: pod.seen().uid for pod in place.pods()}.items()
    assert len(place.pods()) == 7
    for plural in ("jobs", "deployments", "statefulsets"):
        place.client.delete(place.path(plural), {"propagationPolicy": "Foreground"}).expect(200)
    wait_for("no pods", lambda: not place.pods(), SECONDS)


def _labelled(app: str) -> Json:
    return {**template(FOREVER), "metadata": {"labels": {"app": app}}}
