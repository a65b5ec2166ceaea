"""Who a container runs as, and what that user calls home."""

import pwd
from typing import Any

from windlass.localcluster.kubelet.containers import errors
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.host import Host
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.sandbox.messages import User
from windlass.model.base import Json


def user(pod: Json, container: Json, host: Host) -> User:
    """What the container says counts before what the pod says."""
    uid, gid = _said(pod, container, "runAsUser"), _said(pod, container, "runAsGroup")
    _check_non_root(pod, container, uid, host)
    of_pod = pod["spec"].get("securityContext") or {}
    supplemental = tuple(of_pod.get("supplementalGroups") or ())
    if not host.is_root:
        _check_own(container, uid, gid, supplemental, host)
        # Volumes are its own already, so that fsGroup has nothing to add.
        return User()
    if uid is not None and gid is None:
        known = _known(uid)
        gid = known.pw_gid if known else 0
    groups = (*supplemental, *(() if of_pod.get("fsGroup") is None else (of_pod["fsGroup"],)))
    return User(uid, gid, tuple(dict.fromkeys(groups)))


def environment(one: User, host: Host) -> dict[str, str]:
    """What of the environment that the machine gives is another for another user."""
    if one.uid is None or one.uid == host.uid:
        return {}
    known = _known(one.uid)
    home, name = (known.pw_dir, known.pw_name) if known else ("/", str(one.uid))
    return {"HOME": home, "USER": name, "LOGNAME": name}


def _said(pod: Json, container: Json, field: str) -> Any:
    own = (container.get("securityContext") or {}).get(field)
    return own if own is not None else (pod["spec"].get("securityContext") or {}).get(field)


def _check_non_root(pod: Json, container: Json, uid: int | None, host: Host) -> None:
    will_be_root = (host.uid if uid is None else uid) == 0
    if not will_be_root or not _said(pod, container, "runAsNonRoot"):
        return
    problem = (
        "container has runAsNonRoot and image will run as root"
        if uid is None
        else "container's runAsUser breaks non-root policy"
    )
    raise SetupError(f'{problem} (pod: "{specs.full_name(pod)}", container: {container["name"]})')


def _check_own(
    container: Json, uid: int | None, gid: int | None, supplemental: tuple[int, ...], host: Host
) -> None:
    """Who is not root can start processes as nobody else."""
    own_groups = {host.gid, *host.groups}
    wanted = [
        *(["runAsUser"] if uid not in (None, host.uid) else []),
        *(["runAsGroup"] if gid not in (None, host.gid) else []),
        *(["supplementalGroups"] if not own_groups.issuperset(supplemental) else []),
    ]
    if wanted:
        message = (
            f'container "{container["name"]}" is to run as another user or group ({", ".join(wanted)}), but this'
            f" cluster is run by user {host.uid} (group {host.gid}), who is not root and can start processes as"
            f" nobody else: leave that out, or start the cluster as root"
        )
        raise SetupError(message, errors.CREATE_ERROR)


def _known(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None
