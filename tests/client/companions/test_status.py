"""Status and URLs of companions. No kubelet runs their pods: the tests write the pod statuses."""

from collections.abc import Coroutine, Iterator
from typing import Any, NoReturn

import fake_companions
import msgspec
import pytest
from fake_companions import READY, TENSORBOARD, Scene
from in_process_cluster import InProcessCluster
from operated import jobs

from conformance.client import Json
from windlass.client import workload_watcher
from windlass.client.companions import passwords as companion_passwords
from windlass.client.companions import status as companion_status
from windlass.client.companions.status import State
from windlass.client.connection import Connection
from windlass.client.errors import (
    ClientError,
    ObjectDeletedError,
    ObjectNotFoundError,
    RejectedError,
    TimedOutError,
)
from windlass.client.pod_watcher import PodWatcher
from windlass.kubeapi.errors import ForbiddenError
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import DEPLOYMENTS
from windlass.localcluster.apiserver.openapi import discovery
from windlass.model.companions import Companion, ServiceType
from windlass.model.failures import ApiFailure
from windlass.render.companions import password_files, passwords, servers
from windlass.render.companions.password_files import ALL_USERS


@pytest.fixture(scope="module")
def world() -> Iterator[InProcessCluster]:
    with fake_companions.opened() as opened:
        yield opened


@pytest.fixture
def scene(world: InProcessCluster) -> Scene:
    return Scene(world.new_place())


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that does not report to be an embedded one."""
    said = {**discovery.version(), "gitVersion": "v1.35.0"}
    monkeypatch.setattr(discovery, "version", lambda: said)


# States


def container(restarts: int = 0, **states: Json) -> list[Json]:
    common = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": restarts}
    return [{**common, **states}]


def ended(code: int, message: str = "") -> Json:
    return {"terminated": {"exitCode": code, "reason": "Error", "message": message}}


def waiting(reason: str, message: str = "") -> Json:
    return {"waiting": {"reason": reason, "message": message}}


UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
STANDINGS: dict[str, tuple[Json | None, State, str]] = {
    "ready": (READY, State.RUNNING, ""),
    "not-begun": (None, State.STARTING, ""),
    "not-ready": (
        {"phase": "Running", "containerStatuses": container(state={"running": {}})},
        State.STARTING,
        "",
    ),
    "image": (
        {"phase": "Pending", "containerStatuses": container(state=waiting("ErrImagePull", "no i"))},
        State.WAITING,
        "pod p is waiting: ErrImagePull: no i",
    ),
    "no-node": (
        {"phase": "Pending", "conditions": [UNSCHEDULED]},
        State.WAITING,
        "pod p is not scheduled: 0/1 nodes",
    ),
    "ended": (
        {"phase": "Running", "containerStatuses": container(state=ended(127, "a\npip install it\n"))},
        State.FAILED,
        "the pod p exited with code 127: pip install it",
    ),
    "ended-again": (
        {
            "phase": "Running",
            "containerStatuses": container(2, state=waiting("CrashLoopBackOff"), lastState=ended(1, "no")),
        },
        State.FAILED,
        "the pod p exited with code 1 (3 times): no",
    ),
    "tried-again": (
        {"phase": "Running", "containerStatuses": container(2, state={"running": {}}, lastState=ended(1))},
        State.STARTING,
        "",
    ),
    "evicted": (
        {"phase": "Failed", "reason": "Evicted", "message": "no room"},
        State.FAILED,
        "the pod p has failed: Evicted: no room",
    ),
}


@pytest.mark.parametrize(("status", "state", "reason"), STANDINGS.values(), ids=STANDINGS.keys())
def test_state_follows_the_pod(scene: Scene, status: Json | None, state: State, reason: str) -> None:
    scene.start()
    scene.pod(status)
    view = scene.view()
    assert (view.state, view.reason, view.pod) == (state, reason, "p")


def test_companion_without_a_pod_is_waiting(scene: Scene) -> None:
    scene.start()
    view = scene.view()
    assert (view.state, view.reason) == (State.WAITING, "its pod is not created yet")
    assert (view.port, view.pod_port, view.logdir, view.is_kept) == (6006, 6006, "/output", True)
    assert (view.name, view.service) == ("digits-tensorboard", "digits-tensorboard")
    assert view.open_command == "windlass tensorboard digits"


def test_companion_owned_by_its_job_is_not_kept(scene: Scene) -> None:
    scene.start()
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}
    change = {"metadata": {"ownerReferences": [owner]}}
    scene.client.patch(scene.path("deployments", "digits-tensorboard"), change).expect(200)
    assert not scene.view().is_kept


def test_only_companions_of_the_job_are_returned(scene: Scene) -> None:
    for companion in reversed(Companion):
        scene.start(companion)
    scene.start(job="other")
    assert [view.companion for view in scene.views()] == list(Companion)
    assert [view.companion for view in scene.views("other")] == [TENSORBOARD]
    assert scene.views("missing") == scene.views("no/name") == scene.views("n" * 64) == ()


# URLs


@pytest.mark.parametrize("service_type", list(ServiceType))
def test_url_inside_the_cluster(scene: Scene, service_type: ServiceType) -> None:
    """A load balancer may have no address yet, and an embedded cluster does not listen on node ports."""
    scene.start(service_type=service_type)
    scene.pod({**READY, "hostIP": "10.0.0.7"})
    view = scene.view()
    assert view.url == f"http://digits-tensorboard.{scene.place.name}.svc:6006/"
    assert not view.is_exposed


@pytest.mark.usefixtures("kubernetes")
@pytest.mark.parametrize(("ip", "host"), [("10.0.0.7", "10.0.0.7"), ("fd00::7", "[fd00::7]")])
def test_url_of_a_node_port(scene: Scene, ip: str, host: str) -> None:
    scene.start(service_type=ServiceType.NODE_PORT)
    scene.pod({**READY, "hostIP": ip})
    service = scene.client.get(scene.path("services", "digits-tensorboard")).expect(200).body
    view = scene.view()
    assert view.url == f"http://{host}:{service['spec']['ports'][0]['nodePort']}/"
    assert view.is_exposed


@pytest.mark.parametrize(
    ("ingress", "host"), [({"ip": "192.0.2.1"}, "192.0.2.1"), ({"hostname": "lb.example"}, "lb.example")]
)
def test_url_of_a_load_balancer(scene: Scene, ingress: Json, host: str) -> None:
    scene.start(service_type=ServiceType.LOAD_BALANCER)
    change = {"status": {"loadBalancer": {"ingress": [ingress]}}}
    scene.client.patch(scene.path("services", "digits-tensorboard", "status"), change).expect(200)
    view = scene.view()
    assert (view.url, view.is_exposed) == (f"http://{host}:6006/", True)


# Permissions


@pytest.mark.parametrize("kind", ["deployments", "services", "pods"])
def test_forbidden_objects_are_reported(scene: Scene, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.start()
    scene.pod(READY)
    send, told = Connection.send, list[str]()

    async def refusing(self: Connection, request: Request) -> bytes:
        if request.resource.plural == kind:
            raise ForbiddenError(ApiFailure(403, "Forbidden", f"you may not list {kind}"))
        return await send(self, request)

    monkeypatch.setattr(Connection, "send", refusing)
    (view,) = scene.use(lambda connection: companion_status.read(connection, "digits", told.append))
    assert told == [f"cannot read all companions of the job: you may not list {kind}"]
    assert view.companion is TENSORBOARD
    assert bool(view.uid) is (kind != "deployments")
    assert bool(view.url) is (kind != "services")
    assert bool(view.pod) is (kind != "pods")


# Waiting


def test_wait_returns_a_ready_companion(scene: Scene) -> None:
    scene.start()
    scene.pod(READY)
    scene.answer()
    assert scene.until_ready().state is State.RUNNING


UNRECOVERABLE: dict[str, tuple[Json, str]] = {
    "not-installed": (
        {"phase": "Running", "containerStatuses": container(state=ended(127))},
        "cannot start tensorboard of digits: the pod p exited with code 127\nmain of p\n\nwithout end",
    ),
    "repeated-failures": (
        {
            "phase": "Running",
            "containerStatuses": container(1, state=waiting("CrashLoopBackOff"), lastState=ended(3)),
        },
        "cannot start tensorboard of digits: the pod p exited with code 3 (2 times)\nmain of p\n\nwithout end",
    ),
    "evicted": (
        {"phase": "Failed", "reason": "Evicted"},
        "cannot start tensorboard of digits: the pod p has failed",
    ),
}


@pytest.mark.parametrize(("status", "words"), UNRECOVERABLE.values(), ids=UNRECOVERABLE.keys())
def test_wait_ends_when_the_companion_keeps_failing(scene: Scene, status: Json, words: str) -> None:
    scene.start()
    scene.pod(status)
    with pytest.raises(RejectedError) as error:
        scene.until_ready()
    assert str(error.value) == words


LATE: dict[str, tuple[Json | None, str]] = {
    "no-pod": (None, "its pod is not created yet"),
    "no-node": ({"phase": "Pending", "conditions": [UNSCHEDULED]}, "pod p is not scheduled: 0/1 nodes"),
    "image": (
        {"phase": "Pending", "containerStatuses": container(state=waiting("ImagePullBackOff", "no i"))},
        "pod p is waiting: ImagePullBackOff: no i",
    ),
    "one-failure": (
        {"phase": "Running", "containerStatuses": container(state=ended(1))},
        "main of p\n\nwithout end",
    ),
}


@pytest.fixture
def short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every timeout expire after the first check."""
    watched = PodWatcher.run_while_watching

    async def briefly(self: PodWatcher, *works: Coroutine[Any, Any, Any], **options: Any) -> Any:
        async def time_is_over() -> NoReturn:
            await self.wait_until(lambda: self.had_no_pod or bool(self.pods))
            raise TimeoutError

        return await watched(self, *works, time_is_over(), **options)

    monkeypatch.setattr(PodWatcher, "run_while_watching", briefly)


@pytest.mark.usefixtures("short_time")
@pytest.mark.parametrize(("status", "words"), LATE.values(), ids=LATE.keys())
def test_timeout_reports_why_the_companion_is_not_ready(
    scene: Scene, status: Json | None, words: str
) -> None:
    scene.start()
    if status is not None:
        scene.pod(status)
    with pytest.raises(TimedOutError) as error:
        scene.until_ready(100.0)
    assert str(error.value).startswith("tensorboard of digits is not ready within 100 s")
    assert words in str(error.value)


def test_missing_companion_is_reported(scene: Scene) -> None:
    scene.start(Companion.JUPYTER)
    scene.start(job="numbers")
    scene.place.submit(jobs.framework("bare", jobs.role()))
    for job, words in {
        "digits": r"digits has no tensorboard, only jupyter\. Add `tensorboard: {}` to its job file, .*"
        r"`windlass submit FILE --companions-only`",
        "bare": r"bare has no tensorboard\. Add `tensorboard: {}`",
        "number": r'there is no job "number" .* Did you mean "numbers"\?',
        "missing": 'there is no job "missing" in the namespace',
    }.items():
        with pytest.raises(ObjectNotFoundError, match=words):
            scene.find(job)


# New passwords


def renewed(scene: Scene, companion: Companion, user: str = ALL_USERS) -> str:
    async def work(connection: Connection) -> str:
        view = await companion_status.find(connection, "digits", companion)
        return await companion_passwords.renew(connection, view, user)

    return scene.use(work)


def hashes_of(scene: Scene, companion: Companion) -> dict[str, str]:
    """Return the hashes in the Secret and the annotation of the Deployment."""
    name = servers.name_of("digits", companion)
    secret = scene.client.get(scene.path("secrets", name)).expect(200).body
    found = password_files.hashes_in(companion, secret["data"])
    deployment = scene.client.get(scene.path("deployments", name)).expect(200).body
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations == servers.password_annotation(companion, found)
    return found


def test_new_password_of_jupyter(scene: Scene) -> None:
    scene.start(Companion.JUPYTER, hashes={ALL_USERS: passwords.jupyter_hash("old")})
    password = renewed(scene, Companion.JUPYTER)
    hashed = hashes_of(scene, Companion.JUPYTER)[ALL_USERS]
    assert passwords.verify_jupyter(hashed, password)
    assert not passwords.verify_jupyter(hashed, "old")
    assert renewed(scene, Companion.JUPYTER) != password


@pytest.mark.parametrize("others", [{"grace": "hers"}, {ALL_USERS: "theirs"}], ids=["each", "shared"])
def test_new_password_of_one_user(scene: Scene, others: dict[str, str]) -> None:
    before = {user: passwords.hub_hash(text) for user, text in {**others, "ada": "old"}.items()}
    scene.start(Companion.HUB, hashes=before)
    password = renewed(scene, Companion.HUB, "ada")
    after = hashes_of(scene, Companion.HUB)
    assert passwords.verify_hub(after.pop("ada"), password)
    assert after == {user: before[user] for user in others}


def test_password_of_an_own_secret_is_not_changed(scene: Scene) -> None:
    scene.start(Companion.HUB, hashes={"ada": passwords.hub_hash("old")})
    scene.start(Companion.JUPYTER)
    for companion, user, words in (
        (Companion.HUB, "Eve", 'hub of digits has no user "eve", only ada'),
        (Companion.JUPYTER, ALL_USERS, "the password of jupyter of digits is in your own Secret"),
    ):
        with pytest.raises(ClientError, match=words):
            renewed(scene, companion, user)


def test_unused_secret_is_not_changed(scene: Scene) -> None:
    """The Secret belongs to an earlier job file."""
    scene.start(Companion.JUPYTER, hashes={ALL_USERS: "a hash"}, secret="mine")  # noqa: S106
    with pytest.raises(ObjectNotFoundError, match="the password of jupyter of digits is in your own Secret"):
        renewed(scene, Companion.JUPYTER)


def test_only_users_of_the_hub_get_a_password(scene: Scene) -> None:
    """User names of a hub are in lower case."""
    before = {ALL_USERS: passwords.hub_hash("theirs"), "ada": passwords.hub_hash("old")}
    files = {"hub.json": '{"users": ["Ada", "ben"]}'}
    scene.start(Companion.HUB, hashes=before, files=files)
    for user in ("ADA", "Ben"):
        password = renewed(scene, Companion.HUB, user)
        assert passwords.verify_hub(hashes_of(scene, Companion.HUB)[user.lower()], password)
    with pytest.raises(ObjectNotFoundError, match='hub of digits has no user "eve", only ada, ben'):
        renewed(scene, Companion.HUB, "eve")
    assert set(hashes_of(scene, Companion.HUB)) == {ALL_USERS, "ada", "ben"}


def test_deleted_companion_ends_the_wait(scene: Scene) -> None:
    scene.start()
    view = scene.view()
    scene.client.delete(scene.path("deployments", view.name)).expect(200)
    with pytest.raises(ObjectDeletedError, match=r"^tensorboard of digits was deleted meanwhile$"):
        scene.use(
            lambda connection: workload_watcher.wait_until(connection, DEPLOYMENTS, view, lambda _: True)
        )


def test_secret_in_another_format_is_rejected(scene: Scene) -> None:
    scene.start(Companion.JUPYTER, hashes={ALL_USERS: "a hash"})
    change = {"data": None, "stringData": {password_files.JUPYTER_FILE: msgspec.json.encode([]).decode()}}
    scene.client.patch(scene.path("secrets", "digits-jupyter"), change).expect(200)
    with pytest.raises(
        ClientError, match="the Secret digits-jupyter contains no passwords in the format of Windlass"
    ):
        renewed(scene, Companion.JUPYTER)
