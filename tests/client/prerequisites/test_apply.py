"""Prerequisites of a job: the order of creation, and cleanup after failures.

No controller runs the Jobs and Deployments: the tests write their statuses.
"""

import asyncio
import base64
import concurrent.futures
import contextlib
import json
import os
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from in_process_cluster import ClusterNamespace

from conformance.client import Json
from windlass.client import connection, watch
from windlass.client.connection import Connection
from windlass.client.errors import (
    ClientError,
    InvalidJobError,
    ObjectNotFoundError,
    RejectedError,
    TimedOutError,
)
from windlass.client.pod_watcher import FATAL_COUNT, PodWatcher
from windlass.client.prerequisites import apply as prerequisites_apply
from windlass.client.submit import sources, submission
from windlass.client.submit.plan import SubmitOptions
from windlass.kubeapi.errors import ForbiddenError
from windlass.kubeapi.reflector import ResourceEvent
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import EVENTS, Resource
from windlass.localcluster.apiserver.openapi import discovery
from windlass.model import names
from windlass.model.failures import ApiFailure
from windlass.model.framework import Framework

JOB: Json = {
    "name": "digits",
    "image": "python:3.12",
    "command": "python train.py",
    "roles": {"worker": {"tasks": 2}},
}
SECRETS: Json = {**JOB, "secrets": {"TOKEN": 'a "b": #c'}}
NEEDS: Json = {
    **SECRETS,
    "volumes": {"data": {"nfs": {"server": "nfs.example", "path": "/exports/data"}, "at": "/data"}},
    "needs": ["/data/train.csv"],
}
LOADS: Json = {
    **SECRETS,
    "volumes": {"data": {"hostPath": "/srv/data", "at": "/data"}},
    "loadData": [{"command": "touch a", "to": "/data/digits"}],
}
SHARES: Json = {
    **SECRETS,
    "nfsServer": {"size": "1Gi"},
    "volumes": {"data": {"share": "/data", "at": "/data"}},
}
MPI: Json = {**JOB, "runtime": "mpi", "roles": {"launcher": {}, "worker": {"tasks": 2}}}
SECONDS = 120.0


class Submission:
    """A submission in a thread."""

    def __init__(self, place: ClusterNamespace, given: Any, folder: Path | None, **options: Any) -> None:
        self.place = place
        self.told: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._work: asyncio.Task[Framework] | None = None
        self._source = sources.read(given, folder)
        self._options = options
        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        self._done = self._pool.submit(self._run)

    def result(self) -> Framework:
        return self._done.result(SECONDS)

    def press_ctrl_c(self) -> None:
        """Cancel the task, as asyncio does on Ctrl-C."""
        assert self._work is not None
        self._loop.call_soon_threadsafe(self._work.cancel)

    def close(self) -> None:
        self._pool.shutdown()

    def _run(self) -> Framework:
        try:
            self._work = self._loop.create_task(self._submit())
            return self._loop.run_until_complete(self._work)
        finally:
            self._loop.close()

    async def _submit(self) -> Framework:
        place = self.place
        async with connection.connected(str(place.kubeconfig), namespace=place.name) as here:
            options = SubmitOptions(**self._options)
            (applied,) = await submission.submit(
                here, self._source, options, lambda progress: self.told.append(str(progress))
            )
            assert applied.framework is not None
            return applied.framework


class Scene:
    """The cluster, with the actions of controllers as methods."""

    def __init__(self, place: ClusterNamespace) -> None:
        self.place = place
        self.client = place.client
        self._begun: list[Submission] = []

    def begin(self, given: Any, folder: Path | None = None, **options: Any) -> Submission:
        self._begun.append(Submission(self.place, given, folder, **options))
        return self._begun[-1]

    def submit(self, given: Any, folder: Path | None = None, **options: Any) -> Framework:
        return self.begin(given, folder, **options).result()

    def close(self) -> None:
        for each in self._begun:
            each.close()

    def path(self, kind: str, name: str = "") -> str:
        groups = {"deployments": "apps/v1", "jobs": "batch/v1"}
        root = f"/apis/{groups[kind]}" if kind in groups else "/api/v1"
        return f"{root}/namespaces/{self.place.name}/{kind}" + (f"/{name}" if name else "")

    def get(self, kind: str, name: str) -> Json | None:
        answer = self.client.get(self.path(kind, name))
        return answer.body if answer.code == 200 else None

    def wait_for(self, kind: str, name: str) -> Json:
        return self.place.wait_for(f"{kind}/{name}", lambda: self.get(kind, name))

    def wait_until_gone(self, kind: str, name: str) -> None:
        self.place.wait_for(f"{kind}/{name} to be gone", lambda: self.get(kind, name) is None)

    def set_status(self, kind: str, name: str, status: Json) -> None:
        self.client.patch(f"{self.path(kind, name)}/status", {"status": status}).expect(200)

    def finish_preflight(self, phase: str = "Succeeded", said: str = "") -> None:
        pod = self.wait_for("pods", "digits-preflight")
        container = pod["spec"]["containers"][0]["name"]
        statuses = [ended_status(container, 0 if phase == "Succeeded" else 1, said)]
        self.set_status("pods", "digits-preflight", {"phase": phase, "containerStatuses": statuses})

    def finish_loading(self, kind: str = "Complete", message: str = "") -> None:
        self.wait_for("jobs", "digits-load-data")
        now = "2026-01-01T00:00:00Z"
        before = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
        conditions = [
            {"type": each, "status": "True", "reason": "Test", "message": message, "lastTransitionTime": now}
            for each in (before, kind)
        ]
        times = {"startTime": now, **({"completionTime": now} if kind == "Complete" else {})}
        self.set_status("jobs", "digits-load-data", {"conditions": conditions, **times})

    def start_server(self) -> None:
        made = self.wait_for("deployments", "digits-nfs")
        counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
        seen = made["metadata"]["generation"]
        self.set_status("deployments", "digits-nfs", {**counts, "observedGeneration": seen})

    def tell(self, pod: Json, reason: str, message: str, count: int, kind: str = "Warning") -> None:
        meta = pod["metadata"]
        involved = {"kind": "Pod", "namespace": self.place.name, "name": meta["name"], "uid": meta["uid"]}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{meta['name']}.1"},
            "involvedObject": {"apiVersion": "v1", **involved},
            "type": kind,
            "reason": reason,
            "message": message,
            "count": count,
        }
        self.client.post(self.path("events"), body).expect(201)

    @property
    def has_framework(self) -> bool:
        return self.client.get(self.place.framework_path("digits")).code == 200

    def owner_of(self, kind: str, name: str) -> str:
        found = self.get(kind, name)
        assert found is not None
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Framework", "digits")
        return str(owner["uid"])


@pytest.fixture
def scene(place: ClusterNamespace) -> Iterator[Scene]:
    with contextlib.closing(Scene(place)) as made:
        yield made


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that does not report to be an embedded one."""
    said = {**discovery.version(), "gitVersion": "v1.35.0"}
    monkeypatch.setattr(discovery, "version", lambda: said)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the requests of clients, except watches."""
    made: list[str] = []
    send = Connection.send

    async def recorded(self: Connection, request: Request) -> bytes:
        made.append(f"{request.verb} {request.resource.plural or request.path}")
        return await send(self, request)

    monkeypatch.setattr(Connection, "send", recorded)
    return made


# Order and requests


def test_job_without_prerequisites_sends_no_extra_requests(scene: Scene, sent: list[str]) -> None:
    scene.submit(JOB)
    assert [each.partition("/")[0] for each in sent] == [
        "get frameworks",
        "get frameworks",
        "get ",
        "create frameworks",
    ]


def test_secrets_are_created_first_and_deleted_with_the_framework(scene: Scene, sent: list[str]) -> None:
    created = scene.submit(SECRETS)
    assert sent[3:] == ["create secrets", "create frameworks", "patch secrets"]
    assert scene.owner_of("secrets", "digits-secrets") == created.uid
    scene.place.delete("digits", "Foreground")
    scene.wait_until_gone("secrets", "digits-secrets")


def test_ssh_key_is_new_for_each_submission_and_deleted_with_the_framework(
    scene: Scene, kubernetes: None
) -> None:
    first = scene.submit(MPI)
    before = scene.wait_for("secrets", "digits-ssh")
    assert scene.owner_of("secrets", "digits-ssh") == first.uid
    scene.place.wait_for_completed("digits")
    second = scene.submit(MPI, is_rerun=True)
    after = scene.wait_for("secrets", "digits-ssh")
    assert scene.owner_of("secrets", "digits-ssh") == second.uid
    assert before["metadata"]["uid"] != after["metadata"]["uid"]
    keys = [base64.b64decode(each["data"]["id_ed25519"]) for each in (before, after)]
    assert keys[0] != keys[1]
    for key, each in zip(keys, (before, after), strict=True):
        public = serialization.load_ssh_private_key(key, None).public_key()
        encoded = public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        assert base64.b64decode(each["data"]["authorized_keys"]) == encoded + b"\n"
    written = json.dumps(scene.place.framework("digits"))
    assert not any(each["data"]["id_ed25519"][200:240] in written for each in (before, after))
    scene.place.delete("digits", "Foreground")
    scene.wait_until_gone("secrets", "digits-ssh")


def test_preflight_runs_first_and_its_pod_is_deleted(scene: Scene, sent: list[str]) -> None:
    going = scene.begin(NEEDS)
    scene.wait_for("pods", "digits-preflight")
    assert not scene.has_framework
    scene.finish_preflight()
    assert going.result().name == "digits"
    assert sent[3:] == [
        "create secrets",
        "create pods",
        "delete pods",
        "create frameworks",
        "patch secrets",
    ]
    assert scene.get("pods", "digits-preflight") is None
    assert going.told[-1] == "digits: preflight: all files exist"


def test_data_is_loaded_first_and_its_job_is_deleted_with_the_framework(scene: Scene) -> None:
    going = scene.begin(LOADS)
    scene.finish_loading()
    created = going.result()
    assert scene.owner_of("jobs", "digits-load-data") == created.uid
    assert "digits: data loaded" in going.told


def test_volumes_on_kubernetes_use_the_service_address(scene: Scene, kubernetes: None) -> None:
    going = scene.begin(SHARES)
    address = scene.wait_for("services", "digits-nfs")["spec"]["clusterIP"]
    assert not scene.has_framework
    scene.start_server()
    preflight = scene.wait_for("pods", "digits-preflight")
    scene.finish_preflight()
    going.result()
    (role,) = scene.place.framework("digits")["spec"]["taskRoles"]
    for spec in (preflight["spec"], role["task"]["pod"]["spec"]):
        data = next(volume for volume in spec["volumes"] if volume["name"] == "data")
        assert data["nfs"] == {"server": address, "path": "/data"}
    for kind in ("deployments", "services", "configmaps", "persistentvolumeclaims"):
        assert "ownerReferences" not in scene.wait_for(kind, "digits-nfs")["metadata"], "it is kept"


def test_embedded_cluster_needs_no_nfs_server(scene: Scene) -> None:
    going = scene.begin(SHARES)
    scene.finish_preflight()
    going.result()
    assert scene.get("deployments", "digits-nfs") is None
    assert scene.get("services", "digits-nfs") is None
    (role,) = scene.place.framework("digits")["spec"]["taskRoles"]
    spec = role["task"]["pod"]["spec"]
    data = next(volume for volume in spec["volumes"] if volume["name"] == "data")
    assert data["persistentVolumeClaim"]["claimName"] == "digits-nfs"


def test_second_submission_reuses_server_and_claim(scene: Scene, kubernetes: None) -> None:
    first = scene.begin(SHARES)
    scene.start_server()
    scene.finish_preflight()
    first.result()
    kinds = ("deployments", "services", "configmaps", "persistentvolumeclaims")
    before = [scene.wait_for(kind, "digits-nfs")["metadata"]["uid"] for kind in kinds]
    scene.place.wait_for_completed("digits")
    second = scene.begin(SHARES, is_rerun=True)
    scene.finish_preflight()
    assert second.result().uid != first.result().uid
    assert [scene.wait_for(kind, "digits-nfs")["metadata"]["uid"] for kind in kinds] == before
    assert scene.owner_of("secrets", "digits-secrets") == second.result().uid
    again = [line for line in second.told if "reused" in line]
    assert len(again) == len(kinds)


def test_preflight_can_be_skipped(scene: Scene) -> None:
    assert scene.submit(NEEDS, preflight_seconds=None).name == "digits"


# Failures


def refused_mount(scene: Scene) -> None:
    pod = scene.wait_for("pods", "digits-preflight")
    said = 'MountVolume.SetUp failed for volume "data" : mount failed: exit status 32'
    scene.tell(pod, "FailedMount", said, FATAL_COUNT)


def missing_file(scene: Scene) -> None:
    scene.finish_preflight("Failed", "/data/train.csv is not there: it should be elsewhere")


def deleted(scene: Scene) -> None:
    pod = scene.wait_for("pods", "digits-preflight")
    scene.client.delete(scene.path("pods", pod["metadata"]["name"])).expect(200)


def failed_load(scene: Scene) -> None:
    scene.finish_loading("Failed", "Job has reached the specified backoff limit")


def failed_step(scene: Scene) -> None:
    """Containers write their own names here."""
    job = scene.wait_for("jobs", "digits-load-data")
    template = job["spec"]["template"]
    metadata = {"name": "digits-load-data-x", "labels": job["spec"]["selector"]["matchLabels"]}
    spec = {**template["spec"], "nodeName": "hollow"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    scene.client.post(scene.path("pods"), pod).expect(201)
    name = template["spec"]["initContainers"][0]["name"]
    status = {"phase": "Failed", "initContainerStatuses": [ended_status(name, 3)]}
    scene.set_status("pods", "digits-load-data-x", status)
    scene.finish_loading("Failed", "Job has reached the specified backoff limit")


def ended_status(container: str, code: int, said: str = "") -> Json:
    return {
        "name": container,
        "image": "x",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": {"exitCode": code, "message": said}},
    }


FAILURES: dict[str, tuple[Json, Callable[[Scene], None], type[ClientError], str]] = {
    "a mount": (
        NEEDS,
        refused_mount,
        RejectedError,
        r"cannot mount volume data \(/exports/data on the NFS server nfs.example\): .*exit status 32",
    ),
    "a file": (NEEDS, missing_file, RejectedError, r"/data/train.csv is not there: it should be elsewhere"),
    "deleted pod": (NEEDS, deleted, ClientError, "its pod was deleted"),
    "data": (LOADS, failed_load, RejectedError, "cannot load the data of the job: .*backoff limit"),
    "a step": (
        LOADS,
        failed_step,
        RejectedError,
        "cannot load the data of the job: step load-0 exited with code 3: load-0 of digits-load-data-x",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_failure_leaves_no_objects(case: str, scene: Scene) -> None:
    given, happen, kind, message = FAILURES[case]
    going = scene.begin(given)
    happen(scene)
    with pytest.raises(kind, match=message):
        going.result()
    assert not scene.has_framework
    for plural, name in (
        ("secrets", "digits-secrets"),
        ("pods", "digits-preflight"),
        ("jobs", "digits-load-data"),
    ):
        scene.wait_until_gone(plural, name)


def test_preflight_times_out(scene: Scene) -> None:
    with pytest.raises(
        TimedOutError, match=r"the preflight .*--no-preflight.* has not finished within 0\.5 s"
    ):
        scene.submit(NEEDS, preflight_seconds=0.5)
    assert not scene.has_framework
    assert scene.get("pods", "digits-preflight") is None


def test_image_pull_extends_the_timeout(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()

    def has_started_pulling(_: PodWatcher) -> bool:
        asked.set()
        return True

    monkeypatch.setattr(PodWatcher, "has_started_pulling", property(has_started_pulling))
    going = scene.begin(NEEDS, preflight_seconds=0.1)
    assert asked.wait(SECONDS), "the timeout has expired"
    scene.finish_preflight()
    assert going.result().name == "digits"


def test_volumes_are_mounted_before_an_image_is_pulled(scene: Scene) -> None:
    going = scene.begin(NEEDS)
    pod = scene.wait_for("pods", "digits-preflight")

    async def look(here: Connection) -> None:
        watcher = PodWatcher(here, name="digits-preflight")
        watches = [asyncio.ensure_future(each) for each in watcher.watches()]
        try:
            async with asyncio.timeout(SECONDS):
                while not watcher.pods:
                    await asyncio.sleep(0.01)
                assert not watcher.has_started_pulling
                await asyncio.to_thread(scene.tell, pod, "Pulling", "Pulling image", 1, kind="Normal")
                while not watcher.has_started_pulling:
                    await asyncio.sleep(0.01)
        finally:
            for each in watches:
                each.cancel()
            await asyncio.gather(*watches, return_exceptions=True)

    async def connected() -> None:
        place = scene.place
        async with connection.connected(str(place.kubeconfig), namespace=place.name) as here:
            await look(here)

    asyncio.run(connected())
    scene.finish_preflight()
    going.result()


def test_submission_works_without_permission_for_events(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    news = watch.watch_objects

    async def partly(
        here: Connection, resource: Resource, **selectors: Any
    ) -> AsyncGenerator[ResourceEvent, None]:
        if resource == EVENTS:
            raise ForbiddenError(ApiFailure(403, "Forbidden", "events are not for you"))
        async with contextlib.aclosing(news(here, resource, **selectors)) as changes:
            async for change in changes:
                yield change

    monkeypatch.setattr(watch, "watch_objects", partly)
    going = scene.begin(NEEDS)
    scene.finish_preflight()
    assert going.result().name == "digits"


def test_storage_is_kept_and_named_when_the_nfs_server_times_out(
    scene: Scene, kubernetes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prerequisites_apply, "SERVER_SECONDS", 0.5)
    with pytest.raises(
        TimedOutError, match=r"digits-nfs is not ready.*are kept: .*PersistentVolumeClaim digits-nfs"
    ):
        scene.submit(SHARES)
    assert not scene.has_framework
    assert scene.get("secrets", "digits-secrets") is None
    assert scene.get("persistentvolumeclaims", "digits-nfs") is not None


def test_ctrl_c_leaves_only_storage(scene: Scene) -> None:
    going = scene.begin({**SHARES, "loadData": [{"command": "touch a", "to": "/data/a"}]})
    scene.wait_for("jobs", "digits-load-data")
    going.press_ctrl_c()
    with pytest.raises(asyncio.CancelledError):
        going.result()
    assert not scene.has_framework
    for plural, name in (("secrets", "digits-secrets"), ("jobs", "digits-load-data")):
        scene.wait_until_gone(plural, name)
    assert scene.get("persistentvolumeclaims", "digits-nfs") is not None
    assert (
        going.told[-1]
        == "digits: These objects for the job's files were created and are kept: PersistentVolumeClaim digits-nfs."
    )


def test_rejected_framework_deletes_its_secret(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    send = Connection.send

    async def unlucky(self: Connection, request: Request) -> bytes:
        if request.verb is Verb.CREATE and request.resource.plural == names.PLURAL:
            raise RejectedError("no more Frameworks today")
        return await send(self, request)

    monkeypatch.setattr(Connection, "send", unlucky)
    with pytest.raises(RejectedError, match="no more Frameworks"):
        scene.submit(SECRETS)
    assert scene.get("secrets", "digits-secrets") is None


def test_missing_namespace_is_reported(scene: Scene) -> None:
    with pytest.raises(
        ObjectNotFoundError, match=r'Secret digits-secrets: .*"nowhere" not found.*create it first'
    ):
        scene.submit({**SECRETS, "namespace": "nowhere"})


def test_missing_kind_is_reported(scene: Scene) -> None:
    ceph = {"clusterID": "a", "fsName": "b", "secret": "c"}
    given = {**SECRETS, "volumes": {"data": {"cephfs": ceph, "at": "/data"}}}
    with pytest.raises(RejectedError, match="has no kind PersistentVolume, which the job needs"):
        scene.submit(given)
    assert scene.get("secrets", "digits-secrets") is None


def test_foreign_secret_is_not_changed(scene: Scene) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "digits-secrets"}}
    scene.client.post(scene.path("secrets"), body).expect(201)
    with pytest.raises(
        RejectedError, match=r"Secret digits-secrets of the namespace .* does not belong to the job"
    ):
        scene.submit(SECRETS)
    assert scene.get("secrets", "digits-secrets") is not None
    assert not scene.has_framework


def test_remains_of_a_killed_submission_are_replaced(scene: Scene) -> None:
    left = {"metadata": {"name": "digits-preflight", "labels": {names.JOB_LABEL: "digits"}}}
    spec = {"containers": [{"name": "main", "image": "x"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", **left, "spec": spec}
    old = scene.client.post(scene.path("pods"), pod).expect(201).uid
    going = scene.begin(NEEDS)

    def is_another() -> bool:
        found = scene.get("pods", "digits-preflight")
        return found is not None and found["metadata"]["uid"] != old

    scene.place.wait_for("another pod", is_another)
    scene.finish_preflight()
    assert going.result().name == "digits"


def test_missing_folder_is_reported(scene: Scene, tmp_path: Path) -> None:
    given = {**LOADS, "loadData": [{"folder": "nowhere", "to": "/data/digits"}]}
    with pytest.raises(InvalidJobError, match=r"loadData\[0\]\.folder: .*/nowhere does not exist"):
        scene.submit(given, tmp_path)
    assert scene.get("secrets", "digits-secrets") is None


def test_folder_too_large_for_a_config_map_is_rejected(
    scene: Scene, tmp_path: Path, kubernetes: None
) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "file").write_bytes(os.urandom(1 << 20))
    given = {**LOADS, "loadData": [{"folder": "large", "to": "/data/digits"}]}
    with pytest.raises(ClientError, match=r"loadData: .*/large is larger than .*windlass upload"):
        scene.submit(given, tmp_path)
