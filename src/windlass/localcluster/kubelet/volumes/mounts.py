"""The volume mounts of a container, in the order in which they must be mounted.

A module of its own since it is a policy (paths, sub paths, read-only) with its own tests.
"""

import posixpath
from collections.abc import Mapping

import msgspec

from windlass.localcluster.kubelet.containers import expansion
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.volumes import files
from windlass.model.base import Json

_MESSAGE_PATH = "/dev/termination-log"


class Mount(msgspec.Struct, frozen=True):
    source_volume: str
    sub_path: str
    """Path below the volume; empty for the whole volume."""
    target: str
    read_only: bool


def mounts(pod: Json, container: Json, environment: Mapping[str, str]) -> tuple[Mount, ...]:
    """Return the mounts in the order of the spec, except that a mount inside another one comes after it."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    found = [
        _mount(written, volumes, container, environment) for written in container.get("volumeMounts") or ()
    ]
    return tuple(sorted(found, key=lambda mount: _depth(mount.target)))


def termination_message_path(container: Json) -> str:
    """Return the path of the termination log. It is mounted last, since it may be in a volume."""
    return _absolute(container.get("terminationMessagePath") or _MESSAGE_PATH)


def _mount(
    written: Json, volumes: Mapping[str, Json], container: Json, environment: Mapping[str, str]
) -> Mount:
    name = written["name"]
    if name not in volumes:
        raise SetupError(f'cannot find volume "{name}" to mount into container "{container["name"]}"')
    is_read_only = bool(written.get("readOnly")) or _is_read_only(volumes[name])
    return Mount(name, _sub_path(written, environment), _absolute(written["mountPath"]), is_read_only)


def _is_read_only(volume: Json) -> bool:
    if files.holds_files(volume):
        return True
    # A whole claim or export can be read-only.
    return any(bool(source.get("readOnly")) for source in volume.values() if isinstance(source, dict))


def _sub_path(written: Json, environment: Mapping[str, str]) -> str:
    path: str = written.get("subPath", "")
    expression = written.get("subPathExpr")
    if expression:
        missing = sorted({name for name in expansion.references(expression) if not environment.get(name)})
        if missing:
            raise SetupError(f"missing value for {', '.join(missing)}")
        path = expansion.expand(expression, environment)
    if path.startswith("/"):
        raise SetupError(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise SetupError(f"unable to provision SubPath `{path}`: must not contain '..'")
    clean = posixpath.normpath(path)
    return "" if clean == "." else clean


def _absolute(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}")


def _depth(target: str) -> int:
    return len([name for name in target.split("/") if name])
