"""Starts the server under test.

`WINDLASS_TEST_CLUSTER=real` uses a real Kubernetes (that of KUBECONFIG, if set); the default is the embedded server.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from conformance.client import Access, Client
from conformance.waiting import wait_for

CHOICE: Final = "WINDLASS_TEST_CLUSTER"
Kind = Literal["embedded", "real"]


class Cluster(msgspec.Struct, frozen=True):
    kind: Kind
    kubeconfig: Path
    client: Client
    versions: dict[str, Any]
    images: tuple[str, ...]
    """Images that pods may use. Without nodes, nothing runs them."""
    is_disposable: bool
    """Whether the server is stopped after the tests, so that namespaces need not be deleted (slow on a real one)."""

    @property
    def is_real(self) -> bool:
        return self.kind == "real"


def chosen() -> Kind:
    choice = os.environ.get(CHOICE, "embedded")
    if choice == "embedded":
        return "embedded"
    if choice == "real":
        return "real"
    raise ValueError(f"{CHOICE} is {choice!r}; it has to be 'embedded' or 'real'")


@contextlib.contextmanager
def running() -> Iterator[Cluster]:
    kind = chosen()
    with contextlib.ExitStack() as stack:
        kubeconfig = stack.enter_context(_real() if kind == "real" else _embedded())
        client = stack.enter_context(contextlib.closing(Client(Access.of_kubeconfig(kubeconfig))))
        wait_for("the server to be ready", lambda: client.get("/readyz").code == 200)
        versions = client.get("/version").expect(200).body
        is_shared = kind == "real" and "KUBECONFIG" in os.environ
        images = ("windlass/test:1", "windlass/test:2")
        yield Cluster(kind, kubeconfig, client, versions, images, not is_shared)


@contextlib.contextmanager
def _real() -> Iterator[Path]:
    import kubernetes_api  # not needed for the embedded server

    with kubernetes_api.serve() as api:
        yield api.kubeconfig


@contextlib.contextmanager
def _embedded() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="windlass-test-") as folder:
        kubeconfig, log = Path(folder, "kubeconfig"), Path(folder, "log")
        command = [sys.executable, "-m", "windlass.localcluster"]
        options = ["--data", str(Path(folder, "data")), "--kubeconfig", str(kubeconfig), "--history", "500"]
        with log.open("wb") as output:
            process = subprocess.Popen([*command, *options], stdout=output, stderr=subprocess.STDOUT)  # noqa: S603
        try:
            wait_for("the embedded server to start", lambda: kubeconfig.exists() or _ended(process, log))
            yield kubeconfig
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _ended(process: subprocess.Popen[bytes], log: Path) -> bool:
    code = process.poll()
    assert code is None, (
        f"the embedded server ended with exit code {code}:\n{log.read_text(errors='replace')[-4000:]}"
    )
    return False
