"""Storage that a job brings along: volumes of a Ceph file system, and an NFS server in the cluster."""

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
"""Of the NFS server, where a job names no other one: nfs-ganesha with its VFS backend."""
PORT = 2049
FOLDERS = ("/data", "/output")
"""Every server has them."""
DRIVER = "cephfs.csi.ceph.com"

_CEPH_SIZE = "1Gi"
"""A claim has to name a size. A Ceph file system has its own limits."""
_DISK = "/export"
_CONFIGURATION = "ganesha.conf"
_CONFIGURATION_FOLDER = "/etc/ganesha"
_TEMPORARY = "/tmp"  # noqa: S108 — a folder of the container
_RECOVERY = f"{_DISK}/.ganesha"
"""Who held which file: beside the files, so that clients go on where they were when the server has come back."""
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "SETGID", "SETUID")
"""It opens files by their handles, as whoever asks for them."""
_MAKE_FOLDERS = """\
for folder; do
  [ -d "$folder" ] || { mkdir -p "$folder" && chmod 0777 "$folder"; } || exit 1
done
"""
_SERVE = """\
[ -e /etc/mtab ] || ln -s /proc/self/mounts /etc/mtab
exec ganesha.nfsd "$@"
"""
"""Without the list of mounts it exports nothing, and not every runtime makes one."""


# Ceph


def volumes(job: Job, namespace: str = "") -> Iterator[Json]:
    """PersistentVolumes and their claims, each bound to the other and to nothing else."""
    place = job.namespace or namespace or names.DEFAULT_NAMESPACE
    for name, volume in job.volumes.items():
        if volume.cephfs is not None:
            yield _ceph_volume(job, name, volume.cephfs, place)
            yield _ceph_claim(job, name, namespace, place)


def volume_name(namespace: str, job: str, volume: str) -> str:
    """PersistentVolumes are in no namespace: theirs has to be in the name."""
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
    """The claim, the configuration, the Service and the Deployment; only the claim where tasks have it themselves."""
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
    """All that the server makes."""
    named = (volume.share.rstrip("/") for volume in job.volumes.values() if volume.share)
    return tuple(dict.fromkeys((*FOLDERS, *named)))


def ganesha_configuration(job: Job) -> str:
    """NFSv4 alone, which needs one port and no other service. A folder below another one is reached through it.

    Newer releases than 4 would not start without SYS_RESOURCE, but for the last of the core parameters.
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


def _claim(wanted: NfsServer, metadata: Json) -> Json:
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": mounting.amount(wanted.size)}},
    }
    if wanted.storage_class:
        spec["storageClassName"] = wanted.storage_class
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


def _deployment(job: Job, wanted: NfsServer, metadata: Json, digest: str) -> Json:
    """Two servers on one disk would spoil it: the old one goes before the new one comes."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _pod_labels(job)},
            "template": {
                # Another configuration is another pod.
                "metadata": {
                    "labels": _pod_labels(job),
                    "annotations": {names.CONFIGURATION_ANNOTATION: digest},
                },
                "spec": _pod(job, wanted),
            },
        },
    }


def _pod_labels(job: Job) -> dict[str, str]:
    """They are not those of the job's own pods, which its Services select."""
    return {"app.kubernetes.io/name": "nfs-ganesha", "app.kubernetes.io/instance": job.name}


def _pod(job: Job, wanted: NfsServer) -> Json:
    image = wanted.image or NFS_IMAGE
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
            # The server takes any mount of a device for all of it, so none may be read-only: both are in memory.
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
