"""Open MPI with a hostfile: mpirun in a launcher starts ranks in the workers' pods by ssh."""

import math
import re
import subprocess
from typing import Final

import pytest

import examples
from examples import EXAMPLES

NAME: Final = "pi-mpi"
HEAD: Final = "apiVersion: frameworkcontroller.microsoft.com/v1"
RANK: Final = re.compile(r"rank (\d+) of 2 on (\S+): ([\d.]+)")
PI: Final = re.compile(r"pi is ([\d.]+), by 2 ranks")


@pytest.fixture
def secret() -> str:
    """Return a Secret with a new key, as YAML that ends where the next document begins."""
    examples.needs("mpirun", "/usr/sbin/sshd", "ssh", "ssh-keygen")
    command = ["sh", str(EXAMPLES / NAME / "secret.sh")]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout  # noqa: S603


@pytest.mark.parametrize("network", ["isolated", "shared"])
def test_mpi_computes_pi(network: str, secret: str) -> None:
    result = examples.run_example(NAME, "--network", network, replaced={HEAD: f"{secret}{HEAD}"})
    result.expect("Succeeded")

    written = "\n".join(result.lines_of("launcher-0"))
    ranks = {int(rank): (host, float(area)) for rank, host, area in RANK.findall(written)}
    assert {rank: host for rank, (host, _) in ranks.items()} == {0: "worker-0", 1: "worker-1"}
    (pi,) = map(float, PI.findall(written))
    assert pi == pytest.approx(math.pi, abs=1e-9)
    assert pi == pytest.approx(sum(area for _, area in ranks.values()), abs=1e-9), "each has added its part"
