"""The plan of a container run."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass.localcluster.kubelet.containers import plan as container_plan
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import PodFacts
from windlass.localcluster.kubelet.containers.plan import PodContext
from windlass.localcluster.kubelet.gpus import Inventory
from windlass.localcluster.kubelet.host import Host
from windlass.localcluster.kubelet.pods import directory
from windlass.localcluster.kubelet.volumes.setup import PodVolumes
from windlass.localcluster.sandbox.messages import ContainerPlan, Limits, MemoryFolder, Mount, User
from windlass.model.base import Json

HOST = Host(uid=1000, gid=1000, groups=(), environment={"PATH": "/bin", "HOME": "/home/ann"}, pids_limit=512)
PLAIN = msgspec.structs.replace(HOST, no_mounts_because="no user namespaces")
SHM = "/dev/shm"  # noqa: S108 — in the container
ACCESS = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture
def setting(tmp_path: Path) -> PodContext:
    folder = directory.PodDirectory(tmp_path / "pods" / "0b1c")
    directory.make(folder)
    paths = {name: folder.volume(name) for name in ("data", "shm")}
    for path in paths.values():
        path.mkdir()
    return PodContext(
        folder=folder,
        volumes=PodVolumes(
            {name: str(path) for name, path in paths.items()} | {"kube-api-access_": "/access"},
            (MemoryFolder(str(paths["shm"])),),
        ),
        facts=PodFacts(pod_ips=("10.88.0.7",), host_ips=(), allocatable={}),
        lookup=lambda _, __: None,
        hostname="p",
        host=HOST,
    )


def _plan(setting: PodContext, container: Json, image: str = "", **spec: Any) -> ContainerPlan:
    container = {"name": "main", "command": ["true"], **container}
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "shm", "emptyDir": {"medium": "Memory"}}]
    pod = {
        "metadata": {"name": "p", "namespace": "n", "uid": "0b1c"},
        "spec": {
            "containers": [container],
            "volumes": volumes,
            "automountServiceAccountToken": False,
            **spec,
        },
    }
    return container_plan.plan(pod, container, setting, run_id="r1", restart_count=2, image=image)


def _mounted(name: str, path: str, **more: Any) -> Json:
    return {"name": name, "mountPath": path, **more}


def test_complete_plan(setting: PodContext) -> None:
    container = {
        "command": ["echo", "$(WHO)"],
        "args": ["$(HOME)"],
        "env": [{"name": "WHO", "value": "me"}],
        "workingDir": "/data",
        "stdin": True,
        "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}},
        "volumeMounts": [_mounted("data", "/data", readOnly=True)],
    }
    folder = setting.folder
    assert _plan(setting, container, image="/images/one") == ContainerPlan(
        id="r1",
        name="main",
        # What the machine gives is not the container's own, and is not expanded.
        argv=(b"echo", b"me", b"$(HOME)"),
        environment={
            b"PATH": b"/bin",
            b"HOME": b"/home/ann",
            b"HOSTNAME": b"p",
            b"WHO": b"me",
            b"WINDLASS_POD": b"0b1c",
        },
        working_directory="/data",
        mounts=(
            Mount(str(folder.volume("data")), "/data", read_only=True),
            Mount(str(folder.hosts), "/etc/hosts"),
            Mount(str(folder.resolv_conf), "/etc/resolv.conf"),
            Mount(str(folder.hostname), "/etc/hostname"),
            Mount(str(folder.shared_memory), SHM),
            Mount(str(folder.termination_log("r1")), "/dev/termination-log"),
        ),
        log=str(folder.log("main", 2)),
        image="/images/one",
        user=User(),
        limits=Limits(memory_bytes=2**26, processes=512, cpu_milli=1500),
        has_stdin=True,
    )
    assert folder.termination_log("r1").read_bytes() == b""
    assert folder.logs("main").is_dir()


@pytest.mark.parametrize(
    ("container", "changes", "expected"),
    [
        ({"env": [{"name": "PATH", "value": "/opt"}]}, {}, {"PATH": "/opt"}),
        ({"env": [{"name": "HOSTNAME", "value": "other"}]}, {}, {"HOSTNAME": "other"}),
        ({"env": [{"name": "WINDLASS_POD", "value": "forged"}]}, {}, {"WINDLASS_POD": "0b1c"}),
        ({"tty": True}, {}, {"TERM": "xterm"}),
        ({}, {"gpus": Inventory(has_nvidia=True)}, {"CUDA_VISIBLE_DEVICES": ""}),
        ({"securityContext": {"runAsUser": 4_000_000_000}}, {"uid": 0}, {"HOME": "/", "USER": "4000000000"}),
    ],
)
def test_environment(setting: PodContext, container: Json, changes: Json, expected: dict[str, str]) -> None:
    host = msgspec.structs.replace(HOST, **changes)
    plan = _plan(msgspec.structs.replace(setting, host=host), container)
    found = {key.decode(): value.decode() for key, value in plan.environment.items()}
    assert {key: found.get(key) for key in expected} == expected


def test_bytes_that_are_not_utf8_stay_unchanged(setting: PodContext) -> None:
    host = msgspec.structs.replace(HOST, environment={"LANG": "\udcff"})
    plan = _plan(msgspec.structs.replace(setting, host=host), {})
    assert plan.environment[b"LANG"] == b"\xff"


@pytest.mark.parametrize(
    ("mounts", "targets"),
    [
        ([], ["/etc/hosts", "/etc/resolv.conf", "/etc/hostname", SHM, "/dev/termination-log"]),
        # What is mounted over /etc would hide what is mounted in it.
        (
            [_mounted("data", "/etc")],
            ["/etc", "/etc/hosts", "/etc/resolv.conf", "/etc/hostname", SHM, "/dev/termination-log"],
        ),
        (
            [_mounted("data", "/etc/hosts")],
            ["/etc/resolv.conf", "/etc/hostname", SHM, "/etc/hosts", "/dev/termination-log"],
        ),
        (
            [_mounted("shm", "/dev/shm/")],  # noqa: S108
            ["/etc/hosts", "/etc/resolv.conf", "/etc/hostname", SHM, "/dev/termination-log"],
        ),
    ],
)
def test_mounts_are_ordered_by_depth(setting: PodContext, mounts: list[Json], targets: list[str]) -> None:
    assert [mount.target for mount in _plan(setting, {"volumeMounts": mounts}).mounts] == targets


def test_shared_memory_of_the_pod_is_mounted_unless_there_is_a_volume(setting: PodContext) -> None:
    own = Mount(str(setting.folder.shared_memory), SHM)
    assert own in _plan(setting, {}).mounts
    assert own not in _plan(setting, {"volumeMounts": [_mounted("shm", SHM)]}).mounts
    assert own not in _plan(setting, {}, hostIPC=True).mounts
    setting.folder.shared_memory.rmdir()
    assert own not in _plan(setting, {}).mounts, "an older version has created the pod"


def test_service_account_is_mounted(setting: PodContext) -> None:
    plan = _plan(setting, {}, automountServiceAccountToken=True)
    assert Mount("/access", ACCESS, read_only=True) in plan.mounts


def test_sub_paths_of_volumes(setting: PodContext) -> None:
    mounts = [_mounted("data", "/a", subPath="new/one"), _mounted("shm", "/b", subPath="new")]
    plan = _plan(setting, {"volumeMounts": mounts})
    assert Mount(str(setting.folder.volume("data")), "/a", sub_path="new/one") in plan.mounts
    assert (setting.folder.volume("data") / "new/one").is_dir()
    # Nothing is made under what will be mounted there: only the pod's own processes see what is in it.
    assert Mount(str(setting.folder.volume("shm")), "/b", sub_path="new") in plan.mounts
    assert not (setting.folder.volume("shm") / "new").exists()


def test_sub_path_outside_of_volume_is_rejected(setting: PodContext) -> None:
    (setting.folder.volume("data") / "out").symlink_to("/etc")
    with pytest.raises(SetupError) as told:
        _plan(setting, {"volumeMounts": [_mounted("data", "/a", subPath="out")]})
    assert told.value.reason == "CreateContainerConfigError"
    assert told.value.message == (
        'failed to prepare subPath for volumeMount "data" of container "main":'
        " out is outside of the volume: /etc"
    )


# Without mounts


@pytest.fixture
def plain(setting: PodContext) -> PodContext:
    return msgspec.structs.replace(setting, host=PLAIN)


def test_volume_at_its_own_path_needs_no_mount(plain: PodContext) -> None:
    place = str(plain.folder.volume("data"))
    mounts = [_mounted("data", f"{place}/"), _mounted("data", f"{place}/sub", subPath="sub")]
    assert _plan(plain, {"volumeMounts": mounts}, automountServiceAccountToken=True).mounts == ()
    assert Path(place, "sub").is_dir()


@pytest.mark.parametrize(
    ("mounts", "image", "what"),
    [
        ([_mounted("data", "/data")], "", 'volume "data" at /data'),
        ([], "/images/one", 'the files of image "tf"'),
    ],
)
def test_mount_is_rejected_where_mounts_are_impossible(
    plain: PodContext, mounts: list[Json], image: str, what: str
) -> None:
    with pytest.raises(SetupError) as told:
        _plan(plain, {"image": "tf", "volumeMounts": mounts}, image)
    assert told.value.reason == "CreateContainerError"
    assert told.value.message == (
        f'cannot mount {what} in container "main": this machine does not allow mounts for pods (no user namespaces).'
        " Mount a hostPath volume at its own path, or run the cluster on Linux as root or with user namespaces enabled."
    )


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, Limits(None, 512, None)),
        ({"cpu": "0.0001"}, Limits(None, 512, 1)),
        ({"cpu": "1", "memory": "0"}, Limits(None, 512, 1000)),
        ({"memory": "1.5Gi"}, Limits(1536 * 2**20, 512, None)),
        ({"cpu": "2", "memory": "1Gi"}, Limits(2**30, 512, 2000)),
    ],
)
def test_limits(setting: PodContext, limits: Json, expected: Limits) -> None:
    assert _plan(setting, {"resources": {"limits": limits}}).limits == expected
