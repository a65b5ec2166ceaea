"""Controllers on this machine with a wrong clock.

Only the wall clock is wrong; the monotonic clock is correct.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from live.clusters import NAMESPACE, Cluster
from live.place import SECONDS
from operated.controllers import options
from operated.processes import Process, Spawned

from conformance.objects import path as path_of
from conformance.waiting import wait_for
from one_node import container_runtime
from windlass.install.options import CONTROLLER_NAME

HOUR: Final = 3600
LEASE: Final = options(
    lease_namespace=NAMESPACE,
    lease_duration_sec="6",
    lease_renew_deadline_sec="4",
    lease_retry_period_sec="0.5",
    request_timeout_sec="4",
)


class SkewedController:
    """A controller with a wrong clock that takes part in the cluster's leader election."""

    def __init__(self, cluster: Cluster, process: Process) -> None:
        self._cluster = cluster
        self.process = process

    def wait_until_it_leads(self) -> str:
        """Wait until it leads and return its identity."""

        def identity() -> str | None:
            assert self.process.code is None, self.process.tail()
            found = holder_of_lease(self._cluster)
            return found if found and f'"{found}"' in self.process.text() else None

        return wait_for(f"{self.process.name} to lead", identity, SECONDS)


@contextlib.contextmanager
def off_by(seconds: int, cluster: Cluster, folder: Path) -> Iterator[SkewedController]:
    name = f"controller{seconds:+d}"
    environment = {
        "LD_PRELOAD": str(container_runtime.ensure() / "lib" / container_runtime.FAKETIME),
        "FAKETIME": f"{seconds:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    _require_wrong_clock(environment, seconds)
    command = [
        *(sys.executable, "-m", "windlass.cli.main", "controller"),
        *("--kubeconfig", str(cluster.kubeconfig)),
        *("--metrics-address", "off"),
        *LEASE,
    ]
    process = Spawned(name, command, folder / f"{name}.log", environment)
    try:
        yield SkewedController(cluster, process)
    finally:
        process.kill()


def holder_of_lease(cluster: Cluster) -> str:
    lease = cluster.client.get(path_of("leases", CONTROLLER_NAME, namespace=NAMESPACE)).expect(200).body
    return str(lease["spec"].get("holderIdentity") or "")


def _require_wrong_clock(environment: dict[str, str], seconds: int) -> None:
    """Check that the clock is wrong: the library might not have been loaded."""
    command = [sys.executable, "-c", "import time; print(time.time())"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    assert abs(float(done.stdout) - time.time() - seconds) < HOUR / 2, done.stdout + done.stderr
