"""Before a gang starts: do its mounts answer, and are the files there that the job names?

What is missing is said with the place at which it was looked for: the server, and the path there.
"""

from collections.abc import Iterator

from windlass.jobfile import volumes
from windlass.model.base import Json
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
      echo "$2 (on the node ${{{_NODE}:-?}})" >&2
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
    """Whether anything could be missing that somebody can know of."""
    return bool(job.needs) or any(_is_elsewhere(volume) for volume in job.volumes.values())


def pod(job: Job, share: Share | None = None, namespace: str = "") -> Json:
    """It ends at once, with 1 and a line for each thing that is missing."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": helper_pods.metadata(job, name(job.name), namespace),
        "spec": {**helper_pods.pod_spec(job, share), "containers": [container(job, share)]},
    }


def container(job: Job, share: Share | None = None, *, seconds: int = 0) -> Json:
    """For a pod that has the job's volumes. It waits for so long for what is not there yet."""
    return {
        **helper_pods.container(job, CONTAINER, script(job, share, seconds=seconds)),
        "env": [{"name": _NODE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "volumeMounts": helper_pods.mounts(job, share),
    }


def script(job: Job, share: Share | None = None, *, seconds: int = 0) -> list[str]:
    """The words of a command."""
    arguments = (text for path, message in _wanted(job, share) for text in (path, message))
    return helper_pods.script(_SCRIPT, (str(seconds), *arguments))


def place_of(volume: Volume, name: str, share: Share | None = None, below: str = "") -> str:
    """Where a volume's files are, in words: the server, and the path there."""
    inside = "/".join(part for part in (volume.sub_path.strip("/"), below.strip("/")) if part)
    if volume.nfs is not None:
        return f"{_path(volume.nfs.path, inside)} of the NFS server {volume.nfs.server}"
    if volume.share:
        server = f" at {share.address}" if isinstance(share, nfs_shares.Served) else ""
        return f"{_path(volume.share, inside)} of the job's own NFS server{server}"
    if volume.cephfs is not None:
        ceph = volume.cephfs
        return (
            f"{_path(ceph.path, inside)} of the Ceph file system {ceph.fs_name} (cluster {ceph.cluster_id})"
        )
    if volume.host_path:
        return f"{_path(volume.host_path, inside)} of the node"
    kinds = {
        f"the claim {volume.pvc}": volume.pvc,
        f"the ConfigMap {volume.config_map}": volume.config_map,
        f"the Secret {volume.secret}": volume.secret,
    }
    kind = next((words for words, is_it in kinds.items() if is_it), f"the volume {name}")
    return f"/{inside} of {kind}" if inside else kind


def _wanted(job: Job, share: Share | None) -> Iterator[tuple[str, str]]:
    """Each path, and what is said where it is missing."""
    for name, volume in job.volumes.items():
        if _is_elsewhere(volume):
            yield volume.at, f"{volume.at} does not answer: it is {place_of(volume, name, share)}"
    for path in job.needs:
        found = volumes.volume_at({name: volume.at for name, volume in job.volumes.items()}, path)
        if found is None:
            yield path, f"{path} is not there"
            continue
        name, below = found
        yield path, f"{path} is not there: it should be {place_of(job.volumes[name], name, share, below)}"


def _is_elsewhere(volume: Volume) -> bool:
    """Whether somebody has to answer for it."""
    return bool(volume.nfs or volume.share or volume.cephfs or volume.pvc)


def _path(folder: str, inside: str) -> str:
    return f"{folder.rstrip('/')}/{inside}" if inside else folder
