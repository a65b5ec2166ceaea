"""A replacement for `windlass.localcluster.cluster`: the real API server, and pods that only report a status.

A pod's life is defined by its annotations, which the fake kubelet reads.
"""

import asyncio
import contextlib
import importlib
import sys
import types
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_kubelet.kubelet import FakeKubelet

from windlass.kubeapi import access
from windlass.kubeapi.transport import Transport
from windlass.localcluster.apiserver.streams.handlers import Process
from windlass.localcluster.apiserver.streams.requests import LogOptions
from windlass.localcluster.server import ApiServer

PODS = "pods"


class ClusterOptions(msgspec.Struct, frozen=True):
    nodes: int = 1
    network: str = "auto"
    is_ephemeral: bool = False
    host: str = "127.0.0.1"
    port: int = 0
    pod_pids_limit: int | None = 4096
    fake_gpus: int = 0
    hidden_folders: tuple[Path, ...] = ()


class CannotStartError(Exception):
    pass


class Logs:
    """Logs in which every container writes its pod's name once."""

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        time = "2026-01-01T00:00:00.000000000Z " if options.timestamps else ""
        return self._written(f"{time}{container} of {pod}\n{time}\n{time}without end".encode())

    async def _written(self, text: bytes) -> AsyncGenerator[bytes, None]:
        yield text

    async def exec(self, *_: Any, **__: Any) -> Process:
        raise NotImplementedError

    async def attach(self, *_: Any, **__: Any) -> Process:
        raise NotImplementedError

    async def open_port(self, *_: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise NotImplementedError


class LocalCluster:
    trouble = ""
    """The error of the next starts."""
    instances: list["LocalCluster"] = []

    def __init__(self, data: Path, options: ClusterOptions) -> None:
        self.data = data
        self.options = options
        self.url = ""
        self.socket = data / "api"
        self.kubeconfig = data / "kubeconfig"
        self.network = "shared"
        self.has_mounts = True
        self.idle_gpus: tuple[str, ...] = ()
        self.notes = ("this machine is made of paper",)
        self.ended_pods: bool | None = None
        self.images = b""
        """The local images of the cluster."""
        self._kubelet: asyncio.Task[None] | None = None
        LocalCluster.instances.append(self)

    async def start(self) -> None:
        if self.trouble:
            raise CannotStartError(self.trouble)
        with contextlib.suppress(FileNotFoundError):
            self.images = (self.data / "images.json").read_bytes()
        self._server = ApiServer(self.data)
        self._server.set_pod_runtime(Logs())
        await self._server.start(self.options.host, self.options.port, socket_path=self.socket)
        self.url = self._server.url
        self.kubeconfig.write_text("{}")
        self._transport = Transport(access.unix(self.socket))
        self._kubelet = asyncio.create_task(FakeKubelet(self._transport).run())

    async def stop(self, *, ends_pods: bool = False) -> None:
        self.ended_pods = ends_pods
        if self._kubelet is None:
            return
        self._kubelet.cancel()
        await asyncio.gather(self._kubelet, return_exceptions=True)
        await self._transport.close()
        await self._server.stop()


def remove_cgroups(data: Path) -> None:
    """Do nothing: there are no files outside of its folder."""


def install(monkeypatch: pytest.MonkeyPatch) -> type[LocalCluster]:
    """Replace `windlass.localcluster.cluster`, also in modules that have imported it."""
    hollow = {
        "LocalCluster": LocalCluster,
        "ClusterOptions": ClusterOptions,
        "CannotStartError": CannotStartError,
        "PODS": PODS,
        "remove_cgroups": remove_cgroups,
    }
    for name in ("run", "local.daemon"):
        module = importlib.import_module(f"windlass.runner.{name}")
        for attribute in hollow.keys() & vars(module).keys():
            monkeypatch.setattr(module, attribute, hollow[attribute])
    whole = types.ModuleType("windlass.localcluster.cluster")
    vars(whole).update(hollow)
    monkeypatch.setitem(sys.modules, "windlass.localcluster.cluster", whole)
    monkeypatch.setattr(LocalCluster, "instances", [])
    monkeypatch.setattr(LocalCluster, "trouble", "")
    return LocalCluster
