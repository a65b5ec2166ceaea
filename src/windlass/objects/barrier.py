"""The barrier in a pod: an init container that waits for the gang, and commands that load its results.

Malformed parts of a template are not changed: the API server rejects them and reports the error.
"""

from typing import Any

from windlass.discovery import ports
from windlass.model import names
from windlass.model.base import Json

CONTAINER = "windlass-barrier"
_VOLUME = "windlass-barrier"
_CREDENTIALS = "windlass-barrier-access"
_CREDENTIALS_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
_VARIABLE_PREFIX = "BARRIER_"
_WRAPPER = f'. {names.BARRIER_FOLDER}/{names.CLUSTER_ENV_FILE}; exec "$@"'
_MOUNT: Json = {"name": _VOLUME, "mountPath": names.BARRIER_FOLDER}
_FILES_VOLUME: Json = {"name": _VOLUME, "emptyDir": {"medium": "Memory"}}
"""In memory: the files are a few kilobytes, and a hundred pods write theirs at the same time."""
_CREDENTIALS_VOLUME: Json = {
    "name": _CREDENTIALS,
    "projected": {
        "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]
                }
            },
        ]
    },
}
"""Credentials for the API server, also for pods that do not mount a service account token."""


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
        # serviceAccount is a deprecated alias of serviceAccountName.
        account = spec.get("serviceAccountName") or spec.get("serviceAccount")
        changed_spec["serviceAccountName"] = account or "default"
        changed_spec["volumes"] = [*(spec.get("volumes") or ()), _FILES_VOLUME, _CREDENTIALS_VOLUME]
    return changed_spec


def _with_barrier_files(container: Any) -> Any:
    """Mount the barrier's files, and load its variables before the command. A container without a command runs the
    entrypoint of its image, which is not known here: only the files are mounted."""
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
    if resources := next(filter(None, map(_cpu_and_memory, ports.containers({"spec": spec}))), None):
        barrier["resources"] = resources
    return barrier


def _barrier_variables(spec: Json) -> list[Json]:
    """Return the variables that configure the barrier, e.g. its timeout, from the containers of the pod."""
    by_name: dict[str, Json] = {}
    for container in ports.containers({"spec": spec}):
        for variable in ports.mappings(container.get("env")):
            name = variable.get("name")
            if isinstance(name, str) and name.startswith(_VARIABLE_PREFIX):
                by_name.setdefault(name, variable)
    return list(by_name.values())


def _cpu_and_memory(container: Json) -> Json:
    resources = container.get("resources")
    found = {
        field: {name: quantities[name] for name in ("cpu", "memory") if name in quantities}
        for field, quantities in (resources.items() if isinstance(resources, dict) else ())
        if field in ("requests", "limits") and isinstance(quantities, dict)
    }
    return {field: quantities for field, quantities in found.items() if quantities}
