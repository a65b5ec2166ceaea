"""Render storage that belongs to a job: volumes of a Ceph file system, and an NFS server in the cluster."""

from collections.abc import Iterator
from hashlib import sha256

from windlass import __version__
from windlass.model import names
from windlass.model.base import Json
from windlass.model.job import CephFs, Job, NfsServer
from windlass.render import helper_pods
from windlass.render.storage import nfs_shares
from windlass.render.storage import volumes as mounting
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
"""Client state, stored next to the files so that clients can continue after a restart of the server."""
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "SETGID", "SETUID")
"""Capabilities to open files by handle as the requesting user."""
_MAKE_FOLDERS = """\
for folder; do
  [ -d "$folder" ] || { mkdir -p "$folder" && chmod 0777 "$folder"; } || exit 1
done
"""
_SERVE = """\
[ -e /etc/mtab ] || ln -s /proc/self/mounts /etc/mtab
exec ganesha.nfsd "$@"
"""
"""The server exports nothing without a list of mounts, which not every runtime provides."""


# Ceph


def volumes(job: Job, namespace: str = "") -> Iterator[Json]:
    """Yield a PersistentVolume and a claim for each CephFS volume, bound to each other."""
    place = job.namespace or namespace or names.DEFAULT_NAMESPACE
    for name, volume in job.volumes.items():
        if volume.cephfs is not None:
            yield _ceph_volume(job, name, volume.cephfs, place)
            yield _ceph_claim(job, name, namespace, place)


def volume_name(namespace: str, job: str, volume: str) -> str:
    """Return the name of a PersistentVolume. It includes the namespace: PersistentVolumes have none."""
    return f"{namespace}-{mounting.claim_name(job, volume)}"


def _ceph_volume(job: Job, name: str, ceph: CephFs, namespace: str) -> Json:
    called = volume_name(namespace, job.name, name)
    metadata = {key: value for key, value in helper_pods.metadata(job, called).items() if key != "namespace"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata,
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": _CEPH_SIZE},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "name": mounting.claim_name(job.name, name),
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
                "volumeHandle": called,
            },
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "volumeMode": "Filesystem",
        },
    }


def _ceph_claim(job: Job, name: str, namespace: str, place: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": helper_pods.metadata(job, mounting.claim_name(job.name, name), namespace),
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": _CEPH_SIZE}},
            "storageClassName": "",
            "volumeName": volume_name(place, job.name, name),
        },
    }


# The NFS server


def server(job: Job, namespace: str = "", share: Share | None = None) -> Iterator[Json]:
    """Yield the objects of the NFS server, or only its claim if tasks mount that directly."""
    if job.nfs_server is None:
        return
    metadata = helper_pods.metadata(job, nfs_shares.server_name(job.name), namespace)
    yield _claim(job.nfs_server, metadata)
    if isinstance(share, nfs_shares.Direct):
        return
    configuration = ganesha_configuration(job)
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {_CONFIGURATION: configuration},
    }
    yield _service(job, metadata)
    yield _deployment(job, job.nfs_server, metadata, sha256(configuration.encode()).hexdigest())


def folders_of(job: Job) -> tuple[str, ...]:
    """Return the folders that the server creates."""
    named = (volume.share.rstrip("/") for volume in job.volumes.values() if volume.share)
    return tuple(dict.fromkeys((*FOLDERS, *named)))


def ganesha_configuration(job: Job) -> str:
    """Return the configuration of nfs-ganesha: NFSv4 only, which needs one port and no other service.

    A folder below another one is part of its export. Without `allow_set_io_flusher_fail`, releases after 4 require
    SYS_RESOURCE.
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


def _claim(server: NfsServer, metadata: Json) -> Json:
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": mounting.amount(server.size)}},
    }
    if server.storage_class:
        spec["storageClassName"] = server.storage_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _service(job: Job, metadata: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "type": "ClusterIP",
            "selector": _pod_labels(job),
            "ports": [{"name": "nfs", "port": PORT, "protocol": "TCP", "targetPort": PORT}],
        },
    }


def _deployment(job: Job, server: NfsServer, metadata: Json, digest: str) -> Json:
    """Return the Deployment. Its strategy is Recreate, because two servers on one disk would corrupt it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _pod_labels(job)},
            "template": {
                # A changed configuration replaces the pod.
                "metadata": {
                    "labels": _pod_labels(job),
                    "annotations": {names.CONFIGURATION_ANNOTATION: digest},
                },
                "spec": _pod(job, server),
            },
        },
    }


def _pod_labels(job: Job) -> dict[str, str]:
    """Return labels that differ from those of the job's pods, which the job's Services select."""
    return {"app.kubernetes.io/name": "nfs-ganesha", "app.kubernetes.io/instance": job.name}


def _pod(job: Job, server: NfsServer) -> Json:
    image = server.image or NFS_IMAGE
    disk: Json = {"name": "disk", "mountPath": _DISK}
    folders = [f"{_DISK}{folder}" for folder in folders_of(job)]
    making: Json = {
        "name": "folders",
        "image": image,
        "command": helper_pods.script(_MAKE_FOLDERS, (_RECOVERY, *folders)),
        "securityContext": _security_context(),
        "volumeMounts": [disk],
    }
    claim = {"persistentVolumeClaim": {"claimName": nfs_shares.server_name(job.name)}}
    configuration = {"name": nfs_shares.server_name(job.name)}
    return {
        "automountServiceAccountToken": False,
        **(
            {"imagePullSecrets": [{"name": name} for name in job.image_pull_secrets]}
            if job.image_pull_secrets
            else {}
        ),
        "initContainers": [making],
        "containers": [_server(image, disk)],
        "volumes": [
            {"name": "disk", **claim},
            # A read-only mount of a device makes the server treat the whole device as read-only: both are in memory.
            {"name": "configuration", "projected": {"sources": [{"configMap": configuration}]}},
            {"name": "temporary", "emptyDir": {"medium": "Memory"}},
        ],
    }


def _server(image: str, disk: Json) -> Json:
    return {
        "name": "nfs-ganesha",
        "image": image,
        "command": helper_pods.script(
            _SERVE,
            (
                "-F",
                "-L",
                "STDOUT",
                "-p",
                f"{_TEMPORARY}/ganesha.pid",
                "-f",
                f"{_CONFIGURATION_FOLDER}/{_CONFIGURATION}",
            ),
        ),
        "ports": [{"name": "nfs", "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 2},
        "securityContext": _security_context(),
        "volumeMounts": [
            disk,
            {"name": "configuration", "mountPath": _CONFIGURATION_FOLDER, "readOnly": True},
            {"name": "temporary", "mountPath": _TEMPORARY},
        ],
    }


def _security_context() -> Json:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": list(_CAPABILITIES)},
        "runAsUser": 0,
    }
