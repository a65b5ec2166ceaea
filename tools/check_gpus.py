"""Check GPUs on a machine that has an NVIDIA GPU: exclusive, waiting, shared, restart of the daemon, killed job.

It starts one embedded cluster, runs pods with PyTorch, JAX or, without both, the CUDA driver on it, prints a transcript
and exits with 1 if a check fails. It needs no network. Run it with an interpreter that has the libraries to
check, and with the dependencies of Windlass in a folder. For an interpreter of version 3.12 on x86-64:

    python -m pip download --dest dist/gpu --python-version 3.12 --platform manylinux2014_x86_64 \\
        --platform manylinux_2_28_x86_64 --only-binary=:all: --requirement requirements/image.txt
    for wheel in dist/gpu/*.whl; do python3 -m zipfile -e $wheel /tmp/packages; done
    PYTHONPATH=src:/tmp/packages python3 tools/check_gpus.py
"""

import asyncio
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from windlass.client.usage import POD_METRICS
from windlass.kubeapi import access, requests
from windlass.kubeapi.resources import EVENTS, PODS, Resource
from windlass.kubeapi.transport import Transport
from windlass.localcluster.kubelet.gpus import MachineGpus
from windlass.localcluster.sandbox import capability_probe
from windlass.localcluster.sandbox.capability_probe import Capabilities

SECONDS = 90.0
"""Time limit of each check."""
_COUNT_WITH = {
    "torch": (
        "import torch; count = torch.cuda.device_count(); "
        "x = torch.ones(2048, 2048, device='cuda') if count else None"
    ),
    "jax": (
        "import jax; devices = [d for d in jax.devices() if d.platform == 'gpu']; count = len(devices); "
        "x = jax.numpy.ones((2048, 2048)).block_until_ready()"
    ),
    "the CUDA driver": (
        "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); number = ctypes.c_int(); is_usable = cuda.cuInit(0) == 0; "
        "is_usable and cuda.cuDeviceGetCount(ctypes.byref(number)); count = number.value; "
        "context = ctypes.c_void_p(); count and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)"
    ),
}
"""Programs that count the GPUs, and use the first one."""
_REPORT = """
import glob, os
def can_open(file):
    try:
        os.close(os.open(file, os.O_RDWR))
    except OSError:
        return False
    return True
files = sorted(os.path.basename(file) for file in glob.glob('/dev/nvidia[0-9]*') if can_open(file))
variables = (os.environ.get('CUDA_VISIBLE_DEVICES'), os.environ.get('NVIDIA_VISIBLE_DEVICES'))
print('SEES', count, *map(repr, variables), files, flush=True)
"""
"""The CUDA driver creates missing device files if it runs as root, but cannot open them in a pod."""
_STAY = "import time; time.sleep(600)"
_VARIABLES = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


class CheckError(Exception):
    """A check has failed."""


class Cluster:
    """A cluster of `windlass local` in a temporary directory, used through kubeconfig and HTTPS."""

    def __init__(self, folder: Path, capabilities: Capabilities) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.has_mounts = capabilities.can_isolate
        self.reason = capabilities.reason

    def windlass(self, *words: str, code: int = 0, **options: Any) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "windlass.cli.main", *words]
        done = subprocess.run(  # noqa: S603 — this program's own interpreter
            command,
            capture_output=True,
            text=True,
            check=False,
            env=self.environment,
            timeout=SECONDS,
            **options,
        )
        say("$ windlass " + " ".join(words))
        say(indented(done.stdout + done.stderr))
        if code >= 0 and done.returncode != code:
            raise CheckError(f"exit code {done.returncode}, expected {code}")
        return done

    @property
    def environment(self) -> dict[str, str]:
        # The daemon changes its directory.
        path = os.pathsep.join(
            str(Path(each).resolve()) for each in os.environ.get("PYTHONPATH", "").split(":")
        )
        return {
            **os.environ,
            "KUBECONFIG": str(self.data / "kubeconfig"),
            "PYTHONPATH": path,
            "XDG_STATE_HOME": str(self.folder),
        }

    def up(self) -> None:
        self.windlass("local", "up", "--data-dir", str(self.data))

    def kill(self) -> None:
        """Kill the daemon, not its pods."""
        status = json.loads((self.data / "daemon.json").read_text())
        os.kill(status["pid"], 9)
        say(f"$ kill -9 {status['pid']}    # the daemon")
        wait_for("the daemon to be dead", lambda: not Path(f"/proc/{status['pid']}/exe").exists())

    def submit(self, name: str, program: str, gpus: Any) -> None:
        job = {
            "name": name,
            "command": [sys.executable, "-c", program],
            "env": _VARIABLES,
            "resources": {"gpus": gpus},
            "roles": {"worker": {"tasks": 1}},
        }
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(job))
        say(f"resources of job {name}: {job['resources']}")
        self.windlass("submit", str(file))

    def items(self, resource: Resource) -> list[dict[str, Any]]:
        """Return the objects of the API in the namespace default."""
        socket = json.loads((self.data / "daemon.json").read_text())["socket"]

        async def read() -> bytes:
            async with Transport(access.unix(Path(socket)), user_agent="check-gpus") as transport:
                return await transport.send(requests.list_page(resource, "default"))

        found: list[dict[str, Any]] = json.loads(asyncio.run(read()))["items"]
        return found

    def pod(self, job: str) -> dict[str, Any]:
        pods = self.items(PODS)
        return next((pod for pod in pods if pod["metadata"]["name"] == f"{job}-worker-0"), {})

    def phase(self, job: str) -> str:
        return str(self.pod(job).get("status", {}).get("phase", ""))

    def gpus(self, job: str) -> str:
        found = (self.pod(job).get("metadata", {}).get("annotations") or {}).get("windlass.dev/gpus", "")
        return str(found)

    def seen(self, job: str) -> str:
        """Return what the program of a job has printed about its GPUs; empty if nothing yet."""
        done = subprocess.run(  # noqa: S603 — this program's own interpreter
            [sys.executable, "-m", "windlass.cli.main", "logs", job],
            *(),
            capture_output=True,
            text=True,
            check=False,
            env=self.environment,
            timeout=SECONDS,
        )
        lines = [line for line in done.stdout.splitlines() if "SEES " in line]
        return lines[-1].partition("SEES ")[2] if lines else ""

    def wait_until_seen(self, job: str) -> str:
        def look() -> str:
            if self.phase(job) == "Failed":
                self.windlass("logs", job, code=-1)
                raise CheckError(f"{job} failed")
            return self.seen(job)

        found = wait_for(f"the output of {job}", look)
        say(
            f"{job} sees (number of GPUs, CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES, usable /dev/nvidiaN): {found}"
        )
        return str(found)

    def delete(self, *jobs: str) -> None:
        for job in jobs:
            self.windlass("delete", job, code=-1)
        wait_for("the pods to be deleted", lambda: not any(map(self.pod, jobs)))


def say(text: str) -> None:
    print(text, flush=True)


def indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines())


def wait_for(what: str, look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (found := look()):
        if time.monotonic() > deadline:
            raise CheckError(f"waited {SECONDS:g} s for {what}")
        time.sleep(0.3)
    return found


def require(is_true: bool, what: str) -> None:
    if not is_true:
        raise CheckError(what)
    say(f"OK: {what}")


def program(library: str, *, stays: bool = False) -> str:
    return "\n".join([_COUNT_WITH[library], _REPORT, *([_STAY] if stays else [])])


def check_exclusive_and_waiting(cluster: Cluster, library: str, uuid: str) -> None:
    cluster.submit("first", program(library, stays=True), 1)
    found = cluster.wait_until_seen("first")
    require(found.startswith(f"1 {uuid!r} {uuid!r}"), f"{library} uses the GPU by its UUID")
    cluster.submit("second", program(library), 1)
    waits = wait_for(
        "the second job to be pending",
        lambda: "Insufficient" in json.dumps(cluster.pod("second").get("status", {})),
    )
    require(bool(waits) and not cluster.gpus("second"), "the second job waits, because the first has the GPU")
    cluster.submit("cpu", program("the CUDA driver"), 0)
    found = cluster.wait_until_seen("cpu")
    require(found.startswith("0 '' 'void'"), "a job without GPUs sees none through CUDA")
    if cluster.has_mounts:
        require(found.endswith("[]"), "and can open no device file of a GPU")
    else:
        say(f"not checked: device files, because pods have no mounts of their own here: {cluster.reason}")


def check_usage(cluster: Cluster) -> None:
    def gpu_memory() -> str:
        found = {item["metadata"]["name"]: item for item in cluster.items(POD_METRICS)}
        containers = found.get("first-worker-0", {}).get("containers") or [{"usage": {}}]
        return str(containers[0]["usage"].get("windlass.dev/gpu-memory", ""))

    usage = wait_for("the GPU usage", gpu_memory)
    require(usage != "0Ki", f"metrics.k8s.io reports the GPU memory of the first job: {usage}")


def check_restart(cluster: Cluster, uuid: str) -> None:
    cluster.kill()
    cluster.up()
    require(cluster.gpus("first") == uuid, "after a restart of the daemon, the first job still has the GPU")
    require(cluster.phase("first") == "Running", "and still runs")
    require(not cluster.gpus("second"), "and the second job still waits")


def check_killed_job_frees_the_gpu(cluster: Cluster, uuid: str) -> None:
    pid = next(
        pid
        for pid in processes_using_the_gpu()
        if b"WINDLASS_POD" in Path(f"/proc/{pid}/environ").read_bytes()
    )
    os.kill(pid, 9)
    say(f"$ kill -9 {pid}    # the process of the first job")
    wait_for("the second job to succeed", lambda: cluster.phase("second") == "Succeeded")
    found = cluster.wait_until_seen("second")
    require(found.startswith(f"1 {uuid!r}"), "the killed job has freed the GPU for the second one")
    cluster.delete("first", "second", "cpu")


def check_shared(cluster: Cluster, library: str, uuid: str) -> None:
    jobs = ("shares1", "shares2", "shares3")
    for job in jobs:
        cluster.submit(job, program(library, stays=True), {"count": 1, "shared": 2})
    for job in jobs[:2]:
        found = cluster.wait_until_seen(job)
        require(found.startswith(f"1 {uuid!r}"), f"{job} shares the GPU")
    require(not cluster.gpus("shares3"), "a third job waits, because two share the GPU")
    cluster.delete(*jobs)


def check_other_process(cluster: Cluster, library: str) -> None:
    other = subprocess.Popen(  # noqa: S603 — this program's own interpreter
        [sys.executable, "-c", program(library, stays=True)], env={**os.environ, **_VARIABLES}
    )
    try:
        wait_for("the other process to use the GPU", lambda: other.pid in processes_using_the_gpu())
        cluster.submit("beside", program(library, stays=True), 1)
        cluster.wait_until_seen("beside")

        def event() -> str:
            found = cluster.items(EVENTS)
            return next((each["message"] for each in found if each["reason"] == "GPUInUse"), "")

        message = wait_for("the event", event)
        require(f"process {other.pid} " in message, f"the other process is reported: {message}")
        cluster.delete("beside")
    finally:
        other.kill()
        other.wait()


def processes_using_the_gpu() -> list[int]:
    return [process.pid for usage in MachineGpus().usage().values() for process in usage.processes]


def check_run_options(cluster: Cluster) -> None:
    done = cluster.windlass("run", "--", "true")
    require("idle GPU" in done.stdout, "a run without GPUs mentions the idle GPU")
    done = cluster.windlass("run", "--gpus", "all", "--", sys.executable, "-c", program("the CUDA driver"))
    require("SEES 1 " in done.stdout, "windlass run --gpus all gives the task the GPU")


def check(cluster: Cluster, libraries: Mapping[str, str]) -> None:
    found = MachineGpus()
    for device in found.inventory.devices:
        say(f"found {device.id}: {device.name}, {device.memory_bytes // 2**20} MiB, {device.files}")
    say(f"through {', '.join(type(driver).__name__ for driver in found._drivers)}")  # noqa: SLF001 — for the transcript
    uuid = found.inventory.devices[0].id
    check_run_options(cluster)
    cluster.up()
    first = next(iter(libraries))
    check_exclusive_and_waiting(cluster, first, uuid)
    check_usage(cluster)
    check_restart(cluster, uuid)
    check_killed_job_frees_the_gpu(cluster, uuid)
    for library in [*libraries][1:]:
        cluster.submit("other", program(library), 1)
        require(cluster.wait_until_seen("other").startswith(f"1 {uuid!r}"), f"{library} uses the GPU")
        cluster.delete("other")
    check_shared(cluster, first, uuid)
    check_other_process(cluster, first)


def installed_libraries() -> dict[str, str]:
    """Return the libraries to check with their versions: those that are installed, else the CUDA driver."""
    found = {name: name for name in ("torch", "jax") if importlib.util.find_spec(name)}
    return found or {"the CUDA driver": ""}


def main() -> int:
    capabilities = capability_probe.probe()  # It forks, so it comes first.
    if not any(device.id.startswith("GPU-") for device in MachineGpus().inventory.devices):
        sys.exit("this machine has no NVIDIA GPU that a driver reports: nothing was checked")
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="windlass-gpus-"))
    cluster = Cluster(folder, capabilities)
    try:
        check(cluster, installed_libraries())
    except (CheckError, OSError, StopIteration, subprocess.TimeoutExpired) as error:
        say(f"FAILED: {type(error).__name__}: {error}")
        log = cluster.data / "daemon.log"
        say(indented(log.read_text()[-4000:] if log.exists() else "no daemon was started"))
        return 1
    finally:
        cluster.windlass("local", "down", "--data-dir", str(cluster.data), code=-1)
        shutil.rmtree(folder, ignore_errors=True)
        say(f"{time.monotonic() - started:.0f} s")
    say("all checks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
