"""Measure the time to run a pod on this machine, compared with the same command without a pod.

Each figure comes from a newly started cluster in its own process: one with the default pod network and one with the
host network.
"""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from figures import Sheet, argument_parser  # next to this file
from windlass.kubeapi import access, requests
from windlass.kubeapi.reflector import Changed, Reflector, ResourceEvent
from windlass.kubeapi.resources import PODS
from windlass.kubeapi.transport import Transport
from windlass.model import names

# Users keep bytecode caches, even if this shell disables them.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
NAMESPACE = "default"
LONGEST_WAIT = 120.0
RUNS_OF_A_COMMAND = 20
TASKS = 4


class Daemon(NamedTuple):
    pid: int
    kubeconfig: Path


@contextmanager
def cluster(network: str) -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "windlass.localcluster", "--pods", "--ephemeral"]
        command += ["--data", data, "--network", network]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)  # noqa: S603
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "is ready" in line, line
            yield Daemon(process.pid, Path(data, "kubeconfig"))
        finally:
            process.terminate()
            process.wait(timeout=LONGEST_WAIT)


def pod_spec(command: Sequence[str]) -> dict[str, object]:
    container = {"name": "main", "image": "busybox", "command": command}
    return {"restartPolicy": "Never", "containers": [container]}


class Client:
    """Creates pods and records when each is first seen in a phase."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._seen: dict[tuple[str, str], float] = {}
        self._news = asyncio.Event()

    def receive(self, news: ResourceEvent) -> None:
        now = time.perf_counter()
        if isinstance(news, Changed):
            pod = msgspec.json.decode(news.object)
            self._seen.setdefault((pod["metadata"]["name"], pod["status"]["phase"]), now)
            self._news.set()

    async def create(self, name: str, command: Sequence[str]) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": pod_spec(command),
        }
        await self._transport.send(requests.create(PODS, NAMESPACE, json.dumps(body).encode()))

    async def seen(self, pod_names: Iterable[str], phase: str) -> float:
        """Return when the last of them was seen in the phase."""
        keys = [(name, phase) for name in pod_names]
        async with asyncio.timeout(LONGEST_WAIT):
            while not all(key in self._seen for key in keys):
                self._news.clear()
                await self._news.wait()
        return max(self._seen[key] for key in keys)


@asynccontextmanager
async def client_of(daemon: Daemon) -> AsyncIterator[Client]:
    async with Transport(await access.load(str(daemon.kubeconfig))) as transport:
        client = Client(transport)
        follower = Reflector(transport, PODS, namespace=NAMESPACE, receive=client.receive)
        following = asyncio.create_task(follower.run())
        try:
            await follower.listed.wait()
            yield client
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def one_after_the_other(daemon: Daemon, count: int) -> list[float]:
    """Return the seconds of each, from before its creation."""
    times = []
    async with client_of(daemon) as client:
        # Establish the connection and load lazy imports before measuring.
        await client.create("first", ["true"])
        await client.seen(["first"], "Succeeded")
        for number in range(count):
            name = f"pod-{number}"
            began = time.perf_counter()
            await client.create(name, ["true"])
            times.append(await client.seen([name], "Succeeded") - began)
    return times


async def at_once(daemon: Daemon, count: int, command: Sequence[str], phase: str) -> float:
    pod_names = [f"pod-{number}" for number in range(count)]
    async with client_of(daemon) as client:
        began = time.perf_counter()
        await asyncio.gather(*(client.create(name, command) for name in pod_names))
        return await client.seen(pod_names, phase) - began


# Reference values of the machine


def took(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)  # noqa: S603
    return time.perf_counter() - began


def median_of(command: Sequence[str], count: int) -> float:
    return statistics.median(took(command) for _ in range(count))


def together(command: Sequence[str], count: int) -> float:
    began = time.perf_counter()
    started = [subprocess.Popen(command) for _ in range(count)]  # noqa: S603
    for process in started:
        process.wait()
    return time.perf_counter() - began


def in_namespaces() -> list[str] | None:
    """Run `true` as the first process of container-like namespaces, without Python; None if that is not possible."""
    if shutil.which("unshare") is None:
        return None
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    kinds = ["--fork", "--pid", "--mount", "--uts", "--ipc", "--net"]
    command = ["unshare", *as_root, *kinds, "true"]
    can = subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603
    return command if can else None


# CPU time


def processes_of(ancestor: int) -> set[int]:
    """Return a process and all its descendants: supervisors are children of the spawner, inits of their supervisor."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _fields(int(entry.name))):
            parents[int(entry.name)] = int(fields[1])
    found, added = {ancestor}, True
    while added:
        new = {pid for pid, parent in parents.items() if parent in found} - found
        found |= new
        added = bool(new)
    return found


def processor_seconds(pid: int) -> float:
    fields = _fields(pid)
    ticks = int(fields[11]) + int(fields[12]) if fields else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def _fields(pid: int) -> list[str]:
    """Return the fields of its stat file after the name; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


# Figures


def latency(sheet: Sheet, network: str, count: int) -> None:
    with cluster(network) as daemon:
        times = asyncio.run(one_after_the_other(daemon, count))
    middle = statistics.median(times)
    tenth = sorted(times)[len(times) * 9 // 10]
    what = f"network {network}: a pod of `true`, from create to Succeeded"
    sheet.add(f"{what}, p50", middle * 1000, "ms", aim=150)
    sheet.add(f"{what}, p90", tenth * 1000, "ms", note=f"best {min(times) * 1000:.0f} ms")
    bare = median_of(["true"], RUNS_OF_A_COMMAND)
    what = f"network {network}: p50, of a run of `true` without a pod"
    sheet.add(what, middle / bare, "×", note=f"{bare * 1000:.1f} ms each")
    if command := in_namespaces():
        isolated = median_of(command, RUNS_OF_A_COMMAND)
        what = f"network {network}: p50, of a run of `unshare … true`"
        sheet.add(what, middle / isolated, "×", note=f"{isolated * 1000:.1f} ms each")


def burst(sheet: Sheet, network: str, count: int) -> None:
    with cluster(network) as daemon:
        before = _all_seconds({daemon.pid})
        seconds = asyncio.run(at_once(daemon, count, ["true"], "Succeeded"))
        busy = (_all_seconds({daemon.pid}) - before) / seconds
    what = f"network {network}: {count} pods of `true` at once, to the last Succeeded"
    note = f"{seconds / count * 1000:.0f} ms each; the daemon's core was {busy:.0%} busy"
    sheet.add(what, seconds, "s", aim=6, note=note)
    if command := in_namespaces():
        isolated = together(command, count)
        what = f"network {network}: {count} at once, of as many `unshare … true`"
        sheet.add(what, seconds / isolated, "×", note=f"{isolated:.2f} s")


def whole_command(sheet: Sheet, network: str, count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder, "job.json")
        job.write_text(json.dumps(framework()))
        command = [sys.executable, "-m", "windlass.cli.main", "run", "--network", network, str(job)]
        took(command)
        seconds = median_of(command, count)
    what = f"network {network}: `windlass run` of {TASKS} tasks of `true`, in all"
    sheet.add(what, seconds, "s", aim=1.5)
    modules = median_of([sys.executable, "-c", "import aiohttp, click, msgspec"], count)
    what = f"network {network}: `windlass run`, of a start of Python with its libraries"
    sheet.add(what, seconds / modules, "×", note=f"{modules:.2f} s each")


def framework() -> dict[str, object]:
    pod = {"spec": pod_spec(["true"])}
    return {
        "apiVersion": names.api_version(names.CONTROLLER_GROUP),
        "kind": names.KIND,
        "metadata": {"name": "four"},
        "spec": {"taskRoles": [{"name": "worker", "taskNumber": TASKS, "task": {"pod": pod}}]},
    }


def idle(sheet: Sheet, network: str, count: int, seconds: float) -> None:
    with cluster(network) as daemon:
        asyncio.run(at_once(daemon, count, ["sleep", "infinity"], "Running"))
        time.sleep(2)
        others = processes_of(daemon.pid) - {daemon.pid}
        busy_before, others_before = _all_seconds({daemon.pid}), _all_seconds(others)
        time.sleep(seconds)
        busy = (_all_seconds({daemon.pid}) - busy_before) / seconds
        rest = (_all_seconds(others) - others_before) / seconds
    what = f"network {network}: {count} running pods, {seconds:g} s idle: of one core"
    note = f"daemon {busy:.2%}, the other {len(others)} processes {rest:.2%}"
    # The kernel counts in hundredths of a second, so the values are small.
    sheet.add(what, 100 * (busy + rest), "%", aim=1, noise=2, note=note)


def _all_seconds(pids: Iterable[int]) -> float:
    return sum(map(processor_seconds, pids))


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--network", choices=["auto", "shared"], help="default: both")
    parser.add_argument("--only", choices=["latency", "burst", "run", "idle"])
    parser.add_argument("--seconds", type=float, default=20, help="seconds to observe an idle cluster")
    arguments = parser.parse_args()
    measures: dict[str, Callable[[str], None]] = {
        "latency": lambda network: latency(sheet, network, 30),
        "burst": lambda network: burst(sheet, network, 100),
        "run": lambda network: whole_command(sheet, network, 5),
        "idle": lambda network: idle(sheet, network, 20, arguments.seconds),
    }
    sheet = Sheet("pods")
    for network in [arguments.network] if arguments.network else ["auto", "shared"]:
        sheet.title(f"Pods on this machine, --network {network}:")
        for name, measure in measures.items():
            if arguments.only in (None, name):
                measure(network)
    if arguments.save:
        sheet.save()


if __name__ == "__main__":
    main()
