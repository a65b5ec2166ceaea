"""The Python SDK on real pods, synchronous and asynchronous."""

import asyncio
from pathlib import Path

import pytest
from live import command_line, jobs
from live.clusters import Cluster
from live.place import Place

from windlass import AsyncClient, Client, ClientError, Job, Role


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The program that runs until it is ended."""
    command_line.write(tmp_path, {f"src/{path}": text for path, text in command_line.CODE.items()})
    return tmp_path


def job(name: str, command: str = "python3 main.py") -> Job:
    return Job(
        name=name,
        image=jobs.IMAGE,
        code="src",
        command=command,
        roles={"worker": Role(tasks=2)},
        pod=command_line.SHORT_GRACE,
    )


def test_synchronous_client(cluster: Cluster, place: Place, folder: Path) -> None:
    with Client(cluster.kubeconfig, namespace=place.name) as client:
        assert client.submit(job("one"), folder=folder).name == "one"
        running = client.wait("one", until="running", timeout=command_line.SECONDS)
        assert (running.running, running.total) == (2, 2)
        with pytest.raises(ClientError, match=r"already exists in .* and is Running"):
            client.submit(job("one"), folder=folder, rerun=True)
        lines = client.logs("one", "worker-1", follow=True)
        assert next(lines).text == "worker-1 begins"
        assert client.scale("one", worker=3).roles == {"worker": 3}
        assert client.wait("one", until="running", timeout=command_line.SECONDS).running == 3
        assert {event.reason for event in client.events("one") if event.object == "one"} >= {"AttemptStarted"}
        client.stop("one")
        done = client.wait("one", timeout=command_line.SECONDS)
        assert (done.state, done.code) == ("Stopped", -210)
        assert not list(lines), "it said more than it wrote"
        assert client.why("one").job == "one"
        assert [found.name for found in client.list()] == ["one"]
        client.delete("one", timeout=command_line.SECONDS)
        assert not place.pods()
        assert not client.list()


def test_asynchronous_client(cluster: Cluster, place: Place, folder: Path) -> None:
    """Two jobs at once."""

    async def run(client: AsyncClient, name: str, exits: int) -> list[str]:
        script = f"echo {name} speaks; exit {exits}"
        await client.submit(job(name, command=script), folder=folder)
        done = await client.wait(name, timeout=command_line.SECONDS)
        assert done.code == exits
        return [line.text async for line in client.logs(name) if line.task == "worker-1"]

    async def story() -> None:
        async with AsyncClient(cluster.kubeconfig, namespace=place.name) as client:
            said = await asyncio.gather(run(client, "good", 0), run(client, "bad", 5))
            assert said[0] == ["good speaks"]
            explained = await client.why("bad")
            assert explained.failure is not None
            assert explained.failure.code == 5
            again = await client.submit(job("good", command="true"), folder=folder, rerun=True)
            assert (await client.wait("good", timeout=command_line.SECONDS)).uid == again.uid
            await asyncio.gather(
                *(client.delete(name, timeout=command_line.SECONDS) for name in ("good", "bad"))
            )

    asyncio.run(story())
    assert not place.pods()
