"""Render storage that belongs to a job: volumes of a Ceph file system, and an NFS server in the cluster."""

from collections.abc import Iterator
from hashlib import sha256

from windlass import __version__
from windlass.model import names
from windlass.model.base import Json, manifest
from windlass.model.job import CephFs, Job, NfsServer
from windlass.render import helper_pods
from windlass.render.storage import nfs_shares
from windlass.render.storage import volumes as storage_volumes
from windlass.render.storage.nfs_shares import Share

NFS_IMAGE = f"windlass-nfs:{__version__}"
"""Default image of the NFS server: nfs-ganesha with its VFS backend."""
PORT = 2049
FOLDERS = ("/data", "/output")
"""Folders of every server."""
DRIVER = "cephfs.csi.ceph.com"

_CEPH_SIZE = "1Gi"
"""Size of the claim, which is required but has no effect."""
_DISK = "/export"
_CONFIGURATION = "ganesha.conf"
_CONFIGURATION_FOLDER = "/etc/ganesha"
_TEMPORARY = "/tmp"  # noqa: S108 — a folder of the container
_RECOVERY = f"{_DISK}/.ganesha"
"""Folder for the client state, next to the files so that clients can continue after a restart of the server."""
_SECURITY_CONTEXT: Json = {
    "allowPrivilegeEscalation": False,
    # Required to open files by handle as the requesting user.
    "capabilities": {
        "drop": ["ALL"],
        "add": ["CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "SETGID", "SETUID"],
    },
    "runAsUser": 0,
}
_MAKE_FOLDERS = """\
for folder; do
  [ -d "$folder" ] || { mkdir -p "$folder" && chmod 0777 "$folder"; } || exit 1
done
"""
_SERVE = """\
[ -e /etc/mtab ] || ln -s /proc/self/mounts /etc/mtab
exec ganesha.nfsd "$@"
"""
"""The server exports nothing without a list of mounts, which not every container runtime provides."""


# Ceph


def volumes(job: Job) -> Iterator[Json]:
    """Yield a PersistentVolume and a claim for each CephFS volume, bound to each other."""
    volume_namespace = job.namespace or names.DEFAULT_NAMESPACE
    for name, volume in job.volumes.items():
        if volume.cephfs is not None:
            claim, volume_name = (
                storage_volumes.claim_name(job.name, name),
                _volume_name(job, name, volume_namespace),
            )
            # PersistentVolumes are not namespaced.
            metadata = {"name": volume_name, "labels": helper_pods.metadata(job, volume_name)["labels"]}
            spec = _ceph_volume_spec(volume.cephfs, volume_name, claim, volume_namespace)
            yield manifest("v1", "PersistentVolume", metadata, spec=spec)
            spec = {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": _CEPH_SIZE}},
                "storageClassName": "",
                "volumeName": volume_name,
            }
            metadata = helper_pods.metadata(job, claim)
            yield manifest("v1", "PersistentVolumeClaim", metadata, spec=spec)


def _volume_name(job: Job, volume: str, namespace: str) -> str:
    """Return the name of a PersistentVolume. It includes the namespace: PersistentVolumes are not namespaced."""
    return f"{namespace}-{storage_volumes.claim_name(job.name, volume)}"


def _ceph_volume_spec(ceph: CephFs, name: str, claim: str, namespace: str) -> Json:
    return {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": _CEPH_SIZE},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "name": claim,
            "namespace": namespace,
        },
        "csi": {
            "driver": DRIVER,
            "nodeStageSecretRef": {"name": ceph.secret, "namespace": ceph.secret_namespace or namespace},
            "volumeAttributes": {
                "clusterID": ceph.cluster_id,
                "fsName": ceph.fs_name,
                "rootPath": ceph.path,
                "staticVolume": "true",
            },
            "volumeHandle": name,
        },
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "volumeMode": "Filesystem",
    }


# The NFS server


def server(job: Job, share: Share | None = None) -> Iterator[Json]:
    """Yield the objects of the NFS server, or only its claim if tasks mount the claim directly."""
    if job.nfs_server is None:
        return
    metadata = helper_pods.metadata(job, nfs_shares.server_name(job.name))
    yield manifest("v1", "PersistentVolumeClaim", metadata, spec=_claim_spec(job.nfs_server))
    if isinstance(share, nfs_shares.Direct):
        return
    configuration = ganesha_configuration(job)
    yield manifest("v1", "ConfigMap", metadata, data={_CONFIGURATION: configuration})
    ports = [{"name": "nfs", "port": PORT, "protocol": "TCP", "targetPort": PORT}]
    service = {"type": "ClusterIP", "selector": _pod_labels(job), "ports": ports}
    yield manifest("v1", "Service", metadata, spec=service)
    deployment = _deployment_spec(job, job.nfs_server, sha256(configuration.encode()).hexdigest())
    yield manifest("apps/v1", "Deployment", metadata, spec=deployment)


def folders_of(job: Job) -> tuple[str, ...]:
    """Return the folders that are created on the disk of the server."""
    named = (volume.share.rstrip("/") for volume in job.volumes.values() if volume.share)
    return tuple(dict.fromkeys((*FOLDERS, *named)))


def ganesha_configuration(job: Job) -> str:
    """Return the configuration of nfs-ganesha: NFSv4 only, which needs one port and no other service.

    Only top-level folders are exports; they include the folders below them. Without `allow_set_io_flusher_fail`,
    releases after 4 require SYS_RESOURCE.
    """
    tops = dict.fromkeys("/" + folder.split("/")[1] for folder in folders_of(job))
    exports = "".join(_export(number, folder) for number, folder in enumerate(tops, start=1))
    return f"""\
NFS_CORE_PARAM {{
  Protocols = 4;
  NFS_Port = {PORT};
  Enable_UDP = false;
  Enable_NLM = false;
  Enable_RQUOTA = false;
  allow_set_io_flusher_fail = true;
}}
NFSv4 {{
  RecoveryBackend = fs;
  RecoveryRoot = {_RECOVERY};
  Lease_Lifetime = 15;
  Grace_Period = 15;
  Only_Numeric_Owners = true;
}}
NFS_KRB5 {{
  Active_krb5 = false;
}}
LOG {{
  Default_Log_Level = EVENT;
}}
{exports}"""


def _export(number: int, folder: str) -> str:
    return f"""\
EXPORT {{
  Export_Id = {number};
  Path = "{_DISK}{folder}";
  Pseudo = "{folder}";
  Protocols = 4;
  Transports = TCP;
  Access_Type = RW;
  Squash = No_Root_Squash;
  SecType = sys;
  FSAL {{
    Name = VFS;
  }}
}}
"""


def _claim_spec(server: NfsServer) -> Json:
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(server.size)}},
    }
    if server.storage_class:
        spec["storageClassName"] = server.storage_class
    return spec


def _deployment_spec(job: Job, server: NfsServer, digest: str) -> Json:
    labels = _pod_labels(job)
    return {
        "replicas": 1,
        # Two servers on one disk would corrupt it.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {
            # A changed configuration replaces the pod.
            "metadata": {"labels": labels, "annotations": {names.CONFIGURATION_ANNOTATION: digest}},
            "spec": _pod(job, server),
        },
    }


def _pod_labels(job: Job) -> dict[str, str]:
    """Return labels that differ from those of the job's pods, which the job's Services select."""
    return {"app.kubernetes.io/name": "nfs-ganesha", "app.kubernetes.io/instance": job.name}


def _pod(job: Job, server: NfsServer) -> Json:
    image = server.image or NFS_IMAGE
    disk: Json = {"name": "disk", "mountPath": _DISK}
    folders = [f"{_DISK}{folder}" for folder in folders_of(job)]
    init_container: Json = {
        "name": "folders",
        "image": image,
        "command": helper_pods.script(_MAKE_FOLDERS, (_RECOVERY, *folders)),
        "securityContext": _SECURITY_CONTEXT,
        "volumeMounts": [disk],
    }
    name = nfs_shares.server_name(job.name)
    secrets = [{"name": secret} for secret in job.image_pull_secrets]
    return {
        "automountServiceAccountToken": False,
        **({"imagePullSecrets": secrets} if secrets else {}),
        "initContainers": [init_container],
        "containers": [_server(image, disk)],
        "volumes": [
            {"name": "disk", "persistentVolumeClaim": {"claimName": name}},
            # These two volumes are in memory: the server treats a device as read-only if any mount of it is read-only.
            {"name": "configuration", "projected": {"sources": [{"configMap": {"name": name}}]}},
            {"name": "temporary", "emptyDir": {"medium": "Memory"}},
        ],
    }


def _server(image: str, disk: Json) -> Json:
    pid_file, configuration = f"{_TEMPORARY}/ganesha.pid", f"{_CONFIGURATION_FOLDER}/{_CONFIGURATION}"
    options = ("-F", "-L", "STDOUT", "-p", pid_file, "-f", configuration)
    return {
        "name": "nfs-ganesha",
        "image": image,
        "command": helper_pods.script(_SERVE, options),
        "ports": [{"name": "nfs", "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 2},
        "securityContext": _SECURITY_CONTEXT,
        "volumeMounts": [
            disk,
            {"name": "configuration", "mountPath": _CONFIGURATION_FOLDER, "readOnly": True},
            {"name": "temporary", "mountPath": _TEMPORARY},
        ],
    }
