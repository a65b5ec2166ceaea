"""Companions come before a job, go with it or outlive it, go on with the next one, and never decide how it ends.

Their Deployments have pods here, which nobody runs.
"""

from collections.abc import Callable, Iterator
from typing import Any

import hollow_world
import pytest
from hollow_world import HollowPlace, HollowWorld
from operated import jobs
from operated.place import completion_of

from windlass import Client
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, FaultyJobError, NotThereError, RefusedError
from windlass.kubeapi.errors import ForbiddenError
from windlass.kubeapi.requests import Request, Verb
from windlass.localcluster.publishing import discovery
from windlass.model import names
from windlass.model.api_failure import ApiFailure
from windlass.model.base import Json

FOREVER: Json = {"metadata": {"annotations": jobs.FOREVER}}
JOB: Json = {
    "name": "digits",
    "image": "python:3.12",
    "command": "python train.py",
    "roles": {"worker": {"pod": FOREVER}},
    "volumes": {"output": {"hostPath": "/srv/output", "at": "/output"}},
}
BOARD: Json = {**JOB, "tensorboard": {}}
LAB: Json = {**JOB, "jupyter": {}}
KINDS = {
    "deployments": "/apis/apps/v1",
    "services": "/api/v1",
    "secrets": "/api/v1",
    "configmaps": "/api/v1",
    "serviceaccounts": "/api/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
}


class Scene:
    """What a test does in its namespace, and sees there."""

    def __init__(self, place: HollowPlace, client: Client) -> None:
        self.place = place
        self.client = client
        self.told: list[str] = []

    def submit(self, job: Json, **options: Any) -> str:
        """Gives the uid of its Framework."""
        self.told.clear()
        return self.client.submit(job, tell=self.told.append, preflight=False, **options).uid

    def start(self, job: Json) -> None:
        self.told.clear()
        self.client.start_companions(job, tell=self.told.append)

    def parts(self, kind: str, name: str = "") -> dict[str, Json]:
        """What belongs to companions, by name."""
        path = f"{KINDS[kind]}/namespaces/{self.place.name}/{kind}"
        listed = self.place.client.get(path).expect(200).body["items"]
        found = {each["metadata"]["name"]: each for each in listed}
        return {
            key: each
            for key, each in found.items()
            if names.COMPANION_LABEL in (each["metadata"].get("labels") or {}) and name in key
        }

    @property
    def everything(self) -> dict[str, Json]:
        return {f"{kind}/{name}": each for kind in KINDS for name, each in self.parts(kind).items()}

    @property
    def generations(self) -> dict[str, int]:
        """Another one for a Deployment that is not as it was."""
        return {name: each["metadata"]["generation"] for name, each in self.parts("deployments").items()}

    def uid(self, kind: str, name: str) -> str:
        return str(self.parts(kind)[name]["metadata"]["uid"])

    def pod_of(self, deployment: str) -> str:
        """The uid of its only one."""

        def look() -> str | None:
            found = [
                pod["metadata"]["uid"]
                for pod in self.place.pods().values()
                if pod["metadata"]["name"].startswith(f"{deployment}-")
            ]
            return found[0] if len(found) == 1 else None

        return self.place.wait_for(f"the pod of {deployment}", look)

    def owners(self) -> set[str]:
        """Of all parts. Empty for those that belong to nobody."""
        found = set()
        for each in self.everything.values():
            owners = each["metadata"].get("ownerReferences") or ({"uid": ""},)
            found |= {str(owner["uid"]) for owner in owners}
        return found

    def finish(self) -> None:
        self.place.wait_for_running("digits", 1)
        self.place.end_pod("digits-worker-0")
        assert completion_of(self.place.wait_for_completed("digits"))["code"] == 0

    def wait_until_all_gone(self) -> None:
        self.place.wait_for("the companions to be gone", lambda: not self.everything)

    def delete_framework(self) -> None:
        """As anybody does who knows nothing of Windlass, or the controller when its time is over."""
        self.place.delete("digits")
        self.place.wait_until_gone("digits")


@pytest.fixture(scope="module")
def busy_world() -> Iterator[HollowWorld]:
    with hollow_world.opened(has_workloads=True) as opened:
        yield opened


@pytest.fixture
def scene(busy_world: HollowWorld) -> Iterator[Scene]:
    place = busy_world.new_place()
    with Client(place.kubeconfig, namespace=place.name) as client:
        yield Scene(place, client)


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster says that it is not Windlass's own."""
    said = {**discovery.version(), "gitVersion": "v1.35.0"}
    monkeypatch.setattr(discovery, "version", lambda: said)


# With the job


def test_they_come_with_the_job_and_go_with_it(scene: Scene) -> None:
    uid = scene.submit({**BOARD, "jupyter": {}})
    assert set(scene.everything) == {
        "deployments/digits-tensorboard",
        "services/tensorboard",
        *(f"{kind}/digits-jupyter" for kind in KINDS),
    }
    assert scene.owners() == {uid}
    assert "digits: tensorboard is started" in scene.told
    scene.delete_framework()
    scene.wait_until_all_gone()


def test_a_job_that_ends_leaves_them_until_it_is_deleted(scene: Scene) -> None:
    scene.submit(BOARD)
    pod = scene.pod_of("digits-tensorboard")
    scene.finish()
    assert scene.pod_of("digits-tensorboard") == pod
    scene.client.delete("digits")
    assert not scene.everything
    assert not scene.place.pods()


def test_those_that_are_kept_outlive_it(scene: Scene) -> None:
    scene.submit({**BOARD, "tensorboard": {"keep": True}, "jupyter": {}, "secrets": {"TOKEN": "x"}})
    scene.delete_framework()
    scene.place.wait_for("jupyter to be gone", lambda: not scene.parts("deployments", "jupyter"))
    assert set(scene.everything) == {"deployments/digits-tensorboard", "services/tensorboard"}
    secret = scene.place.path("secrets", "digits-secrets")
    assert scene.place.client.get(secret).code == 200, "a pod that starts again reads it"
    (view,) = scene.client.companions("digits")
    assert view.is_kept
    scene.client.delete("digits")
    assert not scene.everything
    assert scene.place.client.get(secret).code == 404


def test_a_job_may_be_deleted_without_them(scene: Scene) -> None:
    scene.submit({**LAB, "secrets": {"TOKEN": "x"}})
    pod = scene.pod_of("digits-jupyter")
    scene.client.delete("digits", keep_companions=True)
    scene.place.wait_until_gone("digits")
    assert scene.owners() == {""}
    assert scene.pod_of("digits-jupyter") == pod
    assert scene.place.client.get(scene.place.path("secrets", "digits-secrets")).code == 200
    with pytest.raises(
        NotThereError, match=r"no job \"digits\" .* any more. Its companions stay \(jupyter\)"
    ):
        scene.client.delete("digits", keep_companions=True)
    scene.client.delete("digits")
    assert not scene.everything


def test_what_a_companion_has_made_stays_its_own(scene: Scene) -> None:
    """Such as the pods of the users of a hub."""
    scene.submit(BOARD)
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "digits-tensorboard",
        "uid": scene.uid("deployments", "digits-tensorboard"),
    }
    labels = {names.JOB_LABEL: "digits", names.COMPANION_LABEL: "tensorboard"}
    metadata = {"name": "its-own", "labels": labels, "ownerReferences": [owner]}
    spec = {"containers": [{"name": "main", "image": "x"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    scene.place.client.post(scene.place.path("pods"), pod).expect(201)
    scene.client.delete("digits", keep_companions=True)
    assert scene.place.pods()["its-own"]["metadata"]["ownerReferences"][0]["uid"] == owner["uid"]
    scene.client.delete("digits")
    assert not scene.place.pods()


def test_one_that_cannot_start_does_not_keep_the_job_from_its_end(scene: Scene) -> None:
    scene.submit({**BOARD, "tensorboard": {"image": "nowhere"}})
    pod = scene.place.wait_for(
        "a pod",
        lambda: next((pod for name, pod in scene.place.pods().items() if "tensorboard" in name), None),
    )
    status = {"phase": "Failed", "reason": "Evicted"}
    scene.place.client.patch(
        scene.place.path("pods", pod["metadata"]["name"], "status"), {"status": status}
    ).expect(200)
    scene.finish()


def test_what_becomes_of_the_job_is_nothing_to_them(scene: Scene) -> None:
    scene.submit(BOARD)
    pod = scene.pod_of("digits-tensorboard")
    scene.client.scale("digits", worker=2)
    scene.client.suspend("digits")
    scene.place.wait_for_condition("digits", "Suspended")
    scene.client.stop("digits")
    scene.client.wait("digits")
    assert scene.pod_of("digits-tensorboard") == pod


# Without the job, and from one submission to the next


def test_those_that_were_there_before_the_job_go_on_and_are_then_its_own(scene: Scene) -> None:
    both = {**BOARD, "jupyter": {}}
    scene.start(both)
    assert scene.owners() == {""}
    (shown,) = [line for line in scene.told if "the password is" in line]
    assert shown.startswith("digits: jupyter: the password is ")
    assert shown.endswith(": it is shown this once, and kept as a hash")
    before = [scene.pod_of(f"digits-{name}") for name in ("tensorboard", "jupyter")]
    generations = scene.generations
    uid = scene.submit(both)
    assert scene.owners() == {uid}
    assert [scene.pod_of(f"digits-{name}") for name in ("tensorboard", "jupyter")] == before
    assert not [line for line in scene.told if "the password is" in line]
    assert "digits: jupyter: its password is that of before" in scene.told
    assert scene.generations == generations


def test_they_may_come_while_the_job_runs(scene: Scene) -> None:
    uid = scene.submit(JOB)
    assert scene.client.companions("digits") == ()
    scene.start(BOARD)
    assert scene.owners() == {uid}
    pod = scene.pod_of("digits-tensorboard")
    scene.start({**BOARD, "tensorboard": {"keep": True}})
    assert scene.owners() == {""}, "from now on it stays"
    assert scene.pod_of("digits-tensorboard") == pod


def test_a_job_that_runs_again_has_new_ones(scene: Scene) -> None:
    first = scene.submit(LAB)
    pod, secret = scene.pod_of("digits-jupyter"), scene.uid("secrets", "digits-jupyter")
    scene.finish()
    second = scene.submit(LAB, rerun=True)
    assert first != second
    assert scene.owners() == {second}
    assert scene.pod_of("digits-jupyter") != pod
    assert scene.uid("secrets", "digits-jupyter") != secret
    assert [line for line in scene.told if "the password is" in line]


def test_those_that_are_kept_go_on_when_the_job_runs_again(scene: Scene) -> None:
    kept = {**JOB, "jupyter": {"keep": True}}
    scene.submit(kept)
    pod = scene.pod_of("digits-jupyter")
    scene.finish()
    scene.submit(kept, rerun=True)
    assert scene.pod_of("digits-jupyter") == pod
    assert scene.owners() == {""}


def test_they_follow_the_job_file(scene: Scene) -> None:
    scene.start(BOARD)
    pod = scene.pod_of("digits-tensorboard")
    scene.start({**BOARD, "tensorboard": {"port": 7007, "name": "board"}})
    (service,) = scene.parts("services").values()
    assert (service["metadata"]["name"], service["spec"]["ports"][0]["port"]) == ("board", 7007)
    scene.place.wait_for("another pod", lambda: scene.pod_of("digits-tensorboard") != pod)


def test_a_password_that_is_chosen_replaces_the_pod(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.start(LAB)
    pod = scene.pod_of("digits-jupyter")
    chosen = {**JOB, "jupyter": {"passwordFrom": {"env": "CHOSEN"}}}
    monkeypatch.setenv("CHOSEN", "open sesame")
    scene.start(chosen)
    scene.place.wait_for("another pod", lambda: scene.pod_of("digits-jupyter") != pod)
    pod = scene.pod_of("digits-jupyter")
    scene.start(chosen)
    assert scene.pod_of("digits-jupyter") == pod, "it is the same password"
    assert "open sesame" not in str(scene.everything)


def test_a_dropped_secret_of_the_job_is_dropped(scene: Scene) -> None:
    scene.start({**BOARD, "secrets": {"TOKEN": "x", "KEY": "y"}})
    scene.submit({**BOARD, "secrets": {"KEY": "z"}})
    path = scene.place.path("secrets", "digits-secrets")
    assert scene.place.client.get(path).expect(200).body["data"] == {"KEY": "eg=="}


# The name of TensorBoard's Service


def of_another_job(scene: Scene) -> None:
    scene.start({**BOARD, "name": "letters"})


def of_somebody_else(scene: Scene) -> None:
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "tensorboard"}}
    spec = {"ports": [{"port": 6006}]}
    scene.place.client.post(scene.place.path("services"), {**body, "spec": spec}).expect(201)


def nobody_s(_: Scene) -> None:
    return


SERVICES: dict[str, tuple[Callable[[Scene], None], Json, str, str]] = {
    "free": (nobody_s, {}, "tensorboard", ""),
    "asked for": (nobody_s, {"name": "board"}, "board", ""),
    "of another job": (
        of_another_job,
        {},
        "digits-tensorboard",
        "the Service tensorboard is that of the job letters: its own is called digits-tensorboard",
    ),
    "of somebody else": (of_somebody_else, {}, "digits-tensorboard", "is not Windlass's: its own is called"),
}


@pytest.mark.parametrize("case", SERVICES)
def test_the_name_of_the_service(case: str, scene: Scene) -> None:
    arrange, asked, name, said = SERVICES[case]
    arrange(scene)
    scene.start({**BOARD, "tensorboard": asked})
    selector = f"{names.JOB_LABEL}=digits"
    listed = scene.place.client.get(f"{scene.place.path('services')}?labelSelector={selector}")
    assert [each["metadata"]["name"] for each in listed.expect(200).body["items"]] == [name]
    assert [line for line in scene.told if "its own is called" in line and said in line] or not said


# What goes wrong


def refuse(monkeypatch: pytest.MonkeyPatch, verb: Verb, plural: str) -> None:
    send = Connection.send

    async def partly(self: Connection, request: Request) -> bytes:
        if (request.verb, request.resource.plural) == (verb, plural):
            raise ForbiddenError(ApiFailure(403, "Forbidden", f"{plural} are not for you"))
        return await send(self, request)

    monkeypatch.setattr(Connection, "send", partly)


ACCOUNT = (
    r"does not take the Role digits-jupyter: roles are not for you. Name a service account that is there "
    r"\(jupyter: \{serviceAccount: …\}\), or ask for the right"
)


def test_who_may_not_give_rights_is_told_what_to_do(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, Verb.CREATE, "roles")
    with pytest.raises(RefusedError, match=ACCOUNT):
        scene.submit(LAB)
    assert not scene.everything, "what was made is taken back"
    scene.submit({**JOB, "jupyter": {"serviceAccount": "mine"}})
    assert not scene.parts("roles")


def test_a_framework_that_is_refused_leaves_what_was_there_before(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.start({**BOARD, "secrets": {"TOKEN": "x"}})
    refuse(monkeypatch, Verb.CREATE, names.PLURAL)
    with pytest.raises(RefusedError, match="frameworks are not for you"):
        scene.submit({**BOARD, "jupyter": {}, "secrets": {"TOKEN": "x"}})
    assert set(scene.everything) == {"deployments/digits-tensorboard", "services/tensorboard"}
    assert scene.place.client.get(scene.place.path("secrets", "digits-secrets")).code == 200


BAD: dict[str, tuple[Json, type[ClientError], str]] = {
    "no companions": (JOB, FaultyJobError, r"no companions in it: expected `tensorboard: \{\}`"),
    "a variable": (
        {**JOB, "jupyter": {"passwordFrom": {"env": "NOT_SET_ANYWHERE"}}},
        FaultyJobError,
        "the variable NOT_SET_ANYWHERE is not set here",
    ),
    "a Secret": (
        {**JOB, "jupyter": {"passwordFrom": {"secret": "mine"}}},
        NotThereError,
        "jupyter.passwordFrom: there is no Secret mine in the namespace",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_makes_no_sense_starts_nothing(case: str, scene: Scene) -> None:
    job, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        scene.start(job)
    assert not scene.everything


def test_somebody_else_s_deployment_stays(scene: Scene) -> None:
    labels = {"app": "x"}
    container = {"name": "main", "image": "x"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "digits-tensorboard"}}
    path = f"/apis/apps/v1/namespaces/{scene.place.name}/deployments"
    scene.place.client.post(path, {**body, "spec": spec}).expect(201)
    with pytest.raises(RefusedError, match=r"the Deployment digits-tensorboard .* is not Windlass's"):
        scene.start(BOARD)


def test_without_an_image_only_a_cluster_of_windlass_s_own_has_them(scene: Scene, kubernetes: None) -> None:
    with pytest.raises(FaultyJobError, match="the job digits has no image"):
        scene.start({key: value for key, value in BOARD.items() if key != "image"})


def test_a_job_that_is_not_there_has_none(scene: Scene) -> None:
    with pytest.raises(NotThereError, match='there is no job "nobody"'):
        scene.client.companions("nobody")
