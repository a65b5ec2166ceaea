"""The embedded cluster in this process: start, stop, and its pods."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import yaml

from windlass.localcluster import cluster as local_cluster
from windlass.localcluster.cluster import CannotStartError, ClusterOptions, LocalCluster
from windlass.localcluster.kubelet import kubelet
from windlass.localcluster.kubelet.pods.worker import PodWorker
from windlass.localcluster.sandbox.process import processes

PATIENCE_SECONDS = 120
EPHEMERAL = ClusterOptions(is_ephemeral=True)
LASTING = ClusterOptions()
FOREVER = "while true; do sleep 1000; done"


@pytest.fixture(params=["auto", "plain"])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The highest and the lowest isolation level of this machine."""
    if request.param == "auto" and sys.platform != "linux":
        pytest.skip("no namespaces here")
    monkeypatch.setenv("WINDLASS_SANDBOX", request.param)
    return str(request.param)


@pytest.fixture
def data() -> Iterator[Path]:
    """A short path. Whatever still runs for it is ended."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-cluster-"))
    yield folder / "data"
    for pid in processes_of(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def processes_of(data: Path) -> list[int]:
    """Return the processes of pods with this folder in their environment, and all above them except this one."""
    marker = str(data).encode()
    found = [
        int(each.name)
        for each in Path("/proc").glob("[0-9]*")
        if int(each.name) != os.getpid() and marker in environment_of(each)
    ]
    own = {1, os.getpid(), *processes.ancestors(os.getpid())}
    return sorted({pid for each in found for pid in (each, *processes.ancestors(each))} - own)


def environment_of(process: Path) -> bytes:
    with contextlib.suppress(OSError):
        return (process / "environ").read_bytes()
    return b""


class Client:
    """A minimal client on the cluster's own socket."""

    def __init__(self, cluster: LocalCluster, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self._session = session

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        async with self._session.request(method, f"http://local{path}", json=body) as answer:
            return await answer.json()

    async def create(
        self, name: str, script: str, grace: int = 30, policy: str = "Never", volumes: Sequence[Any] = ()
    ) -> None:
        # DATA identifies the processes. Pods with their own mounts do not see the data directory, but SHARED.
        folders = {"DATA": self.cluster.data, "SHARED": self.cluster.data.parent}
        env = [{"name": name, "value": str(folder)} for name, folder in folders.items()]
        container = {"name": "main", "image": "none", "command": ["sh", "-c", script], "env": env}
        spec = {
            "containers": [container],
            "restartPolicy": policy,
            "terminationGracePeriodSeconds": grace,
            "volumes": list(volumes),
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        created = await self.ask("POST", "/api/v1/namespaces/default/pods", body)
        assert created["kind"] == "Pod", created

    async def pod(self, name: str) -> Any:
        return await self.ask("GET", f"/api/v1/namespaces/default/pods/{name}")

    async def log(self, name: str) -> str:
        async with self._session.get(f"http://local/api/v1/namespaces/default/pods/{name}/log") as answer:
            return await answer.text()

    async def wait(self, name: str, is_it: Callable[[Any], bool]) -> Any:
        return await until(lambda: self.pod(name), is_it)

    async def running(self, name: str) -> Any:
        return await self.wait(name, lambda pod: container_of(pod).get("state", {}).get("running"))

    async def says(self, name: str, word: str) -> None:
        await until(lambda: self.log(name), lambda text: word in text)


async def until(look: Callable[[], Awaitable[Any]], is_it: Callable[[Any], bool]) -> Any:
    while True:
        seen = await look()
        if is_it(seen):
            return seen
        await asyncio.sleep(0.05)


def container_of(pod: Any) -> Any:
    return next(iter(pod.get("status", {}).get("containerStatuses", ())), {})


@contextlib.asynccontextmanager
async def client_of(cluster: LocalCluster) -> AsyncIterator[Client]:
    connector = aiohttp.UnixConnector(str(short(cluster.socket)))
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Client(cluster, session)


def short(path: Path) -> Path:
    """The path of a socket has at most a hundred characters."""
    return path if len(str(path)) < 100 else Path(os.path.relpath(path))


@contextlib.asynccontextmanager
async def started(data: Path, options: ClusterOptions) -> AsyncIterator[Client]:
    """Stop the cluster at the end of the test, even if it fails."""
    cluster = LocalCluster(data, options)
    await cluster.start()
    try:
        async with client_of(cluster) as client:
            yield client
    except BaseException:
        await cluster.stop(ends_pods=True)
        raise


def run(test: Awaitable[None]) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await test

    asyncio.run(main())


def test_cluster_reports_its_url_and_kubeconfig(level: str, data: Path) -> None:
    async def test() -> None:
        async with started(data, EPHEMERAL) as client:
            cluster = client.cluster
            config = yaml.safe_load(cluster.kubeconfig.read_text())
            assert config["clusters"][0]["cluster"]["server"] == cluster.url
            assert cluster.network in ("isolated", "shared")
            nodes = await client.ask("GET", "/api/v1/nodes")
            assert len(nodes["items"]) == 1
            await cluster.stop()
            assert not cluster.socket.exists()

    run(test())


def test_pod_runs_to_its_end(level: str, data: Path) -> None:
    async def test() -> None:
        async with started(data, EPHEMERAL) as client:
            await client.create("one", "echo hello; exit 3")
            pod = await client.wait("one", lambda pod: pod["status"]["phase"] == "Failed")
            assert container_of(pod)["state"]["terminated"]["exitCode"] == 3
            assert await client.log("one") == "hello\n"
            await client.cluster.stop()

    run(test())


def test_second_cluster_in_the_same_folder_is_rejected(data: Path) -> None:
    async def test() -> None:
        async with started(data, EPHEMERAL) as client:
            other = LocalCluster(data, EPHEMERAL)
            with pytest.raises(CannotStartError) as refusal:
                await other.start()
            assert str(refusal.value) == (
                f"{data} is in use by another cluster (process {os.getpid()}). "
                "Stop it or choose another folder."
            )
            # The first one is unaffected.
            await client.create("one", "true")
            await client.wait("one", lambda pod: pod["status"]["phase"] == "Succeeded")
            await client.cluster.stop()
        async with started(data, EPHEMERAL) as client:
            await client.cluster.stop()

    run(test())


def test_port_in_use_is_one_message_and_leaves_nothing(data: Path) -> None:
    async def test() -> None:
        before = children()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            cluster = LocalCluster(data, ClusterOptions(port=taken.getsockname()[1]))
            with pytest.raises(CannotStartError, match=f"127.0.0.1:{taken.getsockname()[1]}"):
                await cluster.start()
        assert children() == before
        async with started(data, EPHEMERAL) as client:
            await client.cluster.stop()

    run(test())


def test_unavailable_network_is_one_message(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_SANDBOX", "plain")

    async def test() -> None:
        before = children()
        cluster = LocalCluster(data, ClusterOptions(network="isolated"))
        with pytest.raises(CannotStartError, match="network of pods") as refusal:
            await cluster.start()
        assert "\n" not in str(refusal.value)
        assert children() == before

    run(test())


def children() -> list[int]:
    own = os.getpid()
    return sorted(pid for pid in processes.descendants(own) if processes.ancestors(pid)[:1] == [own])


def test_pods_of_an_ephemeral_cluster_end_with_it(level: str, data: Path) -> None:
    async def test() -> None:
        before = children()
        async with started(data, EPHEMERAL) as client:
            for name in ("one", "two"):
                await client.create(name, "trap '' TERM; (setsid sleep 100000 &); echo armed; " + FOREVER)
            for name in ("one", "two"):
                await client.says(name, "armed")
            assert len(processes_of(data)) >= 4
            await client.cluster.stop()
        assert processes_of(data) == []
        assert children() == before

    run(test())


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "lost its spawner"])
def test_next_cluster_adopts_running_pods(level: str, data: Path, is_killed: bool) -> None:
    async def test() -> None:
        script = "echo before; while [ ! -e $SHARED/go ]; do sleep 0.1; done; echo after; exit 4"
        async with started(data, LASTING) as client:
            await client.create("one", script)
            await client.says("one", "before")
            first = container_of(await client.running("one"))
            if is_killed:
                os.kill(spawner_of(data), signal.SIGKILL)
            await client.cluster.stop()
        assert processes_of(data)
        async with started(data, LASTING) as client:
            again = container_of(await client.running("one"))
            assert (again["containerID"], again["restartCount"]) == (first["containerID"], 0)
            await client.create("two", "echo new")
            await client.wait("two", lambda pod: pod["status"]["phase"] == "Succeeded")
            (data.parent / "go").touch()
            pod = await client.wait("one", lambda pod: pod["status"]["phase"] == "Failed")
            assert container_of(pod)["state"]["terminated"]["exitCode"] == 4
            assert await client.log("one") == "before\nafter\n"
            await client.cluster.stop(ends_pods=True)
        assert processes_of(data) == []

    run(test())


def test_token_of_an_adopted_pod_is_replaced_although_a_volume_lacks_its_source(data: Path) -> None:
    config_maps = "/api/v1/namespaces/default/configmaps"

    def token() -> str:
        (file,) = data.glob("pods/*/volumes/*/token")
        return file.read_text()

    async def test() -> None:
        async with started(data, LASTING) as client:
            await client.ask("POST", config_maps, {"metadata": {"name": "settings"}, "data": {"a": "1"}})
            volume = {"name": "settings", "configMap": {"name": "settings"}}
            await client.create("one", FOREVER, volumes=[volume])
            await client.running("one")
            before = token()
            await client.ask("DELETE", f"{config_maps}/settings")
            await client.cluster.stop()
        async with started(data, LASTING) as client:
            await until(lambda: asyncio.to_thread(token), lambda now: now != before)
            await client.cluster.stop(ends_pods=True)

    run(test())


def spawner_of(data: Path) -> int:
    """Return the child of this process that pods descend from."""
    (found,) = set(children()) & set(processes_of(data))
    return found


def test_end_of_a_pod_without_cluster_is_reported(level: str, data: Path) -> None:
    async def test() -> None:
        script = "echo armed; while [ ! -e $SHARED/go ]; do sleep 0.1; done; exit 5"
        async with started(data, LASTING) as client:
            await client.create("one", script)
            await client.says("one", "armed")
            await client.cluster.stop()
        (data.parent / "go").touch()
        await until(lambda: asyncio.to_thread(ends_in, data), bool)
        async with started(data, LASTING) as client:
            pod = await client.wait("one", lambda pod: pod["status"]["phase"] == "Failed")
            assert container_of(pod)["state"]["terminated"]["exitCode"] == 5
            await client.cluster.stop(ends_pods=True)

    run(test())


def ends_in(data: Path) -> list[Path]:
    return list(data.glob("pods/*/containers/*/end"))


def test_pod_deleted_without_cluster_is_ended(level: str, data: Path) -> None:
    """As after restoring a backup of the database."""

    async def test() -> None:
        async with started(data, LASTING) as client:
            await client.cluster.stop()
        backup = (data / "cluster.db").read_bytes()
        async with started(data, LASTING) as client:
            await client.create("one", FOREVER)
            await client.running("one")
            await client.cluster.stop()
        for file in data.glob("cluster.db*"):
            file.unlink()
        (data / "cluster.db").write_bytes(backup)
        assert processes_of(data)
        async with started(data, LASTING) as client:
            assert processes_of(data) == []
            assert list((data / "pods").iterdir()) == []
            await client.cluster.stop()

    run(test())


def rename_spec(database: Path) -> None:
    """Damage pods in a way that only their kubelet notices."""
    connection = sqlite3.connect(database)
    connection.execute(
        """UPDATE objects SET body = CAST(replace(CAST(body AS TEXT), '"spec"', '"qpec"') AS BLOB)
        WHERE resource = 'pods'"""
    )
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda database: database.write_bytes(b""), "it is empty, but the directory contains other"),
        (rename_spec, r"its objects cannot be loaded \(KeyError: 'spec'\)\. Restore"),
    ],
    ids=["empty", "pods without spec"],
)
def test_pods_are_killed_without_the_database(
    level: str, data: Path, damage: Callable[[Path], object], problem: str
) -> None:
    async def test() -> None:
        async with started(data, LASTING) as client:
            await client.create("one", FOREVER)
            await client.running("one")
            await client.cluster.stop()
        damage(data / "cluster.db")
        assert processes_of(data)
        cluster = LocalCluster(data, LASTING)
        with pytest.raises(CannotStartError, match=rf"cluster\.db: {problem}"):
            await cluster.start()
        await cluster.stop(ends_pods=True)
        assert processes_of(data), "a cluster that cannot start changes nothing"
        await local_cluster.kill_pods(data)
        assert processes_of(data) == []

    run(test())


@pytest.mark.parametrize(
    ("trap", "grace", "is_asked_enough"),
    [("sleep 1; touch $SHARED/done; exit 0", 100, True), ("", 1, False)],
    ids=["uses its grace", "ignores it"],
)
def test_stopped_pods_get_their_grace_period(
    level: str, data: Path, trap: str, grace: int, is_asked_enough: bool
) -> None:
    async def test() -> None:
        async with started(data, LASTING) as client:
            script = f"trap '{trap}' TERM; echo armed; while true; do sleep 0.1; done"
            await client.create("one", script, grace, "Always")
            await client.says("one", "armed")
            await client.cluster.stop(ends_pods=True)
        assert (data.parent / "done").exists() == is_asked_enough
        assert processes_of(data) == []
        # It was not deleted, so it runs again.
        async with started(data, LASTING) as client:
            pod = await client.wait("one", lambda pod: container_of(pod).get("restartCount") == 1)
            last = container_of(pod)["lastState"]["terminated"]
            assert last["exitCode"] == (0 if is_asked_enough else 137)
            await client.running("one")
            await client.cluster.stop(ends_pods=True)
        assert processes_of(data) == []

    run(test())


def test_old_cgroups_are_removed_before_pods_start(
    level: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the cgroup of a new run could not be distinguished from old ones."""
    order: list[str] = []

    class Groups:
        def remove_all_except(self, known: set[str]) -> None:
            order.append("groups removed")

    goes_on = PodWorker.run

    async def noted(worker: PodWorker) -> None:
        order.append("pod goes on")
        await goes_on(worker)

    async def test() -> None:
        async with started(data, LASTING) as client:
            await client.create("one", FOREVER)
            await client.running("one")
            await client.cluster.stop()
        monkeypatch.setattr(kubelet, "cgroups", SimpleNamespace(find=lambda _: Groups()))
        monkeypatch.setattr(PodWorker, "run", noted)
        async with started(data, LASTING) as client:
            await client.running("one")
            await client.cluster.stop(ends_pods=True)
        assert order == ["groups removed", "pod goes on"]

    run(test())


def test_long_path_of_a_cluster(level: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = data.joinpath(*["long" * 20] * 2)
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)

    async def test() -> None:
        async with started(deep, LASTING) as client:
            await client.create("one", "echo hello; " + FOREVER)
            await client.says("one", "hello")
            await client.cluster.stop()
        async with started(deep, LASTING) as client:
            assert container_of(await client.running("one"))["restartCount"] == 0
            await client.cluster.stop(ends_pods=True)
        assert processes_of(data) == []

    run(test())


def test_no_descriptor_is_left_open(data: Path) -> None:
    async def test() -> None:
        for _ in range(2):
            async with started(data, EPHEMERAL) as client:
                await client.create("one", FOREVER)
                await client.running("one")
                await client.ask("DELETE", "/api/v1/namespaces/default/pods/one?gracePeriodSeconds=0")
                await client.wait("one", lambda pod: pod["kind"] == "Status")
                await client.cluster.stop()

    run(test())
    before = len(list(Path("/proc/self/fd").iterdir()))
    run(test())
    assert len(list(Path("/proc/self/fd").iterdir())) == before
