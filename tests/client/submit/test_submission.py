"""Submission of jobs: the order of creation, rejections, and what remains after them."""

import asyncio
import base64
import io
import tarfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import in_process_cluster
import msgspec
import pytest
from in_process_cluster import ClusterNamespace, InProcessCluster
from operated import jobs

from windlass.client import connection, wait
from windlass.client.connection import Connection
from windlass.client.errors import (
    ClientError,
    InvalidJobError,
    NotInstalledError,
    ObjectExistsError,
    ObjectNotFoundError,
    RejectedError,
)
from windlass.client.submit import sources, submission
from windlass.client.submit.plan import SubmitOptions
from windlass.client.wait import Until
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ForbiddenError
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import CONFIG_MAPS
from windlass.localcluster.apiserver.openapi import discovery
from windlass.model.base import Json
from windlass.model.failures import ApiFailure
from windlass.model.framework import Framework

T = TypeVar("T")

FOREVER = {"metadata": {"annotations": jobs.FOREVER}}
JOB: Json = {
    "name": "digits",
    "image": "python:3.12",
    "command": "python train.py",
    "roles": {"worker": {"tasks": 2}},
}


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that does not report to be an embedded one."""
    said = {**discovery.version(), "gitVersion": "v1.35.0"}
    monkeypatch.setattr(discovery, "version", lambda: said)


def use(place: ClusterNamespace, work: Callable[[Connection], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with (
            asyncio.timeout(120),
            connection.connected(str(place.kubeconfig), namespace=place.name) as found,
        ):
            return await work(found)

    return asyncio.run(connected())


def submit(
    place: ClusterNamespace, given: Any, *, rerun: bool = False, folder: Path | None = None
) -> Framework:
    source = sources.read(given, folder)
    options = SubmitOptions(is_rerun=rerun)
    (applied,) = use(place, lambda here: submission.submit(here, source, options))
    assert applied.framework is not None
    return applied.framework


def until(place: ClusterNamespace, name: str, wanted: Until) -> None:
    use(place, lambda here: wait.wait(here, name, wanted))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print('training')")
    return tmp_path


def test_code_is_stored_in_a_config_map_of_the_framework(
    place: ClusterNamespace, script: Path, kubernetes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[str] = []
    send = Connection.send

    async def recorded(self: Connection, request: Request) -> bytes:
        if request.verb not in (Verb.GET, Verb.LIST):
            body = msgspec.json.decode(request.body)
            kind = body.get("kind", "change")
            writes.append(f"{request.verb} {kind} {body.get('spec', {}).get('executionType', '')}".strip())
        return await send(self, request)

    monkeypatch.setattr(Connection, "send", recorded)
    created = submit(place, {**JOB, "code": "src"}, folder=script)
    assert writes == ["create Framework Create", "create ConfigMap", "patch change Start"]
    assert created.spec.execution_type == "Start"
    (made,) = (found for name, found in place.config_maps().items() if name == "digits-code")
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Framework", "digits", created.uid)
    assert not owner["blockOwnerDeletion"]
    archive = base64.b64decode(made["binaryData"]["code.tar.gz"])
    with tarfile.open(fileobj=io.BytesIO(archive)) as found:
        assert found.getnames() == ["train.py"]
    until(place, "digits", Until.COMPLETED)
    (pod, *_) = place.pods("digits").values()
    assert pod["spec"]["containers"][0]["workingDir"] == "/windlass/code"


def test_code_is_used_in_place_on_an_embedded_cluster(place: ClusterNamespace, script: Path) -> None:
    submit(place, {**JOB, "code": "src"}, folder=script)
    until(place, "digits", Until.COMPLETED)
    assert "digits-code" not in place.config_maps()
    (pod, *_) = place.pods("digits").values()
    assert pod["spec"]["containers"][0]["workingDir"] == str(script / "src")


def test_job_with_rejected_code_is_deleted(
    place: ClusterNamespace, script: Path, kubernetes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Connection.send

    async def refused(self: Connection, request: Request) -> bytes:
        if request.resource == CONFIG_MAPS and request.verb is Verb.CREATE:
            raise ForbiddenError(ApiFailure(403, "Forbidden", "configmaps are not for you"))
        return await send(self, request)

    monkeypatch.setattr(Connection, "send", refused)
    with pytest.raises(RejectedError, match="deleted again: configmaps are not for you"):
        submit(place, {**JOB, "code": "src"}, folder=script)
    place.wait_until_gone("digits")


def test_foreign_config_map_is_not_changed(place: ClusterNamespace, script: Path, kubernetes: None) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "digits-code"}, "data": {"a": "b"}}
    place.client.post(place.path("configmaps"), body).expect(201)
    with pytest.raises(RejectedError, match=r"digits-code .* was not created by Windlass"):
        submit(place, {**JOB, "code": "src"}, folder=script)
    place.wait_until_gone("digits")
    assert place.config_maps()["digits-code"]["data"] == {"a": "b"}


def test_code_that_another_client_replaces_is_stored(
    place: ClusterNamespace, script: Path, kubernetes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ConfigMap exists, and has another UID when it is deleted."""
    send, sent = Connection.send, list[Verb]()

    async def raced(self: Connection, request: Request) -> bytes:
        if request.resource == CONFIG_MAPS:
            sent.append(request.verb)
            is_first = sent.count(request.verb) == 1
            if is_first and request.verb is Verb.CREATE:
                await send(self, request)
            if is_first and request.verb is Verb.DELETE:
                request = requests.delete(CONFIG_MAPS, place.name, "digits-code", uid="another")
        return await send(self, request)

    monkeypatch.setattr(Connection, "send", raced)
    created = submit(place, {**JOB, "code": "src"}, folder=script)
    assert created.spec.execution_type == "Start"
    once = [Verb.CREATE, Verb.GET, Verb.DELETE]
    assert sent == [*once, *once, Verb.CREATE]


def test_code_of_an_earlier_job_is_replaced(place: ClusterNamespace, script: Path, kubernetes: None) -> None:
    first = submit(place, {**JOB, "code": "src"}, folder=script)
    until(place, "digits", Until.COMPLETED)
    (script / "src" / "more.py").write_text("print()")
    second = submit(place, {**JOB, "code": "src"}, folder=script, rerun=True)
    assert second.uid != first.uid
    until(place, "digits", Until.COMPLETED)
    (owner,) = place.config_maps()["digits-code"]["metadata"]["ownerReferences"]
    assert owner["uid"] == second.uid


def test_finished_job_is_replaced_only_on_request(place: ClusterNamespace) -> None:
    first = submit(place, JOB)
    until(place, "digits", Until.COMPLETED)
    with pytest.raises(ObjectExistsError, match=r"has finished \(Succeeded\).*--rerun"):
        submit(place, JOB)
    second = submit(place, JOB, rerun=True)
    assert second.uid != first.uid
    until(place, "digits", Until.COMPLETED)


@pytest.mark.parametrize("rerun", [False, True])
def test_running_job_is_never_replaced(place: ClusterNamespace, rerun: bool) -> None:
    first = submit(place, {**JOB, "pod": FOREVER})
    until(place, "digits", Until.RUNNING)
    with pytest.raises(ObjectExistsError, match=r"is Running.*windlass stop digits"):
        submit(place, JOB, rerun=rerun)
    assert place.framework("digits")["metadata"]["uid"] == first.uid


def test_job_of_the_other_api_group_has_the_same_name(place: ClusterNamespace) -> None:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.FOREVER), group="launcher.microsoft.com"))
    place.wait_for_running("digits", 1, "launcher.microsoft.com")
    with pytest.raises(ObjectExistsError, match="is Running"):
        submit(place, JOB)


def test_manifests_are_applied_before_the_jobs(place: ClusterNamespace, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    framework = msgspec.json.encode(jobs.framework("digits", jobs.role(life=jobs.SUCCEEDS))).decode()
    for value in ("one", "two"):
        file.write_text(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: words}\n"
            f"data: {{word: {value}}}\n---\n{framework}\n"
        )
        submit(place, file, rerun=True)
        until(place, "digits", Until.COMPLETED)
        assert place.config_maps()["words"]["data"] == {"word": value}


def no_image(_: Path) -> Json:
    return {key: value for key, value in JOB.items() if key != "image"}


def no_code(_: Path) -> Json:
    return {**JOB, "code": "nowhere"}


def misspelt(_: Path) -> Json:
    return {**JOB, "comand": "x"}


def not_json(_: Path) -> Json:
    return {**JOB, "env": {"a": object()}}


def no_file(folder: Path) -> Path:
    return folder / "missing.yaml"


REFUSED: dict[str, tuple[Callable[[Path], Any], type[ClientError], str]] = {
    "no image": (no_image, InvalidJobError, "digits has no image.*image: python"),
    "no code": (no_code, InvalidJobError, "nowhere does not exist"),
    "an unknown field": (misspelt, InvalidJobError, 'Did you mean "command"'),
    "a value that is not JSON": (not_json, InvalidJobError, "cannot be converted to JSON"),
    "a missing file": (no_file, InvalidJobError, "missing.yaml: cannot be read: No such file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_submissions_are_rejected(
    case: str, place: ClusterNamespace, tmp_path: Path, kubernetes: None
) -> None:
    make, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        submit(place, make(tmp_path), folder=tmp_path)
    assert place.client.get(place.framework_path("digits")).code == 404


def test_image_is_optional_on_an_embedded_cluster(place: ClusterNamespace, tmp_path: Path) -> None:
    assert submit(place, no_image(tmp_path)).name == "digits"


def test_missing_namespace_is_reported(place: ClusterNamespace) -> None:
    with pytest.raises(ObjectNotFoundError, match=r'"nowhere" not found.*create it first'):
        submit(place, {**JOB, "namespace": "nowhere"})


def test_cluster_without_windlass_is_reported() -> None:
    with in_process_cluster.opened(is_installed=False) as bare:
        place = bare.new_place()
        with pytest.raises(NotInstalledError, match="windlass install --apply"):
            submit(place, JOB)
        with pytest.raises(NotInstalledError, match="windlass install --apply"):
            until(place, "digits", Until.COMPLETED)


def test_nothing_is_created_if_planning_fails(world: InProcessCluster, tmp_path: Path) -> None:
    place = world.new_place()
    submit(place, {**JOB, "pod": FOREVER})
    file = tmp_path / "two.yaml"
    file.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: words}\n---\n"
        f"{msgspec.json.encode({**JOB, 'name': 'other'}).decode()}\n---\n{msgspec.json.encode(JOB).decode()}\n"
    )
    with pytest.raises(ObjectExistsError):
        use(place, lambda here: submission.submit(here, sources.read(file)))
    assert "words" not in place.config_maps()
    assert place.client.get(place.framework_path("other")).code == 404
