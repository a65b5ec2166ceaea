"""Measure the controller: idle, at start, and with one very large Framework.

The embedded API server, a fake kubelet (pods run nothing) and the controller run in their own processes on this
machine. The controller's values come from its /metrics.
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from figures import Sheet, argument_parser  # next to this file
from windlass.kubeapi import access, requests, resources
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.base import Json
from windlass.wire.crd import manifests

FRAMEWORKS = resources.frameworks(names.CONTROLLER_GROUP)
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Process:
    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        self.began = time.perf_counter()
        with log.open("w") as output:
            self.running = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603

    def stop(self) -> None:
        self.running.terminate()
        self.running.wait(timeout=60)

    def wait_for_line(self, pattern: str) -> str:
        while True:
            if found := re.search(pattern, self.log.read_text()):
                return found[1]
            if self.running.poll() is not None:
                raise RuntimeError(self.log.read_text())
            time.sleep(0.01)

    def memory(self, what: str) -> float:
        """Return the memory in MB: VmRSS, or VmHWM for the peak."""
        status = Path(f"/proc/{self.running.pid}/status").read_text()
        return int(status.partition(f"{what}:")[2].split()[0]) / 1024


class Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


class Controller(Process):
    def __init__(self, kubeconfig: Path, log: Path) -> None:
        command = [sys.executable, "-m", "windlass.cli.main", "controller", "--kubeconfig", str(kubeconfig)]
        super().__init__([*command, "--metrics-address", "127.0.0.1:0", "--log-level", "info"], log)
        self._address = self.wait_for_line(
            r'"message": "serving metrics and health checks".*"address": "([^"]+)"'
        )

    def samples(self, name: str) -> list[Sample]:
        with urlopen(f"http://{self._address}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        found = (_SAMPLE.match(line) for line in lines)
        return [
            Sample(match[1], dict(_LABEL.findall(match[2] or "")), float(match[3]))
            for match in found
            if match is not None and match[1] == name
        ]

    def requests(self) -> dict[str, float]:
        return {
            f"{sample.labels['verb']} {sample.labels['resource']}": sample.value
            for sample in self.samples("windlass_api_requests_total")
        }

    def frameworks_in(self, state: str) -> int:
        return sum(
            int(sample.value)
            for sample in self.samples("windlass_frameworks")
            if sample.labels["state"] == state
        )

    def tasks_in(self, state: str) -> int:
        return sum(
            int(sample.value) for sample in self.samples("windlass_tasks") if sample.labels["state"] == state
        )

    def queue_depth(self) -> int:
        return int(self.samples("windlass_queue_depth")[0].value)

    def longest_pass(self) -> float:
        """Return the upper bound of the bucket with the longest reconcile."""
        buckets = self.samples("windlass_pass_duration_seconds_bucket")
        total = max(sample.value for sample in buckets)
        return min(float(sample.labels["le"]) for sample in buckets if sample.value == total)


def wait_until(condition: object, seconds: float, what: str) -> float:
    """Wait for a condition and return the seconds that took."""
    assert callable(condition)
    began = time.perf_counter()
    while not condition():
        if time.perf_counter() - began > seconds:
            raise TimeoutError(f"{what} took more than {seconds} s")
        time.sleep(0.02)
    return time.perf_counter() - began


def framework(name: str, tasks: int, life: dict[str, str]) -> bytes:
    annotations = {f"hollow.windlass.dev/{key}": value for key, value in life.items()}
    pod: Json = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]},
    }
    roles = [{"name": "worker", "taskNumber": tasks, "task": {"pod": pod}}]
    return json.dumps(
        {
            "apiVersion": names.api_version(names.CONTROLLER_GROUP),
            "kind": names.KIND,
            "metadata": {"name": name},
            "spec": {"completedPods": "Keep", "taskRoles": roles},
        }
    ).encode()


async def submit(kubeconfig: Path, bodies: Sequence[bytes]) -> None:
    async with Transport(await access.load(str(kubeconfig))) as transport:
        for start in range(0, len(bodies), 50):
            batch = bodies[start : start + 50]
            await asyncio.gather(
                *(transport.send(requests.create(FRAMEWORKS, "default", body)) for body in batch)
            )


async def define(kubeconfig: Path) -> None:
    async with Transport(await access.load(str(kubeconfig))) as transport:
        for definition in manifests.definitions():
            body = json.dumps(definition).encode()
            await transport.send(requests.create(resources.CUSTOM_RESOURCE_DEFINITIONS, "", body))


@contextmanager
def api_server(folder: Path) -> Iterator[Path]:
    """Start an API server with the CRDs; yield the kubeconfig."""
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "windlass.localcluster", "--data", str(folder / "data")]
    server = Process([*command, "--kubeconfig", str(kubeconfig)], folder / "server.log")
    try:
        server.wait_for_line("(is ready)")
        asyncio.run(define(kubeconfig))
        yield kubeconfig
    finally:
        server.stop()


@contextmanager
def cluster(folder: Path) -> Iterator[Path]:
    """Start an API server and a fake kubelet; yield the kubeconfig."""
    with api_server(folder) as kubeconfig:
        command = [
            sys.executable,
            "-m",
            "fake_kubelet.kubelet",
            "--kubeconfig",
            str(kubeconfig),
        ]
        kubelet = Process([*command, "--connections", "32"], folder / "kubelet.log")
        try:
            yield kubeconfig
        finally:
            kubelet.stop()


def idle(sheet: Sheet, folder: Path, count: int, seconds: float) -> None:
    with cluster(folder) as kubeconfig:
        controller = Controller(kubeconfig, folder / "controller.log")
        bodies = [framework(f"job-{number}", 2, {"runs-for": "never"}) for number in range(count)]
        asyncio.run(submit(kubeconfig, bodies))
        wait_until(lambda: controller.frameworks_in("AttemptRunning") == count, 300, "the start of all")
        wait_until(lambda: controller.queue_depth() == 0, 60, "the work on all")
        time.sleep(2)
        before = controller.requests()
        time.sleep(seconds)
        after = controller.requests()
        counts = {
            what: after[what] - before.get(what, 0) for what in after if after[what] != before.get(what, 0)
        }
        others = sum(
            number
            for what, number in counts.items()
            if not what.startswith("watch ") and "leases" not in what
        )
        note = ", ".join(f"{number:.0f} {what}" for what, number in sorted(counts.items()))
        sheet.add(f"{count:,} running: requests in {seconds:g} s idle", others, "", aim=0, note=note)
        sheet.add(f"{count:,} running: memory", controller.memory("VmRSS"), "MB", aim=160)
        controller.stop()
        again = Controller(kubeconfig, folder / "again.log")
        wait_until(lambda: again.frameworks_in("AttemptRunning") == count, 60, "the list of all")
        wait_until(lambda: again.queue_depth() == 0, 60, "the look at all")
        took = time.perf_counter() - again.began
        sheet.add(f"{count:,} running: restart to steady state", took, "s", aim=3)
        sheet.add(f"{count:,} running: memory after a restart", again.memory("VmRSS"), "MB", aim=160)
        again.stop()


def large(sheet: Sheet, folder: Path, tasks: int) -> None:
    with cluster(folder) as kubeconfig:
        controller = Controller(kubeconfig, folder / "controller.log")
        began = time.perf_counter()
        life = {"gang": str(tasks), "runs-for": "5"}
        asyncio.run(submit(kubeconfig, [framework("large", tasks, life)]))
        wait_until(lambda: controller.tasks_in("AttemptRunning") == tasks, 600, "the start of all tasks")
        sheet.add(f"{tasks:,} tasks: from create to all Running", time.perf_counter() - began, "s")
        wait_until(lambda: controller.frameworks_in("Completed") == 1, 600, "the end")
        sheet.add(f"{tasks:,} tasks: from create to Completed", time.perf_counter() - began, "s")
        sheet.add(f"{tasks:,} tasks: the longest pass took at most", controller.longest_pass(), "s", aim=1)
        sheet.add(f"{tasks:,} tasks: peak memory", controller.memory("VmHWM"), "MB")
        controller.stop()


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--frameworks", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--only", choices=["idle", "large"])
    arguments = parser.parse_args()
    sheet = Sheet("controller")
    sheet.title("The controller, on the embedded API server with a fake kubelet:")
    with tempfile.TemporaryDirectory() as folder:
        if arguments.only != "large":
            (Path(folder) / "idle").mkdir()
            idle(sheet, Path(folder) / "idle", arguments.frameworks, arguments.seconds)
        if arguments.only != "idle":
            (Path(folder) / "large").mkdir()
            large(sheet, Path(folder) / "large", arguments.tasks)
    if arguments.save:
        sheet.save()


if __name__ == "__main__":
    main()
