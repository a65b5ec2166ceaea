"""The barrier in a pod: an init container that waits for the gang, and commands that know what it has found out.

A template of another shape than Kubernetes gives it stays as it is: the API server refuses it, and says why.
"""

from typing import Any

from windlass.discovery import ports
from windlass.model import names
from windlass.model.base import Json

CONTAINER = "windlass-barrier"
_VOLUME = "windlass-barrier"
_ACCESS = "windlass-barrier-access"
_ACCESS_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3607
_PREFIX = "BARRIER_"
_WRAPPER = f'. {names.BARRIER_FOLDER}/{names.CLUSTER_ENV}; exec "$@"'
_MOUNT: Json = {"name": _VOLUME, "mountPath": names.BARRIER_FOLDER}


def with_barrier(spec: Json, image: str, variables: list[Json]) -> Json:
    """The barrier comes first: whatever starts after it knows its peers."""
    filled = spec.copy()
    for field in ("initContainers", "containers"):
        if isinstance(spec.get(field), list):
            filled[field] = [_told(container) for container in spec[field]]
    if isinstance(filled.get("initContainers") or [], list):
        filled["initContainers"] = [
            _barrier(spec, image, variables),
            *(filled.get("initContainers") or ()),
        ]
    if isinstance(spec.get("volumes") or [], list):
        # Kubernetes would say so itself, and a token is always somebody's.
        account = spec.get("serviceAccountName") or spec.get("serviceAccount")  # the latter is its old name
        filled["serviceAccountName"] = account or "default"
        filled["volumes"] = [*(spec.get("volumes") or ()), _volume(), _access()]
    return filled


def _told(container: Any) -> Any:
    """The container, with a command that reads the barrier's variables first. Without a command of its own the image's
    is run, which nobody here knows: it finds the files."""
    if not isinstance(container, dict):
        return container
    mounts, command = container.get("volumeMounts") or [], container.get("command")
    told = {**container, "volumeMounts": [*mounts, _MOUNT] if isinstance(mounts, list) else mounts}
    if isinstance(command, list) and command:
        told["command"] = ["/bin/sh", "-c", _WRAPPER, "sh", *command]
    return told


def _barrier(spec: Json, image: str, variables: list[Json]) -> Json:
    barrier: Json = {
        "name": CONTAINER,
        "image": image,
        "command": ["windlass", "barrier"],
        "workingDir": names.BARRIER_FOLDER,
        "env": [*variables, *_settings(spec)],
        "volumeMounts": [_MOUNT, {"name": _ACCESS, "mountPath": _ACCESS_FOLDER, "readOnly": True}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    # As much as the first container that is told how much it may have: the pod's class of service stays what it is.
    if resources := next(filter(None, map(_resources, ports.containers({"spec": spec}))), None):
        barrier["resources"] = resources
    return barrier


def _settings(spec: Json) -> list[Json]:
    """What a container of the pod says to the barrier, such as how long it waits: the barrier has no other ears."""
    found: dict[str, Json] = {}
    for container in ports.containers({"spec": spec}):
        own = container.get("env")
        for variable in own if isinstance(own, list) else ():
            name = variable.get("name") if isinstance(variable, dict) else None
            if isinstance(name, str) and name.startswith(_PREFIX):
                found.setdefault(name, variable)
    return list(found.values())


def _resources(container: Json) -> Json:
    given = container.get("resources")
    found = {
        kind: {name: amounts[name] for name in ("cpu", "memory") if name in amounts}
        for kind, amounts in (given.items() if isinstance(given, dict) else ())
        if kind in ("requests", "limits") and isinstance(amounts, dict)
    }
    return {kind: amounts for kind, amounts in found.items() if amounts}


def _volume() -> Json:
    """In memory: it is a few kilobytes, and a hundred pods write theirs at the same moment."""
    return {"name": _VOLUME, "emptyDir": {"medium": "Memory"}}


def _access() -> Json:
    """What the barrier needs to ask the API server, even in a pod that gives nothing of the kind to its containers."""
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    return {"name": _ACCESS, "projected": {"sources": sources}}
