"""The user and groups that a container runs as, and that user's home directory.

A module of its own since it is a policy (securityContext) with its own tests.
"""

import pwd
from typing import Any

from windlass.localcluster.kubelet.containers import errors
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.host import Host
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.sandbox.messages import User
from windlass.model.base import Json


def user(pod: Json, container: Json, host: Host) -> User:
    """Return the user of a container. The container's securityContext takes precedence over the pod's."""
    uid, gid = _setting(pod, container, "runAsUser"), _setting(pod, container, "runAsGroup")
    _check_non_root(pod, container, uid, host)
    pod_context = pod["spec"].get("securityContext") or {}
    supplemental = tuple(pod_context.get("supplementalGroups") or ())
    if not host.is_root:
        _require_own_user(container, uid, gid, supplemental, host)
        # The volumes belong to this user already, so that fsGroup adds nothing.
        return User()
    if uid is not None and gid is None:
        known = _known(uid)
        gid = known.pw_gid if known else 0
    groups = (*supplemental, *(() if pod_context.get("fsGroup") is None else (pod_context["fsGroup"],)))
    return User(uid, gid, tuple(dict.fromkeys(groups)))


def environment(user: User, host: Host) -> dict[str, str]:
    """Return the inherited variables that differ for another user than the one who runs the cluster."""
    if user.uid is None or user.uid == host.uid:
        return {}
    known = _known(user.uid)
    home, name = (known.pw_dir, known.pw_name) if known else ("/", str(user.uid))
    return {"HOME": home, "USER": name, "LOGNAME": name}


def _setting(pod: Json, container: Json, field: str) -> Any:
    own = (container.get("securityContext") or {}).get(field)
    return own if own is not None else (pod["spec"].get("securityContext") or {}).get(field)


def _check_non_root(pod: Json, container: Json, uid: int | None, host: Host) -> None:
    will_be_root = (host.uid if uid is None else uid) == 0
    if not will_be_root or not _setting(pod, container, "runAsNonRoot"):
        return
    problem = (
        "container has runAsNonRoot and image will run as root"
        if uid is None
        else "container's runAsUser breaks non-root policy"
    )
    raise SetupError(f'{problem} (pod: "{specs.full_name(pod)}", container: {container["name"]})')


def _require_own_user(
    container: Json, uid: int | None, gid: int | None, supplemental: tuple[int, ...], host: Host
) -> None:
    """Raise SetupError for another user or group, which only root can start processes as."""
    own_groups = {host.gid, *host.groups}
    fields = [
        *(["runAsUser"] if uid not in (None, host.uid) else []),
        *(["runAsGroup"] if gid not in (None, host.gid) else []),
        *(["supplementalGroups"] if not own_groups.issuperset(supplemental) else []),
    ]
    if fields:
        message = (
            f'container "{container["name"]}" sets {", ".join(fields)}, but this cluster runs as user {host.uid}'
            f" (group {host.gid}), and only root can start processes as another user or group. Remove the setting, or"
            " start the cluster as root."
        )
        raise SetupError(message, errors.CREATE_ERROR)


def _known(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None
