"""Start and stop the cluster, and kill its components in tests.

`up` starts only components that are not running, so it can be called at any time.
"""

import contextlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import build_images

import kubernetes_api
import kubernetes_binaries
import programs
import workshops
from images import building, catalogue, checkout
from one_node import components, container_runtime, layout, machine, settings
from one_node.components import Component
from one_node.layout import Layout
from one_node.machine import Machine, MachineError, wait_for

TOOLS: Final = {
    # The Debian package of each program.
    "conntrack": "conntrack",
    "ip": "iproute2",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "socat": "socat",
    "unshare": "util-linux",
}
CONTROL_PLANE: Final = (
    components.ETCD,
    components.API_SERVER,
    components.CONTROLLER_MANAGER,
    components.SCHEDULER,
    components.DNS,
)
SECONDS: Final = 180.0

# The certificates are self-signed, and the host connects to itself.
UNVERIFIED: Final = ssl.create_default_context()
UNVERIFIED.check_hostname, UNVERIFIED.verify_mode = False, ssl.CERT_NONE


class Cluster:
    """A cluster whose components can be stopped and started."""

    def __init__(self, place: Layout, node: Machine) -> None:
        self.place = place
        self.kubeconfig = place.kubeconfig()
        self.audit_log = place.audit_log
        self._node = node
        self._components = components.table(place)
        self._launched: dict[str, subprocess.Popen[bytes]] = {}
        """Processes started by this object. Others may have been started by another process."""

    def start(self, name: str) -> None:
        """Start a component unless it runs, and wait until it serves."""
        self.launch(name)
        self.wait_until_it_serves(name)

    def launch(self, name: str) -> None:
        component = self._components[name]
        if not self._pids(component):
            if component.required:
                self.start(component.required)
            self._launched[name] = self._node.start(component.argv, self._log(name), self._environment())

    def kill(self, name: str) -> None:
        """Kill it with SIGKILL."""
        pids = self._pids(self._components[name])
        if not pids:
            raise self._failure(self._components[name], "does not run")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        # Its ports are free once the kernel has removed it.
        wait_for(f"the end of {name}", lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))

    def lose_node(self) -> None:
        """Kill kubelet, containerd and every container at once, like a power failure."""
        staying = [self._components[name] for name in CONTROL_PLANE]

        def others() -> list[int]:
            found = self._node.processes()
            found.pop(self._node.pid)
            return [
                pid for pid, argv in found.items() if not any(each.is_started_by(argv) for each in staying)
            ]

        def are_gone() -> bool:
            """Return whether all are gone, including those started by a killed process."""
            found = others()
            for pid in found:
                _kill(pid)
            return not found

        # The supervisors first, so that none records how the others ended.
        for name in (components.KUBELET, components.CONTAINERD):
            for pid in self._pids(self._components[name]):
                _kill(pid)

        wait_for("the end of all that the node ran", are_gone)

    def load(self, archive: Path) -> None:
        """Load an image into the node, once per cluster."""
        stamp = self.place.data / "images" / archive.name
        if stamp.exists():
            return
        self.wait_until_it_serves(components.CONTAINERD)
        ctr = self.place.runtime / "bin" / "ctr"
        self._node.run(ctr, "--namespace=k8s.io", "images", "import", archive)
        stamp.parent.mkdir(exist_ok=True)
        stamp.touch()

    def answer(self, url: str) -> bytes | None:
        """Return the body of a successful response to the administrator; None without one."""
        return kubernetes_api.answer(url, settings.token(self.place), UNVERIFIED)

    def _pids(self, component: Component) -> list[int]:
        return [pid for pid, argv in self._node.processes().items() if component.is_started_by(argv)]

    def _log(self, name: str) -> Path:
        return self.place.logs / f"{name}.log"

    def _environment(self) -> dict[str, str]:
        path = f"{self.place.runtime / 'bin'}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"PATH": path, "HOME": "/root", "LC_ALL": "C.UTF-8"}

    def wait_until_it_serves(self, name: str) -> None:
        component = self._components[name]
        deadline = time.monotonic() + SECONDS
        while not self._serves(component):
            if time.monotonic() > deadline:
                raise self._failure(component, f"did not serve within {SECONDS:.0f} s")
            if self._has_ended(component):
                if not component.required:
                    raise self._failure(component, "has ended")
                # Its dependency may respond before it is completely initialized: a node restarts such a
                # component.
                self.launch(name)
            time.sleep(0.05)

    def _has_ended(self, component: Component) -> bool:
        """Return whether a component has ended; one just launched may not be visible yet."""
        launched = self._launched.get(component.name)
        is_under_way = launched is not None and launched.poll() is None
        return not is_under_way and not self._pids(component)

    def _serves(self, component: Component) -> bool:
        if component.health:
            return self.answer(component.health) is not None
        if component.check:
            return self._node.succeeds(*component.check)
        return bool(self._pids(component))

    def _failure(self, component: Component, how: str) -> MachineError:
        log = self._log(component.name)
        return MachineError(f"{component.name} {how}. The end of {log}:\n{programs.tail(log)}")


# Starting and stopping


def up(environment: Mapping[str, str] = os.environ) -> Cluster:
    _require_root()
    _install_missing_tools()
    data = layout.data_folder(environment)
    images = [image.name for image in _images()]
    with _made_beside([image for image in images if not building.is_kept(image, environment)]):
        binaries = kubernetes_binaries.ensure(environment)
    place = Layout(data, binaries, container_runtime.ensure(environment), _minor_of(binaries))
    archives = [building.ensure(image, environment) for image in images]
    with workshops.locked(data.with_name("one-node.lock"), "the cluster"):
        node = machine.running(data) or _new_machine(place)
        _require_same_release(place)
        cluster = Cluster(place, node)
        for name in (components.ETCD, components.CONTAINERD, components.API_SERVER):
            cluster.launch(name)
        cluster.wait_until_it_serves(components.API_SERVER)
        settings.write_kubeconfigs(place)
        for name in components.table(place):
            cluster.launch(name)
        for archive in archives:
            cluster.load(archive)
        for name in components.table(place):
            cluster.wait_until_it_serves(name)
        wait_for("the node to be ready", lambda: is_node_ready(cluster), SECONDS)
    return cluster


def down(environment: Mapping[str, str] = os.environ) -> None:
    _require_root()
    data = layout.data_folder(environment)
    if data.exists():
        with workshops.locked(data.with_name("one-node.lock"), "the cluster"):
            machine.end(data)


def _images() -> tuple[catalogue.Image, ...]:
    """Return the images that every test may use."""
    return catalogue.PAUSE, catalogue.TEST, catalogue.controller(checkout.read())


@contextlib.contextmanager
def _made_beside(images: Sequence[str]) -> Iterator[None]:
    """Build images in parallel, because they mostly wait for packages. Errors are raised when the images are used."""
    if not images:
        yield
        return
    process = subprocess.Popen([sys.executable, build_images.__file__, *images], stdout=subprocess.DEVNULL)
    try:
        yield
    except BaseException:
        process.terminate()
        raise
    finally:
        process.wait()


def _minor_of(binaries: Path) -> int:
    command = [str(binaries / "kube-apiserver"), "--version"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return kubernetes_binaries.minor_of(printed.split()[-1])


def _require_same_release(place: Layout) -> None:
    running = int(place.release.read_text())
    if running != place.minor:
        raise MachineError(
            f"A cluster of Kubernetes 1.{running} is running, but 1.{place.minor} was requested. "
            "Run `make kubernetes-down` first."
        )


def _new_machine(place: Layout) -> Machine:
    machine.end(place.data)  # left by a cluster that was not stopped
    settings.write(place)
    for group in machine.control_groups():
        group.mkdir()
    return machine.start(place.data)


def is_node_ready(cluster: Cluster) -> bool:
    body = cluster.answer(f"{layout.URL}/api/v1/nodes/{layout.NODE}")
    conditions: list[dict[str, Any]] = json.loads(body)["status"]["conditions"] if body else []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _require_root() -> None:
    if os.geteuid() != 0 or sys.platform != "linux":
        raise MachineError(
            "A complete Kubernetes on this machine needs Linux and root. "
            "Set KUBECONFIG to use an existing cluster."
        )


def _install_missing_tools() -> None:
    missing = sorted({package for program, package in TOOLS.items() if shutil.which(program) is None})
    if not missing:
        return
    command = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *missing]
    if shutil.which("apt-get") is None:
        raise MachineError(f"This machine has no {', '.join(missing)}: install them first.")
    print(f"Installing {', '.join(missing)}.", file=sys.stderr, flush=True)
    for step in (["apt-get", "update", "--quiet"], command):
        done = subprocess.run(step, capture_output=True, text=True)
        if done.returncode != 0:
            raise MachineError(f"`{' '.join(step)}` failed:\n{done.stderr}")


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
