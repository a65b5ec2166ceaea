"""Unchanged PyTorchJobs, JAXJobs and MPIJobs run by `windlass run`."""

import sys
from pathlib import Path
from typing import Final

import foreign_jobs
import pytest
from tests.launchers.test_mpi import OPEN_MPI

import examples

NETWORKS: Final = pytest.mark.parametrize("network", ["isolated", "shared"])

TORCH: Final = """
import os, torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
node = os.environ["GROUP_RANK"]
print(f"sum rank={dist.get_rank()} size={dist.get_world_size()} value={value.item()} node={node}\\n", end="")
dist.destroy_process_group()
"""
JAX: Final = """
import os, jax, jax.numpy as jnp
from jax.experimental import multihost_utils

address = os.environ["COORDINATOR_ADDRESS"] + ":" + os.environ["COORDINATOR_PORT"]
jax.distributed.initialize(address, int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"]))
values = multihost_utils.process_allgather(jnp.array([jax.process_index() + 1.0]))
print(f"sum rank={jax.process_index()} size={jax.process_count()} value={float(values.sum())}")
"""
MPI: Final = """
import socket
from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
print(f"sum rank={world.rank} size={world.size} value={total} host={socket.gethostname()}\\n", end="", flush=True)
"""
WITHOUT_HOST_KEYS: Final = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
"""As in the images of the MPI operator."""


@NETWORKS
def test_pytorchjob_trains(network: str, tmp_path: Path) -> None:
    examples.needs("torch", "sklearn")
    folder = foreign_jobs.image_of_example("digits-ddp", tmp_path)
    result = foreign_jobs.run("pytorchjob", folder, network).expect("Succeeded")

    begins = {task: result.value(task, "begins ") for task in ("master-0", "worker-0")}
    assert {task: each["rank"] for task, each in begins.items()} == {"master-0": "0", "worker-0": "1"}
    assert float(result.value("master-0", "ends ")["accuracy"]) > 0.8


@NETWORKS
def test_pytorchjob_runs_torchrun(network: str, tmp_path: Path) -> None:
    examples.needs("torch", "torchrun")
    folder = foreign_jobs.image({"opt/sum.py": TORCH}, tmp_path)
    result = foreign_jobs.run("torchrun", folder, network).expect("Succeeded")

    master = result.values("master-0", "sum ")
    assert sorted(each["rank"] for each in master) == ["0", "1"], (
        "the master has the first ranks, as in the original"
    )
    assert {(each["size"], each["value"]) for each in master} == {("4", "10.0")}


@NETWORKS
def test_jaxjob_runs(network: str, tmp_path: Path) -> None:
    examples.needs("jax")
    folder = foreign_jobs.image({"opt/sum.py": JAX}, tmp_path)
    result = foreign_jobs.run("jaxjob", folder, network).expect("Succeeded")

    found = [result.value(task, "sum ") for task in ("worker-0", "worker-1")]
    assert [(each["rank"], each["size"], each["value"]) for each in found] == [
        ("0", "2", "3.0"),
        ("1", "2", "3.0"),
    ]


def test_mpijob_runs_over_ssh(tmp_path: Path) -> None:
    examples.needs(OPEN_MPI.path, "mpi4py", "/usr/sbin/sshd", "ssh")
    files = {"opt/sum.py": MPI, "etc/ssh/ssh_config": WITHOUT_HOST_KEYS, "run/sshd/.keep": ""}
    replaced = {"MPIRUN": OPEN_MPI.path, "PYTHON": sys.executable}
    result = foreign_jobs.run("mpijob", foreign_jobs.image(files, tmp_path), "isolated", replaced).expect(
        "Succeeded"
    )

    found = sorted(result.values("launcher-0", "sum "), key=lambda each: each["rank"])
    assert [(each["rank"], each["value"], each["host"]) for each in found] == [
        ("0", "3", "sum-mpi-worker-0"),
        ("1", "3", "sum-mpi-worker-1"),
    ]
