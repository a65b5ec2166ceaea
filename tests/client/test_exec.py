"""Errors of `windlass exec`. Successful commands are tested with real pods."""

import tarfile
from pathlib import Path

import pytest
from operated import jobs
from scripted_cluster import Place, ScriptedCluster

from windlass.client import exec as running
from windlass.client import task_files
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, ObjectNotFoundError, RejectedError
from windlass.client.exec import Streams
from windlass.client.pods import Task
from windlass.kubeapi import streams
from windlass.kubeapi.errors import NotFoundError, UnauthorizedError


@pytest.fixture(scope="module")
def place(world: ScriptedCluster) -> Place:
    place = world.new_scripted_place()
    place.submit(jobs.framework("live", jobs.role(life=jobs.FOREVER), jobs.role("slow", life=jobs.PENDING)))
    place.submit(jobs.framework("over", jobs.role(life=jobs.fails(4)), completedPods="Keep"))
    place.submit(jobs.framework("gone", jobs.role(life=jobs.SUCCEEDS)))
    place.wait_for_running("live", 1)
    place.wait_for_completed("over")
    place.wait_for_completed("gone")
    return place


def execute(place: Place, job: str, task: Task, container: str = "") -> int:
    async def work(connection: Connection) -> int:
        said: list[bytes] = []
        here = Streams(stdout=said.append, stderr=said.append)
        return await running.execute(connection, job, task, ["true"], here, container)

    return place.use(work)


def test_copy_from_a_task_requires_an_extraction_filter(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python before 3.11.4 does not have it."""
    monkeypatch.delattr(tarfile, "data_filter")

    async def work(connection: Connection) -> object:
        return await task_files.download(connection, "live", Task("worker", 0), "/out", tmp_path / "out")

    with pytest.raises(ClientError, match=r"requires Python 3\.11\.4 or later: upgrade Python"):
        place.use(work)


NOT_THERE = {
    "ended": (
        "over",
        Task("worker", 0),
        "",
        "worker-0 is not running: its container main exited with code 4",
    ),
    "not-begun": (
        "live",
        Task("slow", 0),
        "",
        "slow-0 is not running yet. Find out why with `windlass why live`.",
    ),
    "gone": ("gone", Task("worker", 0), "", "worker-0 has no pod. Find out why with `windlass why gone`"),
    "no-such-task": (
        "live",
        Task("worker", 3),
        "",
        "live has no task worker-3; its tasks are worker-0, slow-0",
    ),
    "no-such-container": (
        "live",
        Task("worker", 0),
        "side",
        "worker-0 has no container side; its containers are main",
    ),
    "no-such-job": ("missing", Task("worker", 0), "", 'there is no job "missing"'),
}


@pytest.mark.parametrize(("job", "task", "container", "words"), NOT_THERE.values(), ids=NOT_THERE.keys())
def test_task_without_a_running_container_is_reported(
    place: Place, job: str, task: Task, container: str, words: str
) -> None:
    with pytest.raises(ObjectNotFoundError) as error:
        execute(place, job, task, container)
    assert str(error.value).startswith(words)


def test_command_that_cannot_start_is_reported(place: Place) -> None:
    with pytest.raises(RejectedError, match=r"cannot run true in worker-0: .*nothing runs here"):
        execute(place, "live", Task("worker", 0))


def test_message_of_a_rejected_stream_is_reported(place: Place) -> None:
    """Not only its status code."""
    request = streams.exec_request(place.name, "no-such-pod", "main", ("true",), stdin=False, tty=False)

    async def work(connection: Connection) -> None:
        with pytest.raises(NotFoundError, match='pods "no-such-pod" not found'):
            async with connection.transport.channels(request, streams.EXEC_PROTOCOLS):
                pass

    place.use(work)


def test_rejected_credentials_are_reported(place: Place) -> None:
    from windlass.kubeapi.access import Access
    from windlass.kubeapi.credentials import ClusterConfig
    from windlass.kubeapi.transport import Transport

    request = streams.exec_request(place.name, "live-worker-0", "main", ("true",), stdin=False, tty=False)

    async def work(connection: Connection) -> None:
        known = connection.transport.access
        stranger = Access(
            ClusterConfig(server=known.server, headers=(("Authorization", "Bearer x"),), tls=known._tls)
        )
        async with Transport(stranger) as transport:
            with pytest.raises(UnauthorizedError):
                async with transport.channels(request, streams.EXEC_PROTOCOLS):
                    pass

    place.use(work)
