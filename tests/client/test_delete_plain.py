"""`windlass delete` without a Framework: Jobs and all objects with the label of a job. Storage is kept."""

import re
from collections.abc import Iterator

import in_process_cluster
import pytest
from click.testing import CliRunner, Result
from in_process_cluster import ClusterNamespace, InProcessCluster
from operated import jobs

from windlass.cli.main import main
from windlass.client.connection import Connection
from windlass.kubeapi.errors import ForbiddenError
from windlass.kubeapi.requests import Request, Verb
from windlass.model import names
from windlass.model.base import Json
from windlass.model.failures import ApiFailure

PATHS = {
    "Job": ("batch/v1", "jobs"),
    "StatefulSet": ("apps/v1", "statefulsets"),
    "Deployment": ("apps/v1", "deployments"),
    "Service": ("v1", "services"),
    "ConfigMap": ("v1", "configmaps"),
    "Secret": ("v1", "secrets"),
    "Pod": ("v1", "pods"),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
}
NAME = "web-predict-ckpt-198d"


@pytest.fixture(scope="module")
def cluster_without_frameworks() -> Iterator[InProcessCluster]:
    """A cluster without the Framework definition."""
    with in_process_cluster.opened(is_installed=False) as opened:
        yield opened


@pytest.fixture
def without_frameworks(cluster_without_frameworks: InProcessCluster) -> ClusterNamespace:
    return cluster_without_frameworks.new_place()


def collection(place: ClusterNamespace, kind: str) -> str:
    version, plural = PATHS[kind]
    return f"/{'api' if version == 'v1' else 'apis'}/{version}/namespaces/{place.name}/{plural}"


def spec_of(kind: str, labels: dict[str, str]) -> Json:
    pod: Json = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    match kind:
        case "Job":
            return {"template": {**pod, "spec": {**pod["spec"], "restartPolicy": "Never"}}}
        case "StatefulSet":
            return {"serviceName": "x", "selector": {"matchLabels": labels}, "template": pod}
        case "Deployment":
            return {"selector": {"matchLabels": labels}, "template": pod}
        case "Service":
            return {"ports": [{"port": 2222}]}
        case "Pod":
            spec: Json = pod["spec"]
            return spec
        case "PersistentVolumeClaim":
            return {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return {}


def create(place: ClusterNamespace, kind: str, name: str, job: str = "", **metadata: object) -> Json:
    labels = {names.JOB_LABEL: job} if job else {}
    body: Json = {
        "apiVersion": PATHS[kind][0],
        "kind": kind,
        "metadata": {"name": name, "labels": labels, **metadata},
    }
    if spec := spec_of(kind, labels or {"app": name}):
        body["spec"] = spec
    made: Json = place.client.post(collection(place, kind), body).expect(201).body
    return made


def left(place: ClusterNamespace) -> set[str]:
    """Return all objects, except those of every namespace and pods with a controller."""
    return {
        f"{kind} {each['metadata']['name']}"
        for kind in PATHS
        for each in place.client.get(collection(place, kind)).expect(200).body["items"]
        if each["metadata"]["name"] != "kube-root-ca.crt"
        and not any(owner.get("controller") for owner in each["metadata"].get("ownerReferences") or ())
    }


def delete(place: ClusterNamespace, *words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["delete", *words, *place.options])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture(params=["with Windlass", "without"])
def any_cluster(request: pytest.FixtureRequest) -> ClusterNamespace:
    """A namespace of a cluster with and of one without Frameworks."""
    found: ClusterNamespace = request.getfixturevalue(
        "place" if request.param == "with Windlass" else "without_frameworks"
    )
    return found


def test_unlabelled_job_is_deleted(any_cluster: ClusterNamespace) -> None:
    create(any_cluster, "Job", NAME)
    create(any_cluster, "Job", "another")
    assert delete(any_cluster, NAME).stdout == f"{NAME} deleted\n"
    assert left(any_cluster) == {"Job another"}


def test_all_labelled_objects_are_deleted(any_cluster: ClusterNamespace) -> None:
    for kind in ("StatefulSet", "Deployment", "Service", "ConfigMap", "Secret", "Pod"):
        create(any_cluster, kind, f"{NAME}-{kind.lower()}", NAME)
        create(any_cluster, kind, f"other-{kind.lower()}", "other")
    create(any_cluster, "Job", NAME, NAME)
    others = {each for each in left(any_cluster) if " other-" in each}
    assert len(others) == 6
    assert delete(any_cluster, NAME).stdout == f"{NAME} deleted\n"
    assert left(any_cluster) == others


def test_storage_is_kept_with_a_command_to_delete_it(any_cluster: ClusterNamespace) -> None:
    create(any_cluster, "Job", f"{NAME}-worker", NAME)
    for kind in ("PersistentVolumeClaim", "Deployment", "Service", "ConfigMap"):
        create(any_cluster, kind, f"{NAME}-nfs", NAME)
    remedy = (
        f"kubectl delete -n {any_cluster.name} deployment/{NAME}-nfs service/{NAME}-nfs configmap/{NAME}-nfs "
        f"persistentvolumeclaim/{NAME}-nfs"
    )
    first, second = delete(any_cluster, NAME).stdout.splitlines()
    assert first == f"{NAME} deleted"
    assert second.startswith(f"Its files are kept (Deployment {NAME}-nfs, ")
    assert second.endswith(remedy)
    stayed = {
        f"{kind} {NAME}-nfs" for kind in ("PersistentVolumeClaim", "Deployment", "Service", "ConfigMap")
    }
    assert left(any_cluster) == stayed
    again = delete(any_cluster, NAME, code=1).stderr
    assert f'there is no job "{NAME}"' in again
    assert remedy in again


def test_delete_waits_for_the_pods(without_frameworks: ClusterNamespace) -> None:
    """No kubelet ends the pods, as on a node that does not respond."""
    job = create(without_frameworks, "Job", NAME)
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": NAME,
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    create(without_frameworks, "Pod", f"{NAME}-x", ownerReferences=[owner], finalizers=["test.example/hold"])
    said = delete(without_frameworks, NAME, "--timeout", "0.2s", code=124).stderr
    assert f"{NAME} is not deleted after 0.2 s" in said
    assert f"kubectl get pods -n {without_frameworks.name} -l windlass.dev/job={NAME}" in said
    assert delete(without_frameworks, NAME, "--no-wait").stdout == f"{NAME} is being deleted\n"
    without_frameworks.client.patch(
        without_frameworks.path("pods", f"{NAME}-x"), {"metadata": {"finalizers": None}}
    ).expect(200)
    delete_if_exists(without_frameworks, NAME)
    assert left(without_frameworks) == set()


def delete_if_exists(place: ClusterNamespace, name: str) -> None:
    """Delete the object, which may not exist any more."""
    result = CliRunner().invoke(main, ["delete", name, *place.options])
    assert result.exit_code == 0 or "there is no" in result.stderr, result.output
    place.wait_for("the end of it", lambda: not left(place))


def test_part_of_a_job_is_not_deleted_as_a_job(any_cluster: ClusterNamespace) -> None:
    create(any_cluster, "Job", f"{NAME}-worker", NAME)
    said = delete(any_cluster, f"{NAME}-worker", code=1).stderr
    assert (
        f"{NAME}-worker belongs to the job {NAME}. Delete that job with `windlass delete {NAME} -n {any_cluster.name}`"
        in said
    )
    assert left(any_cluster) == {f"Job {NAME}-worker"}


MISSING = {
    "a similar name": ("web-predict-ckpt-198", f'Did you mean "{NAME}"?'),
    "no name at all": ("Web_Predict", "names consist of lower-case letters"),
    "the name of all": ("", "names consist of lower-case letters"),
    "longer than a label": ("x" * 100, f'there is no job "{"x" * 59}…"'),
}


@pytest.mark.parametrize("case", MISSING)
def test_unknown_job_is_reported(case: str, place: ClusterNamespace) -> None:
    name, said = MISSING[case]
    create(place, "Job", NAME)
    assert said in delete(place, name, code=1).stderr
    assert left(place) == {f"Job {NAME}"}


def test_unknown_job_without_windlass_is_reported(without_frameworks: ClusterNamespace) -> None:
    said = delete(without_frameworks, "digits", code=1).stderr
    assert f'there is no Job "digits" in the namespace {without_frameworks.name}' in said
    assert "Windlass is not installed" in said
    create(without_frameworks, "Job", NAME)
    assert f'Did you mean "{NAME}"?' in delete(without_frameworks, NAME[:-1], code=1).stderr
    result = delete(without_frameworks, "missing", NAME, code=1)
    assert result.stdout == f"{NAME} deleted\n"


def test_framework_is_deleted_with_its_objects(place: ClusterNamespace) -> None:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.FOREVER)))
    place.wait_for_running("digits", 1)
    create(place, "Job", "digits")  # an unrelated Job of the same name
    create(place, "Secret", "digits-secrets", "digits")
    create(place, "Job", "digits-load-data", "digits")
    create(place, "PersistentVolumeClaim", "digits-nfs", "digits")
    said = delete(place, "digits").stdout
    assert said.startswith("digits deleted\nIts files are kept (PersistentVolumeClaim digits-nfs). ")
    assert place.client.get(place.framework_path("digits")).code == 404
    assert left(place) == {"Job digits", "PersistentVolumeClaim digits-nfs"}


def refuse(monkeypatch: pytest.MonkeyPatch, *refused: tuple[Verb | None, str]) -> None:
    """Reject requests as RBAC does. None means every verb."""
    send = Connection.send

    async def answered(self: Connection, request: Request) -> bytes:
        if (request.verb, request.resource.plural) in refused or (None, request.resource.plural) in refused:
            raise ForbiddenError(ApiFailure(403, "Forbidden", f"{request.resource.plural} are not for you"))
        return await send(self, request)

    monkeypatch.setattr(Connection, "send", answered)


def test_user_with_permission_for_jobs_only_deletes_them(
    without_frameworks: ClusterNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frameworks may be forbidden too."""
    create(without_frameworks, "Job", NAME, NAME)
    create(without_frameworks, "Secret", "keys", NAME)
    hidden = ("frameworks", "statefulsets", "deployments", "pods", "services", "configmaps", "secrets")
    refuse(monkeypatch, *((None, plural) for plural in (*hidden, "persistentvolumeclaims")))
    result = delete(without_frameworks, NAME)
    assert result.stdout == f"{NAME} deleted\n"
    message = f"no permission to list {', '.join(hidden[1:])}: such objects of {NAME} are kept"
    assert result.stderr.splitlines()[1:] == [message]
    monkeypatch.undo()
    assert left(without_frameworks) == {"Secret keys"}


def test_forbidden_deletion_does_not_affect_other_objects(
    place: ClusterNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(place, "Job", NAME, NAME)
    create(place, "ConfigMap", "spec", NAME)
    create(place, "Secret", "keys", NAME)
    refuse(monkeypatch, (Verb.DELETE, "configmaps"))
    said = delete(place, NAME, code=1).stderr
    assert re.search(r"cannot delete all objects on \S.*: ConfigMap spec: configmaps are not for you", said)
    monkeypatch.undo()
    place.wait_for("the end of the others", lambda: left(place) == {"ConfigMap spec"} or None)


def test_missing_permissions_are_reported(place: ClusterNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    create(place, "Job", NAME)
    refuse(monkeypatch, (None, "frameworks"), (None, "jobs"))
    assert "denied access: frameworks are not for you" in delete(place, NAME, code=1).stderr
