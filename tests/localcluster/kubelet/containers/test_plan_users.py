"""The user and groups of a container."""

import os
import pwd

import pytest

from windlass.localcluster.kubelet.containers import plan
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.host import Host
from windlass.localcluster.sandbox.messages import User
from windlass.model.base import Json

ROOT = Host(uid=0, gid=0, groups=(), environment={})
ANN = Host(uid=1000, gid=100, groups=(20, 44), environment={})
# No user has this id.
UNKNOWN = 4_000_000_000
KNOWN = pwd.getpwuid(os.getuid())


def _user(of_pod: Json, of_container: Json, host: Host) -> User:
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"securityContext": of_pod}}
    return plan.container_user(pod, {"name": "main", "securityContext": of_container}, host)


@pytest.mark.parametrize(
    ("of_pod", "of_container", "host", "expected"),
    [
        ({}, {}, ROOT, User()),
        ({}, {}, ANN, User()),
        ({"runAsUser": 7, "runAsGroup": 8}, {}, ROOT, User(7, 8)),
        ({"runAsUser": 7, "runAsGroup": 8}, {"runAsUser": 9}, ROOT, User(9, 8)),
        ({"runAsUser": 7, "runAsGroup": 8}, {"runAsUser": 0, "runAsGroup": 0}, ROOT, User(0, 0)),
        ({"runAsUser": UNKNOWN}, {}, ROOT, User(UNKNOWN, 0)),
        ({"runAsUser": KNOWN.pw_uid}, {}, ROOT, User(KNOWN.pw_uid, KNOWN.pw_gid)),
        ({"supplementalGroups": [5, 6], "fsGroup": 5}, {}, ROOT, User(groups=(5, 6))),
        ({"fsGroup": 0}, {}, ROOT, User(groups=(0,))),
        ({"runAsUser": 1000, "runAsGroup": 100, "supplementalGroups": [44]}, {}, ANN, User()),
        ({"fsGroup": 2000}, {}, ANN, User()),
        ({"runAsNonRoot": True}, {}, ANN, User()),
        ({"runAsNonRoot": True, "runAsUser": 7, "runAsGroup": 8}, {}, ROOT, User(7, 8)),
        ({"runAsNonRoot": True}, {"runAsNonRoot": False}, ROOT, User()),
    ],
)
def test_user_and_groups_from_security_context(
    of_pod: Json, of_container: Json, host: Host, expected: User
) -> None:
    assert _user(of_pod, of_container, host) == expected


@pytest.mark.parametrize(
    ("of_pod", "of_container", "problem"),
    [
        ({"runAsNonRoot": True}, {}, "container has runAsNonRoot and image will run as root"),
        ({}, {"runAsNonRoot": True}, "container has runAsNonRoot and image will run as root"),
        ({"runAsNonRoot": True}, {"runAsUser": 0}, "container's runAsUser breaks non-root policy"),
    ],
)
def test_root_is_rejected_with_run_as_non_root(of_pod: Json, of_container: Json, problem: str) -> None:
    with pytest.raises(SetupError) as told:
        _user(of_pod, of_container, ROOT)
    assert (told.value.reason, told.value.message) == (
        "CreateContainerConfigError",
        f'{problem} (pod: "p_n(u)", container: main)',
    )


@pytest.mark.parametrize(
    ("of_pod", "named"),
    [
        ({"runAsUser": 0}, "runAsUser"),
        ({"runAsUser": 1000, "runAsGroup": 5}, "runAsGroup"),
        ({"supplementalGroups": [44, 45]}, "supplementalGroups"),
        ({"runAsUser": 1, "runAsGroup": 1}, "runAsUser, runAsGroup"),
    ],
)
def test_other_user_is_rejected_without_root(of_pod: Json, named: str) -> None:
    with pytest.raises(SetupError) as told:
        _user(of_pod, {}, ANN)
    assert told.value.reason == "CreateContainerError"
    assert told.value.message == (
        f'container "main" sets {named}, but this cluster runs as user 1000 (group 100), and only root can start'
        " processes as another user or group. Remove the setting, or start the cluster as root."
    )


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (User(), {}),
        (User(0, 0), {}),
        (User(UNKNOWN, 0), {"HOME": "/", "USER": str(UNKNOWN), "LOGNAME": str(UNKNOWN)}),
    ],
)
def test_home_of_an_unknown_user(user: User, expected: dict[str, str]) -> None:
    assert plan.user_environment(user, ROOT) == expected


def test_home_of_a_known_user() -> None:
    somebody_else = Host(uid=KNOWN.pw_uid + 1, gid=0, groups=(), environment={})
    found = plan.user_environment(User(KNOWN.pw_uid, 0), somebody_else)
    assert found == {"HOME": KNOWN.pw_dir, "USER": KNOWN.pw_name, "LOGNAME": KNOWN.pw_name}
