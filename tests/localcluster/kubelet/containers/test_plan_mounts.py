"""Mounts of a container."""

import pytest

from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.plan import VolumeMount, termination_message_path, volume_mounts
from windlass.model.base import Json

VOLUMES: list[Json] = [
    {"name": "data", "emptyDir": {}},
    {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    {"name": "settings", "configMap": {"name": "settings"}},
    {"name": "claim", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
    {"name": "share", "nfs": {"server": "s", "path": "/p"}},
]
SHM = "/dev/shm"  # noqa: S108
ENVIRONMENT = {"POD": "worker-0", "EMPTY": "", "UP": "..", "ROOT": "/etc"}


def _mounts(pod: Json, *written: Json) -> tuple[VolumeMount, ...]:
    pod["spec"]["volumes"] = VOLUMES
    return volume_mounts(pod, {"name": "main", "volumeMounts": [*written]}, ENVIRONMENT)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"name": "data", "mountPath": "/data"}, VolumeMount("data", "", "/data", False)),
        ({"name": "data", "mountPath": "/data", "readOnly": True}, VolumeMount("data", "", "/data", True)),
        ({"name": "shm", "mountPath": SHM}, VolumeMount("shm", "", SHM, False)),
        ({"name": "data", "mountPath": "rel/./x/"}, VolumeMount("data", "", "/rel/x", False)),
        ({"name": "data", "mountPath": "//x"}, VolumeMount("data", "", "/x", False)),
        ({"name": "settings", "mountPath": "/etc/s"}, VolumeMount("settings", "", "/etc/s", True)),
        ({"name": "claim", "mountPath": "/c"}, VolumeMount("claim", "", "/c", True)),
        ({"name": "share", "mountPath": "/s"}, VolumeMount("share", "", "/s", False)),
        (
            {"name": "data", "mountPath": "/d", "subPath": "a//b/./c"},
            VolumeMount("data", "a/b/c", "/d", False),
        ),
        ({"name": "data", "mountPath": "/d", "subPath": "./"}, VolumeMount("data", "", "/d", False)),
        (
            {"name": "data", "mountPath": "/d", "subPath": "$(POD)"},
            VolumeMount("data", "$(POD)", "/d", False),
        ),
        (
            {"name": "data", "mountPath": "/d", "subPathExpr": "logs/$(POD)/$$(POD)"},
            VolumeMount("data", "logs/worker-0/$(POD)", "/d", False),
        ),
    ],
)
def test_mounts(written: Json, expected: VolumeMount, pod: Json) -> None:
    assert _mounts(pod, written) == (expected,)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            {"name": "absent", "mountPath": "/x"},
            'cannot find volume "absent" to mount into container "main"',
        ),
        (
            {"name": "data", "mountPath": "/x", "subPath": "/etc"},
            "error SubPath `/etc` must not be an absolute path",
        ),
        (
            {"name": "data", "mountPath": "/x", "subPath": "a/../.."},
            "unable to provision SubPath `a/../..`: must not contain '..'",
        ),
        (
            {"name": "data", "mountPath": "/x", "subPathExpr": "$(UP)/x"},
            "unable to provision SubPath `../x`: must not contain '..'",
        ),
        (
            {"name": "data", "mountPath": "/x", "subPathExpr": "$(ROOT)"},
            "error SubPath `/etc` must not be an absolute path",
        ),
        (
            {"name": "data", "mountPath": "/x", "subPathExpr": "$(Z)/$(EMPTY)/$(POD)/$(Z)"},
            "missing value for EMPTY, Z",
        ),
    ],
)
def test_invalid_mount_is_rejected(written: Json, message: str, pod: Json) -> None:
    with pytest.raises(SetupError) as refused:
        _mounts(pod, written)
    assert (refused.value.reason, refused.value.message) == ("CreateContainerConfigError", message)


def test_nested_mount_comes_after_outer_mount(pod: Json) -> None:
    paths = ("/data/deep/er", "/b", "/data/deep", "/a", "/data", "/")
    found = _mounts(pod, *({"name": "data", "mountPath": path} for path in paths))
    assert [mount.target for mount in found] == ["/", "/b", "/a", "/data", "/data/deep", "/data/deep/er"]


@pytest.mark.parametrize(
    ("written", "path"), [("/dev/termination-log", "/dev/termination-log"), ("out/m", "/out/m")]
)
def test_termination_message_path(written: str, path: str) -> None:
    assert termination_message_path({"terminationMessagePath": written}) == path
    assert termination_message_path({}) == "/dev/termination-log"
