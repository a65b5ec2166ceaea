"""The controller as a user runs it: a process, of which a test knows its log, its endpoints and what it asks for."""

import itertools
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from operated.forked import Forked
from operated.processes import Process, Spawned
from operated.proxy import Proxy

from conformance.waiting import wait_for

STARTS = itertools.count(1)


class Controller:
    """One that may be killed and started again; all its lives share a proxy and have a log each."""

    def __init__(
        self,
        name: str,
        proxy: Proxy,
        folder: Path,
        options: Sequence[str],
        environment: Mapping[str, str],
        *,
        is_forked: bool,
    ) -> None:
        self.name = name
        self.proxy = proxy
        self._folder = folder
        self._options = list(options)
        self._environment = environment
        self._is_forked = is_forked
        self.process = self._started()

    @property
    def is_alive(self) -> bool:
        return self.process.code is None

    def start_again(self) -> None:
        assert not self.is_alive, f"{self.name} still runs"
        self.process = self._started()

    def _started(self) -> Process:
        number = next(STARTS)
        arguments = [
            "controller",
            *("--kubeconfig", str(self.proxy.kubeconfig)),
            *("--metrics-address", "127.0.0.1:0"),
            *("--log-format", "json"),
            *self._options,
        ]
        name, log = f"{self.name} ({number})", self._folder / f"{self.name}-{number}.log"
        if self._is_forked:
            return Forked(name, arguments, log)
        command = [sys.executable, "-m", "windlass.cli.main", *arguments]
        return Spawned(name, command, log, self._environment)

    def lines(self) -> list[dict[str, Any]]:
        """The structured lines of its log. Snapshots are plain lines, as the reference writes them."""
        return [json.loads(line) for line in self.process.text().splitlines() if line.startswith("{")]

    def snapshots(self, trigger: str, namespace: str) -> list[dict[str, Any]]:
        """Return the objects in a namespace that were logged with this trigger."""
        marked = (
            line.partition(f": {trigger}: ObjectSnapshot: ") for line in self.process.text().splitlines()
        )
        taken = (json.loads(snapshot) for _, _, snapshot in marked if snapshot)
        return [each for each in taken if each["metadata"]["namespace"] == namespace]

    def require_no_exceptions(self) -> None:
        """Fail if the log contains an unexpected exception."""
        surprises = [line["exception"] for line in self.lines() if "exception" in line]
        assert not surprises, f"{self.name} was surprised:\n{surprises[0]}"

    def ask(self, path: str) -> tuple[int, str]:
        """Request one of the controller's own endpoints."""
        try:
            with urllib.request.urlopen(f"http://{self.address()}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def address(self) -> str:
        """Return the address of /metrics, /healthz and /readyz."""
        return wait_for(f"{self.name} to say where it serves\n{self.process.tail()}", lambda: self._address())

    def _address(self) -> str | None:
        assert self.is_alive, f"{self.name} ended with {self.process.code}:\n{self.process.tail()}"
        served = (
            line.get("address")
            for line in self.lines()
            if line.get("message") == "serving metrics and health checks"
        )
        return next((str(address) for address in served if address), None)


def options(**settings: str) -> list[str]:
    """`lease_duration_sec="3"` → `--lease-duration-sec 3`."""
    return [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", value)]
