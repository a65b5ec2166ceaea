"""PodFacts about a machine, from the files of an invented one."""

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from windlass.localcluster.apiserver.openapi import discovery
from windlass.localcluster.kubelet import machine
from windlass.localcluster.kubelet.machine import Sources

GIB = 1024**3
FILES = {
    "proc/meminfo": "MemTotal:       8388608 kB\nMemFree:        21 kB\n",
    "proc/self/cgroup": "0::/user.slice/daemon\n",
    "proc/sys/kernel/random/boot_id": "boot\n",
    "etc/machine-id": "machine\n",
    "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
}


def uname(**given: str) -> platform.uname_result:
    known = {"system": "Linux", "node": "Lab.example", "release": "6.1.0", "version": "#1"}
    return platform.uname_result(*(known | {"machine": "x86_64"} | given).values())


def refused() -> str:
    raise OSError("Network is unreachable")


def sources(root: Path, files: Mapping[str, str] = FILES, **given: Any) -> Sources:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    usual: dict[str, Any] = {
        "uname": uname,
        "mac_version": lambda: "14.5",
        "cpus": lambda: 8,
        "memory_bytes": lambda: 16 * GIB,
        "storage_bytes": lambda folder: 100 * GIB if folder == root else 0,
        "address": lambda: "10.1.2.3",
    }
    return Sources(root=root, **(usual | given))


def test_complete_facts_of_a_linux_machine(tmp_path: Path) -> None:
    found = machine.detect(tmp_path / "not" / "yet", sources(tmp_path))
    assert (found.host_name, found.architecture, found.operating_system) == ("Lab.example", "amd64", "linux")
    assert (found.cpu, found.memory_bytes, found.storage_bytes, found.gpus) == (8, 8 * GIB, 100 * GIB, ())
    assert (found.os_image, found.kernel_version) == ("Debian GNU/Linux 12 (bookworm)", "6.1.0")
    assert (found.machine_id, found.boot_id, found.address) == ("machine", "boot", "10.1.2.3")
    assert found.version == discovery.version()["gitVersion"]
    assert found.runtime_version.startswith("windlass://")


def test_facts_of_a_mac(tmp_path: Path) -> None:
    mac = sources(tmp_path, {}, uname=lambda: uname(system="Darwin", machine="arm64", release="23.5.0"))
    found = machine.detect(tmp_path, mac)
    assert (found.architecture, found.operating_system, found.os_image) == ("arm64", "darwin", "macOS 14.5")
    assert (found.cpu, found.memory_bytes, found.gpus) == (8, 16 * GIB, ())
    assert (found.machine_id, found.boot_id) == ("", "")


def test_facts_of_this_machine(tmp_path: Path) -> None:
    found = machine.detect(tmp_path)
    assert found.cpu >= 1
    assert found.memory_bytes > 0
    assert found.storage_bytes > 0
    assert found.address.count(".") == 3


@pytest.mark.parametrize(
    ("named", "expected"),
    [("x86_64", "amd64"), ("aarch64", "arm64"), ("arm64", "arm64"), ("RISCV64", "riscv64")],
)
def test_architectures(tmp_path: Path, named: str, expected: str) -> None:
    found = machine.detect(tmp_path, sources(tmp_path, uname=lambda: uname(machine=named)))
    assert found.architecture == expected


@pytest.mark.parametrize("address", [refused, lambda: "0.0.0.0", lambda: ""])  # noqa: S104 — nothing is bound
def test_machine_without_network_has_the_loopback_address(tmp_path: Path, address: Any) -> None:
    assert machine.detect(tmp_path, sources(tmp_path, address=address)).address == "127.0.0.1"


V1 = {"proc/self/cgroup": "4:memory:/a/b\n2:cpu,cpuacct:/a\n1:name=systemd:/\n0::/\n"}


@pytest.mark.parametrize(
    ("files", "cpu", "memory"),
    [
        pytest.param({}, 8, 8 * GIB, id="no limit"),
        pytest.param({"user.slice/daemon/cpu.max": "250000 100000"}, 2, 8 * GIB, id="rounded down"),
        pytest.param({"user.slice/daemon/cpu.max": "50000 100000"}, 1, 8 * GIB, id="never none"),
        pytest.param({"user.slice/daemon/cpu.max": "max 100000"}, 8, 8 * GIB, id="max"),
        pytest.param({"user.slice/cpu.max": "300000 100000"}, 3, 8 * GIB, id="of a group above"),
        pytest.param({"cpu.max": "400000 100000"}, 4, 8 * GIB, id="of the top"),
        pytest.param({"cpu.max": "6400000 100000"}, 8, 8 * GIB, id="more than there is"),
        pytest.param({"user.slice/daemon/memory.max": f"{GIB}"}, 8, GIB, id="memory"),
        pytest.param(
            {"user.slice/daemon/memory.max": "max", "memory.max": f"{2 * GIB}"}, 8, 2 * GIB, id="above"
        ),
        pytest.param({**V1}, 8, 8 * GIB, id="v1 without limits"),
        pytest.param(
            {
                **V1,
                "cpu,cpuacct/a/cpu.cfs_quota_us": "200000",
                "cpu,cpuacct/a/cpu.cfs_period_us": "100000",
                "memory/a/b/memory.limit_in_bytes": "9223372036854771712",
                "memory/a/memory.limit_in_bytes": f"{3 * GIB}",
            },
            *(2, 3 * GIB),
            id="v1",
        ),
        pytest.param(
            {**V1, "cpu,cpuacct/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            *(8, 8 * GIB),
            id="v1 unlimited",
        ),
    ],
)
def test_cgroup_limits_reduce_capacity(tmp_path: Path, files: dict[str, str], cpu: int, memory: int) -> None:
    placed = {
        name if name.startswith("proc") else f"sys/fs/cgroup/{name}": text for name, text in files.items()
    }
    found = machine.detect(tmp_path, sources(tmp_path, FILES | placed))
    assert (found.cpu, found.memory_bytes) == (cpu, memory)
