"""The volume with the service account token and the CA certificate of the API server.

Kubernetes adds this volume when the pod is created. The embedded cluster adds it when the pod starts, and only if it
can be mounted: otherwise every pod would fail because of a volume that it did not request.
"""

import posixpath
from typing import Any

from windlass.model.base import Json

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
CA_CONFIG_MAP = "kube-root-ca.crt"
CA_FILE = "ca.crt"
# Names of volumes in a pod spec cannot contain an underscore, so this one cannot collide.
_VOLUME = "kube-api-access_"
_TOKEN_EXPIRATION_SECONDS = 3607


def with_volume(pod: Json) -> Json:
    """Return the pod with the service account volume, unless automountServiceAccountToken is false."""
    spec = pod["spec"]
    if spec.get("automountServiceAccountToken") is False:
        return pod
    return {**pod, "spec": {**spec, "volumes": [*(spec.get("volumes") or ()), _volume()]}}


def with_mount(pod: Json, container: Json) -> Json:
    """Return a container of the pod with the mount of the volume, unless automountServiceAccountToken is false."""
    mounts = container.get("volumeMounts") or ()
    if pod["spec"].get("automountServiceAccountToken") is False:
        return container
    if any(posixpath.normpath(mount["mountPath"]) == MOUNT_PATH for mount in mounts):
        return container
    own = {"name": _VOLUME, "mountPath": MOUNT_PATH, "readOnly": True}
    return {**container, "volumeMounts": [*mounts, own]}


def _volume() -> Json:
    sources: list[dict[str, Any]] = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_EXPIRATION_SECONDS}},
        {"configMap": {"name": CA_CONFIG_MAP, "items": [{"key": CA_FILE, "path": CA_FILE}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    return {"name": _VOLUME, "projected": {"defaultMode": 0o644, "sources": sources}}
