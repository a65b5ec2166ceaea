"""The API server that a test's world stands on: the embedded one, or a real one with WINDLASS_TEST_CLUSTER=real."""

import contextlib
import http.client
import json
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from operated.processes import Process, Spawned
from operated.proxy import Upstream, upstream_of_kubeconfig

from conformance import servers
from conformance.client import Access, Client, Json
from conformance.waiting import wait_for
from windlass.install import manifests as install_manifests
from windlass.install.options import CONTROLLER_NAME, InstallOptions
from windlass.model import names
from windlass.model.settings import History, Settings
from windlass.wire.crd import manifests

CONTROLLER: Final = "controller"
KUBELET: Final = "kubelet"
MASTERS: Final = "system:masters"
UNPRIVILEGED: Final = "testers"
RBAC: Final = "rbac.authorization.k8s.io"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Cluster:
    """A server, embedded or real. The tests have administrator rights."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self.folder = folder
        self.kubeconfig = kubeconfig
        self.client = Client(Access.of_kubeconfig(kubeconfig))
        self.is_real = False

    @property
    def kubelets_kubeconfig(self) -> Path:
        return self.kubeconfig

    def upstream(self) -> Upstream:
        """The server as the controller's user sees it."""
        raise NotImplementedError

    def audited(self, user: str) -> list[Json]:
        """The requests of a user that the server has answered, as its audit log has them."""
        raise NotImplementedError

    def kill(self) -> None:
        """The server, with -9."""
        raise NotImplementedError

    def restart(self) -> None:
        """At the same address, with what it had stored; returns when it answers."""
        raise NotImplementedError

    def wait_for_answers(self) -> None:
        wait_for("the server to answer again", self._answers)

    def _answers(self) -> bool:
        try:
            return self.client.get("/readyz").code == 200
        except (OSError, http.client.HTTPException):
            self.client.close()  # it may be of no use any more
            return False

    def new_namespace(self) -> str:
        name = f"t-{uuid.uuid4().hex[:10]}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.client.post("/api/v1/namespaces", body).expect(201)
        return name

    def install(self) -> None:
        """Install the definitions and the permissions of the controller."""
        for definition in manifests.definitions(has_records=True):
            self.put_definition(definition)
        self.grant(Settings(history=History(enabled=True, read_logs=True)))

    def grant(self, settings: Settings) -> None:
        """The controller's user gets the roles of such a controller, where the server asks for any."""

    def put_definition(self, definition: Json, allowed: Json | None = None) -> None:
        """Creates it, or writes over the one that is there, and waits until it is served.

        `allowed` is an object that only the new one lets through: a server takes a while to change its mind.
        """
        name = definition["metadata"]["name"]
        current = self.client.get(f"{DEFINITIONS}/{name}")
        if current.code == 404:
            self.client.post(DEFINITIONS, definition).expect(201)
        else:
            metadata = {"name": name, "resourceVersion": current.version}
            self.client.put(f"{DEFINITIONS}/{name}", {**definition, "metadata": metadata}).expect(200)
        spec = definition["spec"]
        version, plural = spec["versions"][0], spec["names"]["plural"]
        base = f"/apis/{spec['group']}/{version['name']}"
        wait_for(f"{base}/{plural} to be served", lambda: self.client.get(f"{base}/{plural}").code == 200)
        has_status = "status" in version.get("subresources", {})
        wait_for(f"{base} to change", lambda: (b'/status"' in self.client.get(base).raw) == has_status)
        if allowed is not None:
            inside = f"{base}/namespaces/default/{plural}"
            wait_for(f"{name} to change", lambda: self.client.post(inside, allowed, dryRun="All").code == 201)

    def delete_leases(self) -> None:
        """A controller that was killed holds one that the next test would have to wait for."""
        path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
        for name in self.client.get(path).expect(200).names:
            self.client.delete(f"{path}/{name}")


class Embedded(Cluster):
    def __init__(self, folder: Path) -> None:
        self._starts = 0
        self._socket = folder / "socket"
        self._data = folder / "data"
        self._port = 0
        self._kubeconfig = folder / "kubeconfig"
        self._folder = folder
        self.process = self._start()
        super().__init__(folder, self._kubeconfig)
        self._port = self.client.access.port

    def upstream(self) -> Upstream:
        return Upstream(url="http://localhost", socket=str(self._socket))

    def upstream_of_installation(self, name: str, settings: Settings) -> Upstream:
        """The server as the service account of an installation in a new namespace sees it: by TLS, token and RBAC."""
        options = InstallOptions(namespace=name, settings=settings)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.client.post("/api/v1/namespaces", namespace).expect(201)
        for manifest in install_manifests.access(options):
            inside = manifest["metadata"].get("namespace")
            base = "/api/v1" if manifest["kind"] == "ServiceAccount" else f"/apis/{RBAC}/v1"
            place = f"/namespaces/{inside}" if inside else ""
            self.client.post(f"{base}{place}/{manifest['kind'].lower()}s", manifest).expect(201)
        path = f"/api/v1/namespaces/{name}/serviceaccounts/{CONTROLLER_NAME}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.client.post(path, request).expect(201).body["status"]["token"]
        certificate = (self._data / "server.crt").read_text(encoding="utf-8")
        return Upstream(url=f"https://localhost:{self._port}", token=token, authority=certificate)

    def kill(self) -> None:
        self.process.kill()

    def restart(self) -> None:
        self.client.close()
        self.process = self._start()
        self.wait_for_answers()

    def _start(self) -> Process:
        self._starts += 1
        command = [
            *(sys.executable, "-m", "windlass.localcluster"),
            *("--data", str(self._data)),
            *("--kubeconfig", str(self._kubeconfig)),
            *("--socket", str(self._socket)),
            *("--port", str(self._port)),
        ]
        process = Spawned("API server", command, self._folder / f"api-{self._starts}.log")
        wait_for("the embedded server to start", lambda: _is_ready(process))
        return process


def _is_ready(process: Process) -> bool:
    assert process.code is None, f"the embedded server ended:\n{process.tail()}"
    return "is ready" in process.text()


class Real(Cluster):
    def __init__(self, folder: Path, api: Any) -> None:
        super().__init__(folder, api.kubeconfig)
        self._api = api
        self._command: list[str] = []
        self._restarted: Process | None = None
        self.is_real = True

    def kill(self) -> None:
        if self._restarted is not None:
            self._restarted.kill()
            return
        pid, self._command = _started_by_us(f"--secure-port={self.client.access.port}")
        os.kill(pid, signal.SIGKILL)

    def restart(self) -> None:
        self.client.close()
        log = self.folder / "kube-apiserver.log"
        self._restarted = Spawned("kube-apiserver", self._command, log)
        self.wait_for_answers()

    def stop(self) -> None:
        self.client.close()
        if self._restarted is not None:
            self._restarted.kill()

    @property
    def kubelets_kubeconfig(self) -> Path:
        kubeconfig: Path = self._api.users[KUBELET].kubeconfig
        return kubeconfig

    def upstream(self) -> Upstream:
        return upstream_of_kubeconfig(self._api.users[CONTROLLER].kubeconfig)

    def grant(self, settings: Settings) -> None:
        plan = InstallOptions(namespace="default", settings=settings)
        for manifest in install_manifests.access(plan):
            if manifest["kind"] == "ServiceAccount":
                continue
            if _is_bound_to_the_account(manifest):
                manifest["subjects"] = [{"apiGroup": RBAC, "kind": "User", "name": CONTROLLER}]
            inside = manifest["metadata"].get("namespace")
            place = f"/namespaces/{inside}" if inside else ""
            path = f"/apis/{RBAC}/v1{place}/{manifest['kind'].lower()}s"
            self.client.post(path, manifest).expect(201)
        granted = Client(Access.of_kubeconfig(self._api.users[CONTROLLER].kubeconfig))
        leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases/windlass-controller"
        with contextlib.closing(granted):
            for path in (leases, f"{DEFINITIONS}/{names.PLURAL}.{names.LAUNCHER_GROUP}", "/api/v1/pods"):
                wait_for(f"the right to {path}", lambda at=path: granted.get(at).code != 403)  # type: ignore[misc]

    def audited(self, user: str) -> list[Json]:
        lines = self._api.audit_log.read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line) for line in lines]
        return [
            entry
            for entry in entries
            if entry["stage"] == "ResponseComplete" and entry["user"]["username"] == user
        ]


def _is_bound_to_the_account(manifest: Json) -> bool:
    """Whether a binding is for a service account, and not for all accounts."""
    return any(subject["kind"] == "ServiceAccount" for subject in manifest.get("subjects", ()))


@contextlib.contextmanager
def running(*, audit: bool = True) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="windlass-operator-") as name:
        folder = Path(name)
        if servers.chosen() == "real":
            with _real(folder, audit) as real:
                yield real
            return
        embedded = Embedded(folder)
        try:
            yield embedded
        finally:
            embedded.client.close()
            embedded.process.kill()


@contextlib.contextmanager
def _real(folder: Path, audit: bool) -> Iterator[Real]:
    import kubernetes_api  # the embedded server's tests run without it

    users = {CONTROLLER: UNPRIVILEGED, KUBELET: MASTERS}
    with kubernetes_api.serve(users=users, audit=audit, environment=_environment()) as api:
        real = Real(folder, api)
        try:
            yield real
        finally:
            real.stop()


def _started_by_us(argument: str) -> tuple[int, list[str]]:
    """The child process that was given that argument, and its command line."""
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            command = status.with_name("cmdline").read_text().split("\0")[:-1]
            if argument in command and f"\nPPid:\t{os.getpid()}\n" in status.read_text():
                return int(status.parent.name), command
    raise AssertionError(f"no process of ours has the argument {argument}")


def _environment() -> dict[str, str]:
    """Without KUBECONFIG: these tests need users of their own, an audit log, and a server that they may kill."""
    return {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
