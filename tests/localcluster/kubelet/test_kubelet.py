"""The kubelet in a cluster of this process: disk pressure and failed commits."""

import asyncio
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from windlass.localcluster.cluster import ClusterOptions, LocalCluster
from windlass.localcluster.kubelet import eviction
from windlass.localcluster.kubelet.lifecycle import back_off
from windlass.localcluster.kubelet.lifecycle.records import ContainerRecord
from windlass.localcluster.kubelet.pods import disk
from windlass.localcluster.kubelet.pods.worker import PodWorker
from windlass.localcluster.store import Store
from windlass.localcluster.store_types import Change

PODS = "http://local/api/v1/namespaces/default/pods"
FOREVER = "while true; do sleep 1000; done"
WRITE_3_MB = "head -c 3000000 /dev/zero | tr '\\0' x; echo written"
PATIENCE_SECONDS = 60


@pytest.mark.parametrize("end", [FOREVER, "exit 1"], ids=["running", "waiting for its restart"])
def test_full_disk_evicts_the_largest_unfinished_pod(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(back_off, "restart_time", restart_after_an_hour)
    evicted = record_evictions(monkeypatch)

    async def test(session: aiohttp.ClientSession) -> None:
        await create(session, "small", FOREVER)
        await until_phase(session, "small", "Running")
        await create(session, "large", f"{WRITE_3_MB}; {end}", "Always")
        await until_written(session, "large")
        simulate_disk(monkeypatch, tmp_path / "pods", free_bytes=2 << 20)
        assert (await until_phase(session, "large", "Failed"))["reason"] == "Evicted"
        simulate_disk(monkeypatch, tmp_path / "pods", free_bytes=2 << 20)
        await create(session, "other", "exit 0")
        await until_phase(session, "other", "Succeeded")
        assert evicted == ["large"], "the eviction of a small pod would not free enough"

    asyncio.run(with_cluster(tmp_path, test))


def test_full_disk_deletes_files_of_ended_pods_before_it_evicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "CHECK_SECONDS", 0.05)
    evicted = record_evictions(monkeypatch)

    async def test(session: aiohttp.ClientSession) -> None:
        await create(session, "innocent", f"{WRITE_3_MB}; {WRITE_3_MB}; {FOREVER}")
        await until_written(session, "innocent")
        await create(session, "ended", f"{WRITE_3_MB}; exit 3")
        await until_phase(session, "ended", "Failed")
        simulate_disk(monkeypatch, tmp_path / "pods", free_bytes=2 << 20)
        while disk.shortage(tmp_path) is not None:
            await asyncio.sleep(0.05)
        assert evicted == []
        assert "reason" not in await until_phase(session, "ended", "Failed")
        assert "written" in await read(session, "innocent/log")

    asyncio.run(with_cluster(tmp_path, test))


def restart_after_an_hour(container: ContainerRecord, now: datetime) -> datetime | None:
    return now + timedelta(hours=1) if container.latest_end else None


def simulate_disk(monkeypatch: pytest.MonkeyPatch, folder: Path, free_bytes: int) -> None:
    """Simulate a disk with this number of free bytes, and more when files in the folder are deleted."""
    before = disk.usage(folder).bytes

    def statvfs(_: object) -> Any:
        free = free_bytes + before - disk.usage(folder).bytes
        return SimpleNamespace(f_bavail=free, f_frsize=1, f_files=0, f_favail=0)

    monkeypatch.setattr(os, "statvfs", statvfs)


def test_status_and_deletion_are_written_again_after_a_failed_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker of a pod learns only after its write that the transaction could not be committed."""

    async def test(session: aiohttp.ClientSession) -> None:
        failed = fail_first_commit(
            monkeypatch, lambda change: b'"phase":"Succeeded"' in (change.after or b"")
        )
        await create(session, "one", "exit 0")
        await until_phase(session, "one", "Succeeded")
        assert failed
        failed = fail_first_commit(monkeypatch, lambda change: change.after is None)
        await create(session, "two", FOREVER)
        await until_phase(session, "two", "Running")
        async with session.delete(f"{PODS}/two", json={"gracePeriodSeconds": 1}) as answer:
            assert answer.status == 200
        while '"code":404' not in await read(session, "two"):
            await asyncio.sleep(0.05)
        assert failed

    asyncio.run(with_cluster(tmp_path, test))


def fail_first_commit(monkeypatch: pytest.MonkeyPatch, is_selected: Callable[[Change], bool]) -> list[Change]:
    """Let the first commit fail that contains a selected change of a pod. Return a list of the lost changes."""
    lost: list[Change] = []
    commit = Store.commit

    def commit_or_fail(store: Store) -> None:
        found = [each for each in store._uncommitted if each.resource == "pods" and is_selected(each)]
        if found and not lost:
            lost.extend(found)
            store._db.execute("ROLLBACK")  # COMMIT fails without a transaction
        commit(store)

    monkeypatch.setattr(Store, "commit", commit_or_fail)
    return lost


def record_evictions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    evicted: list[str] = []
    evict = PodWorker.evict

    def recorded(worker: PodWorker, message: str) -> None:
        evicted.append(worker.pod["metadata"]["name"])
        evict(worker, message)

    monkeypatch.setattr(PodWorker, "evict", recorded)
    return evicted


async def with_cluster(data: Path, test: Any) -> None:
    cluster = LocalCluster(data, ClusterOptions(is_ephemeral=True))
    await cluster.start()
    try:
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(cluster.socket))) as session,
        ):
            await test(session)
    finally:
        await cluster.stop()


async def create(
    session: aiohttp.ClientSession, name: str, script: str, restart_policy: str = "Never"
) -> None:
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
    spec = {"containers": [container], "restartPolicy": restart_policy}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    async with session.post(PODS, json=body) as answer:
        assert answer.status == 201, await answer.text()


async def read(session: aiohttp.ClientSession, path: str) -> str:
    async with session.get(f"{PODS}/{path}") as answer:
        return await answer.text()


async def until_written(session: aiohttp.ClientSession, name: str) -> None:
    while not (await read(session, f"{name}/log")).endswith("written\n"):
        await asyncio.sleep(0.05)


async def until_phase(session: aiohttp.ClientSession, name: str, phase: str) -> Any:
    """Wait for the phase, and return the status."""
    while True:
        async with session.get(f"{PODS}/{name}") as answer:
            status = (await answer.json())["status"]
        if status["phase"] == phase:
            return status
        await asyncio.sleep(0.05)
