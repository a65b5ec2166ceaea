"""The daemon's hold on the spawner, when that ends while pods wait for it. What it spawns is not started here."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.localcluster.kubelet.spawner_client import CannotSpawnError, SpawnerClient
from windlass.localcluster.sandbox import messages
from windlass.localcluster.sandbox.channel import Channel, pair
from windlass.localcluster.sandbox.process import launcher
from windlass.localcluster.sandbox.process.launcher import Launched, SpawnerOptions

PATIENCE_SECONDS = 30.0
READY = messages.Ready(has_namespaces=False, gateway="", prefix_length=0, nameservers=(), notes=())


class Spawners:
    """The far ends of the channels to those that were launched, which are dead processes otherwise."""

    def __init__(self) -> None:
        self.ends: list[Channel[messages.ToSpawner]] = []

    def launch(self, _: SpawnerOptions) -> Launched:
        ours, theirs = pair(messages.FromSpawner, messages.ToSpawner)
        self.ends.append(theirs)
        return Launched(subprocess.Popen([sys.executable, "-c", ""]), ours)

    def end(self, number: int) -> None:
        self.ends[number].socket.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def spawners(monkeypatch: pytest.MonkeyPatch) -> Spawners:
    spawners = Spawners()
    monkeypatch.setattr(launcher, "launch", spawners.launch)
    return spawners


@pytest.fixture
def spawning(tmp_path: Path) -> SpawnerClient:
    return SpawnerClient(SpawnerOptions(folder=tmp_path, cluster="test"), tmp_path / "pods")


def test_caller_during_loss_of_spawner_waits_for_the_next_one(
    spawners: Spawners, spawning: SpawnerClient
) -> None:
    """Earlier callers get an error. A caller that comes before they have got it waits for the next spawner."""

    async def asked() -> set[str]:
        asking = [asyncio.create_task(spawning.ready())]
        while not spawners.ends:
            await asyncio.sleep(0)
        spawners.end(0)
        while not asking[0].done():
            asking.append(asyncio.create_task(spawning.ready()))
            await asyncio.sleep(0)
        assert len(spawners.ends) == 2, "no caller came in between"
        spawners.ends[1].send(READY)
        _, waiting = await asyncio.wait(asking, timeout=PATIENCE_SECONDS)
        for each in waiting:
            each.cancel()
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
        await spawning.stop()
        return {type(each).__name__ for each in outcomes}

    assert asyncio.run(asked()) == {messages.Ready.__name__, CannotSpawnError.__name__}


def test_cancellation_together_with_the_response_is_raised(
    spawners: Spawners, spawning: SpawnerClient
) -> None:
    """A cluster that stops waits for all cancelled tasks."""

    async def asked() -> bool:
        asking = asyncio.create_task(spawning.ready())
        while not spawners.ends:
            await asyncio.sleep(0)
        ready = spawning._ready
        assert ready is not None
        ready.add_done_callback(lambda _: asking.cancel())
        spawners.ends[0].send(READY)
        await asyncio.wait({asking}, timeout=PATIENCE_SECONDS)
        await spawning.stop()
        return asking.cancelled()

    assert asyncio.run(asked())
