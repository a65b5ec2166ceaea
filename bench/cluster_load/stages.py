"""The environment of a measurement: an empty API server with the definitions and a fake kubelet (pods run nothing).
With KUBECONFIG it is that cluster, and all objects are deleted with their namespace."""

import asyncio
import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import kubernetes_api
import programs
from cluster_load import processes, workloads
from cluster_load.contenders import USER
from cluster_load.requests_made import AuditLog
from windlass.kubeapi import access, requests
from windlass.kubeapi.errors import NotFoundError
from windlass.kubeapi.resources import NAMESPACES, SERVICE_ACCOUNTS
from windlass.kubeapi.transport import Transport

KUBELET = "kubelet"
SECONDS_TO_CLEAR = 600.0
SECONDS_TO_MAKE_ACCOUNTS = 20.0
TEST_SUPPORT = Path(__file__).parents[2] / "tests" / "support"
"""The folder of the fake kubelet."""


class Stage(NamedTuple):
    api: kubernetes_api.Api
    folder: Path
    audit: AuditLog | None

    def end_of_log(self) -> str:
        """Return the end of the controller's log for a message."""
        log = self.folder / "controller.log"
        return f"The end of its log:\n{programs.tail(log)}" if log.exists() else "No log is available."


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    users = {USER: kubernetes_api.MASTERS, KUBELET: kubernetes_api.MASTERS}
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(kubernetes_api.serve(users=users, audit=True))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-bench-")))
        is_ours = bool(api.users)
        _define(api)
        stack.enter_context(_namespace(api, is_removed=not is_ours))
        kubeconfig = api.users[KUBELET].kubeconfig if is_ours else api.kubeconfig
        arguments = ["--kubeconfig", str(kubeconfig), "--label", workloads.LABEL, "--connections", "32"]
        # The node lifecycle controller of a cluster would delete pods of an unknown node.
        node = ["--node", "hollow" if is_ours else ""]
        command = processes.python("fake_kubelet.kubelet", *arguments, *node)
        environment = {"PYTHONPATH": str(TEST_SUPPORT)}
        stack.enter_context(processes.running(command, folder / "kubelet.log", environment))
        yield Stage(api, folder, AuditLog(api.audit_log) if api.audit_log else None)


def _define(api: kubernetes_api.Api) -> None:
    command = processes.python("windlass.cli.main", "install", "--crds-only", "--apply")
    environment = {**os.environ, "KUBECONFIG": str(api.kubeconfig)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"cannot create the definitions: {done.stderr}")


@contextlib.contextmanager
def _namespace(api: kubernetes_api.Api, *, is_removed: bool) -> Iterator[None]:
    asyncio.run(_create_namespace(api, is_removed=is_removed))
    try:
        yield
    finally:
        if is_removed:
            asyncio.run(_remove_namespace(api))


async def _create_namespace(api: kubernetes_api.Api, *, is_removed: bool) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": workloads.NAMESPACE}}
    async with Transport(await access.load(str(api.kubeconfig))) as transport:
        await transport.send(requests.create(NAMESPACES, "", json.dumps(body).encode()))
        if is_removed:
            # With a service account controller, pods are rejected until the account exists. A bare API server
            # has none.
            account = requests.get(SERVICE_ACCOUNTS, workloads.NAMESPACE, "default")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SECONDS_TO_MAKE_ACCOUNTS):
                    while not await _is_there(transport, account):
                        await asyncio.sleep(0.2)


async def _remove_namespace(api: kubernetes_api.Api) -> None:
    async with Transport(await access.load(str(api.kubeconfig))) as transport:
        await transport.send(requests.delete(NAMESPACES, "", workloads.NAMESPACE))
        async with asyncio.timeout(SECONDS_TO_CLEAR):
            while await _is_there(transport, requests.get(NAMESPACES, "", workloads.NAMESPACE)):
                await asyncio.sleep(0.5)


async def _is_there(transport: Transport, request: requests.Request) -> bool:
    try:
        await transport.send(request)
    except NotFoundError:
        return False
    return True
