"""The volumes of a pod on disk, and errors."""

import errno
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import PodFacts
from windlass.localcluster.kubelet.host import Host
from windlass.localcluster.kubelet.pods import directory
from windlass.localcluster.kubelet.volumes import service_account, setup
from windlass.localcluster.kubelet.volumes.setup import PodVolumes, VolumeContext
from windlass.localcluster.sandbox.messages import MemoryFolder, NfsFolder
from windlass.model.base import Json

NOW = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
FACTS = PodFacts(pod_ips=("10.88.0.7",), host_ips=(), allocatable={"memory": "16Gi"})
HOST = Host(uid=1000, gid=1000, groups=(), environment={})
PLAIN = msgspec.structs.replace(HOST, no_mounts_because="no user namespaces")


class Kept:
    """A pod's folder, and the objects that the pod may refer to."""

    def __init__(self, folder: Path) -> None:
        self.folder = directory.PodDirectory(folder / "pods" / "0b1c")
        directory.make(self.folder)
        self.objects: dict[str, Json] = {
            "settings": {"data": {"level": "debug"}},
            "kube-root-ca.crt": {"data": {"ca.crt": "CERTIFICATE"}},
        }
        bound = {"metadata": {"uid": "c1"}, "status": {"phase": "Bound"}}
        self.claims: dict[str, Json] = {
            "bound": bound,
            "waiting": {**bound, "status": {"phase": "Pending"}},
            "going": {**bound, "metadata": {"uid": "c1", "deletionTimestamp": "2024-01-01T00:00:00Z"}},
            "lost": {**bound, "metadata": {"uid": "c2"}},
        }
        (folder / "c1").mkdir()
        self._folder = folder

    def context(self, pod: Json, host: Host = HOST) -> VolumeContext:
        return VolumeContext(
            pod=pod,
            folder=self.folder,
            host=host,
            now=NOW,
            facts=FACTS,
            lookup=lambda _, name: self.objects.get(name),
            token=lambda _: "TOKEN",
            claim=self.claims.get,
            claim_folder=lambda claim: self._folder / claim["metadata"]["uid"],
        )

    def path(self, volume: str) -> Path:
        return self.folder.volume(volume)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def _pod(*volumes: Json, **spec: Any) -> Json:
    containers = [{"name": "main", "volumeMounts": []}]
    return {
        "metadata": {"name": "p", "namespace": "train", "uid": "0b1c", "labels": {"role": "ps"}},
        "spec": {
            "containers": containers,
            "volumes": [*volumes],
            "automountServiceAccountToken": False,
            **spec,
        },
    }


def _prepared(kept: Kept, *volumes: Json, host: Host = HOST, **spec: Any) -> PodVolumes:
    return setup.prepare(kept.context(_pod(*volumes, **spec), host))


def _refusal(kept: Kept, volume: Json, host: Host = HOST) -> str:
    with pytest.raises(SetupError) as told:
        _prepared(kept, {"name": "v", **volume}, host=host)
    assert told.value.reason == "FailedMount"
    return told.value.message


@pytest.mark.parametrize("source", [{}, {"emptyDir": {}}, {"emptyDir": {"medium": "", "sizeLimit": "1Mi"}}])
def test_empty_dir_is_writable_for_all_users(kept: Kept, source: Json) -> None:
    assert _prepared(kept, {"name": "v", **source}) == PodVolumes({"v": str(kept.path("v"))})
    assert kept.path("v").stat().st_mode & 0o7777 == 0o777


def test_preparing_again_keeps_content(kept: Kept) -> None:
    _prepared(kept, {"name": "v", "emptyDir": {}})
    (kept.path("v") / "file").write_text("kept")
    kept.path("v").chmod(0o700)
    _prepared(kept, {"name": "v", "emptyDir": {}})
    assert (kept.path("v") / "file").read_text() == "kept"
    assert kept.path("v").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("source", "host", "mounted"),
    [
        ({"medium": "Memory", "sizeLimit": "64Mi"}, HOST, MemoryFolder("PATH", 2**26)),
        ({"medium": "Memory"}, HOST, MemoryFolder("PATH", 2**34)),
        ({"medium": "Memory"}, PLAIN, None),
    ],
)
def test_empty_dir_in_memory(kept: Kept, source: Json, host: Host, mounted: MemoryFolder | None) -> None:
    found = _prepared(kept, {"name": "shm", "emptyDir": source}, host=host)
    path = str(kept.path("shm"))
    expected = () if mounted is None else (msgspec.structs.replace(mounted, path=path),)
    assert found == PodVolumes({"shm": path}, expected)
    assert found.is_mounted("shm") == (mounted is not None)
    assert kept.path("shm").is_dir()


@pytest.mark.parametrize(
    ("path", "kind", "made"),
    [
        ("here", "Directory", None),
        ("new/deep", "DirectoryOrCreate", stat.S_IFDIR | 0o755),
        ("new/deep", "", stat.S_IFDIR | 0o755),
        ("here/file", "FileOrCreate", stat.S_IFREG | 0o644),
    ],
)
def test_host_path_is_created_if_its_type_allows(
    kept: Kept, tmp_path: Path, path: str, kind: str, made: int | None
) -> None:
    (tmp_path / "here").mkdir()
    whole = str(tmp_path / path)
    found = _prepared(kept, {"name": "v", "hostPath": {"path": whole, "type": kind}})
    assert found == PodVolumes({"v": whole})
    assert made is None or Path(whole).stat().st_mode == made


ABSENT = 'unable to determine its type: path "{}" does not exist'


@pytest.mark.parametrize(
    ("path", "kind", "problem"),
    [
        ("absent", "Directory", f"hostPath type check failed, {{}} is not a directory, {ABSENT}"),
        ("file", "DirectoryOrCreate", "hostPath type check failed: {} is not a directory, it's a File"),
        ("file/below", "Directory", f"hostPath type check failed, {{}} is not a directory, {ABSENT}"),
        ("file/below", "", "{}: Not a directory"),
        ("absent/file", "FileOrCreate", "{}: No such file or directory"),
    ],
)
def test_host_path_of_another_type_is_rejected(
    kept: Kept, tmp_path: Path, path: str, kind: str, problem: str
) -> None:
    (tmp_path / "file").write_text("")
    whole = str(tmp_path / path)
    message = _refusal(kept, {"hostPath": {"path": whole, "type": kind}})
    assert message == f'MountVolume.SetUp failed for volume "v" : {problem.replace("{}", whole)}'


def test_bound_claim_uses_its_directory(kept: Kept, tmp_path: Path) -> None:
    found = _prepared(kept, {"name": "v", "persistentVolumeClaim": {"claimName": "bound"}})
    assert found == PodVolumes({"v": str(tmp_path / "c1")})


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        ("absent", 'failed to fetch PVC from API server: persistentvolumeclaims "absent" not found'),
        ("waiting", "PVC is not bound"),
        ("going", "PVC is being deleted"),
    ],
)
def test_unusable_claim_is_rejected(kept: Kept, claim: str, problem: str) -> None:
    message = _refusal(kept, {"persistentVolumeClaim": {"claimName": claim}})
    assert message == (
        "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[],"
        f" failed to process volumes=[v]: error processing PVC train/{claim}: {problem}"
    )


def test_missing_directory_of_a_claim_is_rejected(kept: Kept) -> None:
    message = _refusal(kept, {"persistentVolumeClaim": {"claimName": "lost"}})
    assert message.endswith("c2: No such file or directory")


def test_nfs_volume_needs_mounts(kept: Kept) -> None:
    source = {"server": "nas", "path": "/export", "readOnly": True}
    found = _prepared(kept, {"name": "v", "nfs": source})
    path = str(kept.path("v"))
    assert found == PodVolumes({"v": path}, (NfsFolder(path, "nas", "/export", True),))
    assert kept.path("v").is_dir()
    assert _refusal(kept, {"nfs": source}, PLAIN) == (
        'MountVolume.SetUp failed for volume "v" : this machine does not allow mounts for pods'
        " (no user namespaces)"
    )


@pytest.mark.parametrize("kind", ["csi", "awsElasticBlockStore", "ephemeral", "image"])
def test_unsupported_volume_type_is_rejected(kept: Kept, kind: str) -> None:
    assert _refusal(kept, {kind: {}}) == (
        f'MountVolume.SetUp failed for volume "v" : volume type {kind} is not supported on this cluster.'
        " Use emptyDir, hostPath, configMap, secret, downwardAPI, projected, persistentVolumeClaim and nfs."
    )


# Files


CONFIG = {"name": "v", "configMap": {"name": "settings"}}
LABELS = {
    "name": "l",
    "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
}


def test_volume_files_are_written(kept: Kept) -> None:
    _prepared(kept, CONFIG, LABELS)
    assert (kept.path("v") / "level").read_text() == "debug"
    assert (kept.path("l") / "labels").read_text() == 'role="ps"'


def test_missing_config_map_is_rejected(kept: Kept) -> None:
    message = _refusal(kept, {"configMap": {"name": "absent"}})
    assert message == 'MountVolume.SetUp failed for volume "v" : configmap "absent" not found'


def _refresh(kept: Kept, pod: Json) -> bool:
    return setup.refresh(kept.context(pod))


def test_refresh_rewrites_changed_files(kept: Kept) -> None:
    pod = _pod(CONFIG, LABELS, {"name": "e", "emptyDir": {}})
    _prepared(kept, CONFIG, LABELS)
    assert not _refresh(kept, pod)
    kept.objects["settings"] = {"data": {"level": "info"}}
    assert _refresh(kept, pod)
    assert (kept.path("v") / "level").read_text() == "info"
    relabelled = {**pod, "metadata": {**pod["metadata"], "labels": {}}}
    assert _refresh(kept, relabelled)
    assert (kept.path("l") / "labels").read_text() == ""


def test_refresh_keeps_files_of_a_deleted_object(kept: Kept) -> None:
    pod = _pod(CONFIG, LABELS)
    _prepared(kept, CONFIG, LABELS)
    del kept.objects["settings"]
    relabelled = {**pod, "metadata": {**pod["metadata"], "labels": {}}}
    with pytest.raises(SetupError, match='configmap "settings" not found'):
        _refresh(kept, relabelled)
    assert (kept.path("v") / "level").read_text() == "debug"
    assert (kept.path("l") / "labels").read_text() == ""


@pytest.mark.parametrize(
    ("source", "refused"), [({"emptyDir": {}}, "mkdir"), ({"configMap": {"name": "settings"}}, "open")]
)
def test_full_disk_is_reported_as_failed_mount(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, source: Json, refused: str
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, refused, full)
    assert _refusal(kept, source) == 'MountVolume.SetUp failed for volume "v" : No space left on device'


# Groups


def test_fs_group_applies_only_for_root(kept: Kept, tmp_path: Path) -> None:
    group = os.getgid()
    volumes = (
        {"name": "e", "emptyDir": {}},
        {"name": "s", "configMap": {"name": "settings", "defaultMode": 0o400}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "bound"}},
    )
    (tmp_path / "c1").chmod(0o700)
    modes = []
    for host in (HOST, msgspec.structs.replace(HOST, uid=0)):
        _prepared(kept, *volumes, host=host, securityContext={"fsGroup": group})
        modes.append(
            [(kept.path("s") / "level").stat().st_mode & 0o777, (tmp_path / "c1").stat().st_mode & 0o7777]
        )
    assert modes == [[0o400, 0o700], [0o440, 0o2770]]
    assert (tmp_path / "c1").stat().st_gid == group


# The API server


def test_service_account_volume_is_prepared(kept: Kept) -> None:
    found = _prepared(kept, automountServiceAccountToken=None)
    (path,) = found.paths.values()
    files = {name: (Path(path) / name).read_text() for name in ("token", "ca.crt", "namespace")}
    assert files == {"token": "TOKEN", "ca.crt": "CERTIFICATE", "namespace": "train"}


@pytest.mark.parametrize(("host", "automount"), [(HOST, False), (PLAIN, None), (PLAIN, True)])
def test_service_account_volume_is_omitted(kept: Kept, host: Host, automount: bool | None) -> None:
    found = _prepared(kept, host=host, automountServiceAccountToken=automount)
    assert found == PodVolumes({})


@pytest.mark.parametrize(
    ("mount_path", "expected"),
    [
        ("/data", ["/data", service_account.MOUNT_PATH]),
        (f"{service_account.MOUNT_PATH}/", [f"{service_account.MOUNT_PATH}/"]),
    ],
)
def test_own_mount_replaces_service_account_mount(mount_path: str, expected: list[str]) -> None:
    container = {"name": "main", "volumeMounts": [{"name": "v", "mountPath": mount_path}]}
    pod = {"metadata": {}, "spec": {"containers": [container], "initContainers": [{"name": "first"}]}}
    changed = service_account.with_mount(pod, container)
    assert [mount["mountPath"] for mount in changed["volumeMounts"]] == expected
    (own,) = service_account.with_mount(pod, {"name": "first"})["volumeMounts"]
    assert (own["mountPath"], own["readOnly"]) == (service_account.MOUNT_PATH, True)
    assert pod["spec"] == {"containers": [container], "initContainers": [{"name": "first"}]}


@pytest.mark.parametrize(
    ("limit", "of_main", "of_fetch", "memory", "size"),
    [
        ("1Gi", "1.5Gi", "10Mi", "16Gi", 2**30),
        ("8Gi", "1.5Gi", "10Mi", "16Gi", 3 * 2**29),
        (None, "1.5Gi", "10Mi", "16Gi", 3 * 2**29),
        (None, "1Mi", "10Mi", "16Gi", 10 * 2**20),
        # Without a limit of every container the pod has none.
        ("8Gi", "1.5Gi", None, "16Gi", 2**33),
        (None, None, "10Mi", "16Gi", 2**34),
        ("32Gi", None, None, "16Gi", 2**34),
        ("0", None, None, "16Gi", 2**34),
        (None, None, None, None, None),
    ],
)
def test_memory_size_is_the_smallest_limit(
    limit: str | None,
    of_main: str | None,
    of_fetch: str | None,
    memory: str | None,
    size: int | None,
    pod: Json,
) -> None:
    volume = {"emptyDir": {"medium": "Memory", **({"sizeLimit": limit} if limit else {})}}
    for kind, written in (("containers", of_main), ("initContainers", of_fetch)):
        pod["spec"][kind][0]["resources"] = {"limits": {"memory": written}} if written else {}
    facts = PodFacts((), (), {"memory": memory} if memory else {})
    assert setup.is_in_memory(volume)
    assert setup.memory_size(volume, pod, facts) == size


@pytest.mark.parametrize("volume", [{"emptyDir": {}}, {"emptyDir": None}, {"hostPath": {"path": "/x"}}])
def test_other_volumes_are_not_in_memory(volume: Json) -> None:
    assert not setup.is_in_memory(volume)
