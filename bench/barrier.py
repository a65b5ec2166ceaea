"""Measure how long the barriers of a gang wait after its last task has got its address.

The embedded API server, the controller and each barrier run in their own processes. No pod runs: this program sets the
addresses of the pods, the last one when all barriers wait.
"""

import asyncio
import base64
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import yaml

from controller import FRAMEWORKS, Controller, api_server  # next to this file
from figures import Sheet, argument_parser
from windlass.discovery.files import TF_CONFIG as LAST_FILE
from windlass.kubeapi import access, requests, responses
from windlass.kubeapi.resources import PODS
from windlass.kubeapi.transport import Transport
from windlass.model import names

NAMESPACE = "default"
LONGEST_WAIT = 120.0
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
"""Folder into which the barrier of a pod writes."""
AIM_MS = 200.0


def framework(tasks: int) -> bytes:
    container = {"name": "main", "image": "any", "command": ["true"]}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return json.dumps(
        {
            "apiVersion": names.api_version(names.CONTROLLER_GROUP),
            "kind": names.KIND,
            "metadata": {"name": "gang", "annotations": {names.BARRIER_ANNOTATION: "true"}},
            "spec": {"taskRoles": [{"name": "worker", "taskNumber": tasks, "task": {"pod": pod}}]},
        }
    ).encode()


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Path]:
    """Start an API server and a controller; yield the kubeconfig."""
    with api_server(folder) as kubeconfig:
        controller = Controller(kubeconfig, folder / "controller.log")
        try:
            yield kubeconfig
        finally:
            controller.stop()


async def pods_of_gang(transport: Transport, tasks: int) -> list[dict[str, object]]:
    async with asyncio.timeout(LONGEST_WAIT):
        while True:
            page = responses.decode_page(await transport.send(requests.list_page(PODS, NAMESPACE)))
            if len(page.objects) == tasks:
                return [msgspec.json.decode(item) for item in page.objects]
            await asyncio.sleep(0.05)


async def give_address(transport: Transport, pod: dict[str, object], number: int) -> None:
    ip = f"10.1.{number // 250}.{1 + number % 250}"
    body = json.dumps({"status": {"phase": "Pending", "podIP": ip, "podIPs": [{"ip": ip}]}}).encode()
    name = pod["metadata"]["name"]  # type: ignore[index]
    await transport.send(requests.merge_patch(PODS, NAMESPACE, name, body, subresource="status"))


# Barriers


def service_account(kubeconfig: Path, folder: Path) -> dict[str, str]:
    """Write the service account files of a pod and return its two variables."""
    found = yaml.safe_load(kubeconfig.read_text())
    [cluster], [user] = found["clusters"], found["users"]
    folder.mkdir()
    (folder / "token").write_text(user["user"]["token"])
    (folder / "ca.crt").write_bytes(base64.b64decode(cluster["cluster"]["certificate-authority-data"]))
    host, _, port = cluster["cluster"]["server"].removeprefix("https://").rpartition(":")
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


def environment_of(pod: dict[str, object]) -> dict[str, str]:
    [barrier] = pod["spec"]["initContainers"]  # type: ignore[index]
    known = {variable["name"]: variable["value"] for variable in barrier["env"] if "value" in variable}
    return {**known, names.POD_UID: pod["metadata"]["uid"]}  # type: ignore[index]


BARRIER = """
import functools, os, pathlib, sys
from windlass.barrier import api_client, run
from windlass.cli.commands import barrier
account = pathlib.Path(sys.argv.pop())
api_client.client_from_environment = functools.partial(api_client.client_from_environment, account=account)
barrier.barrier(prog_name="windlass barrier")
"""
"""Return the command `windlass barrier` with the path of the service account."""


def begin(pod: dict[str, object], account: Path, given: dict[str, str], folder: Path) -> int:
    """Start a barrier as in a pod."""
    folder.mkdir()
    command = [sys.executable, "-c", BARRIER, str(account)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603
            command, cwd=folder, env={**given, **environment_of(pod)}, stderr=log, stdout=log
        )
    return process.pid


def ends(children: Sequence[int]) -> list[float]:
    """Return the time at which each process ended."""
    left, moments = set(children), []
    while left:
        pid, status = os.wait()
        moments.append(time.perf_counter())
        assert pid in left, pid
        assert status == 0, f"a barrier ended with {os.waitstatus_to_exitcode(status)}"
        left.discard(pid)
    return moments


def watches(port: str) -> int:
    """Return the number of open connections to the API server."""
    local_port = f":{int(port):04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[2].endswith(local_port) and line.split()[3] == "01" for line in lines)


async def prepared(kubeconfig: Path, tasks: int) -> list[dict[str, object]]:
    """Create the gang with addresses for all tasks except the last."""
    async with Transport(await access.load(str(kubeconfig))) as transport:
        await transport.send(requests.create(FRAMEWORKS, NAMESPACE, framework(tasks)))
        pods = await pods_of_gang(transport, tasks)
        for number, pod in enumerate(pods[:-1]):
            await give_address(transport, pod, number)
    return pods


async def complete(kubeconfig: Path, pod: dict[str, object], number: int) -> tuple[float, float]:
    """Set the last address; return the time before that, by the process clock and by the file clock."""
    async with Transport(await access.load(str(kubeconfig))) as transport:
        await transport.send(requests.list_page(PODS, NAMESPACE, limit=1))  # establish the connection first
        began = time.perf_counter(), time.time()
        await give_address(transport, pod, number)
        return began


class Round(NamedTuple):
    """Sorted milliseconds since the last address."""

    released: list[float]
    """Until a barrier has written its last file."""
    ended: list[float]
    """Until its process has ended."""


def measure(tasks: int) -> Round:
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory(dir=MEMORY) as volumes:
        folder = Path(name)
        with running(folder) as kubeconfig:
            pods = asyncio.run(prepared(kubeconfig, tasks))
            given = service_account(kubeconfig, folder / "account")
            before = watches(given["KUBERNETES_SERVICE_PORT"])
            children = [
                begin(pod, folder / "account", given, Path(volumes, str(number)))
                for number, pod in enumerate(pods)
            ]
            until = time.perf_counter() + LONGEST_WAIT
            while watches(given["KUBERNETES_SERVICE_PORT"]) < before + tasks:
                assert time.perf_counter() < until, "not every barrier waits"
                time.sleep(0.05)
            time.sleep(1)  # wait until they are idle
            began, began_at = asyncio.run(complete(kubeconfig, pods[-1], tasks - 1))
            ended = sorted((moment - began) * 1000 for moment in ends(children))
            written = [Path(volumes, str(number), LAST_FILE).stat().st_mtime for number in range(tasks)]
            return Round(sorted((moment - began_at) * 1000 for moment in written), ended)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    sheet = Sheet("barrier")
    sheet.title("The barriers of a gang, from its last address on; of the rounds, the median:")
    rounds = [measure(options.tasks) for _ in range(options.rounds)]
    for what, times in zip(Round._fields, zip(*rounds, strict=True), strict=True):
        name = f"{options.tasks:,} tasks, {options.rounds} rounds: {what}"
        middles = [statistics.median(each) for each in times]
        last = [each[round(0.99 * len(each)) - 1] for each in times]
        sheet.add(f"{name}, p50", statistics.median(middles), "ms", note=in_each(middles))
        aim = AIM_MS if what == "released" else None
        sheet.add(f"{name}, p99", statistics.median(last), "ms", aim=aim, note=in_each(last))
    if options.save:
        sheet.save()


def in_each(rounds: Sequence[float]) -> str:
    return " ".join(f"{milliseconds:.0f}" for milliseconds in rounds)


if __name__ == "__main__":
    main()
