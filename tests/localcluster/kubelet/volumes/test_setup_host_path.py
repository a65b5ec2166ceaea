"""hostPath: what each type wants to find, and what is made when there is nothing."""

import stat

import pytest

from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.volumes.setup import host_path_mode_to_create

FOLDER, FILE, SOCKET = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o644, stat.S_IFSOCK | 0o600
CHARACTER, BLOCK, PIPE = stat.S_IFCHR | 0o600, stat.S_IFBLK | 0o600, stat.S_IFIFO | 0o600


def _volume(kind: str | None, path: str = "/x") -> dict[str, object]:
    return {"name": "v", "hostPath": {"path": path} if kind is None else {"path": path, "type": kind}}


@pytest.mark.parametrize(
    ("kind", "mode", "expected"),
    [
        (None, FOLDER, None),
        ("", PIPE, None),
        ("", None, FOLDER),
        ("DirectoryOrCreate", None, FOLDER),
        ("DirectoryOrCreate", FOLDER, None),
        ("Directory", FOLDER, None),
        ("FileOrCreate", None, FILE),
        ("FileOrCreate", FILE, None),
        ("File", FILE, None),
        ("Socket", SOCKET, None),
        ("CharDevice", CHARACTER, None),
        ("BlockDevice", BLOCK, None),
    ],
)
def test_existing_or_created_path(kind: str | None, mode: int | None, expected: int | None) -> None:
    assert host_path_mode_to_create(_volume(kind), {"/x": mode}.__getitem__) == expected


ABSENT = 'unable to determine its type: path "/x" does not exist'
UNKNOWN = (
    "unable to determine its type: only recognise file, directory, socket, block device and character device"
)


@pytest.mark.parametrize(
    ("kind", "mode", "problem"),
    [
        ("Directory", None, f"hostPath type check failed, /x is not a directory, {ABSENT}"),
        ("Directory", FILE, "hostPath type check failed: /x is not a directory, it's a File"),
        ("DirectoryOrCreate", FILE, "hostPath type check failed: /x is not a directory, it's a File"),
        ("File", None, f"hostPath type check failed, /x is not a file, {ABSENT}"),
        ("File", FOLDER, "hostPath type check failed: /x is not a file, it's a Directory"),
        ("FileOrCreate", FOLDER, "hostPath type check failed: /x is not a file, it's a Directory"),
        ("FileOrCreate", PIPE, f"hostPath type check failed, /x is not a file, {UNKNOWN}"),
        ("Socket", None, f"hostPath type check failed, /x is not a socket file, {ABSENT}"),
        ("Socket", FILE, "hostPath type check failed: /x is not a socket file, it's a File"),
        ("CharDevice", BLOCK, "hostPath type check failed: /x is not a character device, it's a BlockDevice"),
        ("BlockDevice", CHARACTER, "hostPath type check failed: /x is not a block device, it's a CharDevice"),
        ("BlockDevice", None, f"hostPath type check failed, /x is not a block device, {ABSENT}"),
        ("Nonsense", FOLDER, "Nonsense is an invalid volume type"),
    ],
)
def test_path_of_another_type_is_rejected(kind: str, mode: int | None, problem: str) -> None:
    with pytest.raises(SetupError) as refused:
        host_path_mode_to_create(_volume(kind), {"/x": mode}.__getitem__)
    assert refused.value.reason == "FailedMount"
    assert refused.value.message == f'MountVolume.SetUp failed for volume "v" : {problem}'


def test_parent_reference_is_rejected() -> None:
    with pytest.raises(SetupError) as refused:
        host_path_mode_to_create(_volume("", "/x/../etc"), lambda _: FOLDER)
    assert refused.value.message.endswith(" : invalid HostPath `/x/../etc`: must not contain '..'")
