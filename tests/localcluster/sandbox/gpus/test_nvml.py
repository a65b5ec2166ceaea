"""The inventory through NVML, with a simulated library at the boundary of the driver."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from simulated_gpus import build_nvml

READ = """
import sys, msgspec
from windlass.localcluster.sandbox.gpus.nvml import Nvml
nvml = Nvml(sys.argv[1])
sys.stdout.buffer.write(msgspec.json.encode([nvml.devices(), nvml.usage()]))
"""
MINORS = "config 1\nmonitor 2\ngpu5/gi9/access 84\ngpu5/gi9/ci0/access 85\ngpu5/gi8/access 75\n"


def test_gpus_and_mig_instances_are_read_from_nvml(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler for the simulated NVML")
    library = build_nvml(tmp_path, compiler)
    done = subprocess.run(  # noqa: S603 — this interpreter
        [sys.executable, "-c", READ, MINORS],
        env={**os.environ, "LD_LIBRARY_PATH": str(library)},
        stdout=subprocess.PIPE,
        check=True,
    )
    devices, usage = msgspec.json.decode(done.stdout)
    assert devices == [
        {
            "id": "GPU-5a1d0000-first",
            "resource": "nvidia.com/gpu",
            "index": 0,
            "name": "Simulated H200",
            "files": ["nvidia4"],
            "memory_bytes": 141 << 30,
        },
        {
            "id": "MIG-5a1d0000-instance",
            "resource": "nvidia.com/mig-1g.18gb",
            "index": 1,
            "name": "Simulated H200 MIG 1g.18gb",
            "files": ["nvidia5", "nvidia-caps/nvidia-cap84", "nvidia-caps/nvidia-cap85"],
            "memory_bytes": 18 << 30,
        },
    ]
    first = {
        "utilization": 0.42,
        "memory_bytes": 1 << 30,
        "processes": [{"pid": 101, "memory_bytes": 5 << 20}],
    }
    # The driver tells no utilization of instances. Process 203 belongs to another one.
    instance = {
        "utilization": None,
        "memory_bytes": 3 << 30,
        "processes": [{"pid": 202, "memory_bytes": 6 << 20}],
    }
    assert usage == {"GPU-5a1d0000-first": first, "MIG-5a1d0000-instance": instance}
