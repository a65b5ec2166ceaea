"""The barrier in a pod: an init container that waits for the gang, and commands that load its results.

A malformed template is not changed: the API server rejects it and reports the error.
"""

from typing import Any

from windlass.discovery import ports
from windlass.model import names
from windlass.model.base import Json

CONTAINER = "windlass-barrier"
_VOLUME = "windlass-barrier"
_CREDENTIALS = "windlass-barrier-access"
_CREDENTIALS_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3607
_PREFIX = "BARRIER_"
_WRAPPER = f'. {names.BARRIER_FOLDER}/{names.CLUSTER_ENV}; exec "$@"'
_MOUNT: Json = {"name": _VOLUME, "mountPath": names.BARRIER_FOLDER}


def with_barrier(spec: Json, image: str, variables: list[Json]) -> Json:
    """Add the barrier as the first init container, so that all other containers know their peers."""
    changed_spec = spec.copy()
    for field in ("initContainers", "containers"):
        if isinstance(spec.get(field), list):
            changed_spec[field] = [_with_barrier_files(container) for container in spec[field]]
    if isinstance(changed_spec.get("initContainers") or [], list):
        changed_spec["initContainers"] = [
            _barrier(spec, image, variables),
            *(changed_spec.get("initContainers") or ()),
        ]
    if isinstance(spec.get("volumes") or [], list):
        # The token needs a service account; "default" is what Kubernetes would use.
        account = spec.get("serviceAccountName") or spec.get("serviceAccount")  # the latter is its old name
        changed_spec["serviceAccountName"] = account or "default"
        changed_spec["volumes"] = [*(spec.get("volumes") or ()), _files_volume(), _credentials_volume()]
    return changed_spec


def _with_barrier_files(container: Any) -> Any:
    """Mount the barrier's files, and load its variables before the command. A container without a command runs that
    of its image, which is not known here: it only gets the files."""
    if not isinstance(container, dict):
        return container
    mounts, command = container.get("volumeMounts") or [], container.get("command")
    changed = {**container, "volumeMounts": [*mounts, _MOUNT] if isinstance(mounts, list) else mounts}
    if isinstance(command, list) and command:
        changed["command"] = ["/bin/sh", "-c", _WRAPPER, "sh", *command]
    return changed


def _barrier(spec: Json, image: str, variables: list[Json]) -> Json:
    barrier: Json = {
        "name": CONTAINER,
        "image": image,
        "command": ["windlass", "barrier"],
        "workingDir": names.BARRIER_FOLDER,
        "env": [*variables, *_barrier_variables(spec)],
        "volumeMounts": [_MOUNT, {"name": _CREDENTIALS, "mountPath": _CREDENTIALS_FOLDER, "readOnly": True}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    # The resources of the first container that has any, so that the pod's QoS class does not change.
    if resources := next(filter(None, map(_resources, ports.containers({"spec": spec}))), None):
        barrier["resources"] = resources
    return barrier


def _barrier_variables(spec: Json) -> list[Json]:
    """Return the variables of the containers that configure the barrier, e.g. its timeout."""
    found: dict[str, Json] = {}
    for container in ports.containers({"spec": spec}):
        own = container.get("env")
        for variable in own if isinstance(own, list) else ():
            name = variable.get("name") if isinstance(variable, dict) else None
            if isinstance(name, str) and name.startswith(_PREFIX):
                found.setdefault(name, variable)
    return list(found.values())


def _resources(container: Json) -> Json:
    resources_of_container = container.get("resources")
    found = {
        kind: {name: amounts[name] for name in ("cpu", "memory") if name in amounts}
        for kind, amounts in (
            resources_of_container.items() if isinstance(resources_of_container, dict) else ()
        )
        if kind in ("requests", "limits") and isinstance(amounts, dict)
    }
    return {kind: amounts for kind, amounts in found.items() if amounts}


def _files_volume() -> Json:
    """Return a volume in memory: the files are a few kilobytes, and a hundred pods write theirs at the same time."""
    return {"name": _VOLUME, "emptyDir": {"medium": "Memory"}}


def _credentials_volume() -> Json:
    """Return the credentials for the API server, also for pods that do not mount a service account token."""
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    return {"name": _CREDENTIALS, "projected": {"sources": sources}}
