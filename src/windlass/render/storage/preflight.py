"""Render the preflight: check before a job starts that its volumes respond and its required files exist.

A message about a missing file says where it should be, e.g. the server and the path on it.
"""

from collections.abc import Iterator

from windlass.jobfile import volumes
from windlass.model.base import Json, manifest
from windlass.model.job import Job, Volume
from windlass.render import helper_pods
from windlass.render.storage import nfs_shares
from windlass.render.storage.nfs_shares import Share

CONTAINER = "windlass-preflight"

_NODE = "WINDLASS_NODE"
_SCRIPT = f"""\
seconds=$1
shift
failed=0
while [ $# -gt 0 ]; do
  until [ -e "$1" ]; do
    if [ "$seconds" -le 0 ]; then
      echo "$2 (checked on node ${{{_NODE}:-?}})" >&2
      failed=1
      break
    fi
    seconds=$((seconds - 1))
    sleep 1
  done
  shift 2
done
exit $failed
"""


def name(job: str) -> str:
    return f"{job}-preflight"


def is_needed(job: Job) -> bool:
    """Return whether the job has required files or volumes that may be on a network."""
    return bool(job.needs) or any(_may_be_remote(volume) for volume in job.volumes.values())


def pod(job: Job, share: Share | None = None) -> Json:
    """Return a pod that checks the paths once. If paths are missing, it prints a line for each missing path and exits
    with 1."""
    spec = {**helper_pods.pod_spec(job, share), "containers": [container(job, share)]}
    return manifest("v1", "Pod", helper_pods.metadata(job, name(job.name)), spec=spec)


def container(job: Job, share: Share | None = None, *, seconds: int = 0) -> Json:
    """Return a container for a pod with the job's volumes. It waits up to `seconds` in total for missing paths."""
    return {
        **helper_pods.container(job, CONTAINER, command(job, share, seconds=seconds)),
        "env": [{"name": _NODE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "volumeMounts": helper_pods.mounts(job, share),
    }


def command(job: Job, share: Share | None = None, *, seconds: int = 0) -> list[str]:
    arguments = (text for path, message in _required_paths(job, share) for text in (path, message))
    return helper_pods.script(_SCRIPT, (str(seconds), *arguments))


def place_of(volume: Volume, name: str, share: Share | None = None, relative_path: str = "") -> str:
    """Return a description of where a file of a volume is, e.g. the path and the server."""
    inside = "/".join(part for part in (volume.sub_path.strip("/"), relative_path.strip("/")) if part)
    if volume.nfs is not None:
        return f"{_path(volume.nfs.path, inside)} on the NFS server {volume.nfs.server}"
    if volume.share:
        server = f" at {share.address}" if isinstance(share, nfs_shares.Served) else ""
        return f"{_path(volume.share, inside)} on the job's NFS server{server}"
    if (ceph := volume.cephfs) is not None:
        path = _path(ceph.path, inside)
        return f"{path} on the Ceph file system {ceph.fs_name} (cluster {ceph.cluster_id})"
    if volume.host_path:
        return f"{_path(volume.host_path, inside)} on the node"
    kinds = {"claim": volume.pvc, "ConfigMap": volume.config_map, "Secret": volume.secret}
    sources = (f"the {kind} {source}" for kind, source in kinds.items() if source)
    source = next(sources, f"the volume {name}")
    return f"/{inside} in {source}" if inside else source


def _required_paths(job: Job, share: Share | None) -> Iterator[tuple[str, str]]:
    """Yield each path with the message to print if it is missing."""
    for name, volume in job.volumes.items():
        if _may_be_remote(volume):
            yield volume.at, f"{volume.at} does not respond: it is {place_of(volume, name, share)}"
    for path in job.needs:
        found = volumes.volume_at({name: volume.at for name, volume in job.volumes.items()}, path)
        if found is None:
            yield path, f"{path} does not exist"
            continue
        name, relative_path = found
        yield (
            path,
            f"{path} does not exist: expected {place_of(job.volumes[name], name, share, relative_path)}",
        )


def _may_be_remote(volume: Volume) -> bool:
    return bool(volume.nfs or volume.share or volume.cephfs or volume.pvc)


def _path(folder: str, inside: str) -> str:
    return f"{folder.rstrip('/')}/{inside}" if inside else folder
